//! Constant folding: evaluates nodes whose operands are constants.
//!
//! In: a verified graph. Out: the same, with constants in place of small nodes whose operands are constants.
//! Leaves alone: results larger than their operands, such as broadcasts, and what has no answer, such as an index out of
//! range, which is reported when the program runs.

use crate::build::{Builder, Value};
use crate::graph::{Graph, Node, NodeKind, Type};
use crate::interp::{Array, Evaluation};
use crate::passes::Pass;
use crate::passes::rebuild::{Visit, in_loop_bodies, rebuild};
use crate::tensor::Tensor;

pub(super) const PASS: Pass = Pass {
    name: "fold-constants",
    doc: "computes what depends on constants alone",
    run,
};

fn run(graph: Graph) -> Graph {
    rebuild(in_loop_bodies(graph, run), &mut Fold)
}

struct Fold;

impl Visit for Fold {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        let NodeKind::Prim(prim, attrs) = &node.kind else {
            return None;
        };
        let known: Vec<Tensor> = operands
            .iter()
            .map(|v| b.constant_value(*v))
            .collect::<Option<_>>()?;
        let types: Vec<Type> = known.iter().map(Tensor::ty).collect();
        let types: Vec<&Type> = types.iter().collect();
        let call = crate::graph::PrimCall {
            prim,
            operands: &types,
            attrs,
        };
        let results = (prim.infer)(&call).ok()?;
        let operand_elements: usize = types.iter().map(|t| t.elements()).sum();
        if results.iter().any(|t| t.elements() > operand_elements) {
            return None;
        }
        let arrays: Vec<Array> = known.iter().map(Array::of).collect();
        let evaluation = Evaluation {
            prim,
            operands: &arrays,
            types: &types,
            results: &results,
            attrs,
        };
        let values = evaluation.evaluate().ok()?;
        Some(
            values
                .iter()
                .zip(&results)
                .map(|(a, ty)| b.constant(a.tensor(ty.dtype)))
                .collect(),
        )
    }
}
