trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        layer head = dense(1);
        let y = head(x);
        loss mean(y) + l2_loss(head.kernal);
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
