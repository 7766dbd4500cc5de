//! The training loop: steps over batches, with gradient accumulation, evaluations, hooks and events.

use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::Fetch;
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{self, DataSet, Eval, Model, Remainder, Spec, Train, TrainEnd};

use crate::data::{DataContext, Element, Pipeline};
use crate::env::Env;
use crate::hooks::Hooks;
use crate::program::Fetched;
use crate::session::{
    DataSize, End, Event, Mean, Observer, Options, Progress, Session, Timer, parameters, the_train,
};
use crate::{Cause, DataError, Error, State};

/// Trains a spec from its first step to its end; gives the final state.
///
/// Fails before the first step where the spec has no `train`, `model` or data, or would train endlessly; later with the step in the error.
pub fn train(
    spec: &Arc<Spec>,
    options: &Options,
    env: &dyn Env,
    observer: &mut dyn Observer,
) -> Result<State, Error> {
    let train = the_train(spec)?;
    let seed = options.seed.unwrap_or(train.seed);
    let cx = DataContext {
        spec,
        env,
        folder: &options.folder,
        seed,
        pipeline: &options.pipeline,
        remainder: Remainder::Drop,
    };
    let mut data = training_data(cx, train)?;
    let Some(model) = &spec.model else {
        let message = "the spec has no `model`";
        return Err(Diagnostic::without_span(Code::MissingItem, message).into());
    };
    let hooks = Hooks::new(spec, &model.train);
    let limits = Limits::new(train, options, &hooks);
    if limits.epochs.is_some() {
        data = data.repeated();
    }
    limits.ensure_end(&data)?;
    let mut evaluations = Vec::new();
    for eval in &spec.evals {
        evaluations.push(Evaluation::new(cx, eval, model)?);
    }
    // What cannot be read is an error before the first step, not after hours.
    for evaluation in &mut evaluations {
        evaluation.data.next()?;
        evaluation.data.rewind();
    }
    let session = Session::new(spec, options)?;
    observer.event(&started(spec, seed, &data, &evaluations));
    for hook in &hooks.ignored {
        let message = format!("`{hook}` in `hooks` is not run yet");
        observer.event(&Event::Note(message));
    }
    let mut run = Run {
        session,
        hooks,
        limits,
        evaluations,
        env,
        observer,
    };
    run.run_steps(&mut data)?;
    Ok(run.session.into_state())
}

pub(super) fn training_data<'a>(
    cx: DataContext<'a>,
    train: &'a Train,
) -> Result<Pipeline<'a>, Error> {
    match &train.data {
        Some(name) => Pipeline::open(cx, the_data(cx.spec, name)?),
        None => Err(Diagnostic::without_span(
            Code::MissingSetting,
            "`train` has no data, so a program must feed it",
        )
        .help("say what is trained on: `data NAME;`")
        .into()),
    }
}

pub(super) fn the_data<'a>(spec: &'a Spec, name: &str) -> Result<&'a DataSet, Error> {
    spec.data.iter().find(|d| d.name == name).ok_or_else(|| {
        let message = format!("there is no data set `{name}`");
        Diagnostic::without_span(Code::UnknownName, message).into()
    })
}

/// The event before the first step.
fn started(spec: &Spec, seed: i64, data: &Pipeline<'_>, evaluations: &[Evaluation<'_>]) -> Event {
    let mut sizes: Vec<DataSize> = Vec::new();
    for set in [data]
        .into_iter()
        .chain(evaluations.iter().map(|e| &e.data))
    {
        if !sizes.iter().any(|s| s.name == set.name) {
            sizes.push(DataSize {
                name: set.name.to_owned(),
                records: set.records,
                batch: set.batch,
            });
        }
    }
    Event::Started {
        spec: spec.name.clone(),
        parameters: parameters(spec),
        data: sizes,
        seed,
    }
}

/// The bounds of a training, besides the end of its data.
pub(super) struct Limits {
    steps: Option<u64>,
    epochs: Option<u64>,
}

impl Limits {
    pub(super) fn new(train: &Train, options: &Options, hooks: &Hooks<'_>) -> Limits {
        let (steps, epochs) = match (options.steps, train.until) {
            (Some(n), _) => (Some(n), None),
            (None, Some(TrainEnd::Steps(n))) => (Some(n), None),
            (None, Some(TrainEnd::Epochs(n))) => (None, Some(n)),
            (None, None) => (None, None),
        };
        let steps = match (steps, hooks.last_step) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Limits { steps, epochs }
    }

    /// Fails where the training would never end.
    pub(super) fn ensure_end(&self, data: &Pipeline<'_>) -> Result<(), Error> {
        if !data.endless || self.steps.is_some() || self.epochs.is_some() {
            return Ok(());
        }
        let message = format!(
            "the training never ends: `{}` repeats indefinitely",
            data.name
        );
        Err(Diagnostic::without_span(Code::MissingSetting, message)
            .help("say `steps` or `epochs` in `train`")
            .into())
    }

    /// Why the training ends before the next batch, if it does.
    fn end(&self, step: u64, next: Option<&Element>) -> Option<End> {
        match next {
            _ if self.steps.is_some_and(|n| step >= n) => Some(End::Steps),
            None => Some(End::Data),
            Some(batch) if self.epochs.is_some_and(|n| batch.pass >= n) => Some(End::Epochs),
            Some(_) => None,
        }
    }
}

/// A training under way.
struct Run<'a, 'o> {
    session: Session<'a>,
    hooks: Hooks<'a>,
    limits: Limits,
    evaluations: Vec<Evaluation<'a>>,
    env: &'o dyn Env,
    observer: &'o mut dyn Observer,
}

impl Run<'_, '_> {
    /// Runs steps until a limit, the end of the data or a loss that is not finite, with one batch of lookahead.
    fn run_steps(&mut self, data: &mut Pipeline<'_>) -> Result<(), Error> {
        let mut next = data.next()?;
        let Some(first) = &next else {
            return Err(no_batch(data).into());
        };
        for warning in self.session.prepare(first)? {
            self.observer.event(&Event::Warning(warning));
        }
        self.specialised();
        let start = self.env.clock().now();
        let mut step = self.session.state().step();
        let mut losses = Vec::new();
        let mut accumulated = MicroBatchMean::default();
        let mut end = self.limits.end(step, next.as_ref());
        if end.is_some() {
            self.evaluate(&self.progress(step, 0, start), true)?;
        }
        while end.is_none()
            && let Some(batch) = next.take()
        {
            let in_step = |error: Error| error.in_step(step + 1);
            let fetched = self.session.step(&batch).map_err(in_step)?;
            self.specialised();
            accumulated.add(fetched);
            if self.session.state().step() == step {
                // Gradient accumulation goes on, or the update was skipped because gradients were not finite.
                if accumulated.count >= self.session.micro_batches() {
                    let fetched = accumulated.take();
                    let stop = self
                        .hooks
                        .find_not_finite(&batch, &fetched, true)
                        .map_err(in_step)?;
                    accumulated.skip_update(&self.session).map_err(in_step)?;
                    end = stop.map(End::NotFinite);
                }
                next = data.next().map_err(in_step)?;
                end = end.or_else(|| self.limits.end(step, next.as_ref()));
                if end.is_some() {
                    self.note_partial_update(accumulated.count);
                    let passes = next.as_ref().map_or(batch.pass + 1, |next| next.pass);
                    self.evaluate(&self.progress(step, passes, start), true)
                        .map_err(in_step)?;
                }
                continue;
            }
            step += 1;
            let in_step = |error: Error| error.in_step(step);
            let fetched = accumulated.take();
            accumulated.skipped = 0;
            losses = losses_of(self.session.spec(), &fetched);
            let stop = self
                .hooks
                .find_not_finite(&batch, &fetched, false)
                .map_err(in_step)?;
            // One batch of lookahead says whether this one was the last of its pass, or of all. An error in reading it belongs to
            // the next step.
            let goes_on = stop.is_none() && self.limits.steps.is_none_or(|n| step < n);
            let upcoming = if goes_on { data.next() } else { Ok(None) };
            end = match (stop, &upcoming) {
                (Some(name), _) => Some(End::NotFinite(name)),
                (None, Ok(next)) => self.limits.end(step, next.as_ref()),
                (None, Err(_)) => None,
            };
            let passes = match &upcoming {
                Ok(Some(next)) => next.pass,
                Ok(None) | Err(_) => batch.pass + u64::from(end == Some(End::Data)),
            };
            let now = self.progress(step, passes, start);
            let state = self.session.state();
            let logged = self
                .hooks
                .logged(&now, end.is_some(), &batch, &fetched, state);
            if let Some(values) = logged {
                self.observer.event(&Event::Step {
                    step,
                    values,
                    seconds: now.time.as_secs_f64(),
                });
            }
            self.evaluate(&now, end.is_some()).map_err(in_step)?;
            next = upcoming.map_err(|error| error.in_step(step + 1))?;
        }
        if let (Some(End::Data), Some(steps)) = (&end, self.limits.steps) {
            let message = format!(
                "the data ended after {step} of {steps} steps: `repeat;` in the data set `{}` starts it over",
                data.name
            );
            self.observer.event(&Event::Note(message));
        }
        let ended = Event::Ended {
            step,
            why: end.unwrap_or(End::Data),
            losses,
            seconds: self.progress(step, 0, start).time.as_secs_f64(),
        };
        self.observer.event(&ended);
        Ok(())
    }

    /// Reports micro-batches at the end that are too few for an update.
    fn note_partial_update(&mut self, micro_batches: u64) {
        if micro_batches > 0 {
            let needed = self.session.micro_batches();
            let message = format!(
                "the training ended within an update: {micro_batches} of the {needed} micro-batches that `accumulate` asks for were \
                 there, and they change nothing"
            );
            self.observer.event(&Event::Note(message));
        }
    }

    /// Reports new specialisations.
    fn specialised(&mut self) {
        for new in self.session.specialised() {
            self.observer.event(&Event::Specialised(new));
        }
    }

    fn progress(&self, step: u64, passes: u64, start: Duration) -> Progress {
        Progress {
            step,
            passes,
            time: self.env.clock().now().saturating_sub(start),
        }
    }

    /// Runs the evaluations whose timers trigger, or all of them after the last step.
    fn evaluate(&mut self, now: &Progress, last: bool) -> Result<(), Error> {
        for evaluation in &mut self.evaluations {
            if evaluation.triggers(now) || last {
                let event = evaluation.run(&mut self.session, now.step)?;
                for new in self.session.specialised() {
                    self.observer.event(&Event::Specialised(new));
                }
                self.observer.event(&event);
            }
        }
        Ok(())
    }
}

/// The results of one update: their means over its micro-batches (gradient accumulation).
#[derive(Default)]
struct MicroBatchMean {
    count: u64,
    sum: Fetched,
    /// Updates in a row that were skipped because gradients were not finite.
    skipped: u64,
}

/// Skipped updates in a row after which a run fails: a loss scale of 2^127, halved each time, is down to 1 by then.
const MAX_SKIPPED_UPDATES: u64 = 256;

impl MicroBatchMean {
    /// Adds the results of a micro-batch: float scalars are averaged, of all else the last value stays.
    fn add(&mut self, fetched: Fetched) {
        self.count += 1;
        for (name, value) in fetched.0 {
            let value = match self.sum.get(&name) {
                Some(sum) if value.shape().is_empty() && value.dtype().is_float() => {
                    Tensor::from_f64s(&value.ty(), [sum.to_f64s()[0] + value.to_f64s()[0]])
                }
                _ => value,
            };
            self.sum.0.insert(name, value);
        }
    }

    /// The means; resets the sums.
    fn take(&mut self) -> Fetched {
        let count = std::mem::take(&mut self.count);
        let mut fetched = std::mem::take(&mut self.sum);
        if count > 1 {
            for value in fetched.0.values_mut() {
                if value.shape().is_empty() && value.dtype().is_float() {
                    *value = Tensor::from_f64s(&value.ty(), [value.to_f64s()[0] / count as f64]);
                }
            }
        }
        fetched
    }

    /// Counts a skipped update; [`MAX_SKIPPED_UPDATES`] in a row are an error.
    fn skip_update(&mut self, session: &Session<'_>) -> Result<(), Error> {
        self.skipped += 1;
        if self.skipped < MAX_SKIPPED_UPDATES {
            return Ok(());
        }
        let groups = session.spec().train.iter().flat_map(|t| &t.groups);
        Err(Cause::Overflow {
            times: MAX_SKIPPED_UPDATES,
            span: groups.map(|g| g.span).next().unwrap_or_default(),
        }
        .into())
    }
}

/// The losses of a step, by name.
fn losses_of(spec: &Spec, fetched: &Fetched) -> Vec<(String, f64)> {
    let losses = spec.model.iter().flat_map(|m| &m.train.losses);
    let value = |name: &String| {
        fetched
            .value(&Fetch::Loss(name.clone()))?
            .to_f64s()
            .first()
            .copied()
    };
    losses
        .filter_map(|(name, _)| Some((name.clone(), value(name)?)))
        .collect()
}

/// The error of a data set without a first batch.
pub(super) fn no_batch(data: &Pipeline<'_>) -> DataError {
    let message = format!("the data set `{}` gives nothing to train on", data.name);
    let error = DataError::new(message);
    match (data.records, data.batch) {
        (Some(records), Some(batch)) if records > 0 && records < batch => error.help(format!(
            "it has {records} records, and a batch takes {batch}; `remainder: keep` takes what there is"
        )),
        _ => error,
    }
}

/// An evaluation of the spec.
struct Evaluation<'a> {
    eval: &'a Eval,
    data: Pipeline<'a>,
    metrics: Vec<Metric<'a>>,
    timer: Option<Timer>,
}

/// A metric or loss, averaged over the batches of an evaluation.
struct Metric<'a> {
    name: &'a str,
    /// Its result.
    fetch: Fetch,
    ty: &'a trainspec_compiler::ir::TensorType,
}

impl<'a> Evaluation<'a> {
    fn new(cx: DataContext<'a>, eval: &'a Eval, model: &'a Model) -> Result<Self, Error> {
        let set = the_data(cx.spec, &eval.data)?;
        let remainder = match set.keeps_remainder(model) {
            true => Remainder::Keep,
            false => Remainder::Drop,
        };
        let data = Pipeline::open(DataContext { remainder, ..cx }, set)?;
        Ok(Evaluation {
            eval,
            data,
            metrics: metrics(eval, &model.eval),
            timer: eval.every.map(Timer::every),
        })
    }

    /// Whether the timer triggers at this step, and the evaluation has begun (`start_after`).
    fn triggers(&mut self, now: &Progress) -> bool {
        let timer = self.timer.as_mut();
        let triggered = timer.is_some_and(|timer| timer.triggers(now));
        triggered && self.eval.start_after.is_none_or(|after| now.reaches(after))
    }

    /// Evaluates one pass over the data, or `steps` batches of it: the means of the metrics.
    fn run(&mut self, session: &mut Session<'_>, step: u64) -> Result<Event, Error> {
        self.data.rewind();
        let mut means = vec![Mean::default(); self.metrics.len()];
        let mut batches = 0;
        while self.eval.steps.is_none_or(|n| batches < n)
            && let Some(batch) = self.data.next()?
        {
            batches += 1;
            let fetched = session.evaluate(&batch, self.eval.with_ema)?;
            for (metric, mean) in self.metrics.iter().zip(&mut means) {
                let Some(own) = Mean::of(&fetched, &metric.fetch, metric.ty) else {
                    continue;
                };
                mean.add(match metric.fetch {
                    // One number for a batch, weighted by the records of the batch.
                    Fetch::Loss(_) => own.with_weight(batch.rows.unwrap_or(1) as f64),
                    _ => own,
                });
            }
        }
        if batches == 0 {
            let message = format!(
                "the data set `{}` gives nothing to evaluate on",
                self.data.name
            );
            return Err(DataError::new(message).into());
        }
        let names = self.metrics.iter().map(|m| m.name.to_owned());
        Ok(Event::Evaluated {
            name: self.eval.name.clone(),
            data: self.data.name.to_owned(),
            step,
            metrics: names.zip(means).collect(),
        })
    }
}

/// The metrics of an evaluation: those it names, else all metrics, else the losses.
fn metrics<'a>(eval: &'a Eval, mode: &'a typed::Mode) -> Vec<Metric<'a>> {
    let named: Vec<&String> = match (eval.metrics.is_empty(), mode.metrics.is_empty()) {
        (false, _) => eval.metrics.iter().collect(),
        (true, false) => mode.metrics.iter().map(|(n, _)| n).collect(),
        (true, true) => mode.losses.iter().map(|(n, _)| n).collect(),
    };
    let find = |name: &&'a String| {
        let has_name = |(n, _): &&(String, _)| n == *name;
        let metric = mode.metrics.iter().find(has_name);
        let (fetch, (name, value)) = match metric {
            Some(metric) => (Fetch::Metric(metric.0.clone()), metric),
            None => {
                let loss = mode.losses.iter().find(has_name)?;
                (Fetch::Loss(loss.0.clone()), loss)
            }
        };
        Some(Metric {
            name,
            fetch,
            ty: &mode.program.values[value.0 as usize],
        })
    };
    named.iter().filter_map(find).collect()
}
