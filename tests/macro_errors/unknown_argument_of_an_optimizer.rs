trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { loss mean(dense(x, 8)); }
    train { optimizer adam(lr: 1e-3); }
}

fn main() {}
