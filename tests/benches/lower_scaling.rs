//! How the time and memory of lowering and differentiation grow with the size of a model. Reports, asserts nothing.

use std::fmt::Write;
use std::time::{Duration, Instant};

use trainspec_compiler::ir::graph::Graph;
use trainspec_compiler::ir::passes;
use trainspec_compiler::lower::{self, Binding, Context};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{Compilation, Options};

/// A chain of N operations.
fn chain(operations: usize) -> String {
    let mut text = String::from(
        "spec chain;\nmodel (x: f32[8]) {\n    param w: f32[8] = ones();\n    let h0 = x * w;\n",
    );
    for i in 0..operations {
        let op = ["tanh", "sin", "exp", "sigmoid"][i % 4];
        let _ = writeln!(text, "    let h{} = {op}(h{i});", i + 1);
    }
    let _ = writeln!(text, "    loss sum(h{operations});\n}}");
    text
}

/// N layers, unrolled.
fn layers(layers: usize) -> String {
    format!(
        "spec net;\nmodel (x: f32[4, 8]) {{\n    let h = for i in 0..{layers}, h = x {{ tanh(dense(h, 8)) }};\n    loss mean(square(h));\n}}\ntrain {{ optimizer adam(0.001); steps 1; }}\n"
    )
}

fn checked(text: &str) -> std::sync::Arc<Spec> {
    let compilation = Compilation::check("bench", text, &NoFiles, &Options::default());
    compilation
        .spec
        .unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
}

fn compare(name: &str, run: fn(&Spec) -> Graph, sizes: [usize; 2], spec: fn(usize) -> String) {
    let specs = sizes.map(|n| checked(&spec(n)));
    let (mut best, mut nodes) = ([Duration::MAX; 2], [0; 2]);
    // Many short turns, so that some fall between whatever else the machine does.
    for _ in 0..40 {
        for (i, spec) in specs.iter().enumerate() {
            let start = Instant::now();
            let graph = run(spec);
            best[i] = best[i].min(start.elapsed());
            nodes[i] = graph.size();
        }
    }
    let [a, b] = best.map(|d| d.as_secs_f64() * 1e3);
    println!(
        "{name:34}  {:5} : {:5}  {a:7.2} ms : {b:7.2} ms  ratio {:5.2}   nodes {} : {}",
        sizes[0],
        sizes[1],
        b / a,
        nodes[0],
        nodes[1],
    );
}

fn gradients(spec: &Spec) -> Graph {
    let binding = Binding::new();
    lower::gradients(&Context::new(spec, &binding)).expect("it can be lowered")
}

fn step(spec: &Spec) -> Graph {
    let binding = Binding::new();
    let step = lower::step(&Context::new(spec, &binding)).expect("it can be lowered");
    passes::run(step.graph, &Default::default())
}

fn main() {
    println!("lowering and differentiation; linear is a ratio of 10");
    compare("chain, gradients", gradients, [200, 2_000], chain);
    compare("layers, gradients", gradients, [20, 200], layers);
    compare("layers, adam step, all passes", step, [20, 200], layers);
}
