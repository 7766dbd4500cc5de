trainspec::train! {
    spec wrong;
    const scan = 3;
    model (x: f32[batch, 4]) { output y = x; }
}

fn main() {}
