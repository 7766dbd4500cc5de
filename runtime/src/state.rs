//! The state of a training: variables, optimizer slots and scalars, `global_step`.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::lower::{GLOBAL_STEP, SEED};
use trainspec_compiler::typed::{Averaged, Spec};
use trainspec_compiler::{Binding, FetchSet, PipelineOptions, ProgramKind, Trainable, pipeline};

use crate::program::{Engine, Feeds, prepare};
use crate::train::ExponentialMovingAverage;
use crate::{Error, memory};

/// All that outlives a step, by name and in one order: variables, slots and scalars of optimizers, `global_step`.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    names: Arc<Vec<String>>,
    values: Vec<Tensor>,
    indices: Arc<BTreeMap<String, usize>>,
}

impl State {
    /// The initial state: runs the initializers of a trainable.
    pub fn initial(
        trainable: &Trainable,
        seed: i64,
        options: &PipelineOptions,
        engine: &Engine,
    ) -> Result<State, Error> {
        let graph = pipeline::lower(trainable, ProgramKind::Initial, &Binding::new())?.graph;
        let names: Vec<String> = graph.results.iter().map(|(name, _)| name.clone()).collect();
        let inputs = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(seed))]);
        let mut empty = State::from_iter([]);
        let types = graph
            .results
            .iter()
            .map(|(name, v)| memory::tensor(name, graph.ty(*v)));
        memory::ensure("the state", types.collect())?;
        let mut program = prepare(graph, &FetchSet::All, options, engine)?;
        let values = program.run(Feeds::from(&inputs), &mut empty)?;
        debug_assert!(values.0.iter().map(|(name, _)| name).eq(&names));
        Ok(values.0.into_iter().collect())
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        Some(&self.values[self.index_of(name)?])
    }

    /// The index of a name in the order.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.indices.get(name).copied()
    }

    /// All values, in the order of the names.
    pub fn values(&self) -> &[Tensor] {
        &self.values
    }

    /// All values, mutable, in the order of the names.
    pub(crate) fn values_mut(&mut self) -> &mut [Tensor] {
        &mut self.values
    }

    /// Sets a value.
    ///
    /// # Panics
    ///
    /// When it is of another type.
    pub fn set(&mut self, index: usize, value: Tensor) {
        let old = &mut self.values[index];
        assert_eq!(
            old.ty(),
            value.ty(),
            "`{}` keeps its type",
            self.names[index]
        );
        *old = value;
    }

    /// The names; clones of a state share one allocation.
    pub(crate) fn shared_names(&self) -> &Arc<Vec<String>> {
        &self.names
    }

    /// The number of updates: `global_step`.
    pub fn step(&self) -> u64 {
        let step = self.get(GLOBAL_STEP).map(Tensor::to_i64s);
        step.map_or(0, |s| s[0].max(0) as u64)
    }

    /// Forgets the micro-batches that were accumulated for an update that is not completed: their count and their sums are 0 again.
    pub(crate) fn discard_micro_batches(&mut self) {
        let scratch = self.names.iter().zip(&mut self.values);
        for (_, value) in scratch.filter(|(name, _)| name.starts_with('#')) {
            *value = Tensor::zeros(&value.ty());
        }
    }

    /// Lets the moving averages that a spec keeps change places with their variables; a second call undoes the first. False where it
    /// keeps none.
    pub(crate) fn swap_averages(&mut self, spec: &Spec) -> bool {
        let mut any = false;
        let ema = ExponentialMovingAverage::default();
        for average in spec.train.iter().flat_map(|t| &t.averages) {
            // The average of a value of the model may be called as if it were that of a variable.
            let Averaged::Variable(var) = average.source else {
                continue;
            };
            let name = &spec.variables[var.0 as usize].name;
            let kept = &average.state[0].name;
            if *kept == ema.average_name(name)
                && let (Some(variable), Some(average)) = (self.index_of(name), self.index_of(kept))
            {
                self.values.swap(variable, average);
                any = true;
            }
        }
        any
    }
}

impl FromIterator<(String, Tensor)> for State {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(named: I) -> State {
        let (names, values): (Vec<String>, Vec<Tensor>) = named.into_iter().unzip();
        let indices = names.iter().cloned().zip(0..).collect();
        State {
            names: Arc::new(names),
            values,
            indices: Arc::new(indices),
        }
    }
}
