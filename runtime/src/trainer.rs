//! The training of a spec: its data, its hooks and its evaluations around a monitored session.

use std::sync::Arc;

use trainspec_compiler::Fetch;
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::typed::{DataSet, HookKind, Model, Remainder, Spec, Train, TrainEnd};

use crate::data::{Batch, DataContext, Input, Pipeline};
use crate::env::Env;
use crate::hooks::{
    EvalHook, LogHook, NanHook, OverflowHook, ProgressHook, SessionRunHook, StopAtStepHook,
};
use crate::monitored::{InitialSession, MonitoredSession};
use crate::program::{FeedDict, Fetched};
use crate::session::{
    DataSize, End, Event, EventQueue, Observer, Options, Session, Target, parameters, the_model,
    the_train,
};
use crate::{DataError, Error, State};

/// Trains a spec from its first step to its end; gives the final state.
///
/// Fails before the first step where the spec has no `train`, `model` or data, or would train endlessly; later with the step in the error.
pub fn train(
    spec: &Arc<Spec>,
    options: &Options,
    env: &Arc<dyn Env>,
    observer: &mut dyn Observer,
) -> Result<State, Error> {
    let mut run = Run::open(spec, options, env, observer)?;
    let mut end = run.begin()?;
    while end.is_none() {
        end = match run.next_update()? {
            Update::Complete(batches) => run.update(&batches)?,
            Update::Cut { batches, why } => run.cut(&batches, why),
        };
    }
    run.close(end)
}

/// The micro-batches of an update.
enum Update {
    Complete(Vec<Batch>),
    /// The training ends before there are enough.
    Cut {
        batches: Vec<Batch>,
        why: End,
    },
}

/// A training under way.
struct Run<'o> {
    session: MonitoredSession,
    input: Input,
    limits: Limits,
    events: EventQueue,
    observer: &'o mut dyn Observer,
    losses: Vec<(String, f64)>,
}

impl<'o> Run<'o> {
    /// Opens the data of the training and of all evaluations, and creates the session with its hooks.
    fn open(
        spec: &Arc<Spec>,
        options: &Options,
        env: &Arc<dyn Env>,
        observer: &'o mut dyn Observer,
    ) -> Result<Run<'o>, Error> {
        let train = the_train(spec)?;
        let model = the_model(spec)?;
        let seed = options.seed.unwrap_or(train.seed);
        let cx = DataContext {
            spec: spec.clone(),
            env: env.clone(),
            folder: options.folder.as_path().into(),
            seed,
            pipeline: options.pipeline.clone(),
            remainder: Remainder::Drop,
        };
        let mut data = training_data(&cx, train)?;
        let limits = Limits::new(spec, train, options);
        if limits.epochs.is_some() {
            data = data.repeated();
        }
        limits.ensure_end(&data)?;
        let mut sizes = vec![size_of(&data)];
        let events = EventQueue::default();
        let mut evaluations = Vec::new();
        for eval in &spec.evals {
            let mut data = evaluation_data(&cx, the_data(spec, &eval.data)?, model)?;
            // What cannot be read is an error before the first step, not after hours.
            data.next()?;
            data.rewind();
            if !sizes.iter().any(|size| size.name == data.name) {
                sizes.push(size_of(&data));
            }
            evaluations.push(EvalHook::new(spec, eval, data, events.clone()));
        }
        let hooks = hooks(spec, model, env, &events, evaluations);
        let creator = InitialSession {
            spec: spec.clone(),
            options: options.clone(),
        };
        let session = MonitoredSession::new(Box::new(creator), hooks)?;
        observer.event(&Event::Started {
            spec: spec.name.clone(),
            parameters: parameters(spec),
            data: sizes,
            seed,
        });
        for hook in ignored(spec) {
            let message = format!("`{hook}` in `hooks` is not run yet");
            observer.event(&Event::Note(message));
        }
        Ok(Run {
            session,
            input: Input::new(data),
            limits,
            events,
            observer,
            losses: Vec::new(),
        })
    }

    fn session(&mut self) -> &mut Session {
        let session = self.session.raw_session();
        session.expect("a training has a session until it is closed")
    }

    /// Compiles the step for the first batch, so that errors of the spec are reported before it; why the training ends before the first
    /// step, if it does.
    fn begin(&mut self) -> Result<Option<End>, Error> {
        let Some(first) = self.input.peek()? else {
            return Err(no_batch(&self.input).into());
        };
        let first = first.clone();
        for warning in self.session().prepare(&first)? {
            self.observer.event(&Event::Warning(warning));
        }
        self.report();
        let step = self.session().global_step();
        Ok(self.limits.end(step, first.pass, false))
    }

    /// Draws the micro-batches of the next update.
    fn next_update(&mut self) -> Result<Update, Error> {
        let step = self.session().global_step();
        let count = self.session().micro_batches();
        let mut batches: Vec<Batch> = Vec::with_capacity(count);
        while batches.len() < count {
            let ended = batches
                .last()
                .and_then(|batch| self.limits.end(step, batch.passes, batch.last));
            if let Some(why) = ended {
                return Ok(Update::Cut { batches, why });
            }
            match self.input.next().map_err(|e| e.in_step(step + 1))? {
                Some(batch) => batches.push(batch),
                None => {
                    let why = End::Data;
                    return Ok(Update::Cut { batches, why });
                }
            }
        }
        Ok(Update::Complete(batches))
    }

    /// One update with all hooks; why the training ends after it, if it does.
    fn update(&mut self, batches: &[Batch]) -> Result<Option<End>, Error> {
        let step = self.session().global_step();
        let (passes, last) = batches.last().map_or((0, true), |b| (b.passes, b.last));
        let end = self.limits.end(step + 1, passes, last);
        let status = self.session().status_mut();
        (status.passes, status.last) = (passes, end.is_some());
        let feeds: Vec<&dyn FeedDict> = batches.iter().map(|b| &b.element as _).collect();
        let ran = self.session.run_targets(&[Target::TrainOp], &feeds);
        self.report();
        ran.map_err(|error| error.in_step(step + 1))?;
        let now = self.session().global_step();
        if now > step {
            self.losses = losses_of(self.session());
        }
        // Where the update was skipped, the step is still to be made.
        let end = self.limits.end(now, passes, last);
        Ok(match self.session.should_stop() {
            true => Some(self.events.why().unwrap_or(End::Steps)),
            false => end,
        })
    }

    /// The training ends within an update: its micro-batches change nothing.
    fn cut(&mut self, batches: &[Batch], why: End) -> Option<End> {
        if let Some(batch) = batches.last() {
            let needed = self.session().micro_batches();
            self.session().status_mut().passes = batch.passes;
            let message = format!(
                "the training ended within an update: {} of the {needed} micro-batches that `accumulate` asks for were there, and they \
                 change nothing",
                batches.len()
            );
            self.observer.event(&Event::Note(message));
        }
        Some(why)
    }

    /// Passes on what hooks reported.
    fn report(&mut self) {
        for new in self.session().specialised() {
            self.observer.event(&Event::Specialised(new));
        }
        for event in self.events.take() {
            self.observer.event(&event);
        }
    }

    /// Ends the training: the last evaluations, and the event that says why.
    fn close(mut self, end: Option<End>) -> Result<State, Error> {
        let step = self.session().global_step();
        let state = self.session().state().clone();
        let seconds = self.session().status().time.as_secs_f64();
        let closed = self.session.close();
        for event in self.events.take() {
            self.observer.event(&event);
        }
        closed.map_err(|error| error.in_step(step))?;
        let why = end.unwrap_or(End::Data);
        if let (End::Data, Some(steps)) = (&why, self.limits.steps) {
            let message = format!(
                "the data ended after {step} of {steps} steps: `repeat;` in the data set `{}` starts it over",
                self.input.name()
            );
            self.observer.event(&Event::Note(message));
        }
        self.observer.event(&Event::Ended {
            step,
            why,
            losses: self.losses,
            seconds,
        });
        Ok(state)
    }
}

/// The hooks of a spec, in the order in which they act at one step: log, evaluations; and those that always watch.
fn hooks(
    spec: &Arc<Spec>,
    model: &Model,
    env: &Arc<dyn Env>,
    events: &EventQueue,
    evaluations: Vec<EvalHook>,
) -> Vec<Box<dyn SessionRunHook>> {
    let mut log = LogHook::new(events.clone());
    let mut nan = NanHook::new(events.clone());
    let mut stops: Vec<Box<dyn SessionRunHook>> = Vec::new();
    for hook in &spec.hooks {
        match &hook.kind {
            HookKind::Log {
                names,
                every,
                at_end,
            } => log.add(spec, names, *every, *at_end),
            HookKind::Nan { name, fail } => nan.add(name, *fail),
            HookKind::StopAt(bound) => stops.push(Box::new(StopAtStepHook::new(*bound))),
            _ => {}
        }
    }
    let mut hooks: Vec<Box<dyn SessionRunHook>> = vec![
        Box::new(ProgressHook::new(env.clone())),
        Box::new(OverflowHook::default()),
        Box::new(nan.with_losses(spec)),
    ];
    hooks.append(&mut stops);
    hooks.push(Box::new(log.or_default(&model.train)));
    hooks.extend(evaluations.into_iter().map(|eval| Box::new(eval) as _));
    hooks
}

/// The hooks that are not run yet, each once.
fn ignored(spec: &Spec) -> Vec<&'static str> {
    let mut ignored = Vec::new();
    for hook in &spec.hooks {
        let word = hook.kind.word();
        if !matches!(word, "log" | "nan" | "stop_at") && !ignored.contains(&word) {
            ignored.push(word);
        }
    }
    ignored
}

fn training_data(cx: &DataContext, train: &Train) -> Result<Pipeline, Error> {
    match &train.data {
        Some(name) => Pipeline::open(cx, the_data(&cx.spec, name)?),
        None => Err(Diagnostic::without_span(
            Code::MissingSetting,
            "`train` has no data, so a program must feed it",
        )
        .help("say what is trained on: `data NAME;`")
        .into()),
    }
}

/// The data of an evaluation, with a short last batch where the model takes it.
fn evaluation_data(cx: &DataContext, set: &DataSet, model: &Model) -> Result<Pipeline, Error> {
    let remainder = match set.keeps_remainder(model) {
        true => Remainder::Keep,
        false => Remainder::Drop,
    };
    let cx = DataContext {
        remainder,
        ..cx.clone()
    };
    Pipeline::open(&cx, set)
}

fn the_data<'a>(spec: &'a Spec, name: &str) -> Result<&'a DataSet, Error> {
    spec.data.iter().find(|d| d.name == name).ok_or_else(|| {
        let message = format!("there is no data set `{name}`");
        Diagnostic::without_span(Code::UnknownName, message).into()
    })
}

fn size_of(data: &Pipeline) -> DataSize {
    DataSize {
        name: data.name.clone(),
        records: data.records,
        batch: data.batch,
    }
}

/// The bounds of a training, besides the end of its data.
struct Limits {
    steps: Option<u64>,
    epochs: Option<u64>,
    /// Whether a hook ends it.
    is_stopped: bool,
}

impl Limits {
    fn new(spec: &Spec, train: &Train, options: &Options) -> Limits {
        let (steps, epochs) = match (options.steps, train.until) {
            (Some(n), _) => (Some(n), None),
            (None, Some(TrainEnd::Steps(n))) => (Some(n), None),
            (None, Some(TrainEnd::Epochs(n))) => (None, Some(n)),
            (None, None) => (None, None),
        };
        // A hook that stops at a step of the whole training is a limit that is known before.
        let stops = spec.hooks.iter().filter_map(|hook| match hook.kind {
            HookKind::StopAt(trainspec_compiler::typed::StopAt::LastStep(last)) => Some(last),
            _ => None,
        });
        Limits {
            steps: stops.chain(steps).min(),
            epochs,
            is_stopped: (spec.hooks.iter()).any(|h| matches!(h.kind, HookKind::StopAt(_))),
        }
    }

    /// Fails where nothing ends the training.
    fn ensure_end(&self, data: &Pipeline) -> Result<(), Error> {
        let ends = self.steps.is_some() || self.epochs.is_some() || self.is_stopped;
        if ends || !data.endless {
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

    /// Why the training ends after a step, if it does: `passes` have ended, and with `last` the data has.
    fn end(&self, step: u64, passes: u64, last: bool) -> Option<End> {
        match () {
            () if self.steps.is_some_and(|n| step >= n) => Some(End::Steps),
            () if last => Some(End::Data),
            () if self.epochs.is_some_and(|n| passes >= n) => Some(End::Epochs),
            () => None,
        }
    }
}

/// The losses of the last update, by name.
fn losses_of(session: &Session) -> Vec<(String, f64)> {
    let losses = session.spec().model.iter().flat_map(|m| &m.train.losses);
    let fetched: &Fetched = session.step_results();
    let value = |name: &String| {
        let value = fetched.value(&Fetch::Loss(name.clone()))?;
        value.to_f64s().first().copied()
    };
    losses
        .filter_map(|(name, _)| Some((name.clone(), value(name)?)))
        .collect()
}

/// The error of a data set without a first batch.
fn no_batch(data: &Input) -> DataError {
    let message = format!("the data set `{}` gives nothing to train on", data.name());
    let error = DataError::new(message);
    match (data.records(), data.batch()) {
        (Some(records), Some(batch)) if records > 0 && records < batch => error.help(format!(
            "it has {records} records, and a batch takes {batch}; `remainder: keep` takes what there is"
        )),
        _ => error,
    }
}
