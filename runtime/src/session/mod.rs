//! Sessions (`tf.Session`): a checked spec, its state, and the compiled steps, evaluations and predictions that run over it.

mod binding;
mod event;
mod fetches;
mod mean;
mod micro_batches;
mod programs;
mod timer;

pub(crate) use binding::bind;
pub(crate) use event::EventQueue;
pub use event::{DataSize, End, Event, Observer, Reading, Specialisation};
pub use fetches::{FetchShape, Request, TRAIN_OP, Target};
pub use mean::Mean;
pub(crate) use timer::{Progress, Timer};

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::diag::{self, Diagnostic};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::plan::Program;
use trainspec_compiler::typed::{Model, Spec, Train};
use trainspec_compiler::{Fetch, PipelineOptions, ProgramKind, Trainable};

use crate::data::Position;
use crate::program::{Engine, FeedDict, Feeds, Fetched};
use crate::saver::Records;
use crate::{Code, Error, State, StopToken};
use binding::BindingCache;
use micro_batches::MicroBatchMean;
use programs::Programs;

/// The options of a run: what is given besides its spec.
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
    /// The folder of the run, instead of that of the `checkpoint` hook.
    pub dir: Option<PathBuf>,
    /// Whether a run that is in the folder already is moved aside, and not resumed.
    pub fresh: bool,
    /// Ends the run after the current step.
    pub stop: StopToken,
}

/// A spec in training: its state, and its programs, specialised for the sizes of named dimensions.
///
/// ```
/// use ndarray::array;
/// use trainspec::program::InputView;
/// use trainspec::session::{Options, Session};
/// use trainspec_compiler::{Compilation, source::NoFiles};
///
/// let text = "
///     spec line;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(0.1); }
/// ";
/// let spec = Compilation::check("line", text, &NoFiles, &Default::default()).spec.unwrap();
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
    /// The results of an update of several micro-batches.
    mean: MicroBatchMean,
    last: LastRun,
    status: Status,
    /// What a resumed run needs besides the state, by name: the input position, the state of hooks.
    records: Records,
}

impl Session {
    /// A session with the initial values of its state.
    pub fn new(spec: &Arc<Spec>, options: &Options) -> Result<Session, Error> {
        let train = the_train(spec)?;
        the_model(spec)?;
        let seed = options.seed.unwrap_or(train.seed);
        let micro_batches = train.accumulate.max(1) as usize;
        let (compile, engine) = (&options.pipeline, &options.engine);
        let trainable = Trainable::from(spec.clone());
        let programs = |kind, accumulates| {
            Programs::new(
                trainable.clone(),
                kind,
                accumulates,
                compile.clone(),
                engine.clone(),
            )
        };
        Ok(Session {
            spec: spec.clone(),
            seed: Tensor::scalar(seed),
            micro_batches,
            state: State::initial(&trainable, seed, compile, engine)?,
            steps: programs(ProgramKind::Step, micro_batches > 1),
            evaluations: programs(ProgramKind::Evaluate, false),
            predictions: programs(ProgramKind::Predict, false),
            step_binding: BindingCache::default(),
            evaluation_binding: BindingCache::default(),
            mean: MicroBatchMean::default(),
            last: LastRun::default(),
            status: Status::default(),
            records: Records::default(),
        })
    }

    /// Runs once and gives what is asked for, in the shape of the question. Where `train_op` is fetched, it is one update; else the model
    /// is evaluated, and no state is written. A run that fetches variables alone computes nothing and needs no feeds.
    pub fn run<F: FetchShape>(
        &mut self,
        fetches: F,
        feeds: &dyn FeedDict,
    ) -> Result<F::Output, Error> {
        let mut targets = Vec::new();
        fetches.targets(self, &mut targets)?;
        let mut request = Request::default();
        targets.iter().for_each(|target| request.add(target));
        self.run_request(&request, &[feeds])?;
        let values = targets.iter().map(|target| self.value(target));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        Ok(fetches.shape(&mut values.into_iter()))
    }

    /// Runs once; [`Session::value`] then gives the values. `batches` are the micro-batches of an update, or the one batch of an
    /// evaluation.
    pub(crate) fn run_request(
        &mut self,
        request: &Request,
        batches: &[&dyn FeedDict],
    ) -> Result<(), Error> {
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

    /// The value of a target after a run; `None` for the training step.
    pub(crate) fn value(&self, target: &Target) -> Result<Option<Tensor>, Error> {
        target.value(self.results(), &self.state)
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
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let [batch] = batches else {
            let updated = self.accumulate(batches, more);
            if updated.is_err() {
                self.state.discard_micro_batches();
            }
            return updated;
        };
        let model = self.spec.model.as_ref().expect("a session has a model");
        let sizes = self.step_binding.bind(model, *batch)?;
        let step = self.steps.get(more, sizes)?;
        let feeds = feeds(&self.seed, *batch);
        step.program
            .run_into(feeds, &mut self.state, &mut step.results)?;
        self.last = LastRun::Step;
        Ok(())
    }

    /// An update of several micro-batches (gradient accumulation).
    fn accumulate(
        &mut self,
        batches: &[&dyn FeedDict],
        more: &BTreeSet<Fetch>,
    ) -> Result<(), Error> {
        self.mean.begin();
        for (i, batch) in batches.iter().enumerate() {
            let model = self.spec.model.as_ref().expect("a session has a model");
            let sizes = self.step_binding.bind(model, *batch)?;
            let step = self.steps.get(more, sizes)?;
            let feeds = feeds(&self.seed, *batch);
            let (program, results) = match &mut step.micro_batch {
                Some(micro_batch) if i + 1 < batches.len() => {
                    (micro_batch, &mut step.micro_results)
                }
                _ => (&mut step.program, &mut step.results),
            };
            program.run_into(feeds, &mut self.state, results)?;
            self.mean.add(results);
        }
        self.mean.finish();
        self.last = LastRun::Accumulated;
        Ok(())
    }

    /// One update over one batch, with losses, metrics and schedules as results.
    pub fn step(&mut self, feeds: &dyn FeedDict) -> Result<&Fetched, Error> {
        self.update(&[feeds], &BTreeSet::new())?;
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
        let run = evaluation
            .program
            .run_into(feeds, &mut self.state, &mut evaluation.results);
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
            LastRun::Accumulated => return self.mean.results(),
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
            true => self.mean.results(),
            false => self.steps.last().map_or(&NOTHING, |step| &step.results),
        }
    }

    /// Compiles a step for batches of this shape, so that errors of the spec are reported before the first step; gives its
    /// warnings.
    pub fn prepare(&mut self, batch: &dyn FeedDict) -> Result<Vec<Diagnostic>, Error> {
        let model = self.spec.model.as_ref().expect("a session has a model");
        let sizes = self.step_binding.bind(model, batch)?;
        self.steps.get(&BTreeSet::new(), sizes)?;
        Ok(self.steps.warnings.clone())
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

    /// Writes the position of the input and the epochs into the records, before a save.
    pub(crate) fn keep_position(&mut self) {
        if let Some(position) = &self.status.position {
            self.records.insert(POSITION_RECORD, position.to_string());
        }
        let passes = self.status.passes.to_string();
        self.records.insert(PASSES_RECORD, passes);
    }

    /// The state, when the session is over.
    pub fn into_state(self) -> State {
        self.state
    }

    /// The spec.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }
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

/// The number of trainable parameters.
pub fn parameters(spec: &Spec) -> u64 {
    use trainspec_compiler::typed::Role;
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
