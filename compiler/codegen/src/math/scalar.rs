//! Reference evaluation of the lane operations on one number; machine code must give the same bits.

use std::marker::PhantomData;

use super::emit::{Emit, Lane};

/// One lane of `T`, f32 or f64.
#[derive(Clone, Copy, Debug)]
pub struct Scalar<T> {
    /// Whether `fma` rounds once.
    pub fma: bool,
    lane: PhantomData<T>,
}

impl<T> Scalar<T> {
    /// One lane, with or without fused multiply-add.
    pub fn new(fma: bool) -> Scalar<T> {
        Scalar {
            fma,
            lane: PhantomData,
        }
    }
}

macro_rules! scalar {
    ($float:ty, $int:ty, $lane:expr) => {
        impl Emit for Scalar<$float> {
            type V = $float;
            type I = $int;
            type M = bool;

            fn lane(&self) -> Lane {
                $lane
            }
            fn has_fma(&self) -> bool {
                self.fma
            }
            fn float(&mut self, value: f64) -> $float {
                value as $float
            }
            fn int(&mut self, value: i64) -> $int {
                value as $int
            }
            fn add(&mut self, a: $float, b: $float) -> $float {
                a + b
            }
            fn sub(&mut self, a: $float, b: $float) -> $float {
                a - b
            }
            fn mul(&mut self, a: $float, b: $float) -> $float {
                a * b
            }
            fn div(&mut self, a: $float, b: $float) -> $float {
                a / b
            }
            fn fma(&mut self, a: $float, b: $float, c: $float) -> $float {
                if self.fma { a.mul_add(b, c) } else { a * b + c }
            }
            fn neg(&mut self, a: $float) -> $float {
                -a
            }
            fn abs(&mut self, a: $float) -> $float {
                a.abs()
            }
            fn sqrt(&mut self, a: $float) -> $float {
                a.sqrt()
            }
            fn floor(&mut self, a: $float) -> $float {
                a.floor()
            }
            fn ceil(&mut self, a: $float) -> $float {
                a.ceil()
            }
            fn nearest(&mut self, a: $float) -> $float {
                a.round_ties_even()
            }
            fn trunc(&mut self, a: $float) -> $float {
                a.trunc()
            }
            fn lt(&mut self, a: $float, b: $float) -> bool {
                a < b
            }
            fn le(&mut self, a: $float, b: $float) -> bool {
                a <= b
            }
            fn eq(&mut self, a: $float, b: $float) -> bool {
                a == b
            }
            fn unordered(&mut self, a: $float, b: $float) -> bool {
                a.is_nan() || b.is_nan()
            }
            fn select(&mut self, mask: bool, a: $float, b: $float) -> $float {
                if mask { a } else { b }
            }
            fn mask_and(&mut self, a: bool, b: bool) -> bool {
                a & b
            }
            fn mask_or(&mut self, a: bool, b: bool) -> bool {
                a | b
            }
            fn mask_not(&mut self, a: bool) -> bool {
                !a
            }
            fn bits(&mut self, a: $float) -> $int {
                a.to_bits().cast_signed()
            }
            fn bits_to_float(&mut self, a: $int) -> $float {
                <$float>::from_bits(a.cast_unsigned())
            }
            fn iadd(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            fn isub(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_sub(b)
            }
            fn iand(&mut self, a: $int, b: $int) -> $int {
                a & b
            }
            fn ior(&mut self, a: $int, b: $int) -> $int {
                a | b
            }
            fn ixor(&mut self, a: $int, b: $int) -> $int {
                a ^ b
            }
            fn inot(&mut self, a: $int) -> $int {
                !a
            }
            fn shl(&mut self, a: $int, by: u32) -> $int {
                a << by
            }
            fn shr(&mut self, a: $int, by: u32) -> $int {
                (a.cast_unsigned() >> by).cast_signed()
            }
        }
    };
}

scalar!(f32, i32, Lane::F32);
scalar!(f64, i64, Lane::F64);
