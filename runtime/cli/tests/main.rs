//! The command as its users call it.
//!
//! One executable, because linking takes longer than running; tests that count allocations or memory stay alone.

mod artifacts;
mod command;
mod export;
#[cfg(target_os = "linux")]
mod golden;
mod gradcheck;
mod inspect;
mod kills;
mod memory;
#[cfg(target_os = "linux")]
mod pages;
mod resume;
mod run;
mod search;
mod support;
mod sweep;
mod tensors;
