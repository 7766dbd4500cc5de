//! Several operations at once, given by a formula.
//!
//! Some formulas are words around a function of the library; they are known by what they say. Others are arithmetic that
//! the language can read once names stand for inputs and arguments.

use trainspec_ir::ops;

use super::request::{Kind, OpRequest, applied, literal, named, x};
use super::{Row, by};

pub(super) const ROWS: &[Row] = &[by("composite", composite)];

/// What a formula says, the inputs it has, and what it means.
struct Rule {
    says: &'static str,
    inputs: &'static [&'static str],
    call: fn(&OpRequest<'_>, &str) -> Result<String, String>,
}

const RULES: &[Rule] = &[
    Rule {
        says: "layer_norm over the last axis: (x - mean) * rsqrt(biased variance + epsilon) * gamma + beta",
        inputs: &["x", "gamma", "beta"],
        call: layer_norm,
    },
    Rule {
        says: "mu, var = biased moments over axis ",
        inputs: &["x", "gamma", "beta"],
        call: batch_norm,
    },
    Rule {
        says: "i,j,f,o = split(z,4,axis=1); c2 = c*sigmoid(f+forget_bias) + sigmoid(i)*tanh(j)",
        inputs: &["x", "h", "c", "kernel", "bias"],
        call: lstm,
    },
    Rule {
        says: "r,u = split(sigmoid(concat([x,h],1) @ gate_kernel + gate_bias),2,axis=1)",
        inputs: &[
            "x",
            "h",
            "gate_kernel",
            "gate_bias",
            "candidate_kernel",
            "candidate_bias",
        ],
        call: |request, _| Ok(applied("gru_step", request.all(), [])),
    },
    Rule {
        says: "softmax(q @ k^T / sqrt(d) + (1 - mask) * -1e9) @ v",
        inputs: &["q", "k", "v", "mask"],
        call: attention,
    },
];

fn composite(request: &OpRequest<'_>) -> Result<String, String> {
    let formula = request.formula.ok_or("a composite without a formula")?;
    let names: Vec<&str> = request.inputs.iter().map(|input| &*input.name).collect();
    let rule = RULES
        .iter()
        .find(|rule| formula.contains(rule.says) && rule.inputs == names);
    match rule {
        Some(rule) => (rule.call)(request, formula),
        None => arithmetic(request, formula)
            .map_err(|wrong| format!("the formula `{formula}`: {wrong}")),
    }
}

fn epsilon(request: &OpRequest<'_>) -> Result<String, String> {
    let epsilon = request.argument("epsilon", Kind::Number)?;
    epsilon.ok_or_else(|| "`epsilon` is not given".to_owned())
}

fn layer_norm(request: &OpRequest<'_>, _: &str) -> Result<String, String> {
    let epsilon = epsilon(request)?;
    let over = "axis: -1, keepdims: true";
    Ok(format!(
        "standardized(x0, mean(x0, {over}), reduce_variance(x0, {over}), {epsilon}) * x1 + x2"
    ))
}

fn batch_norm(request: &OpRequest<'_>, formula: &str) -> Result<String, String> {
    let (_, after) = formula.split_once("over axis ").ok_or("no axis")?;
    let end = after
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(after.len());
    let axis: usize = after[..end].parse().map_err(|_| "no axis")?;
    let epsilon = epsilon(request)?;
    let over = format!("axis: {axis}, keepdims: true");
    Ok(format!(
        "batch_normalization(x0, mean(x0, {over}), reduce_variance(x0, {over}), offset: x2, scale: x1, \
         variance_epsilon: {epsilon})"
    ))
}

fn lstm(request: &OpRequest<'_>, _: &str) -> Result<String, String> {
    let bias = request.arguments(&[("forget_bias", Kind::Number)])?;
    Ok(applied("lstm_step", request.all(), bias))
}

/// The scale follows from the width of the queries.
fn attention(request: &OpRequest<'_>, _: &str) -> Result<String, String> {
    let width = request.shape(0).last().map(|n| *n as i64);
    if request.int("d")? != width {
        return Err("`d` is not the width of the queries".to_owned());
    }
    let mask = named("mask", "x3 > 0");
    Ok(applied(
        "scaled_dot_product_attention",
        [x(0), x(1), x(2)],
        [mask],
    ))
}

/// An expression up to the first `,` or `;` outside of parentheses; what follows are words. `no gradient to NAME` among them
/// makes a constant of an input.
fn arithmetic(request: &OpRequest<'_>, formula: &str) -> Result<String, String> {
    let mut depth = 0;
    let end = formula.find(|c: char| {
        depth += match c {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        depth == 0 && matches!(c, ',' | ';')
    });
    let (expression, words) = formula.split_at(end.unwrap_or(formula.len()));
    let stopped: Vec<&str> = words
        .split("no gradient to ")
        .skip(1)
        .filter_map(|after| after.split(|c: char| !is_part(c)).next())
        .collect();
    let mut call = String::new();
    let mut rest = expression.trim();
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_alphabetic() {
            let (name, after) = split_while(rest, is_part);
            call += &meaning(request, name, &stopped)?;
            rest = after;
        } else if c.is_ascii_digit() {
            let (number, after) = split_while(rest, |c| is_part(c) || c == '.');
            call += number;
            rest = after;
        } else if " +-*/@(),".contains(c) {
            call.push(c);
            rest = &rest[1..];
        } else {
            return Err(format!("`{c}` is not known"));
        }
    }
    Ok(call)
}

/// An input, an argument, or an operation.
fn meaning(request: &OpRequest<'_>, name: &str, stopped: &[&str]) -> Result<String, String> {
    if let Some(index) = request.index(name) {
        return Ok(match stopped.contains(&name) {
            true => format!("stop_gradient({})", x(index)),
            false => x(index),
        });
    }
    if let Some(json) = request.args.get(name) {
        return literal(json);
    }
    match ops::find(name) {
        Some(op) => Ok(op.name.to_owned()),
        None => Err(format!("`{name}` is not known")),
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn split_while(text: &str, part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !part(c)).unwrap_or(text.len()))
}
