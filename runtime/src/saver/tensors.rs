//! Tensors of a state as tensors of a file, and back. Numbers are neither copied nor converted.

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_formats::checkpoint::CheckpointReader;
use trainspec_formats::tensor::{DType as FileType, Elements, Tensor as FileTensor, TensorView};
use trainspec_formats::{FileKind, FormatError};

/// A tensor as a file takes it: borrowed where its bytes are those of the file.
#[derive(Debug)]
pub(super) enum Stored<'a> {
    /// Numbers in place.
    Borrowed(TensorView<'a>),
    /// Strings, and numbers whose bytes were swapped.
    Owned(FileTensor),
}

impl<'a> Stored<'a> {
    /// A tensor of a state.
    pub(super) fn new(tensor: &'a Tensor) -> Result<Stored<'a>, FormatError> {
        let dtype = file_type(tensor.dtype());
        let shape = tensor.shape();
        let bytes: &[u8] = match tensor.data() {
            Data::F16(v) => bytemuck::cast_slice(v),
            Data::Bf16(v) => bytemuck::cast_slice(v),
            Data::F32(v) => bytemuck::cast_slice(v),
            Data::F64(v) => bytemuck::cast_slice(v),
            Data::I8(v) => bytemuck::cast_slice(v),
            Data::I16(v) => bytemuck::cast_slice(v),
            Data::I32(v) => bytemuck::cast_slice(v),
            Data::I64(v) => bytemuck::cast_slice(v),
            Data::U8(v) => v,
            Data::Bool(v) => bytemuck::cast_slice(v),
            Data::String(v) => {
                return FileTensor::strings(shape, v.clone()).map(Stored::Owned);
            }
        };
        if cfg!(target_endian = "little") {
            return TensorView::new(dtype, shape, bytes).map(Stored::Borrowed);
        }
        let mut bytes = bytes.to_vec();
        swap_bytes(dtype, &mut bytes);
        FileTensor::new(dtype, shape, bytes).map(Stored::Owned)
    }

    /// The tensor.
    pub(super) fn view(&self) -> TensorView<'_> {
        match self {
            Stored::Borrowed(view) => *view,
            Stored::Owned(tensor) => tensor.view(),
        }
    }
}

/// The element type of a file.
pub(crate) fn file_type(dtype: DType) -> FileType {
    match dtype {
        DType::F16 => FileType::Float16,
        DType::Bf16 => FileType::BFloat16,
        DType::F32 => FileType::Float32,
        DType::F64 => FileType::Float64,
        DType::I8 => FileType::Int8,
        DType::I16 => FileType::Int16,
        DType::I32 => FileType::Int32,
        DType::I64 => FileType::Int64,
        DType::U8 => FileType::UInt8,
        DType::Bool => FileType::Bool,
        DType::String => FileType::String,
    }
}

/// The type of a stored tensor as a state would have it, as text; element types that no state has keep TensorFlow's name.
pub(super) fn type_text(dtype: FileType, shape: &[usize]) -> String {
    let known = DType::ALL.iter().find(|own| file_type(**own) == dtype);
    match known {
        Some(own) => Type::new(*own, shape).to_string(),
        None => format!("{dtype}{shape:?}"),
    }
}

/// Reads tensors of known types, each by its key. The element type of each is the stored one, and the number of elements as well.
///
/// Numbers are read straight into the new tensors, those of a bundle in parallel.
pub(super) fn read(
    reader: &CheckpointReader,
    requests: &[(&str, Type)],
) -> Result<Vec<Tensor>, FormatError> {
    let mut values = Vec::with_capacity(requests.len());
    for (key, ty) in requests {
        let n = ty.elements();
        values.push(match ty.dtype {
            DType::F16 => Data::F16(vec![Default::default(); n]),
            DType::Bf16 => Data::Bf16(vec![Default::default(); n]),
            DType::F32 => Data::F32(vec![0.0; n]),
            DType::F64 => Data::F64(vec![0.0; n]),
            DType::I8 => Data::I8(vec![0; n]),
            DType::I16 => Data::I16(vec![0; n]),
            DType::I32 => Data::I32(vec![0; n]),
            DType::I64 => Data::I64(vec![0; n]),
            DType::U8 => Data::U8(vec![0; n]),
            DType::Bool => Data::Bool(bools(reader, key)?),
            DType::String => Data::String(strings(reader, key)?),
        });
    }
    let numbers = requests.iter().zip(&mut values);
    let numbers =
        numbers.filter_map(|((key, _), values)| bytes_mut(values).map(|bytes| (*key, bytes)));
    let numbers: Vec<(&str, &mut [u8])> = numbers.collect();
    match reader {
        CheckpointReader::Bundle(bundle) => bundle.read_all_into(numbers)?,
        CheckpointReader::Table(_)
        | CheckpointReader::Safetensors(_)
        | CheckpointReader::Npz(_) => {
            for (key, bytes) in numbers {
                reader.read_into(key, bytes)?;
            }
        }
    }
    let tensors = requests.iter().zip(values).map(|((_, ty), mut values)| {
        if cfg!(target_endian = "big") {
            let dtype = file_type(values.dtype());
            bytes_mut(&mut values)
                .into_iter()
                .for_each(|b| swap_bytes(dtype, b));
        }
        Tensor::of(&ty.shape, values)
    });
    Ok(tensors.collect())
}

fn bools(reader: &CheckpointReader, key: &str) -> Result<Vec<bool>, FormatError> {
    reader.get_tensor(key)?.to_vec::<bool>().map_err(|mut e| {
        e.cause = format!("tensor `{key}`: {}", e.cause);
        e
    })
}

fn strings(reader: &CheckpointReader, key: &str) -> Result<Vec<Vec<u8>>, FormatError> {
    match reader.get_tensor(key)?.into_elements() {
        Elements::Strings(strings) => Ok(strings.iter().map(<[u8]>::to_vec).collect()),
        Elements::Bytes(_) => Err(FormatError::data_loss(
            FileKind::CheckpointData,
            format!("tensor `{key}` holds no strings"),
        )),
    }
}

/// The bytes of numbers; `None` for bools and strings, of which not every byte is valid.
fn bytes_mut(values: &mut Data) -> Option<&mut [u8]> {
    Some(match values {
        Data::F16(v) => bytemuck::cast_slice_mut(v),
        Data::Bf16(v) => bytemuck::cast_slice_mut(v),
        Data::F32(v) => bytemuck::cast_slice_mut(v),
        Data::F64(v) => bytemuck::cast_slice_mut(v),
        Data::I8(v) => bytemuck::cast_slice_mut(v),
        Data::I16(v) => bytemuck::cast_slice_mut(v),
        Data::I32(v) => bytemuck::cast_slice_mut(v),
        Data::I64(v) => bytemuck::cast_slice_mut(v),
        Data::U8(v) => v,
        Data::Bool(_) | Data::String(_) => return None,
    })
}

/// Reverses the bytes of every number.
fn swap_bytes(dtype: FileType, bytes: &mut [u8]) {
    let size = dtype.size().unwrap_or(1);
    bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
}
