//! Updates of variables: of whole ones, or of the rows that a sparse gradient has.

use trainspec_ir::TensorType;
use trainspec_ir::autodiff::{Cotangent, IndexedSlices};
use trainspec_ir::build::Value;

use crate::diag::Diagnostic;
use crate::lower::program::{self, Values};
use crate::lower::step::process::Writer;
use crate::lower::step::rows;
use crate::lower::{Context, step};
use crate::typed::{Group, Update};

/// A gradient in the form in which it is applied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ready<'g> {
    /// To all rows.
    Whole(Value<'g>),
    /// To some, each of them once.
    Sparse(IndexedSlices<'g>),
}

impl<'g> Ready<'g> {
    /// Decides how a gradient is applied.
    pub(super) fn new(
        cx: &Context<'_>,
        group: &Group,
        update: &Update,
        slope: Cotangent<'g>,
    ) -> Result<Ready<'g>, Diagnostic> {
        let lazy = rows::asked_lazy(group);
        Ok(match slope {
            Cotangent::Dense(whole) => Ready::Whole(whole),
            Cotangent::Sparse(_) if lazy == Some(false) => Ready::Whole(slope.dense()),
            Cotangent::Sparse(rows) if rows::is_row_wise(cx, group, update)? => {
                Ready::Sparse(rows.summed())
            }
            Cotangent::Sparse(_) => Ready::Whole(slope.dense()),
        })
    }

    /// The gradient, as the optimizer sees it.
    pub(super) fn gradient(&self) -> Value<'g> {
        match self {
            Ready::Whole(whole) => *whole,
            Ready::Sparse(rows) => rows.rows,
        }
    }

    /// A variable or slot before the step, as the optimizer sees it.
    pub(super) fn old(&self, whole: Value<'g>) -> Value<'g> {
        match self {
            Ready::Whole(_) => whole,
            Ready::Sparse(rows) => whole.take(rows.indices),
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
    let values = match &slope {
        Ready::Whole(_) => program::lower(cx, b, &update.program, &mut inputs)?,
        Ready::Sparse(some) => {
            let program = rows::program(cx, update, some.rows.shape()[0]);
            program::lower(cx, b, &program, &mut inputs)?
        }
    };
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
            Ready::Sparse(rows) => writer.write_rows(state, old, rows, new),
        }
    }
    Ok(())
}
