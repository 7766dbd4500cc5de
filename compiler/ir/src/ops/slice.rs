//! `tf.slice`: a contiguous block of a tensor, given by its begin and size.

use ndarray::Slice;

use crate::autodiff::Backward;
use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation, each};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::{one_per_dim, one_result};
use crate::ops::rules::{at_least, exact_dim, fits, known_negative, length};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// The block of `input` that begins at `begin` and has the shape `size`.
pub(super) static OP: Op = Op {
    name: "slice",
    aliases: &[],
    doc: "The part of a tensor that starts at `begin` and is `size` large, -1 being all that is left.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("begin", Kind::Ints),
        Param::required("size", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let input = call.tensor("input");
    let (begin, size) = (call.sizes("begin"), call.sizes("size"));
    length("begin", begin.len(), input.rank(), "dimension of `input`")?;
    length("size", size.len(), input.rank(), "dimension of `input`")?;
    let dims = input.shape.0.iter().zip(begin.iter().zip(size)).enumerate();
    let dims = dims.map(|(i, (dim, (begin, size)))| cut(i, dim, begin, size));
    fits(input.with_dims(dims.collect::<Result<_, _>>()?))
}

fn cut(i: usize, dim: &Dim, begin: &Size, size: &Size) -> Result<Dim, RuleError> {
    let all_left = *size == Size::fixed(-1);
    if all_left && *begin == Size::fixed(0) {
        return Ok(dim.clone());
    }
    let extent = exact_dim("input", dim)?;
    at_least("begin", 0, begin)?;
    if !all_left {
        at_least("size", -1, size)?;
    }
    let left = extent.sub(begin).ok_or_else(RuleError::overflow)?;
    let requested = if all_left {
        Size::fixed(0)
    } else {
        size.clone()
    };
    let spare = left.sub(&requested).ok_or_else(RuleError::overflow)?;
    if known_negative(&spare) {
        return Err(RuleError::new(
            RuleErrorKind::IndexOutOfRange,
            match all_left {
                true => format!("dimension {i} has {extent}, so nothing is at {begin}"),
                false => {
                    format!("dimension {i} has {extent}, but {size} from {begin} on are requested")
                }
            },
        )
        .at(if all_left { "begin" } else { "size" }));
    }
    Ok(Dim::exact(if all_left { left } else { requested }))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let input = l.value("input");
    let begin: Vec<usize> = l.call.ints("begin")?.iter().map(|n| *n as usize).collect();
    let stride = vec![1; input.rank()];
    Ok(vec![input.slice(&begin, &l.shape(0), &stride)])
}

/// The primitive: in each dimension `size` elements from `begin` on, every `stride`-th. VJP: dx = dy padded with zeros.
pub(crate) static PRIM: Prim = Prim {
    name: "slice",
    attrs: &[
        ("begin", AttrKind::Sizes),
        ("size", AttrKind::Sizes),
        ("stride", AttrKind::Sizes),
    ],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(vjp)]),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Any)?;
    for name in ["begin", "size", "stride"] {
        one_per_dim(name, call.sizes(name), x)?;
    }
    let size = call.sizes("size");
    for (i, n) in x.shape.iter().enumerate() {
        let (begin, size, stride) = (call.sizes("begin")[i], size[i], call.sizes("stride")[i]);
        let end = reach(size, stride).and_then(|reach| reach.checked_add(begin));
        if stride == 0 || end.is_none_or(|end| end > *n) {
            return Err(format!(
                "dimension {i} of {x} has no {size} elements from {begin} on in steps of {stride}"
            ));
        }
    }
    one_result(x.dtype, size.to_vec())
}

/// The extent from the first of `size` strided elements to past the last.
pub(super) fn reach(size: usize, stride: usize) -> Option<usize> {
    match size {
        0 => Some(0),
        _ => (size - 1).checked_mul(stride)?.checked_add(1),
    }
}

/// The VJP: dy padded with zeros for the elements that the slice omits.
fn vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let (begin, stride) = (g.sizes("begin"), g.sizes("stride"));
    let shape = g.x(0).shape();
    let after = |(i, size): (usize, &usize)| {
        let reach = reach(*size, stride[i]).expect("the rule computed it");
        shape[i] - begin[i] - reach
    };
    let after: Vec<usize> = g.sizes("size").iter().enumerate().map(after).collect();
    let between: Vec<usize> = stride.iter().map(|n| n - 1).collect();
    g.dy().pad(g.dy().like(0.0), begin, &after, &between)
}

fn eval(e: &Evaluation<'_>) -> Array {
    let (begin, size, stride) = (e.sizes("begin"), e.sizes("size"), e.sizes("stride"));
    let cut = |i: usize| {
        let reach = reach(size[i], stride[i]).expect("the rule computed it");
        let end = (begin[i] + reach) as isize;
        // The stride of a single element is irrelevant, and may not fit an `isize`.
        let step = if size[i] > 1 { stride[i] as isize } else { 1 };
        Slice::new(begin[i] as isize, Some(end), step)
    };
    each!(e.x(0), x => x.slice_each_axis(|axis| cut(axis.axis.index())).to_owned().into())
}
