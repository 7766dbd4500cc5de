//! TFRecord files: framed records with masked CRC-32C checksums.
//!
//! In: files, or any byte stream. Out: the bytes of each record, checked; and the reverse. A record is framed as a length
//! of 8 bytes, the masked CRC-32C of the length, the data, and the masked CRC-32C of the data, little-endian. A file may be
//! compressed as a whole. Leaves alone: what is in a record.
//!
//! ```
//! use trainspec_formats::records::{RecordReader, RecordWriter, WriterOptions};
//!
//! # fn main() -> trainspec_formats::Result<()> {
//! let mut writer = RecordWriter::new(Vec::new(), &WriterOptions::default());
//! writer.write(b"first")?;
//! writer.write(b"second")?;
//! let bytes = writer.finish()?;
//!
//! let mut reader = RecordReader::new(bytes.as_slice(), &Default::default())?;
//! while let Some(record) = reader.next()? {
//!     println!("{} bytes", record.len());
//! }
//! assert_eq!(reader.records(), 2);
//! # Ok(())
//! # }
//! ```

mod compression;
pub(crate) mod frame;
mod index;
mod multi_file;
mod reader;
mod recover;
mod shards;
mod shuffle;
mod writer;

pub use compression::{Compression, ExpectedCompression};
pub use frame::{FOOTER_SIZE, HEADER_SIZE, framed_length};
pub use index::{Check, IndexedRecords, RecordIndex};
pub use multi_file::{MultiFileReader, ResumePoint};
pub use reader::{Ending, Position, ReaderOptions, RecordReader};
pub use recover::{Recovering, Skipped};
pub use shards::{ShardedName, expand, expand_in};
pub use shuffle::Permutation;
pub use writer::{RecordWriter, WriterOptions};
