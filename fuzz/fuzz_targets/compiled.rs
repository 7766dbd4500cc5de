//! Differential fuzzing: any bytes generate a training step. Compiled, it computes what the interpreter does, on any number of threads
//! and with any fetches.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use trainspec_codegen::Options;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, InputView};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::Graph;
use trainspec_ir::interp::RunError;
use trainspec_ir::passes;
use trainspec_ir::plan::plan;
use trainspec_testing::compare::{Reference, RunOutcome, same_bits};
use trainspec_testing::feeds::{Feeds, feeds};
use trainspec_testing::mixed;
use trainspec_testing::noise::with_every_value;
use trainspec_testing::regression::Regression;

static POOLS: LazyLock<[Arc<Pool>; 2]> =
    LazyLock::new(|| [1, 2].map(|n| Arc::new(Pool::exactly(n))));

fn run(graph: &Graph, threads: usize, fusion: bool, feeds: &Feeds) -> Result<RunOutcome, RunError> {
    let pool = POOLS[threads - 1].clone();
    let compiled = CompiledProgram::compile(plan(fuse(graph, fusion)), &Options::default());
    let mut program = Executable::new(compiled.unwrap_or_else(|e| panic!("{e}\n{graph}")), pool);
    let inputs: Vec<_> = program
        .inputs()
        .iter()
        .map(|(name, _)| InputView::from(&feeds.inputs[name]))
        .collect();
    let mut state = feeds.state.clone();
    let indices: Vec<usize> = (0..state.len()).collect();
    let results = program.run(&inputs, &mut state, &indices)?;
    Ok(RunOutcome { results, state })
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte is the seed of the feeds.
    let Some((seed, bytes)) = bytes.split_first() else {
        return;
    };
    let graph = mixed::make(bytes);
    let fed = feeds(&graph, u64::from(*seed));
    let simple = passes::run(graph.clone(), &Default::default());
    let found = run(&simple, 1, true, &fed);
    let reference = Reference::new(&graph, &fed);
    let agree = |which: &str, answer: Result<(), String>| {
        if let Err(why) = answer {
            let regression = Regression {
                comment: format!("{which}: {why}"),
                graph: graph.clone(),
                feeds: fed.clone(),
            };
            panic!("{regression}");
        }
    };
    agree("compiled", reference.check(&found));
    match seed % 3 {
        0 => agree(
            "two threads",
            same_bits(&found, &run(&simple, 2, true, &fed)),
        ),
        1 => {
            let every = with_every_value(&simple);
            agree(
                "every value",
                same_bits(&found, &run(&every, 1, true, &fed)),
            );
        }
        _ => agree("not fused", reference.check(&run(&simple, 2, false, &fed))),
    }
});
