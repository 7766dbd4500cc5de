//! Predictions as csv, JSON lines, TFRecords, or arrays of NumPy.
//!
//! In: batches of outputs. Out: standard output, batch by batch, or a file that replaces another when it is complete.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use trainspec::predict::{Output, Predictions};
use trainspec::{DType, Tensor};
use trainspec_compiler::ir::tensor::Data;
use trainspec_formats::FileKind;
use trainspec_formats::checkpoint::numpy;
use trainspec_formats::examples::{self, Feature};
use trainspec_formats::files::{Durability, Replacement};
use trainspec_formats::records::{RecordWriter, WriterOptions};
use trainspec_formats::tensor::Tensor as FileTensor;

use crate::failure::Failure;
use crate::output::{escape_controls, plain, put};
use crate::{Format, files};

/// How predictions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// A header, and a line for each record
    Csv,
    /// An array of NumPy; of one output
    Npy,
    /// An array of NumPy for each output
    Npz,
    /// TFRecords of Examples
    Tfrecord,
    /// A JSON object in each line
    Jsonl,
}

impl OutputFormat {
    fn of(path: &Path) -> Option<OutputFormat> {
        Some(
            match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
                "csv" => OutputFormat::Csv,
                "npy" => OutputFormat::Npy,
                "npz" => OutputFormat::Npz,
                "tfrecord" | "tfrecords" => OutputFormat::Tfrecord,
                "jsonl" | "ndjson" => OutputFormat::Jsonl,
                _ => return None,
            },
        )
    }
}

/// Writes predictions.
pub(super) struct Writer {
    format: OutputFormat,
    path: Option<PathBuf>,
    sink: Sink,
    names: Vec<String>,
    has_header: bool,
    /// The values of each output, for formats that begin with a size.
    all: Vec<(Vec<usize>, Option<Data>)>,
}

enum Sink {
    Stdout,
    File(BufWriter<Replacement>),
    Records(Box<RecordWriter<Replacement>>),
    /// A file that is written at the end.
    Arrays,
}

impl Writer {
    pub(super) fn new(
        path: Option<&Path>,
        format: Option<OutputFormat>,
        force: bool,
        printed: Format,
    ) -> Result<Writer, Failure> {
        let format = match (format, path) {
            (Some(format), _) => format,
            (None, None) if printed == Format::Json => OutputFormat::Jsonl,
            (None, None) => OutputFormat::Csv,
            (None, Some(path)) => OutputFormat::of(path).ok_or_else(|| {
                let message = format!(
                    "the ending of {} does not say how it is written",
                    path.display()
                );
                Failure::input(message).help(
                    "end it in .csv, .jsonl, .tfrecord, .npy or .npz, or say `--output-format csv`",
                )
            })?,
        };
        if let Some(path) = path {
            if path.exists() && !force {
                let message = format!("{} is there already", path.display());
                return Err(Failure::input(message)
                    .help("`--force` replaces it, when the new one is complete"));
            }
            files::has_folder(path)?;
        }
        let binary = !matches!(format, OutputFormat::Csv | OutputFormat::Jsonl);
        if path.is_none() && binary && io::stdout().is_terminal() {
            return Err(Failure::input("these bytes are nothing for a terminal")
                .help("write them to a file: `--output predictions.npz`"));
        }
        let sink = match (path, format) {
            (None, OutputFormat::Csv | OutputFormat::Jsonl | OutputFormat::Tfrecord) => {
                Sink::Stdout
            }
            (None, OutputFormat::Npz) => {
                return Err(Failure::input("an npz archive is written to a file")
                    .help("name it: `--output predictions.npz`"));
            }
            (_, OutputFormat::Npy | OutputFormat::Npz) => Sink::Arrays,
            (Some(path), OutputFormat::Tfrecord) => {
                let options = WriterOptions::default();
                let writer = RecordWriter::replacing(path, &options).map_err(Failure::output)?;
                Sink::Records(Box::new(writer))
            }
            (Some(path), OutputFormat::Csv | OutputFormat::Jsonl) => {
                let file = Replacement::create(FileKind::Other, path).map_err(Failure::output)?;
                Sink::File(BufWriter::new(file))
            }
        };
        Ok(Writer {
            format,
            path: path.map(Path::to_owned),
            sink,
            names: Vec::new(),
            has_header: false,
            all: Vec::new(),
        })
    }

    /// Fails where the format cannot hold these outputs.
    pub(super) fn begin(&mut self, outputs: &[Output]) -> Result<(), Failure> {
        self.names = outputs.iter().map(|output| output.name.clone()).collect();
        let refused = |message: String, help: &str| Err(Failure::input(message).help(help));
        match (self.format, outputs) {
            (OutputFormat::Npy, [_, _, ..]) => {
                return refused(
                    format!(
                        "an npy file has one array, and there are {} outputs: {}",
                        outputs.len(),
                        self.names.join(", ")
                    ),
                    "choose one with `--fetch NAME`, or write an npz file",
                );
            }
            (OutputFormat::Npy | OutputFormat::Npz, _) => {
                if let Some(output) = outputs.iter().find(|output| output.dtype == DType::Bf16) {
                    return refused(
                        format!("`{}` is bf16, which NumPy does not have", output.name),
                        "csv, jsonl and tfrecord hold it",
                    );
                }
            }
            (OutputFormat::Tfrecord, _) => {
                if let Some(output) = outputs.iter().find(|output| output.dtype == DType::F64) {
                    return refused(
                        format!(
                            "`{}` is f64, and an Example holds floats of 32 bits",
                            output.name
                        ),
                        "npy, npz, csv and jsonl hold it",
                    );
                }
            }
            (OutputFormat::Csv | OutputFormat::Jsonl, _) => {}
        }
        self.all = outputs.iter().map(|_| (Vec::new(), None)).collect();
        Ok(())
    }

    /// Writes a batch.
    pub(super) fn write(&mut self, predictions: &Predictions) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Csv => {
                let mut text = String::new();
                if !self.has_header {
                    text += &header(&self.names, &predictions.values);
                    self.has_header = true;
                }
                for row in 0..predictions.rows {
                    csv_line(&predictions.values, row, &mut text);
                }
                self.put(text.as_bytes())
            }
            OutputFormat::Jsonl => {
                let mut text = String::new();
                for row in 0..predictions.rows {
                    json_line(&self.names, &predictions.values, row, &mut text);
                }
                let text = escape_controls(&text).into_owned();
                self.put(text.as_bytes())
            }
            OutputFormat::Tfrecord => self.records(predictions),
            OutputFormat::Npy | OutputFormat::Npz => {
                for ((shape, all), value) in self.all.iter_mut().zip(&predictions.values) {
                    match all {
                        None => {
                            (*shape, *all) = (value.shape().to_vec(), Some(value.data().clone()))
                        }
                        Some(all) => {
                            shape[0] += value.shape()[0];
                            extend(all, value.data());
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let path = self.path.as_deref();
        match self.sink {
            Sink::Stdout => Ok(()),
            Sink::File(file) => {
                let file = file
                    .into_inner()
                    .map_err(|e| cannot_write(path, &e.into_error()))?;
                file.commit(Durability::Synced).map_err(Failure::output)
            }
            Sink::Records(writer) => writer.commit(Durability::Synced).map_err(Failure::output),
            Sink::Arrays => {
                let mut arrays = Vec::new();
                for (name, (shape, data)) in self.names.iter().zip(self.all) {
                    if let Some(data) = data {
                        let array = file_tensor(&shape, data).map_err(Failure::output)?;
                        arrays.push((name.as_str(), array));
                    }
                }
                let views: Vec<_> = (arrays.iter())
                    .map(|(name, array)| (*name, array.view()))
                    .collect();
                match (self.format, path, views.as_slice()) {
                    (OutputFormat::Npy, Some(path), [(_, view)]) => {
                        numpy::write_npy(path, *view, Durability::Synced).map_err(Failure::output)
                    }
                    (OutputFormat::Npy, None, [(_, view)]) => {
                        let mut bytes = Vec::new();
                        numpy::put_npy(*view, &mut bytes).map_err(Failure::output)?;
                        put(&bytes);
                        Ok(())
                    }
                    (_, Some(path), views) => {
                        let stored = numpy::Compression::Stored;
                        numpy::write_npz(path, views, stored, Durability::Synced)
                            .map_err(Failure::output)
                    }
                    (_, None, _) => unreachable!("an archive has a path"),
                }
            }
        }
    }

    /// Writes bytes to standard output or to the file.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::File(file) => {
                let path = self.path.as_deref();
                file.write_all(bytes).map_err(|e| cannot_write(path, &e))
            }
            Sink::Stdout if io::stdout().is_terminal() => {
                // Words of files must not act on the terminal.
                let text = String::from_utf8_lossy(bytes);
                let lines: Vec<String> = text.lines().map(plain).collect();
                put(format!("{}\n", lines.join("\n")).as_bytes());
                Ok(())
            }
            Sink::Stdout => {
                put(bytes);
                Ok(())
            }
            Sink::Records(_) | Sink::Arrays => unreachable!("they are written otherwise"),
        }
    }

    fn records(&mut self, predictions: &Predictions) -> Result<(), Failure> {
        let mut framed = RecordWriter::new(Vec::new(), &WriterOptions::default());
        for row in 0..predictions.rows {
            let features = (self.names.iter().zip(&predictions.values))
                .map(|(name, value)| (name.as_str(), feature(value, row)));
            let record = examples::encode(&examples::example(features));
            let written = match &mut self.sink {
                Sink::Records(writer) => writer.write(&record),
                _ => framed.write(&record),
            };
            written.map_err(Failure::output)?;
        }
        if let Sink::Stdout = self.sink {
            put(&framed.finish().map_err(Failure::output)?);
        }
        Ok(())
    }
}

fn cannot_write(path: Option<&Path>, error: &io::Error) -> Failure {
    let path = path.map_or_else(
        || "the output".to_owned(),
        |path| path.display().to_string(),
    );
    Failure::output(format!("{path}: cannot write it: {error}"))
}

/// The elements of a row.
fn row_of(value: &Tensor, row: usize) -> std::ops::Range<usize> {
    let size: usize = value.shape()[1..].iter().product();
    row * size..(row + 1) * size
}

/// The names of columns: `x`, or `x_0_0`, `x_0_1` for the elements of a row.
fn header(names: &[String], values: &[Tensor]) -> String {
    let mut columns = Vec::new();
    for (name, value) in names.iter().zip(values) {
        let shape = &value.shape()[1..];
        for element in row_of(value, 0) {
            let mut column = name.clone();
            for axis in 0..shape.len() {
                let stride: usize = shape[axis + 1..].iter().product();
                column += &format!("_{}", element / stride % shape[axis]);
            }
            columns.push(column);
        }
    }
    format!("{}\n", columns.join(","))
}

fn csv_line(values: &[Tensor], row: usize, text: &mut String) {
    let start = text.len();
    for value in values {
        for element in row_of(value, row) {
            if text.len() > start {
                text.push(',');
            }
            match value.data() {
                Data::String(words) => csv_field(&String::from_utf8_lossy(&words[element]), text),
                _ => text.push_str(&value.element_text(element)),
            }
        }
    }
    text.push('\n');
}

/// A field, in quotes where it needs them (RFC 4180).
fn csv_field(field: &str, text: &mut String) {
    let is_plain =
        !field.contains([',', '"', '\n', '\r']) && field.trim() == field && !field.is_empty();
    match is_plain {
        true => text.push_str(field),
        false => {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        }
    }
}

fn json_line(names: &[String], values: &[Tensor], row: usize, text: &mut String) {
    text.push('{');
    for (i, (name, value)) in names.iter().zip(values).enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&serde_json::json!(name).to_string());
        text.push(':');
        let elements = row_of(value, row);
        json_list(value, &value.shape()[1..], elements.start, text);
    }
    text.push_str("}\n");
}

/// Nested lists of the elements from one on.
fn json_list(value: &Tensor, shape: &[usize], start: usize, text: &mut String) {
    let [size, inner @ ..] = shape else {
        return text.push_str(&json_element(value, start));
    };
    let stride: usize = inner.iter().product();
    text.push('[');
    for i in 0..*size {
        if i > 0 {
            text.push(',');
        }
        json_list(value, inner, start + i * stride, text);
    }
    text.push(']');
}

fn json_element(value: &Tensor, element: usize) -> String {
    if let Data::String(words) = value.data() {
        return crate::tensors::json_bytes(&words[element]).to_string();
    }
    match value.element_text(element).as_str() {
        "NaN" => "\"NaN\"".to_owned(),
        "inf" => "\"Infinity\"".to_owned(),
        "-inf" => "\"-Infinity\"".to_owned(),
        number => number.to_owned(),
    }
}

/// A row as a feature of an Example.
fn feature(value: &Tensor, row: usize) -> Feature {
    let range = row_of(value, row);
    match value.data() {
        Data::String(words) => words[range].to_vec().into(),
        Data::F32(values) => values[range].into(),
        Data::F16(values) => floats(values[range].iter().map(|x| x.to_f32())),
        Data::Bf16(values) => floats(values[range].iter().map(|x| x.to_f32())),
        Data::F64(_) => unreachable!("it was refused"),
        Data::I64(values) => values[range].into(),
        Data::I32(values) => integers(values[range].iter().map(|n| i64::from(*n))),
        Data::I16(values) => integers(values[range].iter().map(|n| i64::from(*n))),
        Data::I8(values) => integers(values[range].iter().map(|n| i64::from(*n))),
        Data::U8(values) => integers(values[range].iter().map(|n| i64::from(*n))),
        Data::Bool(values) => integers(values[range].iter().map(|b| i64::from(*b))),
    }
}

fn floats(values: impl Iterator<Item = f32>) -> Feature {
    values.collect::<Vec<f32>>().into()
}

fn integers(values: impl Iterator<Item = i64>) -> Feature {
    values.collect::<Vec<i64>>().into()
}

/// Appends the values of a later batch.
fn extend(all: &mut Data, more: &Data) {
    match (all, more) {
        (Data::F16(all), Data::F16(more)) => all.extend_from_slice(more),
        (Data::Bf16(all), Data::Bf16(more)) => all.extend_from_slice(more),
        (Data::F32(all), Data::F32(more)) => all.extend_from_slice(more),
        (Data::F64(all), Data::F64(more)) => all.extend_from_slice(more),
        (Data::I8(all), Data::I8(more)) => all.extend_from_slice(more),
        (Data::I16(all), Data::I16(more)) => all.extend_from_slice(more),
        (Data::I32(all), Data::I32(more)) => all.extend_from_slice(more),
        (Data::I64(all), Data::I64(more)) => all.extend_from_slice(more),
        (Data::U8(all), Data::U8(more)) => all.extend_from_slice(more),
        (Data::Bool(all), Data::Bool(more)) => all.extend_from_slice(more),
        (Data::String(all), Data::String(more)) => all.extend_from_slice(more),
        (all, more) => unreachable!("an output is {} and {}", all.dtype(), more.dtype()),
    }
}

fn file_tensor(shape: &[usize], data: Data) -> trainspec_formats::Result<FileTensor> {
    match data {
        Data::F16(values) => FileTensor::from_values(shape, &values),
        Data::Bf16(values) => FileTensor::from_values(shape, &values),
        Data::F32(values) => FileTensor::from_values(shape, &values),
        Data::F64(values) => FileTensor::from_values(shape, &values),
        Data::I8(values) => FileTensor::from_values(shape, &values),
        Data::I16(values) => FileTensor::from_values(shape, &values),
        Data::I32(values) => FileTensor::from_values(shape, &values),
        Data::I64(values) => FileTensor::from_values(shape, &values),
        Data::U8(values) => FileTensor::from_values(shape, &values),
        Data::Bool(values) => FileTensor::from_values(shape, &values),
        Data::String(words) => FileTensor::strings(shape, words),
    }
}
