trainspec::train! {
    spec wrong;
    model (x: f32[batch], n: i64[batch]) { loss mean(x + n); }
    train { optimizer adam(1e-3); }
}

fn main() {}
