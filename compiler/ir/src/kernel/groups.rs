//! The fusion groups of a graph, printed: which expressions became one pass over memory, and why each group was closed.
//!
//! In: kernels. Out: text with one expression for each live-out value of a group; values with several uses have a name.
//! Leaves alone: the strides of views, and the order of instructions: those are in the textual form of the kernels.

use std::fmt::{self, Write};

use crate::kernel::{BufferId, InstOp, Kernel, KernelKind, Kernels, Map, Origin, View};

/// Kernels whose `Display` form is their fusion groups.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a>(pub &'a Kernels);

impl fmt::Display for Groups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "groups {:?} {{", self.0.name)?;
        body(f, self.0, 1)?;
        f.write_str("}\n")
    }
}

fn body(f: &mut impl Write, kernels: &Kernels, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for kernel in &kernels.kernels {
        one(f, kernels, kernel, depth)?;
    }
    for (state, view) in &kernels.writes {
        let state = &kernels.state[state.index()].name;
        writeln!(f, "{indent}write {state:?} <- {}", of_view(kernels, view))?;
    }
    for (name, view) in &kernels.results {
        writeln!(f, "{indent}return {name:?} = {}", of_view(kernels, view))?;
    }
    Ok(())
}

fn one(f: &mut impl Write, kernels: &Kernels, kernel: &Kernel, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let views = |list: &[View]| {
        let each = list.iter().map(|v| of_view(kernels, v));
        each.collect::<Vec<_>>().join(", ")
    };
    match &kernel.kind {
        KernelKind::Map(map) => {
            writeln!(f, "{indent}group {:?} {{", map.shape)?;
            group(f, kernels, &kernel.outputs, map, depth + 1)?;
            writeln!(f, "{indent}}} // {}", kernel.fusion_barrier)
        }
        KernelKind::Call {
            prim,
            operands,
            epilogue: None,
            ..
        } => {
            let outputs = names(&kernel.outputs);
            writeln!(f, "{indent}{outputs} = {}({})", prim.name, views(operands))
        }
        KernelKind::Call {
            prim,
            operands,
            epilogue: Some(map),
            ..
        } => {
            let (product, rest) = kernel.outputs.split_at(1);
            let (product, operands) = (names(product), views(operands));
            writeln!(
                f,
                "{indent}{product} = {}({operands}) epilogue {{",
                prim.name
            )?;
            group(f, kernels, rest, map, depth + 1)?;
            writeln!(f, "{indent}}} // {}", kernel.fusion_barrier)
        }
        KernelKind::Scan {
            length,
            operands,
            body: inner,
            ..
        } => {
            let outputs = names(&kernel.outputs);
            writeln!(
                f,
                "{indent}{outputs} = scan {length} ({}) {{",
                views(operands)
            )?;
            body(f, inner, depth + 1)?;
            writeln!(f, "{indent}}}")
        }
    }
}

fn names(buffers: &[BufferId]) -> String {
    let each = buffers.iter().map(|b| format!("b{}", b.0));
    each.collect::<Vec<_>>().join(", ")
}

/// The buffer under a view, by the name that people gave it.
fn of_view(kernels: &Kernels, view: &View) -> String {
    let id = view.buffer;
    let name = match &kernels.buffers[id.index()].origin {
        Origin::Input(name) => format!("{name:?}"),
        Origin::State(state) => format!("{:?}", kernels.state[state.index()].name),
        Origin::Const(tensor) if tensor.ty().elements() == 1 => tensor.to_string(),
        Origin::Const(_) | Origin::Temp => format!("b{}", id.0),
    };
    let entire = View::contiguous(id, &kernels.buffers[id.index()].ty.shape);
    let repeated = view.offset == 0 && view.strides.contains(&0);
    match (view.offset == 0 && view.is_contiguous()) || *view == entire {
        true => name,
        false if repeated => format!("{name} repeated to {:?}", view.shape),
        false => format!("{name} as {:?}", view.shape),
    }
}

/// The expressions of a group: one for each value that is live-out or that is used more than once.
fn group(
    f: &mut impl Write,
    kernels: &Kernels,
    outputs: &[BufferId],
    map: &Map,
    depth: usize,
) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let mut uses = vec![0; map.body.len()];
    for inst in &map.body {
        match &inst.op {
            InstOp::Prim(_, operands) => operands.iter().for_each(|r| uses[*r] += 1),
            InstOp::Reduce(_, register) => uses[*register] += 1,
            InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => {}
        }
    }
    let mut expressions: Vec<String> = Vec::with_capacity(map.body.len());
    for (i, inst) in map.body.iter().enumerate() {
        let stored = map.stores.iter().position(|s| s.register == i);
        let text = match &inst.op {
            InstOp::Load(load) => of_view(kernels, &map.loads[*load]),
            InstOp::Const(x) => format!("{x:?}"),
            InstOp::Int(n) => n.to_string(),
            InstOp::Prim(prim, operands) => {
                let operands: Vec<&str> =
                    operands.iter().map(|r| expressions[*r].as_str()).collect();
                format!("{}({})", prim.name, operands.join(", "))
            }
            InstOp::Reduce(combine, register) => {
                let row = &map.shape[map.shape.len() - map.reduced_dims..];
                format!(
                    "{}({}, row: {row:?})",
                    combine.name(),
                    expressions[*register]
                )
            }
        };
        let name = match (stored, &inst.op) {
            (Some(index), _) => Some(format!("b{}", outputs[index].0)),
            (None, InstOp::Prim(..) | InstOp::Reduce(..)) if uses[i] > 1 => Some(format!("r{i}")),
            (None, _) => None,
        };
        expressions.push(match name {
            Some(name) => {
                writeln!(f, "{indent}{name} = {text}")?;
                name
            }
            None => text,
        });
    }
    Ok(())
}
