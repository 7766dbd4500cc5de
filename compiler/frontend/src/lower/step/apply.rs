//! Updates of variables: of whole ones, or of the rows that a sparse gradient has.

use trainspec_ir::TensorType;
use trainspec_ir::autodiff::{Cotangent, Rows};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::fuse::is_elementwise;
use trainspec_ir::graph::{Graph, Type, What};

use crate::diag::{Code, Diagnostic};
use crate::lower::program::{self, Values};
use crate::lower::step::process::Writer;
use crate::lower::{Context, step};
use crate::typed::{Constant, Group, Update};

/// A gradient in the form in which it is applied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ready<'g> {
    /// To all rows.
    Whole(Value<'g>),
    /// To some, each of them once.
    Rows(Rows<'g>),
}

impl<'g> Ready<'g> {
    /// Decides how a gradient is applied.
    pub(super) fn new(
        cx: &Context<'_>,
        group: &Group,
        update: &Update,
        slope: Cotangent<'g>,
    ) -> Result<Ready<'g>, Diagnostic> {
        let lazy = group.options.iter().find(|(name, _)| name == "lazy");
        let lazy = lazy.map(|(_, value)| *value == Constant::Bool(true));
        Ok(match slope {
            Cotangent::Dense(whole) => Ready::Whole(whole),
            Cotangent::Rows(_) if lazy == Some(false) => Ready::Whole(slope.dense()),
            Cotangent::Rows(rows) if is_row_wise(cx, group, update)? => Ready::Rows(rows.summed()),
            Cotangent::Rows(_) if lazy == Some(true) => {
                let message = format!(
                    "`{}` looks at all of `{}`, so it cannot be lazy",
                    group.optimizer,
                    step::name_of(cx, update.variable)
                );
                return Err(Diagnostic::new(Code::BadValue, group.span, message)
                    .help("leave `lazy` out: rows that were not read have a gradient of 0"));
            }
            Cotangent::Rows(_) => Ready::Whole(slope.dense()),
        })
    }

    /// The gradient, as the optimizer sees it.
    pub(super) fn gradient(&self) -> Value<'g> {
        match self {
            Ready::Whole(whole) => *whole,
            Ready::Rows(rows) => rows.rows,
        }
    }

    /// A variable or slot before the step, as the optimizer sees it.
    pub(super) fn old(&self, whole: Value<'g>) -> Value<'g> {
        match self {
            Ready::Whole(_) => whole,
            Ready::Rows(rows) => whole.take(rows.indices),
        }
    }
}

/// Updates one variable.
pub(super) fn apply<'g>(
    cx: &Context<'_>,
    writer: &Writer<'g>,
    group: &Group,
    update: &Update,
    rates: &Values<'g>,
    slope: Ready<'g>,
) -> Result<(), Diagnostic> {
    let b = writer.b;
    let mut inputs = |name: &str, ty: &TensorType, span| {
        step::input(cx, b, group, Some((update, &slope)), rates, name, ty, span)
    };
    let values = program::lower(cx, b, &update.program, &mut inputs)?;
    for (name, value) in &update.writes {
        let (state, old) = match update.slots.iter().find(|s| s.name == *name) {
            Some(slot) => {
                let ty = cx.static_type(&slot.ty, group.span)?;
                (slot.variable.as_str(), b.read(&slot.variable, &ty))
            }
            None => {
                let old = program::read(cx, b, update.variable)?;
                (step::name_of(cx, update.variable), old)
            }
        };
        let new = values.get(*value);
        match &slope {
            Ready::Whole(_) => writer.write(state, new),
            Ready::Rows(rows) => writer.write_rows(state, old, rows, new),
        }
    }
    Ok(())
}

/// Whether an update does to each row what it does to it alone.
fn is_row_wise(cx: &Context<'_>, group: &Group, update: &Update) -> Result<bool, Diagnostic> {
    let variable = &cx.spec.variables[update.variable.0 as usize];
    let ty = cx.static_type(&variable.ty, variable.span)?;
    for slot in &update.slots {
        if cx.static_type(&slot.ty, group.span)?.shape != ty.shape {
            return Ok(false);
        }
    }
    let b = Builder::new("update");
    let mut inputs =
        |name: &str, ty: &TensorType, _| Ok(b.input(name, &Type::of(ty).expect("it is bound")));
    let values = program::lower(cx, &b, &update.program, &mut inputs)?;
    for (name, value) in &update.writes {
        b.result(name, values.get(*value));
    }
    Ok(row_wise(&b.finish(), &ty.shape))
}

/// Whether all that has the shape is computed element by element from the like and from single numbers.
fn row_wise(graph: &Graph, shape: &[usize]) -> bool {
    graph.nodes.iter().all(|node| {
        let operands: Vec<&Type> = node.operands.iter().map(|v| graph.ty(*v)).collect();
        let single = |ty: &Type| ty.elements() == 1 && ty.rank() == 0;
        match &node.what {
            What::Input(_) | What::Const(_) | What::Read(_) => true,
            What::Scan(_) => false,
            What::Prim(prim, _) => node.results.iter().all(|v| {
                let made = graph.ty(*v);
                let alone = operands.iter().all(|ty| single(ty)) && single(made);
                let spread = operands.iter().all(|ty| single(ty)) && made.shape == shape;
                let each = made.shape == shape && is_elementwise(prim, &operands, made);
                alone || spread || each
            }),
        }
    })
}
