//! Fallible allocation of read buffers.

use crate::error::{Code, FileKind, FormatError, Result};

/// Below this the allocation is not tried first.
const MIN_CHECKED_ALLOC_BYTES: usize = 1 << 20;

/// A zeroed buffer, or an error where the machine lacks the memory: a file may be larger.
pub(crate) fn zeros(kind: FileKind, size: usize) -> Result<Vec<u8>> {
    if size > MIN_CHECKED_ALLOC_BYTES {
        // Reserved and freed first, since a zeroed allocation aborts on failure, and zeroing a reserved one takes time.
        let mut probe: Vec<u8> = Vec::new();
        let reserved = probe.try_reserve_exact(size);
        std::hint::black_box(&mut probe);
        reserved.map_err(|_| {
            let cause = format!("there is no memory for {size} bytes");
            FormatError::new(Code::ResourceExhausted, kind, cause)
        })?;
    }
    Ok(vec![0; size])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_allocation_is_an_error() {
        assert_eq!(zeros(FileKind::Other, 3).unwrap(), [0; 3]);
        assert_eq!(
            zeros(FileKind::Other, MIN_CHECKED_ALLOC_BYTES + 1)
                .unwrap()
                .len(),
            MIN_CHECKED_ALLOC_BYTES + 1
        );
        for size in [usize::MAX, isize::MAX as usize, 1 << 46] {
            let error = zeros(FileKind::Table, size).unwrap_err();
            assert_eq!(error.code, Code::ResourceExhausted);
        }
    }
}
