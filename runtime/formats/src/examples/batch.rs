//! Batches of examples: one column per feature.

use std::ops::Range;
use std::sync::Arc;

use super::ragged::{self, Level, Ragged, RowPartition};
use super::schema::{Output, Plan, SlotKind, about};
use super::sparse::Sparse;
use super::values::Values;
use crate::error::{Code, FileKind, FormatError, Result};

/// The maximum number of values of a padded column.
const MAX_PADDED_VALUES: usize = 1 << 28;

/// The features of several records.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(super) plan: Arc<Plan>,
    pub(super) rows: usize,
    pub(super) slots: Vec<SlotColumn>,
    /// The columns derived from slots once the batch is complete, one per feature.
    derived: Vec<DerivedColumn>,
}

/// The values of a key.
#[derive(Debug, Clone)]
pub(super) struct SlotColumn {
    pub(super) values: Values,
    /// The end of each row's values, if rows differ in length.
    pub(super) ends: Vec<usize>,
}

impl SlotColumn {
    /// The range of a row's values, where rows differ in length.
    pub(super) fn range(&self, row: usize) -> Range<usize> {
        range(&self.ends, row)
    }
}

pub(super) fn range(ends: &[usize], row: usize) -> Range<usize> {
    let start = match row {
        0 => 0,
        _ => ends[row - 1],
    };
    start..ends[row]
}

/// A column derived from slots.
#[derive(Debug, Clone)]
enum DerivedColumn {
    /// None: the slot is the column.
    None,
    Padded {
        values: Values,
        padded_length: usize,
    },
    Sparse(Sparse),
    Ragged {
        levels: Vec<Level>,
        inner: Vec<usize>,
    },
}

/// A column of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column<'b> {
    /// Of a fixed shape, or padded.
    Dense(Dense<'b>),
    /// Any number of values per row.
    VarLen(VarLen<'b>),
    /// Values with indices (COO).
    Sparse(&'b Sparse),
    /// Nested rows of different lengths.
    Ragged(Ragged<'b>),
}

/// A dense column: the concatenation of all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dense<'b> {
    /// The values.
    pub values: &'b Values,
    /// The number of rows.
    pub rows: usize,
    /// The number of elements of each row after padding; `None` if the shape is fixed.
    pub padded_length: Option<usize>,
    /// The shape of an element, or of a row if its shape is fixed.
    pub inner: &'b [usize],
}

impl Dense<'_> {
    /// The shape of the column.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = vec![self.rows];
        shape.extend(self.padded_length);
        shape.extend_from_slice(self.inner);
        shape
    }
}

/// A column with any number of values per row; to TensorFlow, a sparse tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarLen<'b> {
    /// The values of all rows.
    pub values: &'b Values,
    /// The end of each row's values.
    pub ends: &'b [usize],
}

impl VarLen<'_> {
    /// The range of a row's values.
    pub fn row(&self, row: usize) -> Range<usize> {
        range(self.ends, row)
    }

    /// The number of values of the longest row.
    pub fn max_row_length(&self) -> usize {
        let lengths = (0..self.ends.len()).map(|row| self.row(row).len());
        lengths.max().unwrap_or(0)
    }

    /// The indices of a sparse tensor: row and position in the row of each value, concatenated.
    pub fn indices(&self) -> Vec<i64> {
        let rows = 0..self.ends.len();
        rows.flat_map(|row| {
            (0..self.row(row).len()).flat_map(move |index| [row as i64, index as i64])
        })
        .collect()
    }

    /// The dense shape of a sparse tensor: the number of rows, and the length of the longest.
    pub fn dense_shape(&self) -> [i64; 2] {
        [self.ends.len() as i64, self.max_row_length() as i64]
    }
}

impl Batch {
    pub(super) fn new(plan: &Arc<Plan>) -> Batch {
        let slots = plan.slots.iter().map(|slot| SlotColumn {
            values: Values::new(slot.dtype),
            ends: Vec::new(),
        });
        let derived = plan.outputs.iter().map(|output| match output {
            Output::Fixed { .. } | Output::VarLen { .. } => DerivedColumn::None,
            Output::Sequence { slot, .. } => DerivedColumn::Padded {
                values: Values::new(plan.slots[*slot].dtype),
                padded_length: 0,
            },
            Output::Sparse { values, .. } => {
                DerivedColumn::Sparse(Sparse::new(Values::new(plan.slots[*values].dtype)))
            }
            Output::Ragged { .. } => DerivedColumn::Ragged {
                levels: Vec::new(),
                inner: Vec::new(),
            },
        });
        Batch {
            rows: 0,
            slots: slots.collect(),
            derived: derived.collect(),
            plan: plan.clone(),
        }
    }

    /// How many records it holds.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The names of its columns, in order.
    pub fn names(&self) -> &[String] {
        &self.plan.names
    }

    /// The column of a feature.
    pub fn column(&self, name: &str) -> Option<Column<'_>> {
        let index = self.plan.names.iter().position(|known| known == name)?;
        Some(self.column_at(index))
    }

    /// The column at an index of the schema.
    ///
    /// # Panics
    /// If the schema has fewer features.
    pub fn column_at(&self, index: usize) -> Column<'_> {
        let rows = self.rows;
        match (&self.plan.outputs[index], &self.derived[index]) {
            (Output::Fixed { slot, shape }, DerivedColumn::None) => Column::Dense(Dense {
                values: &self.slots[*slot].values,
                rows,
                padded_length: None,
                inner: shape,
            }),
            (Output::VarLen { slot }, DerivedColumn::None) => Column::VarLen(VarLen {
                values: &self.slots[*slot].values,
                ends: &self.slots[*slot].ends,
            }),
            (
                Output::Sequence { shape, .. },
                DerivedColumn::Padded {
                    values,
                    padded_length,
                },
            ) => Column::Dense(Dense {
                values,
                rows,
                padded_length: Some(*padded_length),
                inner: shape,
            }),
            (Output::Sparse { .. }, DerivedColumn::Sparse(sparse)) => Column::Sparse(sparse),
            (Output::Ragged { values, .. }, DerivedColumn::Ragged { levels, inner }) => {
                Column::Ragged(Ragged {
                    values: &self.slots[*values].values,
                    levels,
                    inner,
                })
            }
            _ => unreachable!("a derived column follows from the schema"),
        }
    }

    /// Drops the rows after the first `rows`.
    pub(super) fn truncate(&mut self, rows: usize) {
        for (slot, column) in self.plan.slots.iter().zip(&mut self.slots) {
            let count = match &slot.kind {
                SlotKind::Fixed { elements, .. } => rows * elements,
                SlotKind::List { .. } => {
                    column.ends.truncate(rows);
                    column.ends.last().copied().unwrap_or(0)
                }
            };
            column.values.truncate(count);
        }
        self.rows = rows;
    }

    /// Computes the derived columns.
    pub(super) fn complete(&mut self) -> Result<()> {
        let outputs = self.plan.outputs.iter().zip(&self.plan.names);
        for ((output, name), derived) in outputs.zip(&mut self.derived) {
            let slots = &self.slots;
            match (output, derived) {
                (
                    Output::Sequence {
                        slot,
                        shape,
                        padding,
                    },
                    DerivedColumn::Padded {
                        values,
                        padded_length,
                    },
                ) => {
                    let column = &slots[*slot];
                    let ends = (0..self.rows).map(|row| column.range(row));
                    let stride: usize = shape.iter().product();
                    *padded_length =
                        pad(name, &column.values, ends, stride, padding.as_ref(), values)?;
                }
                (
                    Output::Sparse {
                        indices,
                        values,
                        sizes,
                        sorted,
                    },
                    DerivedColumn::Sparse(sparse),
                ) => {
                    let indices: Vec<&SlotColumn> =
                        indices.iter().map(|slot| &slots[*slot]).collect();
                    sparse.merge(name, &indices, &slots[*values], sizes, *sorted)?;
                }
                (
                    Output::Ragged { values, partitions },
                    DerivedColumn::Ragged { levels, inner },
                ) => {
                    let cuts: Vec<RowPartition<'_>> = partitions
                        .iter()
                        .map(|(partition, slot)| RowPartition {
                            partition,
                            column: slot.map(|slot| &slots[slot]),
                        })
                        .collect();
                    ragged::levels(name, &slots[*values].ends, &cuts, levels, inner)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Pads rows of different lengths to the longest; returns the padded length in elements of `stride` values.
pub(super) fn pad(
    name: &str,
    from: &Values,
    rows: impl Iterator<Item = Range<usize>> + Clone,
    stride: usize,
    padding: Option<&Values>,
    into: &mut Values,
) -> Result<usize> {
    into.clear();
    let padded_length = rows.clone().map(|row| row.len()).max().unwrap_or(0);
    let count = rows.clone().count();
    if padded_length
        .checked_mul(count)
        .is_none_or(|all| all > MAX_PADDED_VALUES)
    {
        let error = about(
            name,
            format!(
                "{count} rows of {padded_length} values each are more than the {MAX_PADDED_VALUES} that are allowed"
            ),
        );
        return Err(FormatError::new(
            Code::ResourceExhausted,
            FileKind::Example,
            error.cause,
        ));
    }
    let bytes = rows.clone().map(|row| {
        let padding = match padding {
            Some(padding) => padding.string_bytes(0..padding.len().min(1)),
            None => 0,
        };
        from.string_bytes(row.clone()) + padding * (padded_length - row.len())
    });
    let reserved = into.try_reserve(padded_length * count, bytes.sum());
    reserved.map_err(|e| e.about(format_args!("feature `{name}`")))?;
    for row in rows {
        let missing = padded_length - row.len();
        into.extend(from, row);
        into.fill(padding, missing);
    }
    Ok(padded_length / stride)
}
