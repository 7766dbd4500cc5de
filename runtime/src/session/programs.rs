//! The cache of compiled programs: one specialisation for each binding of the named dimensions, evicted least recently used (LRU).

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::{Binding, PipelineOptions, ProgramKind, Trainable, pipeline};

use crate::Error;
use crate::lru::LruCache;
use crate::program::{Engine, Executable, prepare};
use crate::session::Specialisation;

/// The capacity of the cache, in specialisations.
const MAX_CACHED_PROGRAMS: usize = 16;

/// The specialisations of one program.
#[derive(Debug)]
pub(super) struct Programs {
    trainable: Trainable,
    kind: ProgramKind,
    options: PipelineOptions,
    engine: Engine,
    /// Whether an update takes several micro-batches.
    accumulates: bool,
    cache: LruCache<Binding, CompiledStep>,
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

impl Programs {
    pub(super) fn new(
        trainable: Trainable,
        kind: ProgramKind,
        accumulates: bool,
        options: PipelineOptions,
        engine: Engine,
    ) -> Programs {
        Programs {
            trainable,
            kind,
            options,
            engine,
            accumulates,
            cache: LruCache::new(MAX_CACHED_PROGRAMS),
            specialisations: Vec::new(),
            has_specialised: false,
            warnings: Vec::new(),
        }
    }

    /// The program for these sizes, from the cache or compiled now.
    pub(super) fn get(&mut self, sizes: &Binding) -> Result<&mut CompiledStep, Error> {
        self.cache.get_or_insert(sizes, || -> Result<_, Error> {
            let mut compile = |kind| -> Result<Box<dyn Executable>, Error> {
                let lowered = pipeline::lower(&self.trainable, kind, sizes)?;
                if kind == ProgramKind::Step {
                    self.warnings = lowered.warnings;
                }
                let fetches = self.trainable.fetches(kind);
                let graph = lowered.graph;
                prepare(graph, &fetches, &self.options, &self.engine)
            };
            let program = compile(self.kind)?;
            let micro_batch = match self.accumulates {
                true => Some(compile(ProgramKind::MicroBatch)?),
                false => None,
            };
            let micro_bytes = micro_batch.as_ref().map_or(0, |m| m.bytes());
            self.specialisations.push(Specialisation {
                training: self.kind == ProgramKind::Step,
                again: self.has_specialised,
                sizes: sizes.clone(),
                bytes: program.bytes() + micro_bytes,
            });
            self.has_specialised = true;
            Ok(CompiledStep {
                program,
                micro_batch,
            })
        })
    }

    /// The program that was used last.
    pub(super) fn last(&self) -> Option<&CompiledStep> {
        self.cache.last()
    }
}
