//! `tfrecord`: `tf.train.Example` messages of TFRecord files (`TFRecordDataset`, `tf.io.parse_example`).
//!
//! A feature is found by its key. Floats come from a `FloatList`, integers and bools from an `Int64List`, strings from a `BytesList`;
//! `u8` also from the bytes of one string. A feature of varying length has as many elements as the record has.

mod columnar;

use std::io;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::diag::nearest;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::typed::{self, Feature};
use trainspec_formats::FormatError;
use trainspec_formats::examples::{self, Example, FeatureLists};
use trainspec_formats::files::SequentialFile;
use trainspec_formats::proto::feature::Kind;
use trainspec_formats::records::{
    Compression, Ending, IndexedRecords, ReaderOptions, RecordIndex, RecordReader,
};

use crate::data::block::{Block, block_rows};
use crate::data::left_out::OnError;
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::position::damaged;
use crate::data::rows;
use crate::data::sources::FileReader;
use crate::data::values::{Value, bounded, defaults, tensor};
use crate::data::{DataContext, Notes, Position, Records, Stage, count_names, paths, skip_decoded};
use crate::env::Storage;
use crate::{DataError, Error};

use columnar::ColumnParser;

/// The records of TFRecord files.
pub(super) struct TfRecord {
    storage: Arc<dyn Storage>,
    files: Vec<Arc<Path>>,
    /// All files of the source; a feature that is in none of them is misspelt.
    all: Vec<Arc<Path>>,
    /// The index of the first of its own in the file table.
    first_file: u32,
    options: ReaderOptions,
    columns: Vec<Column>,
    /// The most records of a block.
    max_rows: usize,
    /// Decodes records straight into columns; `None` where the features need a closer look.
    parser: Option<ColumnParser>,
    /// Whether a record had the feature of each column so far.
    found: Vec<bool>,
    /// Whether features of varying length that were not found yet have been looked for in the first records.
    looked: bool,
    /// Whether this epoch was begun in its middle, so that nothing is known of the records before.
    resumed: bool,
    /// The index of the current file.
    file: usize,
    /// The records read in this epoch.
    ordinal: u64,
    open: Option<Open>,
    /// Each file with an index of its records, and how many records are before it, where they are read by their indices.
    indices: Vec<(u64, IndexedRecords)>,
    on_error: OnError,
    notes: Notes,
}

/// The current file, and the number of records read from it.
struct Open {
    reader: RecordReader<SequentialFile>,
    number: u64,
}

/// How many records are looked through for a feature of varying length that none of the first had.
const MAX_LOOKED_AT: u64 = 100_000;

const WORD: &str = "tfrecord";
const VERSION: u32 = 2;

impl TfRecord {
    pub(super) fn new(
        cx: &DataContext,
        files: Vec<Arc<Path>>,
        compression: typed::Compression,
        features: &[Feature],
        on_error: OnError,
    ) -> TfRecord {
        let compression = paths::expected_compression(compression);
        let columns: Vec<Column> = features.iter().map(Column::new).collect();
        TfRecord {
            storage: cx.storage.clone(),
            first_file: cx.files.add(&files, Unit::Record),
            all: files.clone(),
            files,
            options: ReaderOptions {
                compression,
                // TensorFlow takes a file that is cut in a header for one that ends there; no record is lost here without a word.
                ending: Ending::Strict,
                ..ReaderOptions::default()
            },
            max_rows: block_rows(columns.iter().map(|column| &column.ty)),
            parser: ColumnParser::new(&columns),
            columns,
            found: vec![false; features.len()],
            looked: false,
            resumed: false,
            file: 0,
            ordinal: 0,
            open: None,
            indices: Vec::new(),
            on_error,
            notes: cx.notes.clone(),
        }
    }

    /// The reader of files that are among others of the source.
    pub(super) fn among(self, all: &[Arc<Path>]) -> TfRecord {
        TfRecord {
            all: all.to_vec(),
            ..self
        }
    }

    fn open_file(&self, path: &Arc<Path>) -> Result<RecordReader<SequentialFile>, DataError> {
        let failed = |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
        let file = self.storage.open(path).map_err(failed)?;
        let mut start = [0; 12];
        let has_start = file.read_exact_at(0, &mut start).is_ok();
        let is_text = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
        if has_start && start.iter().all(is_text) {
            let error = DataError::new("is text, and no TFRecord file").in_file(path);
            return Err(error.help("comma-separated values are read by `source csv(\"...\");`"));
        }
        paths::ensure_compression(&*file, self.options.compression, path)?;
        RecordReader::new(SequentialFile::new(file), &self.options).map_err(|e| corrupt(e, path))
    }

    /// Rejects, once, a feature of varying length that the first records of all files lack. A training may end long before an epoch does, and
    /// would never have seen it.
    fn look_at_first_records(&mut self) -> Result<(), DataError> {
        if std::mem::replace(&mut self.looked, true) || self.resumed {
            return Ok(());
        }
        self.note_missing_features()?;
        self.reject_missing_features(MAX_LOOKED_AT)
    }

    /// Notes a feature whose default stands in for all of the first records: it may be misspelt.
    fn note_missing_features(&self) -> Result<(), DataError> {
        for column in self.columns.iter().filter(|c| c.defaults.is_some()) {
            let records = match self.has_feature(column, MAX_LOOKED_AT)? {
                Some(true) => continue,
                Some(false) => "no record".to_owned(),
                None => format!("none of the first {MAX_LOOKED_AT} records"),
            };
            let key = &column.feature.key;
            let names = self.first_names()?;
            let near = match nearest(key, names.iter().map(String::as_str)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            self.notes.add(format!(
                "{records} has a feature `{key}`, so its default stands in for all{near}"
            ));
        }
        Ok(())
    }

    /// The names of the features of the first record.
    fn first_names(&self) -> Result<Vec<String>, DataError> {
        for path in &self.all {
            let mut reader = self.open_file(path)?;
            if let Ok(Some(record)) = reader.next() {
                let decoded = Decoded::of(record, false)?;
                let features = decoded.example.features.unwrap_or_default();
                let mut names: Vec<String> = features.feature.keys().cloned().collect();
                names.sort_unstable();
                return Ok(names);
            }
        }
        Ok(Vec::new())
    }

    /// Rejects a feature of varying length that no record of all files has, up to a number of records: it is misspelt, not empty everywhere.
    fn reject_missing_features(&mut self, limit: u64) -> Result<(), DataError> {
        for (i, column) in self.columns.iter().enumerate() {
            if !column.counted || self.found[i] {
                continue;
            }
            // Records may have it as an empty list, and other files may have it, which is looked for before it is called missing.
            match self.has_feature(column, limit)? {
                Some(true) => {
                    self.found[i] = true;
                    continue;
                }
                None => continue,
                Some(false) => {}
            }
            let key = &column.feature.key;
            let what = match column.feature.is_sequence {
                true => "sequence",
                false => "feature",
            };
            let error = DataError::new(format!("no record has a {what} `{key}`"));
            let path = self
                .all
                .first()
                .map_or_else(String::new, |p| p.display().to_string());
            let help = format!("`trainspec inspect {path}` lists the features");
            return Err(error.at(column.feature.span).help(help));
        }
        Ok(())
    }

    /// Whether a record has the feature of a column; `None` where the limit comes first.
    fn has_feature(&self, column: &Column, limit: u64) -> Result<Option<bool>, DataError> {
        let mut records = 0;
        for path in &self.all {
            let mut reader = self.open_file(path)?;
            loop {
                if self.on_error.is_skip() && reader.skip_damaged().is_some() {
                    continue;
                }
                let Some(record) = reader.next().map_err(|e| corrupt(e, path))? else {
                    break;
                };
                if records == limit {
                    return Ok(None);
                }
                records += 1;
                let decoded = Decoded::of(record, column.feature.is_sequence).ok();
                if decoded.is_some_and(|decoded| decoded.has(column)) {
                    return Ok(Some(true));
                }
            }
        }
        Ok(Some(false))
    }

    /// Calls `work` with the next record, its file and its number there, from 1; `None` after the last file.
    fn read_next<R>(
        &mut self,
        work: impl FnOnce(&[u8], Record<'_>) -> Result<R, DataError>,
    ) -> Result<Option<R>, DataError> {
        while let Some(path) = self.files.get(self.file) {
            if self.open.is_none() {
                let reader = self.open_file(path)?;
                self.open = Some(Open { reader, number: 0 });
            }
            let open = self.open.as_mut().expect("it was just opened");
            if self.on_error.is_skip()
                && let Some(error) = open.reader.skip_damaged()
            {
                open.number += 1;
                self.ordinal += 1;
                let error = corrupt(error, path).in_record(open.number);
                self.on_error.leave_out(error)?;
                continue;
            }
            if let Some(record) = open.reader.next().map_err(|e| corrupt(e, path))? {
                open.number += 1;
                let place = Record {
                    columns: &self.columns,
                    parser: self.parser.as_mut(),
                    path,
                    number: open.number,
                    origin: Origin {
                        pass: 0,
                        ordinal: self.ordinal,
                        at: open.number,
                        file: self.first_file.saturating_add(self.file as u32),
                    },
                };
                self.ordinal += 1;
                return work(record, place).map(Some);
            }
            self.open = None;
            self.file += 1;
        }
        Ok(None)
    }

    /// The file, the records read of it, the byte after them, after decompression, and the records of the epoch.
    fn numbers(&self) -> [u64; 4] {
        let open = self.open.as_ref();
        let (number, byte) = open.map_or((0, 0), |open| (open.number, open.reader.position()));
        [self.file as u64, number, byte, self.ordinal]
    }

    /// Goes to where [`TfRecord::numbers`] were taken; gives how many records of a compressed file were read again.
    fn go_to(&mut self, [file, number, byte, ordinal]: [u64; 4]) -> Result<u64, Error> {
        self.file = paths::check_index(WORD, file, &self.files)?;
        self.ordinal = ordinal;
        self.open = None;
        if number == 0 {
            return Ok(0);
        }
        let Some(path) = self.files.get(self.file) else {
            return Err(damaged(WORD, "has read records after the last file"));
        };
        let mut reader = self.open_file(path)?;
        let mut reread = 0;
        if reader.compression() == Compression::None {
            let rest = paths::open_at(&*self.storage, path, byte)?;
            let resumed = RecordReader::resume(rest, byte, number, &self.options);
            reader = resumed.map_err(|e| corrupt(e, path))?;
        } else {
            reread = skip(&mut reader, number, path, self.on_error.is_skip())?;
            if reader.position() != byte {
                let found = reader.position();
                let message = format!(
                    "record {number} ends at byte {found}, and the position is after {byte}"
                );
                return Err(paths::changed(DataError::new(message), path).into());
            }
        }
        self.open = Some(Open { reader, number });
        Ok(reread)
    }

    /// Up to `max` records, decoded straight into columns; `None` where one of them needs a closer look.
    fn parse(&mut self, max: usize) -> Result<Option<Block>, DataError> {
        let mut origins = Origins::default();
        while origins.len() < max {
            let read = self.read_next(|record, at| {
                let parser = at.parser.expect("a parser was made");
                Ok((parser.push(record, at.columns), at.origin))
            })?;
            match read {
                Some((true, origin)) => origins.push(origin),
                Some((false, _)) => return Ok(None),
                None => break,
            }
        }
        let parser = self.parser.as_mut().expect("a parser was made");
        Ok(parser.finish(&self.columns, origins, &mut self.found))
    }

    /// Up to `max` records, decoded one by one.
    fn decode(&mut self, max: usize) -> Result<Block, DataError> {
        let mut rows = Rows::default();
        let mut found = std::mem::take(&mut self.found);
        while rows.origins.len() < max {
            let read =
                self.read_next(|record, at| Ok((decode(record, &at, &mut found), at.origin)));
            let read = match read {
                Ok(Some((Ok(values), origin))) => {
                    rows.push(values, origin, max);
                    Ok(())
                }
                Ok(Some((Err(error), _))) => self.on_error.leave_out(error),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                self.found = found;
                return Err(error);
            }
        }
        self.found = found;
        Ok(rows.into_block())
    }

    /// Calls `work` with the record of each index.
    fn read_at(
        &mut self,
        indices: &[u64],
        mut work: impl FnMut(&[u8], Record<'_>) -> Result<bool, DataError>,
    ) -> Result<bool, DataError> {
        let mut buffer = Vec::new();
        for index in indices {
            let file = self.indices.partition_point(|(first, _)| first <= index) - 1;
            let (first, records) = &self.indices[file];
            let (path, number) = (&self.files[file], index - first + 1);
            let record = records.read((index - first) as usize, &mut buffer);
            let record = record.map_err(|e| corrupt(e, path))?;
            let at = Record {
                columns: &self.columns,
                parser: self.parser.as_mut(),
                path,
                number,
                origin: Origin {
                    pass: 0,
                    ordinal: *index,
                    at: number,
                    file: self.first_file.saturating_add(file as u32),
                },
            };
            if !work(record, at)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The records of indices, decoded straight into columns; `None` where one of them needs a closer look.
    fn parse_at(&mut self, indices: &[u64]) -> Result<Option<Block>, DataError> {
        let mut origins = Origins::default();
        let parsed = self.read_at(indices, |record, at| {
            origins.push(at.origin);
            let parser = at.parser.expect("a parser was made");
            Ok(parser.push(record, at.columns))
        })?;
        if !parsed {
            return Ok(None);
        }
        let parser = self.parser.as_mut().expect("a parser was made");
        Ok(parser.finish(&self.columns, origins, &mut self.found))
    }

    /// The records of indices, decoded one by one.
    fn decode_at(&mut self, indices: &[u64]) -> Result<Block, DataError> {
        let mut rows = Rows::default();
        let mut found = vec![false; self.columns.len()];
        self.read_at(indices, |record, at| {
            let values = decode(record, &at, &mut found)?;
            rows.push(values, at.origin, indices.len());
            Ok(true)
        })?;
        Ok(rows.into_block())
    }
}

/// Records as columns that grow.
#[derive(Default)]
struct Rows {
    columns: Vec<(Arc<str>, rows::Column)>,
    origins: Origins,
}

impl Rows {
    /// Appends a record; memory for `capacity` of them is reserved.
    fn push(&mut self, values: Vec<(Arc<str>, Tensor)>, origin: Origin, capacity: usize) {
        self.origins.push(origin);
        let one = |value: &Tensor| value.clone().reshape(&[&[1], value.shape()].concat());
        if self.columns.is_empty() {
            let column = |(name, value): &(Arc<str>, Tensor)| {
                (name.clone(), rows::Column::like(&one(value), capacity))
            };
            self.columns = values.iter().map(column).collect();
        }
        for ((_, column), (_, value)) in self.columns.iter_mut().zip(values) {
            column.extend(&one(&value), 0..1);
        }
    }

    fn into_block(self) -> Block {
        let columns = self.columns.into_iter();
        let columns = columns.map(|(name, column)| (name, column.into_tensor()));
        Block::records(columns.collect(), self.origins)
    }
}

/// A record that was read.
struct Record<'a> {
    columns: &'a [Column],
    parser: Option<&'a mut ColumnParser>,
    path: &'a Arc<Path>,
    /// Its number in the file, from 1.
    number: u64,
    origin: Origin,
}

/// Skips the first `number` records of a file; gives how many they are.
fn skip(
    reader: &mut RecordReader<SequentialFile>,
    number: u64,
    path: &Arc<Path>,
    skips_damaged: bool,
) -> Result<u64, DataError> {
    for read in 0..number {
        if skips_damaged && reader.skip_damaged().is_some() {
            continue;
        }
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
    record: &[u8],
    at: &Record<'_>,
    found: &mut [bool],
) -> Result<Vec<(Arc<str>, Tensor)>, DataError> {
    let here = |error: DataError| error.in_file(at.path).in_record(at.number);
    let is_sequence = at.columns.iter().any(|column| column.feature.is_sequence);
    let decoded = Decoded::of(record, is_sequence).map_err(here)?;
    let mut values = Vec::new();
    for (column, found) in at.columns.iter().zip(found) {
        let (tensor, counts) = match column.feature.is_sequence {
            true => column.read_steps(&decoded.lists),
            false => column.read(&decoded.example),
        }
        .map_err(here)?;
        *found |= decoded.has(column);
        let counts = column.count_names.iter().zip(counts);
        values.extend(counts.map(|(name, n)| (name.clone(), Tensor::scalar(n as i64))));
        values.push((column.name.clone(), tensor));
    }
    Ok(values)
}

/// A record: an Example, or the context and the lists of a SequenceExample.
struct Decoded {
    example: Example,
    lists: FeatureLists,
}

impl Decoded {
    fn of(record: &[u8], is_sequence: bool) -> Result<Decoded, DataError> {
        let failed = |e: FormatError| DataError::new(e.cause);
        Ok(match is_sequence {
            false => Decoded {
                example: examples::decode(record).map_err(failed)?,
                lists: FeatureLists::default(),
            },
            true => {
                let sequence = examples::decode_sequence(record).map_err(failed)?;
                Decoded {
                    example: Example {
                        features: sequence.context,
                    },
                    lists: sequence.feature_lists.unwrap_or_default(),
                }
            }
        })
    }

    fn has(&self, column: &Column) -> bool {
        match column.feature.is_sequence {
            true => self.lists.feature_list.contains_key(&column.feature.key),
            false => column.kind(&self.example).is_some(),
        }
    }
}

impl FileReader for TfRecord {
    fn count(&self) -> Option<u64> {
        paths::count_records(&*self.storage, &self.files, |file| {
            let mut reader = RecordReader::new(SequentialFile::new(file), &self.options).ok()?;
            let mut count = 0;
            while reader.next().ok()?.is_some() {
                count += 1;
            }
            Some(count)
        })
    }
}

impl Stage for TfRecord {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let max = max.min(self.max_rows);
        let (start, left_out) = (self.numbers(), self.on_error.count());
        let mut block = None;
        if self.parser.is_some() {
            block = self.parse(max)?;
            if block.is_none() {
                // A record is of another kind than those before, or wrong: those from here on are decoded one by one. Where wrong ones
                // are left out, those after this block are tried again.
                self.parser = match self.on_error.is_skip() {
                    true => ColumnParser::new(&self.columns),
                    false => None,
                };
                self.go_to(start)?;
                self.on_error.set_count(left_out);
            }
        }
        let block = match block {
            Some(block) => block,
            None => self.decode(max)?,
        };
        if block.rows() == 0 {
            // Without a record, or from the middle of an epoch on, nothing is known.
            if !self.resumed && self.ordinal > 0 {
                self.reject_missing_features(u64::MAX)?;
            }
            return Ok(None);
        }
        self.look_at_first_records()?;
        Ok(Some(block))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.on_error.is_skip() {
            return skip_decoded(self, max);
        }
        let mut advanced = 0;
        while advanced < max && self.read_next(|_, _| Ok(()))?.is_some() {
            advanced += 1;
        }
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        if self.on_error.is_skip() {
            return Ok(None);
        }
        if self.indices.is_empty() {
            for path in &self.files {
                // A compressed file has no index.
                if self.open_file(path)?.compression() != Compression::None {
                    self.indices.clear();
                    return Ok(None);
                }
                let failed =
                    |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
                let file = self.storage.open(path).map_err(failed)?;
                let index = RecordIndex::from_headers(&*file).map_err(|e| corrupt(e, path))?;
                let records = IndexedRecords::new(file, index);
                let first = self
                    .indices
                    .last()
                    .map_or(0, |(first, all)| first + all.index.len() as u64);
                self.indices.push((first, records));
            }
        }
        let last = self.indices.last();
        Ok(Some(last.map_or(0, |(first, records)| {
            first + records.index.len() as u64
        })))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let indices = &indices[..indices.len().min(self.max_rows)];
        if self.parser.is_some()
            && let Some(block) = self.parse_at(indices)?
        {
            self.look_at_first_records()?;
            return Ok(block);
        }
        self.parser = None;
        let block = self.decode_at(indices)?;
        self.look_at_first_records()?;
        Ok(block)
    }

    fn restart(&mut self) {
        self.file = 0;
        self.ordinal = 0;
        self.open = None;
        self.resumed = false;
        self.on_error.set_count(0);
    }

    fn rewind(&mut self) {
        self.restart();
    }

    fn position(&self, at: &mut Position) {
        at.push(WORD, VERSION, &self.numbers());
        self.on_error.position(at);
    }

    /// A compressed file is read again up to the position.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.on_error.seek(at)?;
        let numbers = at.pop(WORD, VERSION)?;
        self.resumed = true;
        let reread = self.go_to(numbers)?;
        at.read_again(reread);
        Ok(())
    }
}

/// A feature and its schema.
struct Column {
    feature: Feature,
    name: Arc<str>,
    /// The names of its run-time counts, where its length varies from record to record.
    count_names: Vec<Arc<str>>,
    /// The type, at its full capacity.
    ty: Type,
    /// Whether its length varies from record to record.
    counted: bool,
    defaults: Option<Vec<Value>>,
}

impl Column {
    fn new(feature: &Feature) -> Column {
        let ty = Type::of(&feature.ty).expect("the sizes of features are known");
        let counted = feature.ty.shape.is_counted();
        let dims = feature.ty.shape.0.iter();
        let counts = dims.filter(|dim| dim.count.is_some()).count();
        let count_names = count_names(&feature.name, counts);
        Column {
            feature: feature.clone(),
            name: Arc::from(feature.name.as_str()),
            count_names: count_names.into_iter().map(Arc::from).collect(),
            counted,
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
    fn read(&self, example: &Example) -> Result<(Tensor, Vec<usize>), DataError> {
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
        values.resize(capacity, self.padding());
        Ok((tensor(&self.ty, values), vec![length]))
    }

    /// What fills up a list.
    fn padding(&self) -> Value {
        match self.ty.dtype {
            DType::String => Value::Bytes(Vec::new()),
            _ => Value::Int(0),
        }
    }

    /// The values of all steps of a sequence, padded to its capacity; the number of steps, and that of the values of the longest one,
    /// where they vary.
    fn read_steps(&self, lists: &FeatureLists) -> Result<(Tensor, Vec<usize>), DataError> {
        let (key, ty) = (&self.feature.key, &self.feature.ty);
        let list = lists.feature_list.get(key);
        let steps = list.map_or(&[][..], |list| &list.feature);
        let capacity = self.ty.shape[0];
        if steps.len() > capacity {
            let message = format!(
                "`{key}` has {} steps, and `{ty}` takes up to {capacity}",
                steps.len()
            );
            return Err(DataError::new(message).at(self.feature.span));
        }
        let width: usize = self.ty.shape[1..].iter().product();
        let varies = self.count_names.len() > 1;
        let (mut all, mut longest) = (Vec::with_capacity(self.ty.elements()), 0);
        for (i, step) in steps.iter().enumerate() {
            let values = match &step.kind {
                Some(kind) => self.values(kind)?,
                None => Vec::new(),
            };
            let found = values.len();
            if found > width || (found < width && !varies) {
                let message = format!(
                    "step {} of `{key}` has {found} values, and one of `{ty}` takes {}{width}",
                    i + 1,
                    if varies { "up to " } else { "" }
                );
                return Err(DataError::new(message).at(self.feature.span));
            }
            longest = longest.max(found);
            for value in values {
                all.push(bounded(&self.feature, value)?);
            }
            all.resize((i + 1) * width, self.padding());
        }
        all.resize(self.ty.elements(), self.padding());
        Ok((tensor(&self.ty, all), vec![steps.len(), longest]))
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
        let near = nearest(key, names.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let help = match shown.is_empty() {
            true => "the record has no features".to_owned(),
            false => format!(
                "{near}its features are {}; a default replaces a missing value: `feature {}: {} = 0;`",
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
                let (own, name) = (&self.feature, &self.feature.name);
                let stored = match kind {
                    Kind::BytesList(_) => DType::String,
                    Kind::FloatList(_) => DType::F32,
                    Kind::Int64List(_) => DType::I64,
                };
                let written = own.ty.with_dtype(stored);
                let help = match (stored, dtype) {
                    (DType::String, _) | (_, DType::String) => {
                        format!("read it as it is stored: `feature {name}: {written};`")
                    }
                    _ => format!(
                        "read it as it is stored, and convert it: `feature {name}: {written};` and `map {name} = cast({name}, {dtype});`"
                    ),
                };
                Err(DataError::new(message).at(own.span).help(help))
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
