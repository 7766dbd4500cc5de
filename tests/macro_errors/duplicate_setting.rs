trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train { optimizer adam(1e-3); seed 1; seed 2; }
}

fn main() {}
