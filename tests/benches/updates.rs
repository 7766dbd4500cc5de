//! Updates of all parameters beside what memory allows: an optimizer that a user wrote beside one of the library, and Adam with clipping,
//! a schedule and averages beside a bare pass over the same tensors. Reports, asserts nothing.
//!
//! The user's optimizer is that of `examples/custom_optimizer.trainspec`, as it stands there. The bare pass reads parameters, gradients,
//! moments and averages and writes all but the gradients, a loop written by hand on as many threads; the norm of the gradients, which
//! are given, is a second read of them, so it is measured too.

use std::sync::Arc;
use std::time::Instant;

use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable};
use trainspec_compiler::ir::fuse::fuse;
use trainspec_compiler::ir::plan::{Cost, plan};
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
    /// The shortest time of a step in seconds.
    best: f64,
}

impl Update {
    fn new(train: &str, definition: &str, pool: &Arc<Pool>) -> Update {
        let text = format!(
            "spec update;\n{definition}\nmodel (g: f32[{COUNT}]) {{ param p: f32[{COUNT}] = zeros(); loss sum(p * g); }}\n\
             train {{ {train} steps 1; }}\n"
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
        let compiled = CompiledProgram::compile(plan(fuse(&graph, true)), &Default::default());
        let program = Executable::new(compiled.expect("it compiles"), Arc::clone(pool));
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
            best: f64::INFINITY,
        }
    }

    /// Runs once.
    fn turn(&mut self) {
        let indices: Vec<usize> = (0..self.state.len()).collect();
        let start = Instant::now();
        let ran = self
            .program
            .run(&[(&self.gradient).into()], &mut self.state, &indices);
        ran.expect("it runs");
        self.best = self.best.min(start.elapsed().as_secs_f64());
    }

    /// The most billions of bytes a second.
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.best / 1e9
    }
}

/// The passes by hand.
struct Bare {
    gradient: Vec<f32>,
    /// Parameters, moments and averages.
    others: [Vec<f32>; 4],
    threads: usize,
    /// The shortest times of the pass and of reading the gradients.
    best: [f64; 2],
}

impl Bare {
    fn new(threads: usize) -> Bare {
        Bare {
            gradient: vec![0.01; COUNT],
            others: std::array::from_fn(|_| vec![0.0; COUNT]),
            threads,
            best: [f64::INFINITY; 2],
        }
    }

    /// Runs both once.
    fn turn(&mut self) {
        let part = COUNT.div_ceil(self.threads);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for part in self.gradient.chunks(part) {
                scope.spawn(|| {
                    let mut sums = [0.0_f32; 32];
                    for line in part.chunks_exact(32) {
                        sums.iter_mut().zip(line).for_each(|(sum, g)| *sum += g * g);
                    }
                    std::hint::black_box(sums);
                });
            }
        });
        self.best[1] = self.best[1].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        std::thread::scope(|scope| {
            let [p, m, v, e] = self.others.each_mut().map(|x| x.chunks_mut(part));
            for ((((g, p), m), v), e) in self.gradient.chunks(part).zip(p).zip(m).zip(v).zip(e) {
                scope.spawn(move || {
                    for ((((g, p), m), v), e) in g.iter().zip(p).zip(m).zip(v).zip(e) {
                        *m = *m * 0.5 + g;
                        *v = *v * 0.5 + g;
                        *p -= *m;
                        *e += *p;
                    }
                });
            }
        });
        self.best[0] = self.best[0].min(start.elapsed().as_secs_f64());
    }
}

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Arc::new(Pool::new(threads));
    let mut adam = Update::new("optimizer adam(1e-4);", "", &pool);
    let mut lion = Update::new("optimizer my_lion(1e-4);", &own_definition(), &pool);
    for _ in 0..TURNS {
        adam.turn();
        lion.turn();
    }
    let (a, l) = (adam.rate(), lion.rate());
    println!(
        "adam of the library {a:.1} GB/s, my_lion of the example {l:.1} GB/s: ratio {:.2}",
        l / a
    );
    drop((adam, lion));
    let full = "schedule lr = cosine_decay(1e-3, decay_steps: 10_000); optimizer adam(learning_rate: lr); clip global_norm(1.0); \
                 ema (decay: 0.999);";
    let mut full = Update::new(full, "", &pool);
    let mut bare = Bare::new(threads);
    for _ in 0..TURNS {
        full.turn();
        bare.turn();
    }
    let [pass, norm] = bare.best;
    println!(
        "adam, schedule, clipping and averages {:.1} ms; a bare pass {:.1} ms and a read of the gradients {:.1} ms: ratio {:.2}",
        full.best * 1e3,
        pass * 1e3,
        norm * 1e3,
        full.best / (pass + norm)
    );
}
