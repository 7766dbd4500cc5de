//! Gradients that are zero but for some rows.

use crate::autodiff::Cotangent;
use crate::build::{Builder, Value};
use crate::types::DType;

/// A gradient that is zero but for some rows; where a position is repeated, its rows add up.
#[derive(Debug, Clone, Copy)]
pub struct IndexedSlices<'g> {
    /// The positions, a vector.
    pub indices: Value<'g>,
    /// A row for each.
    pub rows: Value<'g>,
    /// How many rows the whole has.
    pub length: usize,
    /// How many of the positions count (an i64), where not all of them do.
    pub count: Option<Value<'g>>,
}

impl<'g> IndexedSlices<'g> {
    /// The whole gradient.
    pub(super) fn dense(self) -> Value<'g> {
        let mut ty = self.rows.ty();
        ty.shape[0] = self.length;
        let rows = self.masked().rows;
        rows.builder()
            .full(&ty, 0.0)
            .scatter_add(self.indices, rows)
    }

    /// The same with 0 in the rows that do not count.
    pub fn masked(self) -> IndexedSlices<'g> {
        if self.count.is_none() {
            return self;
        }
        let mut along = vec![1; self.rows.rank()];
        along[0] = self.rows.shape()[0];
        let rows = self
            .counts()
            .reshape(&along)
            .select(self.rows, self.rows.like(0.0));
        IndexedSlices { rows, ..self }
    }

    /// Each position once, with the sum of its rows. All have a count.
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

    /// Which positions count.
    fn counts(self) -> Value<'g> {
        let b = self.rows.builder();
        let n = self.rows.shape()[0];
        match self.count {
            Some(count) => b.iota(n).less(count),
            None => b
                .constant(crate::tensor::Tensor::scalar(true))
                .broadcast(&[n]),
        }
    }

    /// Those for which a truth holds, their positions less by `offset`.
    fn only(self, which: Value<'g>, offset: usize, length: usize) -> IndexedSlices<'g> {
        let [places, count] = which.compact();
        let b = self.rows.builder();
        let indices = self.indices.cast(DType::I64).take(places) - b.int(DType::I64, offset as i64);
        // Places behind the count are those of some other row, whose position may be out of range.
        let indices = b
            .iota(indices.shape()[0])
            .less(count)
            .select(indices, b.int(DType::I64, 0));
        IndexedSlices {
            indices,
            rows: self.rows.take(places),
            length,
            count: Some(count),
        }
    }

    /// The sum of several.
    pub(super) fn sum(b: &'g Builder, parts: &[IndexedSlices<'g>]) -> IndexedSlices<'g> {
        let indices: Vec<Value<'g>> = parts.iter().map(|p| p.indices.cast(DType::I64)).collect();
        let rows: Vec<Value<'g>> = parts.iter().map(|p| p.rows).collect();
        let length = parts[0].length;
        let all = IndexedSlices {
            indices: b.concat(&indices, 0),
            rows: b.concat(&rows, 0),
            length,
            count: None,
        };
        if parts.iter().all(|p| p.count.is_none()) {
            return all;
        }
        let counts: Vec<Value<'g>> = parts.iter().map(|p| p.counts()).collect();
        all.only(b.concat(&counts, 0), 0, length)
    }

    /// What flows to tensors that were put one after another along their leading dimension: to each the rows that are its own.
    pub(super) fn split(
        self,
        operands: &[Value<'g>],
        wants: &[bool],
    ) -> Vec<Option<Cotangent<'g>>> {
        let b = self.rows.builder();
        let indices = self.indices.cast(DType::I64);
        let mut offset = 0;
        let mut pulled = Vec::new();
        for (operand, wanted) in operands.iter().zip(wants) {
            let length = operand.shape()[0];
            let at = |n: usize| b.int(DType::I64, n as i64);
            pulled.push(wanted.then(|| {
                let own = indices
                    .greater_equal(at(offset))
                    .logical_and(indices.less(at(offset + length)));
                Cotangent::Sparse(self.only(own.logical_and(self.counts()), offset, length))
            }));
            offset += length;
        }
        pulled
    }
}
