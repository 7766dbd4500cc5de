trainspec::train! {
    spec wrong;
    model (x: f32[batch], crate: f32[batch]) {
        param a: f32 = ones();
        loss mean(a * x * crate);
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
