//! Reductions, scans, segment reductions, contractions and sorts: values, gradients and errors.

mod counted;
mod gradcheck;
#[allow(dead_code)] // used by other test crates
#[path = "../array_ops/graphs.rs"]
mod graphs;
mod products;
mod reductions;
mod segments;
mod sorts;
