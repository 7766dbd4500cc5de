//! Fine-tuning: a layer that TensorFlow trained is taken from its checkpoint and frozen, and a new head is trained on it.

use ndarray::{Array1, Array2};

trainspec::train! {
    spec tuned;

    warm_start (checkpoint: "runs/tensorflow", vars: "layer1/w");

    /// A layer of the older model: its variable has the name that it has there.
    block projection(x: f32[batch, 3]) {
        param w: f32[3, 4] = zeros();
        x @ w
    }

    model (x: f32[batch, 3], y: f32[batch]) {
        layer layer1 = projection();
        let features = tanh(0.1 * layer1(x));
        let guess = dense(features, 1)[_, 0];
        loss mean(square(guess - y));
        output prediction = guess;
    }

    train { optimizer adam(0.05); freeze "layer1/**"; }
}

/// Where TensorFlow saved its model; `warm_start` names another folder, which this program does not have.
const CHECKPOINT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/oracle/checkpoints/single/model.ckpt-1000"
);

fn main() -> Result<(), trainspec::Error> {
    let mut session = tuned::Session::builder()
        .seed(1)
        .configure(|builder| {
            builder.options(|options| options.warm_start = Some(CHECKPOINT.into()))
        })
        .build()?;
    let taken = session.params().layer1.w.to_owned();
    println!(
        "from TensorFlow: {} = {taken:.3}",
        tuned::params::layer1::w::NAME
    );

    let x = Array2::from_shape_fn((32, 3), |(i, j)| ((7 * i + 3 * j) % 11) as f32 / 11.0 - 0.5);
    let y: Array1<f32> = x
        .rows()
        .into_iter()
        .map(|row| row[0] - 2.0 * row[2])
        .collect();
    let feeds = tuned::Feeds {
        x: x.view(),
        y: y.view(),
    };
    let before = session.eval(&feeds)?.loss;
    for _ in 0..300 {
        session.step(&feeds)?;
    }
    let after = session.eval(&feeds)?.loss;
    println!("loss {before:.4}, after 300 steps {after:.4}");
    assert!(after < 0.1 * before);
    assert_eq!(session.params().layer1.w, taken, "what is frozen stays");
    Ok(())
}
