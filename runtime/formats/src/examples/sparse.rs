//! Sparse columns (`tf.io.SparseFeature`): values whose indices are in other features.

use super::batch::SlotColumn;
use super::schema::about;
use super::values::Values;
use crate::error::{FileKind, Result};
use crate::memory;

/// A sparse column (`tf.sparse.SparseTensor`, COO): each value with its row and its indices.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    /// The values.
    pub values: Values,
    /// The row and the indices of each value, concatenated.
    pub indices: Vec<i64>,
    /// The number of rows and the extent of each dimension.
    pub dense_shape: Vec<i64>,
    /// The sorting permutation of a row's values.
    order: Vec<usize>,
}

impl Sparse {
    pub(super) fn new(values: Values) -> Sparse {
        Sparse {
            values,
            indices: Vec::new(),
            dense_shape: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The number of indices of a value: its row, and one per dimension.
    pub fn rank(&self) -> usize {
        self.dense_shape.len()
    }

    /// Merges the columns of a batch.
    pub(super) fn merge(
        &mut self,
        name: &str,
        indices: &[&SlotColumn],
        values: &SlotColumn,
        sizes: &[i64],
        sorted: bool,
    ) -> Result<()> {
        self.values.clear();
        self.indices.clear();
        self.dense_shape.clear();
        self.dense_shape.push(values.ends.len() as i64);
        self.dense_shape.extend_from_slice(sizes);
        let count = values.values.len();
        let bytes = values.values.string_bytes(0..count);
        let reserved = self.values.try_reserve(count, bytes).and_then(|()| {
            let numbers = count.saturating_mul(1 + indices.len());
            memory::reserve(FileKind::Example, &mut self.indices, numbers)?;
            memory::reserve(FileKind::Example, &mut self.order, count)
        });
        reserved.map_err(|e| e.about(format_args!("feature `{name}`")))?;
        for row in 0..values.ends.len() {
            let range = values.range(row);
            for column in indices {
                let found = column.range(row).len();
                if found != range.len() {
                    let cause = format!(
                        "record {row} has {} values and {found} indices",
                        range.len()
                    );
                    return Err(about(name, cause));
                }
            }
            let index_at = |column: &SlotColumn, index: usize| {
                let all = column.values.int64s().unwrap_or_default();
                all[column.range(row).start + index]
            };
            self.order.clear();
            self.order.extend(0..range.len());
            if !sorted {
                // A stable sort: values with the same indices stay in order.
                self.order.sort_by(|a, b| {
                    let key = |index: usize| indices.iter().map(move |c| index_at(c, index));
                    key(*a).cmp(key(*b))
                });
            }
            for index in &self.order {
                self.indices.push(row as i64);
                self.indices
                    .extend(indices.iter().map(|column| index_at(column, *index)));
                let from = range.start + index;
                self.values.extend(&values.values, from..from + 1);
            }
        }
        Ok(())
    }
}
