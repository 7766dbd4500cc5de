//! The programs of a model: one for each size of its named dimensions.

use std::collections::BTreeSet;

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::lower::{self, Binding, Context};
use trainspec_compiler::typed::Spec;

use crate::SessionError;
use crate::program::{Engine, Executable, prepare};
use crate::session::{Specialisation, is_wanted};

/// How many are kept; the one that was not used for longest goes first.
const KEPT: usize = 16;

/// The programs of one mode.
#[derive(Debug)]
pub(super) struct Programs<'a> {
    spec: &'a Spec,
    training: bool,
    results: BTreeSet<String>,
    disabled: &'a BTreeSet<String>,
    engine: &'a Engine,
    /// The latest last.
    kept: Vec<(Binding, Kept)>,
    /// What was made and not reported yet.
    pub(super) made: Vec<Specialisation>,
    made_before: bool,
    /// What is odd about the first of them.
    pub(super) warnings: Vec<Diagnostic>,
}

/// What is made for one size of the named dimensions.
#[derive(Debug)]
pub(super) struct Kept {
    /// The step, or the evaluation.
    pub(super) whole: Box<dyn Executable>,
    /// What is done with every batch of a step but the last, where a step has several.
    pub(super) micro: Option<Box<dyn Executable>>,
}

impl<'a> Programs<'a> {
    pub(super) fn new(
        spec: &'a Spec,
        training: bool,
        results: BTreeSet<String>,
        disabled: &'a BTreeSet<String>,
        engine: &'a Engine,
    ) -> Programs<'a> {
        Programs {
            spec,
            training,
            results,
            disabled,
            engine,
            kept: Vec::new(),
            made: Vec::new(),
            made_before: false,
            warnings: Vec::new(),
        }
    }

    /// The program for these sizes.
    pub(super) fn get(&mut self, sizes: &Binding) -> Result<&mut Kept, SessionError> {
        let found = self.kept.iter().position(|(kept, _)| kept == sizes);
        let entry = match found {
            Some(i) => self.kept.remove(i),
            None => {
                let cx = Context::new(self.spec, sizes);
                let (graph, micro) = match self.training {
                    true => {
                        let step = lower::step(&cx)?;
                        self.warnings = step.warnings;
                        (step.graph, step.micro)
                    }
                    false => (lower::model(&cx, false)?, None),
                };
                let wanted = |name: &str| is_wanted(&self.results, name);
                let program = |graph| prepare(graph, &wanted, self.disabled, self.engine);
                let kept = Kept {
                    whole: program(graph),
                    micro: micro.map(program),
                };
                self.made.push(Specialisation {
                    training: self.training,
                    again: self.made_before,
                    sizes: sizes.clone(),
                    bytes: kept.whole.bytes() + kept.micro.as_ref().map_or(0, |m| m.bytes()),
                });
                self.made_before = true;
                (sizes.clone(), kept)
            }
        };
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(entry);
        let (_, kept) = self.kept.last_mut().expect("it was just put there");
        Ok(kept)
    }
}
