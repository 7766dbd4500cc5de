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
    kept: Vec<(Binding, Box<dyn Executable>)>,
    /// What was made and not reported yet.
    pub(super) made: Vec<Specialisation>,
    made_before: bool,
    /// What is odd about the first of them.
    pub(super) warnings: Vec<Diagnostic>,
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
    pub(super) fn get(&mut self, sizes: &Binding) -> Result<&mut dyn Executable, SessionError> {
        let found = self.kept.iter().position(|(kept, _)| kept == sizes);
        let entry = match found {
            Some(i) => self.kept.remove(i),
            None => {
                let cx = Context::new(self.spec, sizes);
                let graph = match self.training {
                    true => {
                        let step = lower::step(&cx)?;
                        self.warnings = step.warnings;
                        step.graph
                    }
                    false => lower::model(&cx, false)?,
                };
                let wanted = |name: &str| is_wanted(&self.results, name);
                let program = prepare(graph, &wanted, self.disabled, self.engine);
                self.made.push(Specialisation {
                    training: self.training,
                    again: self.made_before,
                    sizes: sizes.clone(),
                    bytes: program.bytes(),
                });
                self.made_before = true;
                (sizes.clone(), program)
            }
        };
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(entry);
        let (_, executable) = self.kept.last_mut().expect("it was just put there");
        Ok(executable.as_mut())
    }
}
