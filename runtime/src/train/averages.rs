//! Exponential moving averages of variables (`tf.train.ExponentialMovingAverage`): names, updates, restoring.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainspec_compiler::Trainable;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::build::{Builder, Value};
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::typed::{Averaged, Role, Spec};

use crate::saver::is_scratch;
use crate::train::Variable;
use crate::{Code, Error, State};

/// Moving averages under one name, as `ema` in `train` keeps them.
///
/// ```
/// use trainspec::train::ExponentialMovingAverage;
///
/// let ema = ExponentialMovingAverage::default();
/// assert_eq!(ema.average_name("dense/kernel"), "dense/kernel/ExponentialMovingAverage");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExponentialMovingAverage {
    name: String,
}

impl Default for ExponentialMovingAverage {
    fn default() -> ExponentialMovingAverage {
        ExponentialMovingAverage::new(ExponentialMovingAverage::NAME)
    }
}

impl ExponentialMovingAverage {
    /// The default name.
    pub const NAME: &str = "ExponentialMovingAverage";

    /// The averages of that name: `ema (decay: 0.9, name: "slow")`.
    pub fn new(name: &str) -> ExponentialMovingAverage {
        ExponentialMovingAverage {
            name: name.to_owned(),
        }
    }

    /// The name of the average of a variable or value, in a state and in a checkpoint.
    pub fn average_name(&self, variable: &str) -> String {
        format!("{variable}/{}", self.name)
    }

    /// The average of a variable, where it has one.
    pub fn average<'s>(&self, state: &'s State, variable: &str) -> Option<&'s Tensor> {
        state.get(&self.average_name(variable))
    }

    /// Adds the updates of the averages to a step, from the variables' values after the writes so far:
    /// average = decay average + (1 - decay) variable. With `num_updates`, a float scalar, the decay is at most (1 + n) / (10 + n).
    ///
    /// Fails, before anything is added, where a variable is not floating-point or already has its average in this step.
    ///
    /// ```
    /// use trainspec::train::{ExponentialMovingAverage, Optimizer, Variable};
    /// use trainspec::DType;
    /// use trainspec::train::Builder;
    /// use trainspec::train::Type;
    ///
    /// let b = Builder::new("step");
    /// let w = Variable::new(&b, "w", &Type::new(DType::F32, &[3]));
    /// let loss = (w.value * w.value).sum(&[0]);
    /// Optimizer::new("gradient_descent(0.1)")?.minimize(loss, &[w.clone()])?;
    /// let ema = ExponentialMovingAverage::default();
    /// ema.apply(&b, &[w.clone()], 0.99, None)?;
    /// assert!(b.written("w/ExponentialMovingAverage").is_some());
    /// assert!(ema.apply(&b, &[w], 0.99, None).is_err());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn apply<'g>(
        &self,
        b: &'g Builder,
        var_list: &[Variable<'g>],
        decay: f64,
        num_updates: Option<Value<'g>>,
    ) -> Result<(), Error> {
        let now =
            |one: &Variable<'g>| (one.name.clone(), b.written(&one.name).unwrap_or(one.value));
        let values: Vec<(String, Value<'g>)> = var_list.iter().map(now).collect();
        self.ensure_new(b, &values)?;
        for (name, value) in values {
            let decay = early(b, value, decay, num_updates);
            let name = self.average_name(&name);
            b.write(&name, moved(b.read(&name, &value.ty()), value, decay));
        }
        Ok(())
    }

    /// Adds the updates of the averages of values that are no variables, by name. They begin at zero; with `zero_debias` that bias is
    /// corrected, by the state `AVERAGE/biased` and `AVERAGE/local_step`, which begin at zero too.
    ///
    /// Fails as [`ExponentialMovingAverage::apply`] does.
    ///
    /// ```
    /// use trainspec::train::ExponentialMovingAverage;
    /// use trainspec::DType;
    /// use trainspec::train::Builder;
    ///
    /// let b = Builder::new("step");
    /// let ema = ExponentialMovingAverage::default();
    /// ema.apply_to_values(&b, &[("loss", b.scalar(DType::F32, 2.0))], 0.9, None, true)?;
    /// assert!(b.written("loss/ExponentialMovingAverage/biased").is_some());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn apply_to_values<'g>(
        &self,
        b: &'g Builder,
        values: &[(&str, Value<'g>)],
        decay: f64,
        num_updates: Option<Value<'g>>,
        zero_debias: bool,
    ) -> Result<(), Error> {
        let named = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        let named: Vec<(String, Value<'g>)> = named.collect();
        self.ensure_new(b, &named)?;
        for (name, value) in named {
            let decay = early(b, value, decay, num_updates);
            let name = self.average_name(&name);
            if !zero_debias {
                b.write(&name, moved(b.read(&name, &value.ty()), value, decay));
                continue;
            }
            let (biased_name, count_name) =
                (format!("{name}/biased"), format!("{name}/local_step"));
            let biased = moved(b.read(&biased_name, &value.ty()), value, decay);
            let scalar = Type::new(value.dtype(), &[]);
            let count = b.read(&count_name, &scalar) + 1.0;
            b.write(&biased_name, biased);
            b.write(&count_name, count);
            b.write(&name, biased / (decay.like(1.0) - decay.pow(count)));
        }
        Ok(())
    }

    /// Whatever is averaged is floating-point, and has no average of this name in the step yet.
    fn ensure_new(&self, b: &Builder, values: &[(String, Value<'_>)]) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for (name, value) in values {
            let invalid = |message: String| Err(Error::new(Code::InvalidArgument, message));
            if !value.dtype().is_float() {
                return invalid(format!(
                    "`{name}` is {}, and averages are of floating-point numbers",
                    value.ty()
                ));
            }
            if b.written(&self.average_name(name)).is_some() || !seen.insert(name) {
                return invalid(format!("`{name}` has its average `{}` already", self.name));
            }
        }
        Ok(())
    }

    /// [`ExponentialMovingAverage::variables_to_restore`] for all that a spec saves, where the variables that are trained or averaged
    /// under this name take their averages, as TensorFlow does where no list is given.
    ///
    /// ```
    /// use trainspec::train::ExponentialMovingAverage;
    ///
    /// let text = "
    ///     spec line;
    ///     model (x: f32[batch]) { param a: f32 = ones(); state n: f32 = zeros(); loss mean(a * x) + n; }
    ///     train { optimizer gradient_descent(0.1); ema (decay: 0.9); }
    /// ";
    /// let spec = trainspec::check("line", text)?;
    /// let restored = ExponentialMovingAverage::default().variables_to_restore_of(&spec)?;
    /// let pairs: Vec<_> = restored.iter().map(|(key, name)| (key.as_str(), name.as_str())).collect();
    /// assert_eq!(pairs, [("a/ExponentialMovingAverage", "a"), ("global_step", "global_step"), ("n", "n")]);
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn variables_to_restore_of(
        &self,
        spec: &Arc<Spec>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let state = Trainable::from(spec.clone()).state()?;
        let names = state.iter().map(|one| one.name.clone());
        let names: Vec<String> = names.filter(|name| !is_scratch(name)).collect();
        let averages = spec.train.iter().flat_map(|train| &train.averages);
        let own = averages.filter_map(|average| match average.source {
            Averaged::Variable(var) => {
                let name = &spec.variables[var.0 as usize].name;
                (average.state[0].name == self.average_name(name)).then(|| name.clone())
            }
            Averaged::Value(..) => None,
        });
        let trained = spec.variables.iter().filter(|v| v.role == Role::Param);
        let averaged: BTreeSet<String> = trained.map(|v| v.name.clone()).chain(own).collect();
        let averaged: Vec<String> = averaged.into_iter().collect();
        Ok(self.variables_to_restore(&names, &averaged))
    }

    /// The map from names in a checkpoint to the variables restored from them, where the `averaged` ones of all `variables` take
    /// the values of their averages.
    ///
    /// ```
    /// use trainspec::train::ExponentialMovingAverage;
    ///
    /// let names = ["w".to_owned(), "global_step".to_owned()];
    /// let restored = ExponentialMovingAverage::default().variables_to_restore(&names, &names[..1]);
    /// assert_eq!(restored["w/ExponentialMovingAverage"], "w");
    /// assert_eq!(restored["global_step"], "global_step");
    /// ```
    pub fn variables_to_restore(
        &self,
        variables: &[String],
        averaged: &[String],
    ) -> BTreeMap<String, String> {
        let mut restored: BTreeMap<String, String> = averaged
            .iter()
            .map(|name| (self.average_name(name), name.clone()))
            .collect();
        for name in variables.iter().filter(|name| !averaged.contains(name)) {
            let entry = restored.entry(name.clone());
            entry.or_insert_with(|| name.clone());
        }
        restored
    }
}

/// average + (value - average) (1 - decay)
fn moved<'g>(average: Value<'g>, value: Value<'g>, decay: Value<'g>) -> Value<'g> {
    average - (average - value) * (decay.like(1.0) - decay)
}

/// The decay in the dtype of a value; after `n` updates at most (1 + n) / (10 + n).
fn early<'g>(b: &'g Builder, value: Value<'g>, decay: f64, n: Option<Value<'g>>) -> Value<'g> {
    let decay = b.scalar(value.dtype(), decay);
    match n.map(|n| n.cast(value.dtype())) {
        Some(n) => decay.minimum((n + 1.0) / (n + 10.0)),
        None => decay,
    }
}
