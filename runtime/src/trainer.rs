//! The training of a spec: its data, its hooks and its evaluations around a monitored session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::codegen::cpu::Cpu;
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::typed::{DataSet, HookKind, Model, Remainder, Spec, Train, TrainEnd};
use trainspec_compiler::{Fetch, Identity};

use crate::data::{Batch, DataContext, Input, Pipeline, Position};
use crate::env::{Env, Storage};
use crate::hooks::{
    CheckpointHook, EvalHook, EventFiles, LogHook, NanHook, OverflowHook, ProgressHook,
    SessionRunHook, StepCounterHook, StopAtStepHook, StopHook, SummaryHook,
};
use crate::monitored::{InitialSession, MonitoredSession, SessionCreator};
use crate::program::{Engine, FeedDict, Fetched};
use crate::run_folder::{RunDescription, RunFolder};
use crate::saver::{NewestCheckpoint, RestoreOptions, Saver, SaverOptions, Strictness, restore_in};
use crate::session::{
    DataSize, End, Event, EventQueue, Observer, Options, PASSES_RECORD, POSITION_RECORD, Session,
    Target, parameters, the_model, the_train,
};
use crate::{DataError, Error, State, StopToken};

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
            Update::Complete(batches) => run.update(batches)?,
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
    stop: StopToken,
    /// The folder of the run, locked until it is over.
    _folder: Option<RunFolder>,
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
        let mut input = Input::new(data);
        let folder = match run_dir(spec, options) {
            Some(dir) => {
                let run = RunDescription {
                    spec: spec.name.clone(),
                    identity: Identity::of(spec)?,
                    seed,
                    files: input.files(),
                    machine: machine(&options.engine),
                };
                Some(RunFolder::open(env, &dir, &run, options.fresh)?)
            }
            None => None,
        };
        let (saver, newest) = match &folder {
            Some(folder) => {
                let (saver, newest) = the_saver(spec, env, &folder.path)?;
                (Some(saver), Some(newest))
            }
            None => (None, None),
        };
        let hooks = hooks(spec, model, options, env, &events, evaluations, saver);
        let checkpoint = newest.as_ref().and_then(|newest| newest.path.clone());
        let creator = RestoredSession {
            initial: InitialSession {
                spec: spec.clone(),
                options: options.clone(),
            },
            checkpoint: checkpoint.clone(),
            storage: env.storage(),
        };
        let mut session = MonitoredSession::singular(Box::new(creator), hooks)?;
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
        for note in folder.iter().flat_map(|folder| &folder.notes) {
            observer.event(&Event::Note(note.clone()));
        }
        for skipped in newest.iter().flat_map(|newest| &newest.skipped) {
            observer.event(&Event::Note(skipped.to_string()));
        }
        if let Some(path) = checkpoint {
            resume(session.raw_session()?, &mut input, path, observer)?;
        }
        Ok(Run {
            session,
            input,
            limits,
            events,
            observer,
            losses: Vec::new(),
            stop: options.stop.clone(),
            _folder: folder,
        })
    }

    fn session(&mut self) -> &mut Session {
        let session = self.session.raw_session();
        session.expect("a training has a session until it is closed")
    }

    /// Compiles the step for the first batch, so that errors of the spec are reported before it; why the training ends before the first
    /// step, if it does.
    fn begin(&mut self) -> Result<Option<End>, Error> {
        let step = self.session().global_step();
        let Some(first) = self.input.peek()? else {
            return match step {
                0 => Err(no_batch(&self.input).into()),
                _ => Ok(Some(End::Data)),
            };
        };
        let first = first.clone();
        for warning in self.session().prepare(&first)? {
            self.observer.event(&Event::Warning(warning));
        }
        self.report();
        let passes = first.pass.max(self.session().status().passes);
        let end = self.limits.end(step, passes, false);
        if end.is_some() && step > 0 {
            let message = format!(
                "this run has finished: step {step}; a larger `steps` continues it, `--fresh` starts over"
            );
            self.observer.event(&Event::Note(message));
        }
        let stopped = self.stop.should_stop().then_some(End::Stopped);
        Ok(end.or(stopped))
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
    fn update(&mut self, mut batches: Vec<Batch>) -> Result<Option<End>, Error> {
        let step = self.session().global_step();
        let newest = batches.last_mut().expect("an update has a micro-batch");
        let (passes, last) = (newest.passes, newest.last);
        let position = std::mem::take(&mut newest.position);
        let end = self.limits.end(step + 1, passes, last);
        let status = self.session().status_mut();
        status.position = Some(position);
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
        let seconds = self.session().status().time.as_secs_f64();
        let closed = self.session.finish();
        for event in self.events.take() {
            self.observer.event(&event);
        }
        let session = closed.map_err(|error| error.in_step(step))?;
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
        Ok(session.into_state())
    }
}

/// Creates sessions from a checkpoint, where there is one.
struct RestoredSession {
    initial: InitialSession,
    checkpoint: Option<PathBuf>,
    storage: Arc<dyn Storage>,
}

impl SessionCreator for RestoredSession {
    fn create_session(&mut self) -> Result<Session, Error> {
        let mut session = self.initial.create_session()?;
        if let Some(path) = &self.checkpoint {
            let options = RestoreOptions {
                strictness: Strictness::Strict,
                ..RestoreOptions::default()
            };
            let restored = restore_in(&self.storage, session.state_mut(), path, &options)?;
            *session.records_mut() = restored.records;
            let passes = session.records().get(PASSES_RECORD);
            let passes = passes.and_then(|passes| passes.parse().ok()).unwrap_or(0);
            session.status_mut().passes = passes;
        }
        Ok(session)
    }
}

/// Goes to the position of the input that a checkpoint holds.
fn resume(
    session: &mut Session,
    input: &mut Input,
    path: PathBuf,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let step = session.global_step();
    let reread = match session.records().get(POSITION_RECORD) {
        Some(text) => {
            let position: Position = text.parse()?;
            let reread = input.seek(&position)?;
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
fn run_dir(spec: &Spec, options: &Options) -> Option<PathBuf> {
    let mut hooks = spec.hooks.iter();
    let dir = hooks.find_map(|hook| match &hook.kind {
        HookKind::Checkpoint { dir, .. } => Some(PathBuf::from(dir)),
        _ => None,
    });
    dir.map(|dir| options.dir.clone().unwrap_or(dir))
}

/// What the bits of a run depend on besides its spec, seed and data.
fn machine(engine: &Engine) -> String {
    match engine {
        Engine::Interpreted => "the interpreter".to_owned(),
        Engine::Compiled(_) => {
            let cpu = Cpu::host();
            let features = [
                ("AVX-512", cpu.has_avx512()),
                ("AVX2", cpu.has_avx2()),
                ("FMA", cpu.has_fma()),
            ];
            let names: Vec<&str> = (features.iter().filter(|(_, has)| *has))
                .map(|(name, _)| *name)
                .collect();
            format!("{} with {}", std::env::consts::ARCH, names.join(", "))
        }
    }
}

/// The saver of the `checkpoint` hook, which goes on with the list of the folder, and the newest complete checkpoint there.
fn the_saver(
    spec: &Spec,
    env: &Arc<dyn Env>,
    folder: &Path,
) -> Result<(Saver, NewestCheckpoint), Error> {
    let mut options = SaverOptions {
        save_relative_paths: true,
        create_folder: true,
        ..SaverOptions::default()
    };
    for hook in &spec.hooks {
        if let HookKind::Checkpoint {
            keep, keep_every, ..
        } = &hook.kind
        {
            options.max_to_keep = u32::try_from(*keep).ok();
            if let Some(seconds) = keep_every {
                options.keep_checkpoint_every_n_hours = seconds / 3600.0;
            }
        }
    }
    let mut saver = Saver::new_in(&env.storage(), options)?;
    let newest = NewestCheckpoint::find_in(&env.storage(), folder, None)?;
    saver.recover_folder(folder, &newest)?;
    Ok((saver, newest))
}

/// The hooks of a spec, in the order in which they act at one step: log, summary, evaluations, checkpoint; and those that always watch.
fn hooks(
    spec: &Arc<Spec>,
    model: &Model,
    options: &Options,
    env: &Arc<dyn Env>,
    events: &EventQueue,
    evaluations: Vec<EvalHook>,
    mut saver: Option<Saver>,
) -> Vec<Box<dyn SessionRunHook>> {
    let files = EventFiles::new(env.storage(), events.clone());
    let run_dir = run_dir(spec, options);
    // `check` demands a folder where there is none for checkpoints.
    let folder = |dir: &Option<String>| match (&options.dir, dir, &run_dir) {
        (Some(dir), _, _) => dir.clone(),
        (None, Some(dir), _) => PathBuf::from(dir),
        (None, None, dir) => dir.clone().unwrap_or_default(),
    };
    let mut summaries: Vec<Box<dyn SessionRunHook>> = Vec::new();
    let mut evaluations = evaluations;
    let mut log = LogHook::new(events.clone());
    let mut nan = NanHook::new(events.clone());
    let mut stops: Vec<Box<dyn SessionRunHook>> = vec![Box::new(StopHook::new(
        options.stop.clone(),
        events.clone(),
    ))];
    let mut last: Vec<Box<dyn SessionRunHook>> = Vec::new();
    for hook in &spec.hooks {
        match &hook.kind {
            HookKind::Log {
                names,
                every,
                at_end,
            } => log.add(spec, names, *every, *at_end),
            HookKind::Nan { name, fail } => nan.add(name, *fail),
            HookKind::StopAt(bound) => stops.push(Box::new(StopAtStepHook::new(*bound))),
            HookKind::Summary { every, dir, values } => {
                let folder = folder(dir);
                for evaluation in &mut evaluations {
                    evaluation.write_to(&files, &folder);
                }
                let hook = SummaryHook::new(files.clone(), folder, values, *every);
                summaries.push(Box::new(hook));
            }
            HookKind::StepCounter { every, dir } => {
                let hook = StepCounterHook::new(files.clone(), folder(dir), *every);
                summaries.push(Box::new(hook));
            }
            HookKind::Checkpoint {
                dir,
                every,
                basename,
                ..
            } => {
                if let Some(saver) = saver.take() {
                    let dir = options.dir.clone().unwrap_or_else(|| PathBuf::from(dir));
                    let prefix = dir.join(basename);
                    let hook = CheckpointHook::new(saver, prefix, *every, events.clone());
                    last.push(Box::new(hook));
                }
            }
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
    hooks.append(&mut summaries);
    hooks.extend(evaluations.into_iter().map(|eval| Box::new(eval) as _));
    hooks.append(&mut last);
    hooks
}

/// The words of hooks that are run.
const RUN_HOOKS: [&str; 6] = [
    "log",
    "nan",
    "stop_at",
    "checkpoint",
    "summary",
    "step_counter",
];

/// The hooks that are not run yet, each once.
fn ignored(spec: &Spec) -> Vec<&'static str> {
    let mut ignored = Vec::new();
    for hook in &spec.hooks {
        let word = hook.kind.word();
        if !RUN_HOOKS.contains(&word) && !ignored.contains(&word) {
            ignored.push(word);
        }
    }
    ignored
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

/// The data of an evaluation, with a short last batch where the model takes it.
pub(crate) fn evaluation_data(
    cx: &DataContext,
    set: &DataSet,
    model: &Model,
) -> Result<Pipeline, Error> {
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
    steps: Option<u64>,
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
            is_stopped: (spec.hooks.iter()).any(|h| matches!(h.kind, HookKind::StopAt(_))),
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

/// The error of a data set without a first batch.
pub(crate) fn no_batch(data: &Input) -> DataError {
    let message = format!("the data set `{}` gives nothing to train on", data.name());
    let error = DataError::new(message);
    match (data.records(), data.batch()) {
        (Some(records), Some(batch)) if records > 0 && records < batch => error.help(format!(
            "it has {records} records, and a batch takes {batch}; `remainder: keep` takes what there is"
        )),
        _ => error,
    }
}
