//! `trainspec bench`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use trainspec::State;
use trainspec::program::{Engine, Executable, Inputs, prepare};
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::lower::{self, Context};
use trainspec_compiler::synthetic;
use trainspec_compiler::typed::Spec;

use crate::output::{diagnostics, print};
use crate::{BAD_INPUT, FAILED, FINE, Format, files};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The size of a named dimension, where the training data does not say it
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = files::name_and_size)]
    dims: Vec<(String, i64)>,
    /// How long to measure
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Run just so many steps, without warming up
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    steps: Option<u64>,
    /// Compute on so many threads [default: one for each core]
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

/// How long a window is, the best of which counts: noise only ever hurts.
const WINDOW: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let path = &arguments.file;
    let compilation = match files::checked(path, &arguments.set, arguments.format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    match measure(spec, arguments) {
        Ok(()) => FINE,
        Err(refused) => {
            let (code, diagnostic) = *refused;
            diagnostics(&compilation.sources, &[diagnostic], arguments.format);
            code
        }
    }
}

fn measure(spec: &Spec, arguments: &Arguments) -> Result<(), Box<(u8, Diagnostic)>> {
    let bad = |diagnostic| Box::new((BAD_INPUT, diagnostic));
    let engine = arguments
        .threads
        .map_or_else(Engine::default, Engine::compiled);
    let data = spec.train.as_ref().and_then(|t| t.data.as_deref());
    let mut dims = data
        .map(|data| lower::dimensions_of_data(spec, data))
        .unwrap_or_default();
    dims.extend(arguments.dims.iter().cloned());
    if let Some(name) = lower::dimension_names(spec)
        .into_iter()
        .find(|n| !dims.contains_key(n))
    {
        let message = format!("the size of `{name}` is not known");
        let help = format!("give it: `--dim {name}=32`");
        return Err(bad(
            Diagnostic::without_place(Code::UnknownSize, message).help(help)
        ));
    }
    let start = Instant::now();
    let graph = lower::step(&Context::new(spec, &dims)).map_err(bad)?.graph;
    let inputs = synthetic::inputs(spec, &graph, 0);
    let mut program = prepare(graph, &|_| false, &Default::default(), &engine);
    let compile = start.elapsed().as_secs_f64() * 1e3;
    let failed = |error: trainspec::SessionError| Box::new((FAILED, error.diagnostic()));
    let mut state = State::initial(spec, 0).map_err(failed)?;
    let (steps, best) = match arguments.steps {
        Some(steps) => {
            let start = Instant::now();
            for _ in 0..steps {
                program.run(&inputs, &mut state).map_err(failed)?;
            }
            (steps, steps as f64 / start.elapsed().as_secs_f64())
        }
        None => {
            windows(program.as_mut(), &inputs, &mut state, arguments.seconds).map_err(failed)?
        }
    };
    let bytes = program.bytes();
    match arguments.format {
        Format::Text => {
            print(format_args!(
                "{}: {best:.1} steps/s, the best of {steps} steps",
                spec.name
            ));
            print(format_args!(
                "compiled in {compile:.1} ms; {bytes} bytes besides inputs and state"
            ));
        }
        Format::Json => print(json!({
            "spec": spec.name, "steps_per_second": best, "steps": steps, "compile_ms": compile, "peak_bytes": bytes,
        })),
    }
    Ok(())
}

/// Runs for some time; the number of steps, and the most steps a second in one window.
fn windows(
    program: &mut dyn Executable,
    inputs: &Inputs,
    state: &mut State,
    seconds: f64,
) -> Result<(u64, f64), trainspec::SessionError> {
    for _ in 0..3 {
        program.run(inputs, state)?;
    }
    let (start, mut all, mut best) = (Instant::now(), 0, 0.0_f64);
    while start.elapsed().as_secs_f64() < seconds {
        let (window, mut steps) = (Instant::now(), 0);
        while window.elapsed() < WINDOW {
            program.run(inputs, state)?;
            steps += 1;
        }
        all += steps;
        best = best.max(steps as f64 / window.elapsed().as_secs_f64());
    }
    Ok((all, best))
}
