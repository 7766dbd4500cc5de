//! The textual form of graphs: printer and parser, which round-trip.
//!
//! ```text
//! graph "step" {
//!   state "w" : f32[2]
//!   %0 = input "x" : f32[2]
//!   %1 = read "w" : f32[2]
//!   %2 = const [0.5, -1.0] : f32[2]
//!   %3 = const splat 0.0 : f32[2]
//!   %4 = add(%1, %2) : f32[2]
//!   %5 = reduce_sum(%4; axes: [0]) : f32
//!   %6, %7 = scan 2 reverse captures [%4] carries [%5] over [%0] {
//!     %0 = input "capture 0" : f32[2]
//!     …
//!     return "" = %4
//!     return "" = %5
//!   } : f32, f32[2]
//!   write "w" <- %4
//!   return "loss" = %6
//! }
//! ```
//!
//! State comes first, then the nodes in order, then writes, then results. Values are numbered in the order of their
//! definition, in each loop body from 0 again. A flag that is false is left out. `const splat` gives all elements one
//! value. When parsed, white space is free, `//` begins a comment, and values may have any numbers or names.

mod literals;
mod parse;
mod print;
mod scanner;

pub use parse::parse;
pub use scanner::ParseError;

/// The maximal number of elements of all `splat` constants of a text together, so that a short text asks for little memory.
/// Constants beyond that are printed in full.
const MAX_SPLAT_ELEMENTS: usize = 1 << 24;

/// The maximal nesting depth of loops in a text.
const MAX_DEPTH: usize = 64;
