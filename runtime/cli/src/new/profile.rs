//! What is in a table of comma-separated values: its separator and header, and its columns (data profiling).
//!
//! In: a file. Out: statistics of its columns, after one pass. Leaves alone: what a spec makes of them.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use trainspec_formats::codecs::CsvReader;

use crate::failure::Failure;
use crate::new::column::Column;
use crate::run::next_commands::word;

/// The lines by which separator and header are found.
const SAMPLE_LINES: usize = 50;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) delimiter: u8,
    /// Whether the first line names the columns.
    pub(super) header: bool,
    pub(super) columns: Vec<Column>,
    pub(super) rows: u64,
}

impl Table {
    /// Reads a file.
    pub(super) fn of_file(path: &Path) -> Result<Table, Failure> {
        let failed =
            |e: std::io::Error| Failure::input(format!("{}: cannot be read: {e}", path.display()));
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(4 << 20).read_to_end(&mut bytes).map_err(failed)?;
        let table = Table::sampled(&bytes, &path.display().to_string())?;
        let file = std::fs::File::open(path).map_err(failed)?;
        table.read(file, &path.display().to_string())
    }

    /// Reads a table in memory.
    pub(super) fn of_bytes(bytes: &[u8], name: &str) -> Result<Table, Failure> {
        Table::sampled(bytes, name)?.read(bytes, name)
    }

    /// The separator and the header, by the first lines.
    fn sampled(bytes: &[u8], name: &str) -> Result<Table, Failure> {
        if bytes.trim_ascii().is_empty() {
            return Err(Failure::input(format!("{name} is empty")));
        }
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            let message = format!("{name} is UTF-16, and a table is UTF-8");
            return Err(Failure::input(message).help(iconv("utf-16", name)));
        }
        if bytes.contains(&0) {
            let message = format!("{name} is no text: it has NUL bytes");
            return Err(Failure::input(message).help("a table is comma-separated values"));
        }
        let (delimiter, lines) = (b",;\t|".iter())
            .map(|delimiter| (*delimiter, sample(bytes, *delimiter)))
            .max_by_key(|(delimiter, lines)| {
                let width = lines.first().map_or(0, Vec::len);
                let is_even = lines.iter().all(|line| line.len() == width);
                // Of equals the first: a comma.
                (
                    is_even && width > 1,
                    width,
                    std::cmp::Reverse(b",;\t|".iter().position(|d| d == delimiter)),
                )
            })
            .expect("there are four separators");
        let Some((first, rest)) = lines.split_first() else {
            return Err(Failure::input(format!("{name} has no lines")));
        };
        let header = is_header(first, rest);
        let mut name_counts: HashMap<&str, usize> = HashMap::new();
        for field in first {
            *name_counts.entry(field.trim()).or_default() += 1;
        }
        let column = |(i, field): (usize, &String)| {
            let name = header.then(|| field.trim().to_owned());
            let count = name.as_ref().map_or(1, |name| name_counts[name.as_str()]);
            Column::new(i + 1, name, count, first.len())
        };
        Ok(Table {
            delimiter,
            header,
            columns: first.iter().enumerate().map(column).collect(),
            rows: 0,
        })
    }

    /// Reads all records.
    fn read(mut self, source: impl Read, name: &str) -> Result<Table, Failure> {
        let mut lines = CsvReader::new(source, self.delimiter);
        let mut is_header = self.header;
        loop {
            let read = lines.read();
            if !read.map_err(|e| Failure::input(format!("{name}:{}: {e}", lines.line())))? {
                break;
            }
            let (found, width) = (lines.fields().len(), self.columns.len());
            if found != width {
                return Err(Failure::input(format!(
                    "{name}:{}: there are {found} fields, and the first line has {width}",
                    lines.line()
                )));
            }
            let line = lines.line();
            self.rows += u64::from(!is_header);
            for (column, field) in self.columns.iter_mut().zip(lines.fields().iter()) {
                match str::from_utf8(field) {
                    Ok(_) if is_header => {}
                    Ok(text) => column.add(text, line),
                    Err(error) => {
                        let place = match is_header {
                            true => format!("column {}", column.number),
                            false => column.label(),
                        };
                        let message = format!(
                            "{name}:{line}: {place} is not UTF-8: the byte 0x{:02x} belongs to no character",
                            field[error.valid_up_to()]
                        );
                        return Err(Failure::input(message).help(iconv("latin1", name)));
                    }
                }
            }
            is_header = false;
        }
        if self.rows == 0 {
            return Err(Failure::input(format!(
                "{name} has a header and no records"
            )));
        }
        Ok(self)
    }

    /// What stands for missing values in some columns, as a csv source has it.
    pub(super) fn missing<'a>(&self, used: impl Iterator<Item = &'a Column>) -> Vec<String> {
        let mut words = std::collections::BTreeSet::new();
        for column in used {
            if (column.is_numeric() && column.empty > 0) || column.blank > 0 {
                words.insert(String::new());
            }
            words.extend(column.missing_words().map(str::to_owned));
        }
        words.into_iter().collect()
    }
}

/// What makes UTF-8 of a file.
fn iconv(encoding: &str, name: &str) -> String {
    format!(
        "convert it: `iconv -f {encoding} -t utf-8 {} > utf8.csv`",
        word(name)
    )
}

fn sample(bytes: &[u8], delimiter: u8) -> Vec<Vec<String>> {
    let mut reader = CsvReader::new(bytes, delimiter);
    let mut lines = Vec::new();
    while lines.len() < SAMPLE_LINES && reader.read().unwrap_or(false) {
        let fields = reader.fields().iter();
        lines.push(
            fields
                .map(|field| String::from_utf8_lossy(field).into_owned())
                .collect(),
        );
    }
    lines
}

/// Whether a first line names columns: it has no number, and no field that comes again in its column. One that has a name twice is over
/// numbers.
fn is_header(first: &[String], rest: &[Vec<String>]) -> bool {
    let is_number = |field: &String| field.trim().parse::<f64>().is_ok();
    let mut names: Vec<&str> = first.iter().map(|name| name.trim()).collect();
    names.sort_unstable();
    let is_unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    let recurs = first.iter().enumerate().any(|(i, field)| {
        rest.iter()
            .any(|line| line.get(i).is_some_and(|other| other == field))
    });
    let is_over_numbers = || rest.iter().flatten().any(is_number);
    !recurs && !first.iter().any(is_number) && (is_unique || is_over_numbers())
}
