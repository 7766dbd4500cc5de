//! Fallible allocation of work memory: arenas, staging buffers, scratch of routines.
//!
//! Memory is allocated deep inside kernels and on several threads, so a failed allocation unwinds, without a message, to whoever prepares or
//! runs the program ([`catch`]), and is an error there. What the limits of the process allow is compared before; this is for memory that
//! others take in between.

use std::alloc::{Layout, alloc_zeroed};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use trainspec_ir::Span;
use trainspec_ir::interp::RunError;

/// The bytes of an allocation that failed.
struct AllocationFailed(usize);

/// A type for which all bits zero are a value, its default.
pub trait Zeroed: Copy + Default {}

impl Zeroed for u8 {}
impl Zeroed for u32 {}
impl Zeroed for i64 {}
impl Zeroed for usize {}
impl Zeroed for f32 {}
impl Zeroed for f64 {}
impl Zeroed for bool {}

/// A list of `length` zeros. The memory comes zeroed from the system and is not written, so a page exists when it is first used.
///
/// Unwinds to [`catch`] where there is no memory.
pub(crate) fn zeros<T: Zeroed>(length: usize) -> Vec<T> {
    let layout = match Layout::array::<T>(length) {
        Ok(layout) => layout,
        Err(_) => fail(length.saturating_mul(size_of::<T>())),
    };
    if layout.size() == 0 {
        return vec![T::default(); length];
    }
    // SAFETY: the layout has a size above 0.
    let first = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if first.is_null() {
        fail(layout.size());
    }
    // SAFETY: the global allocator gave `length` elements with the layout of a list of them, and zeros are values of the type.
    unsafe { Vec::from_raw_parts(first, length, length) }
}

/// Grows a list to at least `length` elements. Unwinds to [`catch`] where there is no memory.
pub(crate) fn grow<T: Copy>(list: &mut Vec<T>, length: usize, value: T) {
    let more = length.saturating_sub(list.len());
    if list.try_reserve(more).is_err() {
        fail(length.saturating_mul(size_of::<T>()));
    }
    list.resize(list.len() + more, value);
}

fn fail(bytes: usize) -> ! {
    // Not a panic: nobody is at fault, and nothing is printed.
    resume_unwind(Box::new(AllocationFailed(bytes)))
}

/// The outcome of `work`; an error where it could not allocate what it needs.
pub(super) fn catch<R>(work: impl FnOnce() -> Result<R, RunError>) -> Result<R, RunError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome,
        Err(payload) => match payload.downcast::<AllocationFailed>() {
            Ok(failed) => {
                let message = format!("{} bytes of work memory cannot be allocated", failed.0);
                Err(RunError::new(message, Span::default()))
            }
            Err(panic) => resume_unwind(panic),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_allocated_is_an_error() {
        let error = catch(|| Ok(zeros::<f32>(1 << 60))).unwrap_err();
        let message = "4611686018427387904 bytes of work memory cannot be allocated";
        assert_eq!(error.message, message);
        let error = catch(|| Ok(zeros::<f64>(usize::MAX))).unwrap_err();
        assert!(error.message.ends_with("cannot be allocated"));
        let grown = catch(|| {
            grow(&mut vec![0_u8; 3], usize::MAX >> 1, 1);
            Ok(())
        });
        assert!(grown.is_err());
    }

    #[test]
    fn lists_are_zeroed_and_grow() {
        assert_eq!(zeros::<i64>(3), [0, 0, 0]);
        assert_eq!(zeros::<f32>(0), [0.0_f32; 0]);
        let mut list = zeros::<u32>(2);
        grow(&mut list, 4, 7);
        assert_eq!(list, [0, 0, 7, 7]);
        grow(&mut list, 1, 9);
        assert_eq!(list.len(), 4);
    }

    #[test]
    fn a_failure_on_another_thread_is_passed_on() {
        let pool = crate::exec::pool::Pool::exactly(2);
        let failed = catch(|| {
            pool.run(4, &|task| {
                if task == 3 {
                    zeros::<u8>(1 << 62);
                }
            });
            Ok(())
        });
        assert!(failed.is_err());
    }

    #[test]
    #[should_panic(expected = "a bug")]
    fn panics_stay_panics() {
        let _ = catch(|| -> Result<(), RunError> { panic!("a bug") });
    }
}
