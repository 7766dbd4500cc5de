//! A data set on other records than those of its source, for predictions: as in an input pipeline of serving, each record goes through the
//! maps of the set, in the order of the file.
//!
//! In: a data set, the features that are asked for, and records. Out: batches of those features. Of the stages those that compute one of the
//! features, or join records, are kept; what only chooses, orders or repeats records is left out, so that every record gives a
//! prediction. Leaves alone: features that nothing asks for, such as labels, which a file then need not have.

mod arrays;
mod json_lines;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trainspec_compiler::typed::{
    Batch, Compression, DataSet, Feature, Padding, Remainder, Source, SourceKind,
    Stage as TypedStage, StageKind,
};
use trainspec_formats::codecs::CsvReader;
use trainspec_formats::files;
use trainspec_formats::records::ExpectedCompression;

use crate::data::block::{Block, NamedColumn};
use crate::data::csv::{Csv, CsvForm};
use crate::data::left_out::OnError;
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::tfrecord::TfRecord;
use crate::data::{DataContext, Pipeline, Position, Records, Stage, ensure_record};
use crate::{DataError, Error};

use arrays::Arrays;
use json_lines::JsonLines;

/// What a file of records holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordFormat {
    Csv,
    Npy,
    Npz,
    TfRecord,
    JsonLines,
}

/// The columns of some records, and the number of each record in its file.
type GivenRows = (Vec<NamedColumn>, Vec<u64>);

/// Records that come from elsewhere than from the source of a data set.
trait RecordSource: Send {
    /// The columns of the next records, at most `max` of them, and the number of each in its file; empty at the end.
    fn next(&mut self, max: usize) -> Result<GivenRows, DataError>;
}

/// A data set on the records of a file.
#[derive(Debug)]
pub(crate) struct GivenData {
    /// Batches of the features that were asked for.
    pub(crate) pipeline: Pipeline,
    /// How many records a last batch has been filled up with.
    filled: Arc<AtomicUsize>,
}

impl GivenData {
    /// Opens a file as the records of a data set, for these of its elements. Where `fills`, the last batch is as large as the others, with copies
    /// of the last record.
    pub(crate) fn open(
        cx: &DataContext,
        set: &DataSet,
        needed: &BTreeSet<String>,
        (path, format): (&Path, RecordFormat),
        batch: Option<u64>,
        fills: bool,
    ) -> Result<GivenData, Error> {
        let set = &flattened(set);
        let (stages, features) = slice(set, needed);
        let set = DataSet {
            features: features.clone(),
            ..set.clone()
        };
        ensure_record(&set)?;
        let path: Arc<Path> = Arc::from(path);
        let mut pipeline = Pipeline {
            on_error: Vec::new(),
            stage: source(cx, &set, &path, format)?,
            files: vec![path],
            table: cx.files.clone(),
            name: set.name.clone(),
            endless: false,
            repeats: false,
            records: None,
            batch: None,
            prefetch: None,
        };
        let filled = Arc::new(AtomicUsize::new(0));
        for mut stage in stages {
            if let StageKind::Batch(settings) = &mut stage.kind {
                settings.size = batch.unwrap_or(settings.size);
                // Results come in the order of the records.
                settings.buckets = None;
                settings.remainder = Some(Remainder::Keep);
                if fills {
                    let size = usize::try_from(settings.size).unwrap_or(usize::MAX);
                    pipeline = pipeline.wrapped(|inner| Box::new(Fill::new(inner, size, &filled)));
                }
            }
            pipeline = pipeline.add(cx, &stage)?;
        }
        Ok(GivenData { pipeline, filled })
    }

    /// The number of records that the last batch was filled up with.
    pub(crate) fn filled(&self) -> usize {
        self.filled.load(Ordering::Relaxed)
    }
}

/// The data set of a spec that has none: the inputs of its model, without the dimension of the batch.
pub(crate) fn data_of_inputs(inputs: &[Feature], size: u64) -> DataSet {
    let feature = |input: &Feature| {
        let dims = input.ty.shape.0.iter().skip(1).cloned().collect();
        Feature {
            ty: input.ty.with_dims(dims),
            ..input.clone()
        }
    };
    let span = inputs.first().map_or_else(Default::default, |one| one.span);
    let batch = TypedStage {
        kind: StageKind::Batch(Batch {
            size,
            remainder: None,
            padding: Padding::None,
            counted: Vec::new(),
            buckets: None,
        }),
        span,
    };
    DataSet {
        name: "inputs".to_owned(),
        source: Source {
            kind: SourceKind::Csv {
                files: Vec::new(),
                compression: Compression::Auto,
                delimiter: b',',
                header: true,
                missing: None,
            },
            max_skipped: None,
            span,
        },
        features: inputs.iter().map(feature).collect(),
        stages: vec![batch.clone()],
        eval_stages: vec![batch],
        elements: inputs
            .iter()
            .map(|input| (input.name.clone(), input.ty.clone()))
            .collect(),
    }
}

/// A data set that joins none: a record of a mixture is read as one of its first part, and one of a zip has the features of all parts.
fn flattened(set: &DataSet) -> DataSet {
    let parts: Vec<DataSet> = match &set.source.kind {
        SourceKind::Mix { parts, .. } => {
            let first = parts.first().map(|part| flattened(&part.data));
            first.into_iter().collect()
        }
        SourceKind::Zip { parts } => parts.iter().map(flattened).collect(),
        _ => return set.clone(),
    };
    let mut flat = DataSet {
        source: parts[0].source.clone(),
        features: Vec::new(),
        stages: Vec::new(),
        eval_stages: Vec::new(),
        ..set.clone()
    };
    for part in parts {
        let new = |feature: &Feature| !flat.features.iter().any(|own| own.name == feature.name);
        let new: Vec<Feature> = part.features.into_iter().filter(new).collect();
        flat.features.extend(new);
        flat.stages.extend(part.stages);
        flat.eval_stages.extend(part.eval_stages);
    }
    flat.stages.extend(set.stages.iter().cloned());
    flat.eval_stages.extend(set.eval_stages.iter().cloned());
    flat
}

/// The stages and features that some elements of a data set depend on (program slicing, backwards).
fn slice(set: &DataSet, needed: &BTreeSet<String>) -> (Vec<TypedStage>, Vec<Feature>) {
    let mut live = needed.clone();
    let mut kept = Vec::new();
    for stage in set.eval_stages.iter().rev() {
        let is_kept = match &stage.kind {
            StageKind::Map {
                name,
                program,
                value,
            } => {
                let is_live = live.remove(name);
                if is_live {
                    live.extend(program.inputs_of([*value]));
                }
                is_live
            }
            StageKind::Column(op) => {
                let is_live = live.remove(&op.name);
                if is_live {
                    live.extend(op.inputs().map(str::to_owned));
                }
                is_live
            }
            StageKind::Batch(_) | StageKind::Window { .. } => true,
            StageKind::Filter { .. }
            | StageKind::Drop { .. }
            | StageKind::Shuffle { .. }
            | StageKind::Epochs { .. }
            | StageKind::Repeat
            | StageKind::Take { .. }
            | StageKind::Skip { .. }
            | StageKind::Split(_)
            | StageKind::Cache
            | StageKind::Prefetch { .. }
            | StageKind::Interleave { .. }
            | StageKind::Shard { .. } => false,
        };
        if is_kept {
            kept.push(stage.clone());
        }
    }
    kept.reverse();
    let features = set.features.iter();
    let features = features.filter(|feature| live.contains(&feature.name));
    (kept, features.cloned().collect())
}

/// Opens the records of a file.
fn source(
    cx: &DataContext,
    set: &DataSet,
    path: &Arc<Path>,
    format: RecordFormat,
) -> Result<Box<dyn Stage>, Error> {
    let features = &set.features;
    let records: Box<dyn RecordSource> = match format {
        RecordFormat::Csv => return csv(cx, set, path),
        RecordFormat::TfRecord => {
            let files = vec![path.clone()];
            let source = TfRecord::new(cx, files, Compression::Auto, features, OnError::default());
            return Ok(Box::new(source));
        }
        RecordFormat::JsonLines => Box::new(JsonLines::open(&*cx.storage, path, features)?),
        RecordFormat::Npy => Box::new(Arrays::npy(path, features)?),
        RecordFormat::Npz => Box::new(Arrays::npz(&cx.storage, path, features)?),
    };
    let unit = match format {
        RecordFormat::JsonLines => Unit::Line,
        _ => Unit::Record,
    };
    Ok(Box::new(Given {
        records,
        file: cx.files.add(std::slice::from_ref(path), unit),
        ordinal: 0,
    }))
}

/// A csv file, written as those of the source where that is csv, and with a header where not. Without a header its columns are all features of
/// the set, or those alone that are needed.
fn csv(cx: &DataContext, set: &DataSet, path: &Arc<Path>) -> Result<Box<dyn Stage>, Error> {
    let (delimiter, header, missing) = match &set.source.kind {
        SourceKind::Csv {
            delimiter,
            header,
            missing,
            ..
        } => (*delimiter, *header, missing.as_deref()),
        _ => (b',', true, None),
    };
    let mut features = set.features.clone();
    if !header {
        let named = cx.spec.data.iter().find(|own| own.name == set.name);
        let all = named.map_or(features.clone(), |own| own.features.clone());
        let columns = |features: &[Feature]| -> usize {
            let sizes = features
                .iter()
                .filter_map(|f| f.ty.shape.elements()?.value());
            sizes.map(|n| usize::try_from(n).unwrap_or(0)).sum()
        };
        let found = first_fields(cx, path, delimiter)?;
        if found == Some(columns(&all)) {
            features = all;
        } else if let Some(found) = found.filter(|n| *n != columns(&features)) {
            let names = |features: &[Feature]| {
                let names: Vec<String> = features
                    .iter()
                    .map(|f| format!("`{}: {}`", f.name, f.ty))
                    .collect();
                names.join(", ")
            };
            let message = format!(
                "the first line has {found} fields; the predictions need {} in {} columns, and all features of `{}` are {}",
                names(&features),
                columns(&features),
                set.name,
                columns(&all)
            );
            return Err(DataError::new(message).in_file(path).in_line(1).into());
        }
    }
    let files = vec![path.clone()];
    let form = CsvForm {
        compression: Compression::Auto,
        delimiter,
        header,
        missing,
    };
    let csv = Csv::new(cx, files, form, &features, OnError::default());
    Ok(Box::new(csv))
}

/// The number of fields of the first line; `None` for an empty file.
fn first_fields(
    cx: &DataContext,
    path: &Arc<Path>,
    delimiter: u8,
) -> Result<Option<usize>, DataError> {
    let file = cx.storage.open(path);
    let file = file.map_err(|e| DataError::new(format!("cannot be read: {e}")).in_file(path))?;
    let opened = files::decompressed(file, ExpectedCompression::Detect);
    let (_, bytes) = opened.map_err(|e| DataError::new(e.to_string()).in_file(path))?;
    let mut lines = CsvReader::new(bytes, delimiter);
    match lines.read() {
        Ok(true) => Ok(Some(lines.fields().len())),
        // What is wrong is said when it is read.
        Ok(false) | Err(_) => Ok(None),
    }
}

/// Records as the source of a pipeline that is read once.
struct Given {
    records: Box<dyn RecordSource>,
    file: u32,
    ordinal: u64,
}

impl Stage for Given {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let (columns, numbers) = self.records.next(max)?;
        if numbers.is_empty() {
            return Ok(None);
        }
        let mut origins = Origins::default();
        for at in numbers {
            origins.push(Origin {
                pass: 0,
                ordinal: self.ordinal,
                at,
                file: self.file,
            });
            self.ordinal += 1;
        }
        Ok(Some(Block::records(columns, origins)))
    }

    fn restart(&mut self) {
        unreachable!("predictions read records once");
    }

    fn rewind(&mut self) {
        unreachable!("predictions read records once");
    }

    /// Predictions go on from no position, but a stage may ask for one.
    fn position(&self, _: &mut Position) {}

    fn seek(&mut self, _: &mut Records<'_>) -> Result<(), Error> {
        unreachable!("predictions have no position to go on from");
    }
}

/// Appends copies of the last record, until the number of records is a multiple of the batch size.
struct Fill {
    inner: Box<dyn Stage>,
    size: usize,
    read: usize,
    last: Option<Block>,
    filled: Arc<AtomicUsize>,
}

impl Fill {
    fn new(inner: Box<dyn Stage>, size: usize, filled: &Arc<AtomicUsize>) -> Fill {
        Fill {
            inner,
            size,
            read: 0,
            last: None,
            filled: filled.clone(),
        }
    }
}

impl Stage for Fill {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        if let Some(block) = self.inner.next(max)? {
            self.read += block.rows();
            self.last = Some(block.gather(&[block.rows() - 1]));
            return Ok(Some(block));
        }
        let missing = self.read.next_multiple_of(self.size) - self.read;
        let Some(last) = self.last.as_ref().filter(|_| missing > 0) else {
            return Ok(None);
        };
        let copies = missing.min(max);
        self.read += copies;
        self.filled.fetch_add(copies, Ordering::Relaxed);
        Ok(Some(last.gather(&vec![0; copies])))
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
