//! Row-wise updates: which updates can be applied to single rows of a variable (lazy, sparse updates).

use trainspec_ir::build::Builder;
use trainspec_ir::fuse::is_elementwise;
use trainspec_ir::graph::{Graph, NodeKind, Type, ValueId};
use trainspec_ir::ops::Arg;
use trainspec_ir::{Size, TensorType};

use crate::diag::{Code, Diagnostic};
use crate::lower::{Binding, Context, program};
use crate::typed::{self, Group, Input, Operand, Program, Spec, Update};

/// The `lazy` option of a group: only rows that were read are updated, or all.
pub(super) fn asked_lazy(group: &Group) -> Option<bool> {
    group.options.lazy.map(|lazy| lazy.on)
}

/// Errors for groups with `lazy: true` whose update is not row-wise.
pub(crate) fn lazy_errors(spec: &Spec) -> Result<Vec<Diagnostic>, Diagnostic> {
    let binding = Binding::new();
    let cx = Context::new(spec, &binding);
    let mut found = Vec::new();
    let groups = spec.train.iter().flat_map(|t| &t.groups);
    for group in groups {
        let Some(lazy) = group.options.lazy.filter(|lazy| lazy.on) else {
            continue;
        };
        for update in &group.updates {
            let variable = &spec.variables[update.variable.0 as usize];
            if variable.ty.rank() == 0 || is_row_wise(&cx, group, update)? {
                continue;
            }
            let message = format!(
                "`{}` looks at all of `{}`, so it cannot be lazy",
                group.optimizer, variable.name
            );
            found.push(
                Diagnostic::new(Code::BadValue, lazy.span, message)
                    .help("leave `lazy` out: rows that were not read have a gradient of 0"),
            );
            break;
        }
    }
    Ok(found)
}

/// Whether an update treats each row independently of the others.
///
/// The update is lowered for one row more than the variable has. Values of the shape of the variable, such as `range(3)`
/// or random numbers, then do not fit; values that do fit do not depend on the row.
pub(super) fn is_row_wise(
    cx: &Context<'_>,
    group: &Group,
    update: &Update,
) -> Result<bool, Diagnostic> {
    let variable = &cx.spec.variables[update.variable.0 as usize];
    let ty = cx.static_type(&variable.ty, variable.span)?;
    for slot in &update.slots {
        if cx.static_type(&slot.ty, group.span)?.shape != ty.shape {
            return Ok(false);
        }
    }
    let mut shape = ty.shape;
    shape[0] += 1;
    let program = program(cx, update, shape[0]);
    let b = Builder::new("update");
    let mut of_rows: Vec<ValueId> = Vec::new();
    let mut inputs = |input: &Input, ty: &TensorType, _| {
        let ty = Type::of(ty).expect("it is bound");
        let name = input.to_string();
        Ok(match input {
            // They have the shape of the variable.
            Input::Param | Input::Grad | Input::Slot(_) => {
                let rows = b.input(&name, &Type::new(ty.dtype, &shape));
                of_rows.push(rows.id());
                rows
            }
            _ => b.input(&name, &ty),
        })
    };
    let Ok(values) = program::lower(cx, &b, &program, &mut inputs) else {
        return Ok(false);
    };
    for (name, value) in &update.writes {
        b.result(name, values.get(*value));
    }
    Ok(row_wise(&b.finish(), of_rows, &shape))
}

/// The update for `count` rows: a scalar that is broadcast to the shape of the variable is broadcast to those rows.
pub(super) fn program(cx: &Context<'_>, update: &Update, count: usize) -> Program {
    let variable = &cx.spec.variables[update.variable.0 as usize];
    let whole: Vec<&Size> = variable.ty.shape.0.iter().map(|d| &d.size).collect();
    let mut program = update.program.clone();
    for node in &mut program.nodes {
        let typed::NodeKind::Op { op, operands, .. } = &mut node.kind else {
            continue;
        };
        if !matches!(op.name, "fill" | "broadcast_to") {
            continue;
        }
        let single = operands.iter().all(|operand| match operand {
            Operand::Value(id) => program.values[id.0 as usize].rank() == 0,
            Operand::Values(_) => false,
            Operand::Attr(_) => true,
        });
        for operand in operands {
            if let Operand::Attr(Arg::Ints(sizes)) = operand
                && single
                && sizes.iter().eq(whole.iter().copied())
            {
                sizes[0] = Size::fixed(count as i64);
            }
        }
    }
    program
}

/// Whether everything that depends on rows is elementwise, and every written value has the shape of the rows.
fn row_wise(graph: &Graph, mut of_rows: Vec<ValueId>, shape: &[usize]) -> bool {
    for node in &graph.nodes {
        let depends = match &node.kind {
            NodeKind::Input(_) => node.results.iter().any(|v| of_rows.contains(v)),
            NodeKind::Const(_) | NodeKind::Read(_) | NodeKind::Prim(..) | NodeKind::Scan(_) => {
                node.operands.iter().any(|v| of_rows.contains(v))
            }
        };
        if !depends {
            continue;
        }
        let alike = |v: &ValueId| graph.ty(*v).shape == shape;
        let by_element = match &node.kind {
            NodeKind::Input(_) => true,
            NodeKind::Prim(prim, _) => is_elementwise(prim),
            NodeKind::Const(_) | NodeKind::Read(_) | NodeKind::Scan(_) => false,
        };
        if !by_element || !node.operands.iter().chain(&node.results).all(alike) {
            return false;
        }
        of_rows.extend(&node.results);
    }
    let mut results = graph.results.iter();
    results.all(|(_, value)| graph.ty(*value).shape == shape)
}
