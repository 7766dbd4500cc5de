trainspec::train! {
    spec wrong;
    const PAD = 3;
    model (x: f32[batch, 2 - PAD]) { output y = x; }
}

fn main() {}
