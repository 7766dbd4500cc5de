//! Dynamically typed slices of tensor elements.

use half::{bf16, f16};
use trainspec_ir::DType;

/// The elements of a tensor, row-major.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // each is named after its element type
pub enum Slice<'a> {
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
}

/// The mutable elements of a tensor, row-major.
#[derive(Debug)]
#[allow(missing_docs)] // each is named after its element type
pub enum SliceMut<'a> {
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I8(&'a mut [i8]),
    I16(&'a mut [i16]),
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
    U8(&'a mut [u8]),
    Bool(&'a mut [bool]),
}

macro_rules! slices {
    ($name:ident: $($variant:ident),*) => {
        impl $name<'_> {
            /// The type of the elements.
            pub fn dtype(&self) -> DType {
                match self {
                    $($name::$variant(_) => DType::$variant,)*
                }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $($name::$variant(x) => x.len(),)*
                }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

slices!(Slice: F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool);
slices!(SliceMut: F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool);

impl<'a> Slice<'a> {
    /// An empty slice of a type; strings are represented by bytes.
    pub fn none(dtype: DType) -> Slice<'a> {
        match dtype {
            DType::F16 => Slice::F16(&[]),
            DType::Bf16 => Slice::Bf16(&[]),
            DType::F32 => Slice::F32(&[]),
            DType::F64 => Slice::F64(&[]),
            DType::I8 => Slice::I8(&[]),
            DType::I16 => Slice::I16(&[]),
            DType::I32 => Slice::I32(&[]),
            DType::I64 => Slice::I64(&[]),
            DType::Bool => Slice::Bool(&[]),
            DType::U8 | DType::String => Slice::U8(&[]),
        }
    }
}
