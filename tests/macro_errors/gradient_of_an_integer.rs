trainspec::train! {
    spec wrong;
    model (n: i64[batch]) { param k: i64 = zeros(); loss mean(cast(n + k, f32)); }
    train { optimizer adam(1e-3); }
}

fn main() {}
