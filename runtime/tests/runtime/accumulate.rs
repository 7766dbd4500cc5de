//! Gradient accumulation: the order of the sums, what hooks see, and updates that are stopped between two micro-batches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use trainspec::Engine;
use trainspec::session::{End, Event, Options, Reading};
use trainspec::train;
use trainspec::{State, StopToken};
use trainspec_compiler::{Binding, Footprint};
use trainspec_formats::files::ReadAt;

use crate::support::{MemoryEnv, RunDir, run, spec};

/// Numbers of very different sizes, so that every order of additions has other bits.
fn terms(count: usize) -> Vec<f32> {
    let mut seed = 7_u64;
    let mut next = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let mantissa = (seed >> 40) as f32 / (1 << 24) as f32 - 0.5;
        mantissa * 2_f32.powi((seed >> 32) as i32 % 5)
    };
    (0..count).map(|_| next()).collect()
}

/// The sum of a balanced binary tree, as it is defined: [lo, hi) splits at lo + the largest power of two below hi - lo.
fn tree_sum<T: Copy>(terms: &[T], add: &impl Fn(T, T) -> T) -> T {
    match terms {
        [one] => *one,
        all => {
            let below = (1..all.len()).rev().find(|n| n.is_power_of_two());
            let (left, right) = all.split_at(below.unwrap());
            add(tree_sum(left, add), tree_sum(right, add))
        }
    }
}

/// The gradient of `a` is x, the loss z: a record each.
fn linear(accumulate: usize) -> String {
    format!(
        "spec linear;
         data d {{ source csv(\"terms.csv\"); feature x: f32; feature z: f32; batch 1; }}
         model (x: f32[batch], z: f32[batch]) {{
             param a: f32 = zeros();
             loss mean(a * x + z);
             metric own = z + 0.0 * a;
         }}
         train {{
             data d; schedule lr = polynomial_decay(1.0, decay_steps: 100, end_learning_rate: 1.0);
             optimizer gradient_descent(lr); accumulate {accumulate}; steps 1;
         }}
         hooks {{ log ([loss, own, lr], every: 1 steps); }}"
    )
}

fn on(engine: Engine) -> Options {
    Options {
        engine,
        ..Options::default()
    }
}

#[test]
fn gradients_losses_and_metrics_are_summed_by_a_balanced_tree() {
    let (x, z) = (terms(9), terms(18).split_off(9));
    let lines: String = x
        .iter()
        .zip(&z)
        .map(|(x, z)| format!("{x},{z}\n"))
        .collect();
    let env = MemoryEnv::new(&[("terms.csv", lines.as_bytes())]);
    let mut orders = 0;
    for count in 1..=9 {
        let add = |a: f32, b: f32| a + b;
        let gradient = tree_sum(&x[..count], &add) / count as f32;
        let loss = tree_sum(&z[..count], &add) / count as f32;
        let wide: Vec<f64> = z[..count].iter().map(|z| f64::from(*z)).collect();
        let own_wide = tree_sum(&wide, &|a, b| a + b) / count as f64;
        let serial: f32 = x[..count].iter().sum();
        orders += usize::from(serial / count as f32 != gradient);
        for engine in [
            Engine::compiled(1),
            Engine::compiled(2),
            Engine::Interpreted,
        ] {
            let (state, events) = run(&env, &linear(count), &on(engine));
            let a = state.unwrap().get("a").unwrap().to_f64s()[0];
            assert_eq!(a as f32, -gradient, "{count}");
            let step = events.iter().find_map(|event| match event {
                Event::Step { values, .. } => Some(values.clone()),
                _ => None,
            });
            let values = step.unwrap();
            assert_eq!(values[0].1, Reading::Number(f64::from(loss)), "{count}");
            let Reading::Mean(mean) = values[1].1 else {
                panic!("{values:?}")
            };
            assert_eq!((mean.value(), mean.count), (own_wide, count as f64));
            assert_eq!(values[2].1, Reading::Number(1.0));
        }
    }
    assert!(orders >= 3, "the terms are such that the order matters");
}

#[test]
fn partial_sums_are_counted_as_memory() {
    let memory = |accumulate: usize| {
        let text =
            linear(accumulate).replace("param a: f32 = zeros();", "let a = dense([[1.0]], 64);");
        let text = text
            .replace("a * x", "sum(a) * x")
            .replace("0.0 * a", "0.0 * sum(a)");
        let spec = spec(&text);
        Footprint::of(&spec, &Binding::new()).unwrap()
    };
    // The stack is as deep as log2 of the count; beside it there is the count of micro-batches.
    let variables = 4 * (64 + 64);
    let state = |accumulate| memory(accumulate).state;
    assert_eq!(state(1), variables + 8);
    for (accumulate, depth) in [(2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (9, 3)] {
        assert_eq!(state(accumulate), (1 + depth) * variables + 2 * 8);
    }
    assert!(memory(2).step.unwrap() > memory(1).step.unwrap());
}

/// Dropout, batch norm and a matrix, so that random numbers, state of blocks and several threads take part.
fn network(accumulate: usize, steps: u64) -> String {
    format!(
        "spec network;
         data d {{
             source csv(\"points.csv\"); feature x: f32; feature y: f32;
             shuffle (buffer: 5, seed: 3); repeat; batch 2;
         }}
         model (x: f32[batch], y: f32[batch]) {{
             let h = expand_dims(x, axis: 1) |> dense(64) |> batch_norm |> tanh |> dropout(0.25);
             let guess = (h |> dense(64) |> dense(1))[_, 0];
             loss mean(square(guess - y));
         }}
         train {{
             data d; optimizer adam(0.01); ema (decay: 0.9); accumulate {accumulate}; steps {steps};
         }}
         hooks {{ checkpoint (dir: \"unused\", every: 2 steps); }}"
    )
}

const POINTS: &[u8] = b"0,1\n1,3\n2,5\n3,7\n-1,-1\n-2,-3\n0.5,2\n1.5,4\n2.5,6\n-1.5,-2\n-0.5,0\n";

fn bits(state: &State) -> Vec<(String, Vec<u64>)> {
    let all = state.names().iter().zip(state.values());
    let bits = |value: &trainspec::Tensor| value.to_f64s().iter().map(|x| x.to_bits()).collect();
    all.map(|(name, value)| (name.clone(), bits(value)))
        .collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let env = MemoryEnv::new(&[("points.csv", POINTS)]);
    for accumulate in [2, 4, 7] {
        let text = network(accumulate, 3);
        let (one, _) = run(&env, &text, &on(Engine::compiled(1)));
        let (two, _) = run(&env, &text, &on(Engine::compiled(2)));
        assert_eq!(bits(&one.unwrap()), bits(&two.unwrap()), "{accumulate}");
    }
}

/// A file that sets a stop token at the n-th read.
struct StoppingFile {
    inner: Box<dyn ReadAt>,
    reads: Arc<AtomicU64>,
    stop_at: u64,
    stop: StopToken,
}

impl ReadAt for StoppingFile {
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.stop_at {
            self.stop.request_stop();
        }
        self.inner.read_at(offset, buffer)
    }
}

#[test]
fn a_stop_within_an_update_discards_its_micro_batches() {
    let memory = MemoryEnv::new(&[("points.csv", POINTS)]);
    let spec = spec(&network(5, 7));
    let train_in = |dir: &RunDir, stop_at: u64| {
        let stop = StopToken::default();
        let (reads, token) = (Arc::<AtomicU64>::default(), stop.clone());
        let env = memory.env_opening(move |inner| {
            Box::new(StoppingFile {
                inner,
                reads: reads.clone(),
                stop_at,
                stop: token.clone(),
            })
        });
        let options = Options {
            dir: Some(dir.0.clone()),
            engine: Engine::compiled(1),
            stop,
            env,
            ..Options::default()
        };
        let mut events = Vec::new();
        let state = train(&spec, &options, &mut |event: &Event| {
            events.push(event.clone());
        });
        (state.unwrap(), events)
    };
    let (straight, _) = train_in(&RunDir::new(), u64::MAX);
    let mut within = 0;
    for stop_at in (20..150).step_by(6) {
        let dir = RunDir::new();
        let (stopped, events) = train_in(&dir, stop_at);
        let note = "stopped within an update of 5 micro-batches";
        let is_note = |e: &Event| matches!(e, Event::Note(text) if text.starts_with(note));
        if events.iter().any(is_note) {
            within += 1;
            let Some(Event::Ended { step, why, .. }) = events.last() else {
                panic!("{events:?}")
            };
            assert_eq!((*step, why), (stopped.step(), &End::Stopped));
        }
        let (resumed, _) = train_in(&dir, u64::MAX);
        assert_eq!(bits(&resumed), bits(&straight), "stopped at read {stop_at}");
    }
    assert!(within > 5, "{within} stops were within an update");
}

#[test]
fn a_dry_run_says_what_accumulate_takes() {
    let memory = MemoryEnv::new(&[("points.csv", POINTS)]);
    let sizes = |accumulate| {
        let options = Options {
            env: memory.env(),
            engine: Engine::compiled(1),
            ..Options::default()
        };
        trainspec::dry_run(&spec(&network(accumulate, 3)), &options).unwrap()
    };
    let one = sizes(1);
    assert_eq!(one.accumulate_bytes, 0);
    for count in [2, 4] {
        let found = sizes(count as usize);
        let batches = (count - 1) * one.batch_bytes;
        assert_eq!(found.batch_bytes, one.batch_bytes + batches);
        // The partial sums are more state, the program of micro-batches more of the step.
        let sums = found.state_bytes - one.state_bytes;
        assert!(sums > 4 * 64 * 64, "{sums}");
        let program = found.accumulate_bytes - batches - sums;
        assert!(0 < program && program < found.step_bytes, "{found:?}");
    }
}
