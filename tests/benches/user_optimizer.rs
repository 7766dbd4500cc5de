//! How many bytes a second an optimizer moves that a user wrote, beside one of the library. Reports, asserts nothing.
//!
//! The optimizer is that of `examples/custom_optimizer.trainspec`, as it stands there.

use std::sync::Arc;
use std::time::Instant;

use trainspec_codegen::exec::Executable;
use trainspec_codegen::exec::pool::Pool;
use trainspec_compiler::ir::plan::Cost;
use trainspec_compiler::ir::{Tensor, passes};
use trainspec_compiler::lower::{self, Binding, Context};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};

/// How many parameters: more than caches hold.
const COUNT: usize = 25_000_000;
/// How often both are run in turn.
const TURNS: usize = 12;

/// The definition in the example.
fn own_definition() -> String {
    let path = trainspec_tests::root().join("examples/custom_optimizer.trainspec");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let begin = text.find("optimizer my_lion").expect("the example has it");
    let end = begin + text[begin..].find("\n}\n").expect("it ends") + 3;
    text[begin..end].to_owned()
}

/// A step that updates all parameters with a gradient that is given.
struct Update {
    program: Executable,
    gradient: Tensor,
    state: Vec<Tensor>,
    bytes: usize,
    best: f64,
}

impl Update {
    fn new(optimizer: &str, definition: &str, pool: &Arc<Pool>) -> Update {
        let text = format!(
            "spec update;\n{definition}\nmodel (g: f32[{COUNT}]) {{ param p: f32[{COUNT}] = zeros(); loss sum(p * g); }}\n\
             train {{ optimizer {optimizer}(1e-4); steps 1; }}\n"
        );
        let compilation = Compilation::check("update", &text, &NoFiles, &Options::default());
        let spec = compilation
            .spec
            .unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
        let binding = Binding::new();
        let mut graph = lower::step(&Context::new(&spec, &binding))
            .expect("it can be lowered")
            .graph;
        graph.results.clear();
        let graph = passes::run(graph, &Default::default());
        let program =
            Executable::new(&graph, Arc::clone(pool), &Default::default()).expect("it compiles");
        let state = program
            .state()
            .iter()
            .map(|s| Tensor::zeros(&s.ty))
            .collect();
        let bytes = Cost::of_all(&program.program().kernels).bytes() as usize;
        let gradient = Tensor::new(&[COUNT], vec![0.01_f32; COUNT]);
        Update {
            program,
            gradient,
            state,
            bytes,
            best: 0.0,
        }
    }

    /// Runs once; keeps the most bytes a second.
    fn turn(&mut self) {
        let places: Vec<usize> = (0..self.state.len()).collect();
        let start = Instant::now();
        let ran = self
            .program
            .run(&[&self.gradient], &mut self.state, &places);
        ran.expect("it runs");
        let rate = self.bytes as f64 / start.elapsed().as_secs_f64();
        self.best = self.best.max(rate);
    }
}

fn main() {
    let pool = Arc::new(Pool::new(
        std::thread::available_parallelism().map_or(1, usize::from),
    ));
    let mut adam = Update::new("adam", "", &pool);
    let mut lion = Update::new("my_lion", &own_definition(), &pool);
    for _ in 0..TURNS {
        adam.turn();
        lion.turn();
    }
    let (a, l) = (adam.best / 1e9, lion.best / 1e9);
    println!(
        "adam of the library {a:.1} GB/s, my_lion of the example {l:.1} GB/s: ratio {:.2}",
        l / a
    );
}
