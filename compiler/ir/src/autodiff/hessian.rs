//! The matrix of second derivatives.

use std::collections::HashMap;

use crate::autodiff::Request;
use crate::build::{Builder, Loop, Value};
use crate::graph::{Node, ValueId};

impl Builder {
    /// The second derivatives of the sum of `y` with respect to each pair of elements of `x`; the shape is that of `x`
    /// twice. `None` where `y` does not depend on `x`.
    ///
    /// It is a loop with one round for each element: the gradient of that element of the gradient.
    pub fn hessian<'g>(&'g self, y: Value<'g>, x: Value<'g>) -> Option<Value<'g>> {
        let slope = self.gradients(&[y], &[x]).remove(0)?.dense();
        let (ty, n) = (x.ty(), x.ty().elements());
        let shape = [&ty.shape[..], &ty.shape].concat();

        // The gradient of the gradient for a seed that is not known yet.
        let start = self.len();
        let seed = self.input("seed of a hessian", &ty);
        let request = Request {
            ys: vec![slope],
            xs: vec![x],
            seeds: vec![Some(seed)],
            stops: Vec::new(),
        };
        let row = self.differentiate(&request).remove(0).map(|c| c.dense());
        let tail = self.cut(start);
        let Some(row) = row else {
            return Some(self.full(&ty.with_shape(&shape), 0.0));
        };

        // What depends on the seed is done for each element, the rest once.
        let mut inside: HashMap<ValueId, usize> = HashMap::from([(seed.id(), 0)]);
        let mut nodes: Vec<Node> = Vec::new();
        let mut captures: Vec<Value<'g>> = Vec::new();
        for node in tail.into_iter().skip(1) {
            if !node.operands.iter().any(|v| inside.contains_key(v)) {
                self.put_back(node);
                continue;
            }
            inside.extend(node.results.iter().map(|v| (*v, nodes.len())));
            nodes.push(node);
        }
        let mut captured: HashMap<ValueId, usize> = HashMap::new();
        let ends = [row.id()];
        for value in nodes.iter().flat_map(|n| &n.operands).chain(&ends) {
            if !inside.contains_key(value) && !captured.contains_key(value) {
                captured.insert(*value, captures.len());
                captures.push(self.value(*value));
            }
        }
        let types = |node: &Node| {
            node.results
                .iter()
                .map(|v| self.value(*v).ty())
                .collect::<Vec<_>>()
        };
        let types: Vec<_> = nodes.iter().map(types).collect();
        let walk = Loop {
            length: n,
            captures,
            ..Loop::default()
        };
        let (_, rows) = self.scan(walk, |round| {
            let b = round.position.builder();
            let one = b
                .iota(n)
                .equal(round.position)
                .cast(ty.dtype)
                .reshape(&ty.shape);
            let mut map: HashMap<ValueId, Value<'_>> = HashMap::from([(seed.id(), one)]);
            map.extend(captured.iter().map(|(id, i)| (*id, round.captures[*i])));
            for (node, types) in nodes.iter().zip(types) {
                let operands: Vec<Value<'_>> = node.operands.iter().map(|v| map[v]).collect();
                let results = b.copy(node, &operands, types);
                map.extend(node.results.iter().copied().zip(results));
            }
            (Vec::new(), vec![map[&row.id()]])
        });
        Some(rows[0].reshape(&shape))
    }
}
