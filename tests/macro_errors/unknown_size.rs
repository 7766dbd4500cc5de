trainspec::train! {
    spec wrong;
    model (x: f32[batch, n]) { loss mean(dense(x, 1)); }
    train { optimizer adam(1e-3); }
}

fn main() {}
