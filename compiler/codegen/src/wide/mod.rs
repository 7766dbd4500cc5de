//! Fused loops as machine code over 256-bit vectors.
//!
//! In: a fused loop. Out: the bytes of a function, or nothing where the loop is of a kind that the plain path of [`crate::translate`]
//! must take: mixed widths, calls, rows that are not walked in one go. Cranelift knows vectors of 128 bits only; loops that compute
//! are twice as fast with 256. Both paths give the same bits.
//!
//! The function takes a table of pointers, which it may change, the number of rows to do, and their length. Rows are those of the last
//! dimension before what [`Space::inner`] is; the caller walks all others.

mod block;
mod encode;
mod kernel;
mod registers;
mod whole;

use trainspec_ir::kernel::Map;

use crate::translate::Space;

/// Accesses that a function can have, its place for kept rows included.
pub const MOST_ACCESSES: usize = 48;

/// How many bytes rows that are kept for a later walk can have together.
pub const KEPT_BYTES: usize = 1 << 15;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wide {
    /// Its bytes, constants included; they must lie at a multiple of 32.
    pub bytes: Vec<u8>,
    /// Whether it keeps rows: its table must then end with a place of [`KEPT_BYTES`] for them.
    pub keeps_rows: bool,
    /// The instructions as text, where they were asked for.
    pub listing: Option<String>,
}

/// The function of a loop.
pub fn compile(map: &Map, space: &Space, listing: bool) -> Option<Wide> {
    kernel::compile(map, space, listing)
}

/// Whether this machine can run such functions.
pub fn is_supported() -> bool {
    #[cfg(all(target_arch = "x86_64", not(windows)))]
    {
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
    }
    #[cfg(not(all(target_arch = "x86_64", not(windows))))]
    {
        false
    }
}
