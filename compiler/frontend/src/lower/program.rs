//! Lowering of one program of a typed spec, node by node.

use std::collections::HashMap;

use trainspec_ir::autodiff::Request;
use trainspec_ir::build::{Builder, CallArg, Value};
use trainspec_ir::graph::Type;
use trainspec_ir::ops::{Arg, Op};
use trainspec_ir::{DType, Size, Span, Tensor, TensorType};

use crate::check::code_of;
use crate::diag::{Code, Diagnostic};
use crate::lower::{Context, GLOBAL_STEP, SEED, scan};
use crate::typed::{Const, Input, Node, NodeKind, Operand, Program, ValueId, VarId};

/// Resolves an input: name, bound type, span.
pub(super) type Inputs<'i, 'g> =
    dyn FnMut(&Input, &TensorType, Span) -> Result<Value<'g>, Diagnostic> + 'i;

/// The values of a program in a graph.
#[derive(Debug, Default)]
pub(super) struct Values<'g>(pub(super) HashMap<ValueId, Value<'g>>);

impl<'g> Values<'g> {
    pub(super) fn get(&self, id: ValueId) -> Value<'g> {
        self.0[&id]
    }
}

/// Lowers a program.
pub(super) fn lower<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    program: &Program,
    inputs: &mut Inputs<'_, 'g>,
) -> Result<Values<'g>, Diagnostic> {
    let mut values = Values::default();
    nodes(cx, b, program, &program.nodes, inputs, &mut values)?;
    Ok(values)
}

/// Lowers nodes of a program, in order.
pub(super) fn nodes<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    program: &Program,
    nodes: &[Node],
    inputs: &mut Inputs<'_, 'g>,
    values: &mut Values<'g>,
) -> Result<(), Diagnostic> {
    for node in nodes {
        b.at(node.span);
        let results = match &node.kind {
            NodeKind::Input(input) => {
                let ty = cx.bind(&program.values[node.results.first.0 as usize], node.span)?;
                vec![inputs(input, &ty, node.span)?]
            }
            NodeKind::Const(known) => {
                let ty = cx.bind(&program.values[node.results.first.0 as usize], node.span)?;
                vec![constant(cx, b, known, ty.dtype, node.span)?]
            }
            NodeKind::Step => vec![global_step(b).cast(cx.dtype(DType::F32))],
            NodeKind::Read(var) => vec![read(cx, b, *var)?],
            NodeKind::Write(var, value) => {
                b.write(&cx.spec.variables[var.0 as usize].name, values.get(*value));
                Vec::new()
            }
            NodeKind::Op { op, operands, site } => {
                let results = call(cx, b, op, operands, site.as_deref(), values, node.span)?;
                for (value, id) in results.iter().zip(node.results.iter()) {
                    b.name_counts(*value, &program.values[id.0 as usize]);
                }
                results
            }
            NodeKind::Scan(scan) => scan::lower(cx, b, program, scan, node, values)?,
            NodeKind::Grad { y, wrt, seed } => {
                let request = Request {
                    ys: vec![values.get(*y)],
                    xs: wrt.iter().map(|x| values.get(*x)).collect(),
                    seeds: vec![seed.map(|s| values.get(s))],
                    stop_gradients: Vec::new(),
                };
                let mut gradients = Vec::new();
                for (x, gradient) in request.xs.iter().zip(b.differentiate(&request)) {
                    let Some(gradient) = gradient else {
                        return Err(unconnected(node.span));
                    };
                    let gradient = gradient.dense();
                    b.same_counts(*x, gradient);
                    gradients.push(gradient);
                }
                gradients
            }
            NodeKind::Hessian { y, wrt } => {
                vec![
                    b.hessian(values.get(*y), values.get(*wrt))
                        .ok_or_else(|| unconnected(node.span))?,
                ]
            }
        };
        values.0.extend(node.results.iter().zip(results));
    }
    Ok(())
}

fn unconnected(span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::NotDifferentiable,
        span,
        "what is differentiated does not depend on `wrt`",
    )
    .label("no path of floating-point operations leads from one to the other")
    .help("integers, comparisons, `argmax`, `round` and `stop_gradient` end such a path")
}

/// The count of completed updates, an i64.
pub(super) fn global_step(b: &Builder) -> Value<'_> {
    b.read(GLOBAL_STEP, &Type::scalar(DType::I64))
}

/// The key of random draws (of the counter-based generator): the seed and the step, unless another was set.
pub(super) fn randomness(b: &Builder) -> (Value<'_>, Vec<Value<'_>>) {
    if b.randomness_now().is_none() {
        let seed = b.input(SEED, &Type::scalar(DType::I64));
        b.randomness(seed, &[global_step(b)]);
    }
    b.randomness_now().expect("it was set")
}

/// A variable at the start of the step.
pub(super) fn read<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    var: VarId,
) -> Result<Value<'g>, Diagnostic> {
    let variable = &cx.spec.variables[var.0 as usize];
    Ok(b.read(
        &variable.name,
        &cx.static_type(&variable.ty, variable.span)?,
    ))
}

fn constant<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    known: &Const,
    dtype: DType,
    span: Span,
) -> Result<Value<'g>, Diagnostic> {
    Ok(match known {
        Const::Int(size) => b.int(dtype, cx.size(size, span)?),
        Const::Float(x) => b.scalar(dtype, *x),
        Const::Bool(flag) => b.constant(Tensor::scalar(*flag)),
        Const::Str(_) => {
            let message = "strings are read in `data`, but not computed with";
            return Err(Diagnostic::new(Code::TypeMismatch, span, message));
        }
    })
}

/// Applies an operation.
fn call<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    op: &'static Op,
    operands: &[Operand],
    site: Option<&str>,
    values: &Values<'g>,
    span: Span,
) -> Result<Vec<Value<'g>>, Diagnostic> {
    let mut given = Vec::with_capacity(operands.len());
    for operand in operands {
        given.push(match operand {
            Operand::Value(id) => CallArg::Value(values.get(*id)),
            Operand::Values(ids) => CallArg::Values(ids.iter().map(|id| values.get(*id)).collect()),
            Operand::Attr(arg) => CallArg::Known(known(cx, arg, span)?),
        });
    }
    if op.random {
        randomness(b);
    }
    let results = b
        .call(op, &given, site.unwrap_or_default())
        .map_err(|error| {
            let diagnostic = Diagnostic::new(code_of(&error), span, error.message.clone());
            error.help.into_iter().fold(diagnostic, Diagnostic::help)
        })?;
    // An operation whose default dtype is f32 gives f32 here too.
    let widen = |value: Value<'g>| match cx.dtype(value.dtype()) {
        wide if wide == value.dtype() => value,
        wide => {
            let cast = value.cast(wide);
            b.same_counts(value, cast);
            cast
        }
    };
    Ok(results.into_iter().map(widen).collect())
}

/// An attribute with its sizes bound.
fn known(cx: &Context<'_>, arg: &Arg, span: Span) -> Result<Arg, Diagnostic> {
    let size = |s: &Size| Ok(Size::fixed(cx.size(s, span)?));
    Ok(match arg {
        Arg::Int(n) => Arg::Int(size(n)?),
        Arg::Ints(list) => Arg::Ints(list.iter().map(size).collect::<Result<_, Diagnostic>>()?),
        Arg::Pairs(list) => {
            let pair = |(a, b): &(Size, Size)| Ok((size(a)?, size(b)?));
            Arg::Pairs(list.iter().map(pair).collect::<Result<_, Diagnostic>>()?)
        }
        Arg::DType(dtype) => Arg::DType(cx.dtype(*dtype)),
        Arg::Absent
        | Arg::Float(_)
        | Arg::Bool(_)
        | Arg::Word(_)
        | Arg::Tensor(_)
        | Arg::Tensors(_) => arg.clone(),
    })
}
