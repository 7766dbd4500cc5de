//! Inputs of a run: borrowed views of tensors, arrays and slices. A contiguous one is read where it lies.

use std::marker::PhantomData;

use half::{bf16, f16};
use ndarray::{ArrayBase, Dimension};
use trainspec_ir::graph::Type;
use trainspec_ir::tensor::{Data, Element};
use trainspec_ir::{DType, Tensor};

use crate::exec::memory;

/// A number or bool that can be fed from an array or a slice: its Rust type has the size and the values of [`Element::DTYPE`]. Sealed, because
/// generated code depends on it.
///
/// ```
/// use trainspec_codegen::exec::{InputElement, InputView};
///
/// fn column<T: InputElement>(values: &[T]) -> Vec<usize> {
///     InputView::new(&[values.len(), 1], values).shape().to_vec()
/// }
/// assert_eq!(column(&[1_i64, 2, 3]), [3, 1]);
/// ```
pub trait InputElement: Element + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! input_elements {
    ($($ty:ty),*) => {
        $(
            impl sealed::Sealed for $ty {}
            impl InputElement for $ty {}
        )*
    };
}

input_elements!(f16, bf16, f32, f64, i8, i16, i32, i64, u8, bool);

/// A tensor that is fed to a run: elements that are borrowed, with their shape and strides.
///
/// ```
/// use ndarray::{Array2, s};
/// use trainspec_codegen::exec::InputView;
/// use trainspec_ir::Tensor;
///
/// let tensor = Tensor::new(&[2, 3], vec![0.0_f32; 6]);
/// let array = Array2::<f32>::zeros((4, 3));
/// assert!(InputView::from(&tensor).is_contiguous());
/// assert!(InputView::from(&array.slice(s![1..3, ..])).is_contiguous());
/// assert!(!InputView::from(&array.t()).is_contiguous());
/// assert!(InputView::new(&[3], &[1_i64, 2, 3]).is_contiguous());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct InputView<'a> {
    dtype: DType,
    shape: &'a [usize],
    /// In elements; those of row-major order where there are none.
    strides: Option<&'a [isize]>,
    first: *const u8,
    elements: PhantomData<&'a [u8]>,
}

// SAFETY: a view is a shared borrow of numbers.
unsafe impl Send for InputView<'_> {}
// SAFETY: as above.
unsafe impl Sync for InputView<'_> {}

impl<'a> InputView<'a> {
    /// A view of elements in row-major order.
    ///
    /// # Panics
    ///
    /// When the number of values is not the shape's.
    pub fn new<T: InputElement>(shape: &'a [usize], values: &'a [T]) -> InputView<'a> {
        let expected = shape
            .iter()
            .try_fold(1_usize, |n, size| n.checked_mul(*size));
        assert_eq!(
            Some(values.len()),
            expected,
            "the elements of shape {shape:?}"
        );
        InputView {
            dtype: T::DTYPE,
            shape,
            strides: None,
            first: values.as_ptr().cast(),
            elements: PhantomData,
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The type.
    pub fn ty(&self) -> Type {
        Type::new(self.dtype, self.shape)
    }

    /// Whether the elements lie in row-major order without gaps: a run then reads them in place, else it copies them first.
    pub fn is_contiguous(&self) -> bool {
        let Some(strides) = self.strides else {
            return true;
        };
        let mut expected = 1;
        for (size, stride) in self.shape.iter().zip(strides).rev() {
            match size {
                0 => return true,
                1 => {}
                _ if *stride != expected => return false,
                // An array of that size exists.
                _ => expected *= *size as isize,
            }
        }
        true
    }

    /// A copy of the elements as a tensor; an empty string for each of a view of strings, which nothing computes with.
    pub fn to_tensor(&self) -> Tensor {
        if self.dtype == DType::String {
            let n = self.shape.iter().product();
            return Tensor::of(self.shape, Data::String(vec![Default::default(); n]));
        }
        let mut tensor = Tensor::zeros(&self.ty());
        // SAFETY: the tensor was just made with the type of the view.
        unsafe { self.copy_to(memory::pointer_mut(&mut tensor)) };
        tensor
    }

    /// The first element, by index.
    pub(super) fn pointer(&self) -> *const u8 {
        self.first
    }

    /// Copies the elements in row-major order.
    ///
    /// # Safety
    ///
    /// `to` has the size of all elements, is aligned for them, and nothing else uses it.
    pub(super) unsafe fn copy_to(&self, to: *mut u8) {
        let bytes = self.dtype.bytes();
        // SAFETY: the elements are borrowed, and strides are those of their array; the rest is the caller's promise.
        unsafe {
            match self.strides {
                Some(strides) => {
                    memory::copy_strided(self.shape, |axis| strides[axis], bytes, self.first, to)
                }
                None => {
                    let n = self.shape.iter().product::<usize>();
                    std::ptr::copy_nonoverlapping(self.first, to, n * bytes)
                }
            }
        }
    }
}

impl<'a> From<&'a Tensor> for InputView<'a> {
    fn from(tensor: &'a Tensor) -> InputView<'a> {
        InputView {
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            strides: None,
            first: match tensor.dtype() {
                // Nothing computes with strings; a run refuses them by their type.
                DType::String => std::ptr::dangling(),
                _ => memory::pointer(tensor),
            },
            elements: PhantomData,
        }
    }
}

impl<'a, S, D> From<&'a ArrayBase<S, D>> for InputView<'a>
where
    S: ndarray::Data<Elem: InputElement>,
    D: Dimension,
{
    fn from(array: &'a ArrayBase<S, D>) -> InputView<'a> {
        InputView {
            dtype: S::Elem::DTYPE,
            shape: array.shape(),
            strides: Some(array.strides()),
            first: array.as_ptr().cast(),
            elements: PhantomData,
        }
    }
}
