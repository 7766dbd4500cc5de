#![deny(deprecated)]

trainspec::train! {
    spec widens;
    model (x: f32[batch, 4], y: f32[batch]) {
        let p = dense(x, 1);
        loss mean(square(p - y));
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
