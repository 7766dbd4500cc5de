//! JSON lines (`jsonl`, `ndjson`): one object for each record, whose members are features by their names.
//!
//! A scalar is a number, a bool or a string; a feature of more dimensions is nested lists. `null` is a missing value. What JSON has no
//! number for is a string: `"NaN"`, `"Infinity"`, `"-Infinity"`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::typed::Feature;
use trainspec_formats::files::SequentialFile;

use crate::DataError;
use crate::data::block::block_rows;
use crate::data::count_names;
use crate::data::given::{GivenRows, RecordSource};
use crate::data::rows::stack;
use crate::data::values::{Value, bounded, defaults, tensor};
use crate::env::Storage;

/// The longest line.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// The records of a file of JSON lines.
pub(super) struct JsonLines {
    path: Arc<Path>,
    lines: BufReader<SequentialFile>,
    columns: Vec<Column>,
    max_rows: usize,
    line: u64,
    text: Vec<u8>,
}

struct Column {
    feature: Feature,
    name: Arc<str>,
    /// The names of its run-time counts, where its length varies from record to record.
    counts: Vec<Arc<str>>,
    /// The type, at its capacity.
    ty: Type,
    defaults: Option<Vec<Value>>,
}

impl JsonLines {
    pub(super) fn open(
        storage: &dyn Storage,
        path: &Arc<Path>,
        features: &[Feature],
    ) -> Result<JsonLines, DataError> {
        let file = storage.open(path);
        let file =
            file.map_err(|e| DataError::new(format!("cannot be read: {e}")).in_file(path))?;
        let columns: Vec<Column> = features.iter().map(Column::new).collect();
        Ok(JsonLines {
            path: path.clone(),
            lines: BufReader::new(SequentialFile::new(file)),
            max_rows: block_rows(columns.iter().map(|column| &column.ty)),
            columns,
            line: 0,
            text: Vec::new(),
        })
    }

    /// The next line that is not blank; `None` at the end.
    fn read_line(&mut self) -> Result<Option<Map<String, Json>>, DataError> {
        loop {
            self.text.clear();
            let mut limited = std::io::Read::take(&mut self.lines, MAX_LINE_BYTES);
            let read = limited.read_until(b'\n', &mut self.text);
            let read =
                read.map_err(|e| self.here(DataError::new(format!("cannot be read: {e}"))))?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if read as u64 == MAX_LINE_BYTES {
                let message = format!("a line has at most {MAX_LINE_BYTES} bytes");
                return Err(self.here(DataError::new(message)));
            }
            if self.text.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(&self.text) {
                Ok(Json::Object(members)) => Ok(Some(members)),
                Ok(other) => {
                    let message = format!("a line is an object, and not {}", kind(&other));
                    Err(self.here(DataError::new(message)))
                }
                Err(e) => {
                    let message = format!("is no JSON: {e}");
                    let error = self.here(DataError::new(message));
                    Err(error.help("JSON lines have one object in each line: `{\"x\": 1.5}`"))
                }
            };
        }
    }

    fn here(&self, error: DataError) -> DataError {
        error.in_file(&self.path).in_line(self.line)
    }
}

impl RecordSource for JsonLines {
    fn next(&mut self, max: usize) -> Result<GivenRows, DataError> {
        let mut cells: Vec<(Vec<Tensor>, Vec<Vec<Tensor>>)> =
            self.columns.iter().map(|_| Default::default()).collect();
        let mut numbers = Vec::new();
        while numbers.len() < max.min(self.max_rows)
            && let Some(members) = self.read_line()?
        {
            for (column, (values, counts)) in self.columns.iter().zip(&mut cells) {
                let (value, found) = column.read(&members).map_err(|e| self.here(e))?;
                values.push(value);
                counts.resize_with(column.counts.len(), Vec::new);
                for (count, n) in counts.iter_mut().zip(found) {
                    count.push(Tensor::scalar(n as i64));
                }
            }
            numbers.push(self.line);
        }
        if numbers.is_empty() {
            return Ok(Default::default());
        }
        let stacked = |tensors: &[Tensor]| stack(&tensors.iter().collect::<Vec<_>>());
        let mut columns = Vec::new();
        for (column, (values, counts)) in self.columns.iter().zip(&cells) {
            for (name, count) in column.counts.iter().zip(counts) {
                columns.push((name.clone(), stacked(count)));
            }
            columns.push((column.name.clone(), stacked(values)));
        }
        Ok((columns, numbers))
    }
}

impl Column {
    fn new(feature: &Feature) -> Column {
        let ty = Type::of(&feature.ty).expect("the sizes of features are known");
        let dims = feature.ty.shape.0.iter();
        let counted = dims.filter(|dim| dim.count.is_some()).count();
        Column {
            name: Arc::from(feature.name.as_str()),
            counts: count_names(&feature.name, counted)
                .into_iter()
                .map(Arc::from)
                .collect(),
            defaults: defaults(feature, &ty),
            feature: feature.clone(),
            ty,
        }
    }

    /// The tensor of a record, padded to its capacity, and its length along the first dimension; then the longest list in it, where they
    /// vary, too.
    fn read(&self, members: &Map<String, Json>) -> Result<(Tensor, [usize; 2]), DataError> {
        let key = &self.feature.key;
        let given = members.get(key).filter(|value| !value.is_null());
        let (mut values, mut longest) = (Vec::new(), 0);
        match (given, &self.defaults) {
            (Some(given), _) => self.flatten(given, 0, &mut values, &mut longest)?,
            (None, Some(defaults)) => values = defaults.clone(),
            (None, None) if !self.counts.is_empty() => {}
            (None, None) => return Err(self.missing(members)),
        }
        for value in &mut values {
            *value = bounded(&self.feature, std::mem::replace(value, Value::Int(0)))?;
        }
        let row = self.ty.shape.iter().skip(1).product::<usize>().max(1);
        let length = values.len() / row;
        values.resize(self.ty.elements(), self.padding());
        Ok((tensor(&self.ty, values), [length, longest]))
    }

    /// What fills up a list.
    fn padding(&self) -> Value {
        match self.ty.dtype {
            DType::String => Value::Bytes(Vec::new()),
            _ => Value::Int(0),
        }
    }

    /// Appends the elements of nested lists in row-major order; each list must have the size of its dimension, or fits in it where it
    /// varies.
    fn flatten(
        &self,
        json: &Json,
        axis: usize,
        values: &mut Vec<Value>,
        longest: &mut usize,
    ) -> Result<(), DataError> {
        match (json, self.ty.shape.get(axis)) {
            (Json::Array(list), Some(size)) => {
                let fits = match axis < self.counts.len() {
                    true => list.len() <= *size,
                    false => list.len() == *size,
                };
                if !fits {
                    let found = shape_of(self.feature.key.as_str(), list, axis);
                    return Err(self.misfit(&found));
                }
                let start = values.len();
                (list.iter()).try_for_each(|one| self.flatten(one, axis + 1, values, longest))?;
                if axis == 1 && self.counts.len() > 1 {
                    *longest = (*longest).max(list.len());
                    values.resize(start + size, self.padding());
                }
                Ok(())
            }
            (Json::Array(_), None) | (_, Some(_)) => {
                Err(self.misfit(&format!("`{}` has {}", self.feature.key, kind(json))))
            }
            (scalar, None) => {
                values.push(self.element(scalar)?);
                Ok(())
            }
        }
    }

    fn misfit(&self, found: &str) -> DataError {
        let message = format!(
            "{found}, and `{}: {}` is read",
            self.feature.name, self.feature.ty
        );
        DataError::new(message).at(self.feature.span)
    }

    fn element(&self, json: &Json) -> Result<Value, DataError> {
        let dtype = self.ty.dtype;
        let value = match (dtype, json) {
            (DType::F16 | DType::Bf16 | DType::F32 | DType::F64, Json::Number(x)) => {
                x.as_f64().map(Value::Float)
            }
            (DType::F16 | DType::Bf16 | DType::F32 | DType::F64, Json::String(text)) => {
                match text.as_str() {
                    "NaN" => Some(Value::Float(f64::NAN)),
                    "Infinity" => Some(Value::Float(f64::INFINITY)),
                    "-Infinity" => Some(Value::Float(f64::NEG_INFINITY)),
                    _ => None,
                }
            }
            (DType::F16 | DType::Bf16 | DType::F32 | DType::F64, Json::Null) => {
                Some(Value::Float(f64::NAN))
            }
            (DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8, Json::Number(n)) => {
                let (low, high) = dtype.int_range().expect("it is an integer type");
                let n = n.as_i64().filter(|n| (low..=high).contains(n));
                n.map(Value::Int)
            }
            (DType::Bool, Json::Bool(value)) => Some(Value::Int(i64::from(*value))),
            (DType::Bool, Json::Number(n)) => match n.as_i64() {
                Some(n @ (0 | 1)) => Some(Value::Int(n)),
                _ => None,
            },
            (DType::String, Json::String(text)) => Some(Value::Bytes(text.clone().into_bytes())),
            _ => None,
        };
        value.ok_or_else(|| {
            let mut shown: String = json.to_string().chars().take(40).collect();
            if shown.len() < json.to_string().len() {
                shown.push_str("...");
            }
            let message = format!("`{}` has {shown}, which is no {dtype}", self.feature.key);
            DataError::new(message).at(self.feature.span)
        })
    }

    fn missing(&self, members: &Map<String, Json>) -> DataError {
        let mut shown: Vec<String> = (members.keys().take(12))
            .map(|name| format!("`{name}`"))
            .collect();
        if members.len() > 12 {
            shown.push("...".to_owned());
        }
        let help = match shown.is_empty() {
            true => "the object is empty".to_owned(),
            false => format!(
                "its members are {}; a default replaces a missing value: `feature {}: {} = {};`",
                shown.join(", "),
                self.feature.name,
                self.feature.ty,
                match self.ty.dtype {
                    DType::String => "\"\"",
                    _ => "0",
                }
            ),
        };
        DataError::new(format!("there is no member `{}`", self.feature.key))
            .at(self.feature.span)
            .help(help)
    }
}

/// `x` has 3 elements, or lists of 3 elements.
fn shape_of(key: &str, list: &[Json], axis: usize) -> String {
    match axis {
        0 => format!("`{key}` has {} elements", list.len()),
        _ => format!("`{key}` has a list of {} elements", list.len()),
    }
}

/// What a JSON value is.
fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}
