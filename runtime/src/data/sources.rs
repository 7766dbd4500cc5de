//! Sources, opened: which stage reads the records of each kind of source.

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::DType;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::typed::{DataSet, Feature, MixUntil, Source, SourceKind, StageKind};

use crate::data::interleave::Interleave;
use crate::data::left_out::OnError;
use crate::data::mix::Mix;
use crate::data::zip::Zip;
use crate::data::{
    DataContext, Pipeline, Stage, arrays, csv, image_files, paths, registered, text, tfrecord,
    values,
};
use crate::{Error, memory};

/// An open source.
pub(super) struct OpenSource {
    pub(super) stage: Box<dyn Stage>,
    /// Its files, in order.
    pub(super) files: Vec<Arc<Path>>,
    /// The number of records of an epoch, where it is known.
    pub(super) records: Option<u64>,
    /// What its parts do with records that cannot be decoded.
    pub(super) on_error: Vec<OnError>,
}

impl OpenSource {
    /// A source; how many of its records can be decoded is not known before they are.
    pub(super) fn new(
        stage: Box<dyn Stage>,
        files: Vec<Arc<Path>>,
        records: Option<u64>,
        on_error: OnError,
    ) -> OpenSource {
        OpenSource {
            stage,
            files,
            records: records.filter(|_| !on_error.is_skip()),
            on_error: vec![on_error],
        }
    }
}

/// Which stages of the data sets that a source joins are run.
pub(super) type PartStages = fn(&StageKind) -> bool;

/// Opens the source of a data set, whose first stage says whether its files are read in turn.
pub(super) fn open(
    cx: &DataContext,
    set: &DataSet,
    part_stages: PartStages,
) -> Result<OpenSource, Error> {
    ensure_record(set)?;
    let features = &set.features;
    let on_error = OnError::new(set.source.max_skipped);
    match &set.source.kind {
        SourceKind::Csv { files, .. }
        | SourceKind::Text { files, .. }
        | SourceKind::TfRecord { files, .. } => {
            let files = paths::files(cx, files)?;
            let first = set.stages_in(cx.training).first().map(|stage| &stage.kind);
            let source = (&set.source, features.as_slice());
            let reader = reader(cx, source, files.clone(), &files, on_error.clone());
            let records = reader.count();
            let stage: Box<dyn Stage> = match first {
                Some(StageKind::Interleave { cycle, block }) => {
                    Box::new(interleaved(cx, set, &files, &on_error, [*cycle, *block]))
                }
                _ => reader,
            };
            Ok(OpenSource::new(stage, files, records, on_error))
        }
        SourceKind::Arrays { format, files } => {
            arrays::open(cx, &set.source, (*format, files), features, on_error)
        }
        SourceKind::Files { files, resize } => {
            let files = paths::files(cx, files)?;
            let source =
                image_files::Files::new(cx, files.clone(), *resize, features, on_error.clone());
            let records = Some(source.len());
            Ok(OpenSource::new(Box::new(source), files, records, on_error))
        }
        SourceKind::Memory { name } => {
            let given = cx.program.arrays(name).map_err(|e| e.at(set.source.span))?;
            arrays::in_memory(cx, &set.source, name, &given, features)
        }
        SourceKind::Registered(source) => {
            let source = registered::Registered::new(cx, source, features)?;
            Ok(OpenSource::new(
                Box::new(source),
                Vec::new(),
                None,
                on_error,
            ))
        }
        SourceKind::Mix { parts, seed, until } => {
            let opened = parts
                .iter()
                .map(|part| part_of(cx, &part.data, part_stages));
            let opened: Vec<Pipeline> = opened.collect::<Result<_, _>>()?;
            // Of one that ends with the first it is not known.
            let counts = opened.iter().map(count_of).collect::<Option<Vec<u64>>>();
            let records = counts.filter(|_| *until == MixUntil::All);
            let weights: Vec<f64> = parts.iter().map(|part| part.weight).collect();
            let seed = seed.unwrap_or(cx.seed);
            Ok(joined(
                opened,
                records.map(|all| all.into_iter().fold(0, u64::saturating_add)),
                |stages| Box::new(Mix::new(stages, weights, seed, *until)),
            ))
        }
        SourceKind::Zip { parts } => {
            let opened = parts.iter().map(|part| part_of(cx, part, part_stages));
            let opened: Vec<Pipeline> = opened.collect::<Result<_, _>>()?;
            let counts = opened.iter().map(count_of).collect::<Option<Vec<u64>>>();
            let records = counts.and_then(|all| all.into_iter().min());
            Ok(joined(opened, records, |stages| Box::new(Zip::new(stages))))
        }
    }
}

/// A stage that reads files of many records, one file after the other.
pub(super) trait FileReader: Stage {
    /// The number of records, if the files are small and readable.
    fn count(&self) -> Option<u64>;
}

/// The reader of some files of a source, which are among `all`.
fn reader(
    cx: &DataContext,
    (source, features): (&Source, &[Feature]),
    files: Vec<Arc<Path>>,
    all: &[Arc<Path>],
    on_error: OnError,
) -> Box<dyn FileReader> {
    match &source.kind {
        SourceKind::Csv {
            compression,
            delimiter,
            header,
            missing,
            ..
        } => {
            let form = csv::CsvForm {
                compression: *compression,
                delimiter: *delimiter,
                header: *header,
                missing: missing.as_deref(),
            };
            Box::new(csv::Csv::new(cx, files, form, features, on_error))
        }
        SourceKind::Text {
            compression, unit, ..
        } => {
            let form = (*compression, *unit);
            let feature = features.first().expect("a text has one feature");
            Box::new(text::Text::new(cx, files, form, feature, on_error))
        }
        SourceKind::TfRecord { compression, .. } => {
            let own = tfrecord::TfRecord::new(cx, files, *compression, features, on_error);
            Box::new(own.among(all))
        }
        _ => unreachable!("`{}` has no files of many records", source.word()),
    }
}

/// The files of a source, read in turn.
fn interleaved(
    cx: &DataContext,
    set: &DataSet,
    files: &[Arc<Path>],
    on_error: &OnError,
    [cycle, block]: [u64; 2],
) -> Interleave {
    let (own, shared, all) = (cx.clone(), on_error.clone(), files.to_vec());
    let (source, features) = (set.source.clone(), set.features.clone());
    let open = move |file: usize| -> Box<dyn Stage> {
        let files = vec![all[file].clone()];
        reader(&own, (&source, &features), files, &all, shared.clone())
    };
    Interleave::new(files.len(), cycle, block, on_error.clone(), Box::new(open))
}

/// A data set that a source joins, with some of its stages.
fn part_of(cx: &DataContext, part: &DataSet, part_stages: PartStages) -> Result<Pipeline, Error> {
    let mut pipeline = Pipeline::of_source(cx, part, part_stages)?;
    let stages = part.stages_in(cx.training).iter();
    for stage in stages.filter(|stage| part_stages(&stage.kind)) {
        pipeline = pipeline.add(cx, stage)?;
    }
    Ok(pipeline)
}

/// The number of records of a data set, where it is known.
fn count_of(pipeline: &Pipeline) -> Option<u64> {
    pipeline.records.filter(|_| !pipeline.repeats)
}

/// The source that joins data sets.
fn joined(
    parts: Vec<Pipeline>,
    records: Option<u64>,
    join: impl FnOnce(Vec<Box<dyn Stage>>) -> Box<dyn Stage>,
) -> OpenSource {
    let (mut files, mut on_error, mut stages) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        for file in part.files {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        on_error.extend(part.on_error);
        stages.push(part.stage);
    }
    OpenSource {
        stage: join(stages),
        files,
        records,
        on_error,
    }
}

/// Fails where one record of a data set needs more memory than there is.
pub(super) fn ensure_record(set: &DataSet) -> Result<(), Error> {
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
