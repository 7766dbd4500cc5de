//! `csv`: records from comma-separated values (`CsvDataset`).
//!
//! Features are columns: with a header line those of their names, without one in the order of the features. A feature of
//! several elements takes as many columns in a row, or those that it names.

mod field;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::diag::nearest;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::typed::{self, Feature};
use trainspec_formats::FormatError;
use trainspec_formats::codecs::CsvReader;
use trainspec_formats::files;
use trainspec_formats::records::{Compression, ExpectedCompression};

use crate::data::block::{Block, block_rows};
use crate::data::kinds::{START_BYTES, kind_of};
use crate::data::left_out::OnError;
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::position::damaged;
use crate::data::sources::FileReader;
use crate::data::{DataContext, Position, Records, Stage, paths, skip_decoded, values};
use crate::env::Storage;
use crate::{DataError, Error};

use field::{Cells, Column};

/// The records of CSV files.
pub(super) struct Csv {
    storage: Arc<dyn Storage>,
    files: Vec<Arc<Path>>,
    /// The index of the first of them in the file table.
    first_file: u32,
    compression: ExpectedCompression,
    delimiter: u8,
    header: bool,
    columns: Vec<Column>,
    /// The most records of a block.
    max_rows: usize,
    /// The index of the current file.
    file: usize,
    /// The records read in this epoch.
    ordinal: u64,
    open: Option<Open>,
    on_error: OnError,
}

/// How the files of a source are written.
pub(super) struct CsvForm<'s> {
    pub(super) compression: typed::Compression,
    pub(super) delimiter: u8,
    pub(super) header: bool,
    /// The fields that stand for a missing value.
    pub(super) missing: Option<&'s [String]>,
}

/// The records of a file, after decompression.
type Lines = CsvReader<Box<dyn Read + Send>>;

/// A file that is being read.
struct Open {
    /// The number of records read from it.
    number: u64,
    compression: Compression,
    lines: Lines,
    /// The fields of each feature.
    fields: Vec<Fields>,
    /// The number of fields of a line, and the line that it was taken from.
    width: Option<(usize, u64)>,
}

/// The fields of a feature.
enum Fields {
    /// That one, and those after it.
    From(usize),
    /// One for each element.
    Each(Vec<usize>),
}

impl Fields {
    /// The field of an element.
    fn of<'f>(&self, line: &'f Lines, i: usize) -> &'f [u8] {
        match self {
            Fields::From(first) => &line.fields()[first + i],
            Fields::Each(all) => &line.fields()[all[i]],
        }
    }
}

/// What to do about a file that is not compressed as its source says.
const LOOK_FOR_COMPRESSION: &str =
    "`compression: auto` looks how each file is compressed; one that is cut has to be copied again";

const WORD: &str = "csv";
const VERSION: u32 = 2;

impl Csv {
    pub(super) fn new(
        cx: &DataContext,
        files: Vec<Arc<Path>>,
        form: CsvForm<'_>,
        features: &[Feature],
        on_error: OnError,
    ) -> Csv {
        let column = |feature: &Feature| Column::new(feature, form.missing);
        let columns: Vec<Column> = features.iter().map(column).collect();
        Csv {
            storage: cx.storage.clone(),
            first_file: cx.files.add(&files, Unit::Line),
            files,
            compression: paths::expected_compression(form.compression),
            delimiter: form.delimiter,
            header: form.header,
            max_rows: block_rows(columns.iter().map(|column| &column.ty)),
            columns,
            file: 0,
            ordinal: 0,
            open: None,
            on_error,
        }
    }

    /// Opens the current file and reads its header.
    fn open_file(&self) -> Result<Open, DataError> {
        let path = &self.files[self.file];
        let failed = |e: io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
        let file = self.storage.open(path).map_err(failed)?;
        paths::ensure_compression(&*file, self.compression, path)?;
        let mut start = [0; START_BYTES];
        let length = file.length().map_or(0, |n| n.min(START_BYTES as u64)) as usize;
        let start = match file.read_exact_at(0, &mut start[..length]) {
            Ok(()) => &start[..length],
            // What is wrong is said when it is read.
            Err(_) => &[],
        };
        let opened = files::decompressed(file, self.compression);
        let (compression, bytes) =
            opened.map_err(|e| DataError::new(e.to_string()).in_file(path))?;
        if compression == Compression::None
            && let Some((what, help)) = kind_of(start).filter(|(what, _)| *what != "text")
        {
            let error = DataError::new(format!("is {what}, and no csv file")).in_file(path);
            return Err(error.help(help));
        }
        let mut lines = CsvReader::new(bytes, self.delimiter);
        if !self.header {
            let mut next = 0;
            let mut fields = Vec::new();
            for column in &self.columns {
                fields.push(Fields::From(next));
                next += column.ty.elements();
            }
            return Ok(Open {
                number: 0,
                compression,
                lines,
                fields,
                width: None,
            });
        }
        let read = lines.read();
        let is_compressed = compression != Compression::None;
        let read = read.map_err(|e| match is_compressed && e.source.is_some() {
            true => malformed(e, path, lines.line()).or_help(LOOK_FOR_COMPRESSION),
            false => malformed(e, path, lines.line()),
        });
        if !read? {
            return Err(
                DataError::new("is empty, and its first line should name the columns")
                    .in_file(path),
            );
        }
        let names: Vec<String> = (lines.fields().iter())
            .map(|field| String::from_utf8_lossy(field).trim().to_owned())
            .collect();
        let fields = self.columns.iter();
        let fields = fields.map(|c| c.find(path, &names, self.delimiter));
        Ok(Open {
            number: 0,
            compression,
            fields: fields.collect::<Result<_, _>>()?,
            width: Some((names.len(), lines.line())),
            lines,
        })
    }

    /// Whether a line, or the file, ends before that byte.
    fn ends_line(&self, path: &Path, byte: u64) -> bool {
        let Ok(file) = self.storage.open(path) else {
            return false;
        };
        let mut last = [0];
        let before = byte.checked_sub(1);
        let ends = before.is_some_and(|at| file.read_exact_at(at, &mut last).is_ok());
        ends && (matches!(last, [b'\n' | b'\r']) || file.length().is_ok_and(|all| all == byte))
    }

    /// Reads the next line; false after the last file.
    fn read(&mut self) -> Result<bool, DataError> {
        while self.file < self.files.len() {
            let open = match &mut self.open {
                Some(open) => open,
                None => {
                    let open = self.open_file()?;
                    self.open.insert(open)
                }
            };
            let read = open.lines.read();
            let path = &self.files[self.file];
            let is_lost = open.lines.is_lost();
            let read = read.map_err(|e| {
                let is_unreadable = e.source.is_some();
                let error = malformed(e, path, open.lines.line());
                match self.compression {
                    ExpectedCompression::Is(Compression::Gzip | Compression::Zlib)
                        if is_unreadable =>
                    {
                        error.or_help(LOOK_FOR_COMPRESSION)
                    }
                    _ => error,
                }
            });
            // A line that is no record was read all the same, where it is known that it ends there.
            if !is_lost && !matches!(read, Ok(false)) {
                open.number += 1;
                self.ordinal += 1;
            }
            match read {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if is_lost && self.on_error.is_skip() => {
                    return Err(error.or_help(
                        "it cannot be left out: where the next record begins is not known",
                    ));
                }
                Err(error) if is_lost => return Err(error),
                Err(error) => {
                    self.on_error.leave_out(error)?;
                    continue;
                }
            }
            self.open = None;
            self.file += 1;
        }
        Ok(false)
    }

    /// Appends the features of the line that was read to the cells of each column; gives where it is.
    fn decode(&mut self, cells: &mut [Cells]) -> Result<Origin, DataError> {
        let path = self.files[self.file].clone();
        let open = self.open.as_mut().expect("a line was read from it");
        let (found, line) = (open.lines.fields().len(), open.lines.line());
        match open.width {
            Some((width, first)) if width != found => {
                let what = if self.header {
                    "the header"
                } else {
                    "the first line"
                };
                let message =
                    format!("there are {found} fields, but {what} (line {first}) has {width}");
                let error = DataError::new(message).in_file(&path).in_line(line);
                return Err(error.help(match found > width {
                    true => "a field with the delimiter in it stands in quotes: `\"a,b\"`",
                    false => "`on_error: skip(max: 10)` of the source leaves such lines out",
                }));
            }
            Some(_) => {}
            None => {
                let required: usize = self.columns.iter().map(|c| c.ty.elements()).sum();
                if found != required {
                    let message =
                        format!("there are {found} fields, but the features take {required}");
                    let error = DataError::new(message).in_file(&path).in_line(line);
                    let fields = open.lines.fields();
                    let help = match other_delimiter((found > 0).then(|| &fields[0]), self.delimiter) {
                        Some(help) => help,
                        None if found > required => "without a header the features are all columns in order: declare them all, and \
                             `drop` what is not used, or say `header: true`"
                            .to_owned(),
                        None => return Err(error),
                    };
                    return Err(error.help(help));
                }
                open.width = Some((found, line));
            }
        }
        for ((column, own), cells) in self.columns.iter().zip(&open.fields).zip(cells) {
            let fields = |i: usize| own.of(&open.lines, i);
            column.read(&fields, cells).map_err(|error| {
                let error = error.in_file(&path).in_line(line);
                let maybe_header = !self.header && open.width == Some((found, line));
                match maybe_header && error.help.is_none() {
                    true => error.help(
                        "if the first line names the columns, say `header: true` in the source",
                    ),
                    false => error,
                }
            })?;
        }
        Ok(Origin {
            pass: 0,
            ordinal: self.ordinal - 1,
            at: line,
            file: self.first_file.saturating_add(self.file as u32),
        })
    }
}

/// The help for a line that is one field, and would be several with another delimiter.
fn other_delimiter(field: Option<&[u8]>, delimiter: u8) -> Option<String> {
    let found = |byte: &u8| *byte != delimiter && field.is_some_and(|f| f.contains(byte));
    let other = b";\t|,".iter().find(|byte| found(byte))?;
    let shown = (*other as char).escape_default();
    Some(format!(
        "the fields may be separated by another character: `delimiter: \"{shown}\"`"
    ))
}

/// The error for a file that cannot be read, or a line of it that is no record.
fn malformed(error: FormatError, path: &Arc<Path>, line: u64) -> DataError {
    match error.source {
        Some(io) => DataError::new(format!("cannot be read: {io}")).in_file(path),
        None => DataError::new(error.cause).in_file(path).in_line(line),
    }
}

/// Reads that many records, those that are wrong among them, or up to the end.
fn skip(lines: &mut Lines, records: u64, path: &Arc<Path>) -> Result<(), DataError> {
    for _ in 0..records {
        match lines.read() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if lines.is_lost() => return Err(malformed(error, path, lines.line())),
            Err(_) => {}
        }
    }
    Ok(())
}

impl FileReader for Csv {
    fn count(&self) -> Option<u64> {
        paths::count_records(&*self.storage, &self.files, |file| {
            let (_, bytes) = files::decompressed(file, self.compression).ok()?;
            let mut lines = CsvReader::new(bytes, self.delimiter);
            let mut count = 0_u64;
            while lines.read().ok()? {
                count += 1;
            }
            Some(count.saturating_sub(u64::from(self.header)))
        })
    }
}

impl Stage for Csv {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let max = max.min(self.max_rows);
        let cells = self.columns.iter().map(|column| column.cells(max));
        let mut cells: Vec<Cells> = cells.collect();
        let mut origins = Origins::default();
        while origins.len() < max && self.read()? {
            match self.decode(&mut cells) {
                Ok(origin) => origins.push(origin),
                Err(error) => {
                    self.on_error.leave_out(error)?;
                    for (column, cells) in self.columns.iter().zip(&mut cells) {
                        cells.truncate(origins.len() * column.ty.elements());
                    }
                }
            }
        }
        let rows = origins.len();
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.columns.iter().zip(cells);
        let columns =
            columns.map(|(column, cells)| (column.name.clone(), cells.stack(column, rows)));
        Ok(Some(Block::records(columns.collect(), origins)))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.on_error.is_skip() {
            return skip_decoded(self, max);
        }
        let mut advanced = 0;
        while advanced < max && self.read()? {
            advanced += 1;
        }
        Ok(advanced)
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

    /// The file, the records read of it, the byte and the line after them, the first line, which the others are compared with, and the
    /// records of the epoch.
    fn position(&self, at: &mut Position) {
        let mut numbers = [self.file as u64, 0, 0, 0, 0, self.ordinal];
        if let Some(open) = &self.open {
            let first_line = open.width.map_or(0, |(_, line)| line);
            let (byte, line) = (open.lines.position(), open.lines.next_line());
            numbers[1..5].copy_from_slice(&[open.number, byte, line, first_line]);
        }
        at.push(WORD, VERSION, &numbers);
        self.on_error.position(at);
    }

    /// A compressed file is read again up to the position.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.on_error.seek(at)?;
        let [file, number, byte, line, first_line, ordinal] = at.pop(WORD, VERSION)?;
        self.file = paths::check_index(WORD, file, &self.files)?;
        self.ordinal = ordinal;
        self.open = None;
        if number == 0 {
            return Ok(());
        }
        let Some(path) = self.files.get(self.file) else {
            return Err(damaged(WORD, "has read records after the last file"));
        };
        let mut open = self.open_file()?;
        if open.compression == Compression::None {
            let rest = paths::open_at(&*self.storage, path, byte)?;
            if !self.ends_line(path, byte) {
                let message =
                    format!("has no line that ends at byte {byte}, where the position is");
                return Err(paths::changed(DataError::new(message), path).into());
            }
            open.lines = CsvReader::resume(Box::new(rest), self.delimiter, byte, line);
        } else {
            skip(&mut open.lines, number, path)?;
            if open.lines.position() != byte {
                let found = open.lines.position();
                let message = format!(
                    "record {number} ends at byte {found}, and the position is after {byte}"
                );
                return Err(paths::changed(DataError::new(message), path).into());
            }
            at.read_again(number);
        }
        open.number = number;
        if !self.header && first_line > 0 {
            let width = self.columns.iter().map(|c| c.ty.elements()).sum();
            open.width = Some((width, first_line));
        }
        self.open = Some(open);
        Ok(())
    }
}

impl Column {
    /// The fields of the feature, by the column names of a header. A default stands for what is missing in a line, never for a column.
    fn find(&self, path: &Arc<Path>, names: &[String], delimiter: u8) -> Result<Fields, DataError> {
        let find = |key: &str, elements| self.find_one(key, elements, path, names, delimiter);
        if self.feature.columns.is_empty() {
            return find(&self.feature.key, self.ty.elements()).map(Fields::From);
        }
        let each = self.feature.columns.iter().map(|key| find(key, 1));
        each.collect::<Result<_, _>>().map(Fields::Each)
    }

    /// The field of a column, which this number of others follow.
    fn find_one(
        &self,
        key: &str,
        elements: usize,
        path: &Arc<Path>,
        names: &[String],
        delimiter: u8,
    ) -> Result<usize, DataError> {
        let fail = |message: String| {
            DataError::new(message)
                .in_file(path)
                .in_line(1)
                .at(self.feature.span)
        };
        let mut found = (0..names.len()).filter(|i| names[*i] == key);
        let Some(first) = found.next() else {
            let error = fail(format!("there is no column `{key}`"));
            return Err(error.help(self.other_column(key, names, delimiter)));
        };
        if found.next().is_some() {
            return Err(fail(format!("there are two columns `{key}`")));
        }
        let available = names.len() - first;
        if available < elements {
            let message = format!(
                "`{}` takes {elements} columns from `{key}` on, but there are {available}",
                self.feature.name,
            );
            let help = "columns that do not follow one another are named: `as [\"a\", \"b\"]`";
            return Err(fail(message).help(help));
        }
        Ok(first)
    }

    /// What to write where a header does not name the column of the feature.
    fn other_column(&self, key: &str, names: &[String], delimiter: u8) -> String {
        if let [only] = names
            && let Some(help) = other_delimiter(Some(only.as_bytes()), delimiter)
        {
            return help;
        }
        if names.iter().all(|name| name.parse::<f64>().is_ok()) {
            return "the first line looks like data: leave out `header: true`".to_owned();
        }
        let mut shown: Vec<String> = names.iter().take(12).map(|n| format!("`{n}`")).collect();
        if names.len() > 12 {
            shown.push("...".to_owned());
        }
        let Feature { name, ty, .. } = &self.feature;
        let columns = format!("its columns are {}", shown.join(", "));
        match nearest(key, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`? {columns}"),
            None => format!("{columns}; `feature {name}: {ty} as \"NAME\";` reads another one"),
        }
    }
}

impl Column {
    fn new(feature: &Feature, missing: Option<&[String]>) -> Column {
        let ty = Type::of(&feature.ty).expect("the sizes of features are known");
        Column {
            name: Arc::from(feature.name.as_str()),
            feature: feature.clone(),
            defaults: values::defaults(feature, &ty),
            missing: missing.map(<[String]>::to_vec),
            ty,
        }
    }
}
