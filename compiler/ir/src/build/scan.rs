//! Scans (structured loops) in a graph: captures, loop-carried values, scanned tensors.

use crate::build::{Builder, Value};
use crate::graph::{Graph, NodeKind, Scan, Type};
use crate::types::DType;

/// The inputs of a loop body, for one iteration of [`Builder::scan`].
#[derive(Debug)]
pub struct Iteration<'b> {
    /// The loop-invariant values.
    pub captures: Vec<Value<'b>>,
    /// The loop-carried values.
    pub carries: Vec<Value<'b>>,
    /// One element of each tensor that is scanned.
    pub elements: Vec<Value<'b>>,
    /// The position (i64).
    pub position: Value<'b>,
}

/// The operands of a scan.
#[derive(Debug, Clone, Default)]
pub struct Loop<'g> {
    /// The trip count.
    pub length: usize,
    /// Whether the iterations go from the last element to the first.
    pub reverse: bool,
    /// The loop-invariant values.
    pub captures: Vec<Value<'g>>,
    /// The initial loop-carried values.
    pub starts: Vec<Value<'g>>,
    /// The tensors that are scanned along their leading dimension, which is `length`.
    pub over: Vec<Value<'g>>,
}

impl Builder {
    /// A scan. `body` builds the loop body in a graph of its own and gives the next carried values and what it yields; the
    /// results are the carried values of the last iteration, and all that was yielded, stacked.
    ///
    /// # Panics
    ///
    /// When a carried value changes its type.
    pub fn scan<'g>(
        &'g self,
        spec: Loop<'g>,
        body: impl for<'b> FnOnce(Iteration<'b>) -> (Vec<Value<'b>>, Vec<Value<'b>>),
    ) -> (Vec<Value<'g>>, Vec<Value<'g>>) {
        let graph = Builder::new("");
        graph.at(self.span.get());
        let types = |values: &[Value<'g>]| values.iter().map(|v| v.ty()).collect::<Vec<Type>>();
        let iteration = body_inputs(
            &graph,
            &types(&spec.captures),
            &types(&spec.starts),
            &elements(&spec),
        );
        let (nexts, yields) = body(iteration);
        for (i, next) in nexts.iter().enumerate() {
            graph.result(&format!("next {i}"), *next);
        }
        for (i, one) in yields.iter().enumerate() {
            graph.result(&format!("yield {i}"), *one);
        }
        self.scan_graph(spec, graph.finish())
    }

    /// A scan whose body is an existing graph.
    ///
    /// # Panics
    ///
    /// When the body does not take what the loop gives, or a carried value changes its type.
    pub fn scan_graph<'g>(
        &'g self,
        spec: Loop<'g>,
        body: Graph,
    ) -> (Vec<Value<'g>>, Vec<Value<'g>>) {
        let results: Vec<Type> = body
            .results
            .iter()
            .map(|(_, v)| body.ty(*v).clone())
            .collect();
        let (nexts, yields) = results.split_at(spec.starts.len());
        for (next, start) in nexts.iter().zip(&spec.starts) {
            assert_eq!(*next, start.ty(), "a loop-carried value keeps its type");
        }
        let stacked = yields.iter().map(|ty| {
            let mut shape = vec![spec.length];
            shape.extend_from_slice(&ty.shape);
            ty.with_shape(&shape)
        });
        let types = nexts.iter().cloned().chain(stacked).collect();
        let operands = [&spec.captures[..], &spec.starts, &spec.over].concat();
        let carries = spec.starts.len();
        let scan = Scan {
            length: spec.length,
            reverse: spec.reverse,
            captures: spec.captures.len(),
            carries,
            body,
        };
        let ids = operands.iter().map(|v| v.id).collect();
        let mut results = self.push(NodeKind::Scan(Box::new(scan)), ids, types);
        let yielded = results.split_off(carries);
        (results, yielded)
    }
}

/// The types of one element of each tensor that is scanned.
pub(crate) fn elements(spec: &Loop<'_>) -> Vec<Type> {
    let element = |v: &Value<'_>| {
        let ty = v.ty();
        assert_eq!(
            ty.shape.first(),
            Some(&spec.length),
            "a scan takes leading dimensions of its length"
        );
        ty.with_shape(&ty.shape[1..])
    };
    spec.over.iter().map(element).collect()
}

/// The inputs of the graph of a loop body.
pub(crate) fn body_inputs<'b>(
    body: &'b Builder,
    captures: &[Type],
    carries: &[Type],
    elements: &[Type],
) -> Iteration<'b> {
    let all = |word: &str, types: &[Type]| -> Vec<Value<'b>> {
        types
            .iter()
            .enumerate()
            .map(|(i, ty)| body.input(&format!("{word} {i}"), ty))
            .collect()
    };
    Iteration {
        captures: all("capture", captures),
        carries: all("carry", carries),
        elements: all("element", elements),
        position: body.input("position", &Type::scalar(DType::I64)),
    }
}
