trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { loss mean(conv2d(x, 3, 3)); }
    train { optimizer adam(1e-3); }
}

fn main() {}
