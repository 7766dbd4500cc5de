//! The programs of a spec: initial values, training step, micro-batch and merge, gradients and apply, evaluation, prediction.

use std::fmt;
use std::str::FromStr;

use trainspec_ir::graph::Graph;
use trainspec_ir::passes::drop_dead_inputs;

use crate::diag::{Code, Diagnostic};
use crate::lower::{self, Context, FetchSet};
use crate::typed::Spec;

/// Which program of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramKind {
    /// The initial values of all state.
    Initial,
    /// One training step: gradients and updates.
    Step,
    /// With `accumulate`, what is done with every micro-batch of a step but the last.
    MicroBatch,
    /// With `accumulate`, the sum of the two newest partial sums of gradients.
    Merge,
    /// The gradients of a step alone, without updates.
    Gradients,
    /// The updates of a step alone; the gradients are its inputs.
    Apply,
    /// The model in evaluation mode: losses and metrics.
    Evaluate,
    /// The model in evaluation mode: outputs.
    Predict,
}

impl ProgramKind {
    /// All kinds.
    pub const ALL: [ProgramKind; 8] = [
        ProgramKind::Initial,
        ProgramKind::Step,
        ProgramKind::MicroBatch,
        ProgramKind::Merge,
        ProgramKind::Gradients,
        ProgramKind::Apply,
        ProgramKind::Evaluate,
        ProgramKind::Predict,
    ];

    /// The name, as `emit --program NAME` takes it.
    pub fn name(self) -> &'static str {
        match self {
            ProgramKind::Initial => "initial",
            ProgramKind::Step => "step",
            ProgramKind::MicroBatch => "micro-batch",
            ProgramKind::Merge => "merge",
            ProgramKind::Gradients => "gradients",
            ProgramKind::Apply => "apply",
            ProgramKind::Evaluate => "evaluate",
            ProgramKind::Predict => "predict",
        }
    }

    /// What a run fetches from this program.
    pub fn fetches(self, spec: &Spec) -> FetchSet {
        match self {
            ProgramKind::Step | ProgramKind::MicroBatch => FetchSet::of_step(spec),
            ProgramKind::Evaluate => FetchSet::of_evaluation(spec),
            ProgramKind::Predict => FetchSet::of_prediction(spec),
            ProgramKind::Initial
            | ProgramKind::Merge
            | ProgramKind::Gradients
            | ProgramKind::Apply => FetchSet::All,
        }
    }
}

impl fmt::Display for ProgramKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProgramKind {
    type Err = String;

    fn from_str(text: &str) -> Result<ProgramKind, String> {
        let found = ProgramKind::ALL.into_iter().find(|k| k.name() == text);
        found.ok_or_else(|| {
            let names = ProgramKind::ALL.map(ProgramKind::name).join(", ");
            format!("there is no program `{text}`, but {names}")
        })
    }
}

/// A program as a graph.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// What it computes, with all results that can be fetched.
    pub graph: Graph,
    /// Warnings that only lowering finds, such as variables without a gradient.
    pub warnings: Vec<Diagnostic>,
}

impl From<Graph> for Lowered {
    fn from(graph: Graph) -> Lowered {
        Lowered {
            graph,
            warnings: Vec::new(),
        }
    }
}

/// Lowers a program of a spec.
pub fn program_graph(cx: &Context<'_>, kind: ProgramKind) -> Result<Lowered, Diagnostic> {
    Ok(match kind {
        ProgramKind::Initial => lower::initial(cx)?.into(),
        ProgramKind::Step => lower::step(cx)?,
        ProgramKind::MicroBatch => match lower::micro_batch(cx)? {
            Some(graph) => graph.into(),
            None => {
                let message = "the spec has no micro-batches";
                return Err(Diagnostic::without_span(Code::MissingSetting, message)
                    .help("`accumulate 4;` in `train` makes a step of 4 micro-batches"));
            }
        },
        ProgramKind::Merge => match lower::merge(cx)? {
            Some(graph) => graph.into(),
            None => {
                let message = "the spec has no partial sums to merge";
                return Err(Diagnostic::without_span(Code::MissingSetting, message)
                    .help("`accumulate 4;` in `train`, or more, adds gradients by a tree"));
            }
        },
        ProgramKind::Gradients => lower::gradients(cx)?.into(),
        ProgramKind::Apply => lower::apply(cx)?.into(),
        ProgramKind::Evaluate => lower::model(cx, false)?.into(),
        ProgramKind::Predict => {
            let mut graph = lower::model(cx, false)?;
            FetchSet::of_prediction(cx.spec).restrict(&mut graph);
            // Without labels, say: only what the outputs depend on is fed.
            drop_dead_inputs(graph).into()
        }
    })
}
