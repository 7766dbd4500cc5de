//! What a queue holds: dense and sparse tensors; their rows, and how several become one.

use crate::data::{each_data, stack};
use crate::queue::{PartialShape, TensorSpec};
use crate::{Code, DType, Error, Tensor};
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;

/// A sparse tensor (`tf.SparseTensor`): the indices that have a value, the values, and the shape of the whole.
///
/// ```
/// use trainspec::Tensor;
/// use trainspec::queue::SparseTensor;
///
/// // Two of five elements have values.
/// let sparse = SparseTensor::new(
///     Tensor::new(&[2, 1], vec![0_i64, 3]),
///     Tensor::new(&[2], vec![1.5_f32, 2.5]),
///     Tensor::new(&[1], vec![5_i64]),
/// )?;
/// assert_eq!(sparse.rank(), 1);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SparseTensor {
    indices: Tensor,
    values: Tensor,
    dense_shape: Tensor,
}

impl SparseTensor {
    /// A sparse tensor of indices `i64[n, rank]`, values `[n]` and a shape `i64[rank]`. Fails where these do not fit together, or an index
    /// is not in the shape.
    pub fn new(
        indices: Tensor,
        values: Tensor,
        dense_shape: Tensor,
    ) -> Result<SparseTensor, Error> {
        let fits = match (indices.shape(), values.shape(), dense_shape.shape()) {
            ([n, rank], [own], [dims]) => n == own && rank == dims,
            _ => false,
        };
        let (Some(all), Some(dims), true) =
            (indices.values::<i64>(), dense_shape.values::<i64>(), fits)
        else {
            let message = format!(
                "a sparse tensor has indices i64[n, rank], values [n] and a dense shape i64[rank], and not {}, {} and {}",
                indices.ty(),
                values.ty(),
                dense_shape.ty()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let is_inside = |index: &[i64]| index.iter().zip(dims).all(|(i, n)| (0..*n).contains(i));
        // Without dimensions there is one index, which is empty.
        let wrong = match dims.len() {
            0 => None,
            rank => all.chunks(rank).find(|index| !is_inside(index)),
        };
        if let Some(index) = wrong.filter(|_| !all.is_empty()) {
            let message = format!("the index {index:?} is not in the dense shape {dims:?}");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if let Some(negative) = dims.iter().find(|dim| **dim < 0) {
            let message = format!("a dimension of the dense shape is {negative}");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(SparseTensor {
            indices,
            values,
            dense_shape,
        })
    }

    /// The indices, `i64[n, rank]`.
    pub fn indices(&self) -> &Tensor {
        &self.indices
    }

    /// The values, `[n]`.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The shape of the whole, `i64[rank]`.
    pub fn dense_shape(&self) -> &Tensor {
        &self.dense_shape
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dense_shape.data().len()
    }

    fn dims(&self) -> Vec<usize> {
        let dims = self.dense_shape.to_i64s().into_iter();
        dims.map(|dim| dim as usize).collect()
    }

    /// Its parts by the first index, one after the other.
    fn rows(&self) -> Vec<Value> {
        let (rank, dims) = (self.rank(), self.dense_shape.to_i64s());
        let indices = self.indices.to_i64s();
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); dims[0] as usize];
        for (i, index) in indices.chunks(rank).enumerate() {
            parts[index[0] as usize].push(i);
        }
        let part = |own: Vec<usize>| {
            let of_row = own
                .iter()
                .flat_map(|i| &indices[i * rank + 1..(i + 1) * rank]);
            Value::Sparse(SparseTensor {
                indices: Tensor::new(&[own.len(), rank - 1], of_row.copied().collect()),
                values: pick(&self.values, &own),
                dense_shape: Tensor::new(&[rank - 1], dims[1..].to_vec()),
            })
        };
        parts.into_iter().map(part).collect()
    }
}

/// A dense or a sparse tensor of an input pipeline.
///
/// ```
/// use trainspec::Tensor;
/// use trainspec::queue::Value;
///
/// let value = Value::from(Tensor::scalar(7_i32));
/// assert_eq!(value.tensor(), Some(&Tensor::scalar(7_i32)));
/// assert!(value.sparse().is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A dense tensor.
    Dense(Tensor),
    /// A sparse tensor.
    Sparse(SparseTensor),
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Dense(tensor)
    }
}

impl From<SparseTensor> for Value {
    fn from(tensor: SparseTensor) -> Value {
        Value::Sparse(tensor)
    }
}

impl Value {
    /// The tensor, where it is dense.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Dense(tensor) => Some(tensor),
            Value::Sparse(_) => None,
        }
    }

    /// The tensor, where it is sparse.
    pub fn sparse(&self) -> Option<&SparseTensor> {
        match self {
            Value::Dense(_) => None,
            Value::Sparse(tensor) => Some(tensor),
        }
    }

    /// Its dtype and shape.
    pub fn spec(&self) -> TensorSpec {
        match self {
            Value::Dense(tensor) => TensorSpec::from(tensor),
            Value::Sparse(tensor) => TensorSpec {
                is_sparse: true,
                ..TensorSpec::new(tensor.values.dtype(), &tensor.dims())
            },
        }
    }

    /// Its rows along the first dimension, which it must have.
    pub(super) fn rows(&self) -> Vec<Value> {
        match self {
            Value::Dense(tensor) => {
                let n = tensor.shape()[0];
                let rows = (0..n).map(|i| Value::Dense(row(tensor, i)));
                rows.collect()
            }
            Value::Sparse(tensor) => tensor.rows(),
        }
    }

    /// Several values of one component along a new first dimension. Dense ones that differ in shape are padded with zeros, where `shape` has
    /// unknown dimensions. The component says what there is where there are none.
    pub(super) fn stack(values: &[Value], component: &TensorSpec) -> Result<Value, Error> {
        let dense: Option<Vec<&Tensor>> = values.iter().map(Value::tensor).collect();
        let sparse: Option<Vec<&SparseTensor>> = values.iter().map(Value::sparse).collect();
        match (component.is_sparse, dense, sparse) {
            (false, Some(tensors), _) => Ok(Value::Dense(stack_dense(&tensors, component))),
            (true, _, Some(tensors)) => stack_sparse(&tensors, component).map(Value::Sparse),
            _ => panic!("what is in a queue has the types of its components"),
        }
    }
}

/// A row of a dense tensor.
pub(super) fn row(tensor: &Tensor, i: usize) -> Tensor {
    let shape = &tensor.shape()[1..];
    let n: usize = shape.iter().product();
    let data = each_data!(tensor.data(), values => values[i * n..(i + 1) * n].to_vec());
    Tensor::of(shape, data)
}

/// The rows of a dense tensor with those indices, in their order (`tf.gather`).
pub(super) fn pick(tensor: &Tensor, rows: &[usize]) -> Tensor {
    let mut shape = tensor.shape().to_vec();
    shape[0] = rows.len();
    let n: usize = shape[1..].iter().product();
    let data = each_data!(tensor.data(), values => {
        let rows = rows.iter().flat_map(|i| &values[i * n..(i + 1) * n]);
        rows.cloned().collect()
    });
    Tensor::of(&shape, data)
}

fn stack_dense(tensors: &[&Tensor], component: &TensorSpec) -> Tensor {
    let known = component.shape.0.as_deref().unwrap_or(&[]);
    if tensors.is_empty() {
        let shape: Vec<usize> = [Some(0)]
            .iter()
            .chain(known)
            .map(|dim| dim.unwrap_or(0))
            .collect();
        return match component.dtype {
            DType::String => Tensor::of(&shape, Data::String(Vec::new())),
            dtype => Tensor::zeros(&Type::new(dtype, &shape)),
        };
    }
    let mut widest = tensors[0].shape().to_vec();
    for tensor in tensors {
        for (wide, dim) in widest.iter_mut().zip(tensor.shape()) {
            *wide = (*wide).max(*dim);
        }
    }
    if tensors.iter().all(|tensor| tensor.shape() == widest) {
        return stack(tensors);
    }
    let padded: Vec<Tensor> = tensors.iter().map(|tensor| pad(tensor, &widest)).collect();
    stack(&padded.iter().collect::<Vec<_>>())
}

/// A tensor in a wider shape, with zeros (or empty strings) after its elements in each dimension.
fn pad(tensor: &Tensor, wide: &[usize]) -> Tensor {
    let narrow = tensor.shape();
    let elements = wide.iter().product();
    let position = |mut i: usize| {
        let (mut at, mut stride) = (0, 1);
        for (narrow, wide) in narrow.iter().zip(wide).rev() {
            at += i % narrow * stride;
            i /= narrow;
            stride *= wide;
        }
        at
    };
    let data = each_data!(tensor.data(), values => {
        let mut all = vec![Default::default(); elements];
        for (i, value) in values.iter().enumerate() {
            all[position(i)] = Clone::clone(value);
        }
        all
    });
    Tensor::of(wide, data)
}

/// Sparse tensors along a new first dimension; the others are as wide as the widest of them.
fn stack_sparse(tensors: &[&SparseTensor], component: &TensorSpec) -> Result<SparseTensor, Error> {
    let Some(first) = tensors.first() else {
        let known = component.shape.0.as_deref().unwrap_or(&[]);
        let dims = known.iter().map(|dim| dim.unwrap_or(0) as i64);
        let dims: Vec<i64> = [0].into_iter().chain(dims).collect();
        let none = TensorSpec::new(component.dtype, &[]);
        return Ok(SparseTensor {
            indices: Tensor::new::<i64>(&[0, dims.len()], Vec::new()),
            values: stack_dense(&[], &none),
            dense_shape: Tensor::new(&[dims.len()], dims),
        });
    };
    let rank = first.rank();
    if let Some(other) = tensors.iter().find(|tensor| tensor.rank() != rank) {
        let message = format!(
            "sparse tensors of one batch have {rank} and {} dimensions",
            other.rank()
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let mut indices = Vec::new();
    let mut widest = vec![0_i64; rank];
    for (row, tensor) in tensors.iter().enumerate() {
        let own = tensor.indices.to_i64s();
        for i in 0..tensor.values.data().len() {
            indices.push(row as i64);
            indices.extend(&own[i * rank..(i + 1) * rank]);
        }
        for (wide, dim) in widest.iter_mut().zip(tensor.dense_shape.to_i64s()) {
            *wide = (*wide).max(dim);
        }
    }
    widest.insert(0, tensors.len() as i64);
    let values: Vec<&Tensor> = tensors.iter().map(|tensor| &tensor.values).collect();
    let values = concat(&values);
    Ok(SparseTensor {
        indices: Tensor::new(&[values.data().len(), rank + 1], indices),
        values,
        dense_shape: Tensor::new(&[rank + 1], widest),
    })
}

/// Vectors of one dtype, one after the other.
fn concat(vectors: &[&Tensor]) -> Tensor {
    let data = each_data!(vectors[0].data(), first => {
        let mut all = first.clone();
        for vector in &vectors[1..] {
            all.extend_from_slice(vector.values().expect("they have one dtype"));
        }
        all
    });
    Tensor::of(&[data.len()], data)
}

/// Whether a value is what a component takes: an error says what differs.
pub(super) fn check(i: usize, got: &TensorSpec, component: &TensorSpec) -> Result<(), Error> {
    if (got.dtype, got.is_sparse) != (component.dtype, component.is_sparse) {
        let message = format!(
            "Type mismatch in tuple component {i}. Expected {}, got {}",
            component.type_name(),
            got.type_name()
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    check_shape(&got.shape, &component.shape)
}

/// Whether a shape is what a component takes.
pub(super) fn check_shape(got: &PartialShape, component: &PartialShape) -> Result<(), Error> {
    match got.is_compatible(component) {
        true => Ok(()),
        false => {
            let message = format!("Shapes {got} and {component} are incompatible");
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}
