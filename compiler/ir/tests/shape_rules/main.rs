//! The shape rules of all operations: against TensorFlow's results, on mistakes, and on hostile numbers.

mod calls;
mod hostile;
mod mistakes;
mod symbolic;
mod tensorflow;
