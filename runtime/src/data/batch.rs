//! `batch`: consecutive records stacked along a new first dimension (`Dataset.batch`, `padded_batch`).

use std::sync::Arc;

use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{Span, Tensor};
use trainspec_compiler::typed::{self, CountedFeature, Padding, Remainder};

use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::origins::Origins;
use crate::data::rows::{Column, each_data};
use crate::data::{Position, Records, Stage, count_names};
use crate::memory::{self, Growth};
use crate::{DataError, Error};

/// Consecutive records as batches.
pub(super) struct Batch {
    inner: Box<dyn Stage>,
    settings: typed::Batch,
    remainder: Remainder,
    size: usize,
    span: Span,
}

impl Batch {
    pub(super) fn new(
        inner: Box<dyn Stage>,
        settings: typed::Batch,
        remainder: Remainder,
        span: Span,
    ) -> Batch {
        Batch {
            inner,
            size: usize::try_from(settings.size).unwrap_or(usize::MAX),
            settings,
            remainder,
            span,
        }
    }

    /// The next `size` records, or those that are left; `None` where there are none.
    fn collect(&mut self) -> Result<Option<Block>, Error> {
        let mut strings = Growth::new("a batch", 1, "make the batch smaller");
        let Some(first) = self.inner.next(self.size.min(MAX_BLOCK_ROWS))? else {
            return Ok(None);
        };
        strings.add(first.string_bytes())?;
        if first.rows() == self.size {
            return Ok(Some(first));
        }
        let row_bytes = (first.bytes() - first.string_bytes()).div_ceil(first.rows() as u64);
        let mut capacity = self.room(first.rows(), row_bytes)?;
        let (columns, mut origins) = first.into_columns();
        let column = |(name, values): (Arc<str>, Tensor)| {
            let mut column = Column::like(&values, capacity);
            column.extend(&values, 0..values.shape()[0]);
            (name, column)
        };
        let mut columns: Vec<(Arc<str>, Column)> = columns.into_iter().map(column).collect();
        while origins.len() < self.size {
            let missing = self.size - origins.len();
            let Some(block) = self.inner.next(missing.min(MAX_BLOCK_ROWS))? else {
                break;
            };
            strings.add(block.string_bytes())?;
            if origins.len() + block.rows() > capacity {
                capacity = self.room(origins.len() + block.rows(), row_bytes)?;
                columns
                    .iter_mut()
                    .for_each(|(_, column)| column.reserve(capacity));
            }
            for ((_, column), (_, from)) in columns.iter_mut().zip(block.columns()) {
                column.extend(from, 0..block.rows());
            }
            origins.append(&block.origins);
        }
        let columns = columns.into_iter();
        let columns = columns.map(|(name, column)| (name, column.into_tensor()));
        Ok(Some(Block::records(columns.collect(), origins)))
    }

    /// For how many records memory is reserved where that many are there: of a large batch for twice as many, where there is so much.
    fn room(&self, rows: usize, row_bytes: u64) -> Result<usize, Error> {
        let fits = |rows: usize| {
            let bytes = row_bytes.saturating_mul(rows as u64);
            let buffer = (format!("{rows} records"), bytes);
            memory::ensure_data("a batch", vec![buffer], "make the batch smaller")
        };
        let many = self.size.min(rows.saturating_mul(2).max(MAX_BLOCK_ROWS));
        match fits(many) {
            Ok(()) => Ok(many),
            Err(_) if rows < many => fits(rows).map(|()| rows),
            Err(error) => Err(error),
        }
    }
}

/// Records as a batch: features of varying length are padded, or must have one length. A feature that is named is padded to a length of
/// its own, or to its capacity.
pub(super) fn join(
    settings: &typed::Batch,
    mut rows: Block,
    padded: Option<(&str, Option<i64>)>,
    span: Span,
) -> Result<Block, Error> {
    for CountedFeature { name, axes } in &settings.counted {
        let counts = count_names(name, axes.len());
        let counted = counts.iter().map(|count| rows.remove(count));
        let Some(lengths) = counted.collect::<Option<Vec<Tensor>>>() else {
            continue;
        };
        let lengths: Vec<Vec<i64>> = lengths.iter().map(Tensor::to_i64s).collect();
        if settings.padding != Padding::None
            && let Some(values) = rows.get(name)
        {
            let copy = (format!("`{name}`, padded"), values.ty().bytes());
            memory::ensure_data("a batch", vec![copy], "make the batch smaller")?;
            let padded = pad(values, axes, &lengths);
            rows.set(&Arc::from(name.as_str()), padded);
        }
        let capacity = |axis: usize| {
            let column = rows
                .get(name)
                .and_then(|values| values.shape().get(axis + 1));
            column.map_or(0, |n| *n as i64)
        };
        let own = padded.filter(|(feature, _)| feature == name);
        let mut joined = Vec::new();
        for (i, (lengths, axis)) in lengths.iter().zip(axes).enumerate() {
            let first = lengths.first().copied().unwrap_or(0);
            joined.push(match (settings.padding, own) {
                (Padding::Capacity, _) => continue,
                (Padding::Longest, Some((_, length))) if i == 0 => {
                    length.unwrap_or_else(|| capacity(*axis))
                }
                (Padding::Longest, _) => lengths.iter().copied().max().unwrap_or(0),
                (Padding::None, _) => match lengths.iter().find(|n| **n != first) {
                    Some(other) => return Err(uneven(name, first, *other, span)),
                    None => first,
                },
            });
        }
        for (count, length) in counts.into_iter().zip(joined) {
            rows.set(&Arc::from(count), Tensor::scalar(length));
        }
    }
    let (columns, origins): (_, Origins) = rows.into_columns();
    Ok(Block::batch(columns, origins))
}

/// The error of a batch with records of different lengths.
fn uneven(name: &str, first: i64, other: i64, span: Span) -> Error {
    let message =
        format!("records of one batch have `{name}` of different lengths: {first} and {other}");
    let error = DataError::new(message).at(span);
    error
        .help("`pad: true` fills them up to the capacity")
        .into()
}

impl Stage for Batch {
    fn next(&mut self, _: usize) -> Result<Option<Block>, Error> {
        let Some(rows) = self.collect()? else {
            return Ok(None);
        };
        match (rows.rows(), self.remainder) {
            (n, Remainder::Drop) if n < self.size => Ok(None),
            (n, Remainder::Error) if n < self.size => {
                let message = format!("the last batch has {n} records, and not {}", self.size);
                let error = DataError::new(message)
                    .at(self.span)
                    .help("`remainder: drop` leaves it out, `remainder: keep` takes it as it is");
                Err(error.into())
            }
            (_, Remainder::Drop | Remainder::Keep | Remainder::Error) => {
                join(&self.settings, rows, None, self.span).map(Some)
            }
        }
    }

    fn restart(&mut self) {
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.inner.seek(at)
    }
}

/// Pads a feature: zeros past the lengths of each record, along each of `axes`.
fn pad(values: &Tensor, axes: &[usize], lengths: &[Vec<i64>]) -> Tensor {
    let shape = &values.shape()[1..];
    let row: usize = shape.iter().product();
    let strides: Vec<usize> = axes
        .iter()
        .map(|axis| shape[axis + 1..].iter().product())
        .collect();
    let inside = |i: usize| {
        let (record, element) = (i / row, i % row);
        (axes.iter().zip(&strides).zip(lengths)).all(|((axis, stride), lengths)| {
            ((element / stride) % shape[*axis]) < lengths[record].max(0) as usize
        })
    };
    let data = each_data!(values.data(), values => {
        let masked = |(i, x): (usize, &_)| if inside(i) { Clone::clone(x) } else { Default::default() };
        values.iter().enumerate().map(masked).collect()
    });
    Tensor::of(values.shape(), data)
}
