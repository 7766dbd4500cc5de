//! Sessions (`tf.Session`): a checked spec, its state, and the compiled steps, evaluations and predictions that run over it.

mod accumulate;
mod binding;
mod event;
mod fetches;
mod mean;
mod micro_batches;
mod not_finite;
mod programs;
mod run_options;
mod shared_code;
mod tables;
mod timeline;
mod timer;
mod trace;
mod tree_sum;

pub(crate) use binding::bind;
pub(crate) use event::EventQueue;
pub use event::{DataSize, End, Event, Observer, Reading, Specialisation, StepProgress};
pub use fetches::{FetchShape, Request, TRAIN_OP, Target};
pub use mean::Mean;
pub use run_options::{RunMetadata, RunOptions, TraceLevel};
pub use timeline::Timeline;
pub(crate) use timeline::run_metadata;
pub(crate) use timer::{Progress, Timer};
pub use trace::{TracedKernel, TracedProgram, TracedSpan};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::codegen::exec::WorkMemory;
use trainspec_compiler::diag::{self, Diagnostic};
use trainspec_compiler::ir::plan::Program;
use trainspec_compiler::ir::{Tensor, TensorType};
use trainspec_compiler::typed::{Model, Role, Spec, Train};
use trainspec_compiler::{Fetch, PipelineOptions, ProgramKind, Trainable};

use crate::data::Position;
use crate::env::Env;
use crate::program::{Engine, FeedDict, Feeds, Fetched};
use crate::registry::Registry;
use crate::saver::{Records, RestorePlan, Saver, SaverOptions, restore_run_in};
use crate::{Code, Error, State, StopToken, warm_start};
use accumulate::Accumulation;
use binding::BindingCache;
use programs::Programs;
use shared_code::SharedCode;
use trace::Tracer;

/// The options of a run: what is given besides its spec.
///
/// ```
/// use trainspec::{Engine, Options};
///
/// let options = Options {
///     seed: Some(7),
///     dir: Some("runs/iris".into()),
///     engine: Engine::compiled(2),
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Another seed than that of the spec.
    pub seed: Option<i64>,
    /// The number of steps, instead of what the spec says.
    pub steps: Option<u64>,
    /// The base of relative data paths: the folder of the spec.
    pub folder: PathBuf,
    /// How programs are compiled.
    pub pipeline: PipelineOptions,
    /// The engine that runs the programs.
    pub engine: Engine,
    /// The folder of the run, instead of that of the `checkpoint` hook. A spec without such a hook is saved there at the default interval.
    pub dir: Option<PathBuf>,
    /// Whether a `checkpoint` and a `summary` hook that the spec does not mention have their defaults, into `dir` or `runs/NAME`.
    pub default_hooks: bool,
    /// The steps between two saves, instead of the interval of the `checkpoint` hook.
    pub save_every: Option<u64>,
    /// The checkpoint of the warm start: instead of that of the spec, or of all trainable variables where the spec has none.
    pub warm_start: Option<PathBuf>,
    /// Whether a run that is in the folder already is moved aside, and not resumed.
    pub fresh: bool,
    /// Whether it is an error that there is no checkpoint to go on from.
    pub resume: bool,
    /// A file for a profile of a step, in Chrome's trace event format.
    pub profile: Option<PathBuf>,
    /// Ends the run after the current step.
    pub stop: StopToken,
    /// The hooks and feeds that the program registers for the spec.
    pub registry: Registry,
    /// The files and the clock.
    pub env: Env,
}

/// A spec in training: its state, and its programs, specialised for the sizes of named dimensions.
///
/// ```
/// use ndarray::array;
/// use trainspec::InputView;
/// use trainspec::session::{Options, Session};
///
/// let text = "
///     spec line;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(0.1); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// let mut session = Session::new(&spec, &Options::default())?;
/// let (x, y) = (array![1.0_f32, 2.0], array![2.0_f32, 4.0]);
/// let feeds = [("x", InputView::from(&x)), ("y", InputView::from(&y))];
/// let (_, loss, a) = session.run(("train_op", "loss", "a"), &feeds)?;
/// // The loss is from before the update, the variable from after it.
/// assert_eq!(loss.unwrap().to_f64s(), [10.0]);
/// assert_eq!(a.unwrap().to_f64s(), [1.0]);
/// assert_eq!(session.global_step(), 1);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    spec: Arc<Spec>,
    /// The seed of random draws, as programs take it.
    seed: Tensor,
    /// Micro-batches per update (gradient accumulation).
    micro_batches: usize,
    state: State,
    steps: Programs,
    evaluations: Programs,
    predictions: Programs,
    step_binding: BindingCache,
    evaluation_binding: BindingCache,
    accumulation: Accumulation,
    /// Ends an update between two of its micro-batches.
    stop: StopToken,
    last: LastRun,
    tracer: Tracer,
    status: Status,
    /// What a resumed run needs besides the state, by name: the input position, the state of hooks.
    records: Records,
    restored_records: Records,
    initial: InitialValues,
    /// The code of all programs, which forks of this session run, too.
    code: SharedCode,
}

/// Where initial values come from.
#[derive(Debug, Clone)]
struct InitialValues {
    options: Options,
    warm_started: Option<RestorePlan>,
}

impl InitialValues {
    fn new(options: &Options) -> InitialValues {
        InitialValues {
            options: options.clone(),
            warm_started: None,
        }
    }

    /// The state before the first step: what the initializers give, and what a warm start takes from a checkpoint.
    fn values(&mut self, spec: &Arc<Spec>) -> Result<State, Error> {
        let mut state = self.own_values(spec)?;
        self.warm_started = warm_start::warm_start(spec, &self.options, &mut state)?;
        Ok(state)
    }

    /// What the initializers give.
    fn own_values(&self, spec: &Arc<Spec>) -> Result<State, Error> {
        let train = the_train(spec)?;
        the_model(spec)?;
        let options = &self.options;
        let seed = options.seed.unwrap_or(train.seed);
        let trainable = Trainable::from(spec.clone());
        State::initial(&trainable, seed, &options.pipeline, &options.engine)
    }
}

impl Session {
    /// A session with the initial values of its state, those of the checkpoint that it is warm-started from among them.
    pub fn new(spec: &Arc<Spec>, options: &Options) -> Result<Session, Error> {
        let mut initial = InitialValues::new(options);
        let state = initial.values(spec)?;
        let mut session = Session::with_state(spec, initial, state, SharedCode::default())?;
        let registry = options.registry.clone();
        registry.initialized(&mut session)?;
        Ok(session)
    }

    /// A session whose variables have no values yet: [`Session::initialize`] or a restore assigns them, and until then a run is an error.
    ///
    /// ```
    /// use trainspec::session::{Options, Session};
    ///
    /// let text = "
    ///     spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
    ///     train { optimizer gradient_descent(0.1); }
    /// ";
    /// let spec = trainspec::check("line", text)?;
    /// let mut session = Session::uninitialized(&spec, &Options::default())?;
    /// assert_eq!(session.state().uninitialized_names(), ["a", "global_step"]);
    /// session.initialize()?;
    /// assert_eq!(session.state().get("a").unwrap().to_f64s(), [1.0]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn uninitialized(spec: &Arc<Spec>, options: &Options) -> Result<Session, Error> {
        let state = State::uninitialized(&Trainable::from(spec.clone()))?;
        Session::with_state(
            spec,
            InitialValues::new(options),
            state,
            SharedCode::default(),
        )
    }

    /// Assigns the initial value to every variable, slot and scalar (`global_variables_initializer`), and those of the checkpoint that the
    /// spec is warm-started from.
    pub fn initialize(&mut self) -> Result<(), Error> {
        self.state = self.initial.values(&self.spec)?;
        let registry = self.options().registry.clone();
        registry.initialized(self)
    }

    /// Which values the initial state has from the checkpoint of the warm start, where there was one.
    ///
    /// ```
    /// use trainspec::session::{Options, Session};
    ///
    /// let text = "
    ///     spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
    ///     train { optimizer gradient_descent(0.1); }
    /// ";
    /// let spec = trainspec::check("line", text)?;
    /// assert!(Session::new(&spec, &Options::default())?.warm_started().is_none());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn warm_started(&self) -> Option<&RestorePlan> {
        self.initial.warm_started.as_ref()
    }

    /// Assigns the initial value to whatever has none yet.
    pub(crate) fn initialize_missing(&mut self) -> Result<(), Error> {
        if self.state.is_initialized() {
            return Ok(());
        }
        let restored = self.state.clone();
        self.initialize()?;
        self.take_over(&restored);
        Ok(())
    }

    /// Assigns the initial value to whatever has none after the restore of an exported model, without a warm start: its variables have theirs.
    pub(crate) fn initialize_slots(&mut self) -> Result<(), Error> {
        if self.state.is_initialized() {
            return Ok(());
        }
        let restored = self.state.clone();
        self.state = self.initial.own_values(&self.spec)?;
        self.take_over(&restored);
        Ok(())
    }

    /// Sets what has a value in a restored state.
    fn take_over(&mut self, restored: &State) {
        let without: BTreeSet<&str> = restored.uninitialized_names().into_iter().collect();
        for (name, value) in restored.names().iter().zip(restored.values()) {
            if !without.contains(name.as_str()) {
                let index = self.state.index_of(name).expect("both have the same names");
                self.state.set(index, value.clone());
            }
        }
    }

    fn with_state(
        spec: &Arc<Spec>,
        initial: InitialValues,
        state: State,
        code: SharedCode,
    ) -> Result<Session, Error> {
        let train = the_train(spec)?;
        the_model(spec)?;
        let options = &initial.options;
        let seed = options.seed.unwrap_or(train.seed);
        let micro_batches = train.accumulate.max(1) as usize;
        let (compile, engine) = (&options.pipeline, &options.engine);
        let trainable = Trainable::from(spec.clone());
        let memory = WorkMemory::default();
        let programs = |kind, accumulates| {
            Programs::new(
                trainable.clone(),
                kind,
                accumulates,
                compile.clone(),
                engine.clone(),
                memory.clone(),
                code.clone(),
            )
        };
        Ok(Session {
            spec: spec.clone(),
            seed: Tensor::scalar(seed),
            micro_batches,
            accumulation: Accumulation::new(spec, train, &state),
            stop: options.stop.clone(),
            state,
            steps: programs(ProgramKind::Step, micro_batches > 1),
            evaluations: programs(ProgramKind::Evaluate, false),
            predictions: programs(ProgramKind::Predict, false),
            step_binding: BindingCache::default(),
            evaluation_binding: BindingCache::default(),
            last: LastRun::default(),
            tracer: Tracer::default(),
            status: Status::default(),
            records: Records::default(),
            restored_records: Records::default(),
            initial,
            code: code.clone(),
        })
    }

    /// A session of its own with a copy of the state, for another thread: what one of them has compiled the other runs, too, in memory of
    /// its own.
    ///
    /// ```
    /// use trainspec::{InputView, Options, Session};
    ///
    /// let text = "spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); output y = a * x; }
    ///     train { optimizer gradient_descent(0.5); }";
    /// let spec = trainspec::check("line", text)?;
    /// let mut session = Session::new(&spec, &Options::default())?;
    /// let mut snapshot = session.fork()?;
    /// session.step(&[("x", InputView::new(&[1], &[1.0_f32]))])?;
    /// let answer = std::thread::spawn(move || {
    ///     let feeds = [("x", InputView::new(&[1], &[3.0_f32]))];
    ///     snapshot.predict(&feeds).map(|fetched| fetched.get("output/y").unwrap().to_f64s()[0])
    /// });
    /// assert_eq!(answer.join().unwrap()?, 3.0);
    /// assert_eq!(session.state().get("a").unwrap().to_f64s(), [0.5]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn fork(&self) -> Result<Session, Error> {
        let (initial, state) = (self.initial.clone(), self.state.clone());
        let mut fork = Session::with_state(&self.spec, initial, state, self.code.clone())?;
        fork.steps.check_as(&self.steps);
        fork.records = self.records.clone();
        fork.status = self.status.clone();
        Ok(fork)
    }

    /// Runs once and gives what is asked for, in the shape of the question. Where `train_op` is fetched, it is one update; else the model
    /// is evaluated, and no state is written. A run that fetches variables alone computes nothing and needs no feeds.
    ///
    /// Feeds are borrowed. What is fetched is copied; [`Session::step`] gives references, and allocates nothing after the first runs.
    pub fn run<F: FetchShape>(
        &mut self,
        fetches: F,
        feeds: &dyn FeedDict,
    ) -> Result<F::Output, Error> {
        let (values, _) = self.run_with(fetches, feeds, &RunOptions::default())?;
        Ok(values)
    }

    /// As [`Session::run`], with options; gives what the run says of itself, too.
    ///
    /// ```
    /// use trainspec::InputView;
    /// use trainspec::session::{Options, RunOptions, Session};
    ///
    /// let text = "
    ///     spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
    ///     train { optimizer gradient_descent(0.1); }
    /// ";
    /// let spec = trainspec::check("line", text)?;
    /// let mut session = Session::new(&spec, &Options::default())?;
    /// let options = RunOptions { output_program: true, ..RunOptions::default() };
    /// let feeds = [("x", InputView::new(&[2], &[1.0_f32, 3.0]))];
    /// let (loss, metadata) = session.run_with("loss", &feeds, &options)?;
    /// assert_eq!(loss.unwrap().to_f64s(), [2.0]);
    /// assert!(metadata.program.unwrap().contains("kernel"));
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn run_with<F: FetchShape>(
        &mut self,
        fetches: F,
        feeds: &dyn FeedDict,
        options: &RunOptions,
    ) -> Result<(F::Output, RunMetadata), Error> {
        let mut targets = Vec::new();
        fetches.targets(self, &mut targets)?;
        let mut request = Request {
            options: options.clone(),
            ..Request::default()
        };
        targets.iter().for_each(|target| request.add(target));
        self.run_request(&request, &[feeds])?;
        let values = targets.iter().map(|target| self.value(target));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        let values = fetches.shape(&mut values.into_iter());
        Ok((values, self.metadata(options)))
    }

    /// What the last run says of itself.
    pub(crate) fn metadata(&self, options: &RunOptions) -> RunMetadata {
        let programs = match self.last {
            LastRun::Nothing => None,
            LastRun::Step | LastRun::Accumulated => Some(&self.steps),
            LastRun::Evaluation => Some(&self.evaluations),
            LastRun::Prediction => Some(&self.predictions),
        };
        let ran = programs.and_then(Programs::last);
        let planned = ran.and_then(|compiled| compiled.program.planned());
        RunMetadata {
            program: (planned.filter(|_| options.output_program)).map(ToString::to_string),
            trace: self.tracer.programs().to_vec(),
        }
    }

    /// Runs once; [`Session::value`] then gives the values. `batches` are the micro-batches of an update, or the one batch of an
    /// evaluation.
    pub(crate) fn run_request(
        &mut self,
        request: &Request,
        batches: &[&dyn FeedDict],
    ) -> Result<(), Error> {
        if !self.state.is_initialized() && (request.train || !request.values.is_empty()) {
            return Err(self.uninitialized_error());
        }
        let traces = request.options.trace_level == TraceLevel::FullTrace;
        self.tracer.begin(traces);
        let ran = self.run_programs(request, batches);
        if traces {
            self.tracer.end();
        }
        ran
    }

    fn run_programs(&mut self, request: &Request, batches: &[&dyn FeedDict]) -> Result<(), Error> {
        if request.train {
            return self.update(batches, &request.values);
        }
        match (request.values.is_empty(), batches.first()) {
            (true, _) => {
                self.last = LastRun::Nothing;
                Ok(())
            }
            (false, Some(batch)) => self.evaluate(*batch, &request.values, false),
            (false, None) => Err(Error::new(
                Code::InvalidArgument,
                "a run that computes values must be fed",
            )),
        }
    }

    fn uninitialized_error(&self) -> Error {
        let names = self.state.uninitialized_names().join("`, `");
        let message = format!("the session has no values yet for `{names}`");
        let help = "`Session::initialize` gives initial values, a restore those of a checkpoint";
        Error::new(Code::FailedPrecondition, message).help(help)
    }

    /// The value of a target after a run; `None` for the training step.
    pub(crate) fn value(&self, target: &Target) -> Result<Option<Tensor>, Error> {
        if let Target::Value(fetch) = target
            && let Some(ty) = value_type(&self.spec, fetch)
            && let Some(value) = self.results().without_padding(fetch, ty)
        {
            return Ok(Some(value.into_owned()));
        }
        target.value(self.results(), &self.state)
    }

    /// Takes over the records of a checkpoint that the state was restored from.
    pub(crate) fn restored(&mut self, records: Records) {
        let passes = records.get(PASSES_RECORD);
        let passes = passes.and_then(|passes| passes.parse().ok()).unwrap_or(0);
        self.restored_records = records.clone();
        self.records = records;
        self.status.passes = passes;
        self.status.restored_step = Some(self.global_step());
    }

    /// The records of the checkpoint that the state was restored from.
    pub(crate) fn restored_records(&self) -> &Records {
        &self.restored_records
    }

    /// One update, with the micro-batches that `accumulate` asks for; computes `more` besides losses, metrics and schedules. After an
    /// error the state is as it was.
    ///
    /// Where gradients are not finite and the loss is scaled, the update is skipped: [`Session::global_step`] stays.
    pub(crate) fn update(
        &mut self,
        batches: &[&dyn FeedDict],
        more: &BTreeSet<Fetch>,
    ) -> Result<(), Error> {
        if batches.len() != self.micro_batches {
            let message = format!(
                "an update takes {} micro-batches, and is given {}",
                self.micro_batches,
                batches.len()
            );
            return Err(Error::new(Code::InvalidArgument, message)
                .help("`step_batches` takes as many batches as `accumulate` says"));
        }
        let [batch] = batches else {
            return self.accumulate(batches, more);
        };
        let model = self.spec.model.as_ref().expect("a session has a model");
        let sizes = self.step_binding.bind(model, *batch)?;
        let step = self.steps.get(more, sizes)?;
        let feeds = feeds(&self.seed, *batch);
        let program = &mut *step.program;
        let ran = (self.tracer).run(program, feeds, &mut self.state, &mut step.results);
        ran.map_err(|error| self.explain(error, ProgramKind::Step, *batch, 0))?;
        self.last = LastRun::Step;
        Ok(())
    }

    /// One update over one batch, with losses, metrics and schedules as results.
    pub fn step(&mut self, feeds: &dyn FeedDict) -> Result<&Fetched, Error> {
        self.update(&[feeds], &BTreeSet::new())?;
        Ok(self.results())
    }

    /// One update over as many batches as `accumulate` says, with the means of losses and metrics as results.
    ///
    /// ```
    /// use trainspec::{InputView, Options, Session, check};
    ///
    /// let spec = check("line", "spec line;
    ///     model (x: f32[batch]) { param a: f32 = zeros(); loss mean(square(a - x)); }
    ///     train { optimizer gradient_descent(0.5); accumulate 2; }")?;
    /// let mut session = Session::new(&spec, &Options::default())?;
    /// let first = [("x", InputView::new(&[2], &[1.0_f32, 3.0]))];
    /// let second = [("x", InputView::new(&[2], &[2.0_f32, 2.0]))];
    /// session.step_batches(&[&first, &second])?;
    /// // The mean of the gradients -4 and -4.
    /// assert_eq!(session.state().get("a").unwrap().to_f64s(), [2.0]);
    /// assert_eq!(session.global_step(), 1);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn step_batches(&mut self, batches: &[&dyn FeedDict]) -> Result<&Fetched, Error> {
        self.update(batches, &BTreeSet::new())?;
        Ok(self.results())
    }

    /// The model in evaluation mode on a batch: losses and metrics, and `more` besides. No state is written. With `averages` the moving
    /// averages replace their variables.
    pub(crate) fn evaluate(
        &mut self,
        batch: &dyn FeedDict,
        more: &BTreeSet<Fetch>,
        averages: bool,
    ) -> Result<(), Error> {
        let model = self.spec.model.as_ref().expect("a session has a model");
        let sizes = self.evaluation_binding.bind(model, batch)?;
        let evaluation = self.evaluations.get(more, sizes)?;
        // An evaluation has no writes, so averages that change places with their variables come back as they were.
        if averages && !self.state.swap_averages(&self.spec) {
            let message = "there are no averages to evaluate with";
            return Err(Diagnostic::without_span(diag::Code::MissingSetting, message).into());
        }
        let feeds = feeds(&self.seed, batch);
        let program = &mut *evaluation.program;
        let run = self
            .tracer
            .run(program, feeds, &mut self.state, &mut evaluation.results);
        if averages {
            self.state.swap_averages(&self.spec);
        }
        self.last = LastRun::Evaluation;
        run
    }

    /// The losses and metrics of the model in evaluation mode on a batch; no state is written.
    pub fn eval(&mut self, feeds: &dyn FeedDict) -> Result<&Fetched, Error> {
        self.evaluate(feeds, &BTreeSet::new(), false)?;
        Ok(self.results())
    }

    /// The outputs of the model in evaluation mode. Only the inputs that they depend on are fed; no state is written.
    pub fn predict(&mut self, feeds: &dyn FeedDict) -> Result<&Fetched, Error> {
        let model = self.spec.model.as_ref().expect("a session has a model");
        let sizes = binding::bind_given(model, feeds)?;
        let prediction = self.predictions.get(&BTreeSet::new(), &sizes)?;
        let fed = self::feeds(&self.seed, feeds);
        prediction
            .program
            .run_into(fed, &mut self.state, &mut prediction.results)?;
        self.last = LastRun::Prediction;
        Ok(self.results())
    }

    /// The results of the last run; they are overwritten by the next one.
    pub(crate) fn results(&self) -> &Fetched {
        static NOTHING: Fetched = Fetched(Vec::new());
        let programs = match self.last {
            LastRun::Nothing => return &NOTHING,
            LastRun::Accumulated => return self.accumulation.mean.results(),
            LastRun::Step => &self.steps,
            LastRun::Evaluation => &self.evaluations,
            LastRun::Prediction => &self.predictions,
        };
        programs.last().map_or(&NOTHING, |program| &program.results)
    }

    /// The results of the last update, whatever was evaluated since.
    pub(crate) fn step_results(&self) -> &Fetched {
        static NOTHING: Fetched = Fetched(Vec::new());
        match self.micro_batches > 1 {
            true => self.accumulation.mean.results(),
            false => self.steps.last().map_or(&NOTHING, |step| &step.results),
        }
    }

    /// The mean over the elements of a metric in the last update, whatever was evaluated since.
    pub(crate) fn step_metric(&self, fetch: &Fetch, ty: &TensorType) -> Option<Mean> {
        match self.micro_batches > 1 {
            true => self.accumulation.mean.metric(fetch),
            false => Mean::of(self.step_results(), fetch, ty),
        }
    }

    /// Compiles a step for batches of this shape, so that errors of the spec are reported before the first step; gives its
    /// warnings.
    pub fn prepare(&mut self, batch: &dyn FeedDict) -> Result<Vec<Diagnostic>, Error> {
        let model = self.spec.model.as_ref().expect("a session has a model");
        let sizes = self.step_binding.bind(model, batch)?;
        self.steps.get(&BTreeSet::new(), sizes)?;
        self.prepare_merge()?;
        Ok(self.steps.warnings.clone())
    }

    /// Fails updates whose losses are not finite, or the values of `nan` hooks, before they write state, as `trainspec run` does. The hooks
    /// of `tf.train` read such values after the update, so sessions let them pass otherwise.
    ///
    /// ```
    /// use trainspec::InputView;
    /// use trainspec::session::{Options, Session};
    ///
    /// let text = "
    ///     spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * log(x)); }
    ///     train { optimizer gradient_descent(0.1); }
    /// ";
    /// let spec = trainspec::check("line", text)?;
    /// let mut session = Session::new(&spec, &Options::default())?;
    /// session.check_finite();
    /// let error = session.step(&[("x", InputView::new(&[3], &[1.0_f32, -1.0, 2.0]))]).unwrap_err();
    /// let label = "the first value that is not finite: `log` of -1 is not a number at [1]";
    /// assert_eq!(&*error.diagnostic().label, label);
    /// assert_eq!(session.state().get("a").unwrap().to_f64s(), [1.0]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn check_finite(&mut self) {
        self.steps.check_finite();
    }

    /// What hooks fetch together: programs for it are compiled together with the first step.
    pub(crate) fn declare(&mut self, declared: &[BTreeSet<Fetch>]) {
        self.steps.declare(declared);
    }

    /// The program of the last step, as the planner left it; `None` before the first, or where steps are interpreted.
    pub fn step_program(&self) -> Option<&Program> {
        self.steps.last()?.program.planned()
    }

    /// The specialisations that were compiled since the last call.
    pub fn specialised(&mut self) -> Vec<Specialisation> {
        let mut new = std::mem::take(&mut self.steps.specialisations);
        new.append(&mut self.evaluations.specialisations);
        new.append(&mut self.predictions.specialisations);
        new
    }

    /// The number of updates so far.
    pub fn global_step(&self) -> u64 {
        self.state.step()
    }

    /// The progress after the last run.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            step: self.global_step(),
            passes: self.status.passes,
            time: self.status.time,
        }
    }

    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    pub(crate) fn status_mut(&mut self) -> &mut Status {
        &mut self.status
    }

    /// Micro-batches per update (gradient accumulation).
    pub fn micro_batches(&self) -> usize {
        self.micro_batches
    }

    /// The engine that runs the programs.
    pub(crate) fn engine(&self) -> &Engine {
        self.steps.configuration().1
    }

    /// What the session was made with.
    pub(crate) fn options(&self) -> &Options {
        &self.initial.options
    }

    /// Saves the state at a prefix, as a checkpoint that TensorFlow reads; gives the prefix. Nothing else is deleted.
    ///
    /// ```
    /// use trainspec::SessionBuilder;
    ///
    /// let text = "
    ///     spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
    ///     train { optimizer gradient_descent(0.1); }
    /// ";
    /// let folder = std::env::temp_dir().join(format!("trainspec-save-{}", std::process::id()));
    /// let mut session = SessionBuilder::from_text("line", text).build()?;
    /// let saved = session.save(folder.join("line"))?;
    /// session.restore(&saved)?;
    /// # std::fs::remove_dir_all(folder).unwrap();
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn save(&mut self, prefix: impl AsRef<Path>) -> Result<PathBuf, Error> {
        self.keep_position(Saves::All);
        let options = SaverOptions {
            max_to_keep: None,
            create_folder: true,
            ..SaverOptions::default()
        };
        let mut saver = Saver::new_in(&self.options().env.storage, options)?;
        saver.save(&self.state, &self.records, prefix.as_ref(), None)
    }

    /// Replaces the state by that of a checkpoint: a prefix, a file, or a folder whose newest checkpoint is taken. What a checkpoint leaves out on
    /// purpose, as an exported model does, stays as it was. After an error the state is as it was.
    pub fn restore(&mut self, checkpoint: impl AsRef<Path>) -> Result<(), Error> {
        let storage = self.options().env.storage.clone();
        let restored = restore_run_in(&storage, &mut self.state, checkpoint.as_ref())?;
        self.restored(restored.records);
        Ok(())
    }

    /// The state after the last run.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, to be changed between two runs: by a restore, or by an initializer of a program's own.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// What a resumed run needs besides the state, by name. Checkpoints hold it.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The records, to be changed by whoever owns one.
    pub fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Writes the position of the input and the epochs into the records, before a save. A save of a part of the state has no position: a
    /// run cannot go on exactly from it, and the input starts over.
    pub(crate) fn keep_position(&mut self, saves: Saves) {
        match (saves, &self.status.position) {
            (Saves::All, Some(position)) => {
                self.records.insert(POSITION_RECORD, position.to_string());
            }
            // That of the checkpoint that was restored, unless steps were made on other data since.
            (Saves::All, None) if self.status.restored_step == Some(self.global_step()) => {}
            (Saves::All, None) => {
                self.records.remove(POSITION_RECORD);
            }
            (Saves::Part, _) => {
                self.records.remove(POSITION_RECORD);
            }
        }
        let passes = self.status.passes.to_string();
        self.records.insert(PASSES_RECORD, passes);
    }

    /// The state, when the session is over.
    pub fn into_state(mut self) -> State {
        self.state.discard_micro_batches();
        self.state
    }

    /// The spec.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }
}

/// Whether a save has all of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saves {
    All,
    Part,
}

/// The record of the position of the input after the last batch that was consumed.
pub(crate) const POSITION_RECORD: &str = "input/1";
/// The record of the epochs that have ended.
pub(crate) const PASSES_RECORD: &str = "passes/1";

/// Where a training is besides its step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// The position of the input after the last batch that was consumed.
    pub(crate) position: Option<Position>,
    /// Epochs that have ended after the current batch.
    pub(crate) passes: u64,
    /// The step at which the state was restored.
    pub(crate) restored_step: Option<u64>,
    /// Whether the current update is the last, as far as is known before it.
    pub(crate) last: bool,
    /// The time since the start.
    pub(crate) time: Duration,
}

/// Which program ran last: where the results are.
#[derive(Debug, Clone, Copy, Default)]
enum LastRun {
    /// None, or one that fetched variables alone.
    #[default]
    Nothing,
    Step,
    /// A step of several micro-batches.
    Accumulated,
    Evaluation,
    Prediction,
}

/// The type of a value of the model in the spec, which says what has run-time counts.
pub(crate) fn value_type<'a>(spec: &'a Spec, fetch: &Fetch) -> Option<&'a TensorType> {
    let mode = &spec.model.as_ref()?.train;
    let (list, name) = match fetch {
        Fetch::Loss(name) => (&mode.losses, name),
        Fetch::Metric(name) => (&mode.metrics, name),
        Fetch::Output(name) => (&mode.outputs, name),
        Fetch::Let(name) => (&mode.lets, name),
        _ => return None,
    };
    let (_, value) = list.iter().find(|(n, _)| n == name)?;
    Some(&mode.program.values[value.0 as usize])
}

/// The number of trainable parameters.
pub fn parameters(spec: &Spec) -> u64 {
    let trained = spec.variables.iter().filter(|v| v.role == Role::Param);
    let sizes = trained.filter_map(|v| v.ty.shape.elements()?.value());
    sizes.map(|n| n as u64).sum()
}

/// The `train` of a spec; fails where it has none.
pub(crate) fn the_train(spec: &Spec) -> Result<&Train, Error> {
    spec.train.as_ref().ok_or_else(|| {
        Diagnostic::without_span(diag::Code::MissingItem, "the spec has no `train`")
            .help(
                "say how it is trained: `train { data NAME; optimizer adam(1e-3); steps 1_000; }`",
            )
            .into()
    })
}

/// The `model` of a spec; fails where it has none.
pub(crate) fn the_model(spec: &Spec) -> Result<&Model, Error> {
    spec.model.as_ref().ok_or_else(|| {
        Diagnostic::without_span(diag::Code::MissingItem, "the spec has no `model`").into()
    })
}

/// The feeds of a program: a batch, by reference, and the seed.
fn feeds<'a>(seed: &'a Tensor, batch: &'a dyn FeedDict) -> Feeds<'a> {
    Feeds {
        values: batch,
        seed: Some(seed),
    }
}
