//! A self-test: small trainings by machine code and by the interpreter, whose numbers must agree.
//!
//! In: an engine, and the time that may pass. Out: what was compared, and the largest difference. Leaves alone: files; the specs are here.

use std::time::{Duration, Instant};

use trainspec_compiler::lower::Binding;
use trainspec_compiler::{FetchSet, PipelineOptions, ProgramKind, Trainable, pipeline, synthetic};

use crate::program::{Engine, Feeds, prepare};
use crate::{Error, State, check};

/// The outcome of a self-test.
///
/// ```
/// use trainspec::internals::self_test::SelfTest;
///
/// assert!(SelfTest::default().failures.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SelfTest {
    /// How many programs were compared: each spec at each size.
    pub programs: u64,
    /// Their kernels.
    pub kernels: u64,
    /// The numbers that were compared.
    pub values: u64,
    /// The largest difference, relative to the largest value of its tensor.
    pub largest: f64,
    /// What differs by more than rounding explains.
    pub failures: Vec<String>,
}

/// The specs: the kinds of kernels that a step can have. No gradient in them is 0 in exact arithmetic: it would be rounding alone.
const SPECS: [&str; 6] = [
    "spec dense;
     model (x: f32[batch, 19], label: i64[batch] in 0..7) {
         let logits = x |> dense(33, activation: gelu) |> layer_norm |> dense(16, activation: tanh) |> dense(7);
         loss sparse_softmax_cross_entropy(labels: label, logits: logits);
         output best = argmax(logits, axis: -1);
     }
     train { optimizer adam(0.01); clip global_norm(1.0); }",
    "spec convolutions;
     model (x: f32[batch, 12, 12, 3]) {
         let y = x |> conv2d(8, size: 3, padding: \"same\", use_bias: false) |> batch_norm |> softplus |> avg_pool(2) |> conv2d(5, size: 5, padding: \"same\");
         loss mean(square(y));
         output y = global_avg_pool(y);
     }
     train { optimizer momentum(learning_rate: 0.1, momentum: 0.9); }",
    "spec attention;
     model (x: f32[batch, 9, 16]) {
         let y = x |> attention(4, causal: true, use_bias: false) |> rms_norm;
         loss mean(square(y - x));
         output y = y;
     }
     train { optimizer adamw(0.01, weight_decay: 0.1); }",
    "spec recurrent;
     model (x: f32[batch, 7, 5]) {
         let y = x |> gru(6);
         loss mean(square(y));
         output y = y;
     }
     train { optimizer gradient_descent(0.1); }",
    "spec rows;
     model (word: i64[batch] in 0..40) {
         let y = embedding(word, 40, 24);
         loss mean(square(y - 1.0));
         output y = y;
     }
     train { optimizer adagrad(0.1); }",
    "spec functions;
     model (x: f64[batch, 31]) {
         param w: f64[31] = ones();
         let y = exp(-abs(x * w)) + log(1.0 + square(x * w)) + sin(x) * cos(w) + erf(x * w) + sigmoid(x - w) + pow(abs(x) + 0.5, w);
         loss mean(y * sum(y, axis: -1, keepdims: true));
         output sorted = cumsum(y, axis: -1);
     }
     train { optimizer rmsprop(0.01); }",
];

/// The sizes of a batch: below, at and above the lengths of vectors, and several blocks of a matrix product.
const BATCHES: [i64; 5] = [3, 8, 17, 1, 33];

/// The difference that rounding explains, relative to the largest value of a tensor.
const TOLERANCE: f64 = 1e-3;

/// Trains each spec for a step by machine code and by the interpreter, at one size after the other, for about `time`, and compares all
/// results and the state.
pub fn self_test(engine: &Engine, time: Duration) -> Result<SelfTest, Error> {
    let start = Instant::now();
    let mut outcome = SelfTest::default();
    for (round, batch) in BATCHES.into_iter().enumerate() {
        for text in SPECS {
            // Each spec is compared once, however slow the machine is.
            if round > 0 && start.elapsed() >= time {
                return Ok(outcome);
            }
            outcome.compare(text, batch, engine)?;
        }
    }
    Ok(outcome)
}

impl SelfTest {
    fn compare(&mut self, text: &str, batch: i64, engine: &Engine) -> Result<(), Error> {
        let spec = check("self-test", text)?;
        let trainable = Trainable::from(spec.clone());
        let dims = Binding::from([("batch".to_owned(), batch)]);
        let options = PipelineOptions::default();
        let graph = pipeline::lower(&trainable, ProgramKind::Step, &dims)?.graph;
        let inputs = synthetic::inputs(&spec, &graph, batch);
        let initial = State::initial(&trainable, batch, &options, &Engine::Interpreted)?;
        let run = |engine: &Engine| -> Result<_, Error> {
            let mut state = initial.clone();
            let mut program = prepare(graph.clone(), &FetchSet::All, &options, engine)?;
            let fetched = program.run(Feeds::from(&inputs), &mut state)?;
            Ok((fetched, state, program.kernels().len()))
        };
        let (expected, expected_state, _) = run(&Engine::Interpreted)?;
        let (found, found_state, kernels) = run(engine)?;
        self.programs += 1;
        self.kernels += kernels as u64;
        let results = expected
            .0
            .iter()
            .filter_map(|(name, a)| Some((name, a, found.get(name)?)));
        let names = expected_state.names().iter();
        let state = names
            .filter_map(|name| Some((name, expected_state.get(name)?, found_state.get(name)?)));
        for (name, expected, found) in results.chain(state) {
            let (expected, found) = (expected.to_f64s(), found.to_f64s());
            self.values += expected.len() as u64;
            let scale = expected.iter().fold(1e-6_f64, |most, x| most.max(x.abs()));
            let differences = expected
                .iter()
                .zip(&found)
                .map(|(a, b)| (a - b).abs() / scale);
            // A NaN is the largest difference.
            let largest = differences.fold(0.0, |most: f64, d| {
                if d.is_nan() {
                    f64::INFINITY
                } else {
                    most.max(d)
                }
            });
            self.largest = self.largest.max(largest);
            if largest > TOLERANCE || expected.len() != found.len() {
                self.failures.push(format!(
                    "`{name}` of {} with batch = {batch} differs by {largest:.1e}",
                    spec.name
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_agrees_with_the_interpreter() {
        let outcome = self_test(&Engine::compiled(2), Duration::ZERO).unwrap();
        assert_eq!(outcome.programs, SPECS.len() as u64);
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert!(outcome.kernels > 50 && outcome.values > 1000, "{outcome:?}");
    }
}
