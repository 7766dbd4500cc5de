trainspec::train! {
    spec wrong;
    block tower(v: f32[.., n]) {
        let h = dense(v, 8);
        h @ v
    }

    model (x: f32[batch, 4]) { loss mean(tower(x)); }
    train { optimizer adam(1e-3); }
}

fn main() {}
