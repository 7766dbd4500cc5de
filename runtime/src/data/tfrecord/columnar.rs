//! Examples decoded straight into columns (`tf.io.parse_example`), where features have the usual kind.
//!
//! Whatever it does not take is decoded record by record, which has all conversions and errors.

use trainspec_compiler::ir::{DType, Tensor};
use trainspec_formats::examples::{
    self, BytesColumn, Dtype, ExampleParser, FeatureSpec, Schema, Values,
};

use super::Column;
use crate::data::block::Block;
use crate::data::origins::Origins;
use crate::data::values::Value;

/// A parser of the features of a data set.
pub(super) struct ColumnParser {
    parser: ExampleParser,
    /// The kind in which the bytes of `u8` features stand in records, once a record is known.
    schema: Option<Schema>,
}

impl ColumnParser {
    /// A parser; `None` where no schema has the features.
    pub(super) fn new(columns: &[Column]) -> Option<ColumnParser> {
        let schema = schema(columns, &|_| Dtype::Int64)?;
        let is_open = columns.iter().any(|column| column.ty.dtype == DType::U8);
        Some(ColumnParser {
            parser: ExampleParser::new(&schema),
            schema: (!is_open).then_some(schema),
        })
    }

    /// Adds a record; false where it is not what the schema says.
    pub(super) fn push(&mut self, record: &[u8], columns: &[Column]) -> bool {
        if self.schema.is_none() {
            // The first record tells whether `u8` is a string of bytes or a list of integers.
            let Ok(example) = examples::decode(record) else {
                return false;
            };
            let kind = |column: &Column| match column.kind(&example) {
                Some(super::Kind::BytesList(_)) => Dtype::Bytes,
                _ => Dtype::Int64,
            };
            let Some(schema) = schema(columns, &kind) else {
                return false;
            };
            self.parser = ExampleParser::new(&schema);
            self.schema = Some(schema);
        }
        self.parser.push(record).is_ok()
    }

    /// The columns of the records since the last call; `None` where a value is out of its range.
    pub(super) fn finish(
        &mut self,
        columns: &[Column],
        origins: Origins,
        found: &mut [bool],
    ) -> Option<Block> {
        let batch = self.parser.finish().ok()?;
        let rows = origins.len();
        if batch.rows() != rows {
            return None;
        }
        let mut block = Vec::with_capacity(columns.len());
        for (i, column) in columns.iter().enumerate() {
            let (values, ends) = match batch.column_at(i) {
                examples::Column::Dense(dense) => (dense.values, None),
                examples::Column::VarLen(lists) => (lists.values, Some(lists.ends)),
                examples::Column::Sparse(_) | examples::Column::Ragged(_) => return None,
            };
            found[i] |= match ends {
                Some(_) => !values.is_empty(),
                None => rows > 0,
            };
            if let ([name], Some(ends)) = (column.count_names.as_slice(), ends) {
                let counts = column.counts(ends)?;
                block.push((name.clone(), Tensor::new(&[rows], counts)));
            }
            block.push((column.name.clone(), column.stack(values, ends, rows)?));
        }
        Some(Block::records(block, origins))
    }
}

/// The schema of the features, `u8` being read from the kind that `bytes` gives.
fn schema(columns: &[Column], bytes: &dyn Fn(&Column) -> Dtype) -> Option<Schema> {
    if columns.iter().any(|column| column.feature.is_sequence) {
        return None;
    }
    let mut keys: Vec<&str> = columns.iter().map(|c| c.feature.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() < columns.len() {
        return None;
    }
    let features = columns.iter().map(|column| {
        let dtype = match column.ty.dtype {
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => Dtype::Float,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::Bool => Dtype::Int64,
            DType::U8 => bytes(column),
            DType::String => Dtype::Bytes,
        };
        let is_string_of_bytes = dtype == Dtype::Bytes && column.ty.dtype == DType::U8;
        let spec = match (column.counted, is_string_of_bytes) {
            // Its length is compared afterwards.
            (_, true) if column.counted || column.defaults.is_some() => return None,
            (_, true) => FeatureSpec::fixed(Dtype::Bytes, []),
            (true, false) => FeatureSpec::var_len(dtype),
            (false, false) => FeatureSpec::FixedLen {
                dtype,
                shape: vec![column.ty.elements()],
                default: match &column.defaults {
                    Some(values) => Some(default(dtype, values)?),
                    None => None,
                },
            },
        };
        Some((column.feature.key.clone(), spec))
    });
    Schema::new(features.collect::<Option<Vec<_>>>()?).ok()
}

/// Defaults as values of a record; `None` where they have others than a record can have.
fn default(dtype: Dtype, values: &[Value]) -> Option<Values> {
    Some(match dtype {
        Dtype::Float => {
            let float = |value: &Value| match value {
                Value::Float(x) if f64::from(*x as f32).to_bits() == x.to_bits() => Some(*x as f32),
                _ => None,
            };
            Values::Float(values.iter().map(float).collect::<Option<_>>()?)
        }
        Dtype::Int64 => {
            let int = |value: &Value| match value {
                Value::Int(n) => Some(*n),
                _ => None,
            };
            Values::Int64(values.iter().map(int).collect::<Option<_>>()?)
        }
        Dtype::Bytes => {
            let bytes = |value: &Value| match value {
                Value::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            };
            let bytes = values.iter().map(bytes).collect::<Option<Vec<_>>>()?;
            Values::Bytes(bytes.into_iter().collect::<BytesColumn>())
        }
    })
}

impl Column {
    /// The number of elements of one step of the first dimension.
    fn step(&self) -> usize {
        let rest = self.ty.shape.get(1..).unwrap_or(&[]);
        rest.iter().product::<usize>().max(1)
    }

    /// The lengths of lists; `None` where one does not fit.
    fn counts(&self, ends: &[usize]) -> Option<Vec<i64>> {
        let (step, capacity) = (self.step(), self.ty.elements());
        let mut start = 0;
        let count = |end: &usize| {
            let values = end - start;
            start = *end;
            (values <= capacity && values.is_multiple_of(step)).then_some((values / step) as i64)
        };
        ends.iter().map(count).collect()
    }

    /// The values of all records as a column; `None` where one is not what the feature takes.
    fn stack(&self, values: &Values, ends: Option<&[usize]>, rows: usize) -> Option<Tensor> {
        let elements = self.ty.elements();
        let shape: Vec<usize> = [&[rows], &self.ty.shape[..]].concat();
        let ty = self.ty.with_shape(&shape);
        Some(match (values, self.ty.dtype) {
            (Values::Float(values), DType::F32) => {
                Tensor::new(&shape, padded(values, ends, elements, 0.0))
            }
            (Values::Float(values), _) => {
                let values = padded(values, ends, elements, 0.0);
                Tensor::from_f64s(&ty, values.into_iter().map(f64::from))
            }
            (Values::Int64(values), dtype) => {
                let (low, high) = dtype.int_range().unwrap_or((0, 1));
                let (from, to) = self.feature.bounds.unwrap_or((i64::MIN, i64::MAX));
                let fits =
                    |n: &i64| low <= *n && *n <= high && from <= *n && (*n < to || to == i64::MAX);
                if !values.iter().all(fits) {
                    return None;
                }
                let values = padded(values, ends, elements, 0);
                match dtype {
                    DType::I64 => Tensor::new(&shape, values),
                    _ => Tensor::from_i64s(&ty, values),
                }
            }
            (Values::Bytes(values), DType::U8) => {
                let mut all = Vec::with_capacity(rows * elements);
                for row in 0..rows {
                    if values[row].len() != elements {
                        return None;
                    }
                    all.extend_from_slice(&values[row]);
                }
                let (from, to) = self.feature.bounds.unwrap_or((0, 256));
                let fits = |byte: &u8| (from..to).contains(&i64::from(*byte));
                if self.feature.bounds.is_some() && !all.iter().all(fits) {
                    return None;
                }
                Tensor::new(&shape, all)
            }
            (Values::Bytes(values), _) => {
                let strings: Vec<Vec<u8>> = (0..values.len()).map(|i| values[i].to_vec()).collect();
                Tensor::new(&shape, padded(&strings, ends, elements, Vec::new()))
            }
        })
    }
}

/// The values of all records, lists filled up to `elements`.
fn padded<T: Clone>(values: &[T], ends: Option<&[usize]>, elements: usize, padding: T) -> Vec<T> {
    let Some(ends) = ends else {
        return values.to_vec();
    };
    let mut all = Vec::with_capacity(ends.len() * elements);
    let mut start = 0;
    for (row, end) in ends.iter().enumerate() {
        all.extend_from_slice(&values[start..*end]);
        all.resize((row + 1) * elements, padding.clone());
        start = *end;
    }
    all
}
