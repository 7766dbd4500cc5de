//! Arrays that are read by rows: the first dimension is the records of a data set.
//!
//! In: a file with an array. Out: its type and shape, from its header, and any of its rows. Numbers that lie in the file in row-major
//! order are read where they are (positioned reads); other arrays, and compressed ones, are read whole when the first row is asked for.

pub mod idx;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FileKind, FormatError, Result};
use crate::files::ReadAt;
use crate::memory::zeros;
use crate::tensor::{BytesColumn, DType, Elements, Tensor, swap_bytes};

/// An array in a file.
///
/// ```
/// use trainspec_formats::arrays::idx;
/// use trainspec_formats::storage;
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-{}.idx", std::process::id()));
/// std::fs::write(path, [0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6]).unwrap();
/// let mut array = idx::open_in(&storage::local(), path)?;
/// assert_eq!(array.shape(), [3, 2]);
/// assert_eq!(array.rows(1..3)?.to_vec::<u8>()?, [3, 4, 5, 6]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub struct ArrayRows {
    kind: FileKind,
    path: PathBuf,
    dtype: DType,
    shape: Vec<usize>,
    contents: Contents,
}

/// Reads a whole array.
type Load = Box<dyn Fn() -> Result<Tensor> + Send + Sync>;

enum Contents {
    /// Numbers in row-major order.
    Numbers {
        file: Arc<dyn ReadAt>,
        offset: u64,
        is_big_endian: bool,
    },
    /// What is read as a whole.
    Whole { load: Load, tensor: Option<Tensor> },
}

impl fmt::Debug for ArrayRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayRows")
            .field("path", &self.path)
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl ArrayRows {
    /// Numbers that lie in a file in row-major order, from an offset on; the file holds all of them.
    pub(crate) fn numbers(
        (kind, path): (FileKind, &Path),
        (dtype, shape): (DType, &[usize]),
        file: Arc<dyn ReadAt>,
        (offset, is_big_endian): (u64, bool),
    ) -> ArrayRows {
        ArrayRows {
            kind,
            path: path.to_owned(),
            dtype,
            shape: shape.to_vec(),
            contents: Contents::Numbers {
                file,
                offset,
                is_big_endian,
            },
        }
    }

    /// An array that is read as a whole.
    pub(crate) fn whole(
        (kind, path): (FileKind, &Path),
        (dtype, shape): (DType, &[usize]),
        load: Load,
    ) -> ArrayRows {
        ArrayRows {
            kind,
            path: path.to_owned(),
            dtype,
            shape: shape.to_vec(),
            contents: Contents::Whole { load, tensor: None },
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents; a scalar has none.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of rows; a scalar is one row.
    pub fn len(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of a range, which must be in the array.
    pub fn rows(&mut self, range: Range<usize>) -> Result<Tensor> {
        // Without elements the sizes may be of any size.
        let row = (self.shape.iter().skip(1)).fold(1_usize, |all, n| all.saturating_mul(*n));
        let shape: Vec<usize> = std::iter::once(range.len())
            .chain(self.shape.iter().skip(1).copied())
            .collect();
        let elements = range.start * row..range.end * row;
        match &mut self.contents {
            Contents::Numbers {
                file,
                offset,
                is_big_endian,
            } => {
                let size = self.dtype.size().unwrap_or(1);
                let at = *offset + (elements.start * size) as u64;
                let located = |e: FormatError| e.at(at).in_file(&self.path);
                let mut bytes = zeros(self.kind, elements.len() * size).map_err(located)?;
                file.read_exact_at(at, &mut bytes)
                    .map_err(|e| located(FormatError::io(self.kind, "read it", e)))?;
                if *is_big_endian {
                    swap_bytes(self.dtype, &mut bytes);
                }
                if self.dtype == DType::Bool
                    && let Some(i) = bytes.iter().position(|byte| *byte > 1)
                {
                    let cause = format!("a bool is 0 or 1, and this one is {}", bytes[i]);
                    let error = FormatError::data_loss(self.kind, cause);
                    return Err(error.at(at + i as u64).in_file(&self.path));
                }
                Tensor::new(self.dtype, &shape, bytes)
            }
            Contents::Whole { load, tensor } => {
                if tensor.is_none() {
                    *tensor = Some(load()?);
                }
                let whole = tensor.as_ref().expect("it was read");
                match whole.elements() {
                    Elements::Bytes(bytes) => {
                        let size = self.dtype.size().unwrap_or(1);
                        let own = &bytes[elements.start * size..elements.end * size];
                        let mut copy = zeros(self.kind, own.len())?;
                        copy.copy_from_slice(own);
                        Tensor::new(self.dtype, &shape, copy)
                    }
                    Elements::Strings(strings) => {
                        let own: BytesColumn = elements
                            .map(|i| strings.get(i).unwrap_or_default())
                            .collect();
                        Tensor::strings(&shape, own)
                    }
                }
            }
        }
    }
}
