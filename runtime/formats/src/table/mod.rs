//! Sorted string tables (SSTables, LevelDB's table format), the container of checkpoint indices.
//!
//! In: a file with random access. Out: its keys in order, or the value of one key; and the reverse: keys in ascending order
//! become a file. The layout is LevelDB's with TensorFlow's settings: blocks of about 256 KiB, in which keys are prefix-compressed,
//! with a restart point every 16 keys; after each block a trailer with its compression type and a masked CRC-32C; at the end an
//! index block of block handles and a footer of 48 bytes. Leaves alone: what the values mean.
//!
//! ```
//! use trainspec_formats::table::{Table, TableBuilder};
//!
//! let mut builder = TableBuilder::new(Vec::new());
//! builder.add(b"bias", b"1")?;
//! builder.add(b"weight", b"2")?;
//! let table = Table::open(builder.finish()?)?;
//! assert_eq!(table.get(b"weight")?, Some(b"2".to_vec()));
//! assert_eq!(table.get(b"wait")?, None);
//! # Ok::<(), trainspec_formats::FormatError>(())
//! ```

mod block;
mod builder;
mod layout;
mod reader;

pub use builder::{Compression, Options, TableBuilder};
pub use reader::{Cursor, Table};

/// Whether a file ends with the magic number of a table and is at least as long as a footer.
pub fn is_table(file: &dyn crate::files::ReadAt) -> std::io::Result<bool> {
    let length = file.length()?;
    let Some(at) = length.checked_sub(8) else {
        return Ok(false);
    };
    let mut magic = [0; 8];
    file.read_exact_at(at, &mut magic)?;
    Ok(length >= layout::FOOTER_SIZE as u64 && u64::from_le_bytes(magic) == layout::MAGIC)
}
