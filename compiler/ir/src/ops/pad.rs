//! `tf.pad`: padding with a constant, or with reflected or symmetric elements.

use ndarray::{ArcArray, ArrayD, IxDyn, Slice};

use crate::autodiff::Backward;
use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::Evaluation;
use crate::ops::op::{Call, Default, Elements, Kind, Number, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::arrays::both;
use crate::ops::rules::positions::gather_along;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::{one_per_dim, one_result};
use crate::ops::rules::{at_least, exact_dim, fits, known_negative, length};
use crate::ops::slice::reach;
use crate::size::Size;
use crate::types::{Class, DType, Dim, TensorType};

/// `tensor` with (before, after) elements of padding along each dimension.
pub(super) static OP: Op = Op {
    name: "pad",
    aliases: &[],
    doc: "A tensor padded with `constant_values`, or with its own elements mirrored with (symmetric) or without (reflect) the border.",
    params: &[
        Param::required("tensor", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("paddings", Kind::Pairs),
        Param::with(
            "mode",
            Kind::Word(&["constant", "reflect", "symmetric"]),
            Default::Word("constant"),
        ),
        Param::with("constant_values", Kind::Number, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let tensor = call.tensor("tensor");
    let paddings = call.pairs("paddings");
    length(
        "paddings",
        paddings.len(),
        tensor.rank(),
        "dimension of `tensor`",
    )?;
    constant(call, tensor.dtype)?;
    let mirrored = match call.word("mode") {
        "reflect" => Some(1),
        "symmetric" => Some(0),
        _ => None,
    };
    let mut dims = Vec::with_capacity(tensor.rank());
    for (i, (dim, (before, after))) in tensor.shape.0.iter().zip(paddings).enumerate() {
        at_least("paddings", 0, before)?;
        at_least("paddings", 0, after)?;
        if *before == Size::fixed(0) && *after == Size::fixed(0) {
            dims.push(dim.clone());
            continue;
        }
        let size = exact_dim("tensor", dim)?;
        if let Some(border) = mirrored {
            enough_to_mirror(i, size, border, [before, after])?;
        }
        let padded = size.add(before).and_then(|s| s.add(after));
        dims.push(Dim::exact(padded.ok_or_else(RuleError::overflow)?));
    }
    fits(tensor.with_dims(dims))
}

/// A dimension must have as many elements to mirror as the padding is wide.
fn enough_to_mirror(
    i: usize,
    size: &Size,
    border: i64,
    margins: [&Size; 2],
) -> Result<(), RuleError> {
    let available = size
        .sub(&Size::fixed(border))
        .ok_or_else(RuleError::overflow)?;
    for margin in margins {
        let spare = available.sub(margin).ok_or_else(RuleError::overflow)?;
        if known_negative(&spare) {
            return Err(RuleError::new(
                RuleErrorKind::BadValue,
                format!("dimension {i} has {size}, too few to mirror {margin} of them"),
            )
            .at("paddings"));
        }
    }
    Ok(())
}

/// The padding value must be representable in the element type.
fn constant(call: &Call<'_>, dtype: DType) -> Result<(), RuleError> {
    let value = call.number("constant_values");
    let known = match value {
        Number::Int(n) => n.value(),
        Number::Float(_) => None,
    };
    let range = match dtype {
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => return Ok(()),
        DType::Bool => Some((0, 1)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => dtype.int_range(),
        DType::String => None,
    };
    let message = match (value, range) {
        (Number::Float(x), _) => format!("{x:?} is no {dtype}"),
        (Number::Int(n), None) => format!("{n} is no {dtype}"),
        (Number::Int(_), Some((min, max))) => match known {
            Some(n) if !(min..=max).contains(&n) => {
                format!("{n} is no {dtype}: that is from {min} to {max}")
            }
            _ => return Ok(()),
        },
    };
    Err(RuleError::new(RuleErrorKind::DtypeMismatch, message).at("constant_values"))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.value("tensor");
    let known = |n: &Size| match n.value() {
        Some(n) => Ok(n as usize),
        None => Err(RuleError::unknown_size("paddings", n)),
    };
    let paddings = l.call.pairs("paddings").iter();
    let low = paddings.clone().map(|(before, _)| known(before));
    let low = low.collect::<Result<Vec<usize>, RuleError>>()?;
    let high = paddings.map(|(_, after)| known(after));
    let high = high.collect::<Result<Vec<usize>, RuleError>>()?;
    let border = match l.call.word("mode") {
        "reflect" => 1,
        "symmetric" => 0,
        _ => {
            let value = match l.call.number("constant_values") {
                Number::Float(value) => x.like(value),
                Number::Int(n) => {
                    let known = n.value();
                    let unknown = || RuleError::unknown_size("constant_values", n);
                    l.b.int(x.dtype(), known.ok_or_else(unknown)?)
                }
            };
            let none = vec![0; x.rank()];
            return Ok(vec![x.pad(value, &low, &high, &none)]);
        }
    };
    let mut mirrored = x;
    for (axis, n) in x.shape().into_iter().enumerate() {
        if low[axis] == 0 && high[axis] == 0 {
            continue;
        }
        let before = (border..border + low[axis]).rev();
        let after = (0..n - border).rev().take(high[axis]);
        let positions = l.b.ints(before.chain(0..n).chain(after));
        mirrored = gather_along(mirrored, axis, positions);
    }
    Ok(vec![mirrored])
}

/// The primitive (XLA's `Pad`): in each dimension `low` elements of a value before, `high` after, and `inside` between all
/// elements (interior padding).
pub(crate) static PRIM: Prim = Prim {
    name: "pad",
    attrs: &[
        ("low", AttrKind::Sizes),
        ("high", AttrKind::Sizes),
        ("inside", AttrKind::Sizes),
    ],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(operand_vjp), Some(value_vjp)]),
    eval: Eval::Tensors(|e| {
        Ok(vec![
            both!((e.x(0), e.x(1)), (x, value) => padded(e, x, value).into()),
        ])
    }),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x, value] = arity(call)?;
    of_class(x, Class::Any)?;
    if *value != Type::scalar(x.dtype) {
        return Err(format!("the padding value is {value}, not {}", x.dtype));
    }
    for name in ["low", "high", "inside"] {
        one_per_dim(name, call.sizes(name), x)?;
    }
    let padded = |(i, n): (usize, &usize)| {
        let reach = reach(*n, call.sizes("inside")[i].checked_add(1)?)?;
        let low = reach.checked_add(call.sizes("low")[i])?;
        low.checked_add(call.sizes("high")[i])
    };
    let shape = x.shape.iter().enumerate().map(padded);
    let shape: Option<Vec<usize>> = shape.collect();
    one_result(x.dtype, shape.ok_or("a dimension becomes too large")?)
}

/// The VJP with respect to the operand: the part of dy that is not padding.
fn operand_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let stride: Vec<usize> = g.sizes("inside").iter().map(|n| n + 1).collect();
    g.dy().slice(g.sizes("low"), &g.x(0).shape(), &stride)
}

/// The VJP with respect to the padding value: the sum of dy over the padding.
fn value_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let inner = g.b.full(&g.x(0).ty().with_dtype(DType::Bool), 1.0);
    let inner = inner.pad(
        inner.like(0.0),
        g.sizes("low"),
        g.sizes("high"),
        g.sizes("inside"),
    );
    let padding = inner.select(g.dy().like(0.0), g.dy());
    padding.sum(&padding.axes())
}

fn padded<T: Clone>(
    e: &Evaluation<'_>,
    x: &ArcArray<T, IxDyn>,
    value: &ArcArray<T, IxDyn>,
) -> ArrayD<T> {
    let (low, inside) = (e.sizes("low"), e.sizes("inside"));
    let mut result = ArrayD::from_elem(e.shape(), value[[]].clone());
    let within = |i: usize| {
        let reach = reach(x.shape()[i], inside[i] + 1).expect("the rule computed it");
        let step = if x.shape()[i] > 1 {
            inside[i] as isize + 1
        } else {
            1
        };
        Slice::new(low[i] as isize, Some((low[i] + reach) as isize), step)
    };
    result
        .slice_each_axis_mut(|axis| within(axis.axis.index()))
        .assign(x);
    result
}
