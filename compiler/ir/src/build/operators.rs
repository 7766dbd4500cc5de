//! Operator overloads: `+ - * /` and negation of values, with NumPy broadcasting.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::build::Value;
use crate::graph::Prim;
use crate::ops::prims;

macro_rules! operator {
    ($trait:ident, $method:ident, $prim:ident) => {
        impl<'g> $trait for Value<'g> {
            type Output = Value<'g>;
            fn $method(self, other: Value<'g>) -> Value<'g> {
                self.elementwise(&prims::$prim, &[other])
            }
        }

        impl<'g> $trait<f64> for Value<'g> {
            type Output = Value<'g>;
            fn $method(self, other: f64) -> Value<'g> {
                self.elementwise(&prims::$prim, &[self.like(other)])
            }
        }

        impl<'g> $trait<Value<'g>> for f64 {
            type Output = Value<'g>;
            fn $method(self, other: Value<'g>) -> Value<'g> {
                other.like(self).elementwise(&prims::$prim, &[other])
            }
        }
    };
}

operator!(Add, add, ADD);
operator!(Sub, sub, SUBTRACT);
operator!(Mul, mul, MULTIPLY);
operator!(Div, div, DIVIDE);

impl<'g> Neg for Value<'g> {
    type Output = Value<'g>;
    fn neg(self) -> Value<'g> {
        self.apply(&prims::NEGATIVE)
    }
}

impl<'g> Value<'g> {
    /// A scalar of this element type.
    pub fn like(self, x: f64) -> Value<'g> {
        self.builder().scalar(self.dtype(), x)
    }

    /// One primitive on this value.
    pub(crate) fn apply(self, prim: &'static Prim) -> Value<'g> {
        self.builder().prim(prim, &[self], Vec::new())[0]
    }

    /// A primitive that works element by element, on this value and others, broadcast against each other.
    pub(crate) fn elementwise(self, prim: &'static Prim, others: &[Value<'g>]) -> Value<'g> {
        let mut operands = vec![self];
        operands.extend_from_slice(others);
        let operands = broadcast_all(&operands);
        self.builder().prim(prim, &operands, Vec::new())[0]
    }
}

/// Values in the shape that all of them broadcast to.
pub(crate) fn broadcast_all<'g>(values: &[Value<'g>]) -> Vec<Value<'g>> {
    let shapes: Vec<Vec<usize>> = values.iter().map(|v| v.shape()).collect();
    let mut shape = shapes[0].clone();
    for other in &shapes[1..] {
        shape = broadcast_shapes(&shape, other)
            .unwrap_or_else(|| panic!("shapes {shape:?} and {other:?} do not broadcast"));
    }
    values.iter().map(|v| v.broadcast(&shape)).collect()
}

/// The shape that two shapes broadcast to.
pub(crate) fn broadcast_shapes(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (m, n) if m == n => Some(m),
            (1, n) => Some(n),
            (m, 1) => Some(m),
            _ => None,
        })
        .collect()
}
