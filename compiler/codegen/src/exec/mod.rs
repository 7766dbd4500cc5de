//! The unsafe room: machine code, raw buffers and threads. What leaves it is safe to misuse.
#![allow(unsafe_code)] // code that was just generated, and buffers that it shares, cannot be checked by the compiler

mod code;
mod executable;
pub mod flush;
pub mod gemm;
pub(crate) mod memory;
pub mod parts;
pub mod pool;
mod rounds;
mod unit;
pub mod vectors;
mod walk;

pub use executable::Executable;
