//! Code generation: fused loops by the AVX2 emitter or Cranelift, everything else by library routines written in Rust.
//!
//! In: a simplified graph. Out: an executable that gives the interpreter's results.

pub mod exec;
pub mod library;
pub mod listing;
pub mod math;
pub mod simd;
pub mod translate;
pub mod wide;

use std::fmt;

use translate::Machine;

/// Compiler options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether elementwise nodes are fused.
    pub fusion: bool,
    /// The target features; those of the host where not given.
    pub machine: Option<Machine>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            fusion: true,
            machine: None,
        }
    }
}

/// Why a graph could not be compiled: always a bug of the compiler.
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
