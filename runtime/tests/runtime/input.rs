//! The input of a training on its thread: the batches are those that are read without one, and no thread outlives it.

use trainspec::internals::data::{Batch, Input};

use crate::support::{MemoryEnv, eventually, numbers, open, threads};

const SETTINGS: &str = "source csv(\"n.csv\"); feature x: i64; map y = cast(x, f32) / 3.0;
    shuffle (buffer: 20, seed: 4); batch 3; epochs 3;";

fn input(env: &MemoryEnv, settings: &str) -> Input {
    Input::new(open(env, settings, 1).unwrap())
}

fn all(mut input: Input) -> Vec<Batch> {
    let mut batches = Vec::new();
    while let Some(batch) = input.next().unwrap() {
        batches.push(batch);
    }
    assert_eq!(input.next().unwrap(), None, "the end stays");
    batches
}

#[test]
fn batches_that_are_prepared_ahead_are_the_same() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(100))]);
    let expected = all(input(&env, SETTINGS));
    assert_eq!(expected.len(), 99);
    assert_eq!(all(input(&env, SETTINGS).ahead()), expected);
    let few = format!("{SETTINGS} prefetch 1;");
    let elements = |batches: &[Batch]| -> Vec<_> {
        batches
            .iter()
            .map(|b| (b.element.clone(), b.passes, b.last))
            .collect()
    };
    assert_eq!(
        elements(&all(input(&env, &few).ahead())),
        elements(&expected)
    );
}

#[test]
fn an_input_goes_back_while_its_thread_is_ahead() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(100))]);
    let expected = all(input(&env, SETTINGS));
    let mut ahead = input(&env, SETTINGS).ahead();
    for at in [40, 3, 98, 0, 57] {
        match at {
            0 => ahead = input(&env, SETTINGS).ahead(),
            _ => {
                ahead.seek(&expected[at - 1].position).unwrap();
            }
        }
        assert_eq!(ahead.peek().unwrap().as_ref(), Some(&expected[at].element));
        assert_eq!(ahead.next().unwrap().as_ref(), Some(&expected[at]));
        assert_eq!(*ahead.position(), expected[at].position);
    }
}

#[test]
fn errors_come_after_the_batches_before_them() {
    let mut bytes = numbers(50);
    bytes.extend_from_slice(b"seven\n");
    let env = MemoryEnv::new(&[("n.csv", &bytes)]);
    let settings = "source csv(\"n.csv\"); feature x: i64; batch 5;";
    for mut input in [input(&env, settings), input(&env, settings).ahead()] {
        for i in 0..10 {
            let batch = input.next().unwrap().unwrap();
            assert_eq!(batch.element.values["x"].to_i64s()[0], i * 5);
            assert!(!batch.last);
        }
        for _ in 0..2 {
            let error = input.next().unwrap_err();
            assert_eq!(error.to_string(), "n.csv:51: column `x`: `seven` is no i64");
        }
    }
}

#[test]
fn a_thousand_inputs_start_and_stop_at_any_batch() {
    let env = MemoryEnv::new(&[("n.csv", &numbers(60))]);
    let spec = crate::support::spec(&format!("spec test; data stress {{ {SETTINGS} }}"));
    let cx = crate::support::context(&env, &spec, 1);
    for round in 0..1000_usize {
        let pipeline = trainspec::internals::data::Pipeline::open(&cx, &spec.data[0]).unwrap();
        let mut input = Input::new(pipeline).ahead();
        for _ in 0..round % 7 {
            input.next().unwrap().unwrap();
        }
        if round % 3 == 0 {
            input.seek(&input.position().clone()).unwrap();
            input.next().unwrap().unwrap();
        }
    }
    eventually("no thread is left", || threads("data stress") == 0);
}
