//! The lane operations that the functions are written in: a tagless-final interface over SIMD lanes.
//!
//! A value is one or several lanes of one float type; integers and masks have the same number of lanes. There are no branches:
//! every operation applies to every lane.

/// The float type of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Lane {
    /// The number of stored mantissa bits.
    pub fn mantissa(self) -> u32 {
        match self {
            Lane::F32 => 23,
            Lane::F64 => 52,
        }
    }

    /// The width of a lane in bits.
    pub fn width(self) -> u32 {
        match self {
            Lane::F32 => 32,
            Lane::F64 => 64,
        }
    }

    /// The bits of `value` in this type.
    pub fn bits_of(self, value: f64) -> i64 {
        match self {
            Lane::F32 => i64::from((value as f32).to_bits()),
            Lane::F64 => value.to_bits().cast_signed(),
        }
    }
}

/// Branch-free operations over lanes.
///
/// Each rounds once (IEEE 754), except [`Emit::fma`] without [`Emit::has_fma`].
pub trait Emit {
    /// Float lanes.
    type V: Copy;
    /// Integer lanes, as wide as the float ones; they wrap around.
    type I: Copy;
    /// Mask lanes.
    type M: Copy;

    /// The type of the float lanes.
    fn lane(&self) -> Lane;
    /// Whether [`Emit::fma`] rounds once.
    fn has_fma(&self) -> bool;

    /// A float constant in every lane, rounded to the type of the lane.
    fn float(&mut self, value: f64) -> Self::V;
    /// An integer constant in every lane, truncated to the width of the lane.
    fn int(&mut self, value: i64) -> Self::I;

    /// a + b.
    fn add(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// a - b.
    fn sub(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// a · b.
    fn mul(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// a / b.
    fn div(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// a · b + c, rounded once with [`Emit::has_fma`] and after either operation without.
    fn fma(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// -a.
    fn neg(&mut self, a: Self::V) -> Self::V;
    /// |a|.
    fn abs(&mut self, a: Self::V) -> Self::V;
    /// √a.
    fn sqrt(&mut self, a: Self::V) -> Self::V;
    /// ⌊a⌋.
    fn floor(&mut self, a: Self::V) -> Self::V;
    /// ⌈a⌉.
    fn ceil(&mut self, a: Self::V) -> Self::V;
    /// The nearest integer, ties to even.
    fn nearest(&mut self, a: Self::V) -> Self::V;
    /// Truncation towards zero.
    fn trunc(&mut self, a: Self::V) -> Self::V;

    /// a < b; false where one is NaN.
    fn lt(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// a ≤ b; false where one is NaN.
    fn le(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// a = b; false where one is NaN.
    fn eq(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// Unordered: true where one is NaN.
    fn unordered(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// a where the mask is true, else b.
    fn select(&mut self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Mask conjunction.
    fn mask_and(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Mask disjunction.
    fn mask_or(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Mask negation.
    fn mask_not(&mut self, a: Self::M) -> Self::M;

    /// Bit cast to integer lanes.
    fn bits(&mut self, a: Self::V) -> Self::I;
    /// Bit cast to float lanes.
    fn bits_to_float(&mut self, a: Self::I) -> Self::V;
    /// Wrapping integer sum.
    fn iadd(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Wrapping integer difference.
    fn isub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn iand(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn ior(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn ixor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise not.
    fn inot(&mut self, a: Self::I) -> Self::I;
    /// Left shift by less than the width.
    fn shl(&mut self, a: Self::I, by: u32) -> Self::I;
    /// Logical right shift by less than the width.
    fn shr(&mut self, a: Self::I, by: u32) -> Self::I;

    /// A constant that differs by the type of the lane.
    fn choose(&mut self, single: f64, double: f64) -> Self::V {
        let value = match self.lane() {
            Lane::F32 => single,
            Lane::F64 => double,
        };
        self.float(value)
    }

    /// The bits of a constant.
    fn bits_of(&mut self, value: f64) -> Self::I {
        let bits = self.lane().bits_of(value);
        self.int(bits)
    }

    /// c - a · b, rounded like [`Emit::fma`].
    fn fnma(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        if self.has_fma() {
            let a = self.neg(a);
            self.fma(a, b, c)
        } else {
            let product = self.mul(a, b);
            self.sub(c, product)
        }
    }

    /// a · b - c, rounded like [`Emit::fma`].
    fn fms(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let c = self.neg(c);
        self.fma(a, b, c)
    }

    /// The magic number of float-to-integer rounding, 1.5 · 2ᵐ with m the stored mantissa bits: added to a small number, it leaves
    /// the nearest integer in the low bits. No AVX2 instruction converts f64 lanes to integer lanes.
    fn magic(&mut self) -> Self::V {
        self.choose(12_582_912.0, 6_755_399_441_055_744.0)
    }

    /// [`Emit::magic`] plus a small integer.
    fn magic_and(&mut self, more: i32) -> Self::V {
        let more = f64::from(more);
        self.choose(12_582_912.0 + more, 6_755_399_441_055_744.0 + more)
    }

    /// The nearest integer of a number below 2²² (f32) or 2⁵¹ (f64) in magnitude.
    fn to_int(&mut self, a: Self::V) -> Self::I {
        let magic = self.magic();
        let moved = self.add(a, magic);
        let (moved, zero) = (self.bits(moved), self.bits(magic));
        self.isub(moved, zero)
    }

    /// The float of an integer below 2²² (f32) or 2⁵¹ (f64) in magnitude, exactly.
    fn to_float(&mut self, a: Self::I) -> Self::V {
        let magic = self.magic();
        let zero = self.bits(magic);
        let moved = self.iadd(a, zero);
        let moved = self.bits_to_float(moved);
        self.sub(moved, magic)
    }
}
