//! Two-level reduction: splits a long sum into partial sums, which fuse into the loop that computes their terms, and a sum of those.
//!
//! In: a verified graph. Out: the same, where a sum of floats over more elements than a row of a loop may have is first one over
//! chunks and then one over the partial sums. So the squares of a gradient are summed in the kernel that computes the gradient.
//! Leaves alone: sums over leading dimensions, and short sums.

use crate::build::{Builder, Value};
use crate::fuse::{MAX_ROW_ELEMENTS, is_fusible};
use crate::graph::{Attr, Graph, Node, NodeKind};
use crate::ops::prims;
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_loop_bodies, rebuild};
use crate::types::DType;

pub(super) const PASS: Pass = Pass {
    name: "split-sums",
    doc: "splits long sums into two-level reductions, whose partial sums fuse into the loop that computes the terms",
    run,
};

fn run(graph: Graph) -> Graph {
    rebuild(in_loop_bodies(graph, run), &mut Split)
}

/// The minimal chunk of a partial sum, in elements.
const MIN_CHUNK_ELEMENTS: usize = 512;

/// Vectors of at least this many elements are read as several streams.
const MIN_STREAMED_ELEMENTS: usize = 1 << 18;

/// How many memory streams a streamed sum reads at once.
const STREAMS: usize = 4;

/// How many levels of elementwise operands are duplicated in the chunked shape.
const MAX_DUPLICATED_DEPTH: usize = 4;

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
        let is_float_sum =
            **prim == prims::REDUCE_SUM && matches!(x.dtype(), DType::F32 | DType::F64);
        // A loop reduces several dimensions only in full vectors.
        let long: Vec<usize> = shape[kept..].iter().copied().filter(|n| *n > 1).collect();
        let uneven = long.len() > 1 && long.last().is_some_and(|n| !n.is_multiple_of(8));
        let splits = length > MAX_ROW_ELEMENTS || uneven;
        if !is_float_sum || !splits || shape.contains(&0) || !axes.iter().copied().eq(kept..rank) {
            return None;
        }
        Some(vec![split(b, *x, kept)?])
    }
}

/// The sum over all dimensions from `kept` on, as a two-level reduction.
fn split<'g>(b: &'g Builder, x: Value<'g>, kept: usize) -> Option<Value<'g>> {
    let shape = x.shape();
    let last = *shape.last()?;
    if last <= MAX_ROW_ELEMENTS {
        // As many of the last dimensions as fit a row; full vectors, where there are several.
        let mut from = shape.len() - 1;
        while (last.is_multiple_of(8) || last == 1)
            && from > kept
            && shape[from - 1..].iter().product::<usize>() <= MAX_ROW_ELEMENTS
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
    let chunk = (MIN_CHUNK_ELEMENTS / 8..=MAX_ROW_ELEMENTS / 8)
        .rev()
        .map(|n| n * 8)
        .find(|n| last.is_multiple_of(*n));
    if let Some(chunk) = chunk
        && let Some(streams) = in_streams(b, x, chunk)
    {
        return Some(streams);
    }
    if let Some(chunk) = chunk {
        let mut chunked = shape[..shape.len() - 1].to_vec();
        chunked.extend([last / chunk, chunk]);
        let rows = in_shape(b, x, &chunked, MAX_DUPLICATED_DEPTH).sum(&[chunked.len() - 1]);
        let outer: Vec<usize> = (kept..rows.rank()).collect();
        return Some(rows.sum(&outer));
    }
    // A length without a divisor in range: the full chunks, and the remainder. Only for vectors, so that the slices are views.
    if shape.len() > 1 {
        return None;
    }
    let chunk = MAX_ROW_ELEMENTS / 2;
    let even = last / chunk * chunk;
    let slice = |begin: usize, size: usize| narrowed(b, x, begin, size, MAX_DUPLICATED_DEPTH);
    let front = split(b, slice(0, even), kept)?;
    Some(front + slice(even, last - even).sum(&[0]))
}

/// The sum of a long vector whose terms are in memory, read as several streams at once: the hardware prefetchers follow several
/// streams faster than one.
fn in_streams<'g>(b: &'g Builder, x: Value<'g>, chunk: usize) -> Option<Value<'g>> {
    let [length] = x.shape()[..] else {
        return None;
    };
    let rows = length / chunk;
    if length < MIN_STREAMED_ELEMENTS || !rows.is_multiple_of(STREAMS) {
        return None;
    }
    let stream_length = length / STREAMS;
    let stream = |i: usize| {
        let terms = narrowed(b, x, i * stream_length, stream_length, MAX_DUPLICATED_DEPTH);
        in_shape(b, terms, &[rows / STREAMS, chunk], MAX_DUPLICATED_DEPTH)
    };
    let sums = (1..STREAMS).fold(stream(0), |sum, i| sum + stream(i));
    Some(sums.sum(&[1]).sum(&[0]))
}

/// A value in another shape; elementwise nodes are duplicated in that shape, so that the loop stays fused.
fn in_shape<'g>(b: &'g Builder, x: Value<'g>, shape: &[usize], depth: usize) -> Value<'g> {
    duplicated(b, x, depth, &|leaf| leaf.reshape(shape))
}

/// A slice of a vector; elementwise nodes are duplicated on the slices of their operands.
fn narrowed<'g>(
    b: &'g Builder,
    x: Value<'g>,
    begin: usize,
    size: usize,
    depth: usize,
) -> Value<'g> {
    duplicated(b, x, depth, &|leaf| leaf.narrow(0, begin, size))
}

/// A value whose elementwise nodes are duplicated, to a depth, on leaves that `leaf` transforms.
fn duplicated<'g>(
    b: &'g Builder,
    x: Value<'g>,
    depth: usize,
    leaf: &dyn Fn(Value<'g>) -> Value<'g>,
) -> Value<'g> {
    let node = b.node(b.defining_node(x.id()));
    let NodeKind::Prim(prim, _) = &node.kind else {
        return leaf(x);
    };
    let operands: Vec<Value<'g>> = node.operands.iter().map(|id| b.value(*id)).collect();
    let types: Vec<_> = operands.iter().map(|v| v.ty()).collect();
    let types: Vec<_> = types.iter().collect();
    let alike = types.iter().all(|ty| ty.shape == x.shape());
    if depth == 0 || !alike || !is_fusible(prim, &types, &x.ty()) {
        return leaf(x);
    }
    let operands: Vec<Value<'g>> = operands
        .into_iter()
        .map(|operand| duplicated(b, operand, depth - 1, leaf))
        .collect();
    b.clone_node(&node, &operands)[0]
}
