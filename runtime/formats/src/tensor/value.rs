//! Tensors as values: an element type, a shape, and elements as bytes or as strings.

use bytemuck::{CheckedBitPattern, NoUninit};
use half::{bf16, f16};

use crate::error::{Code, FileKind, FormatError, Result};
use crate::tensor::{BytesColumn, DType};

/// A tensor with its elements, row-major and little-endian.
///
/// ```
/// use trainspec_formats::tensor::{DType, Tensor};
///
/// let tensor = Tensor::from_values(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
/// assert_eq!(tensor.dtype(), DType::Float32);
/// assert_eq!(tensor.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// assert!(tensor.to_vec::<i32>().is_err());
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    elements: Elements,
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// Numbers, as in a file: row-major and little-endian.
    Bytes(Vec<u8>),
    /// Strings, or serialized variants.
    Strings(BytesColumn),
}

/// A borrowed tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    dtype: DType,
    shape: &'a [usize],
    elements: ElementsView<'a>,
}

/// The elements of a [`TensorView`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementsView<'a> {
    /// Numbers, as in a file: row-major and little-endian.
    Bytes(&'a [u8]),
    /// Strings, or serialized variants.
    Strings(&'a BytesColumn),
}

/// A Rust type that is an element type.
pub trait Element: NoUninit + CheckedBitPattern {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}

elements! {
    f32 => Float32, f64 => Float64, f16 => Float16, bf16 => BFloat16, bool => Bool,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    [f32; 2] => Complex64, [f64; 2] => Complex128,
}

impl Tensor {
    /// A tensor of bytes, as many as the type and the shape require. The rank is at most 254.
    pub fn new(dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Result<Tensor> {
        TensorView::new(dtype, shape, &bytes)?;
        Ok(Tensor {
            dtype,
            shape: shape.to_vec(),
            elements: Elements::Bytes(bytes),
        })
    }

    /// A tensor of strings, as many as the shape requires.
    pub fn strings(shape: &[usize], strings: impl Into<BytesColumn>) -> Result<Tensor> {
        Tensor::of_strings(DType::String, shape, strings.into())
    }

    /// A tensor of strings or of serialized variants.
    pub(crate) fn of_strings(
        dtype: DType,
        shape: &[usize],
        strings: BytesColumn,
    ) -> Result<Tensor> {
        TensorView::of_strings(dtype, shape, &strings)?;
        Ok(Tensor {
            dtype,
            shape: shape.to_vec(),
            elements: Elements::Strings(strings),
        })
    }

    /// A tensor of numbers.
    pub fn from_values<T: Element>(shape: &[usize], values: &[T]) -> Result<Tensor> {
        let mut bytes = bytemuck::cast_slice(values).to_vec();
        to_file_order(T::DTYPE, &mut bytes);
        Tensor::new(T::DTYPE, shape, bytes)
    }

    /// A scalar (rank 0).
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_values(&[], &[value]).expect("one value for no dimension")
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// The elements, taken out.
    pub fn into_elements(self) -> Elements {
        self.elements
    }

    /// The bytes of numbers; empty for strings.
    pub fn bytes(&self) -> &[u8] {
        match &self.elements {
            Elements::Bytes(bytes) => bytes,
            Elements::Strings(_) => &[],
        }
    }

    /// A borrowed view of it.
    pub fn view(&self) -> TensorView<'_> {
        TensorView {
            dtype: self.dtype,
            shape: &self.shape,
            elements: match &self.elements {
                Elements::Bytes(bytes) => ElementsView::Bytes(bytes),
                Elements::Strings(strings) => ElementsView::Strings(strings),
            },
        }
    }

    /// The numbers without a copy, if they are of this type, aligned, and the machine is little-endian; else
    /// [`to_vec`](Tensor::to_vec) copies them.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let fits = self.dtype == T::DTYPE && cfg!(target_endian = "little");
        let bytes = fits.then(|| self.bytes())?;
        bytemuck::checked::try_cast_slice(bytes).ok()
    }

    /// The numbers, if they are of this type. A byte of a `Bool` that is neither 0 nor 1 is an error.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.dtype != T::DTYPE {
            return Err(invalid(format!(
                "the tensor is {} and was asked for as {}",
                self.dtype,
                T::DTYPE
            )));
        }
        if cfg!(target_endian = "little")
            && let Ok(values) = bytemuck::checked::try_cast_slice::<u8, T>(self.bytes())
        {
            return Ok(values.to_vec());
        }
        let mut bytes = self.bytes().to_vec();
        to_file_order(self.dtype, &mut bytes);
        bytes
            .chunks_exact(size_of::<T>())
            .map(bytemuck::checked::try_pod_read_unaligned)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| damaged(format!("an element is no {}", T::DTYPE)))
    }

    /// The numbers of any real type, rounded to `f64`: floats of sixteen bits and more, integers of eight and more, and booleans as 0
    /// and 1. Anything else is an error.
    ///
    /// ```
    /// use trainspec_formats::tensor::Tensor;
    ///
    /// let tensor = Tensor::from_values(&[2], &[-1_i8, 7])?;
    /// assert_eq!(tensor.to_f64s()?, [-1.0, 7.0]);
    /// assert!(Tensor::scalar([1.0_f32, 0.0]).to_f64s().is_err());
    /// # Ok::<(), trainspec_formats::FormatError>(())
    /// ```
    pub fn to_f64s(&self) -> Result<Vec<f64>> {
        fn all<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            let (numbers, _) = bytes.as_chunks();
            numbers.iter().map(|bytes| number(*bytes)).collect()
        }
        let bytes = self.bytes();
        Ok(match self.dtype {
            DType::Float16 => all(bytes, |b| f16::from_le_bytes(b).to_f64()),
            DType::BFloat16 => all(bytes, |b| bf16::from_le_bytes(b).to_f64()),
            DType::Float32 => all(bytes, |b| f32::from_le_bytes(b).into()),
            DType::Float64 => all(bytes, f64::from_le_bytes),
            DType::Bool => all(bytes, |[b]| f64::from(u8::from(b != 0))),
            DType::Int8 | DType::QInt8 => all(bytes, |b| i8::from_le_bytes(b).into()),
            DType::UInt8 | DType::QUInt8 => all(bytes, |b| u8::from_le_bytes(b).into()),
            DType::Int16 | DType::QInt16 => all(bytes, |b| i16::from_le_bytes(b).into()),
            DType::UInt16 | DType::QUInt16 => all(bytes, |b| u16::from_le_bytes(b).into()),
            DType::Int32 | DType::QInt32 => all(bytes, |b| i32::from_le_bytes(b).into()),
            DType::UInt32 => all(bytes, |b| u32::from_le_bytes(b).into()),
            DType::Int64 => all(bytes, |b| i64::from_le_bytes(b) as f64),
            DType::UInt64 => all(bytes, |b| u64::from_le_bytes(b) as f64),
            DType::String
            | DType::Complex64
            | DType::Complex128
            | DType::Resource
            | DType::Variant
            | DType::Float8E5M2
            | DType::Float8E4M3Fn
            | DType::Float8E4M3Fnuz
            | DType::Float8E4M3B11Fnuz
            | DType::Float8E5M2Fnuz
            | DType::Int4
            | DType::UInt4
            | DType::Int2
            | DType::UInt2
            | DType::Float4E2M1Fn => {
                let cause = format!("the tensor is {} and was asked for as numbers", self.dtype);
                return Err(invalid(cause));
            }
        })
    }
}

impl<'a> TensorView<'a> {
    /// A tensor of bytes, as many as the type and the shape require.
    pub fn new(dtype: DType, shape: &'a [usize], bytes: &'a [u8]) -> Result<TensorView<'a>> {
        let size = dtype
            .size()
            .ok_or_else(|| invalid(format!("the elements of a tensor of {dtype} are not bytes")))?;
        rank_error(shape.len()).map_or(Ok(()), |cause| Err(invalid(cause)))?;
        let expected = count(shape).and_then(|n| n.checked_mul(size));
        match expected == Some(bytes.len()) {
            true => Ok(TensorView {
                dtype,
                shape,
                elements: ElementsView::Bytes(bytes),
            }),
            false => Err(invalid(format!(
                "{} bytes for {dtype} of shape {shape:?}",
                bytes.len()
            ))),
        }
    }

    /// A tensor of strings, as many as the shape requires.
    pub fn strings(shape: &'a [usize], strings: &'a BytesColumn) -> Result<TensorView<'a>> {
        TensorView::of_strings(DType::String, shape, strings)
    }

    pub(crate) fn of_strings(
        dtype: DType,
        shape: &'a [usize],
        strings: &'a BytesColumn,
    ) -> Result<TensorView<'a>> {
        rank_error(shape.len()).map_or(Ok(()), |cause| Err(invalid(cause)))?;
        match count(shape) == Some(strings.len()) {
            true => Ok(TensorView {
                dtype,
                shape,
                elements: ElementsView::Strings(strings),
            }),
            false => Err(invalid(format!(
                "{} strings for shape {shape:?}",
                strings.len()
            ))),
        }
    }

    /// A tensor of numbers. On big-endian machines, make a [`Tensor`] instead.
    #[cfg(target_endian = "little")]
    pub fn of_values<T: Element>(shape: &'a [usize], values: &'a [T]) -> Result<TensorView<'a>> {
        TensorView::new(T::DTYPE, shape, bytemuck::cast_slice(values))
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The elements.
    pub fn elements(&self) -> ElementsView<'a> {
        self.elements
    }

    /// An owned copy.
    pub fn to_tensor(&self) -> Tensor {
        Tensor {
            dtype: self.dtype,
            shape: self.shape.to_vec(),
            elements: match self.elements {
                ElementsView::Bytes(bytes) => Elements::Bytes(bytes.to_vec()),
                ElementsView::Strings(strings) => Elements::Strings(strings.clone()),
            },
        }
    }
}

impl<'a> From<&'a Tensor> for TensorView<'a> {
    fn from(tensor: &'a Tensor) -> TensorView<'a> {
        tensor.view()
    }
}

impl<'a> From<&'a TensorView<'_>> for TensorView<'a> {
    fn from(tensor: &'a TensorView<'_>) -> TensorView<'a> {
        *tensor
    }
}

/// The maximum rank of a tensor, as in TensorFlow.
pub(crate) const MAX_RANK: usize = 254;

/// The cause of an error for a rank above [`MAX_RANK`].
pub(crate) fn rank_error(rank: usize) -> Option<String> {
    (rank > MAX_RANK)
        .then(|| format!("a shape of {rank} dimensions, and a tensor has at most {MAX_RANK}"))
}

/// The number of elements; `None` if it overflows.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    // A zero extent makes it zero, whatever the others are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))
}

/// Converts between native and little-endian order: swaps bytes on big-endian machines.
fn to_file_order(dtype: DType, bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        swap_bytes(dtype, bytes);
    }
}

/// Reverses the bytes of every number.
pub(crate) fn swap_bytes(dtype: DType, bytes: &mut [u8]) {
    let word = dtype.word();
    if word > 1 {
        bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    }
}

fn invalid(cause: String) -> FormatError {
    FormatError::invalid(FileKind::Other, cause)
}

fn damaged(cause: String) -> FormatError {
    FormatError::new(Code::DataLoss, FileKind::Other, cause)
}
