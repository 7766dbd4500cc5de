//! Online learning: clicks arrive one batch at a time, each is predicted first and learned from afterwards.

use ndarray::{Array1, Array2};

trainspec::train! {
    spec clicks;

    const BUCKETS = 1_000;
    const FIELDS = 4;

    model (ids: i64[batch, FIELDS] in 0..1_000, clicked: f32[batch]) {
        param weights: f32[BUCKETS] = zeros();
        param bias: f32 = zeros();
        let logit = sum(embedding_lookup(weights, ids), axis: 1) + bias;
        loss sigmoid_cross_entropy(multi_class_labels: clicked, logits: logit);
        output probability = sigmoid(logit);
    }

    train { optimizer ftrl(0.3, l1_regularization_strength: 0.02); }
}

/// A stream of impressions: each field has ids of its own, and the first one decides about a click.
fn impressions(round: u64) -> (Array2<i64>, Array1<f32>) {
    let per_field = clicks::BUCKETS / clicks::FIELDS;
    let mut random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let ids = Array2::from_shape_fn((32, clicks::FIELDS as usize), |(_, field)| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        field as i64 * per_field + (random % per_field as u64) as i64
    });
    let clicked = ids.column(0).mapv(|id| f32::from(id < per_field / 2));
    (ids, clicked)
}

fn main() -> Result<(), trainspec::Error> {
    let mut session = clicks::Session::new()?;
    let mut right = 0;
    for round in 1..=2_000 {
        let (ids, clicked) = impressions(round);
        let outputs = session.predict(&clicks::Inputs { ids: ids.view() })?;
        let predicted = outputs.probability.iter().zip(&clicked);
        right += predicted
            .filter(|(p, clicked)| (**p > 0.5) == (**clicked > 0.5))
            .count();
        session.step(&clicks::Feeds {
            ids: ids.view(),
            clicked: clicked.view(),
        })?;
        if round % 500 == 0 {
            println!(
                "round {round}: {:.1}% of the last 500 were predicted",
                right as f32 / 160.0
            );
            right = 0;
        }
    }
    let zeros = session
        .params()
        .weights
        .iter()
        .filter(|w| **w == 0.0)
        .count();
    println!("{zeros} of {} weights are exactly 0", clicks::BUCKETS);
    Ok(())
}
