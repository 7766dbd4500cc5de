//! Freezing of stopped gradients: a graph whose values change only where gradients flow, for finite differences.
//!
//! In: a verified graph. Out: the graph with what is stopped as further results, and the graph that takes those as inputs instead of
//! computing them. So the finite differences of a loss are those that its gradient approximates, beside `stop_gradient` and
//! straight-through estimators too.
//! Leaves alone: what is stopped inside the body of a loop.

use crate::build::{Builder, Value};
use crate::graph::{Graph, Node, NodeKind, Prim};
use crate::ops::prims;
use crate::passes::rebuild::{Visit, rebuild};

/// A graph whose stopped values are results of one form and inputs of the other.
#[derive(Debug)]
pub struct Frozen {
    /// The graph with the stopped values as further results.
    pub observed: Graph,
    /// The graph with inputs of the names of those results in place of the stopped values.
    pub frozen: Graph,
}

/// Freezes the operands of `stop_gradient` and of straight-through estimators.
pub fn freeze(graph: &Graph) -> Frozen {
    let mut observed = graph.clone();
    let mut count = 0;
    for node in &graph.nodes {
        if let NodeKind::Prim(prim, _) = &node.kind
            && stops(prim)
        {
            for operand in &node.operands {
                observed.results.push((input_name(count), *operand));
                count += 1;
            }
        }
    }
    Frozen {
        observed,
        frozen: rebuild(graph.clone(), &mut Freeze { count: 0 }),
    }
}

fn stops(prim: &Prim) -> bool {
    *prim == prims::STOP_GRADIENT || *prim == prims::STRAIGHT_THROUGH
}

fn input_name(number: usize) -> String {
    format!("frozen/{number}")
}

/// The rewrite; `count` operands are frozen so far.
struct Freeze {
    count: usize,
}

impl Visit for Freeze {
    fn visit<'g>(
        &mut self,
        b: &'g Builder,
        node: &Node,
        operands: &[Value<'g>],
    ) -> Option<Vec<Value<'g>>> {
        let NodeKind::Prim(prim, _) = &node.kind else {
            return None;
        };
        if !stops(prim) {
            return None;
        }
        let mut input = |operand: &Value<'g>| {
            let name = input_name(self.count);
            self.count += 1;
            b.input(&name, &operand.ty())
        };
        Some(match operands {
            // It moves as its surrogate does.
            [x, surrogate] => {
                let (x, start) = (input(x), input(surrogate));
                vec![x + (*surrogate - start)]
            }
            operands => operands.iter().map(input).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::graph::{Type, verify};
    use crate::{DType, Tensor, interp};

    #[test]
    fn only_what_gradients_flow_through_moves() {
        let b = Builder::new("loss");
        let x = b.input("x", &Type::new(DType::F64, &[]));
        let stopped = b.prim(&prims::STOP_GRADIENT, &[x], Vec::new()).remove(0);
        b.result("loss", x * stopped);
        let graph = b.finish();
        let Frozen { observed, frozen } = freeze(&graph);
        assert_eq!((verify(&observed), verify(&frozen)), (Ok(()), Ok(())));
        let mut fed = BTreeMap::from([("x".to_owned(), Tensor::scalar(3.0))]);
        let results = interp::run(&observed, &fed, &[]).unwrap().results;
        assert_eq!(results, [Tensor::scalar(9.0), Tensor::scalar(3.0)]);
        fed.insert("frozen/0".to_owned(), results[1].clone());
        fed.insert("x".to_owned(), Tensor::scalar(4.0));
        let results = interp::run(&frozen, &fed, &[]).unwrap().results;
        assert_eq!(results, [Tensor::scalar(12.0)]);
    }
}
