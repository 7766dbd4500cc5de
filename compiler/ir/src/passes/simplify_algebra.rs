//! Algebraic simplification (peephole): replaces nodes by simpler ones that give the same bits.
//!
//! In: a verified graph. Out: the same, without identity operations: `x * 1`, `x - 0`, a transpose that the next one inverts.
//! Leaves alone: what would lose a not-a-number, an infinity or a signed zero. `x + 0` stays (it turns -0 into 0), and so do
//! `x * 0` and `x - x` of floats.

use crate::build::{Builder, Value};
use crate::graph::{Attr, Graph, Node, NodeKind, Prim};
use crate::ops::prims;
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_loop_bodies, rebuild};

pub(super) const PASS: Pass = Pass {
    name: "simplify-algebra",
    doc: "removes steps that change nothing, such as `x * 1`",
    run,
};

fn run(graph: Graph) -> Graph {
    rebuild(in_loop_bodies(graph, run), &mut Simplify)
}

struct Simplify;

impl Visit for Simplify {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        let NodeKind::Prim(prim, attrs) = &node.kind else {
            return None;
        };
        let simpler = match operands {
            [x] => unary(b, prim, attrs, *x),
            [x, y] => binary(b, prim, *x, *y),
            [condition, x, y] if **prim == prims::SELECT => select(b, *condition, *x, *y),
            _ => None,
        };
        simpler.map(|value| vec![value])
    }
}

fn unary<'g>(
    b: &'g Builder,
    prim: &'static Prim,
    attrs: &[Attr],
    x: Value<'g>,
) -> Option<Value<'g>> {
    let shape = |i: usize| match &attrs[i] {
        Attr::Sizes(sizes) => sizes.clone(),
        other => panic!("`{}` has no sizes: {other:?}", prim.name),
    };
    // The operands and attributes of the operand's node, where it is the same primitive.
    let inner = || b.defined_by(x, prim);
    if *prim == prims::NEGATIVE || *prim == prims::LOGICAL_NOT {
        return inner().map(|(operands, _)| operands[0]);
    }
    if *prim == prims::RESHAPE {
        if x.shape() == shape(0) {
            return Some(x);
        }
        return inner().map(|(operands, _)| operands[0].reshape(&shape(0)));
    }
    if *prim == prims::BROADCAST {
        if x.shape() == shape(0) {
            return Some(x);
        }
        return inner().map(|(operands, _)| operands[0].broadcast(&shape(0)));
    }
    if *prim == prims::TRANSPOSE {
        let order = shape(0);
        if order.iter().enumerate().all(|(i, n)| i == *n) {
            return Some(x);
        }
        let (operands, first) = inner()?;
        let Attr::Sizes(first) = &first[0] else {
            return None;
        };
        let composed: Vec<usize> = order.iter().map(|i| first[*i]).collect();
        return Some(operands[0].transpose(&composed));
    }
    if *prim == prims::REVERSE {
        if shape(0).is_empty() {
            return Some(x);
        }
        return inner()
            .filter(|(_, first)| first[..] == *attrs)
            .map(|(operands, _)| operands[0]);
    }
    let reductions = [
        &prims::REDUCE_MAX,
        &prims::REDUCE_MIN,
        &prims::REDUCE_PROD,
        &prims::REDUCE_SUM,
    ];
    if reductions.contains(&prim) && shape(0).is_empty() {
        return Some(x);
    }
    None
}

fn binary<'g>(
    b: &'g Builder,
    prim: &'static Prim,
    x: Value<'g>,
    y: Value<'g>,
) -> Option<Value<'g>> {
    let is = |v: Value<'g>, x: f64| b.splat(v).is_some_and(|s| s == x);
    let is_int = x.dtype().is_int();
    let negative_zero = |v: Value<'g>| b.splat(v).is_some_and(|s| s == 0.0 && s.is_sign_negative());
    let positive_zero = |v: Value<'g>| b.splat(v).is_some_and(|s| s == 0.0 && s.is_sign_positive());
    if *prim == prims::MULTIPLY {
        return if is(y, 1.0) {
            Some(x)
        } else if is(x, 1.0) {
            Some(y)
        } else {
            None
        };
    }
    if *prim == prims::DIVIDE {
        return is(y, 1.0).then_some(x);
    }
    if *prim == prims::ADD {
        return if negative_zero(y) || (is_int && is(y, 0.0)) {
            Some(x)
        } else if negative_zero(x) || (is_int && is(x, 0.0)) {
            Some(y)
        } else {
            None
        };
    }
    if *prim == prims::SUBTRACT {
        return positive_zero(y).then_some(x);
    }
    if *prim == prims::POW {
        return if is(y, 1.0) {
            Some(x)
        } else if is(y, 2.0) {
            Some(x * x)
        } else {
            None
        };
    }
    None
}

fn select<'g>(
    b: &'g Builder,
    condition: Value<'g>,
    x: Value<'g>,
    y: Value<'g>,
) -> Option<Value<'g>> {
    match b.splat(condition) {
        Some(splat) => Some(if splat != 0.0 { x } else { y }),
        None => (x.id() == y.id()).then_some(x),
    }
}
