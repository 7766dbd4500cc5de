//! Rounding-noise model (stochastic error analysis): a graph with random errors of a few ULP where a machine may round
//! differently.
//!
//! In: a graph. Out: a graph whose values differ from it by a few ULP. The spread of its results is the tolerance of a run
//! against the interpreter: large at catastrophic cancellation or next to a discontinuity, elsewhere tiny.

use trainspec_ir::graph::{Attr, Eval, Graph, Node, NodeKind, Prim, Type, ValueId};
use trainspec_ir::{DType, Tensor};

use crate::xorshift::XorShift;

/// Machine epsilon: the distance from 1 to the next number of a float type.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2.0_f64.powi(-10),
        DType::Bf16 => 2.0_f64.powi(-7),
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// The error bound of a primitive in ULP; 0 for those that only move numbers.
fn ulps(prim: &Prim, dtype: DType) -> f64 {
    let is_16_bit = matches!(dtype, DType::F16 | DType::Bf16);
    match prim.name {
        "add" | "subtract" | "multiply" | "divide" | "sqrt" => 1.0,
        "negative" | "abs" | "sign" | "floor" | "ceil" | "round" | "maximum" | "minimum" => 0.0,
        // f16 and bf16 are computed in higher precision and rounded at the end.
        _ if is_16_bit && !accumulates(prim) => match prim.eval {
            Eval::Float1(_) | Eval::Float2(_) | Eval::Number1(..) | Eval::Number2(..) => 1.0,
            _ => 0.0,
        },
        _ => match prim.eval {
            Eval::Float1(_) | Eval::Float2(_) | Eval::Number1(..) | Eval::Number2(..) => 8.0,
            Eval::Tensors(_) if accumulates(prim) => 4.0,
            Eval::Tensors(_) if ["polygamma", "orthogonalize"].contains(&prim.name) => 16.0,
            Eval::Tensors(_) | Eval::Test1(_) | Eval::Compare(..) | Eval::Bool2(_) => 0.0,
        },
    }
}

/// Whether the error of a sum is bounded relative to the sum of the magnitudes of its terms. f16 and bf16 accumulate in
/// higher precision; a max pool's VJP selects by its operand.
fn error_by_magnitudes(prim: &Prim, dtype: DType) -> bool {
    let is_16_bit = matches!(dtype, DType::F16 | DType::Bf16);
    accumulates(prim) && !is_16_bit && prim.name != "max_pool2d_grad"
}

/// Whether a primitive accumulates many terms, in unspecified order.
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

/// The approximate number of terms that a primitive reduces to one element.
fn reduction_length(graph: &Graph, node: &Node) -> f64 {
    let size = |v: &ValueId| graph.ty(*v).elements().max(1) as f64;
    let outputs = size(&node.results[0]);
    let sum = node.operands.first().map_or(1.0, |a| size(a) / outputs);
    // A product of n x k and k x m numbers makes n x m.
    let product = match node.operands.as_slice() {
        [a, b, ..] => (size(a) * size(b) / outputs).sqrt(),
        _ => 1.0,
    };
    let longest = graph.ty(node.results[0]).shape.iter().max();
    sum.max(product).max(longest.copied().unwrap_or(1) as f64)
}

/// The graph with errors seeded by `seed`. Its results and writes are in the same order.
pub fn noisy(graph: &Graph, seed: u64) -> Graph {
    let mut noise = Noise {
        numbers: XorShift::new(seed),
        correlated: seed.is_multiple_of(2),
    };
    noise.graph(graph, None)
}

/// The noise source.
struct Noise {
    numbers: XorShift,
    /// Whether all elements of a value have the same error, as those of equal numbers have; else errors are independent.
    correlated: bool,
}

/// The iterations of a loop: each has errors of its own. With equal ones in all, those of one iteration can cancel those of
/// another.
#[derive(Debug, Clone, Copy)]
struct Iterations {
    length: usize,
    position: ValueId,
}

impl Noise {
    /// The graph with errors after each primitive that rounds; `iterations` where it is the body of a loop.
    fn graph(&mut self, graph: &Graph, iterations: Option<Iterations>) -> Graph {
        let mut out = Graph {
            nodes: Vec::with_capacity(graph.nodes.len() * 3),
            ..graph.clone()
        };
        out.nodes.clear();
        // The replacement of each value of the original graph.
        let mut replacement: Vec<ValueId> = (0..graph.types.len() as u32).map(ValueId).collect();
        for original in &graph.nodes {
            let mut node = original.clone();
            for operand in &mut node.operands {
                *operand = replacement[operand.index()];
            }
            let (mut amount, mut magnitudes) = (0.0, None);
            match &mut node.kind {
                NodeKind::Prim(prim, _) => {
                    let dtype = graph.ty(node.results[0]).dtype;
                    if dtype.is_float() {
                        amount = ulps(prim, dtype);
                    }
                    if amount > 0.0 && accumulates(prim) {
                        // Rounding errors of equal terms are correlated (they all have one sign), so the bound grows with the number
                        // of terms.
                        amount += reduction_length(graph, original) / 16.0;
                    }
                    if amount > 0.0 && error_by_magnitudes(prim, dtype) {
                        // The error of a sum is small relative to the sum of the magnitudes of its terms, not to the sum.
                        magnitudes = Some(self.magnitudes(&mut out, &node));
                    } else if amount > 0.0 && (accumulates(prim) || prim.name == "orthogonalize") {
                        // The residual of a row that is nearly linearly dependent on others is rounding error alone.
                        for operand in &mut node.operands {
                            *operand =
                                self.with_relative_error(&mut out, *operand, 4.0, iterations);
                        }
                    }
                }
                NodeKind::Scan(scan) => {
                    let (_, position) = scan
                        .body
                        .inputs()
                        .last()
                        .expect("an iteration has a position");
                    let length = scan.length;
                    scan.body = self.graph(&scan.body, Some(Iterations { length, position }));
                }
                NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => {}
            }
            let results = node.results.clone();
            out.nodes.push(node);
            for v in results {
                replacement[v.index()] = match magnitudes {
                    Some(magnitudes) => {
                        self.with_absolute_error(&mut out, v, magnitudes, amount, iterations)
                    }
                    None => self.with_relative_error(&mut out, v, amount, iterations),
                };
            }
        }
        for write in &mut out.writes {
            write.value = replacement[write.value.index()];
        }
        for (_, v) in &mut out.results {
            *v = replacement[v.index()];
        }
        out
    }

    /// The sum of the magnitudes of the terms of a sum.
    fn magnitudes(&mut self, out: &mut Graph, sum: &Node) -> ValueId {
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

    /// A value with a relative error of up to `ulps` ULP, of either sign.
    fn with_relative_error(
        &mut self,
        out: &mut Graph,
        v: ValueId,
        ulps: f64,
        iterations: Option<Iterations>,
    ) -> ValueId {
        if ulps == 0.0 || !out.ty(v).dtype.is_float() {
            return v;
        }
        let ty = out.ty(v).clone();
        let factors = self.errors(out, ty.clone(), 1.0, ulps, iterations);
        push(out, primitive("multiply", &[]), vec![v, factors], &ty)
    }

    /// A value with an absolute error of up to `ulps` ULP of `magnitudes`.
    fn with_absolute_error(
        &mut self,
        out: &mut Graph,
        v: ValueId,
        magnitudes: ValueId,
        ulps: f64,
        iterations: Option<Iterations>,
    ) -> ValueId {
        let ty = out.ty(v).clone();
        let factors = self.errors(out, ty.clone(), 0.0, ulps, iterations);
        let errors = push(
            out,
            primitive("multiply", &[]),
            vec![magnitudes, factors],
            &ty,
        );
        push(out, primitive("add", &[]), vec![v, errors], &ty)
    }

    /// A constant of errors of up to `ulps` ULP, around a number; in a loop, those of the current iteration.
    fn errors(
        &mut self,
        out: &mut Graph,
        ty: Type,
        around: f64,
        ulps: f64,
        iterations: Option<Iterations>,
    ) -> ValueId {
        let mut all = ty.clone();
        if let Some(iterations) = iterations {
            all.shape.insert(0, iterations.length);
        }
        let mut draw = || around + (self.numbers.unit() * (ulps + 0.5)).round() * epsilon(ty.dtype);
        let mut errors: Vec<f64> = Vec::with_capacity(all.elements());
        for _ in 0..iterations.map_or(1, |r| r.length) {
            match self.correlated {
                true => errors.resize(errors.len() + ty.elements(), draw()),
                false => errors.extend((0..ty.elements()).map(|_| draw())),
            }
        }
        let errors = Tensor::from_f64s(&all, errors);
        let errors = push(out, NodeKind::Const(errors), Vec::new(), &all);
        match iterations {
            Some(iterations) => {
                let take = primitive("take", &[Attr::Flag(false)]);
                push(out, take, vec![errors, iterations.position], &ty)
            }
            None => errors,
        }
    }
}

/// The primitive of that name, which must exist.
fn primitive(name: &str, attrs: &[Attr]) -> NodeKind {
    let prim = trainspec_ir::ops::find_prim(name).expect("there is such a primitive");
    NodeKind::Prim(prim, attrs.to_vec().into())
}

/// Appends a node with one result; gives the result.
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

/// All values of a graph as further results, called `%0`, `%1`, … (of the graph itself, not of its loop bodies).
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
        let relative_error = |i: usize| {
            let (a, b) = (a.results[i].1.to_f64s(), b.results[i].1.to_f64s());
            let apart = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs();
            a.iter().zip(&b).map(apart).fold(0.0, f64::max)
        };
        assert!(
            relative_error(0) > 0.0 && relative_error(0) < 2e-6,
            "{}",
            relative_error(0)
        );
        assert!(relative_error(1) > 1e-5, "{}", relative_error(1));
    }
}
