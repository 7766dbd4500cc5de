//! Handwritten digits from a spec file, trained as the spec says, then used with typed feeds.

use ndarray::Array2;
use trainspec::Event;

trainspec::train!(file: "../../../digits_mlp.trainspec");

fn main() -> Result<(), trainspec::Error> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let runs = std::env::temp_dir().join(format!("digits-{}", std::process::id()));
    // As `trainspec run` does: data, evaluations, checkpoints, event files.
    let mut session = digits::Session::builder()
        .data_dir(folder)
        .dir(&runs)
        .steps(500)
        .run(&mut |event: &Event| {
            if let Event::Evaluated { step, .. } = event {
                println!("evaluated after step {step}");
            }
        })?;
    println!(
        "{} steps, {} hidden units",
        session.global_step(),
        digits::HIDDEN
    );

    let test =
        std::fs::read_to_string(format!("{folder}/data/digits-test.csv")).expect("the test set");
    let rows: Vec<Vec<f32>> = test
        .lines()
        .map(|line| {
            line.split(',')
                .map(|n| n.parse().expect("a number"))
                .collect()
        })
        .collect();
    let image = Array2::from_shape_fn((rows.len(), 64), |(i, j)| rows[i][j] / 16.0);
    let outputs = session.predict(&digits::Inputs {
        image: image.view(),
    })?;
    let right =
        rows.iter()
            .zip(outputs.probabilities.outer_iter())
            .filter(|(row, probabilities)| {
                let best = probabilities
                    .iter()
                    .enumerate()
                    .max_by(|a, b| a.1.total_cmp(b.1));
                best.is_some_and(|(digit, _)| digit as f32 == row[64])
            });
    let accuracy = right.count() as f32 / rows.len() as f32;
    println!(
        "accuracy on {} digits: {:.1}%",
        rows.len(),
        100.0 * accuracy
    );
    assert!(accuracy > 0.9);
    std::fs::remove_dir_all(runs).expect("the run folder");
    Ok(())
}
