trainspec::train! {
    spec wrong, edition 2;
    model (x: f32[batch, 4]) { output y = x; }
}

fn main() {}
