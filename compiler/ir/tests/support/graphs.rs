//! Test fixture: graphs of one operation on fed inputs, run by the interpreter.

use std::collections::{BTreeMap, HashSet};

use trainspec_ir::autodiff::Request;
use trainspec_ir::build::{Builder, CallArg, Value};
use trainspec_ir::graph::{Node, Type, ValueId, verify};
use trainspec_ir::interp;
use trainspec_ir::ops::{Arg, RuleError, find};
use trainspec_ir::{DType, Size, Tensor};

/// A named argument.
pub(crate) type Named<'g> = (&'static str, CallArg<'g>);

/// Applies an operation; parameters that are not named have their defaults.
pub(crate) fn try_call<'g>(
    b: &'g Builder,
    op: &str,
    named: &[Named<'g>],
) -> Result<Vec<Value<'g>>, RuleError> {
    let op = find(op).unwrap_or_else(|| panic!("no operation `{op}`"));
    let known = |name: &str| op.params.iter().any(|p| p.name == name);
    assert!(named.iter().all(|(name, _)| known(name)), "{}", op.name);
    let given: Vec<CallArg<'g>> = op
        .params
        .iter()
        .map(|p| match named.iter().find(|(name, _)| *name == p.name) {
            Some((_, given)) => given.clone(),
            None => CallArg::Known(p.default_arg().expect(p.name)),
        })
        .collect();
    b.call(op, &given, "")
}

/// The first result of an operation.
pub(crate) fn call<'g>(b: &'g Builder, op: &str, named: &[Named<'g>]) -> Value<'g> {
    calls(b, op, named)[0]
}

/// The results of an operation.
pub(crate) fn calls<'g>(b: &'g Builder, op: &str, named: &[Named<'g>]) -> Vec<Value<'g>> {
    try_call(b, op, named).unwrap_or_else(|e| panic!("`{op}`: {e:?}"))
}

pub(crate) fn int<'g>(n: i64) -> CallArg<'g> {
    CallArg::Known(Arg::Int(Size::fixed(n)))
}

pub(crate) fn ints<'g>(list: &[i64]) -> CallArg<'g> {
    CallArg::Known(Arg::Ints(list.iter().map(|n| Size::fixed(*n)).collect()))
}

pub(crate) fn float<'g>(x: f64) -> CallArg<'g> {
    CallArg::Known(Arg::Float(x))
}

pub(crate) fn word<'g>(w: &str) -> CallArg<'g> {
    CallArg::Known(Arg::Word(w.to_owned()))
}

pub(crate) fn pairs<'g>(list: &[(i64, i64)]) -> CallArg<'g> {
    let pair = |(a, b): &(i64, i64)| (Size::fixed(*a), Size::fixed(*b));
    CallArg::Known(Arg::Pairs(list.iter().map(pair).collect()))
}

/// An f64 tensor.
pub(crate) fn f64s(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::new(shape, values.to_vec())
}

/// An f64 tensor of 1, 2, 3, …
pub(crate) fn counting(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::new(shape, (1..=n).map(|i| i as f64).collect())
}

/// An i32 tensor.
pub(crate) fn i32s(shape: &[usize], values: &[i32]) -> Tensor {
    Tensor::new(shape, values.to_vec())
}

/// A boolean tensor, from 0 and 1.
pub(crate) fn bools(shape: &[usize], values: &[u8]) -> Tensor {
    Tensor::new(shape, values.iter().map(|n| *n == 1).collect())
}

/// The feeds of a graph.
#[derive(Default)]
pub(crate) struct Feed(std::cell::RefCell<BTreeMap<String, Tensor>>);

impl Feed {
    pub(crate) fn input<'g>(&self, b: &'g Builder, tensor: Tensor) -> Value<'g> {
        let name = format!("x{}", self.0.borrow().len());
        let value = b.input(&name, &tensor.ty());
        self.0.borrow_mut().insert(name, tensor);
        value
    }

    /// An input whose leading dimension has a run-time count.
    pub(crate) fn counted<'g>(&self, b: &'g Builder, tensor: Tensor, count: i64) -> Value<'g> {
        let name = format!("x{}", self.0.borrow().len());
        let mut ty = tensor.ty().tensor_type();
        ty.shape.0[0].count = Some(trainspec_ir::Count(name.as_str().into()));
        let value = b.counted_input(&name, &ty);
        let mut fed = self.0.borrow_mut();
        fed.insert(format!("{name}#count"), Tensor::scalar(count));
        fed.insert(name, tensor);
        value
    }

    /// Runs the graph to fetch some of its values, after dead-code elimination.
    pub(crate) fn run(&self, b: &Builder, fetches: &[Value<'_>]) -> Result<Vec<Tensor>, String> {
        let mut graph = b.with_graph(Clone::clone);
        graph.results = fetches.iter().map(|v| (String::new(), v.id())).collect();
        let mut live: HashSet<ValueId> = fetches.iter().map(|v| v.id()).collect();
        let mut kept: Vec<Node> = Vec::new();
        for node in graph.nodes.into_iter().rev() {
            if node.results.iter().any(|v| live.contains(v)) {
                live.extend(&node.operands);
                kept.push(node);
            }
        }
        kept.reverse();
        graph.nodes = kept;
        verify(&graph).map_err(|e| e.to_string())?;
        let outcome = interp::run(&graph, &self.0.borrow(), &[]);
        outcome.map(|o| o.results).map_err(|e| e.message)
    }

    /// The elements of one value.
    pub(crate) fn f64s(&self, b: &Builder, value: Value<'_>) -> Vec<f64> {
        self.run(b, &[value]).expect("a run")[0].to_f64s()
    }

    /// The error message of the run that fetches a value.
    pub(crate) fn error(&self, b: &Builder, value: Value<'_>) -> String {
        self.run(b, &[value]).expect_err("an error")
    }
}

/// The dense gradient of Σ y with respect to x.
pub(crate) fn gradient<'g>(b: &'g Builder, y: Value<'g>, x: Value<'g>) -> Value<'g> {
    let gradient = b.gradients(&[y], &[x]).remove(0);
    gradient.expect("y depends on x").dense()
}

/// The gradient of Σ w y, w being 1, 2, 3, …, with respect to x.
pub(crate) fn weighted_gradient<'g>(b: &'g Builder, y: Value<'g>, x: Value<'g>) -> Value<'g> {
    let weights = b.constant(counting(&y.shape()));
    gradient(b, y * weights, x)
}

/// The type of a value of f64.
pub(crate) fn shaped(shape: &[usize]) -> Type {
    Type::new(DType::F64, shape)
}

/// The gradient of Σ w y, given w, with respect to x.
pub(crate) fn seeded<'g>(b: &'g Builder, y: Value<'g>, x: Value<'g>, weights: &[f64]) -> Value<'g> {
    let seed = b.constant(f64s(&y.shape(), weights));
    let request = Request {
        ys: vec![y],
        xs: vec![x],
        seeds: vec![Some(seed)],
        stop_gradients: Vec::new(),
    };
    let gradient = b.differentiate(&request).remove(0);
    gradient.expect("y depends on x").dense()
}
