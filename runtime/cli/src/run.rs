//! `trainspec run`: trains a spec and prints its events.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use trainspec::env::{Env, System};
use trainspec::program::Engine;
use trainspec::registry::Registry;
use trainspec::saver::RestorePlan;
use trainspec::session::{DataSize, End, Event, Mean, Options, Reading};
use trainspec::trainer::train;
use trainspec::{DryRun, Error, StopToken, dry_run};
use trainspec_compiler::diag::{Diagnostic, to_json};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::readable_bytes;
use trainspec_compiler::source::Sources;
use trainspec_compiler::typed::{Hook, HookKind};

use crate::output::{count, diagnostics, is_closed, note, print};
use crate::signals::Signals;
use crate::{BAD_INPUT, FAILED, FINE, Format, files, tensors};

/// The exit code of a run whose standard output was closed, as shells give it for SIGPIPE.
const CLOSED_OUTPUT: u8 = 128 + 13;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The number of steps, instead of what the spec says
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The seed of everything random that has none of its own, instead of the one in `train`
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<i64>,
    /// The base folder of relative data paths [default: the folder of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The folder of the run, instead of the `dir` of its `checkpoint` hook; a spec without one is saved there every 10 minutes and at the end
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The steps between two saves, instead of the interval of its `checkpoint` hook
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: Option<u64>,
    /// Begin with the values of a checkpoint, or of the newest one of a folder: that of `warm_start`, or of all trainable variables where
    /// the spec has none. A run that is resumed goes on with its own
    #[arg(long, value_name = "CHECKPOINT")]
    warm_start: Option<PathBuf>,
    /// Start over: a run that is in the folder already is moved aside, not resumed
    #[arg(long)]
    fresh: bool,
    /// Check that the training can begin: open the data, compile the step and compare memory, but train and write nothing
    #[arg(long)]
    dry_run: bool,
    /// How progress is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the last line only
    #[arg(long)]
    quiet: bool,
    /// Run the reference interpreter, not machine code
    #[arg(long)]
    interpret: bool,
    /// The number of threads [default: one for each core]; results do not depend on it
    #[arg(long, value_name = "N", conflicts_with = "interpret", value_parser = files::threads)]
    threads: Option<usize>,
    /// Disable an optimization pass
    #[arg(long = "disable-pass", value_name = "NAME", value_parser = files::pass_name)]
    disabled: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let path = &arguments.file;
    let format = arguments.format;
    let compilation = match files::checked(path, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let sources = &compilation.sources;
    report(sources, &compilation.diagnostics, format);
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    let stop = StopToken::default();
    let signals = Signals::install(&stop);
    let options = Options {
        seed: arguments.seed,
        steps: arguments.steps,
        folder: folder(path, arguments.data_dir.as_deref()),
        pipeline: files::pipeline(&arguments.disabled),
        engine: match (arguments.interpret, arguments.threads) {
            (true, _) => Engine::Interpreted,
            (false, Some(threads)) => Engine::compiled(threads),
            (false, None) => Engine::default(),
        },
        dir: arguments.dir.clone(),
        save_every: arguments.save_every,
        warm_start: arguments.warm_start.clone(),
        fresh: arguments.fresh,
        stop: stop.clone(),
        registry: Registry::default(),
    };
    let code = |error: Error| {
        report(sources, &[error.diagnostic()], format);
        match error.is_bad_input() {
            true => BAD_INPUT,
            false => FAILED,
        }
    };
    let env: Arc<dyn Env> = Arc::new(System::default());
    if arguments.dry_run {
        return match dry_run(spec, &options, &env) {
            Ok(sizes) => {
                report(sources, &sizes.warnings, format);
                print_dry_run(&sizes, format);
                FINE
            }
            Err(error) => code(error),
        };
    }
    let mut printer = Printer {
        sources,
        format,
        quiet: arguments.quiet,
        terminal: std::io::stdout().is_terminal(),
        evaluations: Vec::new(),
        last: None,
        stopped: false,
    };
    let trained = train(spec, &options, &env, &mut |event: &Event| {
        printer.event(event);
        // Nobody reads on: the run ends as by SIGTERM.
        if is_closed() {
            stop.request_stop();
        }
    });
    let stopped_by = match is_closed() {
        true => Some(CLOSED_OUTPUT),
        false => signals.exit_code(),
    };
    match trained {
        Ok(_) => match stopped_by.filter(|_| printer.stopped) {
            Some(code) => {
                let saves = |hook: &Hook| matches!(hook.kind, HookKind::Checkpoint { .. });
                match arguments.dir.is_some() || spec.hooks.iter().any(saves) {
                    true => note(format_args!(
                        "stopped; `trainspec run {}` goes on from here",
                        path.display()
                    )),
                    false => note(
                        "stopped; nothing was saved: the spec has no `checkpoint` hook, and no `--dir` is given",
                    ),
                }
                code
            }
            None => FINE,
        },
        Err(error) => code(error),
    }
}

/// Prints the sizes that a dry run found.
fn print_dry_run(sizes: &DryRun, format: Format) {
    match format {
        Format::Text => {
            print(started_text(&sizes.spec, sizes.parameters, sizes.seed));
            sizes.data.iter().for_each(|size| print(data_size(size)));
            print(format_args!(
                "memory: state {}, step {}, batch {}",
                readable_bytes(sizes.state_bytes),
                readable_bytes(sizes.step_bytes),
                readable_bytes(sizes.batch_bytes)
            ));
            print("the training can begin; this was a dry run");
        }
        Format::Json => print(json!({
            "event": "dry_run",
            "spec": sizes.spec,
            "parameters": sizes.parameters,
            "seed": sizes.seed,
            "data": sizes.data.iter().map(data_size_json).collect::<Vec<_>>(),
            "state_bytes": sizes.state_bytes,
            "step_bytes": sizes.step_bytes,
            "batch_bytes": sizes.batch_bytes,
        })),
    }
}

/// The values of a warm start, a line for each.
fn warm_started_text(plan: &RestorePlan) -> String {
    let variables = count(plan.restored.len(), "variable");
    let mut text = format!("warm-started {variables} from {}", plan.path.display());
    for one in &plan.restored {
        text += &match one.variable == one.key {
            true => format!("\n  {}", one.variable),
            false => format!("\n  {} from {}", one.variable, one.key),
        };
    }
    for note in &plan.notes {
        text += &format!("\n  {note}");
    }
    if !plan.left_over.is_empty() {
        text += &format!("\n  left over there: `{}`", plan.left_over.join("`, `"));
    }
    text
}

fn warm_started_json(plan: &RestorePlan) -> Value {
    let restored = plan.restored.iter();
    let restored = restored.map(|one| json!({ "variable": one.variable, "key": one.key }));
    json!({
        "event": "warm_start",
        "path": plan.path,
        "restored": restored.collect::<Vec<_>>(),
        "left_over": plan.left_over,
        "notes": plan.notes,
    })
}

/// Prints diagnostics; in JSON each is an event, as all lines of a run are.
fn report(sources: &Sources, list: &[Diagnostic], format: Format) {
    match format {
        Format::Text => diagnostics(sources, list, format),
        Format::Json => list
            .iter()
            .for_each(|diagnostic| print(diagnostic_event(sources, diagnostic))),
    }
}

/// A diagnostic as an event: `error` or `warning`.
fn diagnostic_event(sources: &Sources, diagnostic: &Diagnostic) -> Value {
    let text = to_json(sources, diagnostic);
    let mut object: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
    object["event"] = json!(diagnostic.severity.name());
    object
}

/// The base folder of relative data paths.
fn folder(spec: &Path, given: Option<&Path>) -> PathBuf {
    match (given, spec.parent()) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(parent)) if spec != Path::new(files::STDIN) => parent.to_owned(),
        (None, _) => PathBuf::new(),
    }
}

/// Prints the events of a run.
struct Printer<'a> {
    sources: &'a Sources,
    format: Format,
    quiet: bool,
    /// Whether standard output is a terminal: only then times are printed, so that piped output is reproducible.
    terminal: bool,
    /// The latest result of each evaluation, for the last line.
    evaluations: Vec<(String, String)>,
    /// Step and time of the line before.
    last: Option<(u64, f64)>,
    /// Whether the run was asked to stop.
    stopped: bool,
}

impl Printer<'_> {
    fn event(&mut self, event: &Event) {
        self.stopped |= matches!(
            event,
            Event::Ended {
                why: End::Stopped,
                ..
            }
        );
        match self.format {
            Format::Text => self.text(event),
            Format::Json => self.json(event),
        }
    }

    fn text(&mut self, event: &Event) {
        match event {
            Event::Started {
                spec,
                parameters,
                data,
                seed,
            } => {
                self.line(started_text(spec, *parameters, *seed));
                data.iter().for_each(|size| self.line(data_size(size)));
            }
            Event::Warning(warning) => {
                diagnostics(self.sources, std::slice::from_ref(warning), self.format);
            }
            Event::Note(message) => note(format_args!("note: {message}")),
            Event::Specialised(new) if new.again => {
                let sizes = new
                    .sizes
                    .iter()
                    .map(|(name, size)| format!("{name} = {size}"));
                let sizes: Vec<String> = sizes.collect();
                self.line(format!("compiled once more, for {}", sizes.join(", ")));
            }
            Event::Specialised(_) => {}
            Event::Step {
                step,
                values,
                seconds,
            } => {
                let mut line = format!("step {step}");
                for (name, reading) in values.iter().filter(|(name, _)| name != "step") {
                    line += &format!("  {name} {}", reading_text(reading));
                }
                line += &self.speed(*step, *seconds);
                self.line(line);
            }
            Event::Evaluated {
                name,
                data,
                step,
                metrics,
            } => {
                let name = name.as_ref().unwrap_or(data).clone();
                let shown: Vec<String> = metrics
                    .iter()
                    .map(|(metric, mean)| format!("{metric} {}", mean_text(*mean)))
                    .collect();
                let shown = shown.join(", ");
                self.line(format!("eval {name}: {shown} at step {step}"));
                self.evaluations.retain(|(known, _)| *known != name);
                self.evaluations.push((name, shown));
            }
            Event::WarmStarted(plan) => self.line(warm_started_text(plan)),
            Event::Resumed { step, path, reread } => {
                let again = match reread {
                    0 => String::new(),
                    n => format!(" ({} read again)", count(*n as usize, "record")),
                };
                self.last = Some((*step, 0.0));
                self.line(format!(
                    "resumed from {} at step {step}{again}",
                    path.display()
                ));
            }
            Event::Final { step, values } => {
                let mut line = format!("final at step {step}");
                for (name, reading) in values {
                    line += &format!("  {name} {}", reading_text(reading));
                }
                self.line(line);
            }
            Event::Saved { step, path } => {
                self.line(format!("saved {} at step {step}", path.display()));
            }
            Event::Ended {
                step,
                why,
                losses,
                seconds,
            } => print(self.summary(*step, why, losses, *seconds)),
        }
    }

    fn line(&self, text: String) {
        if !self.quiet {
            print(text);
        }
    }

    /// Steps per second since the line before.
    fn speed(&mut self, step: u64, seconds: f64) -> String {
        let (before, since) = self.last.replace((step, seconds)).unwrap_or((0, 0.0));
        match self.terminal && seconds > since {
            true => {
                let rate = (step - before) as f64 / (seconds - since);
                format!("  ({} steps/s)", number(rate))
            }
            false => String::new(),
        }
    }

    /// The last line.
    fn summary(&self, step: u64, why: &End, losses: &[(String, f64)], seconds: f64) -> String {
        let mut text = format!("trained {}", count(step as usize, "step"));
        if self.terminal {
            text += &format!(" in {seconds:.1} s");
        }
        for (i, (name, loss)) in losses.iter().enumerate() {
            text += if i == 0 { ": " } else { ", " };
            text += &format!("{name} {}", number(*loss));
        }
        for (name, shown) in &self.evaluations {
            text += &format!("; {name}: {shown}");
        }
        match why {
            End::Steps | End::Epochs => {}
            End::Data => text += " (the data ended)",
            End::Stopped => text += " (stopped)",
            End::NoImprovement(metric) => text += &format!(" (`{metric}` no longer improves)"),
            End::Hook(name) => text += &format!(" (the hook `{name}` ended it)"),
            End::NotFinite(name) => text += &format!(" (`{name}` is not finite)"),
        }
        text
    }

    fn json(&mut self, event: &Event) {
        let object = match event {
            Event::Started {
                spec,
                parameters,
                data,
                seed,
            } => {
                let data: Vec<Value> = data.iter().map(data_size_json).collect();
                json!({ "event": "start", "spec": spec, "parameters": parameters, "seed": seed, "data": data })
            }
            Event::Warning(warning) => diagnostic_event(self.sources, warning),
            Event::Note(message) => json!({ "event": "note", "message": message }),
            Event::Specialised(new) => json!({
                "event": "compiled",
                "program": if new.training { "step" } else { "evaluation" },
                "sizes": new.sizes,
                "bytes": new.bytes,
            }),
            Event::Step {
                step,
                values,
                seconds,
            } => {
                let values = values.iter().map(|(n, r)| (n.clone(), reading_json(r)));
                let values: serde_json::Map<String, Value> = values.collect();
                json!({ "event": "step", "step": step, "values": values, "seconds": seconds })
            }
            Event::Evaluated {
                name,
                data,
                step,
                metrics,
            } => {
                let metrics = metrics
                    .iter()
                    .map(|(n, mean)| (n.clone(), mean_json(*mean)));
                let metrics: serde_json::Map<String, Value> = metrics.collect();
                json!({ "event": "eval", "name": name, "data": data, "step": step, "metrics": metrics })
            }
            Event::WarmStarted(plan) => warm_started_json(plan),
            Event::Resumed { step, path, reread } => json!({
                "event": "resume",
                "step": step,
                "path": path.display().to_string(),
                "reread": reread,
            }),
            Event::Final { step, values } => {
                let values = values.iter().map(|(n, r)| (n.clone(), reading_json(r)));
                let values: serde_json::Map<String, Value> = values.collect();
                json!({ "event": "final", "step": step, "values": values })
            }
            Event::Saved { step, path } => json!({
                "event": "checkpoint",
                "step": step,
                "path": path.display().to_string(),
            }),
            Event::Ended {
                step,
                why,
                losses,
                seconds,
            } => {
                let losses = losses.iter().map(|(n, x)| (n.clone(), real_json(*x)));
                let losses: serde_json::Map<String, Value> = losses.collect();
                json!({ "event": "end", "step": step, "why": why.name(), "losses": losses, "seconds": seconds })
            }
        };
        if !self.quiet || matches!(event, Event::Ended { .. }) {
            print(object);
        }
    }
}

/// The first line of a run.
fn started_text(spec: &str, parameters: u64, seed: i64) -> String {
    let parameters = count(parameters as usize, "parameter");
    format!("{spec}: {parameters}, seed {seed}")
}

fn data_size_json(size: &DataSize) -> Value {
    json!({ "name": size.name, "records": size.records, "batch": size.batch })
}

fn data_size(size: &DataSize) -> String {
    let mut text = format!("data {}:", size.name);
    if let Some(records) = size.records {
        text += &format!(" {}", count(records as usize, "record"));
    }
    match size.batch {
        Some(batch) => text + &format!(" in batches of {batch}"),
        None => text + " one at a time",
    }
}

fn reading_text(reading: &Reading) -> String {
    match reading {
        Reading::Number(x) => number(*x),
        Reading::Mean(mean) => mean_text(*mean),
        Reading::Tensor(tensor) if tensor.data().len() <= 8 => tensor.to_string(),
        Reading::Tensor(tensor) => tensor.ty().to_string(),
    }
}

fn reading_json(reading: &Reading) -> Value {
    match reading {
        Reading::Number(x) => real_json(*x),
        Reading::Mean(mean) => mean_json(*mean),
        Reading::Tensor(tensor) => tensor_json(tensor),
    }
}

/// A number; what is not finite as a string, since JSON has no such numbers.
fn real_json(x: f64) -> Value {
    serde_json::from_str(&tensors::json_real(x)).unwrap_or(Value::Null)
}

/// A tensor as nested arrays, a scalar as a number, a bool or a string.
fn tensor_json(tensor: &Tensor) -> Value {
    let element = |i: usize| match tensor.data() {
        Data::Bool(values) => json!(values[i]),
        Data::String(values) => tensors::json_bytes(&values[i]),
        Data::I64(values) => json!(values[i]),
        _ if tensor.dtype().is_int() => json!(tensor.to_f64s()[i] as i64),
        _ => real_json(tensor.to_f64s()[i]),
    };
    nested(tensor.shape(), &mut 0, &element)
}

/// The elements from `next` on as arrays of a shape, row by row.
fn nested(shape: &[usize], next: &mut usize, element: &impl Fn(usize) -> Value) -> Value {
    match shape {
        [] => {
            *next += 1;
            element(*next - 1)
        }
        [n, inner @ ..] => (0..*n).map(|_| nested(inner, next, element)).collect(),
    }
}

/// A mean; of bools also the count of true ones and the total.
fn mean_text(mean: Mean) -> String {
    match mean.is_bool {
        true => format!("{:.3} ({} of {})", mean.value(), mean.sum, mean.count),
        false => number(mean.value()),
    }
}

fn mean_json(mean: Mean) -> Value {
    json!({ "mean": real_json(mean.value()), "sum": real_json(mean.sum), "count": mean.count })
}

/// A number with five significant digits.
fn number(x: f64) -> String {
    const DIGITS: i32 = 5;
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let magnitude = x.abs().log10().floor() as i32;
    if !(-4..7).contains(&magnitude) {
        return format!("{x:.*e}", DIGITS as usize - 1);
    }
    let places = (DIGITS - 1 - magnitude).max(0) as usize;
    let text = format!("{x:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_significant_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.02, "0.02"),
            (1.0, "1"),
            (-0.123456, "-0.12346"),
            (123456.0, "123456"),
            (0.00012345678, "0.00012346"),
            (1.5e-9, "1.5000e-9"),
            (3e20, "3.0000e20"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(x), text);
        }
    }

    #[test]
    fn data_lies_beside_the_spec() {
        assert_eq!(folder(Path::new("a/b.trainspec"), None), Path::new("a"));
        assert_eq!(folder(Path::new("b.trainspec"), None), Path::new(""));
        assert_eq!(folder(Path::new("-"), None), Path::new(""));
        assert_eq!(
            folder(Path::new("a/b"), Some(Path::new("c"))),
            Path::new("c")
        );
    }
}
