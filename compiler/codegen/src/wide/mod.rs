//! AVX2 emitter: fused loops as machine code over 256-bit vectors.
//!
//! Instruction selection into one basic block (`block`), a local register allocator fused with emission (`registers`), and a VEX
//! encoder (`encode`).
//!
//! In: a fused loop. Out: the bytes of a function, or `None` for a loop that only the Cranelift path of [`crate::translate`] supports:
//! mixed element widths, calls, rows that are not contiguous. Cranelift knows vectors of 128 bits only; compute-bound loops
//! are twice as fast with 256. Both paths give the same bits.
//!
//! The function takes a table of pointers, which it may change, the number of rows to do, and their length. Rows run along the last
//! dimension outside [`Space::inner`]; the caller iterates over all others.

mod block;
mod encode;
mod integer;
mod kernel;
mod registers;

use trainspec_ir::kernel::Map;

use crate::translate::Space;

/// Accesses that a function can have, its row buffer included.
pub const MAX_ACCESSES: usize = 48;

/// The size of the row buffer, which holds intermediate rows of one pass for a later pass.
pub const ROW_BUFFER_BYTES: usize = 1 << 15;

/// A compiled function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wide {
    /// Its machine code, followed by its constant pool; must be aligned to 32 bytes.
    pub bytes: Vec<u8>,
    /// Whether it needs a row buffer: its table must then end with a pointer to [`ROW_BUFFER_BYTES`] bytes.
    pub uses_row_buffer: bool,
    /// The assembly listing, where it was requested.
    pub listing: Option<String>,
}

/// Compiles a loop.
pub fn compile(map: &Map, space: &Space, listing: bool) -> Option<Wide> {
    kernel::compile(map, space, listing)
}
