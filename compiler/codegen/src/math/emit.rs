//! The operations the functions are written in.
//!
//! A value is one or several lanes of one float type; integers and masks have lanes of the same number. Nothing here
//! branches: every operation is carried out in every lane.

/// The float type of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Lane {
    /// The bits of the mantissa that are stored.
    pub fn mantissa(self) -> u32 {
        match self {
            Lane::F32 => 23,
            Lane::F64 => 52,
        }
    }

    /// The bits of a lane.
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

/// Straight-line operations over lanes.
///
/// Each rounds once, as IEEE 754 says, except [`Emit::fma`] without [`Emit::has_fma`].
pub trait Emit {
    /// Float lanes.
    type V: Copy;
    /// Integer lanes, as wide as the float ones; they wrap around.
    type I: Copy;
    /// Lanes that are true or false.
    type M: Copy;

    /// The type of the float lanes.
    fn lane(&self) -> Lane;
    /// Whether [`Emit::fma`] rounds once.
    fn has_fma(&self) -> bool;

    /// A constant in every lane, rounded to the type of the lane.
    fn float(&mut self, value: f64) -> Self::V;
    /// An integer constant in every lane, cut to the width of the lane.
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
    /// The nearest whole number, halves going to the even one.
    fn nearest(&mut self, a: Self::V) -> Self::V;
    /// The whole number next to a towards zero.
    fn trunc(&mut self, a: Self::V) -> Self::V;

    /// a < b; false where one is NaN.
    fn lt(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// a ≤ b; false where one is NaN.
    fn le(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// a = b; false where one is NaN.
    fn eq(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// Whether one of the two is NaN.
    fn unordered(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// a where the mask is true, else b.
    fn select(&mut self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Both.
    fn both(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// At least one.
    fn either(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Not.
    fn negate(&mut self, a: Self::M) -> Self::M;

    /// The bits of floats.
    fn bits(&mut self, a: Self::V) -> Self::I;
    /// The floats of bits.
    fn of_bits(&mut self, a: Self::I) -> Self::V;
    /// Integer sum.
    fn iadd(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Integer difference.
    fn isub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn iand(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn ior(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn ixor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise not.
    fn inot(&mut self, a: Self::I) -> Self::I;
    /// Shift to the left by less than the width.
    fn shl(&mut self, a: Self::I, by: u32) -> Self::I;
    /// Shift to the right by less than the width, zeros coming in.
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

    /// 1.5 · 2ᵐ with m the stored bits of the mantissa: added to a small number, it leaves the nearest integer in the
    /// low bits. No instruction converts f64 lanes to integer lanes.
    fn magic(&mut self) -> Self::V {
        self.choose(12_582_912.0, 6_755_399_441_055_744.0)
    }

    /// [`Emit::magic`] and a small whole number more.
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
        let moved = self.of_bits(moved);
        self.sub(moved, magic)
    }
}
