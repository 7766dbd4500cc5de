//! Splits long sums into sums of sums, whose pieces ride on the loop that makes what they add up.
//!
//! In: a verified graph. Out: the same, where a sum of floats over more elements than a row of a loop may have is first one over
//! pieces and then one over what those give. So the squares of a gradient are added up where the gradient is made. Leaves alone: sums over
//! leading dimensions, and sums that are short.

use crate::build::{Builder, Value};
use crate::fuse::{LONGEST_ROW, is_elementwise};
use crate::graph::{Attr, Graph, Node, NodeKind};
use crate::ops::prims;
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_rounds, rebuild};
use crate::types::DType;

pub(super) const PASS: Pass = Pass {
    name: "split-sums",
    doc: "adds up long rows in pieces, which ride on the loop that makes them",
    run,
};

fn run(graph: Graph) -> Graph {
    rebuild(in_rounds(graph, run), &mut Split)
}

/// A shorter piece is not worth its own sum.
const SHORTEST: usize = 512;

/// Vectors of so many elements are read as several streams.
const FAR: usize = 1 << 18;

/// How many.
const STREAMS: usize = 4;

/// How far up what is summed is computed once more, in pieces.
const DEPTH: usize = 4;

struct Split;

impl Visit for Split {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        let NodeKind::Prim(prim, attrs) = &node.kind else {
            return None;
        };
        let ([x], [Attr::Sizes(axes)]) = (operands, &attrs[..]) else {
            return None;
        };
        let (shape, rank) = (x.shape(), x.rank());
        let kept = rank.checked_sub(axes.len())?;
        let length: usize = shape[kept..].iter().product();
        let known = **prim == prims::REDUCE_SUM && matches!(x.dtype(), DType::F32 | DType::F64);
        // A loop combines several dimensions only in whole vectors.
        let long: Vec<usize> = shape[kept..].iter().copied().filter(|n| *n > 1).collect();
        let uneven = long.len() > 1 && long.last().is_some_and(|n| !n.is_multiple_of(8));
        let splits = length > LONGEST_ROW || uneven;
        if !known || !splits || shape.contains(&0) || !axes.iter().copied().eq(kept..rank) {
            return None;
        }
        Some(vec![split(b, *x, kept)?])
    }
}

/// The sum over all dimensions from `kept` on, in two steps.
fn split<'g>(b: &'g Builder, x: Value<'g>, kept: usize) -> Option<Value<'g>> {
    let shape = x.shape();
    let last = *shape.last()?;
    if last <= LONGEST_ROW {
        // As many of the last dimensions as make a row; whole vectors, where there are several.
        let mut from = shape.len() - 1;
        while (last.is_multiple_of(8) || last == 1)
            && from > kept
            && shape[from - 1..].iter().product::<usize>() <= LONGEST_ROW
        {
            from -= 1;
        }
        let inner: Vec<usize> = (from..shape.len()).collect();
        let outer: Vec<usize> = (kept..from).collect();
        let rows = x.sum(&inner);
        return Some(match outer.is_empty() {
            true => rows,
            false => rows.sum(&outer),
        });
    }
    let piece = (SHORTEST / 8..=LONGEST_ROW / 8)
        .rev()
        .map(|n| n * 8)
        .find(|n| last.is_multiple_of(*n));
    if let Some(piece) = piece
        && let Some(streams) = in_streams(b, x, piece)
    {
        return Some(streams);
    }
    if let Some(piece) = piece {
        let mut cut = shape[..shape.len() - 1].to_vec();
        cut.extend([last / piece, piece]);
        let rows = in_shape(b, x, &cut, DEPTH).sum(&[cut.len() - 1]);
        let outer: Vec<usize> = (kept..rows.rank()).collect();
        return Some(rows.sum(&outer));
    }
    // A length that nothing divides: what whole pieces there are, and the rest. Only a vector, so that the parts are views.
    if shape.len() > 1 {
        return None;
    }
    let piece = LONGEST_ROW / 2;
    let whole = last / piece * piece;
    let part = |begin: usize, size: usize| narrowed(b, x, begin, size, DEPTH);
    let front = split(b, part(0, whole), kept)?;
    Some(front + part(whole, last - whole).sum(&[0]))
}

/// The sum of a long vector whose terms lie in memory, read from several places at once: a machine reads several streams faster than
/// one.
fn in_streams<'g>(b: &'g Builder, x: Value<'g>, piece: usize) -> Option<Value<'g>> {
    let [length] = x.shape()[..] else {
        return None;
    };
    let rows = length / piece;
    if length < FAR || !rows.is_multiple_of(STREAMS) {
        return None;
    }
    let part = length / STREAMS;
    let stream = |i: usize| {
        let own = narrowed(b, x, i * part, part, DEPTH);
        in_shape(b, own, &[rows / STREAMS, piece], DEPTH)
    };
    let sums = (1..STREAMS).fold(stream(0), |sum, i| sum + stream(i));
    Some(sums.sum(&[1]).sum(&[0]))
}

/// A value in another shape; what is computed element by element is computed again in that shape, so that the loop stays one.
fn in_shape<'g>(b: &'g Builder, x: Value<'g>, shape: &[usize], depth: usize) -> Value<'g> {
    again(b, x, depth, &|leaf| leaf.reshape(shape))
}

/// A part of a vector, in the same way.
fn narrowed<'g>(
    b: &'g Builder,
    x: Value<'g>,
    begin: usize,
    size: usize,
    depth: usize,
) -> Value<'g> {
    again(b, x, depth, &|leaf| leaf.narrow(0, begin, size))
}

fn again<'g>(
    b: &'g Builder,
    x: Value<'g>,
    depth: usize,
    leaf: &dyn Fn(Value<'g>) -> Value<'g>,
) -> Value<'g> {
    let node = b.node(b.maker(x.id()));
    let NodeKind::Prim(prim, _) = &node.kind else {
        return leaf(x);
    };
    let operands: Vec<Value<'g>> = node.operands.iter().map(|id| b.value(*id)).collect();
    let types: Vec<_> = operands.iter().map(|v| v.ty()).collect();
    let types: Vec<_> = types.iter().collect();
    let alike = types.iter().all(|ty| ty.shape == x.shape());
    if depth == 0 || !alike || !is_elementwise(prim, &types, &x.ty()) {
        return leaf(x);
    }
    let operands: Vec<Value<'g>> = operands
        .into_iter()
        .map(|operand| again(b, operand, depth - 1, leaf))
        .collect();
    b.copy_again(&node, &operands)[0]
}
