//! Random graphs, and what it means that two runs of one agree: what the tests of several crates share.
//!
//! Bytes decide what a graph is, so that a fuzzer can make them and a failing one can be made smaller. [`smooth`] makes graphs of f64
//! that are differentiable nearly everywhere, for comparisons with differences; [`mixed`] makes steps of training with all
//! types and primitives, for comparisons of one way to run a graph with another.

pub mod choices;
pub mod compare;
pub mod feeds;
pub mod mixed;
pub mod noise;
pub mod search;
pub mod shrink;
pub mod smooth;
