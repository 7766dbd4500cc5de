//! The cache of compiled programs: one specialisation for each binding of the named dimensions, evicted least recently used (LRU).

use std::collections::BTreeSet;

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::lower::{self, Binding, Context};
use trainspec_compiler::typed::Spec;

use crate::SessionError;
use crate::program::{Engine, Executable, prepare};
use crate::session::{Specialisation, is_fetched};

/// The capacity of the cache, in specialisations.
const MAX_CACHED_PROGRAMS: usize = 16;

/// The programs of one mode.
#[derive(Debug)]
pub(super) struct Programs<'a> {
    spec: &'a Spec,
    training: bool,
    fetches: BTreeSet<String>,
    disabled: &'a BTreeSet<String>,
    engine: &'a Engine,
    /// The most recently used last.
    cache: Vec<(Binding, CompiledStep)>,
    /// Specialisations that were compiled and not reported yet.
    pub(super) specialisations: Vec<Specialisation>,
    has_specialised: bool,
    /// The warnings of the last step that was lowered.
    pub(super) warnings: Vec<Diagnostic>,
}

/// A step or an evaluation, specialised for one binding of the named dimensions.
#[derive(Debug)]
pub(super) struct CompiledStep {
    /// The step that updates, or the evaluation.
    pub(super) program: Box<dyn Executable>,
    /// Gradient accumulation alone: runs on every micro-batch of an update but the last.
    pub(super) micro_batch: Option<Box<dyn Executable>>,
}

impl<'a> Programs<'a> {
    pub(super) fn new(
        spec: &'a Spec,
        training: bool,
        fetches: BTreeSet<String>,
        disabled: &'a BTreeSet<String>,
        engine: &'a Engine,
    ) -> Programs<'a> {
        Programs {
            spec,
            training,
            fetches,
            disabled,
            engine,
            cache: Vec::new(),
            specialisations: Vec::new(),
            has_specialised: false,
            warnings: Vec::new(),
        }
    }

    /// The program for these sizes, from the cache or compiled now.
    pub(super) fn get(&mut self, sizes: &Binding) -> Result<&mut CompiledStep, SessionError> {
        let hit = self.cache.iter().position(|(cached, _)| cached == sizes);
        let entry = match hit {
            Some(i) => self.cache.remove(i),
            None => {
                let cx = Context::new(self.spec, sizes);
                let (graph, micro_batch) = match self.training {
                    true => {
                        let step = lower::step(&cx)?;
                        self.warnings = step.warnings;
                        (step.graph, step.micro)
                    }
                    false => (lower::model(&cx, false)?, None),
                };
                let fetched = |name: &str| is_fetched(&self.fetches, name);
                let compile = |graph| prepare(graph, &fetched, self.disabled, self.engine);
                let step = CompiledStep {
                    program: compile(graph),
                    micro_batch: micro_batch.map(compile),
                };
                let micro_bytes = step.micro_batch.as_ref().map_or(0, |m| m.bytes());
                self.specialisations.push(Specialisation {
                    training: self.training,
                    again: self.has_specialised,
                    sizes: sizes.clone(),
                    bytes: step.program.bytes() + micro_bytes,
                });
                self.has_specialised = true;
                (sizes.clone(), step)
            }
        };
        if self.cache.len() == MAX_CACHED_PROGRAMS {
            self.cache.remove(0);
        }
        self.cache.push(entry);
        let (_, step) = self.cache.last_mut().expect("it was just put there");
        Ok(step)
    }
}
