//! What is fetched from a step changes nothing else: with every `let`, with every value there is, or with nothing, all other
//! results and all state have the same bits, step after step. For the steps of the examples.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_codegen::Options as CodeOptions;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, InputView};
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{Compilation, Options, synthetic};
use trainspec_frontend::lower::{self, Binding, Context, SEED};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::Graph;
use trainspec_ir::plan::plan;
use trainspec_ir::{Tensor, interp, passes};
use trainspec_testing::compare::{RunOutcome, same_bits};
use trainspec_testing::noise::with_every_value;
use trainspec_tests::{files_below, root};

const STEPS: usize = 3;

/// The examples by name, and what each may `use`; the workloads of the benchmarks would take minutes.
fn examples() -> Vec<(String, String, BTreeMap<String, String>)> {
    let texts: BTreeMap<String, String> = files_below(&root().join("examples"), "trainspec")
        .iter()
        .filter(|path| !path.iter().any(|part| part == "bench"))
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (name.into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    texts
        .iter()
        .map(|(name, text)| (name.clone(), text.clone(), texts.clone()))
        .collect()
}

/// What is run of a spec: its step, or its gradients where a part of the step cannot be run yet.
fn graph_of(cx: &Context<'_>) -> (&'static str, Graph) {
    match lower::step(cx) {
        Ok(step) => ("step", step.graph),
        Err(_) => {
            let graph = lower::gradients(cx).expect("a model has gradients");
            ("gradients", graph)
        }
    }
}

fn initial(cx: &Context<'_>, graph: &Graph) -> Vec<Tensor> {
    let initial = lower::initial(cx).expect("a spec has an initial state");
    let seed = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(5_i64))]);
    let values = interp::run(&initial, &seed, &[]).unwrap().results;
    let names = initial.results.iter().map(|(name, _)| name.as_str());
    let known: BTreeMap<&str, Tensor> = names.zip(values).collect();
    let pieces = graph.state.iter();
    pieces.map(|s| known[s.name.as_str()].clone()).collect()
}

/// Some steps of a graph.
fn run(spec: &Spec, graph: &Graph, start: &[Tensor]) -> Vec<RunOutcome> {
    let pool = Arc::new(Pool::exactly(2));
    let compiled = CompiledProgram::compile(plan(fuse(graph, true)), &CodeOptions::default());
    let mut program = Executable::new(compiled.unwrap(), pool);
    let mut state = start.to_vec();
    let indices: Vec<usize> = (0..state.len()).collect();
    (0..STEPS)
        .map(|step| {
            let inputs = synthetic::inputs(spec, graph, step as i64);
            let names = program.inputs().iter().map(|(name, _)| name);
            let feeds: Vec<InputView<'_>> = names.map(|n| (&inputs[n]).into()).collect();
            let results = program.run(&feeds, &mut state, &indices).unwrap();
            RunOutcome {
                results,
                state: state.clone(),
            }
        })
        .collect()
}

#[test]
fn what_is_fetched_changes_nothing_else() {
    let mut wrong = Vec::new();
    for (name, text, files) in examples() {
        let compilation = Compilation::check(&name, &text, &files, &Options::default());
        let Some(spec) = compilation.spec.filter(|spec| spec.model.is_some()) else {
            continue;
        };
        let dims = lower::dimension_names(&spec);
        let binding: Binding = dims.into_iter().map(|name| (name, 7)).collect();
        let cx = Context::new(&spec, &binding);
        let (kind, full) = graph_of(&cx);
        let start = initial(&cx, &full);
        let only = |keep: &dyn Fn(&str) -> bool| {
            let mut graph = full.clone();
            graph.results.retain(|(name, _)| keep(name));
            passes::run(graph, &Default::default())
        };
        let usual = only(&|name| {
            name.starts_with("loss/") || (kind == "gradients" && name.starts_with("gradient/"))
        });
        let every = passes::run(full.clone(), &Default::default());
        let versions = [
            ("every `let`", every.clone()),
            ("nothing", only(&|_| false)),
            ("every value", with_every_value(&usual)),
            ("every value and every `let`", with_every_value(&every)),
        ];
        let expected = run(&spec, &usual, &start);
        println!("{name}: {kind} of {} nodes", usual.size());
        for (which, graph) in versions {
            let found = run(&spec, &graph, &start);
            for (step, (a, b)) in expected.iter().zip(&found).enumerate() {
                if let Err(why) = same_bits(&Ok(a.clone()), &Ok(b.clone())) {
                    wrong.push(format!("{name}, {which} fetched, step {step}: {why}"));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
