//! Memory that routines compute in, kept from call to call.

use std::sync::{Mutex, PoisonError};

/// Memory that routines compute in. It grows to what the largest call needs and stays so.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) f32s: Shelf<f32>,
    pub(super) f64s: Shelf<f64>,
    pub(super) i64s: Shelf<i64>,
    pub(super) bools: Shelf<bool>,
    /// Numbers of rows.
    pub(super) places: Vec<usize>,
    /// Sizes and steps of dimensions.
    pub(super) steps: Vec<Step>,
    /// Those of other dimensions.
    pub(super) others: Vec<Step>,
    /// Where things are found by their key.
    pub(super) table: Vec<u32>,
}

/// A dimension: its size, and how far apart its elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) size: usize,
    pub(super) step: isize,
}

/// Buffers that tasks borrow, each one for itself.
#[derive(Debug)]
pub(super) struct Shelf<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf(Mutex::new(Vec::new()))
    }
}

impl<T: Copy + Default> Shelf<T> {
    /// Makes sure that there are so many buffers of so many elements, so that lending them does not allocate.
    pub(super) fn prepare(&self, buffers: usize, length: usize) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while shelf.len() < buffers {
            shelf.push(Vec::new());
        }
        for buffer in shelf.iter_mut().filter(|b| b.len() < length) {
            buffer.resize(length, T::default());
        }
    }

    /// Lends a buffer, whose contents are arbitrary.
    pub(super) fn lend<R>(&self, length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
        let shelf = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = shelf().pop().unwrap_or_default();
        if buffer.len() < length {
            buffer.resize(length, T::default());
        }
        let result = work(&mut buffer[..length]);
        shelf().push(buffer);
        result
    }
}

/// An element that scratch memory has buffers of.
pub(super) trait Kept: Copy + Default + Send + Sync + 'static {
    /// Its buffers.
    fn shelf(scratch: &Scratch) -> &Shelf<Self>;
}

macro_rules! kept {
    ($($ty:ty: $field:ident),*) => {
        $(impl Kept for $ty {
            fn shelf(scratch: &Scratch) -> &Shelf<$ty> {
                &scratch.$field
            }
        })*
    };
}

kept!(f32: f32s, f64: f64s, i64: i64s, bool: bools);
