//! The input pipeline (`tf.data`): a source, then stages in the order written, to batches.
//!
//! In: a checked data set and the environment. Out: a stream of elements. It is deterministic: it depends on the spec, the seed and
//! the files alone, never on threads, the clock or hash order, and the position of a stage is a few integers.

mod batch;
mod cache;
mod csv;
mod map;
mod paths;
mod repeat;
mod select;
mod shuffle;
mod split;
mod tfrecord;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use trainspec_compiler::PipelineOptions;
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::{CountName, Dim, Shape, Size, Tensor, TensorType};
use trainspec_compiler::lower;
use trainspec_compiler::typed::{self, Constant, DataSet, Setting, Spec};

use crate::env::Env;
use crate::{DataError, SessionError, SourceLocation};

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
}

/// One stage of an input pipeline: an iterator over the stage before it.
pub trait Stage {
    /// The next element; `None` at the end, and from then on.
    fn next(&mut self) -> Result<Option<Element>, SessionError>;

    /// Skips the next element, where possible without computing it; false at the end.
    fn advance(&mut self) -> Result<bool, SessionError> {
        Ok(self.next()?.is_some())
    }

    /// Begins the next epoch, with new random draws.
    fn restart(&mut self);

    /// Goes back to the beginning of the first epoch, with its random draws.
    fn rewind(&mut self);
}

/// The context in which data sets are opened.
#[derive(Clone, Copy)]
pub struct DataContext<'a> {
    /// The spec.
    pub spec: &'a Spec,
    /// Files and clock.
    pub env: &'a dyn Env,
    /// The base of relative paths.
    pub folder: &'a Path,
    /// The seed of stages that are random and have none of their own, and of random operations in `map`.
    pub seed: i64,
    /// How the graphs of stages are compiled.
    pub pipeline: &'a PipelineOptions,
}

/// An open input pipeline.
pub struct Pipeline<'a> {
    stage: Box<dyn Stage + 'a>,
    /// Its name.
    pub name: &'a str,
    /// Whether it repeats indefinitely.
    pub endless: bool,
    /// Whether records come more than once.
    repeats: bool,
    /// The cardinality of one epoch in records, where it is known before they are read.
    pub records: Option<u64>,
    /// The batch size.
    pub batch: Option<u64>,
}

impl<'a> Pipeline<'a> {
    /// Opens a data set of the spec.
    pub fn open(cx: DataContext<'a>, set: &'a DataSet) -> Result<Pipeline<'a>, SessionError> {
        let (stage, records) = source(cx, set)?;
        let mut pipeline = Pipeline {
            stage,
            name: &set.name,
            endless: false,
            repeats: false,
            records,
            batch: None,
        };
        let mut types: BTreeMap<String, TensorType> = set
            .features
            .iter()
            .map(|f| (f.name.clone(), f.ty.clone()))
            .collect();
        for stage in &set.stages {
            pipeline = match stage {
                typed::Stage::Map {
                    name,
                    program,
                    value,
                } => {
                    types.insert(name.clone(), (*program.values[value.0 as usize]).clone());
                    let inner = pipeline.stage;
                    pipeline.stage = Box::new(map::Map::new(cx, inner, name, program, *value)?);
                    pipeline
                }
                typed::Stage::Filter { program, value } => {
                    let inner = pipeline.stage;
                    pipeline.stage = Box::new(map::Filter::new(cx, inner, program, *value)?);
                    pipeline.records = None;
                    pipeline
                }
                typed::Stage::Setting(setting) => pipeline.set(cx, setting, &mut types)?,
            };
        }
        Ok(pipeline)
    }

    /// The next element.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Element>, SessionError> {
        self.stage.next()
    }

    /// Goes back to the first element.
    pub fn rewind(&mut self) {
        self.stage.rewind();
    }

    /// This data set, repeated indefinitely.
    pub fn repeated(mut self) -> Pipeline<'a> {
        self.stage = Box::new(repeat::Repeat::new(self.stage, None));
        (self.endless, self.repeats) = (true, true);
        self
    }

    /// Adds the stage of a setting.
    fn set(
        mut self,
        cx: DataContext<'a>,
        setting: &'a Setting,
        types: &mut BTreeMap<String, TensorType>,
    ) -> Result<Pipeline<'a>, SessionError> {
        let inner = self.stage;
        let count = |name: &str| integer(setting, name).map_or(0, |n| n.max(0) as u64);
        // The cardinality is not tracked through stages that select batches, or records of several epochs.
        let records = self
            .records
            .filter(|_| self.batch.is_none() && !self.repeats);
        let stage: Box<dyn Stage + 'a> = match setting.word.as_str() {
            "drop" => {
                let name = word(setting, "name").unwrap_or_default();
                types.remove(name);
                Box::new(map::DropFeature::new(inner, name))
            }
            "shuffle" => {
                let seed = integer(setting, "seed").unwrap_or(cx.seed);
                let buffer = usize::try_from(count("buffer")).unwrap_or(usize::MAX);
                Box::new(shuffle::Shuffle::new(inner, buffer, seed))
            }
            "epochs" => {
                self.repeats = true;
                Box::new(repeat::Repeat::new(inner, Some(count("count"))))
            }
            "repeat" => {
                (self.endless, self.repeats) = (true, true);
                Box::new(repeat::Repeat::new(inner, None))
            }
            "take" => {
                self.endless = false;
                self.records = records.map(|n| n.min(count("count")));
                Box::new(select::Take::new(inner, count("count")))
            }
            "skip" => {
                self.records = records.map(|n| n.saturating_sub(count("count")));
                Box::new(select::Skip::new(inner, count("count")))
            }
            "shard" => {
                let (index, of) = (count("index"), count("count").max(1));
                self.records = records.map(|n| n.saturating_sub(index).div_ceil(of));
                Box::new(select::Shard::new(inner, index, of))
            }
            "split" => {
                if self.repeats {
                    let message = "`split` needs each record once, and after `epochs` or `repeat` they come again";
                    return Err(stage_order(setting, message));
                }
                let split = split::Split::new(inner, setting, records);
                self.records = match records {
                    Some(n) => Some(split.size_of(n)?),
                    None => None,
                };
                Box::new(split)
            }
            "cache" => {
                if self.endless {
                    let message = "`cache` keeps all records, and after `repeat` they are endless";
                    return Err(stage_order(setting, message));
                }
                Box::new(cache::Cache::new(inner))
            }
            "batch" => {
                self.batch = Some(count("size"));
                let stage = batch::Batch::new(inner, setting, types);
                let dim = match word(setting, "remainder") {
                    Some("keep") => Dim::exact(Size::named("batch")),
                    _ => Dim::fixed(count("size") as i64),
                };
                for ty in types.values_mut() {
                    let dims = [dim.clone()].into_iter().chain(ty.shape.0.iter().cloned());
                    *ty = TensorType::new(ty.dtype, Shape(dims.collect()));
                }
                Box::new(stage)
            }
            // Preparing ahead changes no element.
            "prefetch" => inner,
            other => return Err(not_yet(setting, &format!("the stage `{other}`"))),
        };
        self.stage = stage;
        Ok(self)
    }
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "data set {}", self.name)
    }
}

/// The source of a data set, and its number of records.
fn source<'a>(
    cx: DataContext<'a>,
    set: &'a DataSet,
) -> Result<(Box<dyn Stage + 'a>, Option<u64>), SessionError> {
    let source = &set.source;
    match source.word.as_str() {
        "csv" => {
            let csv = csv::Csv::open(cx, source, &set.features)?;
            let records = csv.count();
            Ok((Box::new(csv), records))
        }
        "tfrecord" => {
            let records = tfrecord::Records::open(cx, source, &set.features)?;
            let count = records.count();
            Ok((Box::new(records), count))
        }
        "source" => {
            let name = string(source, "name").unwrap_or_default();
            Err(DataError::new(format!("no source `{name}` is registered"))
                .at(source.span)
                .into())
        }
        other => Err(not_yet(source, &format!("`{other}` sources"))),
    }
}

/// The error for what the language has and the runtime does not implement yet.
fn not_yet(setting: &Setting, what: &str) -> SessionError {
    let verb = match setting.word.as_str() {
        "tfrecord" | "csv" | "npy" | "npz" | "text" | "memory" => "read",
        _ => "run",
    };
    let message = format!("{what} cannot be {verb} yet");
    Diagnostic::new(Code::UnknownSetting, setting.span, message).into()
}

/// The error for a stage that must not come after `repeat` or `epochs`.
fn stage_order(setting: &Setting, message: &str) -> SessionError {
    let help = format!("put `{}` before it", setting.word);
    Diagnostic::new(Code::StageOrder, setting.span, message)
        .help(help)
        .into()
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

fn integer(setting: &Setting, name: &str) -> Option<i64> {
    match setting.get(name)? {
        Constant::Int(size) => size.value(),
        _ => None,
    }
}

fn word<'s>(setting: &'s Setting, name: &str) -> Option<&'s str> {
    match setting.get(name)? {
        Constant::Name(word) => Some(word),
        _ => None,
    }
}

fn string<'s>(setting: &'s Setting, name: &str) -> Option<&'s str> {
    match setting.get(name)? {
        Constant::Str(string) => Some(string),
        _ => None,
    }
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
