//! `csv`: records from comma-separated values (`CsvDataset`).
//!
//! Features are columns: with a header line those of their names, without one in the order of the features. A feature of
//! several elements takes as many columns in a row, or those that it names.

mod field;

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::typed::Feature;
use trainspec_formats::FormatError;
use trainspec_formats::codecs::CsvReader;
use trainspec_formats::files::SequentialFile;

use crate::data::block::{Block, block_rows};
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

/// A file that is being read.
struct Open {
    /// The number of records read from it.
    number: u64,
    lines: CsvReader<SequentialFile>,
    /// The fields of each feature.
    fields: Vec<Fields>,
    /// The number of fields of a line, and the line that it was taken from.
    width: Option<(usize, u64)>,
}

/// The fields of a feature.
enum Fields {
    /// The file has no such column, and the default is used.
    Default,
    /// That one, and those after it.
    From(usize),
    /// One for each element.
    Each(Vec<usize>),
}

impl Fields {
    /// The field of an element.
    fn of<'f>(&self, line: &'f CsvReader<SequentialFile>, i: usize) -> &'f [u8] {
        match self {
            Fields::Default => b"",
            Fields::From(first) => &line.fields()[first + i],
            Fields::Each(all) => &line.fields()[all[i]],
        }
    }
}

const WORD: &str = "csv";
const VERSION: u32 = 2;

impl Csv {
    pub(super) fn new(
        cx: &DataContext,
        files: Vec<Arc<Path>>,
        (delimiter, header): (u8, bool),
        missing: Option<&[String]>,
        features: &[Feature],
        on_error: OnError,
    ) -> Csv {
        let column = |feature: &Feature| Column::new(feature, missing);
        let columns: Vec<Column> = features.iter().map(column).collect();
        Csv {
            storage: cx.storage.clone(),
            first_file: cx.files.add(&files, Unit::Line),
            files,
            delimiter,
            header,
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
        let file = self.storage.open(path);
        let file =
            file.map_err(|e| DataError::new(format!("cannot be read: {e}")).in_file(path))?;
        let mut start = [0; 8];
        // A length of a record has zeros.
        if file.read_exact_at(0, &mut start).is_ok() && start.contains(&0) {
            let error = DataError::new("is not text: it has NUL bytes").in_file(path);
            return Err(error.help("TFRecord files are read by `source tfrecord(\"...\");`"));
        }
        let mut lines = CsvReader::new(SequentialFile::new(file), self.delimiter);
        if !self.header {
            let mut next = 0;
            let mut fields = Vec::new();
            for column in &self.columns {
                fields.push(Fields::From(next));
                next += column.ty.elements();
            }
            return Ok(Open {
                number: 0,
                lines,
                fields,
                width: None,
            });
        }
        let read = lines.read();
        if !read.map_err(|e| malformed(e, path, lines.line()))? {
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
            let before = open.lines.position();
            let read = open.lines.read();
            let path = &self.files[self.file];
            // A line that is no record was read all the same, unless its end was not found.
            let is_read = open.lines.position() > before;
            let is_data = read.as_ref().is_err_and(|e| e.source.is_none());
            let read = read.map_err(|e| malformed(e, path, open.lines.line()));
            if is_read && !matches!(read, Ok(false)) {
                open.number += 1;
                self.ordinal += 1;
            }
            match read {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if is_data && is_read => {
                    self.on_error.leave_out(error)?;
                    continue;
                }
                Err(error) => return Err(error),
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
                return Err(DataError::new(message).in_file(&path).in_line(line));
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

impl FileReader for Csv {
    fn count(&self) -> Option<u64> {
        paths::count_records(&*self.storage, &self.files, |file| {
            let mut lines = CsvReader::new(SequentialFile::new(file), self.delimiter);
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
        let rest = paths::open_at(&*self.storage, path, byte)?;
        if !self.ends_line(path, byte) {
            let message = format!("has no line that ends at byte {byte}, where the position is");
            return Err(paths::changed(DataError::new(message), path).into());
        }
        open.lines = CsvReader::resume(rest, self.delimiter, byte, line);
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
    /// The fields of the feature, by the column names of a header.
    fn find(&self, path: &Arc<Path>, names: &[String], delimiter: u8) -> Result<Fields, DataError> {
        if self.feature.columns.is_empty() {
            let first = self.find_one(
                &self.feature.key,
                self.ty.elements(),
                path,
                names,
                delimiter,
            )?;
            return Ok(first.map_or(Fields::Default, Fields::From));
        }
        let columns = self.feature.columns.iter();
        let each = columns.map(|key| self.find_one(key, 1, path, names, delimiter));
        let each: Vec<Option<usize>> = each.collect::<Result<_, _>>()?;
        // A default stands for all elements together.
        let missing = each.iter().position(Option::is_none);
        match missing {
            None => Ok(Fields::Each(each.into_iter().flatten().collect())),
            Some(_) if each.iter().all(Option::is_none) => Ok(Fields::Default),
            Some(i) => {
                let message = format!("there is no column `{}`", self.feature.columns[i]);
                let error = DataError::new(message).in_file(path).in_line(1);
                let help = format!(
                    "there are other columns of `{}`, so its default does not stand for them",
                    self.feature.name
                );
                Err(error.at(self.feature.span).help(help))
            }
        }
    }

    /// The field of a column, which so many follow; `None` where there is none, and a default.
    fn find_one(
        &self,
        key: &str,
        elements: usize,
        path: &Arc<Path>,
        names: &[String],
        delimiter: u8,
    ) -> Result<Option<usize>, DataError> {
        let fail = |message: String| {
            DataError::new(message)
                .in_file(path)
                .in_line(1)
                .at(self.feature.span)
        };
        let mut found = (0..names.len()).filter(|i| names[*i] == key);
        let Some(first) = found.next() else {
            if self.has_default() {
                return Ok(None);
            }
            let mut shown: Vec<String> = names.iter().take(12).map(|n| format!("`{n}`")).collect();
            if names.len() > 12 {
                shown.push("...".to_owned());
            }
            let help = format!(
                "its columns are {}; `feature {}: {} as \"NAME\";` reads another one",
                shown.join(", "),
                self.feature.name,
                self.feature.ty
            );
            let error = fail(format!("there is no column `{key}`"));
            let only = names.first().filter(|_| names.len() == 1);
            let other = only.and_then(|name| other_delimiter(Some(name.as_bytes()), delimiter));
            return Err(error.help(other.unwrap_or(help)));
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
        Ok(Some(first))
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
