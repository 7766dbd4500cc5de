//! Execution: JIT-compiled code, buffers, the thread pool and GEMM. The unsafe code of the crate lies here; what leaves it is safe to misuse.
#![allow(unsafe_code)] // the compiler cannot check generated code and the buffers that it shares

pub(crate) mod allocate;
mod code;
mod compiled_program;
mod copy;
mod dispatch;
mod executable;
pub mod ftz;
pub mod gemm;
mod huge_pages;
mod input;
mod loop_nest;
pub(crate) mod memory;
pub mod multiversion;
pub mod parallel;
pub mod pool;
mod scan;
mod trace;
mod wave;
mod work_memory;
mod workspace;

pub use allocate::Zeroed;
pub use compiled_program::CompiledProgram;
pub use copy::copy_into;
pub use executable::Executable;
pub use huge_pages::{copy_on_huge_pages, vec_on_huge_pages};
pub use input::{InputElement, InputView};
pub use trace::KernelSpan;
pub use work_memory::WorkMemory;
