//! The cache of compiled programs: one specialisation for each fetch set and binding of the named dimensions, evicted least recently used (LRU).

use std::collections::BTreeSet;

use trainspec_compiler::codegen::exec::WorkMemory;
use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::ir::graph::Graph;
use trainspec_compiler::{
    Binding, Fetch, FetchSet, PipelineOptions, ProgramKind, Trainable, pipeline,
};

use crate::Error;
use crate::lru::LruCache;
use crate::program::{Engine, Executable, Fetched, ProgramCode};
use crate::session::Specialisation;
use crate::session::shared_code::{CodeKey, SharedCode};

/// The capacity of the cache, in specialisations.
const MAX_CACHED_PROGRAMS: usize = 16;

/// How many programs are compiled ahead for declared fetches.
const MAX_DECLARED_PROGRAMS: usize = 4;

/// The specialisations of one kind of program.
#[derive(Debug)]
pub(super) struct Programs {
    trainable: Trainable,
    kind: ProgramKind,
    options: PipelineOptions,
    engine: Engine,
    /// The arena and scratch buffers of all programs of the session, which run one after another.
    memory: WorkMemory,
    /// The code of programs, which sessions that are forks of each other share.
    code: SharedCode,
    /// Whether an update takes several micro-batches.
    accumulates: bool,
    /// What every run fetches.
    always: FetchSet,
    /// What some runs fetch besides: a program for each, and one for all together, is compiled with the first for a binding.
    declared: Vec<BTreeSet<Fetch>>,
    cache: LruCache<(BTreeSet<Fetch>, Binding), CompiledStep>,
    /// Specialisations that were compiled and not reported yet.
    pub(super) specialisations: Vec<Specialisation>,
    has_specialised: bool,
    /// The warnings of the last step that was lowered.
    pub(super) warnings: Vec<Diagnostic>,
}

/// A step or an evaluation, specialised for one fetch set and one binding of the named dimensions.
#[derive(Debug)]
pub(super) struct CompiledStep {
    /// The step that updates, or the evaluation.
    pub(super) program: Box<dyn Executable>,
    /// Gradient accumulation alone: runs on every micro-batch of an update but the last.
    pub(super) micro_batch: Option<Box<dyn Executable>>,
    /// The buffers of the results, reused by every run.
    pub(super) results: Fetched,
    /// Those of a micro-batch.
    pub(super) micro_results: Fetched,
}

impl Programs {
    pub(super) fn new(
        trainable: Trainable,
        kind: ProgramKind,
        accumulates: bool,
        options: PipelineOptions,
        engine: Engine,
        memory: WorkMemory,
        code: SharedCode,
    ) -> Programs {
        Programs {
            always: trainable.fetches(kind).without_checks(),
            trainable,
            kind,
            options,
            engine,
            memory,
            code,
            accumulates,
            declared: Vec::new(),
            cache: LruCache::new(MAX_CACHED_PROGRAMS),
            specialisations: Vec::new(),
            has_specialised: false,
            warnings: Vec::new(),
        }
    }

    /// Fails runs whose losses are not finite before they write state.
    pub(super) fn check_finite(&mut self) {
        self.always = self.trainable.fetches(self.kind);
    }

    /// Fails runs as others of the same kind do.
    pub(super) fn check_as(&mut self, other: &Programs) {
        self.always = other.always.clone();
    }

    /// The graph of a program of these sizes.
    pub(super) fn lower(&self, kind: ProgramKind, sizes: &Binding) -> Result<Graph, Error> {
        Ok(pipeline::lower(&self.trainable, kind, sizes)?.graph)
    }

    /// The options of compilation, and the engine.
    pub(super) fn configuration(&self) -> (&PipelineOptions, &Engine) {
        (&self.options, &self.engine)
    }

    /// Says which sets of values runs will fetch together.
    pub(super) fn declare(&mut self, declared: &[BTreeSet<Fetch>]) {
        let mut sets: Vec<BTreeSet<Fetch>> = Vec::new();
        let all: BTreeSet<Fetch> = declared.iter().flatten().cloned().collect();
        let single = declared.iter().take(MAX_DECLARED_PROGRAMS - 1);
        for set in single.chain([&all]) {
            let set = self.besides(set);
            if !set.is_empty() && !sets.contains(&set) {
                sets.push(set);
            }
        }
        self.declared = sets;
    }

    /// The program for these sizes that gives what every run fetches and at least `more` besides, from the cache or compiled now.
    pub(super) fn get(
        &mut self,
        more: &BTreeSet<Fetch>,
        sizes: &Binding,
    ) -> Result<&mut CompiledStep, Error> {
        // A step asks for nothing else, so that nothing is allocated for the key.
        let is_last = self.cache.last_key().is_some_and(|(fetches, known)| {
            known == sizes && more.iter().all(|fetch| self.has(fetch)) && fetches.is_empty()
        });
        if is_last {
            return Ok(self.cache.last_mut().expect("there is a last one"));
        }
        let more = self.besides(more);
        let is_new = !self.cache.keys().any(|(_, known)| known == sizes);
        if is_new {
            for set in self.declared.clone() {
                self.get_exactly(set, sizes)?;
            }
        }
        // A value that is fetched changes no other, so the smallest program that has all serves.
        let supersets = self.cache.keys();
        let supersets = supersets.filter(|(set, known)| {
            known == sizes
                && set.is_superset(&more)
                && (set.len() == more.len() || self.declared.contains(set))
        });
        let smallest = supersets.min_by_key(|(set, _)| set.len());
        let fetches = match smallest {
            Some((set, _)) if !more.is_empty() => set.clone(),
            _ => more,
        };
        self.get_exactly(fetches, sizes)
    }

    /// The program that gives these values besides what every run fetches.
    fn get_exactly(
        &mut self,
        more: BTreeSet<Fetch>,
        sizes: &Binding,
    ) -> Result<&mut CompiledStep, Error> {
        let fetches = match &self.always {
            FetchSet::All => FetchSet::All,
            FetchSet::Only(always) => FetchSet::Only(always.union(&more).cloned().collect()),
        };
        let key = (more, sizes.clone());
        self.cache.get_or_insert(&key, || -> Result<_, Error> {
            let mut prepare = |kind| -> Result<Box<dyn Executable>, Error> {
                let (options, engine) = (&self.options, &self.engine);
                let code_key = CodeKey {
                    kind,
                    fetches: fetches.clone(),
                    sizes: sizes.clone(),
                };
                let (code, warnings) = self.code.get_or_compile(&code_key, || {
                    let lowered = pipeline::lower(&self.trainable, kind, sizes)?;
                    pipeline::check_fetches(&lowered.graph, kind, &FetchSet::Only(key.0.clone()))?;
                    let code = ProgramCode::new(lowered.graph, &fetches, options, engine)?;
                    Ok((code, lowered.warnings))
                })?;
                if kind == ProgramKind::Step {
                    self.warnings = warnings;
                }
                code.executable(engine, &self.memory)
            };
            let program = prepare(self.kind)?;
            let micro_batch = match self.accumulates {
                true => Some(prepare(ProgramKind::MicroBatch)?),
                false => None,
            };
            let micro_bytes = micro_batch.as_ref().map_or(0, |m| m.bytes());
            self.specialisations.push(Specialisation {
                training: self.kind == ProgramKind::Step,
                again: self.has_specialised,
                sizes: sizes.clone(),
                fetches: key.0.iter().map(ToString::to_string).collect(),
                bytes: program.bytes() + micro_bytes,
            });
            self.has_specialised = true;
            Ok(CompiledStep {
                results: program.results(),
                micro_results: micro_batch
                    .as_ref()
                    .map(|m| m.results())
                    .unwrap_or_default(),
                program,
                micro_batch,
            })
        })
    }

    /// What a run does not fetch anyway.
    fn besides(&self, values: &BTreeSet<Fetch>) -> BTreeSet<Fetch> {
        let besides = values.iter().filter(|fetch| !self.has(fetch));
        besides.cloned().collect()
    }

    /// Whether every run fetches this anyway.
    fn has(&self, fetch: &Fetch) -> bool {
        match &self.always {
            FetchSet::All => true,
            FetchSet::Only(always) => always.contains(fetch),
        }
    }

    /// The program that was used last.
    pub(super) fn last(&self) -> Option<&CompiledStep> {
        self.cache.last()
    }
}
