//! Sessions: a checked spec, its state, and the programs that move it on.

mod binding;
mod due;
mod event;
mod mean;
mod plain;
mod programs;
mod watch;

pub use event::{DataSize, End, Event, Observer, Reading, Specialisation};
pub use mean::Mean;
pub use plain::train;

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

/// What a run may be told beside its spec.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Another seed than that of the spec.
    pub seed: Option<i64>,
    /// How many steps, instead of what the spec says.
    pub steps: Option<u64>,
    /// What paths of data are relative to: the folder of the spec.
    pub folder: PathBuf,
    /// The passes that are not run.
    pub disabled_passes: BTreeSet<String>,
    /// What runs the programs.
    pub engine: Engine,
}

/// A spec in training: its state, and programs for the sizes it has met.
#[derive(Debug)]
pub struct Session<'a> {
    spec: &'a Spec,
    model: &'a Model,
    seed: i64,
    /// How many batches make an update.
    batches: u64,
    state: State,
    steps: Programs<'a>,
    evaluations: Programs<'a>,
}

impl<'a> Session<'a> {
    /// A session before its first step. Steps fetch the results that `step` names and evaluations those that `evaluation`
    /// names, as the lowering calls them: `loss/loss`, `metric/accuracy`.
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
            batches: train.accumulate.max(1) as u64,
            state: State::initial(spec, seed, disabled, &options.engine)?,
            steps: Programs::new(spec, true, step, disabled, &options.engine),
            evaluations: Programs::new(spec, false, evaluation, disabled, &options.engine),
        })
    }

    /// What was learned so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Lowers a step for batches like this one, so that whatever is wrong with the spec is known before the first; gives
    /// what is odd about it.
    pub fn prepare(&mut self, batch: &Element) -> Result<Vec<Diagnostic>, SessionError> {
        let sizes = binding::bind(self.model, &batch.values)?;
        self.steps.get(&sizes)?;
        Ok(self.steps.warnings.clone())
    }

    /// The programs that were made since this was last asked.
    pub fn specialised(&mut self) -> Vec<Specialisation> {
        let mut made = std::mem::take(&mut self.steps.made);
        made.append(&mut self.evaluations.made);
        made
    }

    /// One update; with `accumulate` one batch of it, of which the last updates. [`State::step`] tells whether it did.
    pub fn step(&mut self, batch: &Element) -> Result<Fetched, SessionError> {
        let sizes = binding::bind(self.model, &batch.values)?;
        let inputs = self.inputs(batch);
        let last = self.state.micro() + 1 >= self.batches;
        let kept = self.steps.get(&sizes)?;
        let program = match &mut kept.micro {
            Some(micro) if !last => micro,
            _ => &mut kept.whole,
        };
        program.run(&inputs, &mut self.state)
    }

    /// How many batches make an update.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// The model on a batch, as it is evaluated; nothing is written. With averages they stand in for the variables.
    pub fn evaluate(&mut self, batch: &Element, averages: bool) -> Result<Fetched, SessionError> {
        let sizes = binding::bind(self.model, &batch.values)?;
        let inputs = self.inputs(batch);
        let program = &mut self.evaluations.get(&sizes)?.whole;
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

    /// What a program is fed: the inputs of the model with their counts, and the seed.
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

/// How many numbers are trained.
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

/// The name under which a graph publishes something that hooks call by its bare name.
fn result_name(spec: &Spec, name: &str) -> Option<String> {
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

/// Whether a result, or the feature that its count belongs to, is among names.
fn is_wanted(names: &BTreeSet<String>, result: &str) -> bool {
    let bare = result.split_once('#').map_or(result, |(bare, _)| bare);
    names.contains(bare)
}
