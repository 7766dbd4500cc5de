//! Runs of training: a spec for each case, stepped as often as the case says.
//!
//! A case holds all numbers; what is computed with them it says in words, so the model of each is written here: its statements
//! and its settings of training, in which `{name}` stands for a number of `hyper`. A case that is not listed is a failure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value as Json;
use trainspec_frontend::lower::GLOBAL_STEP;
use trainspec_ir::Tensor;
use trainspec_ir::graph::Type;

use crate::oracle::compare::Tolerance;
use crate::oracle::fields::Fields;
use crate::oracle::report::{Findings, Report};
use crate::oracle::run::{Run, checked};
use crate::oracle::tensors::{integer, number, row, tensor, tensors};
use crate::oracle::{Engine, cases};

/// The cases by name.
const PLANS: &[(&str, &str, &str)] = &[
    (
        "linear_regression_gd",
        "loss mean(square(matmul(x, w) + b - y));",
        "optimizer gradient_descent({learning_rate});",
    ),
    (
        "logistic_regression_ftrl_sparse",
        "let logit = sum(weights * gather(w, ids), axis: 1) + b;
             loss mean(sigmoid_cross_entropy_with_logits(labels: y, logits: logit));",
        "optimizer ftrl({learning_rate}, learning_rate_power: {learning_rate_power},
             initial_accumulator_value: {initial_accumulator_value},
             l1_regularization_strength: {l1_regularization_strength},
             l2_regularization_strength: {l2_regularization_strength});",
    ),
    (
        "mlp_adam_cosine_clip_ema",
        "let a = tanh(matmul(x, w1) + b1);
             loss mean(sparse_softmax_cross_entropy_with_logits(labels: y, logits: matmul(a, w2) + b2));",
        "schedule lr = cosine_decay({learning_rate}, decay_steps: {decay_steps}, alpha: {alpha});
             optimizer adam(lr, beta1: {beta1}, beta2: {beta2}, epsilon: {epsilon});
             clip global_norm({clip_norm});
             ema (decay: {ema_decay}, num_updates: step);",
    ),
    (
        "conv_rmsprop_centered_staircase",
        "let a = relu(nn.conv2d(x, k, strides: 1, padding: \"same\") + kb);
             let pooled = nn.max_pool2d(a, ksize: 2, strides: 2, padding: \"valid\");
             let logits = matmul(reshape(pooled, [2, 18]), w) + b;
             loss mean(sparse_softmax_cross_entropy_with_logits(labels: y, logits: logits)) + {l2} * (l2_loss(k) + l2_loss(w));",
        "schedule lr = exponential_decay({learning_rate}, decay_steps: {decay_steps}, decay_rate: {decay_rate}, staircase: true);
             optimizer rmsprop(lr, decay: {decay}, momentum: {momentum}, epsilon: {epsilon}, centered: true);",
    ),
    (
        "lstm_adagrad_clip_by_value",
        // The gradient of what `gather` reads is sparse; that of `emb` is made dense by the product.
        "let e = gather(1.0 * emb, x);
             let (h, c, all) = for t in 0..4, h = zeros_of(2, 3), c = zeros_of(2, 3), all = [] {
                 let z = matmul(concat([e[_, t], h], axis: 1), kernel) + bias;
                 let (i, j, f, o) = split(z, 4, axis: 1);
                 let c = c * sigmoid(f + {forget_bias}) + sigmoid(i) * tanh(j);
                 let h = tanh(c) * sigmoid(o);
                 (h, c, all + [matmul(h, w) + b])
             };
             loss mean(sparse_softmax_cross_entropy_with_logits(labels: y, logits: stack(all, axis: 1)));",
        "optimizer adagrad({learning_rate}, initial_accumulator_value: {initial_accumulator_value});
             clip value(-{clip_value}, {clip_value});",
    ),
    (
        "attention_block_adam",
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
    (
        "momentum_nesterov_batch_norm",
        "let a = matmul(x, w1);
             let center = mean(a, axis: 0);
             let variance = mean(square(a - center), axis: 0);
             let hidden = relu((a - center) / sqrt(variance + {bn_epsilon}) * gamma + beta);
             moving_mean <- moving_mean * {bn_momentum} + center * (1 - {bn_momentum});
             moving_variance <- moving_variance * {bn_momentum} + variance * (1 - {bn_momentum});
             loss mean(square(matmul(hidden, w2) + b2 - y));",
        "optimizer momentum({learning_rate}, momentum: {momentum}, use_nesterov: true);",
    ),
    (
        "adagrad_da_sparse_linear",
        "let logit = sum(weights * gather(w, ids), axis: 1) + b;
             loss mean(maximum(0.0, 1.0 - (2.0 * y - 1.0) * logit));",
        "optimizer adagrad_da({learning_rate},
             initial_gradient_squared_accumulator_value: {initial_gradient_squared_accumulator_value},
             l1_regularization_strength: {l1_regularization_strength},
             l2_regularization_strength: {l2_regularization_strength});",
    ),
    (
        "embedding_bag_adam_sparse",
        // Adam moves all rows, so that it does not matter whether the gradient is dense.
        "let bag = mean(gather(emb, ids), axis: 1);
             loss mean(sparse_softmax_cross_entropy_with_logits(labels: y, logits: matmul(bag, w) + b));",
        "optimizer adam({learning_rate}, beta1: {beta1}, beta2: {beta2}, epsilon: {epsilon});",
    ),
    (
        "gru_adadelta_polynomial_clip_by_norm",
        "let h = for t in 0..3, h = zeros_of(2, 3) {
                 let x_t = x[_, t];
                 let (r, u) = split(sigmoid(matmul(concat([x_t, h], axis: 1), gk) + gb), 2, axis: 1);
                 let c = tanh(matmul(concat([x_t, r * h], axis: 1), ck) + cb);
                 u * h + (1 - u) * c
             };
             let e = abs(matmul(h, w) + b - y);
             let q = minimum(e, {delta});
             loss mean(square(q) / 2 + {delta} * (e - q));",
        "schedule lr = polynomial_decay({learning_rate}, decay_steps: {decay_steps}, end_learning_rate: {end_learning_rate}, power: {power});
             optimizer adadelta(lr, rho: {rho}, epsilon: {epsilon});
             clip norm({clip_norm});",
    ),
];

/// What the models share.
const SHARED: &str = "
fn zeros_of(const n, const m) = broadcast_to(0.0, [n, m]);

fn normalized(x: T[.., n], const epsilon) where T: float {
    let centered = x - mean(x, axis: -1, keepdims: true);
    centered * rsqrt(mean(square(centered), axis: -1, keepdims: true) + epsilon)
}
";

/// The suffix of a slot after the name of its variable, as our checkpoints have it.
fn slot_name(case: &str, slot: &str) -> Result<&'static str, String> {
    Ok(match (slot, case.contains("rmsprop")) {
        ("rms", _) => "RMSProp",
        ("mg", _) => "RMSProp_1",
        ("momentum", true) => "RMSProp_2",
        ("momentum", false) => "Momentum",
        ("accumulator", _) => "Adagrad",
        ("gradient_accumulator", _) => "AdagradDA",
        ("gradient_squared_accumulator", _) => "AdagradDA_1",
        ("accum", _) if case.contains("ftrl") => "Ftrl",
        ("linear", _) => "Ftrl_1",
        ("accum", _) => "Adadelta",
        ("accum_update", _) => "Adadelta_1",
        ("m", _) => "Adam",
        ("v", _) => "Adam_1",
        _ => return Err(format!("a slot that is not known: `{slot}`")),
    })
}

/// Runs the cases of a file.
///
/// # Panics
///
/// When one fails, or is not known.
pub fn run_file(path: &Path, engine: Engine) {
    let mut report = Report::default();
    for case in &cases(path) {
        let name = case["name"].as_str().unwrap_or("?");
        match PLANS.iter().find(|(known, ..)| *known == name) {
            Some((_, model, train)) => {
                report.case("training", name, || run_case(case, model, train, engine));
            }
            None => report.case("training", name, || {
                Err("the case is not known: write its model".to_owned())
            }),
        }
    }
    report.finish(&path.display().to_string());
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
    let steps = integer(fields.need("steps")?)? as usize;
    let parameters = tensors(fields.need("parameters")?)?;
    let others = tensors(fields.need("state")?)?;
    let batches = tensors(fields.need("batches")?)?;
    let expected = Fields::of(fields.need("expected")?)?;
    fields.done("a field")?;

    let text = text(case, model, train, &parameters, &others, &batches)?;
    let given = parameters.clone().into_iter().chain(others.clone());
    let mut run = Run::new(&checked(&text)?, false, given.collect(), engine)?;

    let mut findings = Findings::default();
    let mut compare = |what: String, expected: &Tensor, found: Option<&Tensor>| {
        findings.compare(what, expected, found, tolerance);
    };
    let losses = tensor(expected.need("losses")?)?.to_f64s();
    let rates = tensor(expected.need("learning_rates")?)?.to_f64s();
    let norms = tensor(expected.need("global_norms")?)?.to_f64s();
    for step in 0..steps {
        let inputs: BTreeMap<String, Tensor> = batches
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
        // The norm of a sparse gradient is that of its rows as they come, of which repeated ones are not summed. That of `emb` in
        // the case of the LSTM was taken before the gradient was made dense, and ours is dense from the start.
        let rows = |name: &str| found.contains_key(&format!("{name}#rows"));
        if !case["name"]
            .as_str()
            .unwrap_or_default()
            .starts_with("lstm")
        {
            let gradients = found
                .iter()
                .filter(|(n, _)| n.starts_with("gradient/") && !rows(n));
            let squares = gradients.flat_map(|(_, t)| t.to_f64s()).map(|x| x * x);
            let norm = scalar(squares.sum::<f64>().sqrt());
            compare(
                format!("the norm of step {step}"),
                &scalar(norms[step]),
                Some(&norm),
            );
        }
        if step == 0 {
            for (name, t) in tensors(expected.need("first_parameters")?)? {
                let now = run.get(&name);
                compare(format!("`{name}` after one step"), &t, now);
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
            let now = run.get(&name);
            compare(format!("`{name}` of {group}"), &t, now);
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
    if let Some(averages) = expected.get("final_ema") {
        for (name, t) in tensors(averages)? {
            let now = run.get(&format!("{name}/ExponentialMovingAverage"));
            compare(format!("the average of `{name}`"), &t, now);
        }
    }
    let count = Tensor::scalar(integer(expected.need("final_global_step")?)?);
    compare("the global step".to_owned(), &count, run.get(GLOBAL_STEP));
    expected.done("an expectation")?;
    Ok(findings)
}
