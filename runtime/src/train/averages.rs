//! Moving averages of variables: what they are called, and how they are restored.

use std::collections::BTreeMap;

use trainspec_compiler::ir::Tensor;

use crate::State;

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
    /// The name where the spec gives none.
    pub const NAME: &str = "ExponentialMovingAverage";

    /// The averages that are kept under a name: `ema (decay: 0.9, name: "slow")`.
    pub fn new(name: &str) -> ExponentialMovingAverage {
        ExponentialMovingAverage {
            name: name.to_owned(),
        }
    }

    /// What the average of a variable or value is called, in a state and in a checkpoint.
    pub fn average_name(&self, variable: &str) -> String {
        format!("{variable}/{}", self.name)
    }

    /// The average of a variable, where one is kept.
    pub fn average<'s>(&self, state: &'s State, variable: &str) -> Option<&'s Tensor> {
        state.get(&self.average_name(variable))
    }

    /// What to restore in order to go on with averages in the place of variables: for each name in a checkpoint the variable that
    /// is given its value. Of all `variables` those that are `averaged` are given their averages.
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
