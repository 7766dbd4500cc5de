//! `TensorSpec` (`tf.TensorSpec`): what is known of a tensor before it is computed: its dtype, and as much of its shape as is known.

use std::fmt;

use crate::{Code, DType, Error, Tensor};

/// A shape of which dimensions, or the rank, may be unknown (`tf.TensorShape`).
///
/// ```
/// use trainspec::queue::PartialShape;
///
/// let row = PartialShape::known(&[3]);
/// assert_eq!(row.to_string(), "(3,)");
/// assert!(row.is_compatible(&PartialShape(Some(vec![None]))));
/// assert!(!row.is_compatible(&PartialShape::known(&[2])));
/// assert_eq!(PartialShape(None).to_string(), "<unknown>");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartialShape(pub Option<Vec<Option<usize>>>);

impl PartialShape {
    /// A shape that is fully defined.
    pub fn known(shape: &[usize]) -> PartialShape {
        PartialShape(Some(shape.iter().copied().map(Some).collect()))
    }

    /// The dimensions, where all are known.
    pub fn fully_defined(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().copied().collect()
    }

    /// Whether one shape could be both.
    pub fn is_compatible(&self, other: &PartialShape) -> bool {
        self.merge(other).is_some()
    }

    /// What is known by either of two; `None` where they contradict each other.
    pub fn merge(&self, other: &PartialShape) -> Option<PartialShape> {
        let (Some(own), Some(theirs)) = (&self.0, &other.0) else {
            let known = self.0.as_ref().or(other.0.as_ref());
            return Some(PartialShape(known.cloned()));
        };
        if own.len() != theirs.len() {
            return None;
        }
        let merged = own.iter().zip(theirs).map(|dims| match dims {
            (Some(a), Some(b)) if a != b => None,
            (Some(known), _) | (None, Some(known)) => Some(Some(*known)),
            (None, None) => Some(None),
        });
        Some(PartialShape(Some(merged.collect::<Option<_>>()?)))
    }

    /// The shape of one row: without the first dimension. Fails for a scalar.
    pub(super) fn row(&self) -> Result<PartialShape, Error> {
        match &self.0 {
            None => Ok(PartialShape(None)),
            Some(dims) if dims.is_empty() => {
                let message = format!("Shape {self} must have rank at least 1");
                Err(Error::new(Code::InvalidArgument, message))
            }
            Some(dims) => Ok(PartialShape(Some(dims[1..].to_vec()))),
        }
    }

    /// The shape of a number of such tensors together.
    pub(super) fn batched(&self, rows: Option<usize>) -> PartialShape {
        let dims = self.0.as_ref();
        PartialShape(dims.map(|dims| [&[rows], dims.as_slice()].concat()))
    }
}

impl fmt::Display for PartialShape {
    /// As Python shows a tuple: `()`, `(3,)`, `(None, 2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = &self.0 else {
            return f.write_str("<unknown>");
        };
        let texts: Vec<String> = dims
            .iter()
            .map(|dim| dim.map_or_else(|| "None".to_owned(), |n| n.to_string()))
            .collect();
        match texts.as_slice() {
            [one] => write!(f, "({one},)"),
            texts => write!(f, "({})", texts.join(", ")),
        }
    }
}

/// What is known of a tensor before it is computed.
///
/// ```
/// use trainspec::DType;
/// use trainspec::queue::TensorSpec;
///
/// let scalar = TensorSpec::new(DType::I64, &[]);
/// let row = TensorSpec::partial(DType::F32, &[None, Some(3)]);
/// let anything = TensorSpec::unknown(DType::String);
/// let sparse = TensorSpec::sparse(DType::F32, &[Some(5)]);
/// assert_eq!(scalar.shape.to_string(), "()");
/// assert!(row.shape.fully_defined().is_none() && anything.shape.0.is_none() && sparse.is_sparse);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// The type of the elements.
    pub dtype: DType,
    /// What is known of the shape. Of a sparse tensor it is the dense shape.
    pub shape: PartialShape,
    /// Whether it is a [`SparseTensor`](super::SparseTensor).
    pub is_sparse: bool,
}

impl TensorSpec {
    /// A tensor whose shape is known.
    pub fn new(dtype: DType, shape: &[usize]) -> TensorSpec {
        TensorSpec::with_shape(dtype, PartialShape::known(shape))
    }

    /// A tensor whose rank is known, and some of its dimensions.
    pub fn partial(dtype: DType, shape: &[Option<usize>]) -> TensorSpec {
        TensorSpec::with_shape(dtype, PartialShape(Some(shape.to_vec())))
    }

    /// A tensor of which only the dtype is known.
    pub fn unknown(dtype: DType) -> TensorSpec {
        TensorSpec::with_shape(dtype, PartialShape(None))
    }

    /// A sparse tensor whose rank is known, and some of its dimensions.
    pub fn sparse(dtype: DType, dense_shape: &[Option<usize>]) -> TensorSpec {
        TensorSpec {
            is_sparse: true,
            ..TensorSpec::partial(dtype, dense_shape)
        }
    }

    fn with_shape(dtype: DType, shape: PartialShape) -> TensorSpec {
        TensorSpec {
            dtype,
            shape,
            is_sparse: false,
        }
    }

    /// The type as messages have it.
    pub(super) fn type_name(&self) -> String {
        match self.is_sparse {
            true => format!("sparse {}", self.dtype),
            false => self.dtype.to_string(),
        }
    }
}

impl From<&Tensor> for TensorSpec {
    fn from(tensor: &Tensor) -> TensorSpec {
        TensorSpec::new(tensor.dtype(), tensor.shape())
    }
}
