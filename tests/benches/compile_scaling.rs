//! How long a step takes to compile, from text to machine code, and how that grows with the number of layers. Reports, asserts
//! nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable};
use trainspec_compiler::ir::fuse::fuse;
use trainspec_compiler::ir::passes;
use trainspec_compiler::ir::plan::plan;
use trainspec_compiler::lower::{self, Binding, Context};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};

/// The stages of a compilation that are timed.
const STAGES: [&str; 4] = ["check", "lower", "passes", "code"];

/// N layers, unrolled.
fn layers(layers: usize) -> String {
    format!(
        "spec net;\nmodel (x: f32[4, 8]) {{\n    let h = for i in 0..{layers}, h = x {{ tanh(dense(h, 8)) }};\n    loss mean(square(h));\n}}\ntrain {{ optimizer adam(0.001); steps 1; }}\n"
    )
}

fn mlp() -> String {
    let path = trainspec_tests::root().join("examples/bench/mlp.trainspec");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Compiles a text; the time of each stage.
fn compile(text: &str, pool: &Arc<Pool>) -> [Duration; 4] {
    let mut times = [Duration::ZERO; 4];
    let start = Instant::now();
    let compilation = Compilation::check("bench", text, &NoFiles, &Options::default());
    let spec = compilation
        .spec
        .unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    times[0] = start.elapsed();
    let start = Instant::now();
    let binding = Binding::new();
    let step = lower::step(&Context::new(&spec, &binding)).expect("it can be lowered");
    // As a run does where nobody asks for results.
    let mut graph = step.graph;
    graph.results.clear();
    times[1] = start.elapsed();
    let start = Instant::now();
    let graph = passes::run(graph, &Default::default());
    times[2] = start.elapsed();
    let start = Instant::now();
    let compiled = CompiledProgram::compile(plan(fuse(&graph, true)), &Default::default());
    Executable::new(compiled.expect("it can be compiled"), Arc::clone(pool));
    times[3] = start.elapsed();
    times
}

/// Adds the times of a turn to the best so far, stage by stage.
fn better(best: &mut [Duration; 4], times: [Duration; 4]) {
    for (best, time) in best.iter_mut().zip(times) {
        *best = (*best).min(time);
    }
}

fn milliseconds(times: &[Duration]) -> f64 {
    times.iter().sum::<Duration>().as_secs_f64() * 1e3
}

fn main() {
    // Without `--bench` this is a check that the program runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let turns = if full { 15 } else { 1 };
    let pool = Arc::new(Pool::new(1));
    let texts = [mlp(), layers(20), layers(200)];
    let mut best = [[Duration::MAX; 4]; 3];
    // In turns, so that a busy machine disturbs all.
    for _ in 0..turns {
        for (best, text) in best.iter_mut().zip(&texts) {
            better(best, compile(text, &pool));
        }
    }
    let [mlp, short, long] = &best;
    println!("from text to machine code, ms; linear is a ratio of 10");
    println!("part      mlp step   20 layers  200 layers   ratio");
    let line = |name: &str, range: std::ops::Range<usize>| {
        let [a, b, c] = [mlp, short, long].map(|times| milliseconds(&times[range.clone()]));
        println!("{name:8} {a:9.2} {b:11.2} {c:11.2} {:7.2}", c / b);
    };
    for (i, name) in STAGES.iter().enumerate() {
        line(name, i..i + 1);
    }
    line("all", 0..4);
}
