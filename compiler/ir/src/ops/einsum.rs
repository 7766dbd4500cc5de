//! `tf.einsum`: Einstein summation, a tensor contraction written as an equation.

use std::collections::BTreeMap;

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::contract::{Labelled, contract, zero_past_counts};
use crate::ops::rules::{broadcast, dimensions, fits, same_dim};
use crate::types::{Class, Dim, Shape, TensorType};

/// The tensor contraction of the inputs over the labels that the result does not name.
///
/// Each input's dimensions are labelled by letters, `...` standing for any number of dimensions that broadcast. Without
/// `->` the result has the labels that appear once, in alphabetical order.
pub(super) static OP: Op = Op {
    name: "einsum",
    aliases: &[],
    doc: "The contraction (Einstein summation) of some tensors by an equation such as `ij,jk->ik`.",
    params: &[
        Param::required("equation", Kind::String),
        Param::required("inputs", Kind::Tensors(Elements::Same("T", Class::Number))),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let inputs = call.tensors("inputs");
    let equation = Equation::parse(call.word("equation"))?;
    if equation.inputs.len() != inputs.len() {
        return Err(bad(format!(
            "the equation has {} inputs, but {} are given",
            equation.inputs.len(),
            inputs.len()
        )));
    }
    let mut sizes: BTreeMap<char, &Dim> = BTreeMap::new();
    let mut rest = Shape::scalar();
    for (i, (labels, input)) in equation.inputs.iter().zip(inputs).enumerate() {
        let [head, middle, tail] = labels.lay_out(i, &input.shape)?;
        rest = broadcast(&rest, &Shape(middle.to_vec()))?;
        for (label, dim) in labels.named().zip(head.iter().chain(tail)) {
            let known = *sizes.entry(label).or_insert(dim);
            same_dim(format!("two dimensions labelled `{label}`"), known, dim)?;
        }
    }
    let mut dims = Vec::new();
    for label in &equation.output.before {
        dims.push(sizes[label].clone());
    }
    if equation.output.after.is_some() {
        dims.extend(rest.0);
    }
    for label in equation.output.after.iter().flatten() {
        dims.push(sizes[label].clone());
    }
    fits(inputs[0].with_dims(dims))
}

/// The label of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Letter(char),
    /// A dimension that `...` stands for, counted from the last.
    Rest(usize),
}

/// Pairwise contractions from left to right, each summed over the labels with no later use.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let equation = Equation::parse(l.call.word("equation"))?;
    let inputs = equation.inputs.iter().zip(l.values("inputs"));
    let inputs = inputs.zip(l.call.tensors("inputs"));
    let inputs: Vec<Labelled<'g, Label>> = inputs
        .map(|((labels, value), ty)| labels.attach(zero_past_counts(l, *value, ty)))
        .collect();
    let output = equation.output.all(l.results[0].rank());
    let mut product = inputs[0].clone();
    for (i, input) in inputs.iter().enumerate().skip(1) {
        let needed =
            |label: &Label| output.contains(label) || inputs[i + 1..].iter().any(|t| t.has(label));
        product = contract(&product, input, needed)?;
    }
    let product = product.summed(|label| output.contains(label));
    let found: Vec<Label> = output.iter().filter(|l| product.has(l)).copied().collect();
    let value = product.arranged(&found).reshape(&l.shape(0));
    Ok(vec![zero_past_counts(l, value, &l.results[0])])
}

/// A parsed equation. Every label of the output is one of the inputs', and `...` is in the output if in an input.
struct Equation {
    inputs: Vec<Labels>,
    output: Labels,
}

/// The labels of one tensor.
struct Labels {
    before: Vec<char>,
    /// The labels after `...`, where there is one.
    after: Option<Vec<char>>,
}

impl Equation {
    fn parse(source: &str) -> Result<Equation, RuleError> {
        let source: String = source.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match source.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (source.as_str(), None),
        };
        let inputs = left
            .split(',')
            .map(Labels::parse)
            .collect::<Result<Vec<_>, _>>()?;
        let output = match right {
            Some(right) => Labels::parse(right)?,
            None => Labels::implied(&inputs),
        };
        for label in output.named() {
            if !inputs.iter().any(|i| i.named().any(|l| l == label)) {
                return Err(bad(format!("the result's label `{label}` is in no input")));
            }
        }
        let has_ellipsis = inputs.iter().any(|i| i.after.is_some());
        match (has_ellipsis, output.after.is_some()) {
            (true, false) => Err(bad("an input has `...`, but the result has not".to_owned())),
            (false, true) => Err(bad("the result has `...`, but no input has".to_owned())),
            (true, true) | (false, false) => Ok(Equation { inputs, output }),
        }
    }
}

impl Labels {
    fn parse(source: &str) -> Result<Labels, RuleError> {
        let (before, after) = match source.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (source, None),
        };
        let labels = Labels {
            before: before.chars().collect(),
            after: after.map(|a| a.chars().collect()),
        };
        let all: Vec<char> = labels.named().collect();
        for (i, label) in all.iter().enumerate() {
            if !label.is_ascii_alphabetic() {
                return Err(bad(format!("`{label}` is no label: labels are letters")));
            }
            if all[..i].contains(label) {
                return Err(bad(format!(
                    "the label `{label}` is there twice in `{source}`"
                )));
            }
        }
        Ok(labels)
    }

    /// The labels that appear once in all inputs, in alphabetical order, after `...` if there is one.
    fn implied(inputs: &[Labels]) -> Labels {
        let mut times: BTreeMap<char, usize> = BTreeMap::new();
        for label in inputs.iter().flat_map(Labels::named) {
            *times.entry(label).or_insert(0) += 1;
        }
        let once: Vec<char> = times
            .into_iter()
            .filter(|(_, n)| *n == 1)
            .map(|(l, _)| l)
            .collect();
        match inputs.iter().any(|i| i.after.is_some()) {
            true => Labels {
                before: Vec::new(),
                after: Some(once),
            },
            false => Labels {
                before: once,
                after: None,
            },
        }
    }

    fn named(&self) -> impl Iterator<Item = char> {
        self.before
            .iter()
            .chain(self.after.iter().flatten())
            .copied()
    }

    /// The labels of all dimensions of a tensor of that rank.
    fn all(&self, rank: usize) -> Vec<Label> {
        let rest = rank - self.named().count();
        let before = self.before.iter().copied().map(Label::Letter);
        let rest = (0..rest).rev().map(Label::Rest);
        let after = self.after.iter().flatten().copied().map(Label::Letter);
        before.chain(rest).chain(after).collect()
    }

    /// A tensor with its labels; dimensions of `...` that broadcast are removed.
    fn attach<'g>(&self, value: Value<'g>) -> Labelled<'g, Label> {
        let (shape, mut labels) = (value.shape(), self.all(value.rank()));
        let stretches = |i: usize| matches!(labels[i], Label::Rest(_)) && shape[i] == 1;
        let kept: Vec<usize> = (0..shape.len()).filter(|i| !stretches(*i)).collect();
        labels = kept.iter().map(|i| labels[*i]).collect();
        let shape: Vec<usize> = kept.iter().map(|i| shape[*i]).collect();
        Labelled {
            value: value.reshape(&shape),
            labels,
        }
    }

    /// The dimensions of input `i`: those before `...`, those it stands for, and those after.
    fn lay_out<'a>(&self, i: usize, shape: &'a Shape) -> Result<[&'a [Dim]; 3], RuleError> {
        let labels = self.named().count();
        let fits = match self.after {
            None => shape.rank() == labels,
            Some(_) => shape.rank() >= labels,
        };
        if !fits {
            return Err(RuleError::new(
                RuleErrorKind::RankMismatch,
                format!(
                    "input {i} has {}, but {labels} labels",
                    dimensions(shape.rank())
                ),
            )
            .at("inputs"));
        }
        let (head, rest) = shape.0.split_at(self.before.len());
        let after = self.after.as_ref().map_or(0, Vec::len);
        let (middle, tail) = rest.split_at(rest.len() - after);
        Ok([head, middle, tail])
    }
}

fn bad(message: String) -> RuleError {
    RuleError::new(RuleErrorKind::BadValue, message).at("equation")
}
