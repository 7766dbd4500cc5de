trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        layer head = dense(1);
        let penalty = l2_loss(head.kernel);
        loss mean(head(x)) + penalty;
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
