//! Exact resume of everything that a training keeps: the slots of every optimizer, rows of tables, the loss scale; with any number of
//! threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use trainspec::session::Options;
use trainspec::{Engine, State};
use trainspec_formats::checkpoint::{CheckpointReader, Tensor as FileTensor};
use trainspec_std::{FILES, definitions};

use crate::resume::{Folder, bits, options, resumed_at, run};
use crate::support::spec;

/// An optimizer of the library with its required arguments, and whether it can be lazy.
struct Definition {
    name: &'static str,
    arguments: String,
    is_lazy: bool,
}

/// Every optimizer of the library.
fn optimizers() -> Vec<Definition> {
    let files = FILES.iter().filter(|f| f.path.starts_with("optimizers/"));
    let found = files.flat_map(|file| {
        let named = definitions(file.text).filter(|(kind, _)| *kind == "optimizer");
        named.map(move |(_, name)| {
            let (_, rest) = file
                .text
                .split_once(&format!("\noptimizer {name}("))
                .unwrap();
            let (parameters, _) = rest.split_once(") as ").unwrap();
            let parameters: Vec<&str> = parameters.split(',').map(str::trim).collect();
            let required = parameters
                .iter()
                .filter(|p| !p.is_empty() && !p.contains('='));
            let given = required.map(|parameter| match *parameter {
                "learning_rate" => "learning_rate: 0.05",
                "momentum" => "momentum: 0.9",
                other => panic!("{name}: no test knows `{other}`"),
            });
            Definition {
                name,
                arguments: given.collect::<Vec<_>>().join(", "),
                is_lazy: parameters.iter().any(|p| p.starts_with("const lazy")),
            }
        })
    });
    found.collect()
}

/// The parts of a model with a vector and a table for each optimizer, and again where it can be lazy.
struct Parts {
    parameters: String,
    terms: Vec<String>,
    groups: String,
    count: usize,
}

fn parts() -> Parts {
    let mut parts = Parts {
        parameters: String::new(),
        terms: Vec::new(),
        groups: String::new(),
        count: 0,
    };
    for one in optimizers() {
        let lazy = one.is_lazy.then(|| match one.arguments.as_str() {
            "" => "lazy: true".to_owned(),
            given => format!("{given}, lazy: true"),
        });
        for arguments in std::iter::once(one.arguments).chain(lazy) {
            let i = parts.count;
            parts.count += 1;
            parts.parameters += &format!(
                "param d{i}: f32[3] = normal(stddev: 0.5); param t{i}: f32[6, 2] = normal(stddev: 0.5);"
            );
            parts.terms.push(format!(
                "mean(square(sum(tanh(expand_dims(x, axis: 1) * d{i}), axis: 1) + sum(gather(t{i}, at), axis: 1) - x))"
            ));
            parts.groups += &format!(
                "optimizer {}({arguments}) for [\"d{i}\", \"t{i}\"];",
                one.name
            );
        }
    }
    parts
}

/// Trains to a step in a folder, with a number of threads; where it went on from.
fn train_to(folder: &Folder, text: &str, steps: u64, threads: usize) -> (State, Option<u64>) {
    let options = Options {
        steps: Some(steps),
        engine: Engine::compiled(threads),
        ..options(folder)
    };
    let (state, events) = run(&spec(text), &options);
    (state, resumed_at(&events))
}

/// Every tensor of a checkpoint.
fn tensors(folder: &Path, step: u64) -> BTreeMap<String, FileTensor> {
    let prefix = folder.join(format!("model.ckpt-{step}"));
    let reader = CheckpointReader::open_prefix(&prefix).unwrap();
    let names = reader.names().into_iter().map(str::to_owned);
    let tensors = names.map(|name| (name.clone(), reader.get_tensor(&name).unwrap()));
    tensors.collect()
}

#[test]
fn every_optimizer_resumes_to_the_same_bits_with_any_number_of_threads() {
    let Parts {
        parameters,
        terms,
        groups,
        count,
    } = parts();
    assert!(count > 20, "{count}");
    let loss = terms.join(" + ");
    let text = format!(
        "spec all;
         data rows {{
             source csv(\"rows.csv\"); feature at: i64; feature x: f32;
             shuffle (buffer: 4, seed: 3); repeat; batch 3;
         }}
         model (at: i64[batch] in 0..6, x: f32[batch]) {{ {parameters} loss {loss}; }}
         train {{ data rows; {groups} ema (decay: 0.9); steps 6; }}
         hooks {{ checkpoint (dir: \"unused\", every: 2 steps); }}"
    );
    let folder = |name: &str| {
        let folder = Folder::new(name);
        let rows = "0,0.5\n1,-1\n4,2\n4,0.25\n1,1.5\n3,-0.5\n0,1\n";
        fs::write(folder.0.join("rows.csv"), rows).unwrap();
        folder
    };
    let straight = folder("optimizers-straight");
    let (expected, _) = train_to(&straight, &text, 6, 2);
    let pieces = folder("optimizers-pieces");
    let (early, _) = train_to(&pieces, &text, 3, 1);
    // Every optimizer has moved its variables by then, and moves them afterwards.
    for i in 0..count {
        for name in [format!("d{i}"), format!("t{i}")] {
            assert_ne!(early.get(&name), expected.get(&name), "{name}\n{groups}");
        }
    }
    assert_eq!(train_to(&pieces, &text, 4, 2).1, Some(3));
    let (state, from) = train_to(&pieces, &text, 6, 3);
    assert_eq!(from, Some(4));
    assert_eq!(bits(&state), bits(&expected));
    assert_eq!(tensors(&pieces.run(), 6), tensors(&straight.run(), 6));
}

/// A record that overflows after the first step, and a scale that grows after two updates in a row that do not.
const SCALED: &str = "spec scaled;
    data rows { source csv(\"rows.csv\"); feature x: f32; feature y: f32; repeat; batch 1; }
    model (x: f32[batch], y: f32[batch]) {
        param a: f32 = zeros();
        param b: f32 = zeros();
        loss mean(square(a * x + b - y));
    }
    train {
        data rows; optimizer adam(0.1); steps 6;
        loss_scale dynamic(initial: 1_024, growth_steps: 2, multiplier: 2.0);
    }
    hooks { checkpoint (dir: \"unused\", every: 1 steps, keep: 9); }";

#[test]
fn the_loss_scale_and_its_count_are_saved_and_go_on() {
    let folder = |name: &str| {
        let folder = Folder::new(name);
        fs::write(folder.0.join("rows.csv"), "1,3\ninf,5\n3,7\n-1,-1\n").unwrap();
        folder
    };
    let straight = folder("scaled-straight");
    let (expected, _) = train_to(&straight, SCALED, 6, 2);
    // Before the steps 2 and 5 the second record overflows, which divides the scale by 2; the steps 3 and 6 are the second in a row that do not.
    let scales = [
        (1024.0, 1),
        (512.0, 1),
        (1024.0, 0),
        (1024.0, 1),
        (512.0, 1),
        (1024.0, 0),
    ];
    for (step, (scale, good)) in (1..).zip(scales) {
        let found = tensors(&straight.run(), step);
        let saved = &found["current_loss_scale"];
        assert_eq!(saved.to_vec::<f32>().unwrap(), [scale], "step {step}");
        let saved = &found["good_steps"];
        assert_eq!(saved.to_vec::<i64>().unwrap(), [good], "step {step}");
        // What is scratch is not saved.
        assert!(found.keys().all(|name| !name.starts_with('#')), "{found:?}");
    }
    for interrupted in 1..6 {
        let pieces = folder("scaled-pieces");
        train_to(&pieces, SCALED, interrupted, 1);
        let (state, from) = train_to(&pieces, SCALED, 6, 2);
        assert_eq!(from, Some(interrupted));
        assert_eq!(bits(&state), bits(&expected), "from {interrupted}");
        assert_eq!(tensors(&pieces.run(), 6), tensors(&straight.run(), 6));
    }
}
