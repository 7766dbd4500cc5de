//! The input pipeline (`tf.data`): a source, then stages in the order written, to batches.
//!
//! In: a checked data set and the environment. Out: a stream of elements. It is deterministic: it depends on the spec, the seed and
//! the files alone, never on threads, the clock or hash order, and its [`Position`] is a few integers: a pipeline that seeks there goes
//! on with the same elements.

mod batch;
mod cache;
mod csv;
mod input;
mod map;
mod paths;
mod position;
mod repeat;
mod select;
mod shuffle;
mod split;
mod tfrecord;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::PipelineOptions;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{CountName, DType, Tensor};
use trainspec_compiler::lower;
use trainspec_compiler::typed::{self, DataSet, Remainder, Source, Spec, StageKind};

use crate::env::Env;
use crate::program::{FeedDict, InputView};
use crate::{DataError, Error, SourceLocation, memory};

pub use input::{Batch, Input};
pub use position::{Position, Records};

/// A record, or a batch of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Its features; a feature `x` with a run-time count has it under `x#count`.
    pub values: BTreeMap<String, Tensor>,
    /// The number of records in a batch; `None` before `batch`.
    pub rows: Option<usize>,
    /// The epoch of its first record, counted from 0; a batch that crosses into the next epoch belongs to the one it began in.
    pub pass: u64,
    /// The location of its first record.
    pub location: Option<SourceLocation>,
    /// Of a batch the locations of all its records, where they are known.
    pub row_locations: Vec<SourceLocation>,
}

impl FeedDict for Element {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        self.values.feed(name)
    }
}

/// One stage of an input pipeline: an iterator over the stage before it.
pub trait Stage: Send {
    /// The next element; `None` at the end, and from then on.
    fn next(&mut self) -> Result<Option<Element>, Error>;

    /// Skips the next element, where possible without computing it; false at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        Ok(self.next()?.is_some())
    }

    /// Begins the next epoch, with new random draws.
    fn restart(&mut self);

    /// Goes back to the beginning of the first epoch, with its random draws.
    fn rewind(&mut self);

    /// Appends its position: that of the stage before it, then its own record, where it has state.
    fn position(&self, at: &mut Position);

    /// Goes to a position: takes its own record from the end, then lets the stage before it seek. From then on it gives what it
    /// gave after that position was taken, in all later epochs too.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error>;
}

/// The context in which data sets are opened.
#[derive(Debug, Clone)]
pub struct DataContext {
    /// The spec.
    pub spec: Arc<Spec>,
    /// Files and clock.
    pub env: Arc<dyn Env>,
    /// The base of relative paths.
    pub folder: Arc<Path>,
    /// The seed of stages that are random and have none of their own, and of random operations in `map`.
    pub seed: i64,
    /// How the graphs of stages are compiled.
    pub pipeline: PipelineOptions,
    /// The policy for a last batch that is not full, where the spec has none.
    pub remainder: Remainder,
}

/// An open input pipeline.
pub struct Pipeline {
    stage: Box<dyn Stage>,
    files: Vec<Arc<Path>>,
    /// Its name.
    pub name: String,
    /// Whether it repeats indefinitely.
    pub endless: bool,
    /// Whether records come more than once.
    repeats: bool,
    /// The cardinality of one epoch in records, where it is known before they are read.
    pub records: Option<u64>,
    /// The batch size.
    pub batch: Option<u64>,
}

impl Pipeline {
    /// Opens a data set of the spec.
    pub fn open(cx: &DataContext, set: &DataSet) -> Result<Pipeline, Error> {
        let (stage, files, records) = source(cx, set)?;
        let mut pipeline = Pipeline {
            stage,
            files,
            name: set.name.clone(),
            endless: set.is_endless(),
            repeats: false,
            records,
            batch: None,
        };
        for stage in &set.stages {
            pipeline = pipeline.add(cx, stage)?;
        }
        Ok(pipeline)
    }

    /// The next element.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Element>, Error> {
        self.stage.next()
    }

    /// Goes back to the first element.
    pub fn rewind(&mut self) {
        self.stage.rewind();
    }

    /// The position after the last element.
    pub fn position(&self) -> Position {
        let mut position = Position::default();
        self.stage.position(&mut position);
        position
    }

    /// Goes to a position that a pipeline of the same data set had; gives how many records had to be read again. After an error it
    /// is at the first element.
    pub fn seek(&mut self, position: &Position) -> Result<u64, Error> {
        let mut records = Records::new(position);
        let sought = self.stage.seek(&mut records);
        match sought.and_then(|()| records.finish()) {
            Ok(()) => Ok(records.reread),
            Err(error) => {
                self.stage.rewind();
                Err(error)
            }
        }
    }

    /// The data files that it reads, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().map(|path| path.to_path_buf()).collect()
    }

    /// This data set, repeated indefinitely.
    pub fn repeated(mut self) -> Pipeline {
        self.stage = Box::new(repeat::Repeat::new(self.stage, None));
        (self.endless, self.repeats) = (true, true);
        self
    }

    /// Adds a stage.
    fn add(mut self, cx: &DataContext, stage: &typed::Stage) -> Result<Pipeline, Error> {
        let inner = self.stage;
        // The cardinality is not tracked through stages that select batches, or records of several epochs.
        let records = self
            .records
            .filter(|_| self.batch.is_none() && !self.repeats);
        self.stage = match &stage.kind {
            StageKind::Map {
                name,
                program,
                value,
            } => Box::new(map::Map::new(cx, inner, name, program, *value)),
            StageKind::Filter { program, value } => {
                self.records = None;
                Box::new(map::Filter::new(cx, inner, program, *value))
            }
            StageKind::Drop { name } => Box::new(map::DropFeature::new(inner, name)),
            StageKind::Shuffle { buffer, seed } => {
                let buffer = usize::try_from(*buffer).unwrap_or(usize::MAX);
                Box::new(shuffle::Shuffle::new(
                    inner,
                    buffer,
                    seed.unwrap_or(cx.seed),
                ))
            }
            StageKind::Epochs { count } => {
                self.repeats = true;
                Box::new(repeat::Repeat::new(inner, Some(*count)))
            }
            StageKind::Repeat => {
                self.repeats = true;
                Box::new(repeat::Repeat::new(inner, None))
            }
            StageKind::Take { count } => {
                self.records = records.map(|n| n.min(*count));
                Box::new(select::Take::new(inner, *count))
            }
            StageKind::Skip { count } => {
                self.records = records.map(|n| n.saturating_sub(*count));
                Box::new(select::Skip::new(inner, *count))
            }
            StageKind::Shard { index, count } => {
                self.records = records.map(|n| n.saturating_sub(*index).div_ceil(*count));
                Box::new(select::Shard::new(inner, *index, *count))
            }
            StageKind::Split(settings) => {
                let split = split::Split::new(inner, settings.clone(), records);
                self.records = match records {
                    Some(n) => Some(split.size_of(n)?),
                    None => None,
                };
                Box::new(split)
            }
            StageKind::Cache => Box::new(cache::Cache::new(inner)),
            StageKind::Batch(settings) => {
                self.batch = Some(settings.size);
                let remainder = settings.remainder.unwrap_or(cx.remainder);
                Box::new(batch::Batch::new(
                    inner,
                    settings.clone(),
                    remainder,
                    stage.span,
                ))
            }
            // Preparing ahead changes no element.
            StageKind::Prefetch { .. } => inner,
        };
        Ok(self)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "data set {}", self.name)
    }
}

/// A source, its files, and its number of records where it is known.
type OpenSource = (Box<dyn Stage>, Vec<Arc<Path>>, Option<u64>);

/// Opens the source of a data set.
fn source(cx: &DataContext, set: &DataSet) -> Result<OpenSource, Error> {
    ensure_record(set)?;
    match &set.source {
        Source::Csv {
            files,
            delimiter,
            header,
            ..
        } => {
            let files = paths::files(cx, files)?;
            let csv = csv::Csv::new(cx, files.clone(), *delimiter, *header, &set.features);
            let records = csv.count();
            Ok((Box::new(csv), files, records))
        }
        Source::TfRecord {
            files, compression, ..
        } => {
            let files = paths::files(cx, files)?;
            let source = tfrecord::TfRecord::new(cx, files.clone(), *compression, &set.features);
            let records = source.count();
            Ok((Box::new(source), files, records))
        }
        Source::Registered(source) => {
            let name = &source.name;
            Err(DataError::new(format!("no source `{name}` is registered"))
                .at(source.span)
                .into())
        }
    }
}

/// Fails where one record of a data set needs more memory than there is.
fn ensure_record(set: &DataSet) -> Result<(), Error> {
    let features = set.features.iter().filter_map(|feature| {
        let ty = Type::of(&feature.ty)?;
        let (name, bytes) = memory::tensor(&feature.name, &ty);
        // Its elements are decoded one by one before they are a tensor.
        let elements = ty.with_dtype(DType::U8).bytes();
        let decoded = elements.saturating_mul(size_of::<values::Value>() as u64);
        Some((name, bytes.saturating_add(decoded)))
    });
    memory::ensure(&format!("a record of `{}`", set.name), features.collect())
}

/// The names of a feature's `n` run-time counts.
fn count_names(feature: &str, n: usize) -> Vec<String> {
    CountName::all(feature, n)
        .map(|name| name.to_string())
        .collect()
}

/// Whether a name is that of a run-time count of a feature.
fn is_count_of(name: &str, feature: &str) -> bool {
    CountName::parse(name).is_some_and(|count| count.of == feature)
}

/// The `i`-th uniform integer below `n` of a Philox key, by multiply-shift.
fn draw(key: trainspec_compiler::ir::philox::Key, i: u64, n: usize) -> usize {
    let words = key.block(i);
    let wide = u64::from(words[0]) | u64::from(words[1]) << 32;
    ((u128::from(wide) * n as u128) >> 64) as usize
}

/// The named dimensions that an element binds: `batch`.
fn binding(element: &Element) -> lower::Binding {
    let rows = element.rows.map(|n| ("batch".to_owned(), n as i64));
    rows.into_iter().collect()
}
