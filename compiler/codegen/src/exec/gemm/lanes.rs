//! Vectors of floats: of 256 bits, as AVX2 and FMA have them, and of 512 bits where the machine has AVX-512.
//!
//! Tiles of products are as wide as the machine's vectors; everything else here takes the shorter ones. Each element of a product is
//! one sum in one lane, so which vectors are taken changes no bit of it.

#[cfg(target_arch = "x86_64")]
mod long;
#[cfg(target_arch = "x86_64")]
mod short;

/// Whether this machine has vectors of 256 bits.
#[inline]
pub(super) fn present() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Whether it has vectors of 512 bits too.
#[inline]
pub(super) fn long_present() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f") && present()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Vectors of one length.
///
/// # Safety
///
/// Every function needs a machine that has the vectors. Loads and stores need as many elements as they name, all of them in one
/// allocation; nothing has to be aligned.
#[cfg(target_arch = "x86_64")]
pub trait Vectors {
    /// What a lane holds.
    type Element: Copy;
    /// A vector.
    type Vector: Copy;
    /// How many elements a vector has.
    const WIDTH: usize;
    /// All lanes 0.
    unsafe fn zero() -> Self::Vector;
    /// All lanes the one element at `at`.
    unsafe fn splat(at: *const Self::Element) -> Self::Vector;
    /// `WIDTH` elements.
    unsafe fn load(at: *const Self::Element) -> Self::Vector;
    /// The first `n` elements, and 0 behind them.
    unsafe fn load_some(at: *const Self::Element, n: usize) -> Self::Vector;
    /// Writes `WIDTH` elements.
    unsafe fn store(at: *mut Self::Element, x: Self::Vector);
    /// Writes the first `n` elements.
    unsafe fn store_some(at: *mut Self::Element, x: Self::Vector, n: usize);
    /// a + b.
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a b + c, rounded once.
    unsafe fn fma(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
}

/// An element with its vectors.
///
/// # Safety
///
/// As for [`Vectors`], on a machine for which [`present`] is true.
#[cfg(target_arch = "x86_64")]
pub trait Lanes: Copy + Send + Sync + 'static {
    /// How many elements a short vector has.
    const WIDTH: usize = <Self::Short as Vectors>::WIDTH;
    /// Vectors of 256 bits.
    type Short: Vectors<Element = Self>;
    /// Vectors of 512 bits.
    type Long: Vectors<Element = Self>;
    /// The sum of the lanes, by halves.
    unsafe fn sum(a: <Self::Short as Vectors>::Vector) -> Self;
    /// Reads `WIDTH` lines of `WIDTH` elements, `from` apart, and writes them `to` apart with lines and columns swapped.
    unsafe fn turn(x: *const Self, from: usize, y: *mut Self, to: usize);
}

/// An element without vectors; the width is that of the panels that products are cut into.
#[cfg(not(target_arch = "x86_64"))]
pub trait Lanes: Copy + Send + Sync + 'static {
    /// How many elements a vector has.
    const WIDTH: usize;
}

#[cfg(not(target_arch = "x86_64"))]
impl Lanes for f32 {
    const WIDTH: usize = 8;
}

#[cfg(not(target_arch = "x86_64"))]
impl Lanes for f64 {
    const WIDTH: usize = 4;
}
