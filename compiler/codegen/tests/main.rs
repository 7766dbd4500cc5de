//! Compiled code against the interpreter, and what holds of pages, routines and vector math.
//!
//! One executable, because linking takes longer than running; tests that count allocations or memory stay alone.

mod library;
mod math;
mod math_operations;
mod pages;
mod products;
mod random_graphs;
mod small_numbers;
mod state;
