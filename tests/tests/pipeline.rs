//! The compiler pipeline: what `emit` shows is what runs, and a step is its gradients and their application.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec::internals::data::Element;
use trainspec::session::{Options as RunOptions, Session};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::interp;
use trainspec_compiler::lower::{GLOBAL_STEP, SEED};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{
    Binding, Compilation, EmitOptions, FetchSet, Options, PipelineOptions, ProgramKind, Stage,
    Trainable, pipeline, synthetic,
};

fn examples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut found = Vec::new();
    for folder in [root.clone(), root.join("bench")] {
        for entry in std::fs::read_dir(folder).expect("the examples") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "trainspec") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The files beside a spec that it may use.
fn files_beside(path: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path.parent().expect("a folder")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "trainspec") {
            let name = path.file_name().expect("a name").to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a text");
            files.insert(name.into_owned(), text);
        }
    }
    files
}

/// The program of a session's first step, as text; `None` where the spec has no data of its own or cannot be run yet.
fn run_program(path: &Path, spec: &Arc<Spec>) -> Option<String> {
    let options = RunOptions {
        folder: path.parent().expect("a folder").to_owned(),
        ..RunOptions::default()
    };
    let dims = pipeline::dimensions(spec, &Binding::new()).ok()?;
    let trainable = Trainable::from(spec.clone());
    let graph = pipeline::lower(&trainable, ProgramKind::Step, &dims)
        .ok()?
        .graph;
    let batch = Element {
        values: synthetic::inputs(spec, &graph, 0),
        rows: None,
        pass: 0,
        locations: Default::default(),
    };
    let mut session = Session::new(spec, &options).ok()?;
    session.check_finite();
    session.prepare(&batch).expect("a step for the batch");
    Some(session.step_program()?.to_string())
}

#[test]
fn emitted_plan_is_the_program_that_runs() {
    let mut compared = 0;
    for path in examples() {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("a text");
        let loader = files_beside(&path);
        let compilation = Compilation::check(&name, &text, &loader, &Options::default());
        let spec = compilation.spec.as_ref().expect("examples check");
        let Some(runs) = run_program(&path, spec) else {
            continue;
        };
        let emitted = Stage::Plan.emit(
            &name,
            &text,
            &loader,
            &Options::default(),
            &EmitOptions::default(),
        );
        assert_eq!(emitted.expect("it has a plan"), runs, "{name}");
        compared += 1;
    }
    assert!(compared >= 12, "only {compared} examples were compared");
}

const SPECS: [&str; 3] = [
    "spec dense;
     model (x: f32[4, 3], y: f32[4, 2]) {
         let h = x |> dense(5) |> relu |> batch_norm;
         loss mean(square(dense(h, 2) - y));
     }
     train { optimizer adam(0.1); clip global_norm(0.5); ema (decay: 0.9); steps 2; }",
    "spec sparse;
     model (id: i64[6] in 0..10, y: f32[6]) {
         param table: f32[10, 3] = ones();
         loss mean(square(sum(gather(table, id), axis: 1) - y));
     }
     train { optimizer ftrl(0.1); steps 2; }",
    "spec scaled;
     model (x: f32[4, 3], y: f32[4, 1]) { loss mean(square(dense(x, 1) - y)); }
     train { optimizer momentum(0.1, momentum: 0.9); loss_scale dynamic(initial: 8.0); steps 2; }",
];

/// Runs a graph on a state; gives its results, after its writes.
fn run(
    graph: trainspec_compiler::ir::graph::Graph,
    inputs: &BTreeMap<String, Tensor>,
    state: &mut BTreeMap<String, Tensor>,
) -> BTreeMap<String, Tensor> {
    let graph = pipeline::simplify(graph, &FetchSet::All, &PipelineOptions::default());
    let before: Vec<Tensor> = graph.state.iter().map(|s| state[&s.name].clone()).collect();
    let outcome = interp::run(&graph, inputs, &before).expect("it runs");
    for (index, value) in outcome.writes {
        state.insert(graph.state[index].name.clone(), value);
    }
    let names = graph.results.iter().map(|(name, _)| name.clone());
    names.zip(outcome.results).collect()
}

#[test]
fn gradients_and_apply_write_what_a_step_writes() {
    for text in SPECS {
        let compilation = Compilation::check("apart", text, &NoFiles, &Options::default());
        let spec = compilation
            .spec
            .unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
        let trainable = Trainable::from(spec.clone());
        let lower = |kind| pipeline::lower(&trainable, kind, &Binding::new()).expect("it lowers");
        let seed = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(1_i64))]);
        let initial = run(
            lower(ProgramKind::Initial).graph,
            &seed,
            &mut BTreeMap::new(),
        );
        let (mut whole, mut apart) = (initial.clone(), initial.clone());
        for step in 0..2 {
            let graph = lower(ProgramKind::Step).graph;
            let inputs = synthetic::inputs(&spec, &graph, step);
            run(graph, &inputs, &mut whole);
            let gradients = run(lower(ProgramKind::Gradients).graph, &inputs, &mut apart);
            run(lower(ProgramKind::Apply).graph, &gradients, &mut apart);
        }
        assert_eq!(whole, apart, "{}", spec.name);
        assert_eq!(whole[GLOBAL_STEP].to_i64s(), [2]);
        assert_ne!(whole, initial);
    }
}
