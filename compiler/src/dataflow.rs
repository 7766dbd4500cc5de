//! The data flow of a typed program: which node makes a value, and which values a node reads.
//!
//! In: a typed program. Out: the values that a value depends on. Leaves alone: state writes, which make no value.

use std::ops::Range;

use crate::typed::{Node, NodeKind, Operand, Program, ValueId, VarId};

/// The nodes of a program by the values that they make. A loop is one node, with what its body reads.
pub(crate) struct Dataflow<'p> {
    /// The node that makes each value, where it is one of the program itself.
    producers: Vec<Option<&'p Node>>,
    /// The variables that the program reads, each with the value that it is read as, in the order of values.
    reads: Vec<(ValueId, VarId)>,
}

impl<'p> Dataflow<'p> {
    pub(crate) fn new(program: &'p Program) -> Dataflow<'p> {
        let mut flow = Dataflow {
            producers: vec![None; program.values.len()],
            reads: Vec::new(),
        };
        for node in &program.nodes {
            for value in node.results.iter() {
                flow.producers[value.0 as usize] = Some(node);
            }
        }
        flow.collect_reads(&program.nodes);
        flow.reads.sort();
        flow
    }

    fn collect_reads(&mut self, nodes: &[Node]) {
        for node in nodes {
            match &node.kind {
                NodeKind::Read(variable) => self.reads.push((node.results.first, *variable)),
                NodeKind::Scan(scan) => self.collect_reads(&scan.body),
                _ => {}
            }
        }
    }

    /// The node that makes a value.
    pub(crate) fn producer(&self, value: ValueId) -> Option<&'p Node> {
        self.producers.get(value.0 as usize).copied().flatten()
    }

    /// The variables that are read as one of these values.
    pub(crate) fn variables(&self, values: &Range<u32>) -> impl Iterator<Item = VarId> {
        let at = |id: u32| self.reads.partition_point(|(value, _)| value.0 < id);
        let own = &self.reads[at(values.start)..at(values.end)];
        own.iter().map(|(_, variable)| *variable)
    }

    /// For each value of the program whether some of the roots depend on it.
    pub(crate) fn ancestors(&self, roots: impl IntoIterator<Item = ValueId>) -> Vec<bool> {
        let mut reached = vec![false; self.producers.len()];
        let mut open: Vec<ValueId> = roots.into_iter().collect();
        while let Some(value) = open.pop() {
            let seen = &mut reached[value.0 as usize];
            if !std::mem::replace(seen, true)
                && let Some(node) = self.producer(value)
            {
                open.extend(operands(node));
            }
        }
        reached
    }
}

/// The values that a node reads; of a loop also those that its body reads.
pub(crate) fn operands(node: &Node) -> Vec<ValueId> {
    match &node.kind {
        NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Step | NodeKind::Read(_) => Vec::new(),
        NodeKind::Write(_, value) => vec![*value],
        NodeKind::Op { operands, .. } => {
            let mut values = Vec::new();
            for operand in operands {
                match operand {
                    Operand::Value(value) => values.push(*value),
                    Operand::Values(all) => values.extend(all),
                    Operand::Attr(_) => {}
                }
            }
            values
        }
        NodeKind::Grad { y, wrt, seed } => {
            let all = [*y].into_iter().chain(wrt.iter().copied());
            all.chain(*seed).collect()
        }
        NodeKind::Hessian { y, wrt } => vec![*y, *wrt],
        NodeKind::Scan(scan) => {
            let outer = scan.over.iter().chain(&scan.starts).copied();
            outer.chain(scan.body.iter().flat_map(operands)).collect()
        }
    }
}
