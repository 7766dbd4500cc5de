//! Names of state, as checkpoints have them: variables, slots, averages, scalars of optimizers, counters.
//!
//! What TensorFlow saves has TensorFlow's name. What only a resumed run needs begins with `#`, which no name of a spec can.

use std::fmt;

/// The name of the input that seeds random draws; no input of a model can have it.
pub const SEED: &str = "#seed";

/// The name of a state variable that training keeps besides variables, scalars and averages, which have names of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateName<'a> {
    /// Counts completed updates.
    GlobalStep,
    /// Counts the micro-batches seen of a step with gradient accumulation; 0 between steps.
    MicroStep,
    /// A gradient accumulator of a variable: a partial sum over micro-batches of a step.
    Accumulator {
        /// The variable.
        variable: &'a str,
        /// Its position in the stack of partial sums, 0 for the newest.
        position: usize,
    },
    /// A slot of a variable, by the key that TensorFlow gives it: `dense/kernel/Adam`.
    Slot {
        /// The variable.
        variable: &'a str,
        /// The key.
        key: &'a str,
    },
    /// A dynamic loss scale.
    LossScale,
    /// Counts the steps since the last change of a dynamic loss scale.
    GoodSteps,
}

impl fmt::Display for StateName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateName::GlobalStep => f.write_str(GLOBAL_STEP),
            StateName::MicroStep => f.write_str(MICRO_STEP),
            StateName::Accumulator { variable, position } => {
                write!(f, "#accumulated/{position}/{variable}")
            }
            StateName::Slot { variable, key } => write!(f, "{variable}/{key}"),
            StateName::LossScale => f.write_str(LOSS_SCALE),
            StateName::GoodSteps => f.write_str(GOOD_STEPS),
        }
    }
}

/// The name of [`StateName::GlobalStep`].
pub const GLOBAL_STEP: &str = "global_step";
/// The name of [`StateName::MicroStep`].
pub const MICRO_STEP: &str = "#micro";
/// The name of [`StateName::LossScale`].
pub const LOSS_SCALE: &str = "current_loss_scale";
/// The name of [`StateName::GoodSteps`].
pub const GOOD_STEPS: &str = "good_steps";
