trainspec::train! {
    spec;
    model (x: f32[batch]) { output y = x; }
}

fn main() {}
