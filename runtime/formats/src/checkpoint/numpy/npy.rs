//! `npy` files: one array.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::arrays::ArrayRows;
use crate::checkpoint::numpy::header::{Form, Header, name_of};
use crate::error::{FileKind, FormatError, Result};
use crate::files::{self, Durability, ReadAt, Replacement, SequentialFile};
use crate::memory::{exhausted, zeros};
use crate::storage::Storage;
use crate::tensor::DType;
use crate::tensor::{BytesColumn, ElementsView, Tensor, TensorView, swap_bytes};

/// Reads an array.
pub fn read(path: &Path) -> Result<Tensor> {
    let file = files::open(FileKind::Numpy, path)?;
    let length = file
        .length()
        .map_err(|e| FormatError::io(FileKind::Numpy, "find its length", e).in_file(path))?;
    let mut file = BufReader::new(SequentialFile::new(file));
    let read = Header::read(&mut file).and_then(|header| array(&header, &mut file, length));
    read.map_err(|e| e.in_file(path))
}

/// Opens an array and reads its header. The rows of numbers in row-major order are read where they are.
pub fn rows_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<ArrayRows> {
    let file: Arc<dyn ReadAt> = Arc::from(files::open_in(storage, FileKind::Numpy, path)?);
    let length = file
        .length()
        .map_err(|e| FormatError::io(FileKind::Numpy, "find its length", e).in_file(path))?;
    let reader = |file: &Arc<dyn ReadAt>| {
        BufReader::new(SequentialFile::new(
            Box::new(file.clone()) as Box<dyn ReadAt>
        ))
    };
    let header = Header::read(&mut reader(&file)).map_err(|e| e.in_file(path))?;
    checked_size(&header, length).map_err(|e| e.in_file(path))?;
    let (kind, ty) = ((FileKind::Numpy, path), (header.dtype(), &header.shape[..]));
    if let (Form::Number { swapped, .. }, false) = (header.form, header.transposed()) {
        let at = (header.length as u64, swapped);
        return Ok(ArrayRows::numbers(kind, ty, file, at));
    }
    let own_path = path.to_owned();
    let load = move || {
        let mut from = reader(&file);
        let header = Header::read(&mut from);
        let read = header.and_then(|header| array(&header, &mut from, length));
        read.map_err(|e| e.in_file(&own_path))
    };
    Ok(ArrayRows::whole(kind, ty, Box::new(load)))
}

/// Writes an array atomically. Types that NumPy does not have, such as bfloat16, are refused.
///
/// ```
/// use trainspec_formats::checkpoint::{Tensor, numpy};
///
/// # let path = &std::env::temp_dir().join(format!("trainspec-doc-{}.npy", std::process::id()));
/// let bias = Tensor::from_values(&[2], &[1.0_f32, 2.0])?;
/// numpy::write_npy(path, bias.view(), Default::default())?;
/// assert_eq!(numpy::read_npy(path)?, bias);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn write(path: &Path, tensor: TensorView<'_>, durability: Durability) -> Result<()> {
    let mut file = Replacement::create(FileKind::Numpy, path)?;
    put(tensor, &mut file).map_err(|e| e.in_file(path))?;
    file.commit(durability)
}

/// Reads the elements that follow a header; `length` is the size of the file.
pub(super) fn array(header: &Header, from: &mut impl Read, length: u64) -> Result<Tensor> {
    let size = checked_size(header, length)?;
    let at = |e: FormatError| e.at(header.length as u64);
    let mut bytes = zeros(FileKind::Numpy, size).map_err(at)?;
    from.read_exact(&mut bytes)
        .map_err(|e| at(FormatError::io(FileKind::Numpy, "read it", e)))?;
    match header.form {
        Form::Number { dtype, swapped } => {
            if swapped {
                swap_bytes(dtype, &mut bytes);
            }
            let bytes = match header.transposed() {
                true => {
                    let element = dtype.size().unwrap_or(1);
                    let mut sorted = zeros(FileKind::Numpy, size).map_err(at)?;
                    let into = sorted.chunks_exact_mut(element);
                    for (into, from) in into.zip(row_major(header)) {
                        into.copy_from_slice(&bytes[from * element..][..element]);
                    }
                    sorted
                }
                false => bytes,
            };
            Tensor::new(dtype, &header.shape, bytes)
        }
        Form::Bytes(element) => {
            let mut strings = BytesColumn::default();
            let reserved = strings.try_reserve(FileKind::Numpy, header.elements(), 0);
            reserved.map_err(at)?;
            for from in row_major(header) {
                let string = trimmed(&bytes[from * element..][..element]);
                strings.try_push(FileKind::Numpy, string).map_err(at)?;
            }
            Tensor::strings(&header.shape, strings)
        }
        Form::Characters { count, swapped } => {
            let mut strings = BytesColumn::default();
            let mut text = String::new();
            for from in row_major(header) {
                decode_utf32(&bytes[from * 4 * count..][..4 * count], swapped, &mut text)?;
                strings
                    .try_push(FileKind::Numpy, text.as_bytes())
                    .map_err(at)?;
            }
            Tensor::strings(&header.shape, strings)
        }
    }
}

/// Reads the numbers that follow a header into a buffer of exactly their size; false where they must be sorted or are strings.
pub(super) fn read_into(
    header: &Header,
    from: &mut impl Read,
    length: u64,
    into: &mut [u8],
) -> Result<bool> {
    let Form::Number { dtype, swapped } = header.form else {
        return Ok(false);
    };
    if header.transposed() || checked_size(header, length)? != into.len() {
        return Ok(false);
    }
    from.read_exact(into)
        .map_err(|e| FormatError::io(FileKind::Numpy, "read it", e).at(header.length as u64))?;
    if swapped {
        swap_bytes(dtype, into);
    }
    Ok(true)
}

/// The size of the elements in bytes, which with the header must be that of the file.
pub(super) fn checked_size(header: &Header, length: u64) -> Result<usize> {
    let size = header.bytes()?;
    let expected = (header.length as u64).checked_add(size as u64);
    if expected != Some(length) {
        return Err(loss(format!(
            "an array of {size} bytes after a header of {} in {length} bytes",
            header.length
        )));
    }
    // Strings of length zero take no bytes in the file, but each takes memory.
    if header.dtype() == DType::String && header.elements() as u64 > length {
        return Err(loss(format!(
            "{} empty strings in {length} bytes",
            header.elements()
        )));
    }
    Ok(size)
}

/// Checks that a tensor can be an array, before anything is written. Types that [`holds`](super::holds) allows can, except a string
/// that ends in a zero: to NumPy, such zeros are padding; and an array has at most 64 dimensions.
///
/// ```
/// use trainspec_formats::checkpoint::{Tensor, numpy};
///
/// let strings = |text: &str| Tensor::strings(&[1], vec![text.into()]);
/// numpy::check(strings("a\0b")?.view())?;
/// assert!(numpy::check(strings("ab\0")?.view()).is_err());
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn check(tensor: TensorView<'_>) -> Result<()> {
    form_of(tensor).map(drop)
}

/// The maximum rank of an array (`NPY_MAXDIMS`).
const MAX_RANK: usize = 64;

/// NumPy's `descr` of a tensor, and the length of each element, if it is a string.
fn form_of(tensor: TensorView<'_>) -> Result<(String, usize)> {
    let rank = tensor.shape().len();
    if rank > MAX_RANK {
        return Err(invalid(format!(
            "it has {rank} dimensions, and an array at most {MAX_RANK}"
        )));
    }
    match tensor.elements() {
        ElementsView::Bytes(_) => match name_of(tensor.dtype()) {
            Some(name) => Ok((name.to_owned(), 0)),
            None => Err(invalid(format!(
                "NumPy has no elements of type {}",
                tensor.dtype()
            ))),
        },
        ElementsView::Strings(strings) if tensor.dtype() == DType::String => {
            if strings.iter().any(|string| string.last() == Some(&0)) {
                return Err(invalid("a string with a zero at its end would lose it"));
            }
            let longest = strings.iter().map(<[u8]>::len).max().unwrap_or(0).max(1);
            Ok((format!("|S{longest}"), longest))
        }
        ElementsView::Strings(_) => Err(invalid("NumPy has no variants")),
    }
}

/// Writes the bytes of an array: its header and its elements. What [`check`] refuses is refused before the first byte.
pub fn put(tensor: TensorView<'_>, out: &mut impl Write) -> Result<()> {
    let failed = |e| FormatError::io(FileKind::Numpy, "write it", e);
    let (form, longest) = form_of(tensor)?;
    out.write_all(&Header::encode(&form, tensor.shape()))
        .map_err(failed)?;
    match tensor.elements() {
        ElementsView::Bytes(bytes) => out.write_all(bytes).map_err(failed),
        ElementsView::Strings(strings) => strings.iter().try_for_each(|string| {
            out.write_all(string).map_err(failed)?;
            let padding = (longest - string.len()) as u64;
            io::copy(&mut io::repeat(0).take(padding), out).map_err(failed)?;
            Ok(())
        }),
    }
}

impl Header {
    fn elements(&self) -> usize {
        crate::tensor::count(&self.shape).unwrap_or(0)
    }

    fn transposed(&self) -> bool {
        self.fortran && self.shape.len() > 1
    }
}

/// The index in the file of each element, in row-major order.
fn row_major(header: &Header) -> impl Iterator<Item = usize> {
    let shape = &header.shape;
    let mut strides = vec![1; shape.len()];
    match header.transposed() {
        true => {
            for d in 1..shape.len() {
                strides[d] = usize::saturating_mul(strides[d - 1], shape[d - 1]);
            }
        }
        false => {
            for d in (1..shape.len()).rev() {
                strides[d - 1] = usize::saturating_mul(strides[d], shape[d]);
            }
        }
    }
    let mut index = vec![0; shape.len()];
    let mut next = 0;
    // Without elements, the strides may be of any size, and there is no index.
    (0..header.elements()).map(move |_| {
        let at = next;
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            next += strides[d];
            if index[d] < shape[d] {
                break;
            }
            next -= index[d] * strides[d];
            index[d] = 0;
        }
        at
    })
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    &bytes[..end]
}

/// Decodes a string of four-byte characters, without the zeros that pad it.
fn decode_utf32(bytes: &[u8], swapped: bool, text: &mut String) -> Result<()> {
    text.clear();
    // A character takes at most four bytes in UTF-8 too.
    text.try_reserve(bytes.len())
        .map_err(|_| exhausted(FileKind::Numpy, bytes.len()))?;
    let mut zeros = 0;
    for four in bytes.chunks_exact(4) {
        let four: [u8; 4] = std::array::from_fn(|i| four[i]);
        let code = match swapped {
            true => u32::from_be_bytes(four),
            false => u32::from_le_bytes(four),
        };
        // Trailing zeros are padding.
        if code == 0 {
            zeros += 1;
            continue;
        }
        text.extend(std::iter::repeat_n('\0', std::mem::take(&mut zeros)));
        text.push(char::from_u32(code).ok_or_else(|| loss("there is no such character"))?);
    }
    Ok(())
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Numpy, cause)
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Numpy, cause)
}
