trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4], y: f32[batch, 6]) {
        layer tower = dense(8);
        loss mean(tower(x)) + mean(tower(y));
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
