//! Sparse gradients of row lookups, as TensorFlow's `IndexedSlices`: indices and the rows at them.

use crate::autodiff::Cotangent;
use crate::build::{Builder, Value};
use crate::types::DType;

/// A sparse gradient: zero but for the rows at some indices; the rows of a repeated index add up.
#[derive(Debug, Clone, Copy)]
pub struct IndexedSlices<'g> {
    /// The indices of the rows, a vector.
    pub indices: Value<'g>,
    /// A row for each index.
    pub rows: Value<'g>,
    /// How many rows the dense gradient has.
    pub length: usize,
    /// How many of the indices are valid (an i64), where not all of them are; the rest is padding.
    pub count: Option<Value<'g>>,
}

impl<'g> IndexedSlices<'g> {
    /// The dense gradient.
    pub(super) fn dense(self) -> Value<'g> {
        let mut ty = self.rows.ty();
        ty.shape[0] = self.length;
        let rows = self.masked().rows;
        rows.builder()
            .full(&ty, 0.0)
            .scatter_add(self.indices, rows)
    }

    /// Sets the padding rows to 0.
    pub fn masked(self) -> IndexedSlices<'g> {
        if self.count.is_none() {
            return self;
        }
        let mut along = vec![1; self.rows.rank()];
        along[0] = self.rows.shape()[0];
        let rows = self
            .valid_mask()
            .reshape(&along)
            .select(self.rows, self.rows.like(0.0));
        IndexedSlices { rows, ..self }
    }

    /// Deduplicates the indices: each once, with the sum of its rows. The result always has a count.
    pub fn summed(self) -> IndexedSlices<'g> {
        let b = self.rows.builder();
        let all = || b.int(DType::I64, self.rows.shape()[0] as i64);
        let count = self.count.unwrap_or_else(all);
        let [indices, rows, count] = self.rows.sum_rows(self.indices, count, self.length);
        IndexedSlices {
            indices,
            rows,
            length: self.length,
            count: Some(count),
        }
    }

    /// The boolean mask of the valid indices.
    fn valid_mask(self) -> Value<'g> {
        let b = self.rows.builder();
        let n = self.rows.shape()[0];
        match self.count {
            Some(count) => b.iota(n).less(count),
            None => b
                .constant(crate::tensor::Tensor::scalar(true))
                .broadcast(&[n]),
        }
    }

    /// The rows that a boolean mask selects, `offset` subtracted from their indices.
    fn filtered(self, mask: Value<'g>, offset: usize, length: usize) -> IndexedSlices<'g> {
        let [positions, count] = mask.compact();
        let b = self.rows.builder();
        let indices =
            self.indices.cast(DType::I64).take(positions) - b.int(DType::I64, offset as i64);
        // Positions beyond the count are those of some other row, whose index may be out of range.
        let indices = b
            .iota(indices.shape()[0])
            .less(count)
            .select(indices, b.int(DType::I64, 0));
        IndexedSlices {
            indices,
            rows: self.rows.take(positions),
            length,
            count: Some(count),
        }
    }

    /// The sum of several sparse gradients: their concatenation.
    pub(super) fn sum(b: &'g Builder, terms: &[IndexedSlices<'g>]) -> IndexedSlices<'g> {
        let indices: Vec<Value<'g>> = terms.iter().map(|p| p.indices.cast(DType::I64)).collect();
        let rows: Vec<Value<'g>> = terms.iter().map(|p| p.rows).collect();
        let length = terms[0].length;
        let all = IndexedSlices {
            indices: b.concat(&indices, 0),
            rows: b.concat(&rows, 0),
            length,
            count: None,
        };
        if terms.iter().all(|p| p.count.is_none()) {
            return all;
        }
        let masks: Vec<Value<'g>> = terms.iter().map(|p| p.valid_mask()).collect();
        all.filtered(b.concat(&masks, 0), 0, length)
    }

    /// The VJP of a concatenation along the leading dimension: to each operand the rows that are its own.
    pub(super) fn split(
        self,
        operands: &[Value<'g>],
        needs_grad: &[bool],
    ) -> Vec<Option<Cotangent<'g>>> {
        let b = self.rows.builder();
        let indices = self.indices.cast(DType::I64);
        let mut offset = 0;
        let mut cotangents = Vec::new();
        for (operand, needed) in operands.iter().zip(needs_grad) {
            let length = operand.shape()[0];
            let at = |n: usize| b.int(DType::I64, n as i64);
            cotangents.push(needed.then(|| {
                let own = indices
                    .greater_equal(at(offset))
                    .logical_and(indices.less(at(offset + length)));
                Cotangent::Sparse(self.filtered(own.logical_and(self.valid_mask()), offset, length))
            }));
            offset += length;
        }
        cotangents
    }
}
