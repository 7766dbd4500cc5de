//! Gathers, scatters, segment reductions and sorts.

use trainspec_ir::DType;
use trainspec_ir::build::Value;
use trainspec_ir::graph::Type;

use super::Mixer;

impl<'g> Mixer<'g, '_> {
    /// Row indices below `rows`, in any shape.
    fn positions(&mut self, rows: usize, shape: &[usize]) -> Value<'g> {
        let dtype = self.c.of(&[DType::I64, DType::I32]);
        let ids = self.source(dtype, shape);
        ids.floormod(ids.like(rows as f64))
    }

    pub(super) fn gather_scatter(&mut self) -> Value<'g> {
        let x = match self.c.below(3) {
            0 => self.any(),
            1 => self.floats(),
            _ => {
                // A trained embedding table.
                let n = self.c.of(&[7, 31, 100]);
                let width = self.c.of(&[3, 8, 1]);
                self.param(&Type::new(self.float, &[n, width]))
            }
        };
        let shape = x.shape();
        let rows = shape.first().copied().unwrap_or(0);
        if rows == 0 || x.dtype() == DType::Bool {
            return x.cast(self.float);
        }
        let picks = self.c.of(&[3, 9, 1, 31]);
        match self.c.below(9) {
            0 => {
                let at = self.positions(rows, &[picks]);
                x.take(at) + x.like(1.0)
            }
            1 => {
                let at = self.positions(rows, &[picks, 2]);
                let y = x.take_rows(at.reshape(&[picks * 2]));
                let y = y.cast(self.float);
                let shape = y.shape();
                y.reshape(&[&[picks, 2], &shape[1..]].concat()).mean(&[1])
            }
            2 => {
                let at = self.positions(rows, &[picks]);
                x.scatter_add(at, x.take(at))
            }
            3 => {
                let at = self.positions(rows, &[1]);
                let new = x.take(at) + x.take(at);
                x.scatter_set(at, new)
            }
            4 => {
                let ids = self.positions(3, &[rows]).cast(DType::I64);
                let max = x.segment_max(ids, 3);
                // An empty segment is so large in magnitude that sums with it lose all digits.
                max.maximum(max.like(-9.0))
            }
            5 => {
                let ids = self.positions(4, &[rows]).cast(DType::I64);
                let min = x.segment_min(ids, 4);
                min.minimum(min.like(9.0))
            }
            6 => {
                // A sparse update: deduplicated IndexedSlices.
                let at = self.positions(rows, &[picks]);
                let x = x.cast(self.float);
                let b = x.builder();
                let count = b.int(DType::I64, self.c.below(picks + 2) as i64);
                let [indices, sums, count] = x.take(at).sum_rows(at, count, rows);
                let new = x.take(indices) * 0.5 - sums;
                x.put_rows(indices, new, count)
            }
            7 => {
                let ids = self.positions(3, &[rows]).cast(DType::I64);
                let x = match x.dtype().is_float() {
                    // Not a number now and then, which all runs must report.
                    true => {
                        let x = x.tanh();
                        let finite = x.check_finite("a factor");
                        finite.broadcast(&x.shape()).select(x, -x)
                    }
                    false => x,
                };
                x.segment_prod(ids, 3)
            }
            _ => {
                // An index out of range now and then, which all runs must report.
                let at = self.source(DType::I64, &[1]);
                let low = if self.c.rarely(4) { 0 } else { -1_000_000_000 };
                let at = at
                    .maximum(at.like(low as f64))
                    .floormod(at.like(rows as f64));
                x.take(at.bounded(0, rows as i64, "a position"))
            }
        }
    }

    pub(super) fn order(&mut self) -> Value<'g> {
        let x = self.any();
        let x = match x.dtype() {
            DType::Bool => x.cast(DType::I32),
            _ => x,
        };
        let shape = x.shape();
        let n = x.ty().elements();
        if shape.is_empty() || n == 0 {
            return x + x;
        }
        let axis = self.c.below(shape.len());
        let flat = x.reshape(&[n]);
        match self.c.below(7) {
            0 => x.argmax(axis),
            1 => x.argmin(axis),
            2 => flat.take(flat.argsort(0, self.c.below(2) == 1)),
            3 => x.argsort(axis, self.c.below(2) == 1),
            4 => {
                let (exclusive, reverse) = (self.c.below(2) == 1, self.c.below(2) == 1);
                x.cumsum(axis, exclusive, reverse)
            }
            5 => {
                let [values, indices, count] = flat.unique();
                match self.c.below(3) {
                    0 => values,
                    1 => indices,
                    _ => count,
                }
            }
            _ => {
                let [indices, count] = flat.greater(flat.like(0.0)).compact();
                match self.c.below(2) {
                    0 => flat.take(indices),
                    _ => count,
                }
            }
        }
    }
}
