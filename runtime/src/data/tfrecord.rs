//! `tfrecord`: `tf.train.Example` messages of TFRecord files (`TFRecordDataset`, `tf.io.parse_example`).
//!
//! A feature is found by its key. Floats come from a `FloatList`, integers and bools from an `Int64List`, strings from a `BytesList`;
//! `u8` also from the bytes of one string. A feature of varying length has as many elements as the record has.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::typed::{self, Feature};
use trainspec_formats::FormatError;
use trainspec_formats::examples::{self, Example};
use trainspec_formats::files::SequentialFile;
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::records::{Compression, ExpectedCompression, ReaderOptions, RecordReader};

use crate::data::position::damaged;
use crate::data::values::{Value, bounded, defaults, tensor};
use crate::data::{DataContext, Element, Position, Records, Stage, count_names, paths};
use crate::env::Env;
use crate::{self as runtime, DataError, Error, SourceLocation};

/// The records of TFRecord files.
pub(super) struct TfRecord {
    env: Arc<dyn Env>,
    files: Vec<Arc<Path>>,
    options: ReaderOptions,
    columns: Vec<Column>,
    /// Whether a record had the feature of each column so far.
    found: Vec<bool>,
    /// Whether this epoch was begun in its middle, so that nothing is known of the records before.
    resumed: bool,
    /// The index of the current file.
    file: usize,
    open: Option<Open>,
}

/// The current file, and the number of records read from it.
struct Open {
    reader: RecordReader<SequentialFile>,
    number: u64,
}

const WORD: &str = "tfrecord";
const VERSION: u32 = 1;

impl TfRecord {
    pub(super) fn new(
        cx: &DataContext,
        files: Vec<Arc<Path>>,
        compression: typed::Compression,
        features: &[Feature],
    ) -> TfRecord {
        let compression = match compression {
            typed::Compression::Auto => ExpectedCompression::Detect,
            typed::Compression::None => ExpectedCompression::Is(Compression::None),
            typed::Compression::Gzip => ExpectedCompression::Is(Compression::Gzip),
            typed::Compression::Zlib => ExpectedCompression::Is(Compression::Zlib),
        };
        TfRecord {
            env: cx.env.clone(),
            files,
            options: ReaderOptions {
                compression,
                ..ReaderOptions::default()
            },
            columns: features.iter().map(Column::new).collect(),
            found: vec![false; features.len()],
            resumed: false,
            file: 0,
            open: None,
        }
    }

    /// The number of records; `None` where the files are too large to be counted, or damaged.
    pub(super) fn count(&self) -> Option<u64> {
        paths::count_records(&*self.env, &self.files, |file| {
            let mut reader = RecordReader::new(SequentialFile::new(file), &self.options).ok()?;
            let mut count = 0;
            while reader.next().ok()?.is_some() {
                count += 1;
            }
            Some(count)
        })
    }

    fn open_file(&self, path: &Arc<Path>) -> Result<RecordReader<SequentialFile>, DataError> {
        let failed = |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
        let file = self.env.open(path).map_err(failed)?;
        let mut start = [0; 12];
        let has_start = file.read_exact_at(0, &mut start).is_ok();
        let is_text = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
        if has_start && start.iter().all(is_text) {
            let error = DataError::new("is text, and no TFRecord file").in_file(path);
            return Err(error.help("comma-separated values are read by `source csv(\"...\");`"));
        }
        RecordReader::new(SequentialFile::new(file), &self.options).map_err(|e| corrupt(e, path))
    }

    /// Rejects a feature of varying length that no record of all files had: it is misspelt, not empty everywhere.
    fn reject_missing_features(&self) -> Result<(), DataError> {
        // Without a record, or from the middle of an epoch on, nothing is known.
        if self.resumed || !self.found.contains(&true) {
            return Ok(());
        }
        let missing = self.columns.iter().zip(&self.found);
        match missing.into_iter().find(|(c, found)| c.counted && !**found) {
            Some((column, _)) => {
                let key = &column.feature.key;
                let error = DataError::new(format!("no record has a feature `{key}`"));
                let path = self
                    .files
                    .first()
                    .map_or_else(String::new, |p| p.display().to_string());
                let help = format!("`trainspec inspect {path}` lists the features");
                Err(error.at(column.feature.span).help(help))
            }
            None => Ok(()),
        }
    }

    /// Calls `work` with the next record, its file and its number there, from 1; `None` after the last file.
    fn read<R>(
        &mut self,
        work: impl FnOnce(&[Column], &[u8], &Arc<Path>, u64) -> Result<R, DataError>,
    ) -> Result<Option<R>, DataError> {
        while let Some(path) = self.files.get(self.file).cloned() {
            if self.open.is_none() {
                let reader = self.open_file(&path)?;
                self.open = Some(Open { reader, number: 0 });
            }
            let open = self.open.as_mut().expect("it was just opened");
            if let Some(record) = open.reader.next().map_err(|e| corrupt(e, &path))? {
                open.number += 1;
                return work(&self.columns, record, &path, open.number).map(Some);
            }
            self.open = None;
            self.file += 1;
        }
        Ok(None)
    }
}

/// Skips the first `number` records of a file; gives how many they are.
fn skip(
    reader: &mut RecordReader<SequentialFile>,
    number: u64,
    path: &Arc<Path>,
) -> Result<u64, DataError> {
    for read in 0..number {
        if reader.next().map_err(|e| corrupt(e, path))?.is_none() {
            let message = format!("has {read} records, and the position is after {number}");
            return Err(paths::changed(DataError::new(message), path));
        }
    }
    Ok(number)
}

/// The error for a corrupt file.
fn corrupt(error: FormatError, path: &Arc<Path>) -> DataError {
    let help = format!(
        "`trainspec recover {} OUT` saves the intact records",
        path.display()
    );
    DataError::new(error.to_string()).in_file(path).help(help)
}

/// The features of a record.
fn decode(
    columns: &[Column],
    record: &[u8],
    path: &Arc<Path>,
    number: u64,
    found: &mut [bool],
) -> Result<Element, DataError> {
    let here = |error: DataError| error.in_file(path).in_record(number);
    let example =
        examples::decode(record).map_err(|e| here(DataError::new(e.cause.to_string())))?;
    let mut values = BTreeMap::new();
    for (column, found) in columns.iter().zip(found) {
        let (tensor, count) = column.read(&example).map_err(here)?;
        *found |= column.kind(&example).is_some();
        let name = &column.feature.name;
        if column.counted {
            let count_name = count_names(name, 1).swap_remove(0);
            values.insert(count_name, Tensor::scalar(count as i64));
        }
        values.insert(name.clone(), tensor);
    }
    Ok(Element {
        values,
        rows: None,
        pass: 0,
        location: Some(SourceLocation {
            path: path.clone(),
            position: runtime::Position::Record(number),
        }),
        row_locations: Vec::new(),
    })
}

impl Stage for TfRecord {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        let mut found = std::mem::take(&mut self.found);
        let element = self.read(|columns, record, path, number| {
            decode(columns, record, path, number, &mut found)
        });
        self.found = found;
        match element? {
            Some(element) => Ok(Some(element)),
            None => {
                self.reject_missing_features()?;
                Ok(None)
            }
        }
    }

    fn advance(&mut self) -> Result<bool, Error> {
        Ok(self.read(|_, _, _, _| Ok(()))?.is_some())
    }

    fn restart(&mut self) {
        self.file = 0;
        self.open = None;
        self.resumed = false;
    }

    fn rewind(&mut self) {
        self.restart();
    }

    /// The file, the records read of it, and the byte after them, after decompression.
    fn position(&self, at: &mut Position) {
        let open = self.open.as_ref();
        let (number, byte) = open.map_or((0, 0), |open| (open.number, open.reader.position()));
        at.push(WORD, VERSION, &[self.file as u64, number, byte]);
    }

    /// A compressed file is read again up to the position.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [file, number, byte] = at.pop(WORD, VERSION)?;
        self.file = paths::check_index(WORD, file, &self.files)?;
        (self.open, self.resumed) = (None, true);
        if number == 0 {
            return Ok(());
        }
        let Some(path) = self.files.get(self.file) else {
            return Err(damaged(WORD, "has read records after the last file"));
        };
        let mut reader = self.open_file(path)?;
        if reader.compression() == Compression::None {
            let rest = paths::open_at(&*self.env, path, byte)?;
            let resumed = RecordReader::resume(rest, byte, number, &self.options);
            reader = resumed.map_err(|e| corrupt(e, path))?;
        } else {
            at.reread += skip(&mut reader, number, path)?;
            if reader.position() != byte {
                let found = reader.position();
                let message = format!(
                    "record {number} ends at byte {found}, and the position is after {byte}"
                );
                return Err(paths::changed(DataError::new(message), path).into());
            }
        }
        self.open = Some(Open { reader, number });
        Ok(())
    }
}

/// A feature and its schema.
struct Column {
    feature: Feature,
    /// The type, at its full capacity.
    ty: Type,
    /// Whether its length varies from record to record.
    counted: bool,
    defaults: Option<Vec<Value>>,
}

impl Column {
    fn new(feature: &Feature) -> Column {
        let ty = Type::of(&feature.ty).expect("the sizes of features are known");
        Column {
            feature: feature.clone(),
            counted: feature.ty.shape.is_counted(),
            defaults: defaults(feature, &ty),
            ty,
        }
    }

    /// What a record has of the feature.
    fn kind<'e>(&self, example: &'e Example) -> Option<&'e Kind> {
        let feature = example.features.as_ref()?.feature.get(&self.feature.key)?;
        feature.kind.as_ref()
    }

    /// The tensor, padded to its capacity, and its length along the first dimension. Fails where the feature is missing and has no
    /// default, or has another type or number of values than the schema.
    fn read(&self, example: &Example) -> Result<(Tensor, usize), DataError> {
        let key = &self.feature.key;
        let mut values = match (self.kind(example), &self.defaults) {
            (Some(kind), _) if !(is_empty(kind) && self.defaults.is_some()) => self.values(kind)?,
            (_, Some(defaults)) => defaults.clone(),
            // A missing list of varying length is empty.
            (_, None) if self.counted => Vec::new(),
            (_, None) => return Err(self.missing(example)),
        };
        for value in &mut values {
            *value = bounded(&self.feature, std::mem::replace(value, Value::Int(0)))?;
        }
        let (found, capacity) = (values.len(), self.ty.elements());
        let fits = match self.counted {
            true => {
                found <= capacity
                    && found.is_multiple_of(self.ty.shape[1..].iter().product::<usize>().max(1))
            }
            false => found == capacity,
        };
        if !fits {
            let message = format!(
                "`{key}` has {found} values, and `{}` takes {}{capacity}",
                self.feature.ty,
                if self.counted { "up to " } else { "" }
            );
            return Err(DataError::new(message).at(self.feature.span));
        }
        let length = found
            / self
                .ty
                .shape
                .get(1..)
                .unwrap_or(&[])
                .iter()
                .product::<usize>()
                .max(1);
        let padding = match self.ty.dtype {
            DType::String => Value::Bytes(Vec::new()),
            _ => Value::Int(0),
        };
        values.resize(capacity, padding);
        Ok((tensor(&self.ty, values), length))
    }

    /// The error for a feature that a record does not have.
    fn missing(&self, example: &Example) -> DataError {
        let key = &self.feature.key;
        let mut names: Vec<&str> = (example.features.iter())
            .flat_map(|f| f.feature.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        let mut shown: Vec<String> = names.iter().take(12).map(|n| format!("`{n}`")).collect();
        if names.len() > 12 {
            shown.push("...".to_owned());
        }
        let help = match shown.is_empty() {
            true => "the record has no features".to_owned(),
            false => format!(
                "its features are {}; a default replaces a missing value: `feature {}: {} = 0;`",
                shown.join(", "),
                self.feature.name,
                self.feature.ty
            ),
        };
        DataError::new(format!("there is no feature `{key}`"))
            .at(self.feature.span)
            .help(help)
    }

    /// The elements of a list, converted to the dtype of the feature; fails where the list has another kind, or an integer is out of range.
    fn values(&self, kind: &Kind) -> Result<Vec<Value>, DataError> {
        let dtype = self.ty.dtype;
        match (kind, dtype) {
            (Kind::FloatList(list), DType::F16 | DType::Bf16 | DType::F32 | DType::F64) => {
                let float = |x: &f32| Value::Float(f64::from(*x));
                Ok(list.value.iter().map(float).collect())
            }
            (
                Kind::Int64List(list),
                DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::Bool,
            ) => {
                let (low, high) = dtype.int_range().unwrap_or((0, 1));
                let int = |n: &i64| match (low..=high).contains(n) {
                    true => Ok(Value::Int(*n)),
                    false => {
                        let message =
                            format!("`{}` has {n}, which is no {dtype}", self.feature.key);
                        Err(DataError::new(message).at(self.feature.span))
                    }
                };
                list.value.iter().map(int).collect()
            }
            (Kind::BytesList(list), DType::U8) if list.value.len() == 1 => {
                let byte = |b: &u8| Value::Int(i64::from(*b));
                Ok(list.value[0].iter().map(byte).collect())
            }
            (Kind::BytesList(list), DType::String) => Ok(list
                .value
                .iter()
                .map(|b| Value::Bytes(b.to_vec()))
                .collect()),
            (kind, _) => {
                let has = match kind {
                    Kind::BytesList(_) => "strings",
                    Kind::FloatList(_) => "floats",
                    Kind::Int64List(_) => "integers",
                };
                let message = format!(
                    "`{}` has {has}, and is read as `{}`",
                    self.feature.key, self.feature.ty
                );
                Err(DataError::new(message).at(self.feature.span))
            }
        }
    }
}

fn is_empty(kind: &Kind) -> bool {
    match kind {
        Kind::BytesList(list) => list.value.is_empty(),
        Kind::FloatList(list) => list.value.is_empty(),
        Kind::Int64List(list) => list.value.is_empty(),
    }
}
