//! The input pipeline (`tf.data`): a source, then stages in the order written, to batches.
//!
//! In: a checked data set and the environment. Out: a stream of elements. It is deterministic: it depends on the spec, the seed and
//! the files alone, never on threads, the clock or hash order, and its [`Position`] is a few integers: a pipeline that seeks there goes
//! on with the same elements.
//!
//! Stages hand over blocks of consecutive records as columns. A stage asks the one before it for as many elements as it needs and no
//! more, so that nothing is buffered between them and a position says all.

mod arrays;
mod batch;
mod block;
mod buckets;
mod cache;
mod column;
mod csv;
mod given;
mod image_files;
mod input;
mod interleave;
mod kinds;
mod left_out;
mod map;
mod mix;
mod nothing;
mod origins;
mod paths;
mod permute;
mod position;
mod registered;
mod repeat;
mod rows;
mod select;
mod shuffle;
mod sources;
mod split;
mod split_by;
mod store;
pub mod tables;
mod text;
mod tfrecord;
mod timed;
mod values;
mod window;
mod zip;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use trainspec_compiler::PipelineOptions;
use trainspec_compiler::ir::CountName;
use trainspec_compiler::typed::{
    self, ColumnOpKind, DataSet, Remainder, Spec, StageKind, WordSource,
};

use crate::Error;
use crate::env::Storage;
use crate::program::Engine;
use crate::registry::ProgramData;
use crate::session::Options;

pub use block::{Block, Element};
pub(crate) use given::{GivenData, RecordFormat, data_of_inputs};
pub use input::{Batch, Input};
pub use left_out::LeftOut;
use left_out::OnError;
pub(crate) use nothing::gives_nothing;
pub use origins::FileTable;
pub use position::{Position, Records};
pub(crate) use rows::{each_data, stack};
use sources::{OpenSource, PartStages, ensure_record};
pub(crate) use tables::SharedTables;
pub use tables::Vocabulary;
pub(crate) use tables::word_lines;

/// One stage of an input pipeline: an iterator over the stage before it, by blocks.
pub trait Stage: Send {
    /// The next elements: at least one, and at most `max`, which is not 0. `None` at the end, and from then on. It takes no more
    /// elements of the stage before it than these need. After `batch` it is one batch.
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error>;

    /// Skips up to `max` elements, where possible without computing them; gives how many, 0 at the end.
    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let skipped = self.next(max.min(block::MAX_BLOCK_ROWS))?;
        Ok(elements_of(skipped.as_ref()))
    }

    /// The number of elements of an epoch, where each can be read by its index. A source may have to look through its files first.
    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// The elements with those indices, in that order; called where [`Stage::indexed`] gives a number above each. It leaves the position
    /// alone.
    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        unreachable!(
            "{} elements that have no index are not asked for",
            indices.len()
        )
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

/// The number of elements of a block.
fn elements_of(block: Option<&Block>) -> u64 {
    block.map_or(0, |block| block.elements() as u64)
}

/// Skips up to `max` elements of a source that has to decode them, to know which ones are left out.
fn skip_decoded(source: &mut dyn Stage, max: u64) -> Result<u64, Error> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let block = source.next(max.min(block::MAX_BLOCK_ROWS))?;
    Ok(elements_of(block.as_ref()))
}

/// The context in which data sets are opened.
#[derive(Debug, Clone)]
pub struct DataContext {
    /// The spec.
    pub spec: Arc<Spec>,
    /// Files and clock.
    pub storage: Arc<dyn Storage>,
    /// The base of relative paths.
    pub folder: Arc<Path>,
    /// The seed of stages that are random and have none of their own, and of random operations in `map`.
    pub seed: i64,
    /// How the graphs of stages are compiled.
    pub pipeline: PipelineOptions,
    /// What runs them.
    pub engine: Engine,
    /// The files of all sources, for the locations of records.
    pub files: FileTable,
    /// The policy for a last batch that is not full, where the spec has none.
    pub remainder: Remainder,
    /// Whether `training` is true in maps.
    pub training: bool,
    /// The tables that are made of the training data.
    pub tables: SharedTables,
    /// What was noticed while reading.
    pub(crate) notes: Notes,
    /// The arrays and sources of the program.
    pub(crate) program: ProgramData,
}

impl DataContext {
    /// The context of a run with those options, while training.
    pub fn of(spec: &Arc<Spec>, options: &Options, seed: i64) -> DataContext {
        DataContext {
            spec: spec.clone(),
            storage: options.env.storage.clone(),
            folder: options.folder.as_path().into(),
            seed,
            pipeline: options.pipeline.clone(),
            engine: options.engine.on_one_thread(),
            files: FileTable::default(),
            remainder: Remainder::Drop,
            training: true,
            tables: SharedTables::default(),
            notes: Notes::default(),
            program: options.registry.data.clone(),
        }
    }
}

/// What sources notice of their data that is no error. Each note is given once; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<NoteList>>);

#[derive(Debug, Default)]
struct NoteList {
    all: Vec<String>,
    /// How many of them were taken.
    taken: usize,
}

impl Notes {
    fn add(&self, note: String) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.all.contains(&note) {
            list.all.push(note);
        }
    }

    /// Those that were added since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = list.taken;
        list.taken = list.all.len();
        list.all[from..].to_vec()
    }
}

/// The time that was spent in each stage and those before it.
pub(crate) struct Times(Vec<(String, timed::Stopwatch)>);

impl Times {
    /// The names of the stages with their times.
    pub(crate) fn elapsed(&self) -> impl Iterator<Item = (String, std::time::Duration)> {
        let watches = self.0.iter();
        watches.map(|(name, watch)| (name.clone(), watch.elapsed()))
    }

    /// The names of the stages with the elements that each gave.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        let watches = self.0.iter();
        watches.map(|(name, watch)| (name.clone(), watch.count()))
    }
}

/// An open input pipeline.
pub struct Pipeline {
    stage: Box<dyn Stage>,
    files: Vec<Arc<Path>>,
    table: FileTable,
    /// What its sources do with records that cannot be decoded.
    on_error: Vec<OnError>,
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
    /// How many batches are prepared ahead, where the spec says.
    pub prefetch: Option<u64>,
}

impl Pipeline {
    /// Opens a data set of the spec.
    pub fn open(cx: &DataContext, set: &DataSet) -> Result<Pipeline, Error> {
        Pipeline::open_with(cx, set, &mut |_, stage| stage)
    }

    /// Opens a data set whose stages are measured; the time of each, with those before it, is read from its stopwatch.
    pub(crate) fn open_timed(cx: &DataContext, set: &DataSet) -> Result<(Pipeline, Times), Error> {
        let mut watches = Vec::new();
        let pipeline = Pipeline::open_with(cx, set, &mut |name, stage| {
            let (timed, watch) = timed::Timed::new(stage);
            watches.push((name, watch));
            Box::new(timed)
        })?;
        Ok((pipeline, Times(watches)))
    }

    /// Opens a data set; `wrap` is given each stage with its name, the source first.
    fn open_with(
        cx: &DataContext,
        set: &DataSet,
        wrap: &mut dyn FnMut(String, Box<dyn Stage>) -> Box<dyn Stage>,
    ) -> Result<Pipeline, Error> {
        let mut pipeline = Pipeline::of_source(cx, set, |_| true)?;
        let name = timed::source_name(&set.source);
        pipeline = pipeline.wrapped(|stage| wrap(name, stage));
        for stage in set.stages_in(cx.training) {
            pipeline = pipeline.add(cx, stage)?;
            let name = timed::stage_name(&stage.kind);
            pipeline = pipeline.wrapped(|stage| wrap(name, stage));
        }
        Ok(pipeline)
    }

    /// The source of a data set, without its stages; of the data sets that it joins with some of theirs.
    fn of_source(
        cx: &DataContext,
        set: &DataSet,
        part_stages: PartStages,
    ) -> Result<Pipeline, Error> {
        let OpenSource {
            stage,
            files,
            records,
            on_error,
        } = sources::open(cx, set, part_stages)?;
        Ok(Pipeline {
            stage,
            files,
            on_error,
            table: cx.files.clone(),
            name: set.name.clone(),
            endless: set.is_endless(),
            repeats: false,
            records,
            batch: None,
            prefetch: None,
        })
    }

    /// This pipeline with one more stage.
    fn wrapped(self, stage: impl FnOnce(Box<dyn Stage>) -> Box<dyn Stage>) -> Pipeline {
        Pipeline {
            stage: stage(self.stage),
            ..self
        }
    }

    /// Computes up to `max` elements and drops them; false at the end.
    fn advance_block(&mut self, max: usize) -> Result<bool, Error> {
        Ok(self.stage.next(max)?.is_some())
    }

    /// The next element.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Element>, Error> {
        let block = self.stage.next(1)?;
        Ok(block.map(|block| block.into_element(&self.table)))
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
        self.seek_watched(position, &mut |_| {})
    }

    /// As [`Pipeline::seek`]; tells a function how many records were read again so far.
    pub fn seek_watched(
        &mut self,
        position: &Position,
        watch: &mut dyn FnMut(u64),
    ) -> Result<u64, Error> {
        let mut records = Records::new(position).watched(watch);
        let sought = self.stage.seek(&mut records);
        match sought.and_then(|()| records.finish()) {
            Ok(()) => Ok(records.reread()),
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

    /// The records that were left out so far because they cannot be decoded, if there are any.
    pub fn left_out(&self) -> Option<LeftOut> {
        let mut all = LeftOut::default();
        for report in self.on_error.iter().filter_map(OnError::report) {
            all.add(&report);
        }
        (all.records > 0).then_some(all)
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
                Box::new(map::Filter::new(cx, inner, program, *value, stage.span))
            }
            StageKind::Column(op) => {
                // A file of words is one of the data: it must not change either.
                if let ColumnOpKind::Vocabulary(vocabulary) = &op.kind
                    && let WordSource::File(file) = &vocabulary.words
                {
                    let path = tables::words_path(cx, file);
                    if !self.files.contains(&path) {
                        self.files.push(path);
                    }
                }
                Box::new(column::Column::new(cx, inner, op)?)
            }
            StageKind::Drop { name } => Box::new(map::DropFeature::new(inner, name)),
            StageKind::Shuffle { buffer, seed } => {
                let seed = seed.unwrap_or(cx.seed);
                match buffer {
                    Some(buffer) => {
                        let buffer = usize::try_from(*buffer).unwrap_or(usize::MAX);
                        Box::new(shuffle::Shuffle::new(inner, buffer, seed))
                    }
                    None => Box::new(permute::Permute::new(inner, seed, stage.span)),
                }
            }
            StageKind::Window { size, shift } => {
                self.records = records.map(|n| match n.checked_sub(*size) {
                    Some(rest) => rest / shift + 1,
                    None => 0,
                });
                Box::new(window::Window::new(inner, *size, *shift))
            }
            // The source does that.
            StageKind::Interleave { .. } => inner,
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
            StageKind::Split(settings) if settings.by.is_some() => {
                self.records = None;
                Box::new(split_by::SplitBy::new(inner, settings))
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
                if let Some(buckets) = &settings.buckets {
                    let stage =
                        buckets::Bucketed::new(inner, settings, buckets, remainder, stage.span);
                    self.stage = Box::new(stage);
                    return Ok(self);
                }
                Box::new(batch::Batch::new(
                    inner,
                    settings.clone(),
                    remainder,
                    stage.span,
                ))
            }
            // The input of the training does that: it changes no element.
            StageKind::Prefetch { count } => {
                self.prefetch = Some(*count);
                inner
            }
        };
        Ok(self)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "data set {}", self.name)
    }
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
pub(crate) fn draw(key: trainspec_compiler::ir::philox::Key, i: u64, n: usize) -> usize {
    let words = key.block(i);
    let wide = u64::from(words[0]) | u64::from(words[1]) << 32;
    ((u128::from(wide) * n as u128) >> 64) as usize
}
