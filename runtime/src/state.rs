//! The state of a training: variables, optimizer slots and scalars, `global_step`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainspec_compiler::codegen::exec::pool::Pool;
use trainspec_compiler::codegen::exec::{copy_into, copy_on_huge_pages};
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::lower::{GLOBAL_STEP, SEED};
use trainspec_compiler::typed::{Averaged, Spec};
use trainspec_compiler::{Binding, FetchSet, PipelineOptions, ProgramKind, Trainable, pipeline};

use crate::program::{Engine, Feeds, prepare};
use crate::train::ExponentialMovingAverage;
use crate::{Error, memory};

/// All that outlives a step, by name and in one order: variables, slots and scalars of optimizers, `global_step`.
///
/// ```
/// use trainspec::{Options, Session};
///
/// let text = "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); }";
/// let spec = trainspec::check("line", text)?;
/// let session = Session::new(&spec, &Options::default())?;
/// let state = session.state();
/// assert_eq!(state.names(), ["a", "global_step"]);
/// assert_eq!(state.get("a").unwrap().to_f64s(), [1.0]);
/// assert_eq!(state.step(), 0);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    names: Arc<Vec<String>>,
    values: Vec<Tensor>,
    indices: Arc<BTreeMap<String, usize>>,
    /// The values that nothing was assigned to yet. Empty, but between the creation of a session and its initialization or restore.
    uninitialized: BTreeSet<usize>,
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

    /// A state without values: initializers or a restore assign them.
    pub fn uninitialized(trainable: &Trainable) -> Result<State, Error> {
        State::ensure_fits(trainable)?;
        let zeros = trainable.state()?.into_iter();
        let zeros = zeros.map(|one| (one.name, Tensor::zeros(&one.ty)));
        let mut state: State = zeros.collect();
        // Scratch is zero at the beginning of every update.
        let assigned = state.names.iter().enumerate();
        let assigned = assigned.filter(|(_, name)| !is_scratch(name));
        state.uninitialized = assigned.map(|(i, _)| i).collect();
        Ok(state)
    }

    /// Fails where the state of a trainable needs more memory than there is.
    pub(crate) fn ensure_fits(trainable: &Trainable) -> Result<(), Error> {
        let all = trainable.state()?;
        let types = all.iter().map(|one| memory::tensor(&one.name, &one.ty));
        memory::ensure("the state", types.collect())
    }

    /// The names of the values that nothing was assigned to yet, in order (`report_uninitialized_variables`).
    pub fn uninitialized_names(&self) -> Vec<&str> {
        let missing = self.uninitialized.iter();
        missing.map(|i| self.names[*i].as_str()).collect()
    }

    /// Whether every value was assigned.
    pub fn is_initialized(&self) -> bool {
        self.uninitialized.is_empty()
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
        self.uninitialized.remove(&index);
    }

    /// A copy of what is saved in memory of its own, on huge pages where it is large, which [`State::copy_from`] then uses again. Fails where it
    /// does not fit.
    pub(crate) fn copy(&self) -> Result<State, Error> {
        let types = self.saved();
        let types = types.map(|(name, value)| memory::tensor(name, &value.ty()));
        memory::ensure("the copy of the state that is saved", types.collect())?;
        let copy = |value: &Tensor| match value.dtype() {
            DType::String => value.clone(),
            _ => copy_on_huge_pages(value),
        };
        let values = self.saved();
        let mut copied: State = values.map(|(name, v)| (name.clone(), copy(v))).collect();
        copied.uninitialized = copied.uninitialized_of(self);
        Ok(copied)
    }

    /// Takes over what is saved of a state of the same names and types, without an allocation.
    pub(crate) fn copy_from(&mut self, from: &State, engine: &Engine) {
        debug_assert!(from.saved().map(|(name, _)| name).eq(self.names.iter()));
        let alone;
        let pool: &Pool = match engine {
            Engine::Compiled(pool) => pool,
            Engine::Interpreted => {
                alone = Pool::new(1);
                &alone
            }
        };
        for (to, (_, from)) in self.values.iter_mut().zip(from.saved()) {
            copy_into(pool, from, to);
        }
        self.uninitialized = self.uninitialized_of(from);
    }

    /// The values that a checkpoint holds: all but what an update needs of its micro-batches.
    fn saved(&self) -> impl Iterator<Item = (&String, &Tensor)> {
        let all = self.names.iter().zip(&self.values);
        all.filter(|(name, _)| !is_scratch(name))
    }

    /// The indices of the values to which nothing was assigned in another state.
    fn uninitialized_of(&self, other: &State) -> BTreeSet<usize> {
        let names = other.uninitialized.iter().map(|i| &other.names[*i]);
        names.filter_map(|name| self.index_of(name)).collect()
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

    /// A hash (FNV-1a) of all names, types and bits: states that differ in any bit have different ones, but for a chance of 2^-64.
    ///
    /// ```
    /// use trainspec::{State, Tensor};
    ///
    /// let state = |x: f32| State::from_iter([("x".to_owned(), Tensor::scalar(x))]);
    /// assert_eq!(state(1.0).digest(), state(1.0).digest());
    /// assert_ne!(state(0.0).digest(), state(-0.0).digest());
    /// ```
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv1a::default();
        for (name, value) in self.saved() {
            hash.add(format!("{name} {}\n", value.ty()).as_bytes());
            hash.add_elements(value);
        }
        hash.0
    }

    /// Forgets the micro-batches that were accumulated for an update that is not completed: their count and their sums are 0 again.
    pub(crate) fn discard_micro_batches(&mut self) {
        let scratch = self.names.iter().zip(&mut self.values);
        for (_, value) in scratch.filter(|(name, _)| is_scratch(name)) {
            value.fill_zero();
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

/// The 64-bit FNV-1a hash.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Fnv1a {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds the elements of a tensor, in little-endian bytes.
    fn add_elements(&mut self, tensor: &Tensor) {
        macro_rules! each {
            ($($variant:ident),*) => {
                match tensor.data() {
                    $(Data::$variant(values) => values.iter().for_each(|x| self.add(&x.to_le_bytes())),)*
                    Data::Bool(values) => values.iter().for_each(|x| self.add(&[u8::from(*x)])),
                    Data::String(values) => values.iter().for_each(|bytes| {
                        self.add(&bytes.len().to_le_bytes());
                        self.add(bytes);
                    }),
                }
            };
        }
        each!(F16, Bf16, F32, F64, I8, I16, I32, I64, U8);
    }
}

/// Whether a name is that of state which is 0 or without meaning between updates: sums over micro-batches, and their count.
fn is_scratch(name: &str) -> bool {
    name.starts_with('#')
}

impl FromIterator<(String, Tensor)> for State {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(named: I) -> State {
        let (names, values): (Vec<String>, Vec<Tensor>) = named.into_iter().unzip();
        let indices = names.iter().cloned().zip(0..).collect();
        State {
            names: Arc::new(names),
            values,
            indices: Arc::new(indices),
            uninitialized: BTreeSet::new(),
        }
    }
}
