//! Decisions that are read from bytes, so that a failing graph shrinks to a small one.

use trainspec_ir::DType;

/// Decisions, read from bytes; when these are used up, all further ones are 0.
#[derive(Debug, Clone)]
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first) % n.max(1)
    }

    /// One time in `n`, and never when the bytes are used up.
    pub fn rarely(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, several: &[T]) -> T {
        several[self.below(several.len())]
    }

    /// Some of the axes, perhaps none.
    pub fn axes(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|_| self.below(2) == 1).collect()
    }

    /// A type of floats, the one that is used most first.
    pub fn float(&mut self) -> DType {
        let all = [DType::F32, DType::F64, DType::F16, DType::Bf16];
        all[[0, 0, 1, 0, 1, 2, 3, 0][self.below(8)]]
    }

    /// A type of integers.
    pub fn int(&mut self) -> DType {
        self.of(&[DType::I64, DType::I32, DType::I16, DType::I8, DType::U8])
    }
}
