//! Vectorization over records (`vmap`): a graph of one record as a graph of a block of records.
//!
//! In: a graph that computes values of one record, and writes no state. Out: the graph of `rows` records: inputs and results have the
//! records as a new first dimension, and state that is read is an input, too. Elementwise operations and data movement are widened. A
//! graph with anything else (sums, products, random draws) becomes one scan over the records, so that the bits of a record never depend
//! on the block it is in.
//! Leaves alone: shared inputs, which all records have in common.

use crate::build::{Builder, Loop, Value, body_inputs};
use crate::graph::{Attr, Attrs, Eval, Graph, Node, NodeKind, Prim, Type};

/// Vectorizes a graph over `rows` records.
///
/// # Panics
///
/// When it writes state.
///
/// ```
/// use trainspec_ir::{DType, build::Builder, graph::Type, vectorize::vectorize};
///
/// let b = Builder::new("map");
/// let x = b.input("x", &Type::new(DType::F32, &[3]));
/// b.result("value", x * 2.0);
/// let block = vectorize(&b.finish(), 8, &[]);
/// assert_eq!(block.ty(block.result("value").unwrap()).to_string(), "f32[8, 3]");
/// ```
pub fn vectorize(graph: &Graph, rows: usize, shared: &[&str]) -> Graph {
    assert!(graph.writes.is_empty(), "a record writes no state");
    widen(graph, rows, shared).unwrap_or_else(|| scan(graph, rows, shared))
}

/// A value of the block.
#[derive(Clone, Copy)]
enum Widened<'g> {
    /// One for all records.
    Shared(Value<'g>),
    /// One for each record, stacked.
    Stacked(Value<'g>),
}

/// The name of an input or of state that is read, if the node is one.
fn input_name<'a>(graph: &'a Graph, node: &'a Node) -> Option<&'a str> {
    match &node.kind {
        NodeKind::Input(name) => Some(name),
        NodeKind::Read(state) => Some(&graph.state[state.index()].name),
        NodeKind::Const(_) | NodeKind::Prim(..) | NodeKind::Scan(_) => None,
    }
}

fn stacked_type(ty: &Type, rows: usize) -> Type {
    ty.with_shape(&prepended(rows, &ty.shape))
}

fn prepended(first: usize, rest: &[usize]) -> Vec<usize> {
    [&[first], rest].concat()
}

/// The graph with every operation widened; `None` where one cannot be without changing its bits.
fn widen(graph: &Graph, rows: usize, shared: &[&str]) -> Option<Graph> {
    let b = Builder::new(&graph.name);
    let mut values: Vec<Option<Widened<'_>>> = vec![None; graph.types.len()];
    for node in &graph.nodes {
        let operands = node.operands.iter();
        let operands: Vec<Widened<'_>> = operands
            .map(|v| values[v.index()].expect("a value is defined before it is used"))
            .collect();
        let before = b.at(node.span);
        let ty = || graph.ty(node.results[0]);
        let results = match (&node.kind, input_name(graph, node)) {
            (_, Some(name)) if shared.contains(&name) => {
                vec![Widened::Shared(b.input(name, ty()))]
            }
            (_, Some(name)) => vec![Widened::Stacked(b.input(name, &stacked_type(ty(), rows)))],
            (NodeKind::Const(tensor), None) => vec![Widened::Shared(b.constant(tensor.clone()))],
            (NodeKind::Prim(prim, attrs), None) => {
                let own: Option<Vec<Value<'_>>> = operands.iter().map(|v| v.shared()).collect();
                match own {
                    Some(own) => {
                        let results = b.prim(prim, &own, attrs.to_vec());
                        results.into_iter().map(Widened::Shared).collect()
                    }
                    None => {
                        let widened = widened(&b, prim, attrs, &operands, rows, ty())?;
                        vec![Widened::Stacked(widened)]
                    }
                }
            }
            (NodeKind::Scan(_) | NodeKind::Input(_) | NodeKind::Read(_), None) => return None,
        };
        b.at(before);
        for (id, value) in node.results.iter().zip(results) {
            values[id.index()] = Some(value);
        }
    }
    for (name, id) in &graph.results {
        let value = values[id.index()].expect("a result is defined");
        b.result(name, value.stacked(rows));
    }
    Some(b.finish())
}

impl<'g> Widened<'g> {
    fn shared(self) -> Option<Value<'g>> {
        match self {
            Widened::Shared(value) => Some(value),
            Widened::Stacked(_) => None,
        }
    }

    /// The value of each record, stacked.
    fn stacked(self, rows: usize) -> Value<'g> {
        match self {
            Widened::Shared(value) => value.broadcast(&prepended(rows, &value.shape())),
            Widened::Stacked(value) => value,
        }
    }
}

/// A primitive on the values of all records, at least one of which is not shared; `ty` is its result for one record.
fn widened<'g>(
    b: &'g Builder,
    prim: &'static Prim,
    attrs: &Attrs,
    operands: &[Widened<'g>],
    rows: usize,
    ty: &Type,
) -> Option<Value<'g>> {
    let stacked = |i: usize| operands[i].stacked(rows);
    let sizes = |i: usize| match &attrs[i] {
        Attr::Sizes(sizes) => sizes.as_slice(),
        _ => &[],
    };
    let with_first = |first: usize, i: usize| prepended(first, sizes(i));
    let is_exact = !ty.dtype.is_float();
    Some(match prim.name {
        _ if is_elementwise(prim) => {
            let operands: Vec<Value<'g>> = operands.iter().map(|v| v.stacked(rows)).collect();
            b.prim(prim, &operands, attrs.to_vec())[0]
        }
        "reshape" => stacked(0).reshape(&with_first(rows, 0)),
        "broadcast" => {
            let x = stacked(0);
            let missing = sizes(0).len() - (x.rank() - 1);
            let aligned = [&[rows], &vec![1; missing][..], &x.shape()[1..]].concat();
            x.reshape(&aligned).broadcast(&with_first(rows, 0))
        }
        "transpose" => {
            let after = sizes(0).iter().map(|axis| axis + 1);
            stacked(0).transpose(&std::iter::once(0).chain(after).collect::<Vec<_>>())
        }
        "slice" => stacked(0).slice(&with_first(0, 0), &with_first(rows, 1), &with_first(1, 2)),
        "pad" => stacked(0).pad(
            operands[1].shared()?,
            &with_first(0, 0),
            &with_first(0, 1),
            &with_first(0, 2),
        ),
        "reverse" => {
            let axes: Vec<usize> = sizes(0).iter().map(|axis| axis + 1).collect();
            stacked(0).reverse(&axes)
        }
        "concat" => {
            let Attr::Size(axis) = attrs[0] else {
                return None;
            };
            let operands: Vec<Value<'g>> = operands.iter().map(|v| v.stacked(rows)).collect();
            b.concat(&operands, axis + 1)
        }
        // Sums of floats depend on how they are cut, which depends on the size of the whole.
        "reduce_sum" | "reduce_max" | "reduce_min" | "reduce_all" | "reduce_any" if is_exact => {
            let axes: Vec<usize> = sizes(0).iter().map(|axis| axis + 1).collect();
            b.prim(prim, &[stacked(0)], vec![Attr::Sizes(axes)])[0]
        }
        "argmax" | "argmin" => {
            let Attr::Size(axis) = attrs[0] else {
                return None;
            };
            b.prim(prim, &[stacked(0)], vec![Attr::Size(axis + 1)])[0]
        }
        // A table that all records have in common.
        "take" => b.prim(prim, &[operands[0].shared()?, stacked(1)], attrs.to_vec())[0],
        _ => return None,
    })
}

/// Whether a primitive computes each element of its result from those of its operands at the same index.
fn is_elementwise(prim: &Prim) -> bool {
    match prim.eval {
        Eval::Float1(_)
        | Eval::Float2(_)
        | Eval::Number1(..)
        | Eval::Number2(..)
        | Eval::Test1(_)
        | Eval::Compare(..)
        | Eval::Bool2(_) => true,
        Eval::Tensors(_) => matches!(
            prim.name,
            "cast" | "select" | "bounded" | "logical_not" | "stop_gradient" | "straight_through"
        ),
    }
}

/// The graph as the body of a scan over the records.
fn scan(graph: &Graph, rows: usize, shared: &[&str]) -> Graph {
    let named = |node: &'_ Node| {
        let name = input_name(graph, node)?.to_owned();
        Some((name, node.results[0]))
    };
    let inputs: Vec<_> = graph.nodes.iter().filter_map(named).collect();
    let (captures, over): (Vec<_>, Vec<_>) = inputs
        .into_iter()
        .partition(|(name, _)| shared.contains(&name.as_str()));
    let types = |inputs: &[(String, crate::graph::ValueId)]| -> Vec<Type> {
        inputs.iter().map(|(_, id)| graph.ty(*id).clone()).collect()
    };
    let body = Builder::new("");
    let iteration = body_inputs(&body, &types(&captures), &[], &types(&over));
    let mut values: Vec<Option<Value<'_>>> = vec![None; graph.types.len()];
    let given = iteration.captures.iter().chain(&iteration.elements);
    for ((_, id), value) in captures.iter().chain(&over).zip(given) {
        values[id.index()] = Some(*value);
    }
    for node in &graph.nodes {
        if input_name(graph, node).is_some() {
            continue;
        }
        let operands = node.operands.iter();
        let operands: Vec<Value<'_>> = operands
            .map(|v| values[v.index()].expect("a value is defined before it is used"))
            .collect();
        let types = node.results.iter().map(|v| graph.ty(*v).clone()).collect();
        for (id, value) in node.results.iter().zip(body.copy(node, &operands, types)) {
            values[id.index()] = Some(value);
        }
    }
    for (name, id) in &graph.results {
        body.result(name, values[id.index()].expect("a result is defined"));
    }
    let b = Builder::new(&graph.name);
    let captures = captures
        .iter()
        .map(|(name, id)| b.input(name, graph.ty(*id)));
    let captures = captures.collect();
    let over = over
        .iter()
        .map(|(name, id)| b.input(name, &stacked_type(graph.ty(*id), rows)));
    let spec = Loop {
        length: rows,
        captures,
        over: over.collect(),
        ..Loop::default()
    };
    let (_, stacked) = b.scan_graph(spec, body.finish());
    for ((name, _), value) in graph.results.iter().zip(stacked) {
        b.result(name, value);
    }
    b.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;
    use crate::graph::verify;
    use crate::interp;
    use crate::types::DType;
    use std::collections::BTreeMap;

    /// A graph of records, and whether it is widened.
    fn check(build: impl Fn(&Builder), is_widened: bool) {
        let b = Builder::new("map");
        build(&b);
        let graph = b.finish();
        let block = vectorize(&graph, 5, &["seed"]);
        verify(&block).unwrap();
        let scans = |g: &Graph| g.nodes.iter().any(|n| matches!(n.kind, NodeKind::Scan(_)));
        assert_eq!(!scans(&block), is_widened, "{block}");
        // Five records at once have the bits of each alone.
        let feed = |name: &str, ty: &Type, record: usize| match name {
            "seed" => Tensor::scalar(7_i64),
            _ if ty.dtype == DType::I64 => {
                let values = (0..ty.elements()).map(|i| ((i * 7 + record * 3) % 4) as i64);
                Tensor::from_i64s(ty, values)
            }
            _ => {
                let values = (0..ty.elements()).map(|i| ((i * 5 + record * 11) % 13) as f64 / 3.0);
                Tensor::from_f64s(ty, values)
            }
        };
        let mut alone: Vec<Vec<Tensor>> = Vec::new();
        for record in 0..5 {
            let feeds = graph
                .inputs()
                .map(|(name, v)| (name.to_owned(), feed(name, graph.ty(v), record)));
            let state = graph.state.iter().map(|s| feed(&s.name, &s.ty, record));
            let state: Vec<Tensor> = state.collect();
            alone.push(
                interp::run(&graph, &feeds.collect(), &state)
                    .unwrap()
                    .results,
            );
        }
        let feeds = block.inputs().map(|(name, v)| {
            let ty = block.ty(v);
            if name == "seed" {
                return (name.to_owned(), feed(name, ty, 0));
            }
            let one = ty.with_shape(&ty.shape[1..]);
            let rows = (0..5).map(|record| feed(name, &one, record));
            let numbers: Vec<f64> = rows
                .flat_map(|row| match row.dtype() {
                    DType::I64 => row
                        .to_i64s()
                        .into_iter()
                        .map(|n| n as f64)
                        .collect::<Vec<_>>(),
                    _ => row.to_f64s(),
                })
                .collect();
            (name.to_owned(), Tensor::from_f64s(ty, numbers))
        });
        let feeds: BTreeMap<String, Tensor> = feeds.collect();
        let all = interp::run(&block, &feeds, &[]).unwrap();
        for (i, value) in all.results.iter().enumerate() {
            let separately: Vec<f64> = alone.iter().flat_map(|r| r[i].to_f64s()).collect();
            assert_eq!(
                value.to_f64s(),
                separately,
                "{} of {block}",
                block.results[i].0
            );
        }
    }

    fn f32s(shape: &[usize]) -> Type {
        Type::new(DType::F32, shape)
    }

    #[test]
    fn elementwise_operations_and_moves_are_widened() {
        check(
            |b| {
                let x = b.input("x", &f32s(&[2, 3]));
                let y = b.input("y", &f32s(&[3]));
                b.result("sum", (x + y.broadcast(&[2, 3])) / 16.0);
                b.result("turned", x.transpose(&[1, 0]).reshape(&[6]).reverse(&[0]));
                b.result(
                    "part",
                    x.slice(&[0, 1], &[2, 2], &[1, 1])
                        .pad(x.like(0.0), &[1, 0], &[0, 0], &[0, 1]),
                );
                b.result("joined", b.concat(&[x, y.reshape(&[1, 3])], 0));
                b.result("constant", b.full(&f32s(&[2]), 3.0));
            },
            true,
        );
    }

    #[test]
    fn lookups_in_a_common_table_are_widened() {
        check(
            |b| {
                let n = b.input("n", &Type::scalar(DType::I64));
                let table = b.constant(Tensor::new(&[4], vec![0.5_f32, 1.5, 2.5, 3.5]));
                b.result("looked_up", table.take(n));
                b.result(
                    "hot",
                    n.reshape(&[1])
                        .broadcast(&[4])
                        .equal(b.iota(4))
                        .cast(DType::F32),
                );
            },
            true,
        );
    }

    #[test]
    fn sums_and_draws_are_computed_record_by_record() {
        check(
            |b| {
                let x = b.input("x", &f32s(&[7]));
                b.result("mean", x.mean(&[0]));
            },
            false,
        );
        check(
            |b| {
                let x = b.input("x", &f32s(&[2]));
                let seed = b.input("seed", &Type::scalar(DType::I64));
                let step = b.read("global_step", &Type::scalar(DType::I64));
                b.randomness(seed, &[step]);
                b.result("noisy", x + b.random_uniform(b.key("noise"), &f32s(&[2])));
            },
            false,
        );
    }
}
