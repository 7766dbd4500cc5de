trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train { optimizer adam(1e-3); steps 10 epochs; }
    hooks { checkpoint (dir: "runs", every: 500); }
}

fn main() {}
