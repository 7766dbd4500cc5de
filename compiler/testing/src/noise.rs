//! What rounding can do to a graph: the same graph with small errors where a machine may round differently.
//!
//! In: a graph. Out: a graph whose values differ from it by a few of the last places. How much its results differ says how far
//! a run may be from the interpreter's and still be right: in a sum that cancels or next to a step of a function that is far, elsewhere
//! it is next to nothing.

use trainspec_ir::graph::{Attr, Eval, Graph, Node, NodeKind, Prim, Type, ValueId};
use trainspec_ir::{DType, Tensor};

use crate::feeds::Numbers;

/// The distance from 1 to the next number of a type of floats.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2.0_f64.powi(-10),
        DType::Bf16 => 2.0_f64.powi(-7),
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// How many of the last places a primitive may be wrong by; 0 for those that only move numbers.
fn places(prim: &Prim, dtype: DType) -> f64 {
    let half = matches!(dtype, DType::F16 | DType::Bf16);
    match prim.name {
        "add" | "subtract" | "multiply" | "divide" | "sqrt" => 1.0,
        "negative" | "abs" | "sign" | "floor" | "ceil" | "round" | "maximum" | "minimum" => 0.0,
        // Halves are computed in more digits and rounded at the end.
        _ if half && !accumulates(prim) => match prim.eval {
            Eval::Float1(_) | Eval::Float2(_) | Eval::Number1(..) | Eval::Number2(..) => 1.0,
            _ => 0.0,
        },
        _ => match prim.eval {
            Eval::Float1(_) | Eval::Float2(_) | Eval::Number1(..) | Eval::Number2(..) => 8.0,
            Eval::Whole(_) if accumulates(prim) => 4.0,
            Eval::Whole(_) if ["polygamma", "orthogonalize"].contains(&prim.name) => 16.0,
            Eval::Whole(_) | Eval::Test1(_) | Eval::Compare(..) | Eval::Bool2(_) => 0.0,
        },
    }
}

/// Whether the error of a sum is told by the sum of the sizes of its terms. Halves are added up in more digits; the others choose by
/// what they are given.
fn by_sizes(prim: &Prim, dtype: DType) -> bool {
    let half = matches!(dtype, DType::F16 | DType::Bf16);
    accumulates(prim) && !half && prim.name != "max_pool2d_grad"
}

/// Whether a primitive adds or multiplies many numbers, in an order of its own.
fn accumulates(prim: &Prim) -> bool {
    [
        "reduce_sum",
        "reduce_prod",
        "matmul",
        "conv2d",
        "conv2d_input_grad",
        "conv2d_filter_grad",
        "cumsum",
        "scatter_add",
        "sum_pool2d",
        "sum_pool2d_grad",
        "max_pool2d_grad",
        "unsorted_segment_prod",
    ]
    .contains(&prim.name)
}

/// About how many numbers a primitive puts into one.
fn terms(graph: &Graph, node: &Node) -> f64 {
    let size = |v: &ValueId| graph.ty(*v).elements().max(1) as f64;
    let made = size(&node.results[0]);
    let sum = node.operands.first().map_or(1.0, |a| size(a) / made);
    // A product of n x k and k x m numbers makes n x m.
    let product = match node.operands.as_slice() {
        [a, b, ..] => (size(a) * size(b) / made).sqrt(),
        _ => 1.0,
    };
    let longest = graph.ty(node.results[0]).shape.iter().max();
    sum.max(product).max(longest.copied().unwrap_or(1) as f64)
}

/// The graph with errors that follow from a seed. Its results and writes are in the same order.
pub fn noisy(graph: &Graph, seed: u64) -> Graph {
    let mut noise = Noise {
        numbers: Numbers::new(seed),
        together: seed.is_multiple_of(2),
    };
    noise.graph(graph, None)
}

/// Where errors come from.
struct Noise {
    numbers: Numbers,
    /// Whether all elements of a value have the same error, as those of equal numbers have; else each has its own.
    together: bool,
}

/// The rounds of a loop: each has errors of its own. With the same ones in all, those of one round can cancel those of another.
#[derive(Debug, Clone, Copy)]
struct Rounds {
    length: usize,
    position: ValueId,
}

impl Noise {
    fn graph(&mut self, graph: &Graph, rounds: Option<Rounds>) -> Graph {
        let mut out = Graph {
            nodes: Vec::with_capacity(graph.nodes.len() * 3),
            ..graph.clone()
        };
        out.nodes.clear();
        // What stands for each value of the old graph.
        let mut now: Vec<ValueId> = (0..graph.types.len() as u32).map(ValueId).collect();
        for node in &graph.nodes {
            let before = node;
            let mut node = node.clone();
            for operand in &mut node.operands {
                *operand = now[operand.index()];
            }
            let (mut amount, mut sizes) = (0.0, None);
            match &mut node.kind {
                NodeKind::Prim(prim, _) => {
                    let dtype = graph.ty(node.results[0]).dtype;
                    if dtype.is_float() {
                        amount = places(prim, dtype);
                    }
                    if amount > 0.0 && accumulates(prim) {
                        // Equal numbers err all in one direction, however they are added.
                        amount += terms(graph, before) / 16.0;
                    }
                    if amount > 0.0 && by_sizes(prim, dtype) {
                        // The error of a sum is small next to the sum of the sizes of its terms, not next to the sum.
                        sizes = Some(self.sizes(&mut out, &node));
                    } else if amount > 0.0 && (accumulates(prim) || prim.name == "orthogonalize") {
                        // What is left of a row that others nearly add up to is nothing but errors, and has any direction.
                        for operand in &mut node.operands {
                            *operand = self.shaken(&mut out, *operand, 4.0, rounds);
                        }
                    }
                }
                NodeKind::Scan(scan) => {
                    let (_, position) = scan.body.inputs().last().expect("a round has a position");
                    let length = scan.length;
                    scan.body = self.graph(&scan.body, Some(Rounds { length, position }));
                }
                NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => {}
            }
            let results = node.results.clone();
            out.nodes.push(node);
            for v in results {
                now[v.index()] = match sizes {
                    Some(sizes) => self.moved(&mut out, v, sizes, amount, rounds),
                    None => self.shaken(&mut out, v, amount, rounds),
                };
            }
        }
        for write in &mut out.writes {
            write.value = now[write.value.index()];
        }
        for (_, v) in &mut out.results {
            *v = now[v.index()];
        }
        out
    }

    /// What a sum would be of the sizes of all numbers that go into it.
    fn sizes(&mut self, out: &mut Graph, sum: &Node) -> ValueId {
        let mut operands = sum.operands.clone();
        for operand in &mut operands {
            let ty = out.ty(*operand).clone();
            if ty.dtype.is_float() {
                *operand = push(out, primitive("abs", &[]), vec![*operand], &ty);
            }
        }
        let ty = out.ty(sum.results[0]).clone();
        push(out, sum.kind.clone(), operands, &ty)
    }

    /// A value with an error of that many of its last places, in either direction.
    fn shaken(
        &mut self,
        out: &mut Graph,
        v: ValueId,
        places: f64,
        rounds: Option<Rounds>,
    ) -> ValueId {
        if places == 0.0 || !out.ty(v).dtype.is_float() {
            return v;
        }
        let ty = out.ty(v).clone();
        let factors = self.errors(out, ty.clone(), 1.0, places, rounds);
        push(out, primitive("multiply", &[]), vec![v, factors], &ty)
    }

    /// A value with an error of that many of the last places of another.
    fn moved(
        &mut self,
        out: &mut Graph,
        v: ValueId,
        sizes: ValueId,
        places: f64,
        rounds: Option<Rounds>,
    ) -> ValueId {
        let ty = out.ty(v).clone();
        let factors = self.errors(out, ty.clone(), 0.0, places, rounds);
        let errors = push(out, primitive("multiply", &[]), vec![sizes, factors], &ty);
        push(out, primitive("add", &[]), vec![v, errors], &ty)
    }

    /// Errors of up to so many last places, around a number.
    fn errors(
        &mut self,
        out: &mut Graph,
        ty: Type,
        around: f64,
        places: f64,
        rounds: Option<Rounds>,
    ) -> ValueId {
        let mut all = ty.clone();
        if let Some(rounds) = rounds {
            all.shape.insert(0, rounds.length);
        }
        let mut one =
            || around + (self.numbers.unit() * (places + 0.5)).round() * epsilon(ty.dtype);
        let mut errors: Vec<f64> = Vec::with_capacity(all.elements());
        for _ in 0..rounds.map_or(1, |r| r.length) {
            match self.together {
                true => errors.resize(errors.len() + ty.elements(), one()),
                false => errors.extend((0..ty.elements()).map(|_| one())),
            }
        }
        let errors = Tensor::from_f64s(&all, errors);
        let errors = push(out, NodeKind::Const(errors), Vec::new(), &all);
        match rounds {
            Some(rounds) => {
                let take = primitive("take", &[Attr::Flag(false)]);
                push(out, take, vec![errors, rounds.position], &ty)
            }
            None => errors,
        }
    }
}

fn primitive(name: &str, attrs: &[Attr]) -> NodeKind {
    let prim = trainspec_ir::ops::find_prim(name).expect("there is such a primitive");
    NodeKind::Prim(prim, attrs.to_vec().into())
}

fn push(out: &mut Graph, kind: NodeKind, operands: Vec<ValueId>, ty: &Type) -> ValueId {
    let id = ValueId(out.types.len() as u32);
    out.types.push(ty.clone());
    out.nodes.push(Node {
        kind,
        operands,
        results: vec![id],
        span: Default::default(),
    });
    id
}

/// All values of a graph as further results, called `%0`, `%1`, … (in the graph itself, not in the rounds of its loops).
pub fn with_every_value(graph: &Graph) -> Graph {
    let mut all = graph.clone();
    for v in 0..graph.types.len() {
        all.results.push((format!("%{v}"), ValueId(v as u32)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::interpreted;
    use crate::feeds::feeds;
    use trainspec_ir::build::Builder;
    use trainspec_ir::graph::verify;

    #[test]
    fn errors_are_small_but_for_sums_that_cancel() {
        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[8]));
        b.result("exp", x.exp());
        b.result("cancels", (x.exp() + 1000.0) - 1000.0);
        let graph = b.finish();
        let feeds = feeds(&graph, 1);
        let noisy = noisy(&graph, 3);
        assert_eq!(verify(&noisy), Ok(()));
        let (a, b) = (
            interpreted(&graph, &feeds).unwrap(),
            interpreted(&noisy, &feeds).unwrap(),
        );
        let far = |i: usize| {
            let (a, b) = (a.results[i].1.to_f64s(), b.results[i].1.to_f64s());
            let apart = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs();
            a.iter().zip(&b).map(apart).fold(0.0, f64::max)
        };
        assert!(far(0) > 0.0 && far(0) < 2e-6, "{}", far(0));
        assert!(far(1) > 1e-5, "{}", far(1));
    }
}
