//! Graphs to machine code: fused loops by Cranelift, everything else by routines written in Rust.
//!
//! In: a simplified graph. Out: an executable that gives the interpreter's answers.

pub mod exec;
pub mod library;
pub mod listing;
pub mod math;
pub mod simd;
pub mod translate;
pub mod wide;

use std::fmt;

use translate::Machine;

/// How a graph is compiled.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether elementwise nodes become one loop.
    pub fusion: bool,
    /// What the code may use; the machine at hand where nothing is said.
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

/// Why a graph could not be compiled: always our own fault.
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
