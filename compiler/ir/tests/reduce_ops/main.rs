//! Operations that bring elements together: what they compute, their gradients, and how they fail.

mod counted;
#[allow(dead_code)] // what other tests of small graphs need
#[path = "../array_ops/graphs.rs"]
mod graphs;
mod orders;
mod products;
mod reductions;
mod segments;
mod slopes;
