//! `map`, `filter` and `drop`: elementwise transformations of an input pipeline (`Dataset.map`, `Dataset.filter`).

use std::ops::Range;
use std::sync::Arc;

use trainspec_compiler::ir::graph::{Graph, Type};
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::vectorize::vectorize;
use trainspec_compiler::ir::{Span, Tensor};
use trainspec_compiler::lower::{self, Binding, Context, GLOBAL_STEP, SEED};
use trainspec_compiler::typed::{Program, ValueId};
use trainspec_compiler::{FetchSet, diag::Diagnostic};

use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::rows::Column;
use crate::data::{DataContext, Position, Records, Stage, is_count_of};
use crate::lru::LruCache;
use crate::program::{Executable, FeedDict, Feeds, Fetched, InputView, prepare};
use crate::{Cause, DataError, Error, State, memory};

/// The capacity of the program cache of a stage, in block sizes: the powers of two up to [`MAX_BLOCK_ROWS`], and batch sizes.
const MAX_CACHED_PROGRAMS: usize = 12;

/// A program over the features of an element, compiled for blocks of records.
struct Compute {
    cx: DataContext,
    program: Program,
    value: ValueId,
    seed: Tensor,
    /// Programs for blocks of so many records, or batches.
    cache: LruCache<usize, Box<dyn Executable>>,
    /// The most records of a block, so that it takes no more than [`MAX_BLOCK_BYTES`] afterwards.
    max_rows: usize,
    /// The epoch of this stage: draws are keyed by it, by the epoch that a record came in, and by its ordinal in the source.
    pass: u64,
}

const VERSION: u32 = 2;

impl Compute {
    fn new(cx: &DataContext, program: &Program, value: ValueId) -> Compute {
        let ty = Type::of(&program.values[value.0 as usize]);
        let bytes = ty.map_or(1, |ty| ty.bytes().max(1));
        Compute {
            cx: cx.clone(),
            program: program.clone(),
            value,
            seed: Tensor::scalar(cx.seed),
            cache: LruCache::new(MAX_CACHED_PROGRAMS),
            max_rows: (MAX_BLOCK_BYTES / bytes).clamp(1, MAX_BLOCK_ROWS as u64) as usize,
            pass: 0,
        }
    }

    /// The value for the elements of a block, and its counts: `value`, `value#count`.
    fn run(&mut self, block: &Block) -> Result<Vec<(String, Tensor)>, Error> {
        if block.is_batch() {
            let feeds = Columns::of(block, 0..block.rows(), self.pass);
            return Ok(self.run_once(block.rows(), true, &feeds)?.0);
        }
        // Sizes are powers of two, so that there are few programs.
        let mut all: Vec<(String, Column)> = Vec::new();
        let mut start = 0;
        while start < block.rows() {
            let left = block.rows() - start;
            let rows = 1 << left.ilog2();
            let ran = self.run_rows(block, start..start + rows);
            let fetched = match ran {
                Ok(fetched) => fetched,
                Err(error) => return Err(self.blame(block, start..start + rows, error)),
            };
            if rows == block.rows() {
                return Ok(fetched.0);
            }
            if all.is_empty() {
                let column = |(name, value): &(String, Tensor)| {
                    (name.clone(), Column::like(value, block.rows()))
                };
                all = fetched.0.iter().map(column).collect();
            }
            for ((_, column), (_, value)) in all.iter_mut().zip(&fetched.0) {
                column.extend(value, 0..rows);
            }
            start += rows;
        }
        let columns = all.into_iter();
        Ok(columns
            .map(|(name, column)| (name, column.into_tensor()))
            .collect())
    }

    fn run_rows(&mut self, block: &Block, range: Range<usize>) -> Result<Fetched, Error> {
        let rows = range.len();
        self.run_once(rows, false, &Columns::of(block, range, self.pass))
    }

    fn run_once(
        &mut self,
        rows: usize,
        is_batch: bool,
        feeds: &Columns<'_>,
    ) -> Result<Fetched, Error> {
        let (cx, program, value) = (&self.cx, &self.program, self.value);
        let executable = self.cache.get_or_insert(&rows, || -> Result<_, Error> {
            let graph = match is_batch {
                true => batch_graph(cx, program, value, rows)?,
                false => {
                    let one = lower::map(&Context::new(&cx.spec, &Binding::new()), program, value)?;
                    vectorize(&one, rows, &[SEED])
                }
            };
            prepare(graph, &FetchSet::All, &cx.pipeline, &cx.engine)
        })?;
        if let Some(planned) = executable.planned() {
            let results = ("its values".to_owned(), memory::result_bytes(planned));
            memory::ensure_data("a `map`", vec![results], "make the batch smaller")?;
        }
        // Of a batch it is the state of that name, and of records a column.
        let key = feeds.keys.first().copied().unwrap_or(0);
        let step = is_batch.then(|| (GLOBAL_STEP.to_owned(), Tensor::scalar(key)));
        let mut state: State = step.into_iter().collect();
        let feeds = Feeds {
            values: feeds,
            seed: Some(&self.seed),
        };
        executable.run(feeds, &mut state)
    }

    /// The error of a program over several records, with the record that causes it.
    fn blame(&mut self, block: &Block, range: Range<usize>, error: Error) -> Error {
        for row in range {
            let Err(own) = self.run_rows(block, row..row + 1) else {
                continue;
            };
            return match own.cause {
                Cause::Run { error, record } => {
                    let origin = block.origins.get(row);
                    let location = || origin.and_then(|origin| self.cx.files.location(origin));
                    Error::from(Cause::Run {
                        error,
                        record: record.or_else(location),
                    })
                }
                _ => own,
            };
        }
        error
    }
}

/// The graph of a batch.
fn batch_graph(
    cx: &DataContext,
    program: &Program,
    value: ValueId,
    rows: usize,
) -> Result<Graph, Diagnostic> {
    let binding = Binding::from_iter([("batch".to_owned(), rows as i64)]);
    lower::map(&Context::new(&cx.spec, &binding), program, value)
}

/// Rows of a block, as a program is fed.
struct Columns<'b> {
    columns: Vec<(&'b str, Vec<usize>, &'b Tensor)>,
    rows: Range<usize>,
    is_batch: bool,
    /// The keys of random draws, one for each record; of a batch that of its first.
    keys: Vec<i64>,
    key_shape: [usize; 1],
}

impl<'b> Columns<'b> {
    fn of(block: &'b Block, rows: Range<usize>, pass: u64) -> Columns<'b> {
        let columns = block.columns().iter();
        let column = |(name, column): &'b (Arc<str>, Tensor)| {
            let mut shape = column.shape().to_vec();
            if !block.is_batch() {
                shape[0] = rows.len();
            }
            (&**name, shape, column)
        };
        let keyed = if block.is_batch() { 1 } else { rows.len() };
        Columns {
            columns: columns.map(column).collect(),
            keys: block.origins.keys(pass, rows.start..rows.start + keyed),
            key_shape: [rows.len()],
            is_batch: block.is_batch(),
            rows,
        }
    }
}

impl FeedDict for Columns<'_> {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        if name == GLOBAL_STEP && !self.is_batch {
            return Some(InputView::new(&self.key_shape, &self.keys));
        }
        let (_, shape, column) = self.columns.iter().find(|(own, ..)| *own == name)?;
        if self.is_batch {
            return Some(InputView::from(*column));
        }
        let row: usize = shape[1..].iter().product();
        let elements = self.rows.start * row..self.rows.end * row;
        Some(match column.data() {
            Data::F16(values) => InputView::new(shape, &values[elements]),
            Data::Bf16(values) => InputView::new(shape, &values[elements]),
            Data::F32(values) => InputView::new(shape, &values[elements]),
            Data::F64(values) => InputView::new(shape, &values[elements]),
            Data::I8(values) => InputView::new(shape, &values[elements]),
            Data::I16(values) => InputView::new(shape, &values[elements]),
            Data::I32(values) => InputView::new(shape, &values[elements]),
            Data::I64(values) => InputView::new(shape, &values[elements]),
            Data::U8(values) => InputView::new(shape, &values[elements]),
            Data::Bool(values) => InputView::new(shape, &values[elements]),
            // No program takes strings.
            Data::String(_) => return None,
        })
    }
}

/// Sets a feature to a computed value.
pub(super) struct Map {
    inner: Box<dyn Stage>,
    name: Arc<str>,
    compute: Compute,
}

impl Map {
    pub(super) fn new(
        cx: &DataContext,
        inner: Box<dyn Stage>,
        name: &str,
        program: &Program,
        value: ValueId,
    ) -> Map {
        Map {
            inner,
            name: Arc::from(name),
            compute: Compute::new(cx, program, value),
        }
    }
}

impl Map {
    fn apply(&mut self, mut block: Block) -> Result<Block, Error> {
        let fetched = self.compute.run(&block)?;
        block.retain(|key| !is_count_of(key, &self.name));
        for (key, value) in fetched {
            match key.strip_prefix("value").unwrap_or_default() {
                "" => block.set(&self.name, value),
                count => block.set(&Arc::from(format!("{}{count}", self.name)), value),
            }
        }
        Ok(block)
    }
}

impl Stage for Map {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        match self.inner.next(max.min(self.compute.max_rows))? {
            Some(block) => self.apply(block).map(Some),
            None => Ok(None),
        }
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        self.inner.indexed()
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let block = self
            .inner
            .read(&indices[..indices.len().min(self.compute.max_rows)])?;
        self.apply(block)
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        self.inner.advance(max)
    }

    fn restart(&mut self) {
        self.compute.pass += 1;
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.compute.pass = 0;
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("map", VERSION, &[self.compute.pass]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [pass] = at.pop("map", VERSION)?;
        self.inner.seek(at)?;
        self.compute.pass = pass;
        Ok(())
    }
}

/// The epochs after which a filter that kept nothing is taken for one that keeps nothing.
const MAX_EMPTY_PASSES: u64 = 100;

/// Keeps the records for which a predicate holds.
pub(super) struct Filter {
    inner: Box<dyn Stage>,
    compute: Compute,
    span: Span,
}

impl Filter {
    pub(super) fn new(
        cx: &DataContext,
        inner: Box<dyn Stage>,
        program: &Program,
        value: ValueId,
        span: Span,
    ) -> Filter {
        Filter {
            inner,
            compute: Compute::new(cx, program, value),
            span,
        }
    }
}

impl Stage for Filter {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let mut first_pass = None;
        while let Some(block) = self.inner.next(max.min(self.compute.max_rows))? {
            let fetched = self.compute.run(&block)?;
            let holds = fetched.iter().find(|(name, _)| name == "value");
            let holds = holds.map_or_else(Vec::new, |(_, holds)| holds.to_bools());
            let kept: Vec<usize> = (0..block.rows()).filter(|i| holds[*i]).collect();
            if kept.len() == block.rows() {
                return Ok(Some(block));
            }
            if !kept.is_empty() {
                return Ok(Some(block.gather(&kept)));
            }
            let (pass, last) = block.origins.passes().unwrap_or_default();
            if last - *first_pass.get_or_insert(pass) > MAX_EMPTY_PASSES {
                let message =
                    format!("the filter kept no record of {MAX_EMPTY_PASSES} epochs in a row");
                return Err(DataError::new(message).at(self.span).into());
            }
        }
        Ok(None)
    }

    fn restart(&mut self) {
        self.compute.pass += 1;
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.compute.pass = 0;
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("filter", VERSION, &[self.compute.pass]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [pass] = at.pop("filter", VERSION)?;
        self.inner.seek(at)?;
        self.compute.pass = pass;
        Ok(())
    }
}

/// Removes a feature.
pub(super) struct DropFeature {
    inner: Box<dyn Stage>,
    name: String,
}

impl DropFeature {
    pub(super) fn new(inner: Box<dyn Stage>, name: &str) -> DropFeature {
        DropFeature {
            inner,
            name: name.to_owned(),
        }
    }
}

impl DropFeature {
    fn apply(&self, mut block: Block) -> Block {
        block.retain(|key| key != self.name && !is_count_of(key, &self.name));
        block
    }
}

impl Stage for DropFeature {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let block = self.inner.next(max)?;
        Ok(block.map(|block| self.apply(block)))
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        self.inner.indexed()
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let block = self.inner.read(indices)?;
        Ok(self.apply(block))
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
