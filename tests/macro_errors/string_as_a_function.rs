trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4], y: i64[batch] in 0..3) {
        let logits = dense(x, 3, activation: "relu");
        output scores = logits;
        loss mean(sparse_softmax_cross_entropy_with_logits(y, logits));
    }
    train { optimizer adam(1e-3); }
}

fn main() {}
