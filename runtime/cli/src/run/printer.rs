//! The events of a run as lines, with a progress bar below them on a terminal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use trainspec::StopToken;
use trainspec::runs::{RunSummary, is_minimized};
use trainspec::saver::RestorePlan;
use trainspec::session::{End, Event, Observer};
use trainspec_compiler::source::Sources;
use trainspec_compiler::typed::{self, BestMode, HookKind, Spec};

use super::bar::{Bar, duration, number_of};
use super::events_json::event_json;
use super::next_commands::NextCommands;
use super::plan::{self, Given};
use super::readings::{mean_text, number, reading_text};
use crate::Format;
use crate::output::{count, diagnostics, is_closed, note, print};

/// Prints the events of a run.
pub(super) struct Printer<'a> {
    pub(super) sources: &'a Sources,
    pub(super) spec: Arc<Spec>,
    pub(super) given: Given,
    pub(super) format: Format,
    pub(super) quiet: bool,
    /// The commands that are proposed at the end.
    pub(super) commands: NextCommands,
    /// Set where nobody reads on: the run ends as by SIGTERM.
    pub(super) stop: StopToken,
    bar: Option<Bar>,
    /// The latest result of each evaluation, for the last line.
    evaluations: Vec<(String, String)>,
    /// The best value of the first metric of an evaluation.
    best: Option<Best>,
    /// What evaluations measured before this run was resumed.
    earlier: Vec<Best>,
    /// The last checkpoint.
    saved: Option<PathBuf>,
    /// Step and time of the line before.
    last: Option<(u64, f64)>,
    /// The records of a step, where each has as many.
    step_records: Option<u64>,
    /// Whether the run was asked to stop.
    pub(super) stopped: bool,
}

/// A value that an evaluation measured.
#[derive(Debug, Clone)]
struct Best {
    evaluation: String,
    metric: String,
    value: f64,
    step: u64,
}

impl Observer for Printer<'_> {
    fn event(&mut self, event: &Event) {
        if let Event::Ended { why, .. } = event {
            self.stopped = *why == End::Stopped;
        }
        if let Event::Saved { path, .. } | Event::Resumed { path, .. } = event {
            self.saved = Some(path.clone());
        }
        match self.format {
            Format::Text => self.text(event),
            Format::Json => {
                let mut object = event_json(self.sources, event);
                if let (Event::Started { .. }, Some(Value::Object(object))) = (event, &mut object)
                    && let Value::Object(plan) = plan::json(&self.spec, &self.given)
                {
                    object.extend(plan);
                    object.insert("time".to_owned(), unix_seconds().into());
                }
                let shown = !self.quiet || matches!(event, Event::Ended { .. });
                object.filter(|_| shown).into_iter().for_each(print);
            }
        }
        if is_closed() {
            self.stop.request_stop();
        }
    }

    fn follows(&mut self) -> bool {
        self.bar.as_mut().is_some_and(Bar::follows)
    }
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        sources: &'a Sources,
        spec: &Arc<Spec>,
        given: Given,
        format: Format,
        quiet: bool,
    ) -> Printer<'a> {
        let has_bar = format == Format::Text && !quiet;
        Printer {
            sources,
            spec: spec.clone(),
            given,
            format,
            quiet,
            commands: NextCommands::default(),
            stop: StopToken::default(),
            bar: if has_bar {
                Bar::on_terminal(schedules(spec))
            } else {
                None
            },
            evaluations: Vec::new(),
            best: None,
            earlier: Vec::new(),
            saved: None,
            last: None,
            step_records: None,
            stopped: false,
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
                let parts = self.spec.train.as_ref().map_or(1, |train| train.accumulate);
                let batch = data.first().and_then(|size| size.batch);
                self.step_records = batch.zip(u64::try_from(parts).ok()).map(|(a, b)| a * b);
                if let Some(bar) = &mut self.bar {
                    bar.has_epochs_of(data.first().and_then(|size| size.records));
                }
                self.line(plan::model_line(spec, *parameters, *seed));
                self.line(plan::data_line(data));
                self.line(plan::train_line(&self.spec, &self.given));
                self.line(plan::writes_line(&self.spec, &self.given));
            }
            Event::Progress(now) => {
                if let Some(bar) = &mut self.bar {
                    bar.step(now);
                }
            }
            Event::Warning(warning) => self.above(|printer| {
                diagnostics(
                    printer.sources,
                    std::slice::from_ref(warning),
                    printer.format,
                );
            }),
            Event::Note(message) => self.above(|_| note(format_args!("note: {message}"))),
            Event::Specialised(new) if new.again => {
                let sizes = new.sizes.iter();
                let sizes: Vec<String> = sizes
                    .map(|(name, size)| format!("{name} = {size}"))
                    .collect();
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
                let eval_name = name;
                let name = name.as_ref().unwrap_or(data).clone();
                let shown: Vec<String> = metrics
                    .iter()
                    .map(|(metric, mean)| format!("{metric} {}", mean_text(*mean)))
                    .collect();
                let shown = shown.join(", ");
                self.line(evaluation_text(&name, &shown, *step));
                self.evaluations.retain(|(known, _)| *known != name);
                // What the `checkpoint` hook calls the best, else the metric that is evaluated first.
                let chosen = match chosen(&self.spec) {
                    Some(best) if best.eval != *eval_name => None,
                    Some(best) => metrics.iter().find(|(metric, _)| *metric == best.metric),
                    None => metrics.first(),
                };
                if let Some((metric, mean)) = chosen {
                    self.keep_best(Best {
                        evaluation: name.clone(),
                        metric: metric.clone(),
                        value: mean.value(),
                        step: *step,
                    });
                }
                self.evaluations.push((name, shown));
            }
            Event::WarmStarted(plan) => self.line(warm_started_text(plan)),
            Event::Rereading { records } => {
                let text = format!(
                    "looking for the position of the input: {} read",
                    count(*records as usize, "record")
                );
                match &self.bar {
                    Some(bar) => bar.say(text),
                    None => self.line(text),
                }
            }
            Event::Resumed { step, path, reread } => {
                let again = match reread {
                    0 => String::new(),
                    n => format!(" ({} read again)", count(*n as usize, "record")),
                };
                self.last = Some((*step, 0.0));
                if let Some(bar) = &mut self.bar {
                    bar.begins_at(*step);
                }
                if !self.quiet {
                    self.earlier = evaluated_before(&self.spec, path, *step);
                }
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
                if let Some(bar) = &mut self.bar {
                    bar.saved(*step);
                }
                self.line(format!("saved {} at step {step}", path.display()));
            }
            Event::Ended {
                step,
                why,
                losses,
                learning_rates,
                seconds,
            } => {
                if let Some(bar) = self.bar.take() {
                    bar.finish();
                }
                print(self.summary(*step, why, losses, *seconds));
                if !self.quiet {
                    self.next_commands(*step, why, learning_rates);
                }
            }
        }
    }

    /// Whether the run has a checkpoint of its own.
    pub(super) fn has_saved(&self) -> bool {
        self.saved.is_some()
    }

    /// Prints with the bar out of the way.
    fn above(&self, print: impl FnOnce(&Self)) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print(self)),
            None => print(self),
        }
    }

    fn line(&self, text: String) {
        if !self.quiet {
            self.above(|_| print(&text));
        }
    }

    /// Keeps the best value of the metric that is evaluated first, also of what an earlier run measured.
    fn keep_best(&mut self, new: Best) {
        for earlier in std::mem::take(&mut self.earlier) {
            let is_other = chosen(&self.spec).is_some() && earlier.evaluation != new.evaluation;
            if earlier.metric == new.metric && !is_other {
                self.keep_better(earlier);
            }
        }
        self.keep_better(new);
    }

    fn keep_better(&mut self, new: Best) {
        let is_minimized = match chosen(&self.spec) {
            Some(best) => best.mode == BestMode::Min,
            None => is_minimized(&new.metric),
        };
        let is_better = match &self.best {
            None => new.value.is_finite(),
            Some(best) if best.metric != new.metric => false,
            // In the precision of event files, so that one value is not better than itself.
            Some(best) if is_minimized => (new.value as f32) < best.value as f32,
            Some(best) => new.value as f32 > best.value as f32,
        };
        if is_better {
            self.best = Some(new);
        }
    }

    /// The time, and steps and records per second since the line before.
    fn speed(&mut self, step: u64, seconds: f64) -> String {
        let (before, since) = self.last.replace((step, seconds)).unwrap_or((0, 0.0));
        let time = format!("  [{seconds:.1} s");
        if seconds <= since || step <= before {
            return time + "]";
        }
        let rate = (step - before) as f64 / (seconds - since);
        let examples = self
            .step_records
            .map(|n| format!(", {} examples/s", number_of(rate * n as f64)));
        format!(
            "{time}, {} steps/s{}]",
            number_of(rate),
            examples.unwrap_or_default()
        )
    }

    /// The line that says how the run ended.
    fn summary(&self, step: u64, why: &End, losses: &[(String, f64)], seconds: f64) -> String {
        let mut text = format!("trained {}", count(step as usize, "step"));
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
        match self.quiet {
            true => text,
            false => format!("{text}  [{}]", duration_text(seconds)),
        }
    }

    /// The best value, the last checkpoint, and what can be done with it.
    fn next_commands(&self, step: u64, why: &End, learning_rates: &[(String, f64)]) {
        if let Some(best) = &self.best {
            let of = match self.spec.evals.len() {
                0 | 1 => String::new(),
                _ => format!(" of {}", best.evaluation),
            };
            print(format_args!(
                "  best      {} {}{of} at step {}",
                best.metric,
                number(best.value),
                best.step
            ));
        }
        let Some(saved) = &self.saved else {
            return;
        };
        print(format_args!("  saved     {}", saved.display()));
        let folder = saved.parent().filter(|path| !path.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        for (what, command) in (self.commands).after(&self.spec, folder, step, why, learning_rates)
        {
            print(format_args!("  {what:<9} {command}"));
        }
    }
}

/// What the `checkpoint` hook keeps the best of.
fn chosen(spec: &Spec) -> Option<&typed::Best> {
    spec.hooks.iter().find_map(|hook| match &hook.kind {
        HookKind::Checkpoint { best, .. } => best.as_ref(),
        _ => None,
    })
}

fn schedules(spec: &Spec) -> BTreeSet<String> {
    let schedules = spec.train.iter().flat_map(|train| &train.schedules);
    schedules.map(|(name, _)| name.clone()).collect()
}

/// What the event files beside a checkpoint say of evaluations up to its step. Where they cannot be read there is nothing to say.
fn evaluated_before(spec: &Spec, checkpoint: &Path, step: u64) -> Vec<Best> {
    let folder = checkpoint.parent().unwrap_or(Path::new(""));
    let curves = RunSummary::of(folder).map_or_else(|_| Vec::new(), |run| run.curves);
    let mut found = Vec::new();
    for curve in &curves {
        let Some(name) = &curve.evaluation else {
            continue;
        };
        // One without a name is called after its data.
        let unnamed = spec.evals.iter().find(|eval| eval.name.is_none());
        let unnamed = unnamed.filter(|_| name == "eval").map(|eval| &eval.data);
        for (at, value) in &curve.points {
            let at = u64::try_from(*at).ok().filter(|at| *at <= step);
            found.extend(at.map(|step| Best {
                evaluation: unnamed.unwrap_or(name).clone(),
                metric: curve.tag.clone(),
                value: *value,
                step,
            }));
        }
    }
    found
}

/// The line of an evaluation; `None` for other events.
pub(crate) fn evaluated_text(event: &Event) -> Option<String> {
    let Event::Evaluated {
        name,
        data,
        step,
        metrics,
    } = event
    else {
        return None;
    };
    let shown = metrics.iter();
    let shown: Vec<String> = shown
        .map(|(metric, mean)| format!("{metric} {}", mean_text(*mean)))
        .collect();
    Some(evaluation_text(
        name.as_ref().unwrap_or(data),
        &shown.join(", "),
        *step,
    ))
}

fn evaluation_text(name: &str, metrics: &str, step: u64) -> String {
    format!("eval {name}: {metrics} at step {step}")
}

fn unix_seconds() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0.0, |since| since.as_secs_f64())
}

/// `0.8 s`, `3:05`.
fn duration_text(seconds: f64) -> String {
    match seconds < 60.0 {
        true => format!("{seconds:.1} s"),
        false => duration(seconds),
    }
}

/// The values of a warm start, a line for each.
pub(super) fn warm_started_text(plan: &RestorePlan) -> String {
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
