//! What a training has learned so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::lower::{self, Binding, Context, GLOBAL_STEP, MICRO_STEP, SEED};
use trainspec_compiler::typed::{Averaged, Spec};

use crate::SessionError;
use crate::program::{Engine, prepare};
use crate::train::ExponentialMovingAverage;

/// All that outlives a step, by name and in one order: variables, slots and scalars of optimizers, `global_step`.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    names: Arc<Vec<String>>,
    values: Vec<Tensor>,
    places: Arc<BTreeMap<String, usize>>,
}

impl State {
    /// The state before the first step, made by an engine without some passes.
    pub fn initial(
        spec: &Spec,
        seed: i64,
        disabled: &BTreeSet<String>,
        engine: &Engine,
    ) -> Result<State, SessionError> {
        let binding = Binding::new();
        let graph = lower::initial(&Context::new(spec, &binding))?;
        let names: Vec<String> = graph.results.iter().map(|(name, _)| name.clone()).collect();
        let inputs = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(seed))]);
        let mut nothing = State::from_iter([]);
        let mut program = prepare(graph, &|_| true, disabled, engine);
        let mut values = program.run(&inputs, &mut nothing)?.0;
        let value = |name: String| {
            let value = values.remove(&name).expect("state has one name each");
            (name, value)
        };
        Ok(names.into_iter().map(value).collect())
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        Some(&self.values[self.place(name)?])
    }

    /// Where a name stands in the order.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// All values, in the order of the names.
    pub fn values(&self) -> &[Tensor] {
        &self.values
    }

    /// The same, to change them in place.
    pub(crate) fn values_mut(&mut self) -> &mut [Tensor] {
        &mut self.values
    }

    /// Gives a piece another value.
    ///
    /// # Panics
    ///
    /// When it is of another type.
    pub fn set(&mut self, place: usize, value: Tensor) {
        let old = &mut self.values[place];
        assert_eq!(
            old.ty(),
            value.ty(),
            "`{}` keeps its type",
            self.names[place]
        );
        *old = value;
    }

    /// The names, which states that were made of one another share.
    pub(crate) fn order(&self) -> &Arc<Vec<String>> {
        &self.names
    }

    /// How many updates there were.
    pub fn step(&self) -> u64 {
        let step = self.get(GLOBAL_STEP).map(Tensor::to_i64s);
        step.map_or(0, |s| s[0].max(0) as u64)
    }

    /// How many batches of the next update were seen, where an update takes several.
    pub(crate) fn micro(&self) -> u64 {
        let micro = self.get(MICRO_STEP).map(Tensor::to_i64s);
        micro.map_or(0, |s| s[0].max(0) as u64)
    }

    /// The state with the moving averages that a spec keeps in the place of their variables; `None` where it keeps none.
    pub fn averaged(&self, spec: &Spec) -> Option<State> {
        let mut state = self.clone();
        let mut any = false;
        let ema = ExponentialMovingAverage::default();
        for average in spec.train.iter().flat_map(|t| &t.averages) {
            // The average of a value of the model may be called as if it were that of a variable.
            let Averaged::Variable(var) = average.source else {
                continue;
            };
            let name = &spec.variables[var.0 as usize].name;
            if average.state[0].name == ema.average_name(name)
                && let (Some(place), Some(kept)) = (self.place(name), ema.average(self, name))
            {
                state.set(place, kept.clone());
                any = true;
            }
        }
        any.then_some(state)
    }
}

impl FromIterator<(String, Tensor)> for State {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(pieces: I) -> State {
        let (names, values): (Vec<String>, Vec<Tensor>) = pieces.into_iter().unzip();
        let places = names.iter().cloned().zip(0..).collect();
        State {
            names: Arc::new(names),
            values,
            places: Arc::new(places),
        }
    }
}
