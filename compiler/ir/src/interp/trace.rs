//! Where a value that is not finite comes from: a graph is interpreted, and the way back from a failed check is followed.
//!
//! In: a graph with a failed check, its inputs and state. Out: the first value on the way that is not finite: an input, a state variable,
//! a constant, or the result of a node whose operands are all finite. Values that are not finite, but lead to finite ones, are no cause:
//! a mask of -infinity, say. Of the values only their flaws are kept, so it takes the memory of a run of the interpreter.

use std::collections::BTreeMap;

use ndarray::{ArcArray, Axis, IxDyn};

use crate::graph::{Eval, Graph, Node, NodeKind, ValueId};
use crate::interp::{Array, RunError, run};
use crate::ops::prims;
use crate::passes;
use crate::span::Span;
use crate::tensor::Tensor;
use crate::types::DType;

/// A value that is not finite, and its first element that is not.
#[derive(Debug, Clone, PartialEq)]
pub struct Flaw {
    /// Whether the element is NaN; else it is infinite, and none is NaN.
    pub is_nan: bool,
    /// The indices of the element.
    pub element: Vec<usize>,
    /// The type of the element.
    pub dtype: DType,
    /// The operands at that element, where the operation is elementwise.
    pub operands: Vec<f64>,
    /// Which indices of the first dimension are to blame; `None` where all are.
    pub rows: Option<FlawedRows>,
    /// The expression that computes it.
    pub span: Span,
}

/// The indices of the first dimension of a value that is not finite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlawedRows {
    /// The size of the dimension.
    pub size: usize,
    /// Those with elements that are not finite.
    pub flawed: Vec<usize>,
    /// The first whose elements are all finite.
    pub finite: usize,
}

/// The first value that is not finite on the way to another.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstNotFinite {
    /// What it is.
    pub source: FlawSource,
    /// Its element that is not finite.
    pub flaw: Flaw,
}

/// What a first value that is not finite is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlawSource {
    /// An input of that name.
    Input(String),
    /// A state variable of that name.
    State(String),
    /// A constant.
    Constant,
    /// The result of an operation on finite operands.
    Operation(&'static str),
}

/// The flaws of the values of a graph, and of the body of the last scan.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// How many scans are being run, one in another.
    pub(super) depth: usize,
    flaws: Vec<Option<Flaw>>,
    /// The first node in the body of the scan being run that makes a flaw of finite operands.
    body: Option<(&'static str, Flaw)>,
    /// That of each scan, by its first result.
    bodies: BTreeMap<usize, (&'static str, Flaw)>,
}

impl Trace {
    /// Takes note of the results of a node. `flawed` says which values of the graph that is being run are not finite.
    pub(super) fn node(
        &mut self,
        graph: &Graph,
        node: &Node,
        operands: &[Array],
        results: &[Array],
        flawed: &mut [bool],
    ) {
        let clean = node.operands.iter().all(|v| !flawed[v.index()]);
        for (id, value) in node.results.iter().zip(results) {
            let mut flaw = flaw(value, graph.ty(*id).dtype, node.span);
            if let (Some(flaw), NodeKind::Prim(prim, _), true) = (&mut flaw, &node.kind, clean)
                && is_elementwise(&prim.eval)
            {
                flaw.operands = elements(operands, &flaw.element);
            }
            flawed[id.index()] = flaw.is_some();
            if self.depth == 0 {
                let len = self.flaws.len().max(id.index() + 1);
                self.flaws.resize(len, None);
                self.flaws[id.index()] = flaw;
            } else if let (NodeKind::Prim(prim, _), Some(flaw), true) = (&node.kind, flaw, clean) {
                self.body.get_or_insert((prim.name, flaw));
            }
        }
        if self.depth == 0 && matches!(node.kind, NodeKind::Scan(_)) {
            let body = self.body.take();
            self.bodies
                .extend(node.results.first().map(|v| v.index()).zip(body));
        }
    }

    /// Follows the flaws from a value back to the first.
    fn first(&self, graph: &Graph, value: ValueId) -> Option<FirstNotFinite> {
        let flaw = |v: ValueId| self.flaws.get(v.index())?.clone();
        let (mut value, mut found) = (value, flaw(value)?);
        loop {
            let node = graph.nodes.iter().find(|n| n.results.contains(&value))?;
            // NaN rather than infinite, and then the earliest.
            let flawed = node.operands.iter();
            let flawed = flawed.filter_map(|v| Some((*v, flaw(*v)?)));
            let next = flawed.min_by_key(|(v, flaw)| (!flaw.is_nan, v.index()));
            let Some(next) = next else {
                let first = node.results.first().map_or(0, |v| v.index());
                return Some(self.source(graph, node, first, found));
            };
            (value, found) = next;
        }
    }

    fn source(&self, graph: &Graph, node: &Node, first: usize, flaw: Flaw) -> FirstNotFinite {
        let (source, flaw) = match &node.kind {
            NodeKind::Input(name) => (FlawSource::Input(name.clone()), flaw),
            NodeKind::Read(id) => {
                let name = graph.state[id.index()].name.clone();
                (FlawSource::State(name), flaw)
            }
            NodeKind::Const(_) => (FlawSource::Constant, flaw),
            NodeKind::Prim(prim, _) => (FlawSource::Operation(prim.name), flaw),
            NodeKind::Scan(_) => match self.bodies.get(&first) {
                Some((name, flaw)) => (FlawSource::Operation(name), flaw.clone()),
                None => (FlawSource::Operation("scan"), flaw),
            },
        };
        FirstNotFinite { source, flaw }
    }
}

/// The first element of an array that is NaN, else the first that is infinite.
fn flaw(array: &Array, dtype: DType, span: Span) -> Option<Flaw> {
    let Array::Float(a) = array else {
        return None;
    };
    let position = |is: fn(&f64) -> bool| a.iter().position(is);
    let nan = position(|x| x.is_nan());
    let at = nan.or_else(|| position(|x| x.is_infinite()))?;
    let mut element = vec![0; a.ndim()];
    let mut left = at;
    for (index, size) in element.iter_mut().zip(a.shape()).rev() {
        (*index, left) = (left % size, left / size);
    }
    Some(Flaw {
        is_nan: nan.is_some(),
        element,
        dtype,
        operands: Vec::new(),
        rows: flawed_rows(a),
        span,
    })
}

fn flawed_rows(a: &ArcArray<f64, IxDyn>) -> Option<FlawedRows> {
    let size = *a.shape().first()?;
    let is_finite = |row: &usize| {
        let row = a.index_axis(Axis(0), *row);
        row.iter().all(|x| x.is_finite())
    };
    let (finite, flawed): (Vec<usize>, Vec<usize>) = (0..size).partition(is_finite);
    Some(FlawedRows {
        size,
        flawed,
        finite: *finite.first()?,
    })
}

fn is_elementwise(eval: &Eval) -> bool {
    matches!(
        eval,
        Eval::Float1(_) | Eval::Float2(_) | Eval::Number1(..) | Eval::Number2(..)
    )
}

/// The numbers of an element of all operands; none where one holds no numbers.
fn elements(operands: &[Array], element: &[usize]) -> Vec<f64> {
    let at = |operand: &Array| match operand {
        Array::Float(a) => a.get(element).copied(),
        Array::Int(a) => a.get(element).map(|n| *n as f64),
        Array::Bool(_) => None,
    };
    let all: Option<Vec<f64>> = operands.iter().map(at).collect();
    all.unwrap_or_default()
}

/// The graph of what a check looks at, and nothing else; `None` where no result of that name is a check.
///
/// ```
/// use std::collections::BTreeMap;
/// use trainspec_ir::interp::{self, FlawSource};
/// use trainspec_ir::{DType, Tensor, build::Builder, graph::Type};
///
/// let b = Builder::new("step");
/// let x = b.input("x", &Type::new(DType::F32, &[2]));
/// b.result("check/loss", x.log().sum(&[0]).check_finite("loss"));
/// let graph = interp::checked_part(b.finish(), "check/loss").unwrap();
/// let inputs = BTreeMap::from([("x".to_owned(), Tensor::new(&[2], vec![1.0_f32, -1.0]))]);
/// let first = interp::first_not_finite(&graph, &inputs, &[]).unwrap().unwrap();
/// assert_eq!(first.source, FlawSource::Operation("log"));
/// assert_eq!((first.flaw.is_nan, first.flaw.element), (true, vec![1]));
/// assert_eq!((first.flaw.operands, first.flaw.rows.unwrap().flawed), (vec![-1.0], vec![1]));
/// ```
pub fn checked_part(mut graph: Graph, check: &str) -> Option<Graph> {
    let (_, result) = graph.results.iter().find(|(name, _)| name == check)?;
    let node = graph.nodes.iter().find(|n| n.results.contains(result))?;
    let value = match &node.kind {
        NodeKind::Prim(prim, _) if **prim == prims::CHECK_FINITE => node.operands[0],
        _ => return None,
    };
    graph.results = vec![(check.to_owned(), value)];
    graph.writes.clear();
    let dead = passes::find("drop-dead-nodes").expect("there is such a pass");
    Some((dead.run)(graph))
}

/// Interprets a graph, and gives the first value that is not finite on the way to its first result; `None` where that is finite.
///
/// `state` holds the value of each state variable of the graph, in order.
pub fn first_not_finite(
    graph: &Graph,
    inputs: &BTreeMap<String, Tensor>,
    state: &[Tensor],
) -> Result<Option<FirstNotFinite>, RunError> {
    let mut trace = Trace::default();
    run::run_traced(graph, inputs, state, Some(&mut trace))?;
    let result = graph.results.first();
    Ok(result.and_then(|(_, value)| trace.first(graph, *value)))
}
