//! Reductions, scans, segment reductions, contractions and sorts: values, gradients and errors.

mod counted;
mod products;
mod reductions;
mod segments;
mod sorts;
