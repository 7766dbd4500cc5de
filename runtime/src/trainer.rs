//! The training of a spec: its data, its hooks and its evaluations around a monitored session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::lower::{Binding, GLOBAL_STEP};
use trainspec_compiler::typed::{
    CheckpointFormat, DataSet, DefaultHook, HookKind, Model, Remainder, Spec, Train, TrainEnd,
};
use trainspec_compiler::{Fetch, Trainable};

use crate::data::{Batch, DataContext, Input, Pipeline, Position, SharedTables, gives_nothing};
use crate::default_hooks::{default_dir, with_default_hooks};
use crate::dry_run::warm_start_plan;
use crate::env::{Clock, Storage};
use crate::hooks::{BestSaver, EvalHook, LastBatch, read};
use crate::machine::{self, MACHINE_RECORD};
use crate::monitored::{MonitoredSession, SessionCreator};
use crate::program::{FeedDict, Fetched};
use crate::registry::{Feeds, Made};
use crate::run_description::{IDENTITY_RECORD, RunDescription};
use crate::run_folder::RunFolder;
use crate::saver::{Format, NewestCheckpoint, Saver, SaverOptions, VarList, restore_run_in};
use crate::schedule_curves::schedule_curves;
use crate::session::{
    DataSize, End, Event, EventQueue, Observer, Options, POSITION_RECORD, RunOptions, Session,
    StepProgress, Target, bind, parameters, the_model, the_train,
};
use crate::spec_hooks::{HookParts, Savers, spec_hooks};
use crate::training_tables::{takes_tables, the_tables};
use crate::{Cause, Error, Graph, State, StopToken};

/// Trains a spec from its first step to its end; gives the final state.
///
/// Fails before the first step where the spec has no `train`, `model` or data, or would train endlessly; later with the step in the error.
pub fn train(
    spec: &Arc<Spec>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<State, Error> {
    let spec = &with_default_hooks(spec, options);
    let mut run = Run::open(spec, options, observer)?;
    match run.train() {
        Ok(end) => run.close(end),
        Err(error) => Err(run.fail(error)),
    }
}

/// The time that a training waits for its data before it says so.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(10);

/// The micro-batches of an update.
enum Update {
    Complete(Vec<Batch>),
    /// The training ends before there are enough.
    Cut {
        batches: Vec<Batch>,
        why: End,
    },
}

/// What the data of a training is read for.
pub(crate) const TO_TRAIN: &str = " to train on";

/// A training under way.
struct Run<'o> {
    /// In which its data was opened.
    cx: DataContext,
    session: MonitoredSession,
    input: Input,
    limits: Limits,
    events: EventQueue,
    observer: &'o mut dyn Observer,
    losses: Vec<(String, f64)>,
    /// The learning rates of a next step.
    learning_rates: Vec<(String, f64)>,
    /// The sizes of the first batch.
    dims: Option<Binding>,
    stop: StopToken,
    feeds: Feeds,
    /// The batch that `final_ops` computes with; without such a hook there is none.
    last_batch: Option<LastBatch>,
    /// The records that were trained on.
    examples: u64,
    /// The epochs after which it was said which records were left out, and how many they were.
    reported_passes: u64,
    reported_left_out: u64,
    /// The folder of the run, locked until it is over.
    folder: Option<RunFolder>,
}

impl<'o> Run<'o> {
    /// Opens the data of the training and of all evaluations, and creates the session with its hooks.
    fn open(
        spec: &Arc<Spec>,
        options: &Options,
        observer: &'o mut dyn Observer,
    ) -> Result<Run<'o>, Error> {
        let env = &options.env;
        let train = the_train(spec)?;
        let model = the_model(spec)?;
        let seed = options.seed.unwrap_or(train.seed);
        let cx = DataContext::of(spec, options, seed);
        let events = EventQueue::default();
        let Made {
            hooks: registered,
            feeds,
            listeners,
        } = options.registry.make(spec, &events)?;
        let mut data = training_data(&cx, train)?;
        let limits = Limits::new(spec, train, options);
        if limits.epochs.is_some() {
            data = data.repeated();
        }
        limits.ensure_end(&data)?;
        let mut sizes = vec![size_of(&data)];
        let mut evaluations = Vec::new();
        for eval in &spec.evals {
            let set = the_data(spec, &eval.data)?;
            let eval_cx = evaluation_context(&cx, set, model);
            let data = Pipeline::open(&eval_cx, set)?;
            if !sizes.iter().any(|size| size.name == data.name) {
                sizes.push(size_of(&data));
            }
            let (feeds, stop) = (feeds.clone(), options.stop.clone());
            let mut hook = EvalHook::new(spec, eval, data, feeds, events.clone(), stop);
            // What cannot be read is an error before the first step, not after hours.
            if !takes_tables(spec, eval) {
                hook.check_data(&eval_cx)?;
            }
            evaluations.push(hook);
        }
        let mut input = Input::new(data);
        if options.engine.threads() > 1 {
            input = input.ahead();
        }
        State::ensure_fits(&Trainable::from(spec.clone()))?;
        let mut identity = None;
        let mut folder = match run_dir(spec, options) {
            Some(dir) => {
                let evaluated: Vec<_> = evaluations.iter().map(EvalHook::files).collect();
                let run = RunDescription::of(spec, options, input.files(), &evaluated)?;
                if options.fresh {
                    // What is moved aside is not looked for afterwards.
                    warm_start_plan(spec, options)?;
                }
                identity = Some(run.identity_record());
                Some(RunFolder::open(env, &dir, &run, options.fresh)?)
            }
            None => None,
        };
        let (savers, newest) = match &mut folder {
            Some(folder) => {
                let (mut savers, newest) = the_savers(spec, &env.storage, &folder.path)?;
                savers.data = folder.data.take();
                (Some(savers), Some(newest))
            }
            None => (None, None),
        };
        let newest = match newest.map(NewestCheckpoint::unless_all_damaged).transpose() {
            Ok(newest) => newest,
            Err(e) => return Err(e.help("`--fresh` moves that run aside and starts over")),
        };
        let checkpoint = newest.as_ref().and_then(|newest| newest.path.clone());
        if options.resume && checkpoint.is_none() {
            return Err(nothing_to_resume(run_dir(spec, options).as_deref()));
        }
        the_tables(&cx, checkpoint.as_deref(), &options.stop)?;
        for (eval, hook) in spec.evals.iter().zip(&mut evaluations) {
            if takes_tables(spec, eval) {
                let set = the_data(spec, &eval.data)?;
                hook.check_data(&evaluation_context(&cx, set, model))?;
            }
        }
        let last_batch = LastBatch::default();
        let parts = HookParts {
            options,
            events: &events,
            run_dir: run_dir(spec, options),
            default_dir: default_dir(spec),
            evaluations,
            savers,
            registered,
            listeners,
            last_batch: last_batch.clone(),
            identity: identity.clone(),
        };
        let hooks = spec_hooks(spec, model, parts);
        let creator = RestoredSession {
            options: options.clone(),
            checkpoint: checkpoint.clone(),
            identity,
            tables: cx.tables.clone(),
            events: events.clone(),
        };
        let graph = Graph::new_in(spec, env.clone());
        let mut session = MonitoredSession::singular(graph, Box::new(creator), hooks)?;
        folder.as_ref().map_or(Ok(()), RunFolder::begin)?;
        observer.event(&Event::Started {
            spec: spec.name.clone(),
            parameters: parameters(spec),
            data: sizes,
            seed,
        });
        for note in folder.iter().flat_map(|folder| &folder.notes) {
            observer.event(&Event::Note(note.clone()));
        }
        for skipped in newest.iter().flat_map(|newest| &newest.skipped) {
            observer.event(&Event::Note(skipped.to_string()));
        }
        if let Some(plan) = session.raw_session()?.warm_started() {
            observer.event(&Event::WarmStarted(plan.clone()));
        }
        if let Some(path) = checkpoint {
            if options.warm_start.is_some() && session.raw_session()?.warm_started().is_none() {
                let message = format!(
                    "`--warm-start` is not used: the run goes on from {}; `--fresh` starts over",
                    path.display()
                );
                observer.event(&Event::Note(message));
            }
            resume(
                session.raw_session()?,
                &mut input,
                path,
                &*env.clock,
                observer,
            )?;
        }
        Ok(Run {
            cx,
            session,
            input,
            limits,
            events,
            observer,
            losses: Vec::new(),
            learning_rates: Vec::new(),
            dims: None,
            stop: options.stop.clone(),
            feeds,
            last_batch: computes_at_end(spec).then_some(last_batch),
            examples: 0,
            reported_passes: 0,
            reported_left_out: 0,
            folder,
        })
    }

    fn session(&mut self) -> &mut Session {
        let session = self.session.raw_session();
        session.expect("a training has a session until it is closed")
    }

    /// Trains to the end; why it ends.
    fn train(&mut self) -> Result<End, Error> {
        if let Some(end) = self.begin()? {
            return Ok(end);
        }
        loop {
            let update = self.next_update()?;
            let end = match update {
                Update::Complete(batches) => {
                    let rows = batches.iter().map(|b| b.element.rows.unwrap_or(1) as u64);
                    let (rows, passes) = (rows.sum::<u64>(), batches.last().map(|b| b.passes));
                    let end = self.update(batches)?;
                    self.examples += rows;
                    self.report_left_out(passes);
                    self.report_progress(passes.unwrap_or(0));
                    end
                }
                Update::Cut { batches, why } => self.cut(&batches, why),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Says which records cannot be decoded and were left out: at the end of an epoch (`passes` have ended) that had more of them, and
    /// at the end of the training.
    fn report_left_out(&mut self, passes: Option<u64>) {
        for note in self.cx.notes.take() {
            self.observer.event(&Event::Note(note));
        }
        let is_later = passes.is_none_or(|passes| passes > self.reported_passes);
        let Some(left_out) = self.input.left_out().filter(|_| is_later) else {
            return;
        };
        self.reported_passes = passes.unwrap_or(self.reported_passes);
        if left_out.records > self.reported_left_out {
            self.reported_left_out = left_out.records;
            let message = format!("data set `{}`: {left_out}", self.input.name());
            self.observer.event(&Event::Note(message));
        }
    }

    /// Passes on what the run is doing, where the observer follows it.
    fn report_progress(&mut self, passes: u64) {
        if !self.observer.follows() {
            return;
        }
        let session = self.session();
        let spec = session.spec().clone();
        let mode = spec.model.iter().map(|model| &model.train);
        let mode = mode.flat_map(|mode| mode.losses.iter().chain(&mode.metrics));
        let schedules = spec.train.iter().flat_map(|train| &train.schedules);
        let names = mode.chain(schedules).map(|(name, _)| name);
        let values = names.filter_map(|name| Some((name.clone(), read(session, None, name)?)));
        let now = StepProgress {
            values: values.collect(),
            step: session.global_step(),
            seconds: session.status().time.as_secs_f64(),
            last_step: self.limits.steps,
            epochs: self.limits.epochs,
            passes,
            examples: self.examples,
            waited: self.input.waited().as_secs_f64(),
        };
        self.observer.event(&Event::Progress(now));
    }

    /// Compiles the step for the first batch, so that errors of the spec are reported before it; why the training ends before the first
    /// step, if it does.
    fn begin(&mut self) -> Result<Option<End>, Error> {
        let step = self.session().global_step();
        let Some(mut first) = self.input.peek()? else {
            return match step {
                0 => Err(gives_nothing(
                    &self.cx,
                    the_data(&self.cx.spec, self.input.name())?,
                    TO_TRAIN,
                )
                .into()),
                _ => Ok(Some(End::Data)),
            };
        };
        self.feeds.fill_ahead(&mut first)?;
        for warning in self.session().prepare(&first)? {
            self.observer.event(&Event::Warning(warning));
        }
        self.report();
        self.dims = Some(bind(the_model(&self.session().spec().clone())?, &first)?);
        self.learning_rates = self.next_learning_rates();
        let passes = first.pass.max(self.session().status().passes);
        let end = self.limits.end(step, passes, false);
        if end.is_some() && step > 0 {
            let message = format!(
                "this run has finished: step {step}; a larger `steps` continues it, `--fresh` starts over"
            );
            self.observer.event(&Event::Note(message));
        }
        if let Some(last_batch) = &self.last_batch {
            last_batch.set(first);
        }
        let stopped = self.stop.should_stop().then_some(End::Stopped);
        let end = end.or_else(|| self.ended_before()).or(stopped);
        if end.is_none() {
            self.report_waits();
            self.report_ended_rates(step);
        }
        Ok(end)
    }

    /// The learning rates of the step that comes next, those that depend on the step alone.
    fn next_learning_rates(&mut self) -> Vec<(String, f64)> {
        let session = self.session();
        let (spec, step) = (session.spec().clone(), session.global_step());
        let (Some(train), Some(dims)) = (&spec.train, &self.dims) else {
            return Vec::new();
        };
        let is_rate = |name: &str| {
            let mut schedules = train.schedules.iter();
            schedules.any(|(n, id)| n == name && train.learning_rates.contains(id))
        };
        let curves = schedule_curves(&Trainable::from(spec.clone()), train, dims, &[step]);
        let rates = curves.into_iter().filter(|(name, _)| is_rate(name));
        rates.map(|(name, values)| (name, values[0])).collect()
    }

    /// Says where a training goes on with a learning rate that has come down to 0.
    fn report_ended_rates(&mut self, step: u64) {
        for (name, value) in &self.learning_rates {
            if step > 0 && *value == 0.0 {
                let message = format!(
                    "the learning rate `{name}` is 0 at step {step}: its schedule has ended, and a longer one is another training, for which `--warm-start` takes the values"
                );
                self.observer.event(&Event::Note(message));
            }
        }
    }

    /// Why a hook has ended this run before it was started again, if one has.
    fn ended_before(&mut self) -> Option<End> {
        let end = self.events.why()?;
        let finished = match &end {
            End::NoImprovement(metric) => {
                format!("`{metric}` no longer improves; a larger `patience`")
            }
            End::Steps => {
                let step = self.session().global_step();
                format!("step {step}; a larger `stop_at`")
            }
            _ => return Some(end),
        };
        let message =
            format!("this run has finished: {finished} continues it, `--fresh` starts over");
        self.observer.event(&Event::Note(message));
        Some(end)
    }

    /// Says what the first step waits for.
    fn report_waits(&mut self) {
        let spec = self.session().spec().clone();
        for hook in &spec.hooks {
            if let HookKind::WaitForStep { step, dir } = &hook.kind {
                let message = format!("the first step waits until `{dir}` has step {step}");
                self.observer.event(&Event::Note(message));
            }
        }
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
            let stopped = !batches.is_empty() && self.stop.should_stop();
            if let Some(why) = ended.or(stopped.then_some(End::Stopped)) {
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
    fn update(&mut self, mut batches: Vec<Batch>) -> Result<Option<End>, Error> {
        let step = self.session().global_step();
        let newest = batches.last_mut().expect("an update has a micro-batch");
        let (passes, last) = (newest.passes, newest.last);
        let position = std::mem::take(&mut newest.position);
        let end = self.limits.end(step + 1, passes, last);
        let elements = batches.iter_mut().map(|batch| &mut batch.element);
        (self.feeds.fill(elements)).map_err(|error| error.in_step(step + 1))?;
        let status = self.session().status_mut();
        let before = (status.position.replace(position), status.passes);
        (status.passes, status.last) = (passes, end.is_some());
        let feeds: Vec<&dyn FeedDict> = batches.iter().map(|b| &b.element as _).collect();
        let ran = (self.session).run_targets(&[Target::TrainOp], &feeds, &RunOptions::default());
        self.report();
        let ended = match ran {
            Ok(()) => false,
            // A hook ended it without a failure.
            Err(error) if error.is_end_of_input() => true,
            Err(error) => {
                // A checkpoint that follows is that of before the step.
                let status = self.session().status_mut();
                (status.position, status.passes) = before;
                return match error.cause {
                    Cause::Stopped { .. } => Ok(self.cut(&batches, End::Stopped)),
                    _ => self.not_finite(error.in_step(step + 1), &batches).map(Some),
                };
            }
        };
        let now = self.session().global_step();
        if ended && now == step {
            let status = self.session().status_mut();
            (status.position, status.passes) = before;
        } else if let (Some(last_batch), Some(batch)) = (&self.last_batch, batches.pop()) {
            last_batch.set(batch.element);
        }
        if now > step {
            self.losses = losses_of(self.session());
        }
        if ended {
            let stopped = self.stop.should_stop().then_some(End::Stopped);
            return Ok(Some(self.events.why().or(stopped).unwrap_or(End::Data)));
        }
        // Where the update was skipped, the step is still to be made.
        let end = self.limits.end(now, passes, last);
        Ok(match self.session.should_stop() {
            true => Some(self.events.why().unwrap_or(End::Steps)),
            false => end,
        })
    }

    /// The end of a training whose checked value is not finite and whose `nan` hook says that this is no failure; any other error is given
    /// back. A row that causes it gets the location of its record.
    fn not_finite(&mut self, mut error: Error, batches: &[Batch]) -> Result<End, Error> {
        let Cause::NotFinite { name, origin, .. } = &mut error.cause else {
            return Err(error);
        };
        let name = name.clone();
        if let Some(origin) = origin {
            let batch = batches.get(origin.micro_batch);
            let locations = batch.map(|batch| &batch.element.locations);
            let located = locations.zip(origin.row);
            origin.record = located.and_then(|(all, row)| all.get(row));
        }
        let hooks = self.session().spec().clone();
        let mut hooks = hooks.hooks.iter().filter_map(|hook| match &hook.kind {
            HookKind::Nan { name, fail } => Some((name, *fail)),
            _ => None,
        });
        match hooks.find(|(checked, _)| **checked == name) {
            Some((_, false)) => {
                let diagnostic = error.diagnostic();
                let why = match diagnostic.label.is_empty() {
                    true => diagnostic.message,
                    false => format!("{}; {}", diagnostic.message, diagnostic.label),
                };
                self.observer.event(&Event::Note(why));
                Ok(End::NotFinite(name))
            }
            Some((_, true)) | None => Err(error),
        }
    }

    /// The training ends within an update: its micro-batches change nothing.
    fn cut(&mut self, batches: &[Batch], why: End) -> Option<End> {
        if let Some(batch) = batches.last() {
            let needed = self.session().micro_batches();
            let passes = batch.passes;
            let message = match why {
                // The update is made by a run that goes on from here.
                End::Stopped => format!(
                    "stopped within an update of {needed} micro-batches, which `accumulate` asks for: those that were there change nothing"
                ),
                _ => {
                    self.session().status_mut().passes = passes;
                    format!(
                        "the training ended within an update: {} of the {needed} micro-batches that `accumulate` asks for were there, \
                         and they change nothing",
                        batches.len()
                    )
                }
            };
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

    /// Ends a training that failed: the session is closed, its threads are joined, and no hook is asked to do more.
    fn fail(mut self, error: Error) -> Error {
        let step = self.session().global_step();
        let closed = self.session.close_after(Some(error.clone()));
        for event in self.events.take() {
            self.observer.event(&event);
        }
        let error = closed.err().unwrap_or(error);
        if let Some(folder) = &mut self.folder {
            // The error of the run is what counts.
            let _ = folder.end(step, "failed", Some(&error));
        }
        error
    }

    /// Ends the training: the last evaluations, and the event that says why.
    fn close(mut self, why: End) -> Result<State, Error> {
        self.report_left_out(None);
        let step = self.session().global_step();
        let seconds = self.session().status().time.as_secs_f64();
        self.learning_rates = self.next_learning_rates();
        let closed = self.session.finish();
        for event in self.events.take() {
            self.observer.event(&event);
        }
        let closed = closed.map_err(|error| error.in_step(step));
        if let Some(folder) = &mut self.folder {
            let ended = match &closed {
                Ok(_) => folder.end(step, why.name(), None),
                Err(error) => folder.end(step, "failed", Some(error)),
            };
            if let Err(error) = ended {
                let message = format!("how the run ended is not recorded: {error}");
                self.observer.event(&Event::Note(message));
            }
        }
        let session = closed?;
        if let (End::Data, Some(steps)) = (&why, self.limits.steps) {
            let message = format!(
                "the data ended after {step} of {steps} steps: `repeat;` in the data set `{}` starts it over",
                self.input.name()
            );
            self.observer.event(&Event::Note(message));
        }
        let waited = self.input.waited();
        if waited >= MIN_REPORTED_WAIT && waited.as_secs_f64() > seconds / 2.0 {
            let message = format!(
                "bound by its reader: the steps waited {:.0} of {seconds:.0} s for the data set `{}`; `trainspec data` shows where its time goes",
                waited.as_secs_f64(),
                self.input.name()
            );
            self.observer.event(&Event::Note(message));
        }
        self.observer.event(&Event::Ended {
            step,
            why,
            losses: self.losses,
            learning_rates: self.learning_rates,
            seconds,
        });
        Ok(session.into_state())
    }
}

/// Creates sessions from a checkpoint, where there is one.
struct RestoredSession {
    options: Options,
    checkpoint: Option<PathBuf>,
    /// The record of the training that it must be of, if it says of which it is.
    identity: Option<String>,
    /// What every checkpoint holds of the training data.
    tables: SharedTables,
    events: EventQueue,
}

impl SessionCreator for RestoredSession {
    fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error> {
        graph.finalize();
        let Some(path) = &self.checkpoint else {
            let mut session = Session::new(graph.spec(), &self.options)?;
            session.keep_tables(&self.tables);
            check_finite(&mut session);
            return Ok(session);
        };
        let mut session = Session::uninitialized(graph.spec(), &self.options)?;
        let restored = restore_run_in(graph.storage(), session.state_mut(), path)?;
        session.initialize_missing()?;
        let recorded = restored.records.get(IDENTITY_RECORD);
        if let (Some(own), Some(recorded)) = (&self.identity, recorded)
            && own != recorded
        {
            let message = format!(
                "{} is a checkpoint of another training, or of another seed",
                path.display()
            );
            return Err(Error::new(crate::Code::FailedPrecondition, message)
                .help("`--fresh` moves its folder aside and starts over; `--warm-start` takes its values into a new training"));
        }
        if let Some(note) = restored.plan.inexact() {
            self.events.push(Event::Note(note));
        }
        let recorded = restored.records.get(MACHINE_RECORD);
        if let Some(note) = machine::compare(recorded, &self.options.engine) {
            self.events.push(Event::Note(note));
        }
        session.restored(restored.records);
        session.keep_tables(&self.tables);
        check_finite(&mut session);
        Ok(session)
    }
}

/// Lets a session check its losses, unless the spec says `nan none;`.
fn check_finite(session: &mut Session) {
    if !session.spec().hooks_off.contains(&DefaultHook::Nan) {
        session.check_finite();
    }
}

/// The error of a run that is to go on, and has no checkpoint.
pub(crate) fn nothing_to_resume(dir: Option<&Path>) -> Error {
    let message = match dir {
        Some(dir) => format!("there is no checkpoint in {} to go on from", dir.display()),
        None => {
            "the spec has no `checkpoint` hook, so there is no checkpoint to go on from".to_owned()
        }
    };
    Error::new(crate::Code::NotFound, message).help(
        "without `--resume` a run begins where there is none; `--dir FOLDER` names another folder",
    )
}

/// How often a run that goes on says how far it has read its data again.
const REREADING: Duration = Duration::from_secs(1);

/// Goes to the position of the input that a checkpoint holds.
fn resume(
    session: &mut Session,
    input: &mut Input,
    path: PathBuf,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let step = session.global_step();
    let reread = match session.records().get(POSITION_RECORD) {
        Some(text) => {
            let position: Position = text.parse()?;
            let mut said = clock.now();
            let reread = input.seek_watched(&position, &mut |records| {
                let now = clock.now();
                if now.saturating_sub(said) >= REREADING {
                    said = now;
                    observer.event(&Event::Rereading { records });
                }
            })?;
            session.status_mut().position = Some(position);
            reread
        }
        None => {
            let message = format!(
                "{} holds no position of the input, so the input starts over",
                path.display()
            );
            observer.event(&Event::Note(message));
            0
        }
    };
    observer.event(&Event::Resumed { step, path, reread });
    Ok(())
}

/// The folder of the run: the one that is given, or that of the `checkpoint` hook.
pub(crate) fn run_dir(spec: &Spec, options: &Options) -> Option<PathBuf> {
    let mut hooks = spec.hooks.iter();
    let dir = hooks.find_map(|hook| match &hook.kind {
        HookKind::Checkpoint { dir, .. } => Some(PathBuf::from(dir)),
        _ => None,
    });
    dir.map(|dir| options.dir.clone().unwrap_or(dir))
}

/// Whether a spec computes values at the end.
fn computes_at_end(spec: &Spec) -> bool {
    let mut hooks = spec.hooks.iter();
    hooks.any(|hook| matches!(hook.kind, HookKind::FinalOps { .. }))
}

/// The savers of the `checkpoint` hook, which go on with the lists of the folder, and the newest complete checkpoint there.
fn the_savers(
    spec: &Spec,
    storage: &Arc<dyn Storage>,
    folder: &Path,
) -> Result<(Savers, NewestCheckpoint), Error> {
    let mut best = None;
    let mut options = SaverOptions {
        save_relative_paths: true,
        create_folder: true,
        ..SaverOptions::default()
    };
    for hook in &spec.hooks {
        if let HookKind::Checkpoint {
            keep,
            keep_every,
            basename,
            format,
            vars,
            best: chosen,
            ..
        } = &hook.kind
        {
            options.format = match format {
                CheckpointFormat::Bundle => Format::V2,
                CheckpointFormat::Safetensors => Format::Safetensors,
            };
            if !vars.is_empty() {
                // The step goes on in any case, and with it the names of checkpoints.
                let step = GLOBAL_STEP.to_owned();
                let patterns = vars.iter().cloned().chain([step]);
                options.var_list = VarList::Matching(patterns.collect());
            }
            if let Some(chosen) = chosen {
                let opened = BestSaver::open(storage, &options, folder, basename, chosen)?;
                best = Some(opened);
            }
            options.max_to_keep = u32::try_from(*keep).ok();
            if let Some(seconds) = keep_every {
                options.keep_checkpoint_every_n_hours = seconds / 3600.0;
            }
        }
    }
    let mut saver = Saver::new_in(storage, options)?;
    let newest = NewestCheckpoint::find_in(storage, folder, None)?;
    saver.recover_folder(folder, &newest)?;
    let savers = Savers {
        newest: saver,
        best,
        data: None,
    };
    Ok((savers, newest))
}

pub(crate) fn training_data(cx: &DataContext, train: &Train) -> Result<Pipeline, Error> {
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

/// The context of the data of an evaluation, with a short last batch where the model takes it.
pub(crate) fn evaluation_context(cx: &DataContext, set: &DataSet, model: &Model) -> DataContext {
    let remainder = match set.keeps_remainder(model) {
        true => Remainder::Keep,
        false => Remainder::Drop,
    };
    DataContext {
        remainder,
        training: false,
        ..cx.clone()
    }
}

pub(crate) fn the_data<'a>(spec: &'a Spec, name: &str) -> Result<&'a DataSet, Error> {
    spec.data.iter().find(|d| d.name == name).ok_or_else(|| {
        let message = format!("there is no data set `{name}`");
        Diagnostic::without_span(Code::UnknownName, message).into()
    })
}

pub(crate) fn size_of(data: &Pipeline) -> DataSize {
    DataSize {
        name: data.name.clone(),
        records: data.records,
        batch: data.batch,
    }
}

/// The bounds of a training, besides the end of its data.
pub(crate) struct Limits {
    pub(crate) steps: Option<u64>,
    epochs: Option<u64>,
    /// Whether a hook ends it.
    is_stopped: bool,
}

impl Limits {
    pub(crate) fn new(spec: &Spec, train: &Train, options: &Options) -> Limits {
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
            is_stopped: (spec.hooks.iter()).any(|hook| {
                matches!(
                    hook.kind,
                    HookKind::StopAt(_) | HookKind::EarlyStop(_) | HookKind::Registered(_)
                )
            }),
        }
    }

    /// Fails where nothing ends the training.
    pub(crate) fn ensure_end(&self, data: &Pipeline) -> Result<(), Error> {
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
