//! Interprets a graph, node by node; values are dropped after their last use.

use std::collections::BTreeMap;
use std::fmt;

use crate::graph::{Graph, Node, NodeKind, Scan, Type, ValueId};
use crate::interp::trace::Trace;
use crate::interp::{Array, EvalError, Evaluation, NotFinite};
use crate::span::Span;
use crate::tensor::Tensor;

/// What a run of a graph gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The results of the graph, in their order.
    pub results: Vec<Tensor>,
    /// The state after the step, for each variable that was written: its index among the graph's state and its value.
    pub writes: Vec<(usize, Tensor)>,
}

/// Why a run has no outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// What is wrong.
    pub message: String,
    /// The expression it comes from.
    pub span: Span,
    /// The value that is not finite, where that was checked.
    pub not_finite: Option<NotFinite>,
}

impl RunError {
    /// An error with its fact and the expression it comes from.
    pub fn new(message: impl Into<String>, span: Span) -> RunError {
        RunError::of(EvalError::new(message), span)
    }

    /// The error of an evaluation, with the expression it comes from.
    pub fn of(error: EvalError, span: Span) -> RunError {
        RunError {
            message: error.message,
            span,
            not_finite: error.not_finite,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunError {}

/// Runs a graph once.
///
/// `state` holds the value of each state variable of the graph, in order.
///
/// ```
/// use std::collections::BTreeMap;
/// use trainspec_ir::{DType, Tensor, build::Builder, graph::Type, interp};
///
/// let b = Builder::new("double");
/// let x = b.input("x", &Type::new(DType::F32, &[2]));
/// b.result("y", x + x);
/// let graph = b.finish();
///
/// let inputs = BTreeMap::from([("x".to_owned(), Tensor::new(&[2], vec![1.5_f32, 4.0]))]);
/// let outcome = interp::run(&graph, &inputs, &[]).unwrap();
/// assert_eq!(outcome.results[0].values::<f32>(), Some(&[3.0, 8.0][..]));
/// ```
pub fn run(
    graph: &Graph,
    inputs: &BTreeMap<String, Tensor>,
    state: &[Tensor],
) -> Result<Outcome, RunError> {
    run_traced(graph, inputs, state, None)
}

/// Runs a graph once, with a trace of the values that are not finite.
pub(super) fn run_traced(
    graph: &Graph,
    inputs: &BTreeMap<String, Tensor>,
    state: &[Tensor],
    trace: Option<&mut Trace>,
) -> Result<Outcome, RunError> {
    let check =
        |kind: String, expected: &Type, found: &Tensor, span: Span| match found.ty() == *expected {
            true => Ok(Array::of(found)),
            false => Err(RunError::new(
                format!("{kind} must be {expected}, but is {}", found.ty()),
                span,
            )),
        };
    let input = |name: &str, expected: &Type, span: Span| match inputs.get(name) {
        Some(tensor) => check(format!("input `{name}`"), expected, tensor, span),
        None => Err(RunError::new(format!("input `{name}` is missing"), span)),
    };
    let mut before = Vec::with_capacity(graph.state.len());
    for (i, variable) in graph.state.iter().enumerate() {
        let Some(tensor) = state.get(i) else {
            let message = format!("the value of `{}` is missing", variable.name);
            return Err(RunError::new(message, Span::default()));
        };
        before.push(check(
            format!("`{}`", variable.name),
            &variable.ty,
            tensor,
            Span::default(),
        )?);
    }
    let values = interpret(graph, &input, &before, trace)?;
    let value = |v: ValueId| {
        let array = values[v.index()].as_ref().expect("results live to the end");
        array.tensor(graph.ty(v).dtype)
    };
    Ok(Outcome {
        results: graph.results.iter().map(|(_, v)| value(*v)).collect(),
        writes: graph
            .writes
            .iter()
            .map(|w| (w.state.index(), value(w.value)))
            .collect(),
    })
}

/// The largest tensor that is allocated, in elements: 16 GiB of f64.
const MAX_TENSOR_ELEMENTS: usize = 1 << 31;

/// Rejects tensors whose allocation would abort the process instead of the run.
fn check_size(graph: &Graph, node: &Node) -> Result<(), RunError> {
    match node
        .results
        .iter()
        .map(|v| graph.ty(*v))
        .find(|ty| ty.elements() > MAX_TENSOR_ELEMENTS)
    {
        None => Ok(()),
        Some(ty) => {
            let message =
                format!("a tensor of {ty} is too large for the interpreter (2^31 elements)");
            Err(RunError::new(message, node.span))
        }
    }
}

/// Provides the value of an input: name, type, span.
type Inputs<'a> = dyn Fn(&str, &Type, Span) -> Result<Array, RunError> + 'a;

/// Computes the values of a graph, which are reference-counted by their uses: each is dropped after its last use.
fn interpret(
    graph: &Graph,
    inputs: &Inputs<'_>,
    state: &[Array],
    mut trace: Option<&mut Trace>,
) -> Result<Vec<Option<Array>>, RunError> {
    let mut flawed = vec![
        false;
        if trace.is_some() {
            graph.types.len()
        } else {
            0
        }
    ];
    let mut uses = vec![0_u32; graph.types.len()];
    let outputs = graph
        .results
        .iter()
        .map(|(_, v)| *v)
        .chain(graph.writes.iter().map(|w| w.value));
    for value in graph
        .nodes
        .iter()
        .flat_map(|n| n.operands.iter().copied())
        .chain(outputs)
    {
        uses[value.index()] += 1;
    }
    let mut values: Vec<Option<Array>> = vec![None; graph.types.len()];
    for node in &graph.nodes {
        check_size(graph, node)?;
        let operand = |v: &ValueId| {
            let value = values[v.index()].clone();
            value.expect("operands come before their uses")
        };
        let operands: Vec<Array> = node.operands.iter().map(operand).collect();
        let results = match &node.kind {
            NodeKind::Input(name) => vec![inputs(name, graph.ty(node.results[0]), node.span)?],
            NodeKind::Const(tensor) => vec![Array::of(tensor)],
            NodeKind::Read(id) => vec![state[id.index()].clone()],
            NodeKind::Prim(..) | NodeKind::Scan(_) => {
                evaluate(graph, node, &operands, trace.as_deref_mut())?
            }
        };
        if let Some(trace) = &mut trace {
            trace.node(graph, node, &operands, &results, &mut flawed);
        }
        drop(operands);
        for (id, value) in node.results.iter().zip(results) {
            debug_assert_eq!(
                value.shape(),
                graph.ty(*id).shape,
                "the shape that type inference of {:?} gives",
                node.kind
            );
            if uses[id.index()] > 0 {
                values[id.index()] = Some(value);
            }
        }
        for operand in &node.operands {
            uses[operand.index()] -= 1;
            if uses[operand.index()] == 0 {
                values[operand.index()] = None;
            }
        }
    }
    Ok(values)
}

fn evaluate(
    graph: &Graph,
    node: &Node,
    operands: &[Array],
    trace: Option<&mut Trace>,
) -> Result<Vec<Array>, RunError> {
    let results: Vec<Type> = node.results.iter().map(|v| graph.ty(*v).clone()).collect();
    match &node.kind {
        NodeKind::Prim(prim, attrs) => {
            let types: Vec<&Type> = node.operands.iter().map(|v| graph.ty(*v)).collect();
            let call = Evaluation {
                prim,
                operands,
                types: &types,
                results: &results,
                attrs,
            };
            let results = call.evaluate();
            results.map_err(|error| RunError::of(error, node.span))
        }
        NodeKind::Scan(scan) => run_scan(scan, operands, &results, trace),
        NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => {
            unreachable!("these have no operands")
        }
    }
}

/// Runs the iterations of a scan.
fn run_scan(
    scan: &Scan,
    operands: &[Array],
    results: &[Type],
    mut trace: Option<&mut Trace>,
) -> Result<Vec<Array>, RunError> {
    if let Some(trace) = &mut trace {
        trace.depth += 1;
    }
    let (captures, rest) = operands.split_at(scan.captures);
    let (starts, over) = rest.split_at(scan.carries);
    let mut carried = starts.to_vec();
    let yields = scan.body.results.len() - scan.carries;
    let mut yielded: Vec<Vec<Array>> = vec![Vec::with_capacity(scan.length); yields];
    for iteration in 0..scan.length {
        let position = if scan.reverse {
            scan.length - 1 - iteration
        } else {
            iteration
        };
        let mut inputs = captures.to_vec();
        inputs.append(&mut carried);
        inputs.extend(over.iter().map(|a| a.row(position)));
        inputs.push(ndarray::arr0(position as i64).into_dyn().into());
        let inputs = std::cell::RefCell::new(inputs.into_iter());
        let next = |_: &str, _: &Type, _: Span| {
            Ok(inputs
                .borrow_mut()
                .next()
                .expect("a body has as many inputs as its loop gives"))
        };
        let values = interpret(&scan.body, &next, &[], trace.as_deref_mut())?;
        let mut outcome = scan
            .body
            .results
            .iter()
            .map(|(_, v)| values[v.index()].clone().expect("results live to the end"));
        carried = outcome.by_ref().take(scan.carries).collect();
        for (all, one) in yielded.iter_mut().zip(outcome) {
            all.push(one);
        }
    }
    if let Some(trace) = &mut trace {
        trace.depth -= 1;
    }
    if scan.reverse {
        yielded.iter_mut().for_each(|all| all.reverse());
    }
    let stacked = yielded
        .iter()
        .zip(&results[scan.carries..])
        .map(|(rows, ty)| Array::stacked(rows, ty));
    Ok(carried.into_iter().chain(stacked).collect())
}
