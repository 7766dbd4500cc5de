//! Sessions: a checked spec, its state, and the compiled steps and evaluations that run over it.

mod binding;
mod dry_run;
mod event;
mod mean;
mod programs;
mod timer;
mod training_loop;

pub use dry_run::{DryRun, dry_run};
pub use event::{DataSize, End, Event, Observer, Reading, Specialisation};
pub use mean::Mean;
pub(crate) use timer::{Progress, Timer};
pub use training_loop::train;

use std::path::PathBuf;
use std::sync::Arc;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::plan::Program;
use trainspec_compiler::typed::{Model, Spec, Train};
use trainspec_compiler::{PipelineOptions, ProgramKind, Trainable};

use crate::data::Element;
use crate::program::{Engine, Feeds, Fetched};
use crate::{Error, State};
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
}

/// A spec in training: its state, and its programs, specialised for the sizes of named dimensions.
#[derive(Debug)]
pub struct Session<'a> {
    spec: &'a Spec,
    model: &'a Model,
    /// The seed of random draws, as programs take it.
    seed: Tensor,
    /// Micro-batches per update (gradient accumulation).
    micro_batches: u64,
    state: State,
    steps: Programs,
    evaluations: Programs,
}

impl<'a> Session<'a> {
    /// A session before its first step.
    pub fn new(spec: &'a Arc<Spec>, options: &Options) -> Result<Session<'a>, Error> {
        let train = the_train(spec)?;
        let Some(model) = &spec.model else {
            let message = "the spec has no `model`";
            return Err(Diagnostic::without_span(Code::MissingItem, message).into());
        };
        let seed = options.seed.unwrap_or(train.seed);
        let micro_batches = train.accumulate.max(1) as u64;
        let (compile, engine) = (&options.pipeline, &options.engine);
        let programs = |kind, accumulates| {
            let trainable = Trainable::from(spec.clone());
            Programs::new(
                trainable,
                kind,
                accumulates,
                compile.clone(),
                engine.clone(),
            )
        };
        Ok(Session {
            spec,
            model,
            seed: Tensor::scalar(seed),
            micro_batches,
            state: State::initial(&Trainable::from(spec.clone()), seed, compile, engine)?,
            steps: programs(ProgramKind::Step, micro_batches > 1),
            evaluations: programs(ProgramKind::Evaluate, false),
        })
    }

    /// The program of the last step, as the planner left it; `None` before the first, or where steps are interpreted.
    pub fn step_program(&self) -> Option<&Program> {
        self.steps.last()?.program.planned()
    }

    /// The state after the last step.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Compiles a step for batches of this shape, so that errors of the spec are reported before the first step; gives its
    /// warnings.
    pub fn prepare(&mut self, batch: &Element) -> Result<Vec<Diagnostic>, Error> {
        let sizes = binding::bind(self.model, &batch.values)?;
        self.steps.get(&sizes)?;
        Ok(self.steps.warnings.clone())
    }

    /// The specialisations that were compiled since the last call.
    pub fn specialised(&mut self) -> Vec<Specialisation> {
        let mut new = std::mem::take(&mut self.steps.specialisations);
        new.append(&mut self.evaluations.specialisations);
        new
    }

    /// One update; with `accumulate` one micro-batch, of which the last applies the accumulated gradients. [`State::step`] says
    /// whether it did.
    pub fn step(&mut self, batch: &Element) -> Result<Fetched, Error> {
        let sizes = binding::bind(self.model, &batch.values)?;
        let last = self.state.micro_batch() + 1 >= self.micro_batches;
        let step = self.steps.get(&sizes)?;
        let program = match &mut step.micro_batch {
            Some(micro_batch) if !last => micro_batch,
            _ => &mut step.program,
        };
        program.run(feeds(&self.seed, batch), &mut self.state)
    }

    /// Micro-batches per update (gradient accumulation).
    pub fn micro_batches(&self) -> u64 {
        self.micro_batches
    }

    /// The model in evaluation mode on a batch; no state is written. With `averages` the moving averages replace their variables.
    pub fn evaluate(&mut self, batch: &Element, averages: bool) -> Result<Fetched, Error> {
        let sizes = binding::bind(self.model, &batch.values)?;
        let program = &mut self.evaluations.get(&sizes)?.program;
        // An evaluation has no writes, so averages that change places with their variables come back as they were.
        if averages && !self.state.swap_averages(self.spec) {
            let message = "there are no averages to evaluate with";
            return Err(Diagnostic::without_span(Code::MissingSetting, message).into());
        }
        let fetched = program.run(feeds(&self.seed, batch), &mut self.state);
        if averages {
            self.state.swap_averages(self.spec);
        }
        fetched
    }

    /// The state, when the session is over.
    pub fn into_state(self) -> State {
        self.state
    }

    /// The spec.
    pub fn spec(&self) -> &'a Spec {
        self.spec
    }
}

/// The number of trainable parameters.
pub fn parameters(spec: &Spec) -> u64 {
    use trainspec_compiler::typed::Role;
    let trained = spec.variables.iter().filter(|v| v.role == Role::Param);
    let sizes = trained.filter_map(|v| v.ty.shape.elements()?.value());
    sizes.map(|n| n as u64).sum()
}

fn the_train(spec: &Spec) -> Result<&Train, Error> {
    spec.train.as_ref().ok_or_else(|| {
        Diagnostic::without_span(Code::MissingItem, "the spec has no `train`")
            .help(
                "say how it is trained: `train { data NAME; optimizer adam(1e-3); steps 1_000; }`",
            )
            .into()
    })
}

/// The feeds of a program: a batch, by reference, and the seed.
fn feeds<'a>(seed: &'a Tensor, batch: &'a Element) -> Feeds<'a> {
    Feeds {
        values: &batch.values,
        seed: Some(seed),
    }
}
