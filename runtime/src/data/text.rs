//! `text`: the lines, words, characters or bytes of text files (`TextLineDataset`).
//!
//! In: files, compressed or not. Out: records of one feature. Lines end in `\n` or `\r\n`, which are no part of them; words are
//! between ASCII white space; what is not UTF-8 is the character U+FFFD. A record does not cross into the next file. Lines and bytes of
//! files that are not compressed are also read by their indices; the offsets of lines are found in one pass.

mod units;

use std::io;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::typed::{self, Feature, TextUnit};
use trainspec_formats::files::{self, ReadAt};
use trainspec_formats::records::{Compression, ExpectedCompression};

use crate::data::block::{Block, MAX_BLOCK_BYTES, MAX_BLOCK_ROWS};
use crate::data::left_out::OnError;
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::position::damaged;
use crate::data::sources::FileReader;
use crate::data::values::{Value, bounded};
use crate::data::{DataContext, Position, Records, Stage, paths, skip_decoded};
use crate::env::Storage;
use crate::{DataError, Error, memory};

use units::Units;

/// The records of text files.
pub(super) struct Text {
    storage: Arc<dyn Storage>,
    files: Vec<Arc<Path>>,
    /// The index of the first of them in the file table.
    first_file: u32,
    compression: ExpectedCompression,
    unit: TextUnit,
    feature: Feature,
    name: Arc<str>,
    /// The index of the current file.
    file: usize,
    /// The records read in this epoch.
    ordinal: u64,
    open: Option<Open>,
    /// The records of each file by their indices, where they are read by them.
    indices: Option<Vec<Indexed>>,
    /// The last record.
    record: Vec<u8>,
    on_error: OnError,
}

/// A file that is being read.
struct Open {
    units: Units,
    compression: Compression,
    /// The number of records read from it.
    number: u64,
}

/// A file whose records have indices.
struct Indexed {
    /// The index of its first record.
    first: u64,
    file: Box<dyn ReadAt>,
    /// Where each line begins, and the end of the last one; of bytes nothing.
    lines: Vec<u64>,
    /// The number of its records.
    len: u64,
}

/// Records after one another.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Parts {
    fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    fn strings(&self) -> Vec<Vec<u8>> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let parts = starts.zip(&self.ends);
        parts
            .map(|(start, end)| self.bytes[*start..*end].to_vec())
            .collect()
    }
}

const WORD: &str = "text";
const VERSION: u32 = 1;

impl Text {
    pub(super) fn new(
        cx: &DataContext,
        files: Vec<Arc<Path>>,
        (compression, unit): (typed::Compression, TextUnit),
        feature: &Feature,
        on_error: OnError,
    ) -> Text {
        let counted = match unit {
            TextUnit::Line => Unit::Line,
            TextUnit::Word | TextUnit::Character | TextUnit::Byte => Unit::Record,
        };
        Text {
            storage: cx.storage.clone(),
            first_file: cx.files.add(&files, counted),
            files,
            compression: paths::expected_compression(compression),
            unit,
            name: Arc::from(feature.name.as_str()),
            feature: feature.clone(),
            file: 0,
            ordinal: 0,
            open: None,
            indices: None,
            record: Vec::new(),
            on_error,
        }
    }

    fn open_file(&self, path: &Arc<Path>) -> Result<Open, DataError> {
        let failed = |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
        let file = self.storage.open(path).map_err(failed)?;
        paths::ensure_compression(&*file, self.compression, path)?;
        let opened = files::decompressed(file, self.compression);
        let (compression, bytes) =
            opened.map_err(|e| DataError::new(e.to_string()).in_file(path))?;
        Ok(Open {
            units: Units::new(bytes, self.unit, 0),
            compression,
            number: 0,
        })
    }

    /// Reads the next record; gives where it is, or `None` after the last file.
    fn read_next(&mut self) -> Result<Option<Origin>, DataError> {
        while let Some(path) = self.files.get(self.file) {
            let open = match &mut self.open {
                Some(open) => open,
                None => {
                    let open = self.open_file(path)?;
                    self.open.insert(open)
                }
            };
            let read = open.units.next(&mut self.record);
            if read.map_err(|e| broken(&e, path))? {
                open.number += 1;
                self.ordinal += 1;
                return Ok(Some(Origin {
                    pass: 0,
                    ordinal: self.ordinal - 1,
                    at: open.number,
                    file: self.first_file.saturating_add(self.file as u32),
                }));
            }
            self.open = None;
            self.file += 1;
        }
        Ok(None)
    }

    /// Fails where a byte is out of the bounds of its feature.
    fn ensure_bounds(&self, record: &[u8], origin: Origin) -> Result<(), DataError> {
        if let (TextUnit::Byte, Some(_), [byte]) = (self.unit, self.feature.bounds, record) {
            let file = (origin.file - self.first_file) as usize;
            bounded(&self.feature, Value::Int(i64::from(*byte)))
                .map_err(|e| e.in_file(&self.files[file]).in_record(origin.at))?;
        }
        Ok(())
    }

    /// The records as a block.
    fn block(&self, parts: Parts, origins: Origins) -> Block {
        let rows = origins.len();
        let data = match self.unit {
            TextUnit::Byte => Data::U8(parts.bytes),
            TextUnit::Line | TextUnit::Word | TextUnit::Character => Data::String(parts.strings()),
        };
        let column = (self.name.clone(), Tensor::of(&[rows], data));
        Block::records(vec![column], origins)
    }

    /// Where the lines of a file begin, and the end of the last one.
    fn lines(&self, path: &Arc<Path>) -> Result<Vec<u64>, DataError> {
        let mut open = self.open_file(path)?;
        let mut starts = vec![0];
        let mut record = Vec::new();
        while open.units.next(&mut record).map_err(|e| broken(&e, path))? {
            if starts.len().is_power_of_two() && starts.len() > 1 << 20 {
                let bytes = 16 * starts.len() as u64;
                let needed = vec![("where each line begins".to_owned(), bytes)];
                memory::ensure("an exact shuffle of lines", needed)
                    .map_err(|e| DataError::new(e.to_string()).in_file(path))?;
            }
            starts.push(open.units.position());
        }
        Ok(starts)
    }
}

fn broken(error: &io::Error, path: &Arc<Path>) -> DataError {
    DataError::new(format!("cannot be read: {error}")).in_file(path)
}

impl FileReader for Text {
    fn count(&self) -> Option<u64> {
        paths::count_records(&*self.storage, &self.files, |file| {
            let (_, bytes) = files::decompressed(file, self.compression).ok()?;
            let mut units = Units::new(bytes, self.unit, 0);
            let (mut record, mut count) = (Vec::new(), 0);
            while units.next(&mut record).ok()? {
                count += 1;
            }
            Some(count)
        })
    }
}

impl Stage for Text {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let max = max.min(MAX_BLOCK_ROWS);
        let mut parts = Parts::default();
        let mut origins = Origins::default();
        while parts.ends.len() < max && (parts.bytes.len() as u64) < MAX_BLOCK_BYTES {
            let Some(origin) = self.read_next()? else {
                break;
            };
            if let Err(error) = self.ensure_bounds(&self.record, origin) {
                self.on_error.leave_out(error)?;
                continue;
            }
            parts.push(&self.record);
            origins.push(origin);
        }
        match parts.ends.is_empty() {
            true => Ok(None),
            false => Ok(Some(self.block(parts, origins))),
        }
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.on_error.is_skip() {
            return skip_decoded(self, max);
        }
        let mut advanced = 0;
        while advanced < max && self.read_next()?.is_some() {
            advanced += 1;
        }
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        let is_exact = matches!(self.unit, TextUnit::Line | TextUnit::Byte);
        if self.indices.is_none() && is_exact && !self.on_error.is_skip() {
            let (mut all, mut first) = (Vec::new(), 0);
            for path in &self.files {
                // A compressed file has no index.
                if self.open_file(path)?.compression != Compression::None {
                    return Ok(None);
                }
                let failed =
                    |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
                let file = self.storage.open(path).map_err(failed)?;
                let lines = match self.unit {
                    TextUnit::Byte => Vec::new(),
                    TextUnit::Line | TextUnit::Word | TextUnit::Character => self.lines(path)?,
                };
                let len = match self.unit {
                    TextUnit::Byte => file.length().map_err(failed)?,
                    TextUnit::Line | TextUnit::Word | TextUnit::Character => lines.len() as u64 - 1,
                };
                all.push(Indexed {
                    first,
                    file,
                    lines,
                    len,
                });
                first += len;
            }
            self.indices = Some(all);
        }
        let indices = self.indices.as_ref();
        Ok(indices.map(|all| all.last().map_or(0, |last| last.first + last.len)))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let files = self
            .indices
            .as_ref()
            .expect("it was asked whether it is indexed");
        let mut parts = Parts::default();
        let mut origins = Origins::default();
        for index in indices.iter().take(MAX_BLOCK_ROWS) {
            if parts.bytes.len() as u64 >= MAX_BLOCK_BYTES {
                break;
            }
            // Of the files that begin there the last one is not empty.
            let file = files.partition_point(|file| file.first <= *index) - 1;
            let (path, own) = (&self.files[file], &files[file]);
            let at = index - own.first;
            let (start, end) = match own.lines.get(at as usize..at as usize + 2) {
                Some(ends) => (ends[0], ends[1]),
                None => (at, at + 1),
            };
            let mut record = vec![0; (end - start) as usize];
            let read = own.file.read_exact_at(start, &mut record);
            read.map_err(|e| broken(&e, path))?;
            if self.unit == TextUnit::Line {
                units::strip_line_end(&mut record);
            }
            let origin = Origin {
                pass: 0,
                ordinal: *index,
                at: at + 1,
                file: self.first_file.saturating_add(file as u32),
            };
            self.ensure_bounds(&record, origin)?;
            parts.push(&record);
            origins.push(origin);
        }
        Ok(self.block(parts, origins))
    }

    fn restart(&mut self) {
        self.file = 0;
        self.ordinal = 0;
        self.open = None;
        self.on_error.set_count(0);
    }

    fn rewind(&mut self) {
        self.restart();
    }

    /// The file, the records read of it, the byte after them, after decompression, and the records of the epoch.
    fn position(&self, at: &mut Position) {
        let open = self.open.as_ref();
        let (number, byte) = open.map_or((0, 0), |open| (open.number, open.units.position()));
        at.push(
            WORD,
            VERSION,
            &[self.file as u64, number, byte, self.ordinal],
        );
        self.on_error.position(at);
    }

    /// A compressed file is read again up to the position.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.on_error.seek(at)?;
        let [file, number, byte, ordinal] = at.pop(WORD, VERSION)?;
        self.file = paths::check_index(WORD, file, &self.files)?;
        self.ordinal = ordinal;
        self.open = None;
        if number == 0 {
            return Ok(());
        }
        let Some(path) = self.files.get(self.file) else {
            return Err(damaged(WORD, "has read records after the last file"));
        };
        let mut open = self.open_file(path)?;
        if open.compression == Compression::None {
            let rest = paths::open_at(&*self.storage, path, byte)?;
            if self.unit == TextUnit::Line && !self.ends_line(path, byte) {
                let message =
                    format!("has no line that ends at byte {byte}, where the position is");
                return Err(paths::changed(DataError::new(message), path).into());
            }
            open.units = Units::new(Box::new(rest), self.unit, byte);
        } else {
            let mut record = Vec::new();
            for _ in 0..number {
                if !open.units.next(&mut record).map_err(|e| broken(&e, path))? {
                    break;
                }
            }
            if open.units.position() != byte {
                let found = open.units.position();
                let message = format!(
                    "record {number} ends at byte {found}, and the position is after {byte}"
                );
                return Err(paths::changed(DataError::new(message), path).into());
            }
            at.read_again(number);
        }
        open.number = number;
        self.open = Some(open);
        Ok(())
    }
}

impl Text {
    fn reopen(&self, path: &Arc<Path>) -> Result<Box<dyn ReadAt>, DataError> {
        let opened = self.storage.open(path);
        opened.map_err(|e| DataError::new(format!("cannot be read: {e}")).in_file(path))
    }

    /// Whether a line, or the file, ends before that byte.
    fn ends_line(&self, path: &Arc<Path>, byte: u64) -> bool {
        let Ok(file) = self.reopen(path) else {
            return false;
        };
        let mut last = [0];
        let before = byte.checked_sub(1);
        let is_read = before.is_some_and(|at| file.read_exact_at(at, &mut last).is_ok());
        is_read && (last == *b"\n" || file.length().is_ok_and(|all| all == byte))
    }
}
