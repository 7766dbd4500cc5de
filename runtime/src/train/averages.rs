//! Exponential moving averages of variables (`tf.train.ExponentialMovingAverage`): names, updates, restoring.

use std::collections::BTreeMap;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::build::{Builder, Value};

use crate::State;
use crate::train::Variable;

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
    /// ```
    /// use trainspec::train::{ExponentialMovingAverage, Optimizer, Variable};
    /// use trainspec_compiler::ir::DType;
    /// use trainspec_compiler::ir::build::Builder;
    /// use trainspec_compiler::ir::graph::Type;
    ///
    /// let b = Builder::new("step");
    /// let w = Variable::new(&b, "w", &Type::new(DType::F32, &[3]));
    /// let loss = (w.value * w.value).sum(&[0]);
    /// Optimizer::new("gradient_descent(0.1)")?.minimize(loss, &[w.clone()])?;
    /// ExponentialMovingAverage::default().apply(&b, &[w], 0.99, None);
    /// assert!(b.written("w/ExponentialMovingAverage").is_some());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn apply<'g>(
        &self,
        b: &'g Builder,
        var_list: &[Variable<'g>],
        decay: f64,
        num_updates: Option<Value<'g>>,
    ) {
        for variable in var_list {
            let now = b.written(&variable.name).unwrap_or(variable.value);
            let mut decay = b.scalar(now.dtype(), decay);
            if let Some(n) = num_updates {
                let n = n.cast(now.dtype());
                decay = decay.minimum((n + 1.0) / (n + 10.0));
            }
            let name = self.average_name(&variable.name);
            let old = b.read(&name, &now.ty());
            b.write(&name, old - (old - now) * (decay.like(1.0) - decay));
        }
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
