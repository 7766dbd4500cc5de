//! Tables of the training data: the most frequent words, means and variances.
//!
//! In: a data set, with the stages of an evaluation. Out: its tables, after one pass over the records, or one more for each table that
//! depends on another. The records are those after `split` and `filter`, in the order of the source: what only orders, repeats or joins
//! them is passed over. Leaves alone: files; checkpoints hold the tables as text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use trainspec_compiler::typed::{self, ColumnOp, ColumnOpKind, DataSet, StageKind, WordSource};

use crate::data::block::{Block, MAX_BLOCK_ROWS};
use crate::data::column::Lookup;
use crate::data::tables::column_op::key;
use crate::data::tables::moments::RunningMoments;
use crate::data::tables::vocabulary::WordCounts;
use crate::data::tables::{ColumnArg, ElementError, Table, Tables, Vocabulary};
use crate::data::{DataContext, Pipeline, Position, Records, Stage};
use crate::{Code, DataError, Error, StopToken, memory};

/// The tables of a run: empty until the training data was read, or a checkpoint. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SharedTables(Arc<OnceLock<Tables>>);

impl SharedTables {
    /// The tables, where they are known.
    pub fn get(&self) -> Option<&Tables> {
        self.0.get()
    }

    /// Sets the tables; those that are set stay.
    pub fn set(&self, tables: Tables) {
        let _ = self.0.set(tables);
    }
}

/// Makes the tables of a data set from its records.
pub fn tables_of_data(cx: &DataContext, set: &DataSet, stop: &StopToken) -> Result<Tables, Error> {
    let mut tables = Tables::default();
    let passes = set.data_tables().filter_map(ColumnOp::pass).max();
    for pass in 0..passes.map_or(0, |last| last + 1) {
        let known = SharedTables::default();
        known.set(tables.clone());
        let cx = DataContext {
            tables: known,
            training: false,
            ..cx.clone()
        };
        for (op, accumulator) in accumulate(&cx, set, pass, stop)? {
            let name = op.table().expect("it is made of data");
            tables.insert(name, accumulator.finish(&op, set)?);
        }
    }
    Ok(tables)
}

/// Reads all records once; gives what was accumulated for the tables of a pass.
fn accumulate(
    cx: &DataContext,
    set: &DataSet,
    pass: u32,
    stop: &StopToken,
) -> Result<Vec<(ColumnOp, Accumulator)>, Error> {
    let mut pipeline = Pipeline::of_source(cx, set, selects)?;
    let mut observed = Vec::new();
    let mut unknown: BTreeSet<&str> = BTreeSet::new();
    for stage in splits_first(&set.eval_stages) {
        let is_unknown = match &stage.kind {
            StageKind::Map { program, value, .. } | StageKind::Filter { program, value } => {
                let inputs = program.inputs_of([*value]);
                inputs.iter().any(|name| unknown.contains(name.as_str()))
            }
            StageKind::Column(op) => op.inputs().any(|name| unknown.contains(name)),
            _ => false,
        };
        match &stage.kind {
            // What comes after it depends on tables of this pass.
            StageKind::Filter { .. } if is_unknown => break,
            StageKind::Map { name, .. } if is_unknown => {
                unknown.insert(name);
                continue;
            }
            StageKind::Map { name, .. } => {
                unknown.remove(name.as_str());
            }
            StageKind::Column(op) => {
                let is_later = op.pass().is_some_and(|own| own >= pass);
                if op.pass() == Some(pass) && !is_unknown {
                    let shared = Arc::new(Mutex::new(Accumulator::new(op)));
                    observed.push((op.clone(), shared.clone()));
                    let lookup = Lookup::new(cx, op)?;
                    pipeline = pipeline.wrapped(|inner| {
                        let cx = cx.clone();
                        Box::new(Observe {
                            inner,
                            cx,
                            lookup,
                            shared,
                        })
                    });
                }
                if is_later || is_unknown {
                    unknown.insert(&op.name);
                    continue;
                }
                unknown.remove(op.name.as_str());
            }
            StageKind::Batch(_) => break,
            stage if !selects(stage) => continue,
            _ => {}
        }
        pipeline = pipeline.add(cx, stage)?;
    }
    while pipeline.advance_block(MAX_BLOCK_ROWS)? {
        if stop.should_stop() {
            let message =
                "stopped before the first step, while tables of the training data were made";
            return Err(Error::new(Code::Cancelled, message));
        }
    }
    drop(pipeline);
    let observed = observed.into_iter().map(|(op, shared)| {
        let shared = Arc::into_inner(shared).expect("the pipeline is gone");
        let accumulator = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        (*op, accumulator)
    });
    Ok(observed.collect())
}

/// The stages with each `split` before the maps that it follows: they change no record that it chooses by, and their tables must not know
/// what it holds out.
fn splits_first(stages: &[typed::Stage]) -> Vec<&typed::Stage> {
    let mut order: Vec<&typed::Stage> = Vec::with_capacity(stages.len());
    for stage in stages {
        let mut at = order.len();
        if let StageKind::Split(split) = &stage.kind {
            let passes = |before: &StageKind| match before {
                StageKind::Map { name, .. } => split.by.as_ref() != Some(name),
                StageKind::Column(op) => split.by.as_ref() != Some(&op.name),
                StageKind::Drop { .. } => true,
                _ => false,
            };
            while at > 0 && passes(&order[at - 1].kind) {
                at -= 1;
            }
        }
        order.insert(at, stage);
    }
    order
}

/// Whether a stage decides which records there are, or what they hold.
fn selects(stage: &StageKind) -> bool {
    match stage {
        StageKind::Map { .. }
        | StageKind::Column(_)
        | StageKind::Filter { .. }
        | StageKind::Drop { .. }
        | StageKind::Take { .. }
        | StageKind::Skip { .. }
        | StageKind::Window { .. }
        | StageKind::Split(_) => true,
        // Tables are those of all shards, so that all workers have the same.
        StageKind::Shard { .. }
        | StageKind::Shuffle { .. }
        | StageKind::Epochs { .. }
        | StageKind::Repeat
        | StageKind::Batch(_)
        | StageKind::Cache
        | StageKind::Interleave { .. }
        | StageKind::Prefetch { .. } => false,
    }
}

/// What a table is made of, as far as records were read.
#[derive(Debug)]
enum Accumulator {
    Words(WordCounts, Growing),
    Moments(RunningMoments),
}

/// The bytes that were compared with the limits of memory.
#[derive(Debug, Default)]
struct Growing(u64);

/// The growth after which memory is compared again.
const GROWTH_BYTES: u64 = 32 << 20;

impl Accumulator {
    fn new(op: &ColumnOp) -> Accumulator {
        match op.kind {
            ColumnOpKind::Vocabulary(_) => Accumulator::Words(WordCounts::default(), Growing(0)),
            _ => Accumulator::Moments(RunningMoments::default()),
        }
    }

    /// Adds the records of a block.
    fn add(&mut self, lookup: &Lookup, block: &Block) -> Result<(), Failed> {
        let args = lookup.args(block)?;
        let Some(ColumnArg::Column(column)) = args.first() else {
            return Ok(());
        };
        match self {
            Accumulator::Words(counts, growing) => {
                let used = lookup.used(block);
                for i in 0..column.data().len() {
                    if used.as_ref().is_none_or(|used| used[i]) {
                        counts.add(&key(args[0], i))?;
                    }
                }
                let bytes = counts.memory();
                if bytes > growing.0 {
                    growing.0 = bytes + GROWTH_BYTES;
                    let words = ("the words of the training data".to_owned(), bytes);
                    memory::ensure("a vocabulary", vec![words])?;
                }
            }
            Accumulator::Moments(moments) => {
                let numbers = column.to_f64s();
                let row: usize = column.shape()[1..].iter().product();
                if let Some(i) = numbers.iter().position(|x| x.is_infinite()) {
                    let error = DataError::new("an infinite number has no mean");
                    return Err(Failed::Element(ElementError { element: i, error }));
                }
                if row > 0 {
                    numbers
                        .chunks_exact(row)
                        .for_each(|record| moments.add(record));
                }
            }
        }
        Ok(())
    }

    fn finish(self, op: &ColumnOp, set: &DataSet) -> Result<Table, Error> {
        match (self, &op.kind) {
            (Accumulator::Words(counts, _), ColumnOpKind::Vocabulary(settings)) => {
                let words = counts.most_frequent(settings.size);
                if words.is_empty() {
                    return Err(nothing(op, set, "words"));
                }
                let vocabulary = Vocabulary::new(words, settings.oov)?;
                Ok(Table::Vocabulary(Arc::new(vocabulary)))
            }
            (Accumulator::Moments(moments), _) => {
                let moments = moments.moments();
                match moments.mean.is_empty() || moments.mean.iter().any(|mean| mean.is_nan()) {
                    true => Err(nothing(op, set, "numbers")),
                    false => Ok(Table::Moments(Arc::new(moments))),
                }
            }
            (Accumulator::Words(..), _) => unreachable!("words make vocabularies"),
        }
    }
}

fn nothing(op: &ColumnOp, set: &DataSet, what: &str) -> Error {
    let message = format!(
        "the data set `{}` has no {what} to make the table `{}` of: all are missing",
        set.name,
        op.table().unwrap_or_default()
    );
    DataError::new(message).at(op.span).into()
}

enum Failed {
    Element(ElementError),
    Other(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Other(error)
    }
}

/// Shows an accumulator the blocks that pass.
struct Observe {
    inner: Box<dyn Stage>,
    cx: DataContext,
    lookup: Lookup,
    shared: Arc<Mutex<Accumulator>>,
}

impl Stage for Observe {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let Some(block) = self.inner.next(max)? else {
            return Ok(None);
        };
        let mut accumulator = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match accumulator.add(&self.lookup, &block) {
            Ok(()) => Ok(Some(block)),
            Err(Failed::Element(failed)) => Err(self.lookup.locate(&self.cx, &block, failed)),
            Err(Failed::Other(error)) => Err(error),
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

/// Checks that tables, such as those of a checkpoint, are those that a data set takes.
pub(crate) fn ensure_tables_fit(tables: &Tables, set: &DataSet) -> Result<(), Error> {
    for op in set.data_tables() {
        let name = op.table().expect("it is made of data");
        let fits = match (&op.kind, tables.get(name)) {
            (ColumnOpKind::Vocabulary(settings), Some(Table::Vocabulary(words))) => {
                words.len() as u64 <= settings.size && words.oov() == settings.oov
            }
            (ColumnOpKind::Standardize { .. }, Some(Table::Moments(moments))) => {
                let elements = op.ty.shape.elements().and_then(|n| n.value());
                elements == Some(moments.mean.len() as i64)
            }
            _ => false,
        };
        if !fits {
            let message = format!(
                "the checkpoint does not hold the table `{name}` of the data set `{}` as the spec has it",
                set.name
            );
            return Err(Error::new(Code::DataLoss, message).help("`--fresh` starts over"));
        }
    }
    Ok(())
}

/// The vocabularies that outputs are ids of, by the name of the table: what a prediction gives words back with.
pub(crate) fn output_tables(
    cx: &DataContext,
    set: &DataSet,
    model: &typed::Model,
    tables: &mut Tables,
) -> Result<(), Error> {
    let names: BTreeMap<&str, ()> = (model.eval.words.iter())
        .map(|words| (words.vocabulary.as_str(), ()))
        .collect();
    for name in names.into_keys() {
        if tables.get(name).is_some() {
            continue;
        }
        let Some(settings) = set.vocabulary(name) else {
            continue;
        };
        let table = match &settings.words {
            WordSource::File(file) => super::words_of_file(cx, file, settings)?,
            WordSource::List(words) => Table::vocabulary(words, settings.oov)?,
            WordSource::Data { .. } => continue,
        };
        tables.insert(name, table);
    }
    Ok(())
}
