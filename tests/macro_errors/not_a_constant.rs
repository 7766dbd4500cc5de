trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4], n: i64) { loss mean(dense(x, n)); }
    train { optimizer adam(1e-3); }
}

fn main() {}
