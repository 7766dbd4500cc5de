//! Code generation: fused loops by the AVX2 emitter or Cranelift, everything else by library routines written in Rust.
//!
//! In: a planned program. Out: machine code, and executables that run it with the interpreter's results.

pub mod cpu;
pub mod exec;
pub mod library;
pub mod listing;
pub mod math;
pub mod simd;
pub mod translate;
pub mod wide;

use std::fmt;

use cpu::Machine;

/// Whether this crate was compiled with optimisation. Machine code is as fast without it, library routines are not.
pub const IS_OPTIMIZED: bool = !matches!(env!("TRAINSPEC_OPT_LEVEL").as_bytes(), b"0");

/// Options of code generation.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The target features, of generated code and of library routines alike; those of the host where not given.
    pub machine: Option<Machine>,
}

/// Why a program could not be compiled: always a bug of the compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileError {
    /// There is no routine for a primitive.
    Missing(&'static str),
    /// Cranelift refused a kernel.
    Cranelift(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Missing(name) => write!(f, "there is no machine code for `{name}`"),
            CompileError::Cranelift(message) => write!(f, "a kernel was refused: {message}"),
        }
    }
}

impl std::error::Error for CompileError {}
