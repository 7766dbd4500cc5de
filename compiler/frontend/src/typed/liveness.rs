//! Liveness: which nodes of a program values depend on.

use std::collections::BTreeSet;

use crate::typed::{Input, Node, NodeKind, Operand, Program, ValueId};

impl Program {
    /// The program of these values alone, without dead nodes. Writes are dead.
    pub fn pruned(&self, values: impl IntoIterator<Item = ValueId>) -> Program {
        let live = self.live_nodes(values);
        let nodes = self.nodes.iter().zip(live);
        Program {
            values: self.values.clone(),
            calls: Vec::new(),
            nodes: (nodes
                .filter(|(_, live)| *live)
                .map(|(node, _)| node.clone()))
            .collect(),
        }
    }

    /// The names of the features or inputs that values depend on (backward reachability).
    pub fn inputs_of(&self, values: impl IntoIterator<Item = ValueId>) -> BTreeSet<String> {
        let live = self.live_nodes(values);
        let nodes = self.nodes.iter().zip(live).filter(|(_, live)| *live);
        let named = nodes.filter_map(|(node, _)| match &node.kind {
            NodeKind::Input(Input::Named(name)) => Some(name.clone()),
            _ => None,
        });
        named.collect()
    }

    /// Whether it draws random numbers.
    pub fn is_random(&self) -> bool {
        draws(&self.nodes)
    }

    /// Which of its nodes values depend on.
    fn live_nodes(&self, values: impl IntoIterator<Item = ValueId>) -> Vec<bool> {
        let mut live: BTreeSet<ValueId> = values.into_iter().collect();
        let mut nodes = vec![false; self.nodes.len()];
        for (node, is_live) in self.nodes.iter().zip(&mut nodes).rev() {
            if node.results.iter().any(|result| live.contains(&result)) {
                *is_live = true;
                mark_operands(node, &mut live);
            }
        }
        nodes
    }
}

fn draws(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match &node.kind {
        NodeKind::Op { op, .. } => op.random,
        NodeKind::Scan(scan) => draws(&scan.body),
        _ => false,
    })
}

fn mark_operands(node: &Node, live: &mut BTreeSet<ValueId>) {
    match &node.kind {
        NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Step | NodeKind::Read(_) => {}
        NodeKind::Write(_, value) => {
            live.insert(*value);
        }
        NodeKind::Op { operands, .. } => {
            for operand in operands {
                match operand {
                    Operand::Value(value) => {
                        live.insert(*value);
                    }
                    Operand::Values(values) => live.extend(values),
                    Operand::Attr(_) => {}
                }
            }
        }
        NodeKind::Scan(scan) => {
            live.extend(scan.over.iter().chain(&scan.starts));
            live.extend(scan.nexts.iter().chain(&scan.yields));
            // A body may use values from outside.
            for node in scan.body.iter().rev() {
                mark_operands(node, live);
            }
        }
        NodeKind::Grad { y, wrt, seed } => {
            live.insert(*y);
            live.extend(wrt.iter().chain(seed));
        }
        NodeKind::Hessian { y, wrt } => live.extend([*y, *wrt]),
    }
}
