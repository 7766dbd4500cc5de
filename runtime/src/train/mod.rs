//! What `tf.train` offers around a step, under its names.

mod averages;
mod optimizer;

pub use averages::ExponentialMovingAverage;
pub use optimizer::{GradientAndVariable, Minimize, Optimizer, Variable};
