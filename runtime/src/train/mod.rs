//! What `tf.train` offers around a step, under its names.

mod averages;

pub use averages::ExponentialMovingAverage;
