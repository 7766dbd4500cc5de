trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { output y = sum(x, axis: 2); }
}

fn main() {}
