//! Reverse-mode automatic differentiation (autodiff), graph to graph.
//!
//! In: a graph under construction, values to differentiate and values with respect to which. Out: nodes appended to the same
//! graph that compute the gradients. The rules are the primitives' vector-Jacobian products (VJPs), and they append
//! primitives, so a gradient can be differentiated again. Activity analysis first finds the nodes on a path from an x to a y.
//!
//! Gradients of row lookups stay sparse ([`IndexedSlices`]) until something needs them dense.

mod concat;
mod hessian;
mod scan;
mod sparse;

pub use sparse::IndexedSlices;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::build::{Builder, Value};
use crate::graph::{Attr, Attrs, Gradient, Graph, Node, NodeKind, Prim, ValueId};
use crate::ops::prims;

/// A cotangent (adjoint): the gradient with respect to one value.
#[derive(Debug, Clone, Copy)]
pub enum Cotangent<'g> {
    /// One number for each element.
    Dense(Value<'g>),
    /// Zero but for some rows: a sparse gradient.
    Sparse(IndexedSlices<'g>),
}

impl<'g> From<Value<'g>> for Cotangent<'g> {
    fn from(value: Value<'g>) -> Cotangent<'g> {
        Cotangent::Dense(value)
    }
}

impl<'g> Cotangent<'g> {
    /// The dense gradient.
    pub fn dense(self) -> Value<'g> {
        match self {
            Cotangent::Dense(value) => value,
            Cotangent::Sparse(rows) => rows.dense(),
        }
    }
}

/// A use of a primitive, as its VJP sees it.
#[derive(Debug)]
pub struct Backward<'g> {
    /// The graph.
    pub b: &'g Builder,
    /// The primitive.
    pub prim: &'static Prim,
    /// Its attributes.
    pub attrs: Attrs,
    /// Its operands.
    pub operands: Vec<Value<'g>>,
    /// Its results.
    pub results: Vec<Value<'g>>,
    /// The cotangent of each result; `None` where it is zero.
    pub cotangents: Vec<Option<Value<'g>>>,
    /// Which operands need a gradient.
    pub needs_grad: Vec<bool>,
}

impl<'g> Backward<'g> {
    /// An operand.
    pub fn x(&self, i: usize) -> Value<'g> {
        self.operands[i]
    }

    /// What the first operand of a `maximum` or `minimum` is compared with: the second operand, or the result where the first is a
    /// splat constant. The comparison is the same, and then the input of a `relu` need not live until the backward pass.
    pub(crate) fn comparand(&self) -> Value<'g> {
        match self.x(0).builder().splat(self.x(0)) {
            Some(_) => self.y(),
            None => self.x(1),
        }
    }

    /// The first result.
    pub fn y(&self) -> Value<'g> {
        self.results[0]
    }

    /// The cotangent of the first result.
    ///
    /// # Panics
    ///
    /// When it is zero, which a primitive with one result never sees.
    pub fn dy(&self) -> Value<'g> {
        self.cotangents[0].expect("a VJP is applied when a result has a cotangent")
    }

    /// The attributes, to pass them on.
    pub fn attrs(&self) -> Vec<Attr> {
        self.attrs.to_vec()
    }
}

/// The arguments of [`Builder::differentiate`], as those of `tf.gradients`.
#[derive(Debug, Clone, Default)]
pub struct Request<'g> {
    /// The values that are differentiated; their gradients add up.
    pub ys: Vec<Value<'g>>,
    /// The values with respect to which they are differentiated.
    pub xs: Vec<Value<'g>>,
    /// The cotangent of each y (`grad_ys`); ones where it is `None` or the list is shorter.
    pub seeds: Vec<Option<Value<'g>>>,
    /// Values through which no gradient adjoints.
    pub stop_gradients: Vec<Value<'g>>,
}

impl Builder {
    /// The gradient of the sum of all elements of `ys` with respect to each of `xs`; `None` where no path of floats leads
    /// from one to the other.
    pub fn gradients<'g>(
        &'g self,
        ys: &[Value<'g>],
        xs: &[Value<'g>],
    ) -> Vec<Option<Cotangent<'g>>> {
        self.differentiate(&Request {
            ys: ys.to_vec(),
            xs: xs.to_vec(),
            ..Request::default()
        })
    }

    /// The gradients that a request asks for; [`Builder::gradients`] with seeds and stopped values.
    ///
    /// # Panics
    ///
    /// When a seed has another type than its y.
    pub fn differentiate<'g>(&'g self, request: &Request<'g>) -> Vec<Option<Cotangent<'g>>> {
        let activity = Activity::analyse(self, request);
        let mut adjoints = Adjoints::default();
        for (i, y) in request.ys.iter().enumerate() {
            if !activity.is_active(y.id()) {
                continue;
            }
            let seed = request
                .seeds
                .get(i)
                .copied()
                .flatten()
                .unwrap_or_else(|| self.full(&y.ty(), 1.0));
            assert_eq!(seed.ty(), y.ty(), "a seed has the type of its y");
            adjoints.add(y.id(), seed.into());
        }
        let before = self.at(Default::default());
        for index in activity.nodes.iter().rev() {
            let node = self.node(*index);
            if !node.results.iter().any(|v| adjoints.has(*v)) {
                continue;
            }
            self.at(node.span);
            let passes = |v: &ValueId| !activity.stop_gradients.contains(v);
            let cotangents: Vec<Option<Cotangent<'g>>> = node
                .results
                .iter()
                .map(|v| adjoints.total(self, *v).filter(|_| passes(v)))
                .collect();
            if cotangents.iter().all(Option::is_none) {
                continue;
            }
            let needs_grad: Vec<bool> = node
                .operands
                .iter()
                .map(|v| activity.is_active(*v))
                .collect();
            if !needs_grad.contains(&true) {
                continue;
            }
            let operand_cotangents = vjp(self, *index, &node, &cotangents, &needs_grad);
            for ((operand, cotangent), needed) in
                node.operands.iter().zip(operand_cotangents).zip(needs_grad)
            {
                if let Some(cotangent) = cotangent.filter(|_| needed) {
                    adjoints.add(*operand, cotangent);
                }
            }
        }
        self.at(before);
        request
            .xs
            .iter()
            .map(|x| adjoints.total(self, x.id()))
            .collect()
    }
}

/// The vector-Jacobian product of a node: the cotangents of its operands.
fn vjp<'g>(
    b: &'g Builder,
    index: usize,
    node: &Node,
    cotangents: &[Option<Cotangent<'g>>],
    needs_grad: &[bool],
) -> Vec<Option<Cotangent<'g>>> {
    let dense = || {
        cotangents
            .iter()
            .map(|c| c.map(Cotangent::dense))
            .collect::<Vec<_>>()
    };
    match &node.kind {
        NodeKind::Prim(prim, attrs) => {
            let handles = |ids: &[ValueId]| ids.iter().map(|v| b.value(*v)).collect::<Vec<_>>();
            let backward = |cotangents| Backward {
                b,
                prim,
                attrs: attrs.clone(),
                operands: handles(&node.operands),
                results: handles(&node.results),
                cotangents,
                needs_grad: needs_grad.to_vec(),
            };
            if let (Some(Cotangent::Sparse(rows)), true) =
                (cotangents[0], prims::is_row_concat(prim, attrs))
            {
                return rows.split(&handles(&node.operands), needs_grad);
            }
            match &prim.gradient {
                Gradient::None => vec![None; needs_grad.len()],
                Gradient::Each(vjps) => {
                    assert_eq!(
                        vjps.len(),
                        needs_grad.len(),
                        "`{}` has a VJP for each operand",
                        prim.name
                    );
                    let backward = backward(dense());
                    let one = |(vjp, needed): (&Option<crate::graph::Vjp>, &bool)| {
                        vjp.filter(|_| *needed).map(|vjp| vjp(&backward).into())
                    };
                    vjps.iter().zip(needs_grad).map(one).collect()
                }
                Gradient::All(rule) => rule(&backward(dense())),
            }
        }
        NodeKind::Scan(_) => scan::vjp(b, index, node, &dense(), needs_grad),
        NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => Vec::new(),
    }
}

/// The cotangents of values, accumulated from their uses.
#[derive(Default)]
struct Adjoints<'g>(HashMap<ValueId, Vec<Cotangent<'g>>>);

impl<'g> Adjoints<'g> {
    fn add(&mut self, value: ValueId, cotangent: Cotangent<'g>) {
        self.0.entry(value).or_default().push(cotangent);
    }

    fn has(&self, value: ValueId) -> bool {
        self.0.contains_key(&value)
    }

    /// The cotangent of a value: the sum over its uses, which replaces the terms.
    fn total(&mut self, b: &'g Builder, value: ValueId) -> Option<Cotangent<'g>> {
        let terms = self.0.get_mut(&value)?;
        if terms.len() > 1 {
            *terms = vec![sum(b, terms)];
        }
        Some(terms[0])
    }
}

/// The sum of cotangents: sparse where all terms are.
fn sum<'g>(b: &'g Builder, terms: &[Cotangent<'g>]) -> Cotangent<'g> {
    let mut all = Vec::new();
    for term in terms {
        match term {
            Cotangent::Sparse(rows) => all.push(*rows),
            Cotangent::Dense(_) => {
                let dense: Vec<Value<'g>> = terms.iter().map(|term| term.dense()).collect();
                let tiled = concat::concatenated(b, &dense);
                return tiled.unwrap_or_else(|| b.sum_of(&dense)).into();
            }
        }
    }
    Cotangent::Sparse(IndexedSlices::sum(b, &all))
}

/// Activity analysis: the values on a path of floats from some x to some y.
struct Activity {
    /// Whether a value depends on an x.
    depends: Vec<bool>,
    /// The nodes to visit, in order.
    nodes: Vec<usize>,
    stop_gradients: HashSet<ValueId>,
}

impl Activity {
    fn analyse(b: &Builder, request: &Request<'_>) -> Activity {
        let stop_gradients = request
            .stop_gradients
            .iter()
            .map(|v| v.id())
            .collect::<HashSet<_>>();
        b.with_graph(|graph| {
            let first = request
                .xs
                .iter()
                .map(|x| b.defining_node(x.id()))
                .min()
                .unwrap_or(0);
            let last = request
                .ys
                .iter()
                .map(|y| b.defining_node(y.id()))
                .max()
                .map_or(0, |m| m + 1);
            let xs = request.xs.iter().map(|x| x.id());
            let (depends, nodes) = active_nodes(graph, first..last, xs, &stop_gradients);
            Activity {
                depends,
                nodes,
                stop_gradients,
            }
        })
    }

    fn is_active(&self, value: ValueId) -> bool {
        self.depends.get(value.index()).copied().unwrap_or(false)
    }
}

/// Which values depend on some of `xs` by a path of floats, and the nodes on such paths.
fn active_nodes(
    graph: &Graph,
    nodes: Range<usize>,
    xs: impl Iterator<Item = ValueId>,
    stop_gradients: &HashSet<ValueId>,
) -> (Vec<bool>, Vec<usize>) {
    let is_float = |v: ValueId| graph.ty(v).dtype.is_float();
    let mut depends = vec![false; graph.types.len()];
    for x in xs.filter(|x| is_float(*x)) {
        depends[x.index()] = true;
    }
    let mut active = Vec::new();
    for index in nodes {
        let node = &graph.nodes[index];
        let passes = match &node.kind {
            NodeKind::Prim(prim, _) => !matches!(prim.gradient, Gradient::None),
            NodeKind::Scan(_) => true,
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => false,
        };
        if passes && node.operands.iter().any(|v| depends[v.index()]) {
            active.push(index);
            for result in node
                .results
                .iter()
                .filter(|v| is_float(**v) && !stop_gradients.contains(v))
            {
                depends[result.index()] = true;
            }
        }
    }
    (depends, active)
}
