//! Element types of tensors: conversions, accumulator types, and dispatch by dtype.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul};

use half::{bf16, f16};
use trainspec_ir::DType;

use super::{Slice, SliceMut};
use crate::exec::gemm::GemmFloat;

/// The type of a tensor's elements.
pub(super) trait Elem:
    Copy + Debug + Default + PartialEq + PartialOrd + Send + Sync + 'static
{
    /// Its dtype.
    const DTYPE: DType;

    /// The elements, where they are of this type.
    fn of<'a>(slice: &Slice<'a>) -> Option<&'a [Self]>;

    /// The elements to write, where they are of this type.
    fn of_mut<'b>(slice: &'b mut SliceMut<'_>) -> Option<&'b mut [Self]>;

    /// A float as f64, as the interpreter computes; not for integers.
    fn to_f64(self) -> f64;

    /// A float rounded to this type, denormals flushed to zero except for f16; not for integers. (Not `from_f64`: f16 and bf16 have an
    /// inherent method of that name, which would take precedence.)
    fn rounded(x: f64) -> Self;

    /// An integer or bool as i64; not for floats.
    fn to_i64(self) -> i64;

    /// An integer truncated to the width of this type, or the bool n != 0; not for floats.
    fn from_i64(n: i64) -> Self;
}

/// A float type.
pub(super) trait Float: Elem {
    /// The accumulator type of sums: f32 for f16 and bf16, else the type itself.
    type Acc: Real;

    /// Widens to the accumulator type.
    fn widen(self) -> Self::Acc;

    /// Rounds an accumulator to this type.
    fn narrow(sum: Self::Acc) -> Self;

    /// The elements as accumulators, where this is the accumulator type.
    fn as_accumulators(_: &mut [Self]) -> Option<&mut [Self::Acc]>;

    /// The elements as widened operands, where this is the accumulator type.
    fn as_terms(_: &[Self]) -> Option<&[Self::Acc]>;
}

/// A float type that is its own accumulator: f32 or f64.
pub(super) trait Real:
    Float<Acc = Self> + GemmFloat + Add<Output = Self> + Mul<Output = Self> + AddAssign
{
    /// The elements as f32, if they are.
    fn as_f32(xs: &[Self]) -> Option<&[f32]>;
    /// The mutable form of [`Real::as_f32`].
    fn as_f32_mut(xs: &mut [Self]) -> Option<&mut [f32]>;
}

impl Real for f32 {
    fn as_f32(xs: &[f32]) -> Option<&[f32]> {
        Some(xs)
    }

    fn as_f32_mut(xs: &mut [f32]) -> Option<&mut [f32]> {
        Some(xs)
    }
}

impl Real for f64 {
    fn as_f32(_: &[f64]) -> Option<&[f32]> {
        None
    }

    fn as_f32_mut(_: &mut [f64]) -> Option<&mut [f32]> {
        None
    }
}

/// An integer type.
pub(super) trait Int: Elem + Ord {}

macro_rules! elem {
    ($($variant:ident: $ty:ty, $to_f64:expr, $rounded:expr, $to_i64:expr, $from_i64:expr;)*) => {
        $(impl Elem for $ty {
            const DTYPE: DType = DType::$variant;

            fn of<'a>(slice: &Slice<'a>) -> Option<&'a [Self]> {
                match slice {
                    Slice::$variant(x) => Some(x),
                    _ => None,
                }
            }

            fn of_mut<'b>(slice: &'b mut SliceMut<'_>) -> Option<&'b mut [Self]> {
                match slice {
                    SliceMut::$variant(x) => Some(x),
                    _ => None,
                }
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                let convert: fn($ty) -> f64 = $to_f64;
                convert(self)
            }

            #[inline(always)]
            fn rounded(x: f64) -> Self {
                let convert: fn(f64) -> $ty = $rounded;
                convert(x)
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                let convert: fn($ty) -> i64 = $to_i64;
                convert(self)
            }

            #[inline(always)]
            fn from_i64(n: i64) -> Self {
                let convert: fn(i64) -> $ty = $from_i64;
                convert(n)
            }
        })*
    };
}

/// Panic messages of conversions that no routine may use.
const FLOAT_AS_INT: &str = "a float was used as an integer";
const INT_AS_FLOAT: &str = "an integer was used as a float";

elem! {
    F16: f16, f16::to_f64, f16::from_f64, |_| panic!("{FLOAT_AS_INT}"), |_| panic!("{FLOAT_AS_INT}");
    Bf16: bf16, bf16::to_f64, bf16_flushed, |_| panic!("{FLOAT_AS_INT}"), |_| panic!("{FLOAT_AS_INT}");
    F32: f32, |x| x.into(), |x| x as f32, |_| panic!("{FLOAT_AS_INT}"), |_| panic!("{FLOAT_AS_INT}");
    F64: f64, |x| x, |x| x, |_| panic!("{FLOAT_AS_INT}"), |_| panic!("{FLOAT_AS_INT}");
    I8: i8, |_| panic!("{INT_AS_FLOAT}"), |_| panic!("{INT_AS_FLOAT}"), |n| n.into(), |n| n as i8;
    I16: i16, |_| panic!("{INT_AS_FLOAT}"), |_| panic!("{INT_AS_FLOAT}"), |n| n.into(), |n| n as i16;
    I32: i32, |_| panic!("{INT_AS_FLOAT}"), |_| panic!("{INT_AS_FLOAT}"), |n| n.into(), |n| n as i32;
    I64: i64, |_| panic!("{INT_AS_FLOAT}"), |_| panic!("{INT_AS_FLOAT}"), |n| n, |n| n;
    U8: u8, |_| panic!("{INT_AS_FLOAT}"), |_| panic!("{INT_AS_FLOAT}"), |n| n.into(), |n| n as u8;
    Bool: bool, |_| panic!("{INT_AS_FLOAT}"), |_| panic!("{INT_AS_FLOAT}"), |b| b.into(), |n| n != 0;
}

/// The nearest bf16, denormals flushed to zero, as FTZ does for f32 and f64.
#[inline(always)]
fn bf16_flushed(x: f64) -> bf16 {
    let nearest = bf16::from_f64(x);
    match nearest.to_bits() {
        // Denormal: the exponent field is zero.
        bits if bits & 0x7F80 == 0 => bf16::from_bits(bits & 0x8000),
        _ => nearest,
    }
}

macro_rules! float {
    ($($ty:ty, $sum:ty, $widen:expr, $narrow:expr, $same:expr, $terms:expr;)*) => {
        $(impl Float for $ty {
            type Acc = $sum;

            #[inline(always)]
            fn widen(self) -> $sum {
                let convert: fn($ty) -> $sum = $widen;
                convert(self)
            }

            #[inline(always)]
            fn narrow(sum: $sum) -> $ty {
                let convert: fn($sum) -> $ty = $narrow;
                convert(sum)
            }

            fn as_accumulators(x: &mut [$ty]) -> Option<&mut [$sum]> {
                let same: fn(&mut [$ty]) -> Option<&mut [$sum]> = $same;
                same(x)
            }

            fn as_terms(x: &[$ty]) -> Option<&[$sum]> {
                let same: fn(&[$ty]) -> Option<&[$sum]> = $terms;
                same(x)
            }
        })*
    };
}

float! {
    f16, f32, f16::to_f32, |x| f16::from_f64(x.into()), |_| None, |_| None;
    bf16, f32, bf16::to_f32, |x| bf16_flushed(x.into()), |_| None, |_| None;
    f32, f32, |x| x, |x| x, |x| Some(x), |x| Some(x);
    f64, f64, |x| x, |x| x, |x| Some(x), |x| Some(x);
}

impl Int for i8 {}
impl Int for i16 {}
impl Int for i32 {}
impl Int for i64 {}
impl Int for u8 {}

/// Dispatch by dtype over all element types: `any!(dtype, T => f::<T>(r))`.
macro_rules! any {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            ::trainspec_ir::DType::F16
            | ::trainspec_ir::DType::Bf16
            | ::trainspec_ir::DType::F32
            | ::trainspec_ir::DType::F64 => {
                $crate::library::elements::floats!($dtype, $t => $body)
            }
            ::trainspec_ir::DType::Bool => {
                type $t = bool;
                $body
            }
            _ => $crate::library::elements::ints!($dtype, $t => $body),
        }
    };
}

/// Dispatch by dtype over the float types.
macro_rules! floats {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            ::trainspec_ir::DType::F16 => {
                type $t = ::half::f16;
                $body
            }
            ::trainspec_ir::DType::Bf16 => {
                type $t = ::half::bf16;
                $body
            }
            ::trainspec_ir::DType::F32 => {
                type $t = f32;
                $body
            }
            ::trainspec_ir::DType::F64 => {
                type $t = f64;
                $body
            }
            other => panic!("{other} elements where floats were expected"),
        }
    };
}

/// Dispatch by dtype over the integer types.
macro_rules! ints {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            ::trainspec_ir::DType::I8 => {
                type $t = i8;
                $body
            }
            ::trainspec_ir::DType::I16 => {
                type $t = i16;
                $body
            }
            ::trainspec_ir::DType::I32 => {
                type $t = i32;
                $body
            }
            ::trainspec_ir::DType::I64 => {
                type $t = i64;
                $body
            }
            ::trainspec_ir::DType::U8 => {
                type $t = u8;
                $body
            }
            other => panic!("{other} elements where integers were expected"),
        }
    };
}

pub(super) use {any, floats, ints};
