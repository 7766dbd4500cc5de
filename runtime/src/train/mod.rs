//! The `tf.train` API for graphs built in Rust: optimizers and exponential moving averages, under TensorFlow's names.

mod averages;
mod optimizer;

pub use averages::ExponentialMovingAverage;
pub use optimizer::{GradientAndVariable, Minimize, Optimizer, Variable};
