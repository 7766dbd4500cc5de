//! Compiled code against the interpreter, and what holds of pages, routines and vector math.
//!
//! One executable, because linking takes longer than running; tests that count allocations or memory stay alone.

mod denormals;
mod gemm;
mod library;
mod math;
mod math_operations;
mod random_graphs;
mod shared_code;
mod state;
mod write_xor_execute;
