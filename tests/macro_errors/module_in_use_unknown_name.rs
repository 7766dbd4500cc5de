trainspec::train! {
    spec wrong;
    const CLASSES = 3;
    model (x: f32[batch, 4], y: i64[batch] in 0..3) {
        let logits = dense(z, CLASSES);
        output scores = logits;
        loss mean(sparse_softmax_cross_entropy_with_logits(y, logits));
        metric accuracy = argmax(logits, axis: 1) == y;
    }
    train { optimizer adam(1e-3); }
}

use trainspec::ndarray::{Array1, Array2};

fn main() -> Result<(), trainspec::Error> {
    let (x, y) = (Array2::<f32>::zeros((2, 4)), Array1::<i64>::zeros(2));
    let mut session = wrong::Session::builder().seed(wrong::CLASSES).build()?;
    let out = session.step(&wrong::Feeds { x: x.view(), y: y.view() })?;
    println!("{} {}", out.loss, out.accuracy.iter().filter(|right| **right).count());
    let outputs = session.predict(&wrong::Inputs { x: x.view() })?;
    let scores: Array2<f32> = outputs.scores;
    println!("{} {}", scores[[0, 1]], session.params().dense.kernel[[0, 1]]);
    Ok(())
}
