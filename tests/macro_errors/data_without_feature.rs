trainspec::train! {
    spec wrong;
    data points { source csv("points.csv"); feature x: f32[4]; batch 8; }
    model (x: f32[batch, 4], y: i64[batch] in 0..3) {
        let logits = dense(x, 3);
        output scores = logits;
        loss mean(sparse_softmax_cross_entropy_with_logits(y, logits));
    }
    train { data points; optimizer adam(1e-3); steps 10; }
}

fn main() {}
