//! Whole runs of training: a spec for each case, stepped as often as the case says.
//!
//! A case holds all numbers; what is computed with them it says in words, so the model of each is written here. A case whose
//! optimizer or clipping cannot be run yet is listed as waiting; one that is not listed at all is a failure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value as Json;
use trainspec_frontend::lower::GLOBAL_STEP;
use trainspec_ir::Tensor;
use trainspec_ir::graph::Type;

use crate::oracle::compare::{Tolerance, close};
use crate::oracle::fields::Fields;
use crate::oracle::report::{Findings, Report};
use crate::oracle::run::{Run, checked};
use crate::oracle::tensors::{number, tensor, whole};
use crate::oracle::{Engine, cases};

/// What can be done with a case.
enum Plan {
    /// The statements of its model, and its settings of training. `{name}` stands for a number of `hyper`.
    Runs(&'static str, &'static str),
    /// It cannot be run before the language's steps can do this.
    Waits(&'static str),
}

/// The cases by name.
const PLANS: &[(&str, Plan)] = &[
    (
        "linear_regression_gd",
        Plan::Runs(
            "loss mean(square(matmul(x, w) + b - y));",
            "optimizer gradient_descent({learning_rate});",
        ),
    ),
    (
        "logistic_regression_ftrl_sparse",
        Plan::Waits("sparse updates"),
    ),
    (
        "mlp_adam_cosine_clip_ema",
        Plan::Waits("clipping and averages"),
    ),
    (
        "conv_rmsprop_centered_staircase",
        Plan::Runs(
            "let a = relu(nn.conv2d(x, k, strides: 1, padding: \"same\") + kb);
             let pooled = nn.max_pool2d(a, ksize: 2, strides: 2, padding: \"valid\");
             let logits = matmul(reshape(pooled, [2, 18]), w) + b;
             loss mean(sparse_softmax_cross_entropy_with_logits(labels: y, logits: logits)) + {l2} * (l2_loss(k) + l2_loss(w));",
            "schedule lr = exponential_decay({learning_rate}, decay_steps: {decay_steps}, decay_rate: {decay_rate}, staircase: true);
             optimizer rmsprop(lr, decay: {decay}, momentum: {momentum}, epsilon: {epsilon}, centered: true);",
        ),
    ),
    ("lstm_adagrad_clip_by_value", Plan::Waits("clipping")),
    (
        "attention_block_adam",
        Plan::Runs(
            "let a = normalized(x, {ln_epsilon}) * g1 + be1;
             let scores = matmul(matmul(a, wq), matmul(a, wk), transpose_b: true) / 2.0;
             let ahead = expand_dims(range(3), axis: 0) > expand_dims(range(3), axis: 1);
             let attended = matmul(softmax(scores + where(ahead, -1e9, 0.0)), matmul(a, wv));
             let middle = x + matmul(attended, wo);
             let c = normalized(middle, {ln_epsilon}) * g2 + be2;
             let last = middle + matmul(gelu(matmul(c, f1) + fb1, approximate: true), f2) + fb2;
             loss mean(square(last - y));",
            "optimizer adam({learning_rate}, beta1: {beta1}, beta2: {beta2}, epsilon: {epsilon});",
        ),
    ),
    (
        "momentum_nesterov_batch_norm",
        Plan::Runs(
            "let a = matmul(x, w1);
             let center = mean(a, axis: 0);
             let variance = mean(square(a - center), axis: 0);
             let hidden = relu((a - center) / sqrt(variance + {bn_epsilon}) * gamma + beta);
             moving_mean <- moving_mean * {bn_momentum} + center * (1 - {bn_momentum});
             moving_variance <- moving_variance * {bn_momentum} + variance * (1 - {bn_momentum});
             loss mean(square(matmul(hidden, w2) + b2 - y));",
            "optimizer momentum({learning_rate}, momentum: {momentum}, use_nesterov: true);",
        ),
    ),
    ("adagrad_da_sparse_linear", Plan::Waits("sparse updates")),
    (
        "embedding_bag_adam_sparse",
        // Adam moves all rows, so that it does not matter whether the gradient is whole.
        Plan::Runs(
            "let bag = mean(gather(emb, ids), axis: 1);
             loss mean(sparse_softmax_cross_entropy_with_logits(labels: y, logits: matmul(bag, w) + b));",
            "optimizer adam({learning_rate}, beta1: {beta1}, beta2: {beta2}, epsilon: {epsilon});",
        ),
    ),
    (
        "gru_adadelta_polynomial_clip_by_norm",
        Plan::Waits("clipping"),
    ),
];

/// What the models share.
const SHARED: &str = "
fn normalized(x: T[.., n], const epsilon) where T: float {
    let centered = x - mean(x, axis: -1, keepdims: true);
    centered * rsqrt(mean(square(centered), axis: -1, keepdims: true) + epsilon)
}
";

/// The name behind a variable's of a slot, as our checkpoints have it.
fn slot_name(case: &str, slot: &str) -> Result<&'static str, String> {
    Ok(match (slot, case.contains("rmsprop")) {
        ("rms", _) => "RMSProp",
        ("mg", _) => "RMSProp_1",
        ("momentum", true) => "RMSProp_2",
        ("momentum", false) => "Momentum",
        ("m", _) => "Adam",
        ("v", _) => "Adam_1",
        _ => return Err(format!("a slot that is not known: `{slot}`")),
    })
}

/// Runs the cases of a file.
///
/// # Panics
///
/// When one fails, or is neither known to run nor to wait.
pub fn run_file(path: &Path, engine: Engine) {
    let mut report = Report::default();
    for case in &cases(path) {
        let name = case["name"].as_str().unwrap_or("?");
        match PLANS.iter().find(|(known, _)| *known == name) {
            Some((_, Plan::Waits(what))) => println!("{name} waits for {what}"),
            Some((_, Plan::Runs(model, train))) => {
                println!("{name} runs");
                report.case("training", name, || run_case(case, model, train, engine));
            }
            None => report.case("training", name, || {
                Err("the case is not known: write its model".to_owned())
            }),
        }
    }
    report.finish(&path.display().to_string());
}

fn tensors(json: &Json) -> Result<BTreeMap<String, Tensor>, String> {
    let Json::Object(map) = json else {
        return Err("no object of tensors".to_owned());
    };
    let one = |(name, json): (&String, &Json)| Ok((name.clone(), tensor(json)?));
    map.iter().map(one).collect()
}

/// The text of the spec of a case.
fn text(
    case: &Json,
    model: &str,
    train: &str,
    parameters: &BTreeMap<String, Tensor>,
    state: &BTreeMap<String, Tensor>,
    batches: &BTreeMap<String, Tensor>,
) -> Result<String, String> {
    let step = |t: &Tensor| Type::new(t.dtype(), &t.shape()[1..]);
    let inputs: Vec<String> = batches
        .iter()
        .map(|(name, t)| format!("{name}: {}", step(t)))
        .collect();
    let mut text = format!("spec run;\n{SHARED}\nmodel ({}) {{\n", inputs.join(", "));
    for (name, t) in parameters {
        let _ = writeln!(text, "    param {name}: {} = zeros();", t.ty());
    }
    for (name, t) in state {
        let _ = writeln!(text, "    state {name}: {} = zeros();", t.ty());
    }
    let _ = writeln!(text, "    {model}\n}}\n\ntrain {{ {train} steps 1; }}");
    let Some(hyper) = case["hyper"].as_object() else {
        return Err("`hyper` is no object".to_owned());
    };
    for (name, value) in hyper {
        text = text.replace(&format!("{{{name}}}"), &format!("{}", number(value)?));
    }
    Ok(text)
}

fn run_case(case: &Json, model: &str, train: &str, engine: Engine) -> Result<Findings, String> {
    let fields = Fields::of(case)?;
    for known in ["name", "description", "hyper", "float64_deviation"] {
        fields.need(known)?;
    }
    if fields.text("kind")? != "training" || fields.text("dtype")? != "float32" {
        return Err("it is no training in float32".to_owned());
    }
    let tolerance = Tolerance::of(&fields)?;
    let steps = whole(fields.need("steps")?)? as usize;
    let parameters = tensors(fields.need("parameters")?)?;
    let others = tensors(fields.need("state")?)?;
    let batches = tensors(fields.need("batches")?)?;
    let expected = Fields::of(fields.need("expected")?)?;
    fields.done("a field")?;

    let text = text(case, model, train, &parameters, &others, &batches)?;
    let spec = checked(&text)?;
    let mut start = parameters.clone();
    start.extend(others);
    let mut run = Run::new(&spec, false, start, engine)?;

    let mut findings = Findings::default();
    let mut compare = |what: String, expected: &Tensor, found: Option<&Tensor>| {
        let answer = match found {
            Some(found) => close(expected, found, tolerance),
            None => Err("is missing".to_owned()),
        };
        if let Err(why) = answer {
            findings.wrong.push(format!("{what}: {why}"));
        }
    };
    let losses = tensor(expected.need("losses")?)?.to_f64s();
    let rates = tensor(expected.need("learning_rates")?)?.to_f64s();
    let norms = tensor(expected.need("global_norms")?)?.to_f64s();
    for step in 0..steps {
        let inputs = batches
            .iter()
            .map(|(name, t)| (name.clone(), row(t, step)))
            .collect();
        let found = run.step(inputs)?;
        let scalar = |x: f64| Tensor::scalar(x as f32);
        compare(
            format!("the loss of step {step}"),
            &scalar(losses[step]),
            found.get("loss/loss"),
        );
        if let Some(rate) = found.get("schedule/lr") {
            compare(
                format!("the rate of step {step}"),
                &scalar(rates[step]),
                Some(rate),
            );
        }
        // The norm of a sparse gradient is that of its rows, of which repeated ones are not summed.
        if !case["name"].as_str().unwrap_or_default().contains("sparse") {
            let slopes = found.iter().filter(|(n, _)| n.starts_with("gradient/"));
            let squares = slopes.flat_map(|(_, t)| t.to_f64s()).map(|x| x * x);
            let norm = scalar(squares.sum::<f64>().sqrt());
            compare(
                format!("the norm of step {step}"),
                &scalar(norms[step]),
                Some(&norm),
            );
        }
        if step == 0 {
            for (name, t) in tensors(expected.need("first_parameters")?)? {
                compare(format!("`{name}` after one step"), &t, run.get(&name));
            }
        }
    }
    for (group, values) in [
        (
            "final_parameters",
            tensors(expected.need("final_parameters")?)?,
        ),
        ("final_state", tensors(expected.need("final_state")?)?),
        (
            "final_non_slots",
            tensors(expected.need("final_non_slots")?)?,
        ),
    ] {
        for (name, t) in values {
            compare(format!("`{name}` of {group}"), &t, run.get(&name));
        }
    }
    let case_name = case["name"].as_str().unwrap_or_default();
    let slots = Fields::of(expected.need("final_slots")?)?;
    for name in parameters.keys() {
        for (slot, t) in tensors(slots.need(name)?)? {
            let now = run.get(&format!("{name}/{}", slot_name(case_name, &slot)?));
            compare(format!("slot `{slot}` of `{name}`"), &t, now);
        }
    }
    slots.done("slots of a variable")?;
    let count = Tensor::scalar(whole(expected.need("final_global_step")?)?);
    compare("the global step".to_owned(), &count, run.get(GLOBAL_STEP));
    expected.done("an expectation")?;
    Ok(findings)
}

/// One step of a tensor of all steps.
fn row(tensor: &Tensor, step: usize) -> Tensor {
    let ty = Type::new(tensor.dtype(), &tensor.shape()[1..]);
    let n = ty.elements();
    match ty.dtype.is_float() {
        true => Tensor::from_f64s(
            &ty,
            tensor.to_f64s()[step * n..(step + 1) * n].iter().copied(),
        ),
        false => Tensor::from_i64s(
            &ty,
            tensor.to_i64s()[step * n..(step + 1) * n].iter().copied(),
        ),
    }
}
