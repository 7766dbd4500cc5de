trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4], w: f32[5, 2]) { loss mean(x @ w); }
    train { optimizer adam(1e-3); }
}

fn main() {}
