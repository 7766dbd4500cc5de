//! An optimizer of one's own: its update rule stands in the spec, and is one fused pass over each variable.

use ndarray::{Array1, Array2};

trainspec::train! {
    spec lion;

    /// The sign of an interpolated momentum (Chen et al., 2023).
    optimizer my_lion(learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.99) {
        slot m = zeros;
        param <- param - learning_rate * sign(beta1 * m + (1 - beta1) * grad);
        m <- beta2 * m + (1 - beta2) * grad;
    }

    model (x: f32[batch, 2], label: i64[batch] in 0..2) {
        let logits = x |> dense(16, activation: tanh) |> dense(2);
        loss sparse_softmax_cross_entropy(labels: label, logits: logits);
        metric accuracy = argmax(logits, axis: 1) == label;
    }

    train { optimizer my_lion(learning_rate: 3e-3); }
}

fn main() -> Result<(), trainspec::Error> {
    // Exclusive or, which no line separates.
    let x = Array2::from_shape_fn(
        (64, 2),
        |(i, j)| if (i >> j) & 1 == 1 { 1.0_f32 } else { -1.0 },
    );
    let label: Array1<i64> = (0..64).map(|i| (i & 1) ^ ((i >> 1) & 1)).collect();
    let feeds = lion::Feeds {
        x: x.view(),
        label: label.view(),
    };
    let mut session = lion::Session::builder().seed(1).build()?;
    for step in 1..=400 {
        let out = session.step(&feeds)?;
        let right = out.accuracy.iter().filter(|right| **right).count();
        if step % 100 == 0 {
            println!("step {step}: loss {:.4}, {right} of 64 right", out.loss);
        }
    }
    assert!(session.eval(&feeds)?.accuracy.iter().all(|right| *right));
    Ok(())
}
