//! What routines need to know of elements, and the choice of a routine by element type.

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
    /// Its name.
    const DTYPE: DType;

    /// The elements, where they are of this type.
    fn of<'a>(slice: &Slice<'a>) -> Option<&'a [Self]>;

    /// Room for elements, where they are of this type.
    fn of_mut<'b>(slice: &'b mut SliceMut<'_>) -> Option<&'b mut [Self]>;

    /// As the interpreter has it: f64 for a float, else through i64.
    fn to_f64(self) -> f64;

    /// A float rounded to this type, and zero where that is too small to be a normal number, but for f16; not for integers. (Not `from_f64`:
    /// halves have one of their own, which comes first.)
    fn rounded(x: f64) -> Self;

    /// An integer or truth; not for floats.
    fn to_i64(self) -> i64;

    /// An integer cut to the width of this type, or whether it is not 0; not for floats.
    fn from_i64(n: i64) -> Self;
}

/// A float.
pub(super) trait Float: Elem {
    /// In which sums are made.
    type Sum: Real;

    /// As a term of a sum.
    fn widen(self) -> Self::Sum;

    /// A sum rounded to this type.
    fn narrow(sum: Self::Sum) -> Self;

    /// Room for sums, where they are of this very type.
    fn as_sums(_: &mut [Self]) -> Option<&mut [Self::Sum]>;

    /// The same elements as terms of sums, where they are of that very type.
    fn as_terms(_: &[Self]) -> Option<&[Self::Sum]>;
}

/// A float that is computed with as it is: f32 or f64.
pub(super) trait Real:
    Float<Sum = Self> + GemmFloat + Add<Output = Self> + Mul<Output = Self> + AddAssign
{
    /// The elements, if they are f32.
    fn singles(xs: &[Self]) -> Option<&[f32]>;
    /// The same, to write.
    fn singles_mut(xs: &mut [Self]) -> Option<&mut [f32]>;
}

impl Real for f32 {
    fn singles(xs: &[f32]) -> Option<&[f32]> {
        Some(xs)
    }

    fn singles_mut(xs: &mut [f32]) -> Option<&mut [f32]> {
        Some(xs)
    }
}

impl Real for f64 {
    fn singles(_: &[f64]) -> Option<&[f32]> {
        None
    }

    fn singles_mut(_: &mut [f64]) -> Option<&mut [f32]> {
        None
    }
}

/// An integer.
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

/// Conversions that no routine asks for.
const FLOAT: &str = "a float was used as an integer";
const INT: &str = "an integer was used as a float";

elem! {
    F16: f16, f16::to_f64, f16::from_f64, |_| panic!("{FLOAT}"), |_| panic!("{FLOAT}");
    Bf16: bf16, bf16::to_f64, narrowed, |_| panic!("{FLOAT}"), |_| panic!("{FLOAT}");
    F32: f32, |x| x.into(), |x| x as f32, |_| panic!("{FLOAT}"), |_| panic!("{FLOAT}");
    F64: f64, |x| x, |x| x, |_| panic!("{FLOAT}"), |_| panic!("{FLOAT}");
    I8: i8, |_| panic!("{INT}"), |_| panic!("{INT}"), |n| n.into(), |n| n as i8;
    I16: i16, |_| panic!("{INT}"), |_| panic!("{INT}"), |n| n.into(), |n| n as i16;
    I32: i32, |_| panic!("{INT}"), |_| panic!("{INT}"), |n| n.into(), |n| n as i32;
    I64: i64, |_| panic!("{INT}"), |_| panic!("{INT}"), |n| n, |n| n;
    U8: u8, |_| panic!("{INT}"), |_| panic!("{INT}"), |n| n.into(), |n| n as u8;
    Bool: bool, |_| panic!("{INT}"), |_| panic!("{INT}"), |b| b.into(), |n| n != 0;
}

/// The nearest bf16, but a zero where that is too small to be a normal number, as the machine has it for f32 and f64.
#[inline(always)]
fn narrowed(x: f64) -> bf16 {
    let nearest = bf16::from_f64(x);
    match nearest.to_bits() {
        // Without a bit of its exponent.
        bits if bits & 0x7F80 == 0 => bf16::from_bits(bits & 0x8000),
        _ => nearest,
    }
}

macro_rules! float {
    ($($ty:ty, $sum:ty, $widen:expr, $narrow:expr, $same:expr, $terms:expr;)*) => {
        $(impl Float for $ty {
            type Sum = $sum;

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

            fn as_sums(x: &mut [$ty]) -> Option<&mut [$sum]> {
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
    bf16, f32, bf16::to_f32, |x| narrowed(x.into()), |_| None, |_| None;
    f32, f32, |x| x, |x| x, |x| Some(x), |x| Some(x);
    f64, f64, |x| x, |x| x, |x| Some(x), |x| Some(x);
}

impl Int for i8 {}
impl Int for i16 {}
impl Int for i32 {}
impl Int for i64 {}
impl Int for u8 {}

/// Does the same for elements of any type: `any!(dtype, T => f::<T>(r))`.
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

/// The same for floats.
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

/// The same for integers.
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
