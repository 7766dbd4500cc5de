//! Reverse-mode differentiation, graph to graph.
//!
//! In: a graph in the making, values to differentiate and values with respect to which. Out: nodes appended to the same
//! graph that compute the gradients. The rules are those of the primitives, and they append primitives, so a gradient can
//! be differentiated again.
//!
//! Gradients of rows that were taken from a tensor stay sparse, as positions and rows, until something needs them whole.

mod hessian;
mod parts;
mod scan;
mod sparse;

pub use sparse::IndexedSlices;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::build::{Builder, Value};
use crate::graph::{Attr, Attrs, Gradient, Graph, Node, NodeKind, Prim, ValueId};
use crate::ops::prims;

/// A gradient.
#[derive(Debug, Clone, Copy)]
pub enum Cotangent<'g> {
    /// One number for each element.
    Dense(Value<'g>),
    /// Zero but for some rows.
    Sparse(IndexedSlices<'g>),
}

impl<'g> From<Value<'g>> for Cotangent<'g> {
    fn from(value: Value<'g>) -> Cotangent<'g> {
        Cotangent::Dense(value)
    }
}

impl<'g> Cotangent<'g> {
    /// The whole gradient.
    pub fn dense(self) -> Value<'g> {
        match self {
            Cotangent::Dense(value) => value,
            Cotangent::Sparse(rows) => rows.dense(),
        }
    }
}

/// A use of a primitive, as its gradient sees it.
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
    /// What flows into each result; `None` where nothing does.
    pub cotangents: Vec<Option<Value<'g>>>,
    /// Which operands need a gradient.
    pub wants: Vec<bool>,
}

impl<'g> Backward<'g> {
    /// An operand.
    pub fn x(&self, i: usize) -> Value<'g> {
        self.operands[i]
    }

    /// What the first operand of a greatest or least of two is compared with: the second, or the result where the first is one known
    /// number. The answer is the same, and then nobody needs to keep what came before a `relu`.
    pub(crate) fn rival(&self) -> Value<'g> {
        match self.x(0).builder().splat(self.x(0)) {
            Some(_) => self.y(),
            None => self.x(1),
        }
    }

    /// The first result.
    pub fn y(&self) -> Value<'g> {
        self.results[0]
    }

    /// What flows into the first result.
    ///
    /// # Panics
    ///
    /// When nothing does, which a primitive with one result never sees.
    pub fn dy(&self) -> Value<'g> {
        self.cotangents[0].expect("a rule is asked when something flows into a result")
    }

    /// The attributes, to pass them on.
    pub fn attrs(&self) -> Vec<Attr> {
        self.attrs.to_vec()
    }
}

/// What is differentiated, and how.
#[derive(Debug, Clone, Default)]
pub struct Request<'g> {
    /// The values that are differentiated; their gradients add up.
    pub ys: Vec<Value<'g>>,
    /// With respect to what.
    pub xs: Vec<Value<'g>>,
    /// What flows into each y; ones where it is `None` or the list is shorter.
    pub seeds: Vec<Option<Value<'g>>>,
    /// Values through which nothing flows back.
    pub stops: Vec<Value<'g>>,
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

    /// The same with all choices.
    ///
    /// # Panics
    ///
    /// When a seed has another type than its y.
    pub fn differentiate<'g>(&'g self, request: &Request<'g>) -> Vec<Option<Cotangent<'g>>> {
        let connected = Connected::find(self, request);
        let mut flows = Flows::default();
        for (i, y) in request.ys.iter().enumerate() {
            if !connected.is(y.id()) {
                continue;
            }
            let seed = request
                .seeds
                .get(i)
                .copied()
                .flatten()
                .unwrap_or_else(|| self.full(&y.ty(), 1.0));
            assert_eq!(
                seed.ty(),
                y.ty(),
                "a seed has the type of what it flows into"
            );
            flows.add(y.id(), seed.into());
        }
        let before = self.at(Default::default());
        for place in connected.places.iter().rev() {
            let node = self.node(*place);
            if !node.results.iter().any(|v| flows.has(*v)) {
                continue;
            }
            self.at(node.span);
            let passes = |v: &ValueId| !connected.stops.contains(v);
            let cotangents: Vec<Option<Cotangent<'g>>> = node
                .results
                .iter()
                .map(|v| flows.total(self, *v).filter(|_| passes(v)))
                .collect();
            if cotangents.iter().all(Option::is_none) {
                continue;
            }
            let wants: Vec<bool> = node.operands.iter().map(|v| connected.is(*v)).collect();
            if !wants.contains(&true) {
                continue;
            }
            let pulled = pull(self, *place, &node, &cotangents, &wants);
            for ((operand, cotangent), wanted) in node.operands.iter().zip(pulled).zip(wants) {
                if let Some(cotangent) = cotangent.filter(|_| wanted) {
                    flows.add(*operand, cotangent);
                }
            }
        }
        self.at(before);
        request
            .xs
            .iter()
            .map(|x| flows.total(self, x.id()))
            .collect()
    }
}

/// What flows to the operands of a node.
fn pull<'g>(
    b: &'g Builder,
    place: usize,
    node: &Node,
    cotangents: &[Option<Cotangent<'g>>],
    wants: &[bool],
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
                wants: wants.to_vec(),
            };
            if let (Some(Cotangent::Sparse(rows)), true) =
                (cotangents[0], prims::is_row_concat(prim, attrs))
            {
                return rows.split(&handles(&node.operands), wants);
            }
            match &prim.gradient {
                Gradient::None => vec![None; wants.len()],
                Gradient::Each(pulls) => {
                    assert_eq!(
                        pulls.len(),
                        wants.len(),
                        "`{}` has a rule for each operand",
                        prim.name
                    );
                    let backward = backward(dense());
                    let one = |(pull, wanted): (&Option<crate::graph::Vjp>, &bool)| {
                        pull.filter(|_| *wanted).map(|pull| pull(&backward).into())
                    };
                    pulls.iter().zip(wants).map(one).collect()
                }
                Gradient::All(rule) => rule(&backward(dense())),
            }
        }
        NodeKind::Scan(_) => scan::pull(b, place, node, &dense(), wants),
        NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => Vec::new(),
    }
}

/// What flows into values, collected.
#[derive(Default)]
struct Flows<'g>(HashMap<ValueId, Vec<Cotangent<'g>>>);

impl<'g> Flows<'g> {
    fn add(&mut self, value: ValueId, cotangent: Cotangent<'g>) {
        self.0.entry(value).or_default().push(cotangent);
    }

    fn has(&self, value: ValueId) -> bool {
        self.0.contains_key(&value)
    }

    /// The sum of what flows into a value, which is kept in its place.
    fn total(&mut self, b: &'g Builder, value: ValueId) -> Option<Cotangent<'g>> {
        let parts = self.0.get_mut(&value)?;
        if parts.len() > 1 {
            *parts = vec![sum(b, parts)];
        }
        Some(parts[0])
    }
}

/// The sum of gradients: rows stay rows where all are.
fn sum<'g>(b: &'g Builder, parts: &[Cotangent<'g>]) -> Cotangent<'g> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Cotangent::Sparse(rows) => all.push(*rows),
            Cotangent::Dense(_) => {
                let dense: Vec<Value<'g>> = parts.iter().map(|p| p.dense()).collect();
                let joined = parts::joined(b, &dense);
                return joined.unwrap_or_else(|| b.sum_of(&dense)).into();
            }
        }
    }
    Cotangent::Sparse(IndexedSlices::sum(b, &all))
}

/// The values on a path of floats from some x to some y.
struct Connected {
    /// Whether a value depends on an x.
    depends: Vec<bool>,
    /// The nodes to visit, in order.
    places: Vec<usize>,
    stops: HashSet<ValueId>,
}

impl Connected {
    fn find(b: &Builder, request: &Request<'_>) -> Connected {
        let stops = request.stops.iter().map(|v| v.id()).collect::<HashSet<_>>();
        b.look(|graph| {
            let first = request
                .xs
                .iter()
                .map(|x| b.maker(x.id()))
                .min()
                .unwrap_or(0);
            let last = request
                .ys
                .iter()
                .map(|y| b.maker(y.id()))
                .max()
                .map_or(0, |m| m + 1);
            let xs = request.xs.iter().map(|x| x.id());
            let (depends, places) = dependent(graph, first..last, xs, &stops);
            Connected {
                depends,
                places,
                stops,
            }
        })
    }

    fn is(&self, value: ValueId) -> bool {
        self.depends.get(value.index()).copied().unwrap_or(false)
    }
}

/// Which values depend on some of `xs` by a path of floats, and the nodes on such paths.
fn dependent(
    graph: &Graph,
    nodes: Range<usize>,
    xs: impl Iterator<Item = ValueId>,
    stops: &HashSet<ValueId>,
) -> (Vec<bool>, Vec<usize>) {
    let is_float = |v: ValueId| graph.ty(v).dtype.is_float();
    let mut depends = vec![false; graph.types.len()];
    for x in xs.filter(|x| is_float(*x)) {
        depends[x.index()] = true;
    }
    let mut places = Vec::new();
    for place in nodes {
        let node = &graph.nodes[place];
        let passes = match &node.kind {
            NodeKind::Prim(prim, _) => !matches!(prim.gradient, Gradient::None),
            NodeKind::Scan(_) => true,
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => false,
        };
        if passes && node.operands.iter().any(|v| depends[v.index()]) {
            places.push(place);
            for result in node
                .results
                .iter()
                .filter(|v| is_float(**v) && !stops.contains(v))
            {
                depends[result.index()] = true;
            }
        }
    }
    (depends, places)
}
