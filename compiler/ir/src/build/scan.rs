//! Loops in a graph.

use crate::build::{Builder, Value};
use crate::graph::{Graph, NodeKind, Scan, Type};
use crate::types::DType;

/// One round of a loop, as [`Builder::scan`] asks for it: what it sees.
#[derive(Debug)]
pub struct Round<'b> {
    /// The values that are the same in each round.
    pub captures: Vec<Value<'b>>,
    /// The carried values.
    pub carries: Vec<Value<'b>>,
    /// One element of each tensor that is walked.
    pub elements: Vec<Value<'b>>,
    /// The position (i64).
    pub position: Value<'b>,
}

/// What a loop walks.
#[derive(Debug, Clone, Default)]
pub struct Loop<'g> {
    /// How many rounds there are.
    pub length: usize,
    /// Whether the rounds go from the last element to the first.
    pub reverse: bool,
    /// What is the same in each round.
    pub captures: Vec<Value<'g>>,
    /// What the first round carries.
    pub starts: Vec<Value<'g>>,
    /// The tensors that are walked along their leading dimension, which is `length`.
    pub over: Vec<Value<'g>>,
}

impl Builder {
    /// A loop. `round` makes one round in a graph of its own and gives what it carries on and what it yields; the results are
    /// what the last round carried on, and all that was yielded, stacked.
    ///
    /// # Panics
    ///
    /// When a round carries on values of other types than it was given.
    pub fn scan<'g>(
        &'g self,
        walk: Loop<'g>,
        round: impl for<'b> FnOnce(Round<'b>) -> (Vec<Value<'b>>, Vec<Value<'b>>),
    ) -> (Vec<Value<'g>>, Vec<Value<'g>>) {
        let body = Builder::new("");
        body.at(self.span.get());
        let whole = |values: &[Value<'g>]| values.iter().map(|v| v.ty()).collect::<Vec<Type>>();
        let round_of = body_inputs(
            &body,
            &whole(&walk.captures),
            &whole(&walk.starts),
            &elements(&walk),
        );
        let (nexts, yields) = round(round_of);
        for (i, next) in nexts.iter().enumerate() {
            body.result(&format!("next {i}"), *next);
        }
        for (i, one) in yields.iter().enumerate() {
            body.result(&format!("yield {i}"), *one);
        }
        self.scan_graph(walk, body.finish())
    }

    /// A loop whose round is a graph that exists.
    ///
    /// # Panics
    ///
    /// When the round does not take what the loop gives, or carries on values of other types.
    pub fn scan_graph<'g>(
        &'g self,
        walk: Loop<'g>,
        body: Graph,
    ) -> (Vec<Value<'g>>, Vec<Value<'g>>) {
        let results: Vec<Type> = body
            .results
            .iter()
            .map(|(_, v)| body.ty(*v).clone())
            .collect();
        let (nexts, yields) = results.split_at(walk.starts.len());
        for (next, start) in nexts.iter().zip(&walk.starts) {
            assert_eq!(
                *next,
                start.ty(),
                "a loop carries values of one type from round to round"
            );
        }
        let stacked = yields.iter().map(|ty| {
            let mut shape = vec![walk.length];
            shape.extend_from_slice(&ty.shape);
            ty.with_shape(&shape)
        });
        let types = nexts.iter().cloned().chain(stacked).collect();
        let operands = [&walk.captures[..], &walk.starts, &walk.over].concat();
        let carries = walk.starts.len();
        let scan = Scan {
            length: walk.length,
            reverse: walk.reverse,
            captures: walk.captures.len(),
            carries,
            body,
        };
        let ids = operands.iter().map(|v| v.id).collect();
        let mut results = self.push(NodeKind::Scan(Box::new(scan)), ids, types);
        let yielded = results.split_off(carries);
        (results, yielded)
    }
}

/// The types of one element of each tensor that is walked.
pub(crate) fn elements(walk: &Loop<'_>) -> Vec<Type> {
    let element = |v: &Value<'_>| {
        let ty = v.ty();
        assert_eq!(
            ty.shape.first(),
            Some(&walk.length),
            "a loop walks leading dimensions of its length"
        );
        ty.with_shape(&ty.shape[1..])
    };
    walk.over.iter().map(element).collect()
}

/// The inputs of the graph of a round.
pub(crate) fn body_inputs<'b>(
    body: &'b Builder,
    captures: &[Type],
    carries: &[Type],
    elements: &[Type],
) -> Round<'b> {
    let all = |word: &str, types: &[Type]| -> Vec<Value<'b>> {
        types
            .iter()
            .enumerate()
            .map(|(i, ty)| body.input(&format!("{word} {i}"), ty))
            .collect()
    };
    Round {
        captures: all("capture", captures),
        carries: all("carry", carries),
        elements: all("element", elements),
        position: body.input("position", &Type::scalar(DType::I64)),
    }
}
