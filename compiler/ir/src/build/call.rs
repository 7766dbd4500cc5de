//! Calls of the language's operations on a graph under construction: shape inference first, then lowering to primitives.

use crate::build::operators::broadcast_all;
use crate::build::{Builder, Value};
use crate::graph::{Prim, Type};
use crate::ops::{Arg, Call, Op, RuleError};
use crate::types::{Count, Dim, TensorType};

/// An argument of a call.
#[derive(Debug, Clone)]
pub enum CallArg<'g> {
    /// A tensor.
    Value(Value<'g>),
    /// A list of tensors.
    Values(Vec<Value<'g>>),
    /// A compile-time argument.
    Known(Arg),
}

impl<'g> From<Value<'g>> for CallArg<'g> {
    fn from(value: Value<'g>) -> CallArg<'g> {
        CallArg::Value(value)
    }
}

/// How an operation of the language is lowered to primitives.
pub enum Lower {
    /// Its tensors are broadcast against each other, and this primitive is applied to them.
    Elementwise(&'static Prim),
    /// By this lowering function.
    By(for<'g> fn(&Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError>),
}

impl std::fmt::Debug for Lower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lower::Elementwise(prim) => write!(f, "Elementwise({})", prim.name),
            Lower::By(_) => f.write_str("By(…)"),
        }
    }
}

/// A use of an operation while it is lowered to primitives.
///
/// Calls that shape inference rejects never come here. Dimensions that have a run-time count have their capacity, and the
/// elements beyond the count are padding of arbitrary values: an operation that mixes elements along such a dimension must
/// mask them first, by [`Lowering::masked`].
#[derive(Debug)]
pub struct Lowering<'g, 'a> {
    /// The graph.
    pub b: &'g Builder,
    /// The compile-time arguments, and the types of the tensors.
    pub call: &'a Call<'a>,
    /// The arguments, one for each parameter.
    pub args: &'a [CallArg<'g>],
    /// The types of the results.
    pub results: &'a [TensorType],
}

impl<'g> Lowering<'g, '_> {
    fn argument(&self, name: &str) -> &CallArg<'g> {
        let index = self.call.op.params.iter().position(|p| p.name == name);
        &self.args
            [index.unwrap_or_else(|| panic!("`{}` has no parameter `{name}`", self.call.op.name))]
    }

    /// A tensor.
    ///
    /// # Panics
    ///
    /// When the parameter is none; so do the accessors below.
    pub fn value(&self, name: &str) -> Value<'g> {
        self.value_opt(name)
            .unwrap_or_else(|| panic!("`{name}` of `{}` is no tensor", self.call.op.name))
    }

    /// A tensor that may have been left out.
    pub fn value_opt(&self, name: &str) -> Option<Value<'g>> {
        match self.argument(name) {
            CallArg::Value(value) => Some(*value),
            CallArg::Known(Arg::Absent) => None,
            other => panic!("`{name}` of `{}` is {other:?}", self.call.op.name),
        }
    }

    /// A list of tensors.
    pub fn values(&self, name: &str) -> &[Value<'g>] {
        match self.argument(name) {
            CallArg::Values(values) => values,
            other => panic!("`{name}` of `{}` is {other:?}", self.call.op.name),
        }
    }

    /// The shape of a result.
    pub fn shape(&self, result: usize) -> Vec<usize> {
        Type::of(&self.results[result])
            .expect("dimensions are bound before lowering")
            .shape
    }

    /// The run-time count (i64) of a dimension, where it has one.
    pub fn count(&self, dim: &Dim) -> Option<Value<'g>> {
        let count = dim.count.as_ref()?;
        let id = self.b.counts.borrow().get(count).copied();
        Some(
            self.b
                .value(id.unwrap_or_else(|| panic!("the count {count:?} has no definition"))),
        )
    }

    /// Gives a count its value.
    pub fn define_count(&self, count: &Count, value: Value<'g>) {
        self.b.counts.borrow_mut().insert(count.clone(), value.id);
    }

    /// A tensor with `fill` in place of the padding beyond the counts of the given axes.
    pub fn masked(&self, name: &str, axes: &[usize], fill: f64) -> Value<'g> {
        let value = self.value(name);
        self.mask(value, &self.call.tensor(name).shape.0, axes, fill)
    }

    /// [`Lowering::masked`] for any value, given its dimensions.
    pub fn mask(&self, mut value: Value<'g>, dims: &[Dim], axes: &[usize], fill: f64) -> Value<'g> {
        for axis in axes {
            let Some(count) = self.count(&dims[*axis]) else {
                continue;
            };
            let shape = value.shape();
            let mut along = vec![1; shape.len()];
            along[*axis] = shape[*axis];
            let valid = self.b.iota(shape[*axis]).less(count).reshape(&along);
            value = valid.select(value, value.like(fill));
        }
        value
    }

    /// The number of elements along axes, as a scalar of an element type: a constant, or computed from counts.
    pub fn extent(&self, dims: &[Dim], axes: &[usize], dtype: crate::types::DType) -> Value<'g> {
        let fixed = axes.iter().filter(|a| dims[**a].count.is_none());
        let fixed: i64 = fixed
            .map(|a| dims[*a].size.value().expect("dimensions are bound"))
            .product();
        let counted = axes.iter().filter_map(|a| self.count(&dims[*a]));
        counted.fold(self.b.scalar(dtype, fixed as f64), |n, count| {
            n * count.cast(dtype)
        })
    }
}

impl Builder {
    /// Sets what was broadcast along a counted dimension to 1 beyond the count: no cotangent flows back from there, so its
    /// gradient, a sum along the dimension, holds nothing of the padding.
    fn broadcast_counted<'g>(
        &'g self,
        wide: &[Value<'g>],
        original: &[Value<'g>],
        result: &TensorType,
    ) -> Vec<Value<'g>> {
        let rank = result.rank();
        let mut values = wide.to_vec();
        for (axis, dim) in result.shape.0.iter().enumerate() {
            let Some(count) = dim.count.as_ref().and_then(|c| self.find_count(c)) else {
                continue;
            };
            let mut along = vec![1; rank];
            along[axis] = dim.size.value().expect("dimensions are bound") as usize;
            let valid = self.iota(along[axis]).less(count).reshape(&along);
            for (value, own) in values.iter_mut().zip(original) {
                let own = own.tensor_type().shape.0;
                let repeated = (axis + own.len())
                    .checked_sub(rank)
                    .is_none_or(|i| own[i].count.is_none());
                if repeated && value.dtype().is_float() {
                    *value = valid.select(*value, value.like(1.0));
                }
            }
        }
        values
    }

    /// Applies an operation of the language.
    ///
    /// `args` holds one argument for each parameter of the operation; `site` distinguishes the draws of random numbers.
    ///
    /// ```
    /// use trainspec_ir::{DType, build::{Builder, CallArg}, graph::Type, ops};
    ///
    /// let b = Builder::new("g");
    /// let x = b.input("x", &Type::new(DType::F32, &[3]));
    /// let y = b.input("y", &Type::new(DType::F32, &[4]));
    /// let add = ops::find("add").unwrap();
    /// let error = b.call(add, &[x.into(), y.into()], "").unwrap_err();
    /// assert_eq!(error.message, "these shapes do not go together");
    /// ```
    pub fn call<'g>(
        &'g self,
        op: &'static Op,
        args: &[CallArg<'g>],
        site: &str,
    ) -> Result<Vec<Value<'g>>, RuleError> {
        let arg = |g: &CallArg<'g>| match g {
            CallArg::Value(value) => Arg::Tensor(value.tensor_type()),
            CallArg::Values(values) => {
                Arg::Tensors(values.iter().map(|v| v.tensor_type()).collect())
            }
            CallArg::Known(arg) => arg.clone(),
        };
        let known: Vec<Arg> = args.iter().map(arg).collect();
        let unique;
        let site = if site.is_empty() {
            unique = format!("#{}", self.len());
            &unique
        } else {
            site
        };
        let call = Call {
            op,
            args: &known,
            site,
        };
        let results = (op.infer)(&call)?;
        let values = match &op.lower {
            Lower::Elementwise(prim) => {
                let tensors: Vec<Value<'g>> = args
                    .iter()
                    .filter_map(|g| match g {
                        CallArg::Value(value) => Some(*value),
                        CallArg::Values(_) | CallArg::Known(_) => None,
                    })
                    .collect();
                let tensors =
                    self.broadcast_counted(&broadcast_all(&tensors), &tensors, &results[0]);
                self.prim(prim, &tensors, Vec::new())
            }
            Lower::By(lower) => lower(&Lowering {
                b: self,
                call: &call,
                args,
                results: &results,
            })?,
        };
        assert_eq!(
            values.len(),
            results.len(),
            "`{}` has as many results as its shape inference says",
            op.name
        );
        for (value, ty) in values.iter().zip(&results) {
            assert_eq!(
                Some(value.ty()),
                Type::of(ty),
                "`{}` has the type that its shape inference says",
                op.name
            );
            if ty.shape.is_counted() {
                let counts = ty.shape.0.iter().map(|d| d.count.clone()).collect();
                self.counted.borrow_mut().insert(value.id, counts);
            }
        }
        Ok(values)
    }
}
