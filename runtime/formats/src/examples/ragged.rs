//! Ragged columns (`tf.RaggedTensor`): nested row partitions.

use super::batch::SlotColumn;
use super::schema::{Partition, about};
use super::values::Values;
use crate::error::{FileKind, Result};
use crate::memory;

/// A ragged column.
///
/// The first level partitions the rows of the batch, the last the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ragged<'b> {
    /// The innermost values.
    pub values: &'b Values,
    /// The row partitions, from the outermost to the innermost.
    pub levels: &'b [Level],
    /// The uniform inner shape; mostly empty, for single values.
    pub inner: &'b [usize],
}

/// One row partition of a ragged column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    /// The row splits: the start of each row, and the end of the last.
    Splits(Vec<i64>),
    /// Rows of a uniform length.
    Uniform {
        /// The length of each row.
        length: usize,
        /// The number of rows.
        rows: usize,
    },
}

/// A row partition of a feature, with the column that it reads.
pub(super) struct RowPartition<'b> {
    pub(super) partition: &'b Partition,
    /// The column of integers; `None` for a uniform row length.
    pub(super) column: Option<&'b SlotColumn>,
}

/// Computes the levels of a ragged column whose rows have these ends, and the uniform inner shape.
///
/// TensorFlow checks less, and lets a row take values of another when its integers are inconsistent; here that is an error.
pub(super) fn levels(
    name: &str,
    ends: &[usize],
    cuts: &[RowPartition<'_>],
    levels: &mut Vec<Level>,
    inner: &mut Vec<usize>,
) -> Result<()> {
    levels.clear();
    inner.clear();
    // Each level takes at most the splits of its rows and of their parts, twice while it grows.
    let parts = cuts.iter().filter_map(|cut| Some(cut.column?.values.len()));
    let splits_bytes = parts
        .fold(ends.len(), usize::saturating_add)
        .saturating_mul(48);
    memory::check(FileKind::Example, splits_bytes)
        .map_err(|e| e.about(format_args!("feature `{name}`")))?;
    levels.push(Level::Splits(splits(ends)));
    // From the innermost to the outermost: each partitions the rows of the batch, and the levels so far are inside.
    for cut in cuts.iter().rev() {
        let Level::Splits(outer) = levels.remove(0) else {
            unreachable!("the rows of a batch differ");
        };
        if let Partition::UniformRowLength(length) = cut.partition {
            let step = *length as i64;
            if let Some(row) = outer
                .windows(2)
                .position(|pair| (pair[1] - pair[0]) % step != 0)
            {
                let count = outer[row + 1] - outer[row];
                let cause =
                    format!("record {row} has {count} parts, which rows of {length} do not use up");
                return Err(about(name, cause));
            }
            let rows: Vec<i64> = outer.iter().map(|split| split / step).collect();
            match levels.is_empty() {
                true => inner.insert(0, *length),
                false => levels.insert(
                    0,
                    Level::Uniform {
                        length: *length,
                        rows: rows.last().map_or(0, |rows| *rows as usize),
                    },
                ),
            }
            levels.insert(0, Level::Splits(rows));
            continue;
        }
        let column = cut.column.expect("all others read a feature");
        let (rows, parts) = partition_rows(name, cut.partition, column, &outer)?;
        levels.insert(0, Level::Splits(parts));
        levels.insert(0, Level::Splits(rows));
    }
    Ok(())
}

pub(super) fn splits(ends: &[usize]) -> Vec<i64> {
    let ends = ends.iter().map(|end| *end as i64);
    std::iter::once(0).chain(ends).collect()
}

/// Partitions each row by integers: the splits of the rows, and the splits of their pieces.
fn partition_rows(
    name: &str,
    partition: &Partition,
    column: &SlotColumn,
    outer: &[i64],
) -> Result<(Vec<i64>, Vec<i64>)> {
    let all = column.values.int64s().unwrap_or_default();
    let (mut rows, mut parts) = (vec![0], vec![0]);
    for (row, pair) in outer.windows(2).enumerate() {
        let given = &all[column.range(row)];
        let (start, end) = (pair[0], pair[1]);
        let fail = |why: &str| Err(about(name, format!("record {row}: {why}")));
        let before = parts.len();
        match partition {
            Partition::RowSplits(_) => {
                if given.first().is_some_and(|first| *first != 0) {
                    return fail("its splits do not begin with 0");
                }
                let limits = given.iter().skip(1);
                parts.extend(limits.map(|limit| start.saturating_add(*limit)));
            }
            Partition::RowLimits(_) => {
                parts.extend(given.iter().map(|limit| start.saturating_add(*limit)));
            }
            Partition::RowStarts(_) => {
                if given.first().is_some_and(|first| *first != 0) {
                    return fail("its first row does not begin with its first part");
                }
                let limits = given.iter().skip(1).map(|next| start.saturating_add(*next));
                parts.extend(limits);
                parts.extend((!given.is_empty()).then_some(end));
            }
            Partition::RowLengths(_) => {
                let mut limit = start;
                parts.extend(given.iter().map(|length| {
                    limit = limit.saturating_add(*length);
                    limit
                }));
            }
            Partition::ValueRowIds(_) => {
                if given.len() as i64 != end - start {
                    return fail("it does not have a row for each of its parts");
                }
                let count = given.last().map_or(0, |last| last.saturating_add(1));
                // The number of empty rows is only bounded by the integers, so it is limited.
                if !(0..=MAX_EMPTY_ROWS - parts.len() as i64).contains(&count)
                    || !given.is_sorted()
                    || given.first().is_some_and(|f| *f < 0)
                {
                    return fail("the rows of its parts are not in order, or too many");
                }
                let mut index = 0;
                parts.extend((0..count).map(|number| {
                    index += given[index..].partition_point(|id| *id <= number);
                    start + index as i64
                }));
            }
            Partition::UniformRowLength(_) => unreachable!("it reads no feature"),
        }
        let limits = &parts[before - 1..];
        if !limits.is_sorted() || *limits.last().unwrap_or(&0) != end {
            return fail("its rows do not use up its parts in order");
        }
        rows.push(parts.len() as i64 - 1);
    }
    Ok((rows, parts))
}

/// The maximum number of empty rows in all records of a batch.
const MAX_EMPTY_ROWS: i64 = 1 << 24;
