//! The formatter, tokens of macros, and random specs.
//!
//! One executable, because linking takes longer than running; tests that count allocations or memory stay alone.

mod fmt;
mod random_specs;
mod support;
mod tokens;
