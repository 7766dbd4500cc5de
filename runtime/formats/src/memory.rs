//! Fallible allocation: where a file needs more memory than there is, that is an error with the size, and does not abort the process.
//!
//! In: sizes that follow from a file. Out: buffers, or [`ResourceExhausted`](crate::Code::ResourceExhausted). Leaves alone: allocations
//! whose size is a constant, or that of a value the caller holds already.

use crate::error::{Code, FileKind, FormatError, Result};

/// Below this, memory is not probed first.
const MIN_CHECKED_ALLOC_BYTES: usize = 1 << 20;

/// The memory that is probed at once for many small allocations.
const HEADROOM_BYTES: usize = 4 << 20;

/// Probes that there is memory for some bytes, which are allocated afterwards by code that aborts on failure.
pub(crate) fn check(kind: FileKind, size: usize) -> Result<()> {
    if size <= MIN_CHECKED_ALLOC_BYTES {
        return Ok(());
    }
    let mut probe: Vec<u8> = Vec::new();
    let reserved = probe.try_reserve_exact(size);
    std::hint::black_box(&mut probe);
    reserved.map_err(|_| exhausted(kind, size))
}

/// A zeroed buffer.
pub(crate) fn zeros(kind: FileKind, size: usize) -> Result<Vec<u8>> {
    // Probed and freed first, since a zeroed allocation aborts on failure, and zeroing a reserved one takes time.
    check(kind, size)?;
    Ok(vec![0; size])
}

/// Reserves memory for `additional` more elements.
pub(crate) fn reserve<T>(kind: FileKind, vec: &mut Vec<T>, additional: usize) -> Result<()> {
    vec.try_reserve(additional).map_err(|_| {
        let count = vec.len().saturating_add(additional);
        exhausted(kind, count.saturating_mul(size_of::<T>()))
    })
}

/// Appends an element.
pub(crate) fn push<T>(kind: FileKind, vec: &mut Vec<T>, value: T) -> Result<()> {
    reserve(kind, vec, 1)?;
    vec.push(value);
    Ok(())
}

/// Resizes a buffer; bytes that are added are zero.
pub(crate) fn resize(kind: FileKind, buffer: &mut Vec<u8>, size: usize) -> Result<()> {
    let additional = size.saturating_sub(buffer.len());
    buffer
        .try_reserve_exact(additional)
        .map_err(|_| exhausted(kind, size))?;
    buffer.resize(size, 0);
    Ok(())
}

/// The error of an allocation that failed.
pub(crate) fn exhausted(kind: FileKind, size: usize) -> FormatError {
    let cause = format!("there is no memory for {size} bytes");
    FormatError::new(Code::ResourceExhausted, kind, cause)
}

/// Probes memory in steps, for many small allocations such as the entries of a map.
#[derive(Debug)]
pub(crate) struct Headroom {
    kind: FileKind,
    left: usize,
}

impl Headroom {
    pub(crate) fn new(kind: FileKind) -> Headroom {
        Headroom { kind, left: 0 }
    }

    /// Accounts for an allocation that follows.
    pub(crate) fn take(&mut self, size: usize) -> Result<()> {
        if size > self.left {
            let step = size.saturating_add(HEADROOM_BYTES);
            check(self.kind, step)?;
            self.left = step;
        }
        self.left -= size;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_allocation_is_an_error() {
        assert_eq!(zeros(FileKind::Other, 3).unwrap(), [0; 3]);
        let above = MIN_CHECKED_ALLOC_BYTES + 1;
        assert_eq!(zeros(FileKind::Other, above).unwrap().len(), above);
        for size in [usize::MAX, isize::MAX as usize, 1 << 46] {
            let mut buffer = vec![7];
            for failed in [
                zeros(FileKind::Table, size).map(drop),
                check(FileKind::Table, size),
                resize(FileKind::Table, &mut buffer, size),
                reserve(FileKind::Table, &mut buffer, size),
                Headroom::new(FileKind::Table).take(size),
            ] {
                let error = failed.unwrap_err();
                assert_eq!(error.code, Code::ResourceExhausted);
                assert!(error.cause.starts_with("there is no memory for "));
            }
            assert_eq!(buffer, [7]);
        }
    }
}
