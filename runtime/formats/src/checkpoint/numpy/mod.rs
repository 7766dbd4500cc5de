//! NumPy's file formats: `npy`, one array, and `npz`, a zip archive of them.
//!
//! In: arrays of numbers, booleans, and byte or Unicode strings of one length, in either endianness, row-major or column-major. Out:
//! tensors; and the reverse. Leaves alone: arrays of Python objects (pickles, which are programs) and structured ones; an archive that has some
//! is read without them.

mod header;
mod npy;
mod npz;
mod zip;

pub use header::holds;
pub use npy::{
    check, put as put_npy, read as read_npy, rows_in as npy_rows_in, write as write_npy,
};
pub use npz::{Compression, Npz, write as write_npz, write_each as write_npz_each};
