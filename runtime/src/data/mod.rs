//! Data sets: from a source, through stages in the order written, to batches.
//!
//! In: a checked data set and the world outside. Out: elements, one after the other. What comes out depends on the spec, the
//! seed and the files alone, and where a stage stands is a few numbers of its own: no thread, clock or hash order decides.

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

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::{Dim, Shape, Size, Tensor, TensorType};
use trainspec_compiler::lower;
use trainspec_compiler::typed::{self, Constant, DataSet, Setting, Spec};

use crate::outside::Outside;
use crate::{DataError, Place, SessionError};

/// A record, or a batch of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Its features. Beside a feature with a run-time count there is the count: `x#count`.
    pub values: BTreeMap<String, Tensor>,
    /// How many records are in it; `None` before `batch`.
    pub rows: Option<usize>,
    /// How many passes over the records were over when it began. A batch that reaches into the next pass began before it.
    pub pass: u64,
    /// Where its first record stands.
    pub place: Option<Place>,
}

/// One stage of a data set, which draws from the stage before it.
pub trait Stage {
    /// The next element; `None` at the end, and from then on.
    fn next(&mut self) -> Result<Option<Element>, SessionError>;

    /// Goes past the next element, where possible without computing it; false at the end.
    fn advance(&mut self) -> Result<bool, SessionError> {
        Ok(self.next()?.is_some())
    }

    /// Begins the next pass: what is random comes out in another order.
    fn restart(&mut self);

    /// Goes back to the very beginning: all comes out as it did the first time.
    fn rewind(&mut self);
}

/// What opening a data set needs to know.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    /// The spec.
    pub spec: &'a Spec,
    /// Files and clock.
    pub outside: &'a dyn Outside,
    /// What paths are relative to.
    pub folder: &'a Path,
    /// The seed of stages that are random and have none of their own, and of random operations in `map`.
    pub seed: i64,
    /// The passes that are not run on the graphs of stages.
    pub disabled: &'a BTreeSet<String>,
}

/// A data set that is being read.
pub struct Pipeline<'a> {
    stage: Box<dyn Stage + 'a>,
    /// Its name.
    pub name: &'a str,
    /// Whether it goes on for ever.
    pub endless: bool,
    /// Whether records come more than once.
    repeats: bool,
    /// How many records one pass has, where that is known before they are read.
    pub records: Option<u64>,
    /// How many records a full batch has.
    pub batch: Option<u64>,
}

impl<'a> Pipeline<'a> {
    /// Opens a data set of the spec.
    pub fn open(cx: Opening<'a>, set: &'a DataSet) -> Result<Pipeline<'a>, SessionError> {
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

    /// The data set from the very beginning.
    pub fn rewind(&mut self) {
        self.stage.rewind();
    }

    /// The data set over and over.
    pub fn forever(mut self) -> Pipeline<'a> {
        self.stage = Box::new(repeat::Repeat::new(self.stage, None));
        (self.endless, self.repeats) = (true, true);
        self
    }

    /// Adds the stage that a setting says.
    fn set(
        mut self,
        cx: Opening<'a>,
        setting: &'a Setting,
        types: &mut BTreeMap<String, TensorType>,
    ) -> Result<Pipeline<'a>, SessionError> {
        let inner = self.stage;
        let count = |name: &str| whole(setting, name).map_or(0, |n| n.max(0) as u64);
        // Stages that choose among batches, or among the records of several passes, leave no number worth telling.
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
                let seed = whole(setting, "seed").unwrap_or(cx.seed);
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
                    let message = "`split` needs each record once, and behind `epochs` or `repeat` they come again";
                    return Err(late(setting, message));
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
                    let message =
                        "`cache` keeps all records, and behind `repeat` they go on for ever";
                    return Err(late(setting, message));
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

/// The source of a data set, and how many records it has.
fn source<'a>(
    cx: Opening<'a>,
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
            let name = text(source, "name").unwrap_or_default();
            Err(DataError::new(format!("no source `{name}` is registered"))
                .at(source.span)
                .into())
        }
        other => Err(not_yet(source, &format!("`{other}` sources"))),
    }
}

/// What the language has and a run does not do yet.
fn not_yet(setting: &Setting, what: &str) -> SessionError {
    let verb = match setting.word.as_str() {
        "tfrecord" | "csv" | "npy" | "npz" | "text" | "memory" => "read",
        _ => "run",
    };
    let message = format!("{what} cannot be {verb} yet");
    Diagnostic::new(Code::UnknownSetting, setting.span, message).into()
}

/// A stage that stands behind `repeat` or `epochs` and must not.
fn late(setting: &Setting, message: &str) -> SessionError {
    let help = format!("put `{}` before it", setting.word);
    Diagnostic::new(Code::StageOrder, setting.span, message)
        .help(help)
        .into()
}

/// The name of a feature's run-time counts, of which there are `n`.
fn count_names(feature: &str, n: usize) -> Vec<String> {
    match n {
        1 => vec![format!("{feature}#count")],
        _ => (0..n).map(|i| format!("{feature}#count/{i}")).collect(),
    }
}

/// Whether a value is the count of a feature.
fn is_count_of(name: &str, feature: &str) -> bool {
    name.strip_prefix(feature)
        .is_some_and(|rest| rest.starts_with("#count"))
}

fn whole(setting: &Setting, name: &str) -> Option<i64> {
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

fn text<'s>(setting: &'s Setting, name: &str) -> Option<&'s str> {
    match setting.get(name)? {
        Constant::Str(text) => Some(text),
        _ => None,
    }
}

/// The `i`-th number below `n` that a key draws.
fn draw(key: trainspec_compiler::ir::philox::Key, i: u64, n: usize) -> usize {
    let words = key.block(i);
    let wide = u64::from(words[0]) | u64::from(words[1]) << 32;
    ((u128::from(wide) * n as u128) >> 64) as usize
}

/// Sizes of named dimensions that an element gives.
fn binding(element: &Element) -> lower::Binding {
    let rows = element.rows.map(|n| ("batch".to_owned(), n as i64));
    rows.into_iter().collect()
}
