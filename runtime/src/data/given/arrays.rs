//! Arrays of NumPy: `npz`, an array for each feature, and `npy`, the only feature that is needed. The first dimension is the records.

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::typed::Feature;
use trainspec_formats::checkpoint::{Npz, numpy};
use trainspec_formats::storage::Storage;
use trainspec_formats::tensor::{DType as FileType, Tensor as FileTensor};

use crate::DataError;
use crate::data::block::NamedColumn;
use crate::data::given::{GivenRows, RecordSource};
use crate::data::rows;

/// The records of arrays in memory.
pub(super) struct Arrays {
    columns: Vec<NamedColumn>,
    rows: usize,
    next: usize,
}

impl Arrays {
    /// One array, which is the only feature.
    pub(super) fn npy(path: &Arc<Path>, features: &[Feature]) -> Result<Arrays, DataError> {
        let [feature] = features else {
            let names: Vec<String> = (features.iter())
                .map(|feature| format!("`{}: {}`", feature.name, feature.ty))
                .collect();
            let message = format!(
                "an npy file has one array, and the predictions need {} features: {}",
                features.len(),
                names.join(", ")
            );
            let error = DataError::new(message).in_file(path);
            return Err(error.help(
                "`numpy.savez(\"inputs.npz\", NAME=array, ...)` writes an npz file with several",
            ));
        };
        let array = numpy::read_npy(path).map_err(|e| DataError::new(e.to_string()))?;
        let found = format!("the array is {}", shown(array.dtype(), array.shape()));
        let column = column(feature, array, &found, path)?;
        Ok(Arrays::new(vec![column]))
    }

    /// The arrays of an archive, by the names of features.
    pub(super) fn npz(
        storage: &Arc<dyn Storage>,
        path: &Arc<Path>,
        features: &[Feature],
    ) -> Result<Arrays, DataError> {
        let failed = |e: trainspec_formats::FormatError| DataError::new(e.to_string());
        let npz = Npz::open_in(storage, path).map_err(failed)?;
        let all: Vec<String> = npz
            .entries()
            .map(|(name, dtype, shape)| format!("`{name}: {}`", shown(dtype, shape)))
            .collect();
        let has = match all.is_empty() {
            true => "it has no arrays".to_owned(),
            false => format!("it has {}", all.join(", ")),
        };
        let mut columns: Vec<NamedColumn> = Vec::new();
        for feature in features {
            if npz.entry(&feature.key).is_none() {
                let message = format!(
                    "there is no array `{}` for `{}: {}`; {has}",
                    feature.key, feature.name, feature.ty
                );
                return Err(DataError::new(message).in_file(path).at(feature.span));
            }
            let array = npz.tensor(&feature.key).map_err(failed)?;
            let found = format!(
                "`{}` is {}",
                feature.key,
                shown(array.dtype(), array.shape())
            );
            let (name, column) = column(feature, array, &found, path)?;
            if let Some((first, other)) = columns.first()
                && other.shape()[0] != column.shape()[0]
            {
                let message = format!(
                    "`{first}` has {} records, and `{name}` {}",
                    other.shape()[0],
                    column.shape()[0]
                );
                return Err(DataError::new(message).in_file(path));
            }
            columns.push((name, column));
        }
        Ok(Arrays::new(columns))
    }

    fn new(columns: Vec<NamedColumn>) -> Arrays {
        Arrays {
            rows: columns.first().map_or(0, |(_, column)| column.shape()[0]),
            columns,
            next: 0,
        }
    }
}

impl RecordSource for Arrays {
    fn next(&mut self, max: usize) -> Result<GivenRows, DataError> {
        let end = self.rows.min(self.next.saturating_add(max));
        let range = self.next..end;
        self.next = end;
        let columns = self.columns.iter().map(|(name, column)| {
            let mut rows = rows::Column::like(column, range.len());
            rows.extend(column, range.clone());
            (name.clone(), rows.into_tensor())
        });
        let numbers = range.clone().map(|row| row as u64 + 1);
        Ok((columns.collect(), numbers.collect()))
    }
}

/// An array as the column of a feature; element types are never converted.
fn column(
    feature: &Feature,
    array: FileTensor,
    found: &str,
    path: &Arc<Path>,
) -> Result<NamedColumn, DataError> {
    let misfit = |help: Option<String>| {
        let message = format!(
            "{found}, and `{}: {}` is read of each record",
            feature.name, feature.ty
        );
        let error = DataError::new(message).in_file(path).at(feature.span);
        match help {
            Some(help) => error.help(help),
            None => error,
        }
    };
    if feature.ty.shape.is_counted() {
        return Err(misfit(Some(
            "a feature of varying length is read from JSON lines or TFRecords".to_owned(),
        )));
    }
    let ty = Type::of(&feature.ty).expect("the sizes of features are known");
    let shape = array.shape().to_vec();
    if shape.is_empty() || shape[1..] != ty.shape[..] {
        return Err(misfit(None));
    }
    let values = data(&array, ty.dtype).ok_or_else(|| {
        let numpy = numpy_type(ty.dtype);
        misfit(Some(match numpy {
            Some(numpy) => format!("convert it before it is saved: `array.astype(\"{numpy}\")`"),
            None => format!("NumPy has no {}", ty.dtype),
        }))
    })?;
    let column = Tensor::of(&shape, values);
    if let Some((low, high)) = feature.bounds
        && let Some(n) = column.to_i64s().iter().find(|n| !(low..high).contains(n))
    {
        let message = format!("`{}` is {n}, which is not in {low}..{high}", feature.name);
        return Err(DataError::new(message).in_file(path).at(feature.span));
    }
    Ok((Arc::from(feature.name.as_str()), column))
}

/// The elements of an array, if they are of that type.
fn data(array: &FileTensor, dtype: DType) -> Option<Data> {
    Some(match dtype {
        DType::F16 => Data::F16(array.to_vec().ok()?),
        DType::Bf16 => Data::Bf16(array.to_vec().ok()?),
        DType::F32 => Data::F32(array.to_vec().ok()?),
        DType::F64 => Data::F64(array.to_vec().ok()?),
        DType::I8 => Data::I8(array.to_vec().ok()?),
        DType::I16 => Data::I16(array.to_vec().ok()?),
        DType::I32 => Data::I32(array.to_vec().ok()?),
        DType::I64 => Data::I64(array.to_vec().ok()?),
        DType::U8 => Data::U8(array.to_vec().ok()?),
        DType::Bool => Data::Bool(array.to_vec().ok()?),
        DType::String => match array.elements() {
            trainspec_formats::tensor::Elements::Strings(strings) => {
                Data::String(strings.iter().map(<[u8]>::to_vec).collect())
            }
            trainspec_formats::tensor::Elements::Bytes(_) => return None,
        },
    })
}

/// NumPy's name of an element type.
fn numpy_type(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F16 => "float16",
        DType::Bf16 => return None,
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::Bool => "bool",
        DType::String => "str",
    })
}

/// The type of an array, as a spec would have it where it has one.
fn shown(dtype: FileType, shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let name = match dtype {
        FileType::Float16 => "f16".to_owned(),
        FileType::BFloat16 => "bf16".to_owned(),
        FileType::Float32 => "f32".to_owned(),
        FileType::Float64 => "f64".to_owned(),
        FileType::Int8 => "i8".to_owned(),
        FileType::Int16 => "i16".to_owned(),
        FileType::Int32 => "i32".to_owned(),
        FileType::Int64 => "i64".to_owned(),
        FileType::UInt8 => "u8".to_owned(),
        FileType::Bool => "bool".to_owned(),
        FileType::String => "string".to_owned(),
        other => other.to_string(),
    };
    format!("{name}[{}]", sizes.join(", "))
}
