//! What a primitive operation is: its rule, its gradient and its evaluation.

use std::fmt;

use crate::autodiff::Backward;
use crate::autodiff::Cotangent;
use crate::build::Value;
use crate::graph::{Attr, AttrKind, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::types::DType;

/// A primitive operation: what nodes of a graph are made of.
///
/// There is no default for any field: a new one that forgets its gradient does not compile, and [`Gradient::None`] is a
/// decision.
pub struct Prim {
    /// The name in the text form.
    pub name: &'static str,
    /// What it is told besides its operands.
    pub attrs: &'static [(&'static str, AttrKind)],
    /// The types of the results, or what is wrong with the operands.
    pub infer: fn(&PrimCall<'_>) -> Result<Vec<Type>, String>,
    /// How changes of the results come from changes of the operands.
    pub gradient: Gradient,
    /// What it computes.
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

/// A use of a primitive, as its rule sees it.
#[derive(Debug)]
pub struct PrimCall<'a> {
    /// Which.
    pub prim: &'static Prim,
    /// The types of the operands.
    pub operands: &'a [&'a Type],
    /// The attributes.
    pub attrs: &'a [Attr],
}

/// The derivative of a result with respect to one operand, times what flows into the result.
pub type Vjp = for<'g> fn(&Backward<'g>) -> Value<'g>;

/// How a primitive is differentiated.
pub enum Gradient {
    /// Nothing flows back: no result depends smoothly on an operand.
    None,
    /// One function for each operand, `None` where nothing flows back to it.
    Each(&'static [Option<Vjp>]),
    /// One function for all operands, for primitives that take any number of them or whose gradients are sparse.
    All(for<'g> fn(&Backward<'g>) -> Vec<Option<Cotangent<'g>>>),
}

/// How a primitive is evaluated.
///
/// Floats are computed in f64 and rounded to the element type, integers in i64 and cut to the width.
pub enum Eval {
    /// Element by element on one tensor of floats.
    Float1(fn(f64) -> f64),
    /// Element by element on two tensors of floats.
    Float2(fn(f64, f64) -> f64),
    /// Element by element on one tensor of numbers.
    Number1(fn(f64) -> f64, fn(i64) -> i64),
    /// Element by element on two tensors of numbers; integers may have no answer.
    Number2(fn(f64, f64) -> f64, fn(i64, i64) -> Option<i64>),
    /// A truth for each element of a tensor of floats.
    Test1(fn(f64) -> bool),
    /// A truth for each pair of numbers.
    Compare(fn(f64, f64) -> bool, fn(i64, i64) -> bool),
    /// Element by element on two tensors of truths.
    Bool2(fn(bool, bool) -> bool),
    /// Anything else.
    Whole(fn(&Evaluation<'_>) -> Result<Vec<Array>, EvalError>),
}

/// Where attributes are looked up by name.
macro_rules! attr_access {
    ($name:ty) => {
        impl $name {
            fn attr(&self, name: &str) -> &Attr {
                let place = self.prim.attrs.iter().position(|(n, _)| *n == name);
                let place = place
                    .unwrap_or_else(|| panic!("`{}` has no attribute `{name}`", self.prim.name));
                &self.attrs[place]
            }

            /// A whole number.
            ///
            /// # Panics
            ///
            /// When the primitive has no such attribute; so do all that follow.
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

            /// A truth.
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

            /// A text.
            pub fn text(&self, name: &str) -> &str {
                match self.attr(name) {
                    Attr::Text(t) => t,
                    other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
                }
            }
        }
    };
}

attr_access!(PrimCall<'_>);
attr_access!(Evaluation<'_>);
attr_access!(Backward<'_>);
