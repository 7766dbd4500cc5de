//! The cases of `optimizers.json`: an optimizer with given gradients, step by step.
//!
//! A gradient is given by a loss that has it: the sum of all variables times what is fed for each, or of the rows of a variable
//! times rows that are fed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value as Json};
use trainspec_frontend::lower::GLOBAL_STEP;
use trainspec_ir::{DType, Tensor};

use crate::oracle::calls::literal;
use crate::oracle::compare::Tolerance;
use crate::oracle::fields::Fields;
use crate::oracle::report::{Findings, Report};
use crate::oracle::run::{Run, checked};
use crate::oracle::tensors::{dtype, integer, number, row, tensor, tensors};
use crate::oracle::{Engine, cases};

/// TensorFlow's classes and our names.
const NAMES: [(&str, &str); 10] = [
    ("Adadelta", "adadelta"),
    ("Adagrad", "adagrad"),
    ("AdagradDA", "adagrad_da"),
    ("Adam", "adam"),
    ("Ftrl", "ftrl"),
    ("GradientDescent", "gradient_descent"),
    ("Momentum", "momentum"),
    ("ProximalAdagrad", "proximal_adagrad"),
    ("ProximalGradientDescent", "proximal_gradient_descent"),
    ("RMSProp", "rmsprop"),
];

/// Runs the cases of a file. Those of kind `conditional_accumulator` are about clusters and are passed over.
///
/// # Panics
///
/// When one fails, or is of no known kind.
pub fn run_file(path: &Path, engine: Engine) {
    let mut report = Report::default();
    let mut passed_over = 0;
    for case in &cases(path) {
        let name = case["name"].as_str().unwrap_or("?");
        let op = case["op"].as_str().unwrap_or("?");
        match case["kind"].as_str().unwrap_or("?") {
            "optimizer" => report.case(op, name, || run_case(case, engine)),
            "error" => report.case("errors", name, || refused(case)),
            "conditional_accumulator" => passed_over += 1,
            other => report.case(other, name, || Err("the kind is not known".to_owned())),
        }
    }
    println!("{passed_over} cases of conditional accumulators passed over");
    report.finish(&path.display().to_string());
}

/// Runs the dense cases of an optimizer in f32 for one of its slots, which must have TensorFlow's bits after every step.
///
/// # Panics
///
/// When one fails, or there is none.
pub fn same_bits_of_slot(path: &Path, op: &str, slot: &str, engine: Engine) {
    let mut report = Report::default();
    let of_op = |case: &&Json| {
        case["kind"] == "optimizer"
            && case["op"] == op
            && case["dtype"] == "float32"
            && case["sparse"] == false
    };
    for mut case in cases(path).iter().filter(of_op).cloned() {
        case["rtol"] = 0.0.into();
        case["atol"] = 0.0.into();
        let expected = &mut case["expected"];
        for part in ["variables", "non_slots", "initial_non_slots"] {
            expected[part] = Json::Object(Map::new());
        }
        for part in ["slots", "initial_slots"] {
            for (_, slots) in expected[part].as_object_mut().into_iter().flatten() {
                if let Some(slots) = slots.as_object_mut() {
                    slots.retain(|name, _| name == slot);
                }
            }
        }
        let name = case["name"].as_str().unwrap_or("?").to_owned();
        report.case(op, &name, || run_case(&case, engine));
    }
    report.finish(&path.display().to_string());
}

fn our_name(op: &str) -> Result<&'static str, String> {
    let found = NAMES.iter().find(|(theirs, _)| *theirs == op);
    found
        .map(|(_, ours)| *ours)
        .ok_or_else(|| format!("the optimizer `{op}` is not known"))
}

/// Arguments as they are written.
fn arguments(args: &Map<String, Json>) -> Result<String, String> {
    let mut list = Vec::new();
    for (name, value) in args {
        let value = match value {
            Json::Bool(value) => value.to_string(),
            value => literal(value)?,
        };
        list.push(format!("{name}: {value}"));
    }
    Ok(list.join(", "))
}

fn object<'a>(fields: &Fields<'a>, name: &str) -> Result<&'a Map<String, Json>, String> {
    let json = fields.need(name)?;
    json.as_object()
        .ok_or_else(|| format!("`{name}` is no object"))
}

/// The settings of training of a case.
fn training(fields: &Fields<'_>) -> Result<String, String> {
    let mut args = object(fields, "args")?.clone();
    let mut text = String::new();
    if let Some(schedule) = fields.get("learning_rate_schedule") {
        let schedule = Fields::of(schedule)?;
        let kind = schedule.text("kind")?;
        let given = arguments(object(&schedule, "args")?)?;
        let _ = writeln!(text, "    schedule lr = {kind}({given});");
        args.remove("learning_rate");
    }
    let mut list = arguments(&args)?;
    if !text.is_empty() {
        list = format!("lr, {list}").trim_end_matches(", ").to_owned();
    }
    let name = our_name(fields.text("op")?)?;
    let _ = writeln!(text, "    optimizer {name}({list});\n    steps 1;");
    Ok(text)
}

/// The text of a spec whose gradients are fed.
fn text(
    variables: &BTreeMap<String, Tensor>,
    fed: &BTreeMap<String, Tensor>,
    training: &str,
) -> String {
    // Everything is written as f32; a run in f64 widens all of it.
    let ty = |t: &Tensor, skip: usize| {
        let dtype = match t.dtype() {
            dtype if dtype.is_float() => DType::F32,
            dtype => dtype,
        };
        trainspec_ir::graph::Type::new(dtype, &t.shape()[skip..]).to_string()
    };
    let inputs: Vec<String> = fed
        .iter()
        .map(|(name, t)| format!("{name}: {}", ty(t, 1)))
        .collect();
    let mut text = format!("spec run;\nmodel ({}) {{\n", inputs.join(", "));
    let mut terms = Vec::new();
    for (name, t) in variables {
        let _ = writeln!(text, "    param {name}: {} = zeros();", ty(t, 0));
        terms.push(match fed.contains_key(&format!("{name}_at")) {
            true => format!("sum(gather({name}, {name}_at) * {name}_grad)"),
            false => format!("sum({name} * {name}_grad)"),
        });
    }
    let _ = writeln!(text, "    loss {};\n}}", terms.join(" + "));
    let _ = writeln!(text, "train {{\n{training}}}");
    text
}

fn run_case(case: &Json, engine: Engine) -> Result<Findings, String> {
    let fields = Fields::of(case)?;
    for known in ["name", "kind", "resource"] {
        fields.need(known)?;
    }
    let widen = dtype(fields.text("dtype")?)? == DType::F64;
    let sparse = fields.need("sparse")?.as_bool().unwrap_or_default();
    let tolerance = Tolerance::of(&fields)?;
    let steps = integer(fields.need("steps")?)? as usize;
    let variables = tensors(fields.need("variables")?)?;
    let mut fed = BTreeMap::new();
    for (name, json) in object(&fields, "gradients")? {
        match sparse {
            false => {
                fed.insert(format!("{name}_grad"), tensor(json)?);
            }
            true => {
                let rows = Fields::of(json)?;
                fed.insert(format!("{name}_at"), tensor(rows.need("indices")?)?);
                fed.insert(format!("{name}_grad"), tensor(rows.need("values")?)?);
                rows.done("a field of rows")?;
            }
        }
    }
    let training = training(&fields)?;
    let rates: Option<Vec<f64>> = match fields.get("learning_rates") {
        Some(json) => Some(match json {
            Json::Array(list) => list.iter().map(number).collect::<Result<_, _>>()?,
            json => tensor(json)?.to_f64s(),
        }),
        None => None,
    };
    let expected = Fields::of(fields.need("expected")?)?;
    let mut given = variables.clone();
    if let Some(start) = fields.get("global_step_start") {
        given.insert(GLOBAL_STEP.to_owned(), Tensor::scalar(integer(start)?));
    }
    fields.done("a field")?;
    let text = text(&variables, &fed, &training);
    let mut run = Run::new(&checked(&text)?, widen, given, engine)?;

    let mut findings = Findings::default();
    let mut compare = |what: String, expected: &Tensor, found: Option<&Tensor>| {
        findings.compare(what, expected, found, tolerance);
    };
    // What is compared after each step, and what at the start, by the name that it has in a checkpoint.
    let mut after: Vec<(String, Tensor)> = Vec::new();
    let mut before: Vec<(String, Tensor)> = Vec::new();
    after.extend(tensors(expected.need("variables")?)?);
    after.extend(tensors(expected.need("non_slots")?)?);
    before.extend(tensors(expected.need("initial_non_slots")?)?);
    let names = object(&expected, "slot_variable_names")?;
    for (part, list) in [("slots", &mut after), ("initial_slots", &mut before)] {
        for (variable, slots) in object(&expected, part)? {
            for (slot, t) in tensors(slots)? {
                let name = names[variable][&slot].as_str();
                let name = name.ok_or_else(|| format!("`{slot}` of `{variable}` has no name"))?;
                list.push((name.to_owned(), t));
            }
        }
    }
    expected.done("an expectation")?;
    for (name, t) in &before {
        compare(format!("`{name}` before the first step"), t, run.get(name));
    }
    for step in 0..steps {
        let inputs: BTreeMap<String, Tensor> = fed
            .iter()
            .map(|(name, t)| (name.clone(), row(t, step)))
            .collect();
        let found = run.step(inputs)?;
        for (name, t) in &after {
            compare(
                format!("`{name}` after step {step}"),
                &row(t, step),
                run.get(name),
            );
        }
        if let (Some(rates), Some(rate)) = (&rates, found.get("schedule/lr")) {
            let expected_rate = Tensor::from_f64s(&rate.ty(), [rates[step]]);
            compare(
                format!("the rate of step {step}"),
                &expected_rate,
                Some(rate),
            );
        }
    }
    Ok(findings)
}

/// A case that TensorFlow refuses.
fn refused(case: &Json) -> Result<Findings, String> {
    let fields = Fields::of(case)?;
    for known in ["kind", "dtype", "expected_error"] {
        fields.need(known)?;
    }
    let training = training(&fields)?;
    let name = fields.text("name")?;
    fields.done("a field")?;
    let model = match name {
        // Nothing to train; nothing that depends on what is trained.
        "apply_no_variables" | "minimize_no_variables" => "loss sum(x);",
        "apply_all_gradients_none" | "minimize_no_gradient" => {
            "param w: f32[2] = zeros(); loss sum(x) + 0.0 * cast(argmax(w, axis: 0), f32);"
        }
        _ => "param w: f32[2] = zeros(); loss sum(x * w);",
    };
    let text = format!("spec run;\nmodel (x: f32[2]) {{ {model} }}\ntrain {{\n{training}}}\n");
    let wrong = match checked(&text) {
        Err(message) => message,
        Ok(spec) => match Run::new(&spec, false, BTreeMap::new(), Engine::Interpreted) {
            Err(message) => message,
            Ok(_) => String::new(),
        },
    };
    let mut findings = Findings::default();
    match wrong.as_str() {
        "" => findings.wrong.push(format!("is not refused:\n{text}")),
        message => findings
            .notes
            .push(message.lines().filter(|l| l.contains("error")).collect()),
    }
    Ok(findings)
}
