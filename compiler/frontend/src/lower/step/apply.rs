//! Applies gradients: dense updates of variables, or sparse updates of the rows of a sparse gradient (IndexedSlices).

use trainspec_ir::TensorType;
use trainspec_ir::autodiff::{Cotangent, IndexedSlices};
use trainspec_ir::build::Value;

use crate::diag::Diagnostic;
use crate::lower::program::{self, Values};
use crate::lower::step::process::Writer;
use crate::lower::step::row_wise;
use crate::lower::{Context, step};
use crate::typed::{Group, Input, Update};

/// A gradient in the form in which it is applied: dense or sparse.
#[derive(Debug, Clone, Copy)]
pub(super) enum AppliedGradient<'g> {
    /// For a dense update.
    Dense(Value<'g>),
    /// For a sparse update of rows, with unique indices.
    Sparse(IndexedSlices<'g>),
}

impl<'g> AppliedGradient<'g> {
    /// Chooses a dense or a sparse update.
    pub(super) fn new(
        cx: &Context<'_>,
        group: &Group,
        update: &Update,
        gradient: Cotangent<'g>,
    ) -> Result<AppliedGradient<'g>, Diagnostic> {
        let lazy = row_wise::asked_lazy(group);
        Ok(match gradient {
            Cotangent::Dense(dense) => AppliedGradient::Dense(dense),
            Cotangent::Sparse(_) if lazy == Some(false) => AppliedGradient::Dense(gradient.dense()),
            Cotangent::Sparse(rows) if row_wise::is_row_wise(cx, group, update)? => {
                AppliedGradient::Sparse(rows.summed())
            }
            Cotangent::Sparse(_) => AppliedGradient::Dense(gradient.dense()),
        })
    }

    /// The gradient, as the optimizer sees it.
    pub(super) fn gradient(&self) -> Value<'g> {
        match self {
            AppliedGradient::Dense(dense) => *dense,
            AppliedGradient::Sparse(rows) => rows.rows,
        }
    }

    /// A variable or slot before the step, as the optimizer sees it.
    pub(super) fn old(&self, dense: Value<'g>) -> Value<'g> {
        match self {
            AppliedGradient::Dense(_) => dense,
            AppliedGradient::Sparse(rows) => dense.take(rows.indices),
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
    gradient: AppliedGradient<'g>,
) -> Result<(), Diagnostic> {
    let b = writer.b;
    let mut inputs = |input: &Input, ty: &TensorType, span| {
        step::optimizer_input(
            cx,
            b,
            group,
            Some((update, &gradient)),
            rates,
            input,
            ty,
            span,
        )
    };
    let values = match &gradient {
        AppliedGradient::Dense(_) => program::lower(cx, b, &update.program, &mut inputs)?,
        AppliedGradient::Sparse(some) => {
            let program = row_wise::program(cx, update, some.rows.shape()[0]);
            program::lower(cx, b, &program, &mut inputs)?
        }
    };
    for (name, value) in &update.writes {
        let variable = step::name_of(cx, update.variable);
        let (state, old) = match update.slots.iter().find(|s| s.name == *name) {
            Some(slot) => {
                let ty = cx.static_type(&slot.ty, group.span)?;
                let state = slot.state_name(variable);
                let old = b.read(&state, &ty);
                (state, old)
            }
            None => (variable.to_owned(), program::read(cx, b, update.variable)?),
        };
        let new = values.get(*value);
        match &gradient {
            AppliedGradient::Dense(_) => writer.write(&state, new),
            AppliedGradient::Sparse(rows) => writer.write_rows(&state, old, rows, new),
        }
    }
    Ok(())
}
