//! Sessions: a checked spec, its state, and the compiled steps and evaluations that run over it.

mod binding;
mod event;
mod mean;
mod programs;
mod timer;
mod training_loop;

pub use event::{DataSize, End, Event, Observer, Reading, Specialisation};
pub use mean::Mean;
pub(crate) use timer::{Progress, Timer};
pub use training_loop::train;

use std::collections::BTreeSet;
use std::path::PathBuf;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::lower::SEED;
use trainspec_compiler::typed::{Model, Spec, Train};

use crate::data::Element;
use crate::program::{Engine, Fetched, Inputs};
use crate::{SessionError, State};
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
    /// The passes that are not run.
    pub disabled_passes: BTreeSet<String>,
    /// The engine that runs the programs.
    pub engine: Engine,
}

/// A spec in training: its state, and its programs, specialised for the sizes of named dimensions.
#[derive(Debug)]
pub struct Session<'a> {
    spec: &'a Spec,
    model: &'a Model,
    seed: i64,
    /// Micro-batches per update (gradient accumulation).
    micro_batches: u64,
    state: State,
    steps: Programs<'a>,
    evaluations: Programs<'a>,
}

impl<'a> Session<'a> {
    /// A session before its first step. `step` and `evaluation` are the fetch sets of steps and of evaluations, with the names that
    /// the lowering gives: `loss/loss`, `metric/accuracy`.
    pub fn new(
        spec: &'a Spec,
        options: &'a Options,
        step: BTreeSet<String>,
        evaluation: BTreeSet<String>,
    ) -> Result<Session<'a>, SessionError> {
        let train = the_train(spec)?;
        if let Some(setting) = spec.warm_start.first() {
            let message = "`warm_start` is checked, but cannot be run yet";
            return Err(Diagnostic::new(Code::UnknownSetting, setting.span, message).into());
        }
        let Some(model) = &spec.model else {
            let message = "the spec has no `model`";
            return Err(Diagnostic::without_span(Code::MissingItem, message).into());
        };
        if let Some(input) = model.inputs.iter().find(|f| f.ty.dtype == DType::String) {
            let message = format!(
                "`{}` holds strings, which cannot be computed with yet",
                input.name
            );
            return Err(Diagnostic::new(Code::TypeMismatch, input.span, message).into());
        }
        let seed = options.seed.unwrap_or(train.seed);
        let disabled = &options.disabled_passes;
        Ok(Session {
            spec,
            model,
            seed,
            micro_batches: train.accumulate.max(1) as u64,
            state: State::initial(spec, seed, disabled, &options.engine)?,
            steps: Programs::new(spec, true, step, disabled, &options.engine),
            evaluations: Programs::new(spec, false, evaluation, disabled, &options.engine),
        })
    }

    /// The state after the last step.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Compiles a step for batches of this shape, so that errors of the spec are reported before the first step; gives its
    /// warnings.
    pub fn prepare(&mut self, batch: &Element) -> Result<Vec<Diagnostic>, SessionError> {
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
    pub fn step(&mut self, batch: &Element) -> Result<Fetched, SessionError> {
        let sizes = binding::bind(self.model, &batch.values)?;
        let inputs = self.inputs(batch);
        let last = self.state.micro_batch() + 1 >= self.micro_batches;
        let step = self.steps.get(&sizes)?;
        let program = match &mut step.micro_batch {
            Some(micro_batch) if !last => micro_batch,
            _ => &mut step.program,
        };
        program.run(&inputs, &mut self.state)
    }

    /// Micro-batches per update (gradient accumulation).
    pub fn micro_batches(&self) -> u64 {
        self.micro_batches
    }

    /// The model in evaluation mode on a batch; no state is written. With `averages` the moving averages replace their variables.
    pub fn evaluate(&mut self, batch: &Element, averages: bool) -> Result<Fetched, SessionError> {
        let sizes = binding::bind(self.model, &batch.values)?;
        let inputs = self.inputs(batch);
        let program = &mut self.evaluations.get(&sizes)?.program;
        if !averages {
            // An evaluation has no writes, so the state stays as it is.
            return program.run(&inputs, &mut self.state);
        }
        match self.state.averaged(self.spec) {
            Some(mut state) => program.run(&inputs, &mut state),
            None => {
                let message = "there are no averages to evaluate with";
                Err(Diagnostic::without_span(Code::MissingSetting, message).into())
            }
        }
    }

    /// The feeds of a program: the inputs of the model with their counts, and the seed.
    fn inputs(&self, batch: &Element) -> Inputs {
        let mut inputs: Inputs = [(SEED.to_owned(), Tensor::scalar(self.seed))].into();
        for (name, value) in &batch.values {
            let input = name
                .split_once('#')
                .map_or(name.as_str(), |(input, _)| input);
            if self.model.inputs.iter().any(|f| f.name == input) {
                inputs.insert(name.clone(), value.clone());
            }
        }
        inputs
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

fn the_train(spec: &Spec) -> Result<&Train, SessionError> {
    spec.train.as_ref().ok_or_else(|| {
        Diagnostic::without_span(Code::MissingItem, "the spec has no `train`")
            .help(
                "say how it is trained: `train { data NAME; optimizer adam(1e-3); steps 1_000; }`",
            )
            .into()
    })
}

/// The name of the graph result for a bare name in a hook: `loss/loss`, `schedule/rate`.
pub(crate) fn result_name(spec: &Spec, name: &str) -> Option<String> {
    let mode = &spec.model.as_ref()?.train;
    let kinds = [
        ("loss", &mode.losses),
        ("metric", &mode.metrics),
        ("output", &mode.outputs),
        ("let", &mode.lets),
    ];
    let own = kinds
        .into_iter()
        .find(|(_, named)| named.iter().any(|(n, _)| n == name));
    let schedules = || spec.train.iter().flat_map(|t| &t.schedules);
    match own {
        Some((kind, _)) => Some(format!("{kind}/{name}")),
        None if schedules().any(|(n, _)| n == name) => Some(format!("schedule/{name}")),
        None => None,
    }
}

/// Whether a result, or the feature that its count belongs to, is in the fetch set.
fn is_fetched(names: &BTreeSet<String>, result: &str) -> bool {
    let bare = result.split_once('#').map_or(result, |(bare, _)| bare);
    names.contains(bare)
}
