//! A service that answers while it learns: one thread trains, another predicts with the newest snapshot. Both run the same machine code,
//! each in memory of its own, so no question waits for a step.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ndarray::{Array1, Array2};

trainspec::train! {
    spec demand;

    model (hour: f32[batch], sold: f32[batch]) {
        let day = 2.0 * 3.14159265 * hour / 24.0;
        let features = stack([sin(day), cos(day)], axis: 1);
        let expected = dense(features, 1)[_, 0];
        loss mean(square(expected - sold));
        output forecast = expected;
    }

    train { optimizer gradient_descent(0.1); }
}

/// The hours that somebody asks for, and where the answer goes.
type Question = (Vec<f32>, Sender<Array1<f32>>);

/// Answers questions with the newest snapshot, until nobody asks any more.
fn serve(
    mut model: demand::Session,
    snapshots: Receiver<demand::Session>,
    questions: Receiver<Question>,
) -> Result<u32, trainspec::Error> {
    let mut answered = 0;
    for (hours, reply) in questions {
        if let Some(newest) = snapshots.try_iter().last() {
            model = newest;
        }
        let hour = Array1::from(hours);
        let outputs = model.predict(&demand::Inputs { hour: hour.view() })?;
        // Who asked may have left.
        let _ = reply.send(outputs.forecast);
        answered += 1;
    }
    Ok(answered)
}

fn main() -> Result<(), trainspec::Error> {
    let mut training = demand::Session::builder().seed(1).build()?;
    let (publish, snapshots) = channel();
    let (ask, questions) = channel();
    let first = training.fork()?;
    let service = thread::spawn(move || serve(first, snapshots, questions));

    let sales = Array2::from_shape_fn((24, 2), |(hour, column)| match column {
        0 => hour as f32,
        _ => 5.0 + 3.0 * (std::f32::consts::TAU * hour as f32 / 24.0).sin(),
    });
    for round in 1..=200 {
        let (hour, sold) = (sales.column(0), sales.column(1));
        training.step(&demand::Feeds { hour, sold })?;
        if round % 50 == 0 {
            publish.send(training.fork()?).expect("the service runs");
            let (reply, answer) = channel();
            ask.send((vec![6.0, 18.0], reply))
                .expect("the service runs");
            let forecast = answer.recv().expect("the service answers");
            println!(
                "after {round} steps: {:.2} at 6, {:.2} at 18",
                forecast[0], forecast[1]
            );
        }
    }
    drop(ask);
    let answered = service.join().expect("the service ends")?;
    println!("{answered} questions answered");
    Ok(())
}
