//! `npy` files: one array.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use crate::checkpoint::numpy::header::{Form, Header, name_of};
use crate::error::{FileKind, FormatError, Result};
use crate::files::{self, Durability, ReadAt, Replacement};
use crate::tensor::DType;
use crate::tensor::{ElementsView, Tensor, TensorView, swap_bytes, zeros};

/// Reads an array.
pub fn read(path: &Path) -> Result<Tensor> {
    let file: File = files::open(FileKind::Numpy, path)?;
    let length = file
        .length()
        .map_err(|e| FormatError::io(FileKind::Numpy, "find its length", e).in_file(path))?;
    let mut file = BufReader::new(file);
    let read = Header::read(&mut file).and_then(|header| array(&header, &mut file, length));
    read.map_err(|e| e.in_file(path))
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
    let mut bytes = zeros(FileKind::Numpy, size).map_err(|e| e.at(header.length as u64))?;
    from.read_exact(&mut bytes)
        .map_err(|e| FormatError::io(FileKind::Numpy, "read it", e).at(header.length as u64))?;
    let shape = &header.shape;
    match header.form {
        Form::Number { dtype, swapped } => {
            if swapped {
                swap_bytes(dtype, &mut bytes);
            }
            let element = dtype.size().unwrap_or(1);
            let row_major = match header.transposed() {
                true => {
                    let elements: Vec<&[u8]> = bytes.chunks_exact(element).collect();
                    Some(to_row_major(shape, &elements).concat())
                }
                false => None,
            };
            Tensor::new(dtype, shape, row_major.unwrap_or(bytes))
        }
        Form::Bytes(0) | Form::Characters { count: 0, .. } => {
            Tensor::strings(shape, vec![Vec::new(); header.elements()])
        }
        Form::Bytes(element) => {
            let strings: Vec<Vec<u8>> = bytes.chunks_exact(element).map(trimmed).collect();
            Tensor::strings(shape, strings_in_row_major(header, strings))
        }
        Form::Characters { count, swapped } => {
            let text = |bytes: &[u8]| decode_utf32(bytes, swapped);
            let strings: Vec<Vec<u8>> = bytes
                .chunks_exact(4 * count)
                .map(text)
                .collect::<Result<_>>()?;
            Tensor::strings(shape, strings_in_row_major(header, strings))
        }
    }
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
/// that ends in a zero: to NumPy, such zeros are padding.
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

/// NumPy's `descr` of a tensor, and the length of each element, if it is a string.
fn form_of(tensor: TensorView<'_>) -> Result<(String, usize)> {
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
            let longest = strings.iter().map(Vec::len).max().unwrap_or(0).max(1);
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
            let mut padded = string.clone();
            padded.resize(longest, 0);
            out.write_all(&padded).map_err(failed)
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

fn strings_in_row_major(header: &Header, strings: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    match header.transposed() {
        true => to_row_major(&header.shape, &strings),
        false => strings,
    }
}

/// Converts elements from column-major to row-major order.
fn to_row_major<T: Clone>(shape: &[usize], elements: &[T]) -> Vec<T> {
    // Without elements, the other dimensions may be of any size.
    if elements.is_empty() {
        return Vec::new();
    }
    let mut strides = vec![1; shape.len()];
    for d in 1..shape.len() {
        strides[d] = strides[d - 1] * shape[d - 1];
    }
    let mut index = vec![0; shape.len()];
    let mut out = Vec::with_capacity(elements.len());
    for _ in 0..elements.len() {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        out.push(elements[at].clone());
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
    out
}

fn trimmed(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    bytes[..end].to_vec()
}

fn decode_utf32(bytes: &[u8], swapped: bool) -> Result<Vec<u8>> {
    let mut text = String::new();
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
    Ok(text.into_bytes())
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Numpy, cause)
}

fn invalid(cause: impl Into<String>) -> FormatError {
    FormatError::invalid(FileKind::Numpy, cause)
}
