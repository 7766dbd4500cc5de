//! Parsing of sequence examples (`tf.io.parse_sequence_example`): a context, and feature lists with a feature for every step.

use std::ops::Range;
use std::sync::Arc;

use super::batch::{self, Batch, SlotColumn};
use super::entries::FeatureFinder;
use super::list::{DecodedList, ListError, append};
use super::parse::{ExampleParser, no_example};
use super::ragged::{self, Level, Ragged, RowPartition};
use super::schema::{Family, FeatureSpec, Output, Plan, Schema, Slot, SlotKind, about};
use super::values::Values;
use crate::error::{FileKind, FormatError, Result};
use crate::memory;
use crate::wire::{Value, WireError, WireReader};

/// The requested features of a sequence example.
#[derive(Debug, Clone)]
pub struct SequenceSchema {
    context: Schema,
    lists: Arc<Plan>,
}

impl SequenceSchema {
    /// Resolves the specs: of the context fixed, var-len and ragged features, of the lists sequences, var-len and ragged ones.
    pub fn new<K: Into<String>, L: Into<String>>(
        context: impl IntoIterator<Item = (K, FeatureSpec)>,
        lists: impl IntoIterator<Item = (L, FeatureSpec)>,
    ) -> Result<SequenceSchema> {
        let context = Schema::new(context)?;
        for (name, output) in context.0.names.iter().zip(&context.0.outputs) {
            if let Output::Sequence { .. } | Output::Sparse { .. } = output {
                return Err(about(name, "a context has no features of this form"));
            }
        }
        let lists = Plan::of(lists)?;
        for (name, output) in lists.names.iter().zip(&lists.outputs) {
            match output {
                Output::Fixed { .. } | Output::Sparse { .. } => {
                    return Err(about(name, "there are no lists of this form"));
                }
                Output::Sequence {
                    padding: Some(_), ..
                } => {
                    return Err(about(name, "a list has no default"));
                }
                Output::Sequence { .. } | Output::VarLen { .. } | Output::Ragged { .. } => {}
            }
        }
        Ok(SequenceSchema {
            context,
            lists: Arc::new(lists),
        })
    }
}

/// Parses sequence examples into batches.
///
/// ```
/// use trainspec_formats::examples::{
///     Dtype, FeatureSpec, ListColumn, SequenceParser, SequenceSchema, encode_sequence, sequence_example,
/// };
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let schema = SequenceSchema::new(
///     [("id", FeatureSpec::fixed(Dtype::Int64, []))],
///     [("tokens", FeatureSpec::sequence(Dtype::Int64, []))],
/// )?;
/// let mut parser = SequenceParser::new(&schema);
/// for (id, tokens) in [(1_i64, vec![7_i64, 8]), (2, vec![9])] {
///     let steps: Vec<_> = tokens.into_iter().map(Into::into).collect();
///     parser.push(&encode_sequence(&sequence_example([("id", id.into())], [("tokens", steps)])))?;
/// }
/// let batch = parser.finish()?;
/// let Some(ListColumn::Steps(tokens)) = batch.list("tokens") else { unreachable!() };
/// assert_eq!(tokens.lengths, [2, 1]);
/// assert_eq!(tokens.values.int64s(), Some(&[7, 8, 9, 0][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SequenceParser {
    context: ExampleParser,
    finder: FeatureFinder,
    plan: Arc<Plan>,
    slots: Vec<ListSlot>,
    derived: Vec<DerivedList>,
    rows: usize,
    given: bool,
}

/// The values of a list.
#[derive(Debug, Clone)]
struct ListSlot {
    /// The values, and the end of each step.
    steps: SlotColumn,
    /// The end of each row's steps.
    row_ends: Vec<usize>,
}

impl ListSlot {
    /// The range of a row's values.
    fn values_of(&self, row: usize) -> Range<usize> {
        let steps = batch::range(&self.row_ends, row);
        let at = |step: usize| match step {
            0 => 0,
            _ => self.steps.ends[step - 1],
        };
        at(steps.start)..at(steps.end)
    }

    fn truncate(&mut self, rows: usize) {
        self.row_ends.truncate(rows);
        self.steps
            .ends
            .truncate(self.row_ends.last().copied().unwrap_or(0));
        let count = self.steps.ends.last().copied().unwrap_or(0);
        self.steps.values.truncate(count);
    }
}

/// A column derived from a list once the batch is complete.
#[derive(Debug, Clone)]
enum DerivedList {
    None,
    Padded {
        values: Values,
        padded_length: usize,
        lengths: Vec<i64>,
    },
    Ragged {
        levels: Vec<Level>,
        inner: Vec<usize>,
    },
}

/// The features of several sequence examples.
#[derive(Debug, Clone, Copy)]
pub struct SequenceBatch<'b> {
    /// The context features.
    pub context: &'b Batch,
    parser: &'b SequenceParser,
}

/// A column of lists.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ListColumn<'b> {
    /// Of a fixed shape in every step, padded to the longest row.
    Steps(Steps<'b>),
    /// Any number of values per step.
    VarLen(VarLenSteps<'b>),
    /// Ragged: the first level partitions the steps of a row, the second the values of a step.
    Ragged(Ragged<'b>),
}

/// A dense column of lists.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps<'b> {
    /// The values, with each row padded by zeros or empty strings.
    pub values: &'b Values,
    /// The number of steps of each row.
    pub lengths: &'b [i64],
    /// The number of steps of the longest row.
    pub padded_length: usize,
    /// The shape of a step.
    pub inner: &'b [usize],
}

impl Steps<'_> {
    /// The shape of the column.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = vec![self.lengths.len(), self.padded_length];
        shape.extend_from_slice(self.inner);
        shape
    }
}

/// A column of lists with any number of values per step; to TensorFlow, a sparse tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarLenSteps<'b> {
    /// The values of all steps.
    pub values: &'b Values,
    /// The end of each step's values.
    pub step_ends: &'b [usize],
    /// The end of each row's steps.
    pub row_ends: &'b [usize],
}

impl VarLenSteps<'_> {
    /// The range of a row's steps.
    pub fn steps(&self, row: usize) -> Range<usize> {
        batch::range(self.row_ends, row)
    }

    /// The range of a step's values.
    pub fn step(&self, step: usize) -> Range<usize> {
        batch::range(self.step_ends, step)
    }

    /// The indices of a sparse tensor: row, step and position in the step of each value, concatenated.
    pub fn indices(&self) -> Vec<i64> {
        let mut indices = Vec::with_capacity(3 * self.values.len());
        for row in 0..self.row_ends.len() {
            for (number, step) in self.steps(row).enumerate() {
                for index in 0..self.step(step).len() {
                    indices.extend([row as i64, number as i64, index as i64]);
                }
            }
        }
        indices
    }

    /// The dense shape of a sparse tensor: the number of rows, of steps of the longest row, and of values of the longest step.
    pub fn dense_shape(&self) -> [i64; 3] {
        let rows = self.row_ends.len();
        let steps = (0..rows).map(|row| self.steps(row).len()).max();
        let values = (0..self.step_ends.len())
            .map(|step| self.step(step).len())
            .max();
        [
            rows as i64,
            steps.unwrap_or(0) as i64,
            values.unwrap_or(0) as i64,
        ]
    }
}

impl SequenceParser {
    /// A parser of a schema's features.
    pub fn new(schema: &SequenceSchema) -> SequenceParser {
        let plan = schema.lists.clone();
        let slots = plan.slots.iter().map(|slot| ListSlot {
            steps: SlotColumn {
                values: Values::new(slot.dtype),
                ends: Vec::new(),
            },
            row_ends: Vec::new(),
        });
        let derived = plan.outputs.iter().map(|output| match output {
            Output::Sequence { slot, .. } => DerivedList::Padded {
                values: Values::new(plan.slots[*slot].dtype),
                padded_length: 0,
                lengths: Vec::new(),
            },
            Output::Ragged { .. } => DerivedList::Ragged {
                levels: Vec::new(),
                inner: Vec::new(),
            },
            Output::VarLen { .. } | Output::Fixed { .. } | Output::Sparse { .. } => {
                DerivedList::None
            }
        });
        SequenceParser {
            context: ExampleParser::new(&schema.context),
            finder: FeatureFinder::new(plan.slots.iter().map(|slot| slot.key.as_str())),
            slots: slots.collect(),
            derived: derived.collect(),
            plan,
            rows: 0,
            given: false,
        }
    }

    /// The number of records in the batch so far.
    pub fn rows(&self) -> usize {
        match self.given {
            true => 0,
            false => self.rows,
        }
    }

    /// Adds a sequence example. One that is refused leaves the batch as it was.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        self.begin();
        let row = self.rows;
        self.context.push_field(record, 1)?;
        let added = match self.finder.find(record, 2) {
            Ok(()) => self.lists(record),
            Err(broken) => Err(no_example(row, broken)),
        };
        if added.is_err() {
            self.context.pop();
            self.slots.iter_mut().for_each(|slot| slot.truncate(row));
            return added;
        }
        self.rows += 1;
        Ok(())
    }

    /// Completes the batch. The next record begins another.
    pub fn finish(&mut self) -> Result<SequenceBatch<'_>> {
        self.begin();
        self.given = true;
        self.complete()?;
        self.context.finish()?;
        Ok(SequenceBatch {
            context: self.context.batch(),
            parser: self,
        })
    }

    /// Decodes one sequence example as a batch of its own.
    pub fn parse(&mut self, record: &[u8]) -> Result<SequenceBatch<'_>> {
        self.given = true;
        self.push(record)?;
        self.finish()
    }

    fn begin(&mut self) {
        if self.given {
            self.slots.iter_mut().for_each(|slot| slot.truncate(0));
            self.context.restart();
            self.rows = 0;
            self.given = false;
        }
    }

    /// Adds the lists of a record.
    fn lists(&mut self, record: &[u8]) -> Result<()> {
        let row = self.rows;
        for (number, slot) in self.plan.slots.iter().enumerate() {
            let column = &mut self.slots[number];
            let required = matches!(slot.kind, SlotKind::List { required: true, .. });
            match self.finder.found(number) {
                None if required => {
                    return Err(wrong(row, slot, "is required and is not there"));
                }
                None => {}
                Some(span) => {
                    let list = span.of(record);
                    let moved = |broken: WireError| {
                        let cause = format!("record {row}: list `{}`: {}", slot.key, broken.cause);
                        let at = span.start() + broken.at;
                        FormatError::invalid(FileKind::Example, cause).at(at as u64)
                    };
                    let mut wire = WireReader::new(list);
                    let mut step = 0;
                    while let Some((number, value)) = wire.field().map_err(moved)? {
                        if let (1, Value::Bytes(feature)) = (number, value) {
                            let start = wire.position() - feature.len();
                            add_step(row, step, slot, feature, &mut column.steps)
                                .map_err(|error| error.shifted((span.start() + start) as u64))?;
                            step += 1;
                        }
                    }
                }
            }
            column.row_ends.push(column.steps.ends.len());
        }
        Ok(())
    }

    /// Computes the derived columns.
    fn complete(&mut self) -> Result<()> {
        let outputs = self.plan.outputs.iter().zip(&self.plan.names);
        for ((output, name), derived) in outputs.zip(&mut self.derived) {
            match (output, derived) {
                (
                    Output::Sequence { slot, shape, .. },
                    DerivedList::Padded {
                        values,
                        padded_length,
                        lengths,
                    },
                ) => {
                    let slot = &self.slots[*slot];
                    let stride: usize = shape.iter().product();
                    let rows = (0..self.rows).map(|row| slot.values_of(row));
                    *padded_length =
                        batch::pad(name, &slot.steps.values, rows, stride, None, values)?;
                    lengths.clear();
                    let steps = (0..self.rows).map(|row| batch::range(&slot.row_ends, row));
                    lengths.extend(steps.map(|steps| steps.len() as i64));
                }
                (Output::Ragged { values, partitions }, DerivedList::Ragged { levels, inner }) => {
                    let slot = &self.slots[*values];
                    let mut cuts = Vec::new();
                    for (partition, number) in partitions {
                        let column = number.map(|number| &self.slots[number]);
                        if column.is_some_and(|column| column.row_ends != slot.row_ends) {
                            let cause = "its row partition does not have the same steps";
                            return Err(about(name, cause));
                        }
                        let column = column.map(|column| &column.steps);
                        cuts.push(RowPartition { partition, column });
                    }
                    ragged::levels(name, &slot.steps.ends, &cuts, levels, inner)?;
                    levels.insert(0, Level::Splits(ragged::splits(&slot.row_ends)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the values of a step.
fn add_step(
    row: usize,
    step: usize,
    slot: &Slot,
    feature: &[u8],
    column: &mut SlotColumn,
) -> Result<()> {
    let (multiple, dense) = match &slot.kind {
        SlotKind::List {
            multiple, family, ..
        } => (*multiple, *family == Family::Dense),
        SlotKind::Fixed { .. } => unreachable!("lists have no fixed features"),
    };
    let most = match dense {
        true => multiple,
        false => usize::MAX,
    };
    let held = append(feature, &mut column.values, most).map_err(|failed| {
        let (error, at) = match failed {
            ListError::Wire(broken) => {
                let error = FormatError::invalid(FileKind::Example, broken.cause);
                (error, broken.at)
            }
            ListError::Memory(error) => (error, 0),
        };
        let place = format!("record {row}: list `{}`: step {step}", slot.key);
        error.about(place).at(at as u64)
    })?;
    let fail = |cause: String| Err(wrong(row, slot, &cause).at(0));
    match held {
        DecodedList::OtherType(found) => {
            let expected = slot.dtype;
            return fail(format!(
                "holds {found} values in step {step}, and {expected} values are required"
            ));
        }
        DecodedList::Values(count) if dense && count != multiple => {
            return fail(format!(
                "holds {count} values in step {step}, and not {multiple}"
            ));
        }
        DecodedList::Absent if dense => {
            return fail(format!(
                "holds nothing in step {step}, and {multiple} values are required"
            ));
        }
        DecodedList::Values(_) | DecodedList::Absent => {}
    }
    memory::push(FileKind::Example, &mut column.ends, column.values.len())
}

fn wrong(row: usize, slot: &Slot, cause: &str) -> FormatError {
    let cause = format!("record {row}: list `{}` {cause}", slot.key);
    FormatError::invalid(FileKind::Example, cause)
}

impl<'b> SequenceBatch<'b> {
    /// How many records it holds.
    pub fn rows(&self) -> usize {
        self.parser.rows
    }

    /// The names of its lists, in order.
    pub fn lists(&self) -> &'b [String] {
        &self.parser.plan.names
    }

    /// The column of a list.
    pub fn list(&self, name: &str) -> Option<ListColumn<'b>> {
        let plan = &self.parser.plan;
        let index = plan.names.iter().position(|known| known == name)?;
        Some(match (&plan.outputs[index], &self.parser.derived[index]) {
            (
                Output::Sequence { shape, .. },
                DerivedList::Padded {
                    values,
                    padded_length,
                    lengths,
                },
            ) => ListColumn::Steps(Steps {
                values,
                lengths,
                padded_length: *padded_length,
                inner: shape,
            }),
            (Output::VarLen { slot }, DerivedList::None) => {
                let slot = &self.parser.slots[*slot];
                ListColumn::VarLen(VarLenSteps {
                    values: &slot.steps.values,
                    step_ends: &slot.steps.ends,
                    row_ends: &slot.row_ends,
                })
            }
            (Output::Ragged { values, .. }, DerivedList::Ragged { levels, inner }) => {
                ListColumn::Ragged(Ragged {
                    values: &self.parser.slots[*values].steps.values,
                    levels,
                    inner,
                })
            }
            _ => unreachable!("a derived column follows from the schema"),
        })
    }
}
