//! Choice sequence: random decisions read from bytes, so that a failing graph shrinks (as in Hypothesis and `arbitrary`).

use trainspec_ir::DType;

/// A choice sequence, read from bytes; when these are exhausted, all further choices are 0.
#[derive(Debug, Clone)]
pub struct ChoiceSequence<'a>(pub &'a [u8]);

impl ChoiceSequence<'_> {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first) % n.max(1)
    }

    /// True with probability 1/`n`, and never when the bytes are exhausted.
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

    /// A float type, f32 most often.
    pub fn float(&mut self) -> DType {
        let all = [DType::F32, DType::F64, DType::F16, DType::Bf16];
        all[[0, 0, 1, 0, 1, 2, 3, 0][self.below(8)]]
    }

    /// An integer type.
    pub fn int(&mut self) -> DType {
        self.of(&[DType::I64, DType::I32, DType::I16, DType::I8, DType::U8])
    }
}
