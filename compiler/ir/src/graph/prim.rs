//! Primitive operations: type inference, gradient rule (vector-Jacobian product, VJP) and reference evaluation of each.

use std::fmt;

use crate::autodiff::Backward;
use crate::autodiff::Cotangent;
use crate::build::Value;
use crate::graph::{Attr, AttrKind, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::types::DType;

/// A primitive operation: the opcode of a graph node.
///
/// There is no default for any field: a new one that forgets its gradient does not compile, and [`Gradient::None`] is a
/// decision.
pub struct Prim {
    /// The name in the textual form.
    pub name: &'static str,
    /// The attributes that it takes: name and kind.
    pub attrs: &'static [(&'static str, AttrKind)],
    /// Type inference: the types of the results, or what is wrong with the operands.
    pub infer: fn(&PrimCall<'_>) -> Result<Vec<Type>, String>,
    /// The vector-Jacobian product (reverse-mode gradient rule).
    pub gradient: Gradient,
    /// The reference evaluation, which the interpreter runs.
    pub eval: Eval,
}

impl fmt::Debug for Prim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Prim {
    fn eq(&self, other: &Prim) -> bool {
        self.name == other.name
    }
}

impl Eq for Prim {}

/// A use of a primitive, as its type inference sees it.
#[derive(Debug)]
pub struct PrimCall<'a> {
    /// The primitive.
    pub prim: &'static Prim,
    /// The types of the operands.
    pub operands: &'a [&'a Type],
    /// The attributes.
    pub attrs: &'a [Attr],
}

/// The vector-Jacobian product (VJP) for one operand: the cotangent of the result times the derivative with respect to the operand.
pub type Vjp = for<'g> fn(&Backward<'g>) -> Value<'g>;

/// How a primitive is differentiated.
pub enum Gradient {
    /// Not differentiable: no result depends smoothly on an operand.
    None,
    /// One VJP for each operand, `None` where its cotangent is zero.
    Each(&'static [Option<Vjp>]),
    /// One VJP for all operands, for primitives that take any number of them or whose gradients are sparse.
    All(for<'g> fn(&Backward<'g>) -> Vec<Option<Cotangent<'g>>>),
}

/// How a primitive is evaluated.
///
/// Floats are computed in f64 and rounded to the element type, integers in i64 and wrapped to the width.
pub enum Eval {
    /// Element by element on one tensor of floats.
    Float1(fn(f64) -> f64),
    /// Element by element on two tensors of floats.
    Float2(fn(f64, f64) -> f64),
    /// Element by element on one tensor of numbers.
    Number1(fn(f64) -> f64, fn(i64) -> i64),
    /// Element by element on two tensors of numbers; integers may have no answer.
    Number2(fn(f64, f64) -> f64, fn(i64, i64) -> Option<i64>),
    /// A predicate: a bool for each element of a tensor of floats.
    Test1(fn(f64) -> bool),
    /// A comparison: a bool for each pair of numbers.
    Compare(fn(f64, f64) -> bool, fn(i64, i64) -> bool),
    /// Element by element on two tensors of bools.
    Bool2(fn(bool, bool) -> bool),
    /// Anything else: a function of whole tensors.
    Tensors(fn(&Evaluation<'_>) -> Result<Vec<Array>, EvalError>),
}

/// Accessors that look attributes up by name.
macro_rules! attr_access {
    ($name:ty) => {
        impl $name {
            fn attr(&self, name: &str) -> &Attr {
                let index = self.prim.attrs.iter().position(|(n, _)| *n == name);
                let index = index
                    .unwrap_or_else(|| panic!("`{}` has no attribute `{name}`", self.prim.name));
                &self.attrs[index]
            }

            /// An integer.
            ///
            /// # Panics
            ///
            /// When the primitive has no such attribute; so do all accessors below.
            pub fn int(&self, name: &str) -> i64 {
                match self.attr(name) {
                    Attr::Int(n) => *n,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }

            /// A size or an axis.
            pub fn size(&self, name: &str) -> usize {
                match self.attr(name) {
                    Attr::Size(n) => *n,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }

            /// Sizes or axes.
            pub fn sizes(&self, name: &str) -> &[usize] {
                match self.attr(name) {
                    Attr::Sizes(n) => n,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }

            /// Pairs of sizes.
            pub fn pairs(&self, name: &str) -> &[(usize, usize)] {
                match self.attr(name) {
                    Attr::Pairs(n) => n,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }

            /// A bool.
            pub fn flag(&self, name: &str) -> bool {
                match self.attr(name) {
                    Attr::Flag(b) => *b,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }

            /// An element type.
            pub fn dtype(&self, name: &str) -> DType {
                match self.attr(name) {
                    Attr::DType(d) => *d,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }

            /// A string.
            pub fn string(&self, name: &str) -> &str {
                match self.attr(name) {
                    Attr::String(t) => t,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }
        }
    };
}

attr_access!(PrimCall<'_>);
attr_access!(Evaluation<'_>);
attr_access!(Backward<'_>);
