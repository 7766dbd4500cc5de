trainspec::train! {
    spec wrong;
    model (x: float32[batch, 4]) { output y = 2.0 * x; }
}

fn main() {}
