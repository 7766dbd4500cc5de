//! Hessians: a loop of vector-Jacobian products of the gradient, one for each element (reverse over reverse).

use std::collections::HashMap;

use crate::autodiff::Request;
use crate::build::{Builder, Loop, Value};
use crate::graph::{Node, ValueId};

impl Builder {
    /// The Hessian of the sum of `y`: its second derivatives with respect to each pair of elements of `x`; the shape is that of
    /// `x` twice. `None` where `y` does not depend on `x`.
    ///
    /// It is a loop with one iteration for each element: the gradient of that element of the gradient, seeded with a unit vector.
    pub fn hessian<'g>(&'g self, y: Value<'g>, x: Value<'g>) -> Option<Value<'g>> {
        let gradient = self.gradients(&[y], &[x]).remove(0)?.dense();
        let (ty, n) = (x.ty(), x.ty().elements());
        let shape = [&ty.shape[..], &ty.shape].concat();

        // The VJP of the gradient for a seed that the loop will provide.
        let start = self.len();
        let seed = self.input("seed of a hessian", &ty);
        let request = Request {
            ys: vec![gradient],
            xs: vec![x],
            seeds: vec![Some(seed)],
            stop_gradients: Vec::new(),
        };
        let row = self.differentiate(&request).remove(0).map(|c| c.dense());
        let tail = self.split_off(start);
        let Some(row) = row else {
            return Some(self.full(&ty.with_shape(&shape), 0.0));
        };

        // What depends on the seed becomes the loop body; loop-invariant nodes are hoisted.
        let mut inside: HashMap<ValueId, usize> = HashMap::from([(seed.id(), 0)]);
        let mut nodes: Vec<Node> = Vec::new();
        let mut captures: Vec<Value<'g>> = Vec::new();
        for node in tail.into_iter().skip(1) {
            if !node.operands.iter().any(|v| inside.contains_key(v)) {
                self.reinsert(node);
                continue;
            }
            inside.extend(node.results.iter().map(|v| (*v, nodes.len())));
            nodes.push(node);
        }
        let mut captured: HashMap<ValueId, usize> = HashMap::new();
        let outputs = [row.id()];
        for value in nodes.iter().flat_map(|n| &n.operands).chain(&outputs) {
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
        let spec = Loop {
            length: n,
            captures,
            ..Loop::default()
        };
        let (_, rows) = self.scan(spec, |iteration| {
            let b = iteration.position.builder();
            let unit = b
                .iota(n)
                .equal(iteration.position)
                .cast(ty.dtype)
                .reshape(&ty.shape);
            let mut map: HashMap<ValueId, Value<'_>> = HashMap::from([(seed.id(), unit)]);
            map.extend(captured.iter().map(|(id, i)| (*id, iteration.captures[*i])));
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
