//! Operations on columns as a stage: strings compared and looked up, numbers standardized, for a block of records at once.

use std::sync::Arc;

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{CountName, DType, Tensor};
use trainspec_compiler::typed::{ColumnOp, ColumnOpKind, ColumnOperand, WordSource};

use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::tables::{ColumnArg, ElementError, Table, evaluate, words_of_file};
use crate::data::{DataContext, Position, Records, Stage, is_count_of};
use crate::{Code, DataError, Error};

/// Computes a feature from columns.
pub(super) struct Column {
    inner: Box<dyn Stage>,
    cx: DataContext,
    lookup: Lookup,
    name: Arc<str>,
    /// The most records of a block, so that it takes no more than [`MAX_BLOCK_BYTES`] afterwards.
    max_rows: usize,
}

/// An operation on columns and its table.
pub(super) struct Lookup {
    op: ColumnOp,
    /// The table, where it is not made of data.
    table: Option<Table>,
    /// The length of the results of those that split a string.
    capacity: usize,
    /// For each dimension of the operand that has a run-time count its index, without that of the records.
    counted: Vec<usize>,
}

impl Lookup {
    /// The operation with its words, of which a file is read.
    pub(super) fn new(cx: &DataContext, op: &ColumnOp) -> Result<Lookup, Error> {
        let table = match &op.kind {
            ColumnOpKind::Vocabulary(settings) => match &settings.words {
                WordSource::File(file) => Some(words_of_file(cx, file, settings)?),
                WordSource::List(words) => Some(Table::vocabulary(words, settings.oov)?),
                WordSource::Data { .. } => None,
            },
            _ => None,
        };
        let splits = matches!(
            op.kind,
            ColumnOpKind::Bytes | ColumnOpKind::Characters | ColumnOpKind::Words
        );
        let dims = op.ty.shape.0.iter().enumerate();
        let counted = dims.filter(|(_, dim)| dim.count.is_some() && !splits);
        let capacity = match splits {
            true => op.ty.shape.0[0].size.value().unwrap_or(0),
            false => 0,
        };
        Ok(Lookup {
            table,
            capacity: usize::try_from(capacity).unwrap_or(0),
            counted: counted.map(|(axis, _)| axis).collect(),
            op: op.clone(),
        })
    }

    /// The columns of its operands.
    pub(super) fn args<'b>(&'b self, block: &'b Block) -> Result<Vec<ColumnArg<'b>>, Error> {
        let operands = self.op.operands.iter();
        let args = operands.map(|operand| match operand {
            ColumnOperand::Str(text) => Ok(ColumnArg::Str(text)),
            ColumnOperand::Feature(name) => match block.get(name) {
                Some(column) => Ok(ColumnArg::Column(column)),
                None => {
                    let message = format!("a record has no feature `{name}`");
                    Err(Error::from(DataError::new(message).at(self.op.span)))
                }
            },
        });
        args.collect()
    }

    /// The run-time counts of its operand.
    fn counts<'b>(&self, block: &'b Block) -> Vec<&'b Tensor> {
        let n = self.counted.len();
        let mut operands = self.op.inputs().map(|name| {
            let counts = CountName::all(name, n).map(|count| block.get(&count.to_string()));
            counts.collect::<Option<Vec<&Tensor>>>()
        });
        operands.find_map(|counts| counts).unwrap_or_default()
    }

    /// Which elements of an operand are not padding; `None` where all are.
    pub(super) fn used(&self, block: &Block) -> Option<Vec<bool>> {
        let counts = self.counts(block);
        let column = self.op.inputs().find_map(|name| block.get(name))?;
        if counts.is_empty() {
            return None;
        }
        let rows = block.rows();
        let lengths: Vec<Vec<i64>> = counts.iter().map(|count| count.to_i64s()).collect();
        let shape = column.shape();
        let row: usize = shape[1..].iter().product();
        let axes = self.counted.iter().map(|axis| match block.is_batch() {
            true => *axis,
            false => axis + 1,
        });
        let strides: Vec<(usize, usize)> = axes
            .map(|axis| (shape[axis + 1..].iter().product(), shape[axis]))
            .collect();
        let is_used = |i: usize| {
            let (record, element) = (i / row, i % row);
            (strides.iter().zip(&lengths)).all(|((stride, size), lengths)| {
                // A batch without padding has one length.
                let length = lengths[if lengths.len() == 1 { 0 } else { record }];
                ((element / stride) % size) < length.max(0) as usize
            })
        };
        Some((0..rows * row).map(is_used).collect())
    }

    /// The error of an element, with the location of its record.
    pub(super) fn locate(&self, cx: &DataContext, block: &Block, failed: ElementError) -> Error {
        let column = self.op.inputs().find_map(|name| block.get(name));
        let row = column.map_or(1, |column| column.shape()[1..].iter().product::<usize>());
        let mut error = failed.error.at(self.op.span);
        let origin = block.origins.get(failed.element / row.max(1));
        if let Some(location) = origin.and_then(|origin| cx.files.location(origin)) {
            error.path = Some(location.path);
            error.position = Some(location.position);
        }
        error.into()
    }

    /// Its table: its own, or one that was made of the training data.
    fn table<'c>(&'c self, cx: &'c DataContext) -> Result<Option<&'c Table>, Error> {
        let Some(name) = self.op.table() else {
            return Ok(None);
        };
        if let Some(own) = &self.table {
            return Ok(Some(own));
        }
        let made = cx.tables.get().and_then(|tables| tables.get(name));
        let missing = || {
            let message =
                format!("the table `{name}` is made of the training data, and is not there");
            Error::new(Code::FailedPrecondition, message)
        };
        made.map(Some).ok_or_else(missing)
    }

    /// Adds the feature to a block.
    fn run(&self, cx: &DataContext, name: &Arc<str>, block: &mut Block) -> Result<(), Error> {
        let used = self.used(block);
        let args = self.args(block)?;
        let table = self.table(cx)?;
        let found = evaluate(
            &self.op.kind,
            &args,
            table,
            block.rows(),
            self.capacity,
            used.as_deref(),
        );
        let found = found.map_err(|failed| self.locate(cx, block, failed))?;
        let mut counts: Vec<Tensor> = self.counts(block).into_iter().cloned().collect();
        counts.extend(found.counts);
        block.retain(|key| !is_count_of(key, name));
        block.set(name, found.values);
        let names = CountName::all(name, counts.len()).map(|count| Arc::from(count.to_string()));
        for (name, count) in names.collect::<Vec<Arc<str>>>().iter().zip(counts) {
            block.set(name, count);
        }
        Ok(())
    }
}

impl Column {
    pub(super) fn new(
        cx: &DataContext,
        inner: Box<dyn Stage>,
        op: &ColumnOp,
    ) -> Result<Column, Error> {
        let bytes = match (Type::of(&op.ty), op.ty.dtype) {
            (Some(ty), DType::String) => {
                let strings = size_of::<Vec<u8>>() as u64;
                strings.saturating_mul(ty.elements() as u64)
            }
            (Some(ty), _) => ty.bytes(),
            (None, _) => 1,
        };
        Ok(Column {
            inner,
            cx: cx.clone(),
            lookup: Lookup::new(cx, op)?,
            name: Arc::from(op.name.as_str()),
            max_rows: (MAX_BLOCK_BYTES / bytes.max(1)).clamp(1, MAX_BLOCK_ROWS as u64) as usize,
        })
    }
}

impl Stage for Column {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let mut block = self.inner.next(max.min(self.max_rows))?;
        if let Some(block) = &mut block {
            self.lookup.run(&self.cx, &self.name, block)?;
        }
        Ok(block)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        self.inner.indexed()
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let read = indices.len().min(self.max_rows);
        let mut block = self.inner.read(&indices[..read])?;
        self.lookup.run(&self.cx, &self.name, &mut block)?;
        Ok(block)
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        self.inner.advance(max)
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
