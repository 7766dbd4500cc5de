//! Reference evaluation of one primitive on arrays.

use std::fmt;

use ndarray::{ArrayD, IxDyn, Zip};

use crate::DType;
use crate::graph::{Attr, Eval, Prim, Type};
use crate::interp::{Array, round, wrap};

/// A use of a primitive, as its reference evaluation sees it.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The primitive.
    pub prim: &'static Prim,
    /// The operands.
    pub operands: &'a [Array],
    /// Their types.
    pub types: &'a [&'a Type],
    /// The types of the results.
    pub results: &'a [Type],
    /// The attributes.
    pub attrs: &'a [Attr],
}

/// Why an evaluation has no answer, such as an index that is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    /// The fact.
    pub message: String,
    /// The value that is not finite, where that was checked.
    pub not_finite: Option<NotFinite>,
}

impl EvalError {
    /// An error with its fact.
    pub fn new(message: impl Into<String>) -> EvalError {
        EvalError {
            message: message.into(),
            not_finite: None,
        }
    }

    /// The error of a check for finite values.
    pub fn not_finite(found: NotFinite) -> EvalError {
        EvalError {
            message: found.to_string(),
            not_finite: Some(found),
        }
    }
}

/// A checked value that is NaN or infinite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFinite {
    /// The name of the value.
    pub name: String,
    /// Whether an element is NaN; else one is infinite.
    pub is_nan: bool,
}

impl NotFinite {
    /// What is wrong with a value of that name; `None` where all its elements are finite.
    ///
    /// ```
    /// use trainspec_ir::interp::NotFinite;
    ///
    /// let found = NotFinite::find("loss", [1.0, f64::INFINITY, f64::NAN]).unwrap();
    /// assert_eq!(found.to_string(), "`loss` is not a number");
    /// assert_eq!(NotFinite::find("loss", [1.0, -2.0]), None);
    /// ```
    pub fn find(name: &str, elements: impl IntoIterator<Item = f64>) -> Option<NotFinite> {
        let (mut any, mut is_nan) = (false, false);
        for x in elements {
            any |= !x.is_finite();
            is_nan |= x.is_nan();
        }
        any.then(|| NotFinite {
            name: name.to_owned(),
            is_nan,
        })
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.is_nan {
            true => "not a number",
            false => "infinite",
        };
        write!(f, "`{}` is {what}", self.name)
    }
}

impl Evaluation<'_> {
    /// An operand.
    pub fn x(&self, i: usize) -> &Array {
        &self.operands[i]
    }

    /// The shape of the first result.
    pub fn shape(&self) -> IxDyn {
        IxDyn(&self.results[0].shape)
    }

    /// Floats rounded to the type of the first result.
    pub fn floats(&self, a: ArrayD<f64>) -> Array {
        self.floats_of(0, a)
    }

    /// Floats rounded to the type of a result.
    pub fn floats_of(&self, result: usize, mut a: ArrayD<f64>) -> Array {
        match self.results[result].dtype {
            // Specialised for the two types of nearly all arrays: no dispatch inside the loop.
            DType::F64 => a.mapv_inplace(|x| round(DType::F64, x)),
            DType::F32 => a.mapv_inplace(|x| round(DType::F32, x)),
            dtype => a.mapv_inplace(|x| round(dtype, x)),
        }
        a.into()
    }

    /// Integers wrapped to the type of the first result.
    pub fn ints(&self, mut a: ArrayD<i64>) -> Array {
        let dtype = self.results[0].dtype;
        a.mapv_inplace(|x| wrap(dtype, x));
        a.into()
    }

    /// Computes the results.
    pub(crate) fn evaluate(&self) -> Result<Vec<Array>, EvalError> {
        let x = |i: usize| &self.operands[i];
        Ok(vec![match &self.prim.eval {
            Eval::Float1(f) => self.floats(x(0).float().map(|a| f(*a))),
            Eval::Float2(f) => self.float2(*f),
            Eval::Number1(f, g) => match x(0) {
                Array::Float(a) => self.floats(a.map(|a| f(*a))),
                Array::Int(a) => self.ints(a.map(|a| g(*a))),
                Array::Bool(_) => panic!("`{}` takes numbers", self.prim.name),
            },
            Eval::Number2(f, g) => match x(0) {
                Array::Float(_) => self.float2(*f),
                Array::Int(_) => self.int2(*g)?,
                Array::Bool(_) => panic!("`{}` takes numbers", self.prim.name),
            },
            Eval::Test1(f) => x(0).float().map(|a| f(*a)).into(),
            Eval::Compare(f, g) => match x(0) {
                Array::Float(a) => Zip::from(a)
                    .and(x(1).float())
                    .map_collect(|a, b| f(*a, *b))
                    .into(),
                Array::Int(a) => Zip::from(a)
                    .and(x(1).int())
                    .map_collect(|a, b| g(*a, *b))
                    .into(),
                Array::Bool(a) => Zip::from(a)
                    .and(x(1).bool())
                    .map_collect(|a, b| g(i64::from(*a), i64::from(*b)))
                    .into(),
            },
            Eval::Bool2(f) => Zip::from(x(0).bool())
                .and(x(1).bool())
                .map_collect(|a, b| f(*a, *b))
                .into(),
            Eval::Tensors(f) => return f(self),
        }])
    }

    fn float2(&self, f: fn(f64, f64) -> f64) -> Array {
        let (a, b) = (self.operands[0].float(), self.operands[1].float());
        self.floats(Zip::from(a).and(b).map_collect(|a, b| f(*a, *b)))
    }

    fn int2(&self, f: fn(i64, i64) -> Option<i64>) -> Result<Array, EvalError> {
        let (a, b) = (self.operands[0].int(), self.operands[1].int());
        let mut bad = None;
        let result = Zip::from(a).and(b).map_collect(|a, b| {
            f(*a, *b).unwrap_or_else(|| {
                bad = Some((*a, *b));
                0
            })
        });
        match bad {
            Some((a, b)) => Err(EvalError::new(format!(
                "`{}` of {a} and {b} has no answer in integers",
                self.prim.name
            ))),
            None => Ok(self.ints(result)),
        }
    }
}

impl Array {
    /// The elements, in row-major order, in another shape.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Array {
        let fits = "the verifier compared the sizes";
        match self {
            Array::Float(a) => {
                Array::Float(a.to_shape(shape).expect(fits).into_owned().into_shared())
            }
            Array::Int(a) => Array::Int(a.to_shape(shape).expect(fits).into_owned().into_shared()),
            Array::Bool(a) => {
                Array::Bool(a.to_shape(shape).expect(fits).into_owned().into_shared())
            }
        }
    }

    /// One slice along the leading dimension.
    pub(crate) fn row(&self, i: usize) -> Array {
        match self {
            Array::Float(a) => Array::Float(a.index_axis(ndarray::Axis(0), i).to_shared()),
            Array::Int(a) => Array::Int(a.index_axis(ndarray::Axis(0), i).to_shared()),
            Array::Bool(a) => Array::Bool(a.index_axis(ndarray::Axis(0), i).to_shared()),
        }
    }

    /// Slices stacked along a new leading dimension; `ty` is the type of the result.
    pub(crate) fn stacked(rows: &[Array], ty: &Type) -> Array {
        let shape = IxDyn(&ty.shape);
        let fits = "rows have the shape of the result without its leading dimension";
        if ty.dtype.is_float() {
            let flat: Vec<f64> = rows
                .iter()
                .flat_map(|r| r.float().iter().copied().collect::<Vec<_>>())
                .collect();
            ArrayD::from_shape_vec(shape, flat).expect(fits).into()
        } else if ty.dtype.is_int() {
            let flat: Vec<i64> = rows
                .iter()
                .flat_map(|r| r.int().iter().copied().collect::<Vec<_>>())
                .collect();
            ArrayD::from_shape_vec(shape, flat).expect(fits).into()
        } else {
            let flat: Vec<bool> = rows
                .iter()
                .flat_map(|r| r.bool().iter().copied().collect::<Vec<_>>())
                .collect();
            ArrayD::from_shape_vec(shape, flat).expect(fits).into()
        }
    }
}
