trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { output y = relu(x, 0.1); }
}

fn main() {}
