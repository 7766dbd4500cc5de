//! An update of several micro-batches (gradient accumulation): the sums of their gradients, by a stack of partial sums.

use std::collections::BTreeSet;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::lower::accumulator_names;
use trainspec_compiler::typed::{Role, Spec, Train};
use trainspec_compiler::{Binding, Fetch, FetchSet, ProgramKind, Trainable, pipeline};

use crate::program::{Executable, FeedDict, Fetched, prepare};
use crate::session::micro_batches::MicroBatchMean;
use crate::session::tree_sum::merges_after;
use crate::session::{LastRun, Session, feeds};
use crate::{Cause, Error, State};

/// What an update of several micro-batches has besides its programs.
#[derive(Debug)]
pub(super) struct Accumulation {
    /// The state that is the stack of each variable, the top first.
    stacks: Vec<Vec<usize>>,
    /// The partial sums on each stack.
    depth: usize,
    /// Adds the top of the stacks to what is below; compiled with the first update that needs it.
    merge: Option<Box<dyn Executable>>,
    /// The means of the results.
    pub(super) mean: MicroBatchMean,
}

impl Accumulation {
    pub(super) fn new(spec: &Spec, train: &Train, state: &State) -> Accumulation {
        let updates = train.groups.iter().flat_map(|group| &group.updates);
        let stacks = updates.map(|update| {
            let variable = &spec.variables[update.variable.0 as usize].name;
            let names = accumulator_names(train, variable);
            let index = |name: &String| state.index_of(name).expect("a state has all accumulators");
            names.iter().map(index).collect()
        });
        Accumulation {
            stacks: stacks.collect(),
            depth: 0,
            merge: None,
            mean: MicroBatchMean::default(),
        }
    }

    /// Makes the top of the stacks a tensor that holds no partial sum. Tensors change places, and no element is moved.
    fn push(&mut self, state: &mut State) {
        for stack in &self.stacks {
            let places = stack.windows(2).rev();
            places.for_each(|pair| state.values_mut().swap(pair[0], pair[1]));
        }
        self.depth += 1;
    }

    /// Removes the top of the stacks.
    fn pop(&mut self, state: &mut State) {
        for stack in &self.stacks {
            let places = stack.windows(2);
            places.for_each(|pair| state.values_mut().swap(pair[0], pair[1]));
        }
        self.depth -= 1;
    }
}

impl Session {
    /// An update of several micro-batches. After an error, or where it is stopped, the state is as it was.
    pub(super) fn accumulate(
        &mut self,
        batches: &[&dyn FeedDict],
        more: &BTreeSet<Fetch>,
    ) -> Result<(), Error> {
        let before = self.block_state();
        let updated = self.run_micro_batches(batches, more);
        // Also after an update every tensor has its own place again.
        while self.accumulation.depth > 0 {
            self.accumulation.pop(&mut self.state);
        }
        if updated.is_err() {
            self.state.discard_micro_batches();
            let restored = before.into_iter();
            restored.for_each(|(index, value)| self.state.set(index, value));
        }
        updated
    }

    fn run_micro_batches(
        &mut self,
        batches: &[&dyn FeedDict],
        more: &BTreeSet<Fetch>,
    ) -> Result<(), Error> {
        self.accumulation.mean.begin();
        for (i, batch) in batches.iter().enumerate() {
            if i > 0 && self.stop.should_stop() {
                return Err(Cause::Stopped { micro_batches: i }.into());
            }
            let model = self.spec.model.as_ref().expect("a session has a model");
            let sizes = self.step_binding.bind(model, *batch)?;
            let step = self.steps.get(more, sizes)?;
            let is_last = i + 1 == batches.len();
            if i % 2 == 0 && !is_last {
                self.accumulation.push(&mut self.state);
            }
            let (kind, program, results) = match &mut step.micro_batch {
                Some(micro_batch) if !is_last => {
                    let results = &mut step.micro_results;
                    (ProgramKind::MicroBatch, micro_batch, results)
                }
                _ => (ProgramKind::Step, &mut step.program, &mut step.results),
            };
            let feeds = feeds(&self.seed, *batch);
            let ran = (self.tracer).run(&mut **program, feeds, &mut self.state, results);
            match ran {
                Ok(()) => self.accumulation.mean.add(&self.spec, results),
                Err(error) => return Err(self.explain(error, kind, *batch, i)),
            }
            // The first merge is that of the micro-batch with the sum at the top; the last micro-batch does all of its own.
            let merges = if is_last { 0 } else { merges_after(i) };
            for _ in 1..merges {
                self.merge()?;
            }
        }
        self.accumulation.mean.finish();
        self.last = LastRun::Accumulated;
        Ok(())
    }

    /// Compiles the program that merges partial sums, where there may be several.
    pub(super) fn prepare_merge(&mut self) -> Result<(), Error> {
        let deep = self.accumulation.stacks.iter().any(|stack| stack.len() > 1);
        if !deep || self.accumulation.merge.is_some() {
            return Ok(());
        }
        let (options, engine) = self.steps.configuration();
        let trainable = Trainable::from(self.spec.clone());
        let lowered = pipeline::lower(&trainable, ProgramKind::Merge, &Binding::new())?;
        let merge = prepare(lowered.graph, &FetchSet::All, options, engine)?;
        self.accumulation.merge = Some(merge);
        Ok(())
    }

    /// Adds the partial sums at the top of the stacks to those below.
    fn merge(&mut self) -> Result<(), Error> {
        self.prepare_merge()?;
        if let Some(merge) = &mut self.accumulation.merge {
            let feeds = feeds(&self.seed, &[]);
            let results = &mut Fetched::default();
            (self.tracer).run(&mut **merge, feeds, &mut self.state, results)?;
        }
        self.accumulation.pop(&mut self.state);
        Ok(())
    }

    /// The state of blocks, which every micro-batch writes.
    fn block_state(&self) -> Vec<(usize, Tensor)> {
        let variables = self.spec.variables.iter();
        let blocks = variables.filter(|variable| variable.role == Role::State);
        let indices = blocks.filter_map(|variable| self.state.index_of(&variable.name));
        let values = self.state.values();
        indices.map(|i| (i, values[i].clone())).collect()
    }
}
