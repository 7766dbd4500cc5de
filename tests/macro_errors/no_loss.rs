trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { output y = dense(x, 3); }
    train { optimizer adam(1e-3); }
}

fn main() {}
