//! Differential testing on random graphs: generators, feeds, a rounding-noise model and shrinking, shared by several crates.
//!
//! Bytes (a choice sequence) decide what a graph is, so that a fuzzer can generate them and a failing one can be shrunk.
//! [`smooth`] generates graphs of f64 that are differentiable almost everywhere, for gradient checks by finite differences;
//! [`mixed`] generates training steps with all types and primitives, for comparisons of one way to run a graph with another.
//!
//! [`folders`] has what tests need of the disk: the repository, its reference data, and temporary folders.

pub mod choice_sequence;
pub mod compare;
pub mod feeds;
pub mod folders;
pub mod mixed;
pub mod noise;
pub mod prim_calls;
pub mod regression;
pub mod search;
pub mod shrink;
pub mod smooth;
pub mod xorshift;
