trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        param offset: f32[4] = zeros();
        offset <- 0.9 * offset;
        loss mean(x + offset);
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
