trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) { output y = x * 2f32; }
    hooks { checkpoint (dir: "runs", every: 30s); }
}

fn main() {}
