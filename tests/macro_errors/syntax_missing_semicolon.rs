trainspec::train! {
    spec wrong;
    model (x: f32[batch]) {
        let a = x
        loss mean(a);
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
