//! Memory that may not be there.

use crate::error::{Code, FileKind, FormatError, Result};

/// Below this it is not worth asking.
const MIN_CHECKED_ALLOC_BYTES: usize = 1 << 20;

/// So many zeros to read into, or an error where the machine has no room for them: a file may be longer than its memory.
pub(crate) fn zeros(kind: FileKind, size: usize) -> Result<Vec<u8>> {
    if size > MIN_CHECKED_ALLOC_BYTES {
        // Asked for and given back, since memory that comes zeroed cannot be asked for without an abort, and filling it takes time.
        let mut probe: Vec<u8> = Vec::new();
        let room = probe.try_reserve_exact(size);
        std::hint::black_box(&mut probe);
        room.map_err(|_| {
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
    fn too_much_is_an_error() {
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
