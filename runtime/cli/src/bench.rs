//! `trainspec bench`: throughput and a per-kernel profile of a training step on synthetic data.
//!
//! Throughput is measured without instrumentation; a second, shorter run with the profiler on gives the time of each kernel.

mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trainspec::internals::memory;
use trainspec::internals::program::{Executable, Feeds, prepare};
use trainspec::{Engine, Error, State};
use trainspec_compiler::codegen::simd::limits::Limits;
use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{
    Compilation, Fetch, FetchSet, PipelineOptions, ProgramKind, Trainable, pipeline, synthetic,
};

use crate::output::{diagnostics, print_raw};
use crate::{BAD_INPUT, FAILED, FINE, Format, files};
use report::{Profile, Report};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The size of a named dimension that the training data does not fix
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = files::name_and_size)]
    dims: Vec<(String, i64)>,
    /// A result that is fetched at every step: loss/NAME, metric/NAME, output/NAME, let/NAME, schedule/NAME or gradient/LOSS/VARIABLE
    /// [default: none, so that the update alone is measured]
    #[arg(long, value_name = "NAME")]
    fetch: Vec<Fetch>,
    /// The seconds to measure for
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Run exactly N steps, without warm-up and without a profile of the kernels, and print a hash of the bits of the state after them
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// The number of threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = files::threads)]
    threads: Option<usize>,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 86_400.0 => Ok(n),
        _ => Err("write a number of seconds above 0".to_owned()),
    }
}

/// The length of a measurement window in seconds; the fastest window counts, since noise only slows down.
const WINDOW_SECONDS: f64 = 0.25;

/// Steps before the first window.
const WARM_UP_STEPS: u32 = 8;

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let path = &arguments.file;
    let compilation = match files::checked(path, &arguments.set, arguments.format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    if let Err(unknown) = files::known_dimensions(spec, &arguments.dims) {
        diagnostics(&compilation.sources, &[unknown], arguments.format);
        return BAD_INPUT;
    }
    if spec.train.is_none() {
        return files::no_train(spec, "no step to measure").report(arguments.format);
    }
    match measure(spec, &compilation, arguments) {
        Ok(text) => {
            print_raw(&text);
            FINE
        }
        Err(refused) => {
            let (code, diagnostic) = *refused;
            diagnostics(&compilation.sources, &[diagnostic], arguments.format);
            code
        }
    }
}

fn measure(
    spec: &Arc<Spec>,
    compilation: &Compilation,
    arguments: &Arguments,
) -> Result<String, Box<(u8, Diagnostic)>> {
    let bad = |diagnostic| Box::new((BAD_INPUT, diagnostic));
    let engine = arguments
        .threads
        .map_or_else(Engine::default, Engine::compiled);
    let given = arguments.dims.iter().cloned().collect();
    let dims = pipeline::dimensions(spec, &given).map_err(bad)?;
    let trainable = Trainable::from(spec.clone());
    let options = PipelineOptions::default();
    let start = Instant::now();
    let fetches = FetchSet::Only(arguments.fetch.iter().cloned().collect());
    let lowered = pipeline::lower(&trainable, ProgramKind::Step, &dims).map_err(bad)?;
    let graph = lowered.graph;
    pipeline::check_fetches(&graph, ProgramKind::Step, &fetches).map_err(bad)?;
    let lowering = start.elapsed();
    let failed = |error: Error| match error.is_bad_input() {
        true => Box::new((BAD_INPUT, error.diagnostic())),
        false => Box::new((FAILED, error.diagnostic())),
    };
    let start = Instant::now();
    let program = prepare(graph.clone(), &fetches, &options, &engine);
    let compile = lowering + start.elapsed();
    let mut program = program.map_err(failed)?;
    let needed = graph.inputs().map(|(name, value)| {
        let (name, _) = memory::tensor(name, graph.ty(value));
        (name, synthetic::peak_bytes(graph.ty(value)))
    });
    memory::ensure("the synthetic data", needed.collect()).map_err(failed)?;
    let inputs = synthetic::inputs(spec, &graph, 0);
    let feeds = Feeds::from(&inputs);
    let mut state = State::initial(&trainable, 0, &options, &engine).map_err(failed)?;
    let program = program.as_mut();
    let (windows, profile) = match arguments.steps {
        Some(steps) => {
            let time = timed(program, feeds, &mut state, steps).map_err(failed)?;
            let windows = Windows {
                count: 1,
                steps,
                rate: steps as f64 / time.as_secs_f64(),
            };
            (windows, None)
        }
        None => {
            let seconds = arguments.seconds;
            let windows = windows(program, feeds, &mut state, seconds).map_err(failed)?;
            let short = (seconds / 4.0).min(1.0);
            let profile = profile(program, feeds, &mut state, short, windows.rate);
            (windows, Some(profile.map_err(failed)?))
        }
    };
    let (threads, limits) = match &engine {
        Engine::Compiled(pool) if profile.is_some() => {
            (pool.threads(), Some(Limits::measure(pool)))
        }
        Engine::Compiled(pool) => (pool.threads(), None),
        Engine::Interpreted => (1, None),
    };
    let report = Report {
        name: &spec.name,
        sources: &compilation.sources,
        threads,
        windows,
        compile,
        bytes: program.bytes(),
        kernels: program.kernels(),
        profile,
        limits,
        digest: arguments.steps.map(|_| state.digest()),
    };
    Ok(match arguments.format {
        Format::Text => report.text(),
        Format::Json => format!("{}\n", report.json()),
    })
}

/// The measurement windows of a run.
#[derive(Debug, Clone, Copy)]
struct Windows {
    count: u64,
    steps: u64,
    /// Steps per second in the fastest window.
    rate: f64,
}

fn timed(
    program: &mut dyn Executable,
    feeds: Feeds<'_>,
    state: &mut State,
    steps: u64,
) -> Result<Duration, Error> {
    let start = Instant::now();
    for _ in 0..steps {
        program.run(feeds, state)?;
    }
    // A clock may be too coarse to see a step.
    Ok(start.elapsed().max(Duration::from_nanos(1)))
}

/// Measures throughput for some seconds, after a warm-up.
fn windows(
    program: &mut dyn Executable,
    feeds: Feeds<'_>,
    state: &mut State,
    seconds: f64,
) -> Result<Windows, Error> {
    // The first steps find cold caches and memory that is not there yet: the fastest of a few says how many are in a window.
    let mut fastest = Duration::MAX;
    for _ in 0..WARM_UP_STEPS {
        fastest = fastest.min(timed(program, feeds, state, 1)?);
    }
    let each = ((WINDOW_SECONDS.min(seconds) / fastest.as_secs_f64()) as u64).max(1);
    let start = Instant::now();
    let mut all = Windows {
        count: 0,
        steps: 0,
        rate: 0.0,
    };
    while start.elapsed().as_secs_f64() < seconds {
        let time = timed(program, feeds, state, each)?;
        all.count += 1;
        all.steps += each;
        all.rate = all.rate.max(each as f64 / time.as_secs_f64());
    }
    Ok(all)
}

/// Runs with the profiler on. The fastest round counts for each kernel on its own, so that noise of the machine is not taken for a slow
/// kernel.
fn profile(
    program: &mut dyn Executable,
    feeds: Feeds<'_>,
    state: &mut State,
    seconds: f64,
    rate: f64,
) -> Result<Profile, Error> {
    let each = ((rate * WINDOW_SECONDS / 16.0) as u64).max(1);
    let start = Instant::now();
    let mut best = Profile {
        kernels: vec![f64::INFINITY; program.kernels().len()],
        overhead: f64::INFINITY,
    };
    while best.overhead.is_infinite() || start.elapsed().as_secs_f64() < seconds {
        program.profile(true);
        let time = timed(program, feeds, state, each);
        let kernels = program.profile(false);
        let all: Duration = kernels.iter().sum();
        let per_step = |time: Duration| time.as_secs_f64() / each as f64;
        best.overhead = best.overhead.min(per_step(time?.saturating_sub(all)));
        for (best, time) in best.kernels.iter_mut().zip(kernels) {
            *best = best.min(per_step(time));
        }
    }
    Ok(best)
}
