//! Arrays as a source: `idx`, `npy` and `npz` files, and `memory`, what a program hands in (`Dataset.from_tensor_slices`).
//!
//! In: an array for each feature, or several that follow one another. Out: their rows as records. The position is the index of the next
//! record; nothing is read again to go there. Types are those of the feature: integers of another width are read where they fit, floats
//! where the feature is wider.

mod convert;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::typed::{ArrayFiles, ArrayFormat, Feature, FilePattern, Source};
use trainspec_formats::FormatError;
use trainspec_formats::arrays::{ArrayRows, idx};
use trainspec_formats::checkpoint::{Npz, numpy};

use crate::data::block::{Block, block_rows};
use crate::data::kinds::{START_BYTES, kind_of};
use crate::data::left_out::OnError;
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::position::{CHANGED, damaged};
use crate::data::{DataContext, OpenSource, Position, Records, Stage, paths, rows, skip_decoded};
use crate::{Cause, DataError, Error};

pub(super) use convert::bounded;
use convert::{converted, reads};

/// Records whose features are the rows of arrays.
pub(super) struct Arrays {
    word: &'static str,
    columns: Vec<Column>,
    /// The number of records.
    records: u64,
    /// The index of the next record.
    next: u64,
    /// The most records of a block.
    max_rows: usize,
    on_error: OnError,
}

/// A feature and its arrays.
struct Column {
    name: Arc<str>,
    feature: Feature,
    /// The type of a record.
    ty: Type,
    segments: Vec<Segment>,
}

/// An array of a column.
struct Segment {
    /// The index of its first record.
    first: u64,
    /// The number of its records.
    len: u64,
    path: Arc<Path>,
    /// The index of the file in the file table.
    file: u32,
    rows: Rows,
}

enum Rows {
    File(ArrayRows),
    Memory(Arc<Tensor>),
}

const VERSION: u32 = 1;

/// Opens files of arrays.
pub(super) fn open(
    cx: &DataContext,
    source: &Source,
    (format, files): (ArrayFormat, &ArrayFiles),
    features: &[Feature],
    on_error: OnError,
) -> Result<OpenSource, Error> {
    let mut all: Vec<Arc<Path>> = Vec::new();
    let mut columns = Vec::new();
    let mut archives: Vec<Arc<Npz>> = Vec::new();
    if let (ArrayFormat::Npz, ArrayFiles::Shared(patterns)) = (format, files) {
        for path in paths::files(cx, patterns)? {
            let npz = Npz::open_in(&cx.storage, &path);
            let npz = npz.map_err(|e| other_kind(cx, e, &path, format.word()))?;
            archives.push(Arc::new(npz));
            all.push(path);
        }
    }
    for feature in features {
        let patterns: &[FilePattern] = files.of(&feature.key).unwrap_or_default();
        let mut arrays = Vec::new();
        match format {
            ArrayFormat::Npz => {
                for (npz, path) in archives.iter().zip(&all) {
                    arrays.push((path.clone(), member(npz, feature, path)?));
                }
            }
            ArrayFormat::Idx | ArrayFormat::Npy => {
                for path in paths::files(cx, patterns)? {
                    let opened = match format {
                        ArrayFormat::Idx => idx::open_in(&cx.storage, &path),
                        ArrayFormat::Npy | ArrayFormat::Npz => {
                            numpy::npy_rows_in(&cx.storage, &path)
                        }
                    };
                    let array = opened.map_err(|e| other_kind(cx, e, &path, format.word()))?;
                    if !all.contains(&path) {
                        all.push(path.clone());
                    }
                    arrays.push((path, array));
                }
            }
        }
        let mut column = Column::new(feature);
        let paths: Vec<Arc<Path>> = arrays.iter().map(|(path, _)| path.clone()).collect();
        let first_file = cx.files.add(&paths, Unit::Record);
        for (i, (path, array)) in arrays.into_iter().enumerate() {
            column.ensure_type(&path, array.dtype(), array.shape())?;
            let len = array.len() as u64;
            column.add(path, first_file + i as u32, len, Rows::File(array));
        }
        columns.push(column);
    }
    let arrays = Arrays::new(source, "arrays", columns, on_error.clone())?;
    let records = Some(arrays.records);
    Ok(OpenSource::new(Box::new(arrays), all, records, on_error))
}

/// Opens arrays of a program.
pub(super) fn in_memory(
    cx: &DataContext,
    source: &Source,
    name: &str,
    arrays: &[(String, Arc<Tensor>)],
    features: &[Feature],
) -> Result<OpenSource, Error> {
    let path: Arc<Path> = Arc::from(Path::new(&format!("memory \"{name}\"")));
    let file = cx.files.add(std::slice::from_ref(&path), Unit::Record);
    let mut columns = Vec::new();
    for feature in features {
        let found = arrays.iter().find(|(key, _)| *key == feature.key);
        let Some((_, array)) = found else {
            let names: Vec<String> = arrays.iter().map(|(key, _)| format!("`{key}`")).collect();
            let message = format!("the program hands in no array `{}`", feature.key);
            let help = format!("it hands in {}", names.join(", "));
            let error = DataError::new(message).in_file(&path).at(feature.span);
            return Err(error.help(help).into());
        };
        let mut column = Column::new(feature);
        let shape = array.shape();
        let dtype = crate::saver::file_type(array.data().dtype());
        column.ensure_type(&path, dtype, shape)?;
        let len = shape[0] as u64;
        column.add(path.clone(), file, len, Rows::Memory(array.clone()));
        columns.push(column);
    }
    let on_error = OnError::default();
    let arrays = Arrays::new(source, "memory", columns, on_error.clone())?;
    let records = Some(arrays.records);
    Ok(OpenSource::new(
        Box::new(arrays),
        Vec::new(),
        records,
        on_error,
    ))
}

/// An array of an archive.
fn member(npz: &Arc<Npz>, feature: &Feature, path: &Arc<Path>) -> Result<ArrayRows, Error> {
    let key = &feature.key;
    let is_known = npz.entry(key).is_some() || npz.unsupported().any(|(name, _)| name == key);
    if is_known {
        return Ok(npz.rows(key).map_err(|e| unreadable(e, path))?);
    }
    let names: Vec<String> = npz
        .entries()
        .map(|(name, ..)| format!("`{name}`"))
        .collect();
    let help = format!(
        "its arrays are {}; `feature {}: {} as \"NAME\";` reads another one",
        names.join(", "),
        feature.name,
        feature.ty
    );
    let error = DataError::new(format!("there is no array `{key}`")).in_file(path);
    Err(error.at(feature.span).help(help).into())
}

impl Column {
    fn new(feature: &Feature) -> Column {
        Column {
            name: Arc::from(feature.name.as_str()),
            ty: Type::of(&feature.ty).expect("the sizes of features are known"),
            feature: feature.clone(),
            segments: Vec::new(),
        }
    }

    fn add(&mut self, path: Arc<Path>, file: u32, len: u64, rows: Rows) {
        let first = self.records();
        self.segments.push(Segment {
            first,
            len,
            path,
            file,
            rows,
        });
    }

    fn records(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.first + last.len)
    }

    /// Fails where an array has rows of another type than the feature.
    fn ensure_type(
        &self,
        path: &Arc<Path>,
        dtype: trainspec_formats::tensor::DType,
        shape: &[usize],
    ) -> Result<(), DataError> {
        let name = &self.feature.name;
        let fail = |message: String| DataError::new(message).in_file(path).at(self.feature.span);
        let Some((records, row)) = shape.split_first() else {
            let message =
                format!("`{name}` is one number, and its first dimension should be the records");
            return Err(fail(message));
        };
        let found = match row {
            [] => dtype.to_string(),
            row => format!("{dtype}{row:?}"),
        };
        let own = &self.feature.ty;
        if row != self.ty.shape {
            let error = fail(format!(
                "`{name}` is `{own}`, and the array has {records} records of {found}"
            ));
            let sizes: Vec<String> = row.iter().map(usize::to_string).collect();
            let declared = match sizes.as_slice() {
                [] => own.dtype.to_string(),
                sizes => format!("{}[{}]", own.dtype, sizes.join(", ")),
            };
            return Err(error.help(format!("declare it so: `feature {name}: {declared};`")));
        }
        match reads(dtype, own.dtype) {
            Ok(()) => Ok(()),
            Err(help) => {
                let message = format!("`{name}` is `{own}`, and the array has records of {found}");
                let error = fail(message);
                Err(match help {
                    Some(other) => error.help(format!(
                        "declare it as `{other}`, and convert it: `map {name} = cast({name}, {});`",
                        own.dtype
                    )),
                    None => error,
                })
            }
        }
    }

    /// The segment of a record.
    fn segment(&self, record: u64) -> usize {
        self.segments
            .partition_point(|segment| segment.first <= record)
            - 1
    }

    /// The records of a range of one segment.
    fn read(&mut self, segment: usize, range: Range<u64>) -> Result<Tensor, DataError> {
        let shape = [&[(range.end - range.start) as usize], &self.ty.shape[..]].concat();
        let segment = &mut self.segments[segment];
        let own = (range.start - segment.first) as usize..(range.end - segment.first) as usize;
        let read = match &mut segment.rows {
            Rows::File(array) => {
                let read = array.rows(own.clone());
                let read = read.map_err(|e| unreadable(e, &segment.path))?;
                converted(&read, self.ty.dtype)
            }
            Rows::Memory(array) => {
                let stride = self.ty.elements();
                let range = own.start * stride..own.end * stride;
                convert::slice(array.data(), range, self.ty.dtype)
            }
        };
        let data = read.and_then(|data| convert::bounded(data, self.feature.bounds));
        data.map(|data| Tensor::of(&shape, data)).map_err(|wrong| {
            let record = own.start + wrong.element / self.ty.elements().max(1);
            let message = format!("`{}` is {}", self.feature.name, wrong.problem);
            let error = DataError::new(message).in_file(&segment.path);
            error.in_record(record as u64 + 1).at(self.feature.span)
        })
    }
}

impl Arrays {
    fn new(
        source: &Source,
        word: &'static str,
        columns: Vec<Column>,
        on_error: OnError,
    ) -> Result<Arrays, Error> {
        let records = columns.first().map_or(0, Column::records);
        if let Some(other) = columns.iter().find(|column| column.records() != records) {
            let message = format!(
                "`{}` has {records} records, and `{}` has {}",
                columns[0].feature.name,
                other.feature.name,
                other.records()
            );
            let error = DataError::new(message).at(source.span);
            return Err(error
                .help("every record has all features, so the files belong together")
                .into());
        }
        Ok(Arrays {
            word,
            max_rows: block_rows(columns.iter().map(|column| &column.ty)),
            columns,
            records,
            next: 0,
            on_error,
        })
    }

    /// The records of a range that can be decoded, where one of them cannot.
    fn decodable(&mut self, range: Range<u64>) -> Result<Option<Block>, Error> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for record in range {
            match self.block(std::slice::from_ref(&(record..record + 1))) {
                Ok(_) => match runs.last_mut() {
                    Some(run) if run.end == record => run.end += 1,
                    _ => runs.push(record..record + 1),
                },
                Err(error) => match error.cause {
                    // What cannot be read is no record that is wrong.
                    Cause::Data(error) if error.position.is_some() => {
                        self.on_error.leave_out(*error)?;
                    }
                    _ => return Err(error),
                },
            }
        }
        match runs.is_empty() {
            true => Ok(None),
            false => self.block(&runs).map(Some),
        }
    }

    /// Where a record comes from: the file of its first feature.
    fn origin(&self, record: u64) -> Origin {
        let column = self.columns.first();
        let segment = column.map(|column| &column.segments[column.segment(record)]);
        Origin {
            pass: 0,
            ordinal: record,
            at: segment.map_or(record, |segment| record - segment.first) + 1,
            file: segment.map_or(0, |segment| segment.file),
        }
    }

    /// The block of records whose ranges each column has in one piece or in several.
    fn block(&mut self, records: &[Range<u64>]) -> Result<Block, Error> {
        let origins: Origins = (records.iter().cloned().flatten())
            .map(|record| self.origin(record))
            .collect();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let mut parts = Vec::new();
            for range in records {
                let mut start = range.start;
                while start < range.end {
                    let segment = column.segment(start);
                    let own = &column.segments[segment];
                    let end = range.end.min(own.first + own.len);
                    parts.push(column.read(segment, start..end)?);
                    start = end;
                }
            }
            columns.push((column.name.clone(), joined(parts, origins.len())));
        }
        Ok(Block::records(columns, origins))
    }
}

/// Tensors after one another.
fn joined(mut parts: Vec<Tensor>, rows: usize) -> Tensor {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let mut all = rows::Column::like(&parts[0], rows);
    for part in &parts {
        all.extend(part, 0..part.shape()[0]);
    }
    all.into_tensor()
}

/// The error of a file that is none of arrays, with what it is.
fn other_kind(cx: &DataContext, error: FormatError, path: &Arc<Path>, word: &str) -> DataError {
    let error = unreadable(error, path);
    let mut start = [0; START_BYTES];
    let known = cx.storage.open(path).ok().and_then(|file| {
        let length = file.length().ok()?.min(START_BYTES as u64) as usize;
        file.read_exact_at(0, &mut start[..length]).ok()?;
        kind_of(&start[..length])
    });
    let own = format!("`source {word}(");
    // IDX files are read compressed, and it is one that is wrong.
    let is_own = |what: &str, help: &str| {
        help.contains(&own) || (word == "idx" && what == "compressed by gzip")
    };
    match known.filter(|(what, help)| !is_own(what, help)) {
        Some((what, help)) => DataError::new(format!("is {what}, and no file of `{word}`"))
            .in_file(path)
            .help(help),
        None => error,
    }
}

/// The error of a file that cannot be read.
fn unreadable(error: FormatError, path: &Arc<Path>) -> DataError {
    let at = error
        .offset
        .map_or(String::new(), |at| format!(" (at byte {at})"));
    let message = match &error.source {
        Some(io) => format!("cannot be read: {io}{at}"),
        None => format!("{}{at}", error.cause),
    };
    DataError::new(message).in_file(path)
}

impl Stage for Arrays {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        loop {
            let end = self
                .records
                .min(self.next.saturating_add(max.min(self.max_rows) as u64));
            if self.next == end {
                return Ok(None);
            }
            let range = self.next..end;
            let block = match self.block(std::slice::from_ref(&range)) {
                Err(_) if self.on_error.is_skip() => self.decodable(range)?,
                read => Some(read?),
            };
            self.next = end;
            if block.is_some() {
                return Ok(block);
            }
        }
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.on_error.is_skip() {
            return skip_decoded(self, max);
        }
        let advanced = max.min(self.records - self.next);
        self.next += advanced;
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        Ok((!self.on_error.is_skip()).then_some(self.records))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for index in &indices[..indices.len().min(self.max_rows)] {
            match runs.last_mut() {
                Some(run) if run.end == *index => run.end += 1,
                _ => runs.push(*index..index + 1),
            }
        }
        self.block(&runs)
    }

    fn restart(&mut self) {
        self.next = 0;
        self.on_error.set_count(0);
    }

    fn rewind(&mut self) {
        self.restart();
    }

    fn position(&self, at: &mut Position) {
        at.push(self.word, VERSION, &[self.next]);
        self.on_error.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.on_error.seek(at)?;
        let [next] = at.pop(self.word, VERSION)?;
        if next > self.records {
            let fact = format!("is at record {next}, and there are {}", self.records);
            return Err(damaged(self.word, fact).help(CHANGED));
        }
        self.next = next;
        Ok(())
    }
}
