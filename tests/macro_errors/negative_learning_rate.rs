trainspec::train! {
    spec wrong;
    model (x: f32[2]) { param w: f32[2] = zeros(); loss sum(x * w); }
    train { optimizer adam(learning_rate: -0.01); }
}

fn main() {}
