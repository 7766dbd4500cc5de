//! Differential fuzzing: random training steps, compiled against interpreted: with each pass off in turn, without fusion, vectors or fused
//! multiply-add, on one to eight threads, with every value fetched.
//!
//! Each graph is compiled with the default options and compared with the interpreter; the other configurations take turns. Every run of
//! the tests checks the same few hundred graphs, and those of `graphs/`, which failed once, in all configurations; `.ci/search` goes on
//! with graphs of a fresh seed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use trainspec_codegen::Options;
use trainspec_codegen::cpu::Machine;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, InputView};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, verify};
use trainspec_ir::interp::RunError;
use trainspec_ir::kernel::{KernelKind, Kernels};
use trainspec_ir::passes;
use trainspec_ir::plan::plan;
use trainspec_testing::compare::{Reference, RunOutcome, same_bits};
use trainspec_testing::feeds::Feeds;
use trainspec_testing::noise::with_every_value;
use trainspec_testing::regression::Regression;
use trainspec_testing::search::Search;

/// Thread pools are shared by all graphs.
static POOLS: LazyLock<[(usize, Arc<Pool>); 4]> =
    LazyLock::new(|| [1, 2, 3, 8].map(|n| (n, Arc::new(Pool::exactly(n)))));

fn pool(threads: usize) -> Arc<Pool> {
    let found = POOLS.iter().find(|(n, _)| *n == threads);
    found.expect("there is such a pool").1.clone()
}

/// How closely a run must agree with the run of the default configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Bits,
    /// Bits where there is no product of matrices, which is summed without FMA.
    BitsWithoutProducts,
    Rounding,
}

/// One configuration of compiler and pool.
#[derive(Debug)]
struct Configuration {
    name: String,
    without: BTreeSet<String>,
    fusion: bool,
    options: Options,
    threads: usize,
    every_value: bool,
    agreement: Agreement,
}

impl Configuration {
    /// The default configuration.
    fn standard() -> Configuration {
        Configuration {
            name: "default".to_owned(),
            without: BTreeSet::new(),
            fusion: true,
            options: Options::default(),
            threads: 1,
            every_value: false,
            agreement: Agreement::Rounding,
        }
    }

    /// All other configurations.
    fn others() -> Vec<Configuration> {
        let machine = |machine: Machine| Options {
            machine: Some(machine),
        };
        let host = Machine::host();
        if !host.wide {
            println!("skipped: needs AVX2 (256-bit vectors)");
        }
        if !host.fma {
            println!("skipped: needs FMA");
        }
        let one = |name: &str, options: Options, agreement| Configuration {
            name: name.to_owned(),
            options,
            threads: 2,
            agreement,
            ..Configuration::standard()
        };
        let plain = machine(Machine {
            fma: false,
            vectors: false,
            wide: false,
        });
        let mut configurations = vec![
            one(
                "with 128-bit vectors",
                machine(Machine {
                    wide: false,
                    ..host
                }),
                Agreement::BitsWithoutProducts,
            ),
            one(
                "without vectors",
                machine(Machine {
                    vectors: false,
                    wide: false,
                    ..host
                }),
                Agreement::BitsWithoutProducts,
            ),
            one(
                "without fused multiply-add",
                machine(Machine {
                    fma: false,
                    wide: false,
                    ..host
                }),
                Agreement::Rounding,
            ),
            Configuration {
                fusion: false,
                ..one("without fusion", Options::default(), Agreement::Rounding)
            },
            Configuration {
                fusion: false,
                ..one("without any of them", plain, Agreement::Rounding)
            },
            Configuration {
                name: "without any pass".to_owned(),
                without: passes::PASSES.iter().map(|p| p.name.to_owned()).collect(),
                ..Configuration::standard()
            },
            Configuration {
                name: "with every value fetched".to_owned(),
                every_value: true,
                agreement: Agreement::Bits,
                ..Configuration::standard()
            },
        ];
        for pass in passes::PASSES {
            configurations.push(Configuration {
                name: format!("without {}", pass.name),
                without: BTreeSet::from([pass.name.to_owned()]),
                ..Configuration::standard()
            });
        }
        for threads in [2, 3, 8] {
            configurations.push(Configuration {
                name: format!("on {threads} threads"),
                threads,
                agreement: Agreement::Bits,
                ..Configuration::standard()
            });
        }
        configurations
    }

    fn compile(&self, graph: &Graph) -> Result<Executable, String> {
        let simple = passes::run(graph.clone(), &self.without);
        let simple = match self.every_value {
            true => with_every_value(&simple),
            false => simple,
        };
        verify(&simple).map_err(|e| format!("{}: {e}\n{simple}", self.name))?;
        let compiled = CompiledProgram::compile(plan(fuse(&simple, self.fusion)), &self.options)
            .map_err(|e| format!("{}: {e}", self.name))?;
        Ok(Executable::new(compiled, pool(self.threads)))
    }
}

/// Whether kernels multiply matrices, convolutions among them.
fn has_products(kernels: &Kernels) -> bool {
    kernels.kernels.iter().any(|kernel| match &kernel.kind {
        KernelKind::Map(_) => false,
        KernelKind::Call { prim, .. } => prim.name == "matmul" || prim.name.starts_with("conv2d"),
        KernelKind::Scan { body, .. } => has_products(body),
    })
}

/// Runs once.
fn run(program: &mut Executable, feeds: &Feeds) -> Result<RunOutcome, RunError> {
    let inputs: Vec<_> = program
        .inputs()
        .iter()
        .map(|(name, _)| InputView::from(&feeds.inputs[name]))
        .collect();
    let mut state = feeds.state.clone();
    let places: Vec<usize> = (0..program.state().len()).collect();
    let results = program.run(&inputs, &mut state, &places)?;
    Ok(RunOutcome { results, state })
}

/// Two steps of the default configuration, each compared with the interpreter and with some other configurations.
fn check(graph: &Graph, feeds: &Feeds, others: &[&Configuration]) -> Result<(), String> {
    let standard = Configuration::standard();
    let mut program = standard.compile(graph)?;
    let mut different: Vec<(&Configuration, Executable)> = Vec::new();
    for configuration in others {
        different.push((configuration, configuration.compile(graph)?));
    }
    let has_products = has_products(&program.program().kernels);
    let mut fed = feeds.clone();
    for step in 0..2 {
        let reference = Reference::new(graph, &fed);
        let found = run(&mut program, &fed);
        let in_step = |configuration: &Configuration, why: String| {
            format!("{}, step {step}: {why}", configuration.name)
        };
        reference
            .check(&found)
            .map_err(|why| in_step(&standard, why))?;
        if let Err(failed) = &found
            && let Ok(after) = run(&mut program, &fed)
        {
            return Err(format!("it failed with `{failed}`, then gave {after:?}"));
        }
        for (configuration, program) in &mut different {
            let other = run(program, &fed);
            let agrees = match configuration.agreement {
                Agreement::BitsWithoutProducts if has_products => reference.check(&other),
                Agreement::Bits | Agreement::BitsWithoutProducts => same_bits(&found, &other),
                Agreement::Rounding => reference.check(&other),
            };
            agrees.map_err(|why| in_step(configuration, why))?;
        }
        match found {
            // The next step starts where this one ended, for both.
            Ok(after) => fed.state = after.state,
            Err(_) => break,
        }
    }
    Ok(())
}

/// The seed of the graphs that every run of the tests checks.
const SEED: u64 = 20_260_101;

/// How many graphs every run of the tests checks.
const GRAPHS: u64 = 300;

/// Checks the graphs of a seed on all cores, in order and while `goes_on` accepts their numbers; returns how many there were.
///
/// # Panics
///
/// When a graph fails; its `.graph` file is printed before.
fn search(seed: u64, goes_on: impl Fn(u64) -> bool + Sync) -> u64 {
    let configurations = Configuration::others();
    let check_in_turn = |graph: &Graph, feeds: &Feeds, number: u64| {
        // Two configurations for each graph, so that each of them sees dozens.
        let n = configurations.len();
        let turn = (number % n as u64) as usize * 2;
        let others = [&configurations[turn % n], &configurations[(turn + 1) % n]];
        check(graph, feeds, &others)
    };
    let (next, checked) = (AtomicU64::new(0), AtomicU64::new(0));
    let failure = OnceLock::new();
    let worker = || {
        while failure.get().is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if !goes_on(number) {
                break;
            }
            checked.fetch_add(1, Ordering::Relaxed);
            let check = |graph: &Graph, feeds: &Feeds| check_in_turn(graph, feeds, number);
            if let Some(found) = (Search { seed }).failure(number, check) {
                let _ = failure.set(found);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    if let Some(found) = failure.into_inner() {
        println!("{found}");
        panic!(
            "a graph fails; what is printed belongs into {}",
            folder().display()
        );
    }
    checked.into_inner()
}

#[test]
fn compiled_equals_interpreted() {
    assert_eq!(search(SEED, |number| number < GRAPHS), GRAPHS);
}

/// What `.ci/search` runs: graphs of the seed `SEARCH_SEED`, for `SEARCH_SECONDS`.
#[test]
#[ignore = "runs for as long as it is asked to: .ci/search"]
fn fresh_graphs() {
    let number = |name: &str| -> u64 {
        let text = std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`"))
    };
    let (seed, seconds) = (number("SEARCH_SEED"), number("SEARCH_SECONDS"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let graphs = search(seed, |_| Instant::now() < end);
    println!("{graphs} graphs of seed {seed} hold");
}

/// The folder of the graphs that failed once.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphs")
}

#[test]
fn graphs_that_failed_once_hold_in_all_configurations() {
    let configurations = Configuration::others();
    let all: Vec<&Configuration> = configurations.iter().collect();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("a readable folder")
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let held = Regression::parse(&text).and_then(|r| check(&r.graph, &r.feeds, &all));
        held.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
}
