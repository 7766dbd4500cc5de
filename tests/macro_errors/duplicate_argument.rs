trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { output y = dense(x, 8, units: 16); }
}

fn main() {}
