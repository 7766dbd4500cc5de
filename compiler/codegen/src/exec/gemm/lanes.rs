//! SIMD vectors of floats: 256 bits (AVX2 and FMA), and 512 bits where the machine has AVX-512.
//!
//! Microkernels take the widest vectors of the machine; packing and GEMV take those of 256 bits. Each element of a product is one sum
//! in one lane, so the vector width changes no bit of it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

/// SIMD vectors of one width.
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
    /// Broadcast: all lanes the one element at `at`.
    unsafe fn splat(at: *const Self::Element) -> Self::Vector;
    /// `WIDTH` elements.
    unsafe fn load(at: *const Self::Element) -> Self::Vector;
    /// Masked load: the first `n` elements, and 0 in the other lanes.
    unsafe fn load_masked(at: *const Self::Element, n: usize) -> Self::Vector;
    /// Writes `WIDTH` elements.
    unsafe fn store(at: *mut Self::Element, x: Self::Vector);
    /// Masked store: writes the first `n` elements.
    unsafe fn store_masked(at: *mut Self::Element, x: Self::Vector, n: usize);
    /// a + b.
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Fused multiply-add: a b + c, rounded once.
    unsafe fn fma(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
}

/// An element type with its SIMD vectors.
///
/// # Safety
///
/// As for [`Vectors`], on a CPU with AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
pub trait Lanes: Copy + Send + Sync + 'static {
    /// How many elements a vector of 256 bits has.
    const WIDTH: usize = <Self::V256 as Vectors>::WIDTH;
    /// Vectors of 256 bits.
    type V256: Vectors<Element = Self>;
    /// Vectors of 512 bits.
    type V512: Vectors<Element = Self>;
    /// Horizontal sum of the lanes: a reduction tree that adds the upper half to the lower one.
    unsafe fn reduce_add(a: <Self::V256 as Vectors>::Vector) -> Self;
    /// Transposes a square of `WIDTH` x `WIDTH` elements in registers: reads rows `from` apart, writes rows `to` apart.
    unsafe fn transpose(x: *const Self, from: usize, y: *mut Self, to: usize);
}

/// An element type without SIMD vectors; the width is that of the panels that operands are packed into.
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
