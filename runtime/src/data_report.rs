//! What a data set gives: types, the first element, the range of each feature, and where the time of reading goes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{CountName, DType, Tensor};
use trainspec_compiler::typed::{DataSet, Spec, Stage, StageKind};

use crate::data::{DataContext, Element, LeftOut, Pipeline, each_data, gives_nothing};
use crate::session::Options;
use crate::trainer::{evaluation_context, the_data};
use crate::training_tables::tables_without_run;
use crate::{DataError, Error};

/// What was read of a data set.
///
/// ```
/// use std::time::Duration;
///
/// let text = "spec numbers;
///     data points { source csv(\"points.csv\", header: true); feature x: f32; map y = x * 2.0; batch 2; }";
/// let spec = trainspec::check("numbers", text)?;
/// let folder = std::env::temp_dir().join(format!("data-report-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).map_err(trainspec::Error::other)?;
/// std::fs::write(folder.join("points.csv"), "x\n1\n2\n3\n4\n").map_err(trainspec::Error::other)?;
/// let options = trainspec::Options { folder, ..Default::default() };
/// let report = trainspec::data_report(&spec, Some("points"), &options, 1000, Duration::MAX)?;
/// assert_eq!((report.records, report.elements, report.complete), (4, 2, true));
/// let y = report.features.iter().find(|feature| feature.name == "y").unwrap();
/// assert_eq!((y.range, y.mean), (Some((2.0, 8.0)), Some(5.0)));
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DataReport {
    /// The data set.
    pub name: String,
    /// The files that it reads.
    pub files: Vec<PathBuf>,
    /// The batch size; `None` where it gives records.
    pub batch: Option<u64>,
    /// The number of records of an epoch, where it is known before they are read.
    pub size: Option<u64>,
    /// Its features, by name.
    pub features: Vec<FeatureReport>,
    /// The first element; a feature `x` with a run-time count has it under `x#count`.
    pub first: BTreeMap<String, Tensor>,
    /// The elements that were read, records or batches.
    pub elements: u64,
    /// The records in them that belong to the first epoch; a batch may have some of the next one.
    pub records: u64,
    /// Whether they are all of an epoch.
    pub complete: bool,
    /// The last records of the epoch that fill no batch, and are left out.
    pub unfilled: u64,
    /// What was noticed while reading.
    pub notes: Vec<String>,
    /// The records that cannot be decoded and were left out, if there are any.
    pub left_out: Option<LeftOut>,
    /// The time that reading took.
    pub time: Duration,
    /// The time of each stage alone, the source first.
    pub stages: Vec<(String, Duration)>,
}

/// A feature of a data set.
///
/// ```
/// let report = trainspec::FeatureReport {
///     name: "x".to_owned(),
///     ty: "f32[2]".to_owned(),
///     range: Some((-1.0, 3.0)),
///     mean: Some(0.5),
///     nans: 0,
/// };
/// assert_eq!(report.range.map(|(least, _)| least), Some(-1.0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureReport {
    /// The name.
    pub name: String,
    /// The type, as the checker has it.
    pub ty: String,
    /// The least and the greatest value that was read; strings have none.
    pub range: Option<(f64, f64)>,
    /// The mean of all elements.
    pub mean: Option<f64>,
    /// How many elements were NaN.
    pub nans: u64,
}

/// Reads a data set of a spec, the one of that name or the only one: an epoch, but no more than `max` elements and no longer than `time`.
pub fn data_report(
    spec: &Arc<Spec>,
    name: Option<&str>,
    options: &Options,
    max: u64,
    time: Duration,
) -> Result<DataReport, Error> {
    let set = chosen(spec, name)?;
    let seed = spec.train.as_ref().map_or(0, |train| train.seed);
    let trained = spec.train.as_ref().and_then(|t| t.data.as_ref());
    let is_trained = trained.is_none_or(|name| *name == set.name);
    let cx = DataContext::of(spec, options, options.seed.unwrap_or(seed));
    let cx = match &spec.model {
        Some(model) if !is_trained => evaluation_context(&cx, set, model),
        _ => DataContext {
            training: is_trained,
            ..cx
        },
    };
    tables_without_run(&cx, set, &options.stop)?;
    let (mut pipeline, watches) = Pipeline::open_timed(&cx, set)?;
    let mut features: Vec<Moments> = set.elements.keys().map(|_| Moments::default()).collect();
    let start = Instant::now();
    let mut reading = Duration::ZERO;
    let (mut first, mut elements, mut records, mut rows) = (None, 0, 0, 0);
    let (mut complete, mut after) = (false, 0);
    while elements < max && start.elapsed() < time {
        let asked = Instant::now();
        let element = pipeline.next()?;
        reading += asked.elapsed();
        let element = match element {
            Some(element) if element.pass == 0 => element,
            next => {
                after = next.map_or(0, |next| next.rows.unwrap_or(1) as u64);
                complete = true;
                break;
            }
        };
        elements += 1;
        rows += element.rows.unwrap_or(1) as u64;
        records += element.records_of(0);
        for (name, moments) in set.elements.keys().zip(&mut features) {
            if let Some(value) = element.values.get(name) {
                moments.add(value, &element, name);
            }
        }
        first.get_or_insert(element.values);
    }
    let Some(first) = first else {
        return Err(gives_nothing(&cx, set, "").into());
    };
    let report = |((name, ty), moments): ((&String, _), Moments)| FeatureReport {
        name: name.clone(),
        ty: format!("{ty}"),
        range: moments.range,
        mean: (moments.count > 0).then(|| moments.sum / moments.count as f64),
        nans: moments.nans,
    };
    let unfilled = match (complete, before_batch(set, &cx)) {
        (true, Some(stage)) => {
            let read = watches.counts().nth(stage).map_or(0, |(_, count)| count);
            read.saturating_sub(rows + after)
        }
        _ => 0,
    };
    // Each watch has the time of the stages before it, too.
    let mut before = Duration::ZERO;
    let stages = watches.elapsed().map(|(name, all)| {
        let own = all.saturating_sub(before);
        before = all;
        (name, own)
    });
    Ok(DataReport {
        name: set.name.clone(),
        files: pipeline.files(),
        batch: pipeline.batch,
        size: pipeline.records,
        features: set.elements.iter().zip(features).map(report).collect(),
        first,
        elements,
        records,
        complete,
        unfilled,
        notes: cx.notes.take(),
        left_out: pipeline.left_out(),
        time: reading,
        stages: stages.collect(),
    })
}

/// The index of the stage whose records a batch takes, the source being 0, where what it leaves is known from what it took and gave.
fn before_batch(set: &DataSet, cx: &DataContext) -> Option<usize> {
    let stages = set.stages_in(cx.training);
    let is_batch =
        |stage: &Stage| matches!(&stage.kind, StageKind::Batch(b) if b.buckets.is_none());
    let batch = stages.iter().position(is_batch)?;
    let gives_all = |stage: &Stage| {
        matches!(
            stage.kind,
            StageKind::Map { .. }
                | StageKind::Drop { .. }
                | StageKind::Column(_)
                | StageKind::Repeat
                | StageKind::Epochs { .. }
                | StageKind::Prefetch { .. }
        )
    };
    stages[batch + 1..].iter().all(gives_all).then_some(batch)
}

fn chosen<'a>(spec: &'a Spec, name: Option<&str>) -> Result<&'a DataSet, Error> {
    match (name, spec.data.as_slice()) {
        (Some(name), _) => the_data(spec, name),
        (None, [only]) => Ok(only),
        (None, []) => Err(DataError::new("the spec has no data set").into()),
        (None, several) => {
            let names: Vec<String> = several
                .iter()
                .map(|set| format!("`{}`", set.name))
                .collect();
            let message = format!(
                "there are {} data sets: {}",
                several.len(),
                names.join(", ")
            );
            Err(DataError::new(message).help("name one of them").into())
        }
    }
}

/// The elements that are converted at once.
const MAX_CONVERTED: usize = 1 << 16;

/// Range and sum of the elements of a feature.
#[derive(Default)]
struct Moments {
    range: Option<(f64, f64)>,
    sum: f64,
    count: u64,
    nans: u64,
}

impl Moments {
    /// Adds the elements of a tensor, those past a run-time count of its first dimension being left out.
    fn add(&mut self, value: &Tensor, element: &Element, name: &str) {
        if value.dtype() == DType::String {
            return;
        }
        let counts: Vec<String> = CountName::all(name, 1)
            .map(|count| count.to_string())
            .collect();
        let used = counts.first().and_then(|count| element.values.get(count));
        let elements = value.data().len();
        let used = match used {
            Some(count) if count.shape().is_empty() && !value.shape().is_empty() => {
                let stride: usize = value.shape()[1..].iter().product();
                (count.to_i64s()[0].max(0) as usize * stride).min(elements)
            }
            _ => elements,
        };
        // A large batch is not copied as a whole.
        for start in (0..used).step_by(MAX_CONVERTED) {
            let part = start..used.min(start + MAX_CONVERTED);
            let shape = [part.len()];
            let part = each_data!(value.data(), values => values[part].to_vec());
            for x in Tensor::of(&shape, part).to_f64s() {
                self.add_one(x);
            }
        }
    }

    fn add_one(&mut self, x: f64) {
        if x.is_nan() {
            self.nans += 1;
            return;
        }
        let (low, high) = self.range.unwrap_or((x, x));
        self.range = Some((low.min(x), high.max(x)));
        self.sum += x;
        self.count += 1;
    }
}
