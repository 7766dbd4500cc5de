//! Type inference (shape rules) of all operations: against TensorFlow's results, errors, and fuzz tests.

mod hostile;
mod rule_errors;
mod symbolic;
mod tensorflow;
