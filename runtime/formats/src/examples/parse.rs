//! The example parser (`tf.io.parse_example`): decodes features straight from the wire format into the columns of a batch.

use std::sync::Arc;

use super::batch::{Batch, SlotColumn};
use super::entries::{FeatureFinder, Span};
use super::list::{DecodedList, ListError, append, append_short_list};
use super::schema::{Schema, Slot, SlotKind};
use crate::error::{FileKind, FormatError, Result};
use crate::wire::WireError;

/// Parses examples into batches.
///
/// Its buffers are reused: once they have grown to the size of a batch, nothing is allocated for a record or a feature.
///
/// ```
/// use trainspec_formats::examples::{Dtype, ExampleParser, FeatureSpec, Schema, encode, example};
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let schema = Schema::new([("label", FeatureSpec::fixed(Dtype::Int64, []))])?;
/// let mut parser = ExampleParser::new(&schema);
/// let error = parser.push(&encode(&example([("label", 0.5_f32.into())]))).unwrap_err();
/// assert_eq!(error.cause, "record 0: feature `label` holds float values, and int64 values are required");
/// assert_eq!(parser.rows(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ExampleParser {
    finder: FeatureFinder,
    batch: Batch,
    /// Whether the batch was returned, so that the next record begins another.
    given: bool,
}

impl ExampleParser {
    /// A parser of a schema's features.
    pub fn new(schema: &Schema) -> ExampleParser {
        ExampleParser {
            finder: FeatureFinder::new(schema.0.slots.iter().map(|slot| slot.key.as_str())),
            batch: Batch::new(&schema.0),
            given: false,
        }
    }

    /// The number of records in the batch so far.
    pub fn rows(&self) -> usize {
        match self.given {
            true => 0,
            false => self.batch.rows,
        }
    }

    /// Adds an example. One that is refused leaves the batch as it was.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        self.push_field(record, 1)
    }

    /// Completes the batch. The next record begins another.
    pub fn finish(&mut self) -> Result<&Batch> {
        self.begin();
        self.given = true;
        self.batch.complete()?;
        Ok(&self.batch)
    }

    /// Completes the batch and swaps it with another, whose buffers are reused for the next (double buffering). So one batch can be read
    /// while the next is parsed; [`Schema::batch`] makes the first.
    pub fn finish_into(&mut self, other: &mut Batch) -> Result<()> {
        if !Arc::ptr_eq(&self.batch.plan, &other.plan) {
            let cause = "the batch to swap with is of another schema";
            return Err(FormatError::invalid(FileKind::Example, cause));
        }
        self.finish()?;
        std::mem::swap(&mut self.batch, other);
        Ok(())
    }

    /// Decodes one example as a batch of its own.
    pub fn parse(&mut self, record: &[u8]) -> Result<&Batch> {
        self.given = true;
        self.push(record)?;
        self.finish()
    }

    /// Adds the features that a field of a message holds.
    pub(super) fn push_field(&mut self, record: &[u8], field: u32) -> Result<()> {
        self.begin();
        let row = self.batch.rows;
        if let Err(broken) = self.finder.find(record, field) {
            return Err(no_example(row, broken));
        }
        let batch = &mut self.batch;
        let columns = batch.plan.slots.iter().zip(&mut batch.slots);
        for (number, (slot, column)) in columns.enumerate() {
            let span = self.finder.found(number);
            if let Some(span) = span
                && append_fast(span.of(record), slot, column)
            {
                continue;
            }
            if let Err(error) = decode(record, row, span, slot, column) {
                self.batch.truncate(row);
                return Err(error);
            }
        }
        self.batch.rows += 1;
        Ok(())
    }

    /// Removes the last record.
    pub(super) fn pop(&mut self) {
        self.batch.truncate(self.batch.rows - 1);
    }

    /// Begins another batch.
    pub(super) fn restart(&mut self) {
        self.given = true;
        self.begin();
    }

    /// The current batch.
    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    fn begin(&mut self) {
        if self.given {
            self.batch.truncate(0);
            self.given = false;
        }
    }
}

/// Fast path: appends the values of a key if they are few and in the common encoding; otherwise returns false.
#[inline(always)]
fn append_fast(feature: &[u8], slot: &Slot, column: &mut SlotColumn) -> bool {
    let appended = append_short_list(feature, &mut column.values);
    match (&slot.kind, appended) {
        (_, 0) => false,
        (SlotKind::Fixed { elements, .. }, count) => {
            if *elements != count {
                column.values.truncate(column.values.len() - count);
                return false;
            }
            true
        }
        (SlotKind::List { multiple, .. }, count) => {
            if count % multiple != 0 {
                column.values.truncate(column.values.len() - count);
                return false;
            }
            column.ends.push(column.values.len());
            true
        }
    }
}

/// Appends the values of a key.
#[inline(never)]
fn decode(
    record: &[u8],
    row: usize,
    span: Option<Span>,
    slot: &Slot,
    column: &mut SlotColumn,
) -> Result<()> {
    let most = match &slot.kind {
        SlotKind::Fixed { elements, .. } => *elements,
        SlotKind::List { .. } => usize::MAX,
    };
    let held = match span {
        None => DecodedList::Absent,
        Some(span) => match append(span.of(record), &mut column.values, most) {
            Ok(held) => held,
            Err(failed) => return Err(unreadable(row, slot, span, failed)),
        },
    };
    match (&slot.kind, held) {
        (SlotKind::Fixed { elements, .. }, DecodedList::Values(count)) if count == *elements => {}
        (SlotKind::Fixed { elements, .. }, DecodedList::Values(count)) => {
            let cause = format!("holds {count} {} values, and not {elements}", slot.dtype);
            return Err(wrong(row, slot, span, &cause));
        }
        (SlotKind::Fixed { default, .. }, DecodedList::Absent) => match default {
            Some(default) => column.values.extend(default, 0..default.len()),
            None => {
                let cause = format!("({}) is required and is not there", slot.dtype);
                return Err(wrong(row, slot, span, &cause));
            }
        },
        (SlotKind::List { multiple, .. }, DecodedList::Values(count)) if count % multiple != 0 => {
            let dtype = slot.dtype;
            let cause = format!("holds {count} {dtype} values, which is no multiple of {multiple}");
            return Err(wrong(row, slot, span, &cause));
        }
        (SlotKind::List { .. }, DecodedList::Values(_) | DecodedList::Absent) => {
            column.ends.push(column.values.len());
        }
        (_, DecodedList::OtherType(found)) => {
            let expected = slot.dtype;
            let cause = format!("holds {found} values, and {expected} values are required");
            return Err(wrong(row, slot, span, &cause));
        }
    }
    Ok(())
}

#[cold]
pub(super) fn no_example(row: usize, broken: WireError) -> FormatError {
    let cause = format!("record {row} is no example: {}", broken.cause);
    FormatError::invalid(FileKind::Example, cause).at(broken.at as u64)
}

#[cold]
fn unreadable(row: usize, slot: &Slot, span: Span, failed: ListError) -> FormatError {
    let (error, at) = match failed {
        ListError::Wire(broken) => {
            let error = FormatError::invalid(FileKind::Example, broken.cause);
            (error, broken.at)
        }
        ListError::Memory(error) => (error, 0),
    };
    let place = format!("record {row}: feature `{}`", slot.key);
    error.about(place).at((span.start() + at) as u64)
}

#[cold]
fn wrong(row: usize, slot: &Slot, span: Option<Span>, cause: &str) -> FormatError {
    let cause = format!("record {row}: feature `{}` {cause}", slot.key);
    let error = FormatError::invalid(FileKind::Example, cause);
    match span {
        Some(span) => error.at(span.start() as u64),
        None => error,
    }
}
