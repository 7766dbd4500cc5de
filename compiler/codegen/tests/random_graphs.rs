//! Random steps of training, compiled against interpreted: with each pass off in turn, without fusion, vectors or fused
//! multiply-add, on one to eight threads, with every value fetched.
//!
//! Each graph is compiled as users have it and compared with the interpreter; the other ways take turns, so that each of them
//! sees hundreds of graphs. `GRAPH_COUNT`, `GRAPH_SEED` and `GRAPH_FIRST` make a search longer, another, or go back to one graph.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use trainspec_codegen::Options;
use trainspec_codegen::exec::Executable;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::translate::Machine;
use trainspec_ir::graph::Graph;
use trainspec_ir::interp::RunError;
use trainspec_ir::passes;
use trainspec_testing::compare::{Reference, RunOutcome, same_bits};
use trainspec_testing::feeds::Feeds;
use trainspec_testing::noise::with_every_value;
use trainspec_testing::search::Search;

/// Threads are made once; graphs come and go.
static POOLS: LazyLock<[(usize, Arc<Pool>); 4]> =
    LazyLock::new(|| [1, 2, 3, 8].map(|n| (n, Arc::new(Pool::exactly(n)))));

fn pool(threads: usize) -> Arc<Pool> {
    let found = POOLS.iter().find(|(n, _)| *n == threads);
    found.expect("there is such a pool").1.clone()
}

/// What a run must agree in with the run as users have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Bits,
    Rounding,
}

/// One way to compile and run a graph.
#[derive(Debug)]
struct Way {
    name: String,
    without: BTreeSet<String>,
    options: Options,
    threads: usize,
    every_value: bool,
    agreement: Agreement,
}

impl Way {
    /// As users have it.
    fn usual() -> Way {
        Way {
            name: "as it is".to_owned(),
            without: BTreeSet::new(),
            options: Options::default(),
            threads: 1,
            every_value: false,
            agreement: Agreement::Rounding,
        }
    }

    /// All others.
    fn others() -> Vec<Way> {
        let machine = |machine: Machine| Options {
            machine: Some(machine),
            ..Options::default()
        };
        let host = Machine::host();
        let one = |name: &str, options: Options, agreement| Way {
            name: name.to_owned(),
            options,
            threads: 2,
            agreement,
            ..Way::usual()
        };
        let unfused = Options {
            fusion: false,
            ..Options::default()
        };
        let plain = Options {
            fusion: false,
            machine: Some(Machine {
                fma: false,
                vectors: false,
                wide: false,
            }),
        };
        let mut ways = vec![
            one(
                "with vectors of 128 bits",
                machine(Machine {
                    wide: false,
                    ..host
                }),
                Agreement::Bits,
            ),
            one(
                "without vectors",
                machine(Machine {
                    vectors: false,
                    wide: false,
                    ..host
                }),
                Agreement::Bits,
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
            one("without fusion", unfused, Agreement::Rounding),
            one("without any of them", plain, Agreement::Rounding),
            Way {
                name: "without any pass".to_owned(),
                without: passes::PASSES.iter().map(|p| p.name.to_owned()).collect(),
                ..Way::usual()
            },
            Way {
                name: "with every value fetched".to_owned(),
                every_value: true,
                agreement: Agreement::Bits,
                ..Way::usual()
            },
        ];
        for pass in passes::PASSES {
            ways.push(Way {
                name: format!("without {}", pass.name),
                without: BTreeSet::from([pass.name.to_owned()]),
                ..Way::usual()
            });
        }
        for threads in [2, 3, 8] {
            ways.push(Way {
                name: format!("on {threads} threads"),
                threads,
                agreement: Agreement::Bits,
                ..Way::usual()
            });
        }
        ways
    }

    fn compile(&self, graph: &Graph) -> Result<Executable, String> {
        let simple = passes::run(graph.clone(), &self.without);
        let simple = match self.every_value {
            true => with_every_value(&simple),
            false => simple,
        };
        Executable::new(&simple, pool(self.threads), &self.options)
            .map_err(|e| format!("{}: {e}", self.name))
    }
}

/// Runs once.
fn run(program: &mut Executable, feeds: &Feeds) -> Result<RunOutcome, RunError> {
    let inputs: Vec<_> = program
        .inputs()
        .iter()
        .map(|(name, _)| &feeds.inputs[name])
        .collect();
    let mut state = feeds.state.clone();
    let places: Vec<usize> = (0..program.state().len()).collect();
    let results = program.run(&inputs, &mut state, &places)?;
    Ok(RunOutcome { results, state })
}

/// Two steps as users have them, each compared with the interpreter, and with some other ways to do them.
fn check(graph: &Graph, feeds: &Feeds, others: &[&Way]) -> Result<(), String> {
    let usual = Way::usual();
    let mut program = usual.compile(graph)?;
    let mut different: Vec<(&Way, Executable)> = Vec::new();
    for way in others {
        different.push((way, way.compile(graph)?));
    }
    let mut fed = feeds.clone();
    for step in 0..2 {
        let reference = Reference::new(graph, &fed);
        let found = run(&mut program, &fed);
        let told = |way: &Way, why: String| format!("{}, step {step}: {why}", way.name);
        reference.check(&found).map_err(|why| told(&usual, why))?;
        if let Err(failed) = &found
            && let Ok(after) = run(&mut program, &fed)
        {
            return Err(format!("it failed with `{failed}`, then gave {after:?}"));
        }
        for (way, program) in &mut different {
            let other = run(program, &fed);
            let agrees = match way.agreement {
                Agreement::Bits => same_bits(&found, &other),
                Agreement::Rounding => reference.check(&other),
            };
            agrees.map_err(|why| told(way, why))?;
        }
        match found {
            // The next step starts where this one ended, for both.
            Ok(after) => fed.state = after.state,
            Err(_) => break,
        }
    }
    Ok(())
}

/// One of four parts of the search, so that it can use several cores.
fn search(part: u64) {
    let ways = Way::others();
    let all = Search::of(2_400);
    let search = Search {
        count: all.count.div_ceil(4),
        first: all.first + part * all.count.div_ceil(4),
        ..all
    };
    search.run("compiled against interpreted", |graph, feeds, number| {
        // Two ways for each graph: 2,400 graphs are more than 300 for each.
        let n = ways.len();
        let turn = number as usize * 2;
        check(graph, feeds, &[&ways[turn % n], &ways[(turn + 1) % n]])
    });
}

#[test]
fn compiled_equals_interpreted_first_quarter() {
    search(0);
}

#[test]
fn compiled_equals_interpreted_second_quarter() {
    search(1);
}

#[test]
fn compiled_equals_interpreted_third_quarter() {
    search(2);
}

#[test]
fn compiled_equals_interpreted_fourth_quarter() {
    search(3);
}

/// Graphs of other searches that failed once, in all ways.
#[test]
fn graphs_that_failed_once_hold() {
    let found = [
        // A value that was put aside was overwritten before it was read for the last time.
        (77_123, 5_577),
        // Truths at the end of a row were read in a walk for which they had not been copied.
        (424_242, 4_955),
        // Errors were the same in all rounds of a loop, so that those of one round hid those of another.
        (77_123, 3_522),
        (77_123, 7_665),
        // The error of a sum was told by the sum, not by its terms, which had both signs.
        (77_123, 4_481),
        // What nothing needs was divided by zero, but by the interpreter alone.
        (5_150, 2_714),
        // Products of bf16 that were too small to be normal numbers were not zero.
        (31_337, 3_279),
    ];
    let ways = Way::others();
    for (seed, first) in found {
        let search = Search {
            seed,
            first,
            count: 1,
        };
        search.run("compiled against interpreted", |graph, feeds, _| {
            check(graph, feeds, &ways.iter().collect::<Vec<_>>())
        });
    }
}
