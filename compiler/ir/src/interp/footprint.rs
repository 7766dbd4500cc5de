//! The memory that interpreting a graph takes, before it is interpreted.
//!
//! In: a graph. Out: an upper bound of the bytes that are allocated at one time. Leaves alone: what inputs and state take outside of it.

use crate::graph::{Graph, Node, NodeKind, Scan, Type};
use crate::types::DType;

/// Arrays that an evaluation may hold besides its operands: the result before it is rounded, and after.
const RESULT_COPIES: u64 = 2;

/// The most bytes that the arrays of [`run`](crate::interp::run) take at one time: the state, the values that are live (each is dropped
/// after its last use), and the tensors of results and writes.
///
/// ```
/// use trainspec_ir::{DType, build::Builder, graph::Type, interp};
///
/// let b = Builder::new("double");
/// let x = b.input("x", &Type::new(DType::F32, &[1 << 40]));
/// b.result("y", x + x);
/// assert!(interp::peak_bytes(&b.finish()) >= 16 << 40);
/// ```
pub fn peak_bytes(graph: &Graph) -> u64 {
    let state = total(graph.state.iter().map(|s| &s.ty));
    let outputs = graph.results.iter().map(|(_, v)| *v);
    let outputs = outputs.chain(graph.writes.iter().map(|w| w.value));
    let tensors = total(outputs.map(|v| graph.ty(v)));
    state.saturating_add(tensors).saturating_add(live(graph))
}

/// The bytes of an array: floats and integers take 8 each.
fn array(ty: &Type) -> u64 {
    let width = match ty.dtype {
        DType::Bool => 1,
        _ => 8,
    };
    let sizes = ty.shape.iter();
    sizes.fold(width, |all, n| all.saturating_mul(*n as u64))
}

fn total<'a>(types: impl Iterator<Item = &'a Type>) -> u64 {
    types.fold(0, |all, ty| all.saturating_add(array(ty)))
}

/// The peak of the live values.
fn live(graph: &Graph) -> u64 {
    let mut uses = vec![0_u32; graph.types.len()];
    let outputs = graph.results.iter().map(|(_, v)| *v);
    let outputs = outputs.chain(graph.writes.iter().map(|w| w.value));
    let operands = graph.nodes.iter().flat_map(|n| n.operands.iter().copied());
    operands.chain(outputs).for_each(|v| uses[v.index()] += 1);
    let (mut now, mut peak) = (0_u64, 0_u64);
    for node in &graph.nodes {
        let made = total(node.results.iter().map(|v| graph.ty(*v)));
        peak = peak.max(now.saturating_add(during(node, made)));
        let kept = node.results.iter().filter(|v| uses[v.index()] > 0);
        now = now.saturating_add(total(kept.map(|v| graph.ty(*v))));
        for operand in &node.operands {
            uses[operand.index()] -= 1;
            if uses[operand.index()] == 0 {
                now = now.saturating_sub(array(graph.ty(*operand)));
            }
        }
    }
    peak.max(now)
}

/// The bytes that one node allocates while it is evaluated, with those of its results.
fn during(node: &Node, made: u64) -> u64 {
    match &node.kind {
        // A state variable is shared.
        NodeKind::Read(_) => 0,
        NodeKind::Input(_) | NodeKind::Const(_) => made,
        NodeKind::Prim(..) => made.saturating_mul(RESULT_COPIES),
        NodeKind::Scan(scan) => made
            .saturating_mul(RESULT_COPIES)
            .saturating_add(body(scan)),
    }
}

/// The bytes of one iteration of a scan.
fn body(scan: &Scan) -> u64 {
    live(&scan.body)
}
