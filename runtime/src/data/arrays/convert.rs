//! Elements of stored arrays as elements of a feature: never another number, or an error.

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_formats::tensor::{DType as FileType, Element, Elements, Tensor as FileTensor};

use crate::data::rows::each_data;

/// An element that the feature cannot have.
pub(in crate::data) struct Wrong {
    /// Its index.
    pub(in crate::data) element: usize,
    /// What it is.
    pub(in crate::data) problem: String,
}

/// Whether elements of a type in a file can be read as those of a feature. Otherwise with a type that they could be declared as.
pub(super) fn reads(from: FileType, to: DType) -> Result<(), Option<DType>> {
    let Some(kind) = Kind::of(from) else {
        return Err(None);
    };
    let declared = match kind {
        Kind::Int(_) if to.is_int() => return Ok(()),
        Kind::Float(own) if to.is_float() && widens(own, to) => return Ok(()),
        Kind::Bool if to == DType::Bool => return Ok(()),
        Kind::String if to == DType::String => return Ok(()),
        Kind::Int(fits) => fits,
        Kind::Float(own) => own,
        Kind::Bool => DType::Bool,
        Kind::String => DType::String,
    };
    let is_number = |dtype: DType| dtype != DType::String;
    Err((is_number(declared) && is_number(to)).then_some(declared))
}

/// The kinds of elements.
enum Kind {
    /// Integers, with a type that holds them.
    Int(DType),
    Float(DType),
    Bool,
    String,
}

impl Kind {
    fn of(dtype: FileType) -> Option<Kind> {
        Some(match dtype {
            FileType::Int8 => Kind::Int(DType::I8),
            FileType::UInt8 => Kind::Int(DType::U8),
            FileType::Int16 => Kind::Int(DType::I16),
            FileType::UInt16 | FileType::Int32 => Kind::Int(DType::I32),
            FileType::UInt32 | FileType::Int64 | FileType::UInt64 => Kind::Int(DType::I64),
            FileType::Float16 => Kind::Float(DType::F16),
            FileType::BFloat16 => Kind::Float(DType::Bf16),
            FileType::Float32 => Kind::Float(DType::F32),
            FileType::Float64 => Kind::Float(DType::F64),
            FileType::Bool => Kind::Bool,
            FileType::String => Kind::String,
            _ => return None,
        })
    }
}

/// Whether a float type has all numbers of another.
fn widens(from: DType, to: DType) -> bool {
    match (from, to) {
        _ if from == to => true,
        (DType::F16 | DType::Bf16, DType::F32 | DType::F64) => true,
        (DType::F32, DType::F64) => true,
        _ => false,
    }
}

/// The elements of a stored array, which [`reads`] has allowed.
pub(super) fn converted(tensor: &FileTensor, to: DType) -> Result<Data, Wrong> {
    fn same<T: Element>(tensor: &FileTensor) -> Vec<T> {
        tensor.to_vec::<T>().expect("it has this type")
    }
    fn wide<T: Element + Into<i64>>(tensor: &FileTensor) -> Vec<i64> {
        same::<T>(tensor).into_iter().map(Into::into).collect()
    }
    let ints = match tensor.dtype() {
        FileType::Bool => return Ok(Data::Bool(same(tensor))),
        FileType::String => {
            let Elements::Strings(strings) = tensor.elements() else {
                unreachable!("strings are not bytes")
            };
            return Ok(Data::String(strings.iter().map(<[u8]>::to_vec).collect()));
        }
        FileType::Float16 if to == DType::F16 => return Ok(Data::F16(same(tensor))),
        FileType::BFloat16 if to == DType::Bf16 => return Ok(Data::Bf16(same(tensor))),
        FileType::Float32 if to == DType::F32 => return Ok(Data::F32(same(tensor))),
        FileType::Float64 if to == DType::F64 => return Ok(Data::F64(same(tensor))),
        FileType::Float16 | FileType::BFloat16 | FileType::Float32 => {
            let floats = tensor.to_f64s().expect("they are numbers");
            let ty = Type::new(to, &[floats.len()]);
            return Ok(Tensor::from_f64s(&ty, floats).into_data());
        }
        FileType::UInt8 if to == DType::U8 => return Ok(Data::U8(same(tensor))),
        FileType::Int8 if to == DType::I8 => return Ok(Data::I8(same(tensor))),
        FileType::Int16 if to == DType::I16 => return Ok(Data::I16(same(tensor))),
        FileType::Int32 if to == DType::I32 => return Ok(Data::I32(same(tensor))),
        FileType::Int64 if to == DType::I64 => return Ok(Data::I64(same(tensor))),
        FileType::Int8 => wide::<i8>(tensor),
        FileType::UInt8 => wide::<u8>(tensor),
        FileType::Int16 => wide::<i16>(tensor),
        FileType::UInt16 => wide::<u16>(tensor),
        FileType::Int32 => wide::<i32>(tensor),
        FileType::UInt32 => wide::<u32>(tensor),
        FileType::Int64 => wide::<i64>(tensor),
        FileType::UInt64 => {
            let mut ints = Vec::new();
            for (element, n) in same::<u64>(tensor).into_iter().enumerate() {
                ints.push(i64::try_from(n).map_err(|_| too_large(element, n, to))?);
            }
            ints
        }
        other => unreachable!("`reads` refuses {other}"),
    };
    narrowed(&ints, to)
}

/// A range of elements of an array in memory, which [`reads`] has allowed.
pub(super) fn slice(data: &Data, range: std::ops::Range<usize>, to: DType) -> Result<Data, Wrong> {
    let own = each_data!(data, values => values[range].to_vec());
    if own.dtype() == to {
        return Ok(own);
    }
    let tensor = Tensor::of(&[own.len()], own);
    if to.is_float() {
        let ty = Type::new(to, &[tensor.data().len()]);
        return Ok(Tensor::from_f64s(&ty, tensor.to_f64s()).into_data());
    }
    narrowed(&tensor.to_i64s(), to)
}

fn too_large(element: usize, n: impl std::fmt::Display, to: DType) -> Wrong {
    let problem = format!("{n}, which is no {to}");
    Wrong { element, problem }
}

/// Integers as those of another type, which has all of them.
fn narrowed(ints: &[i64], to: DType) -> Result<Data, Wrong> {
    let (low, high) = to.int_range().unwrap_or((i64::MIN, i64::MAX));
    if let Some(element) = ints.iter().position(|n| !(low..=high).contains(n)) {
        return Err(too_large(element, ints[element], to));
    }
    let ty = Type::new(to, &[ints.len()]);
    Ok(Tensor::from_i64s(&ty, ints.iter().copied()).into_data())
}

/// Checks integers against the bounds of their feature.
pub(in crate::data) fn bounded(data: Data, bounds: Option<(i64, i64)>) -> Result<Data, Wrong> {
    fn first<T: Copy + Into<i64>>(values: &[T], low: i64, high: i64) -> Option<(usize, i64)> {
        let mut all = values.iter().map(|n| (*n).into()).enumerate();
        all.find(|(_, n)| !(low..high).contains(n))
    }
    let Some((low, high)) = bounds else {
        return Ok(data);
    };
    let wrong = match &data {
        Data::I8(values) => first(values, low, high),
        Data::I16(values) => first(values, low, high),
        Data::I32(values) => first(values, low, high),
        Data::I64(values) => first(values, low, high),
        Data::U8(values) => first(values, low, high),
        Data::F16(_) | Data::Bf16(_) | Data::F32(_) | Data::F64(_) | Data::Bool(_) => None,
        Data::String(_) => None,
    };
    match wrong {
        None => Ok(data),
        Some((element, n)) => Err(Wrong {
            element,
            problem: format!("{n}, which is not in {low}..{high}"),
        }),
    }
}
