//! Schedules: a step of training for each case, looked at when `global_step` is each of its steps.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};
use trainspec_frontend::lower::GLOBAL_STEP;
use trainspec_ir::{DType, Tensor};

use crate::oracle::compare::{Tolerance, same};
use crate::oracle::fields::{Fields, shortened};
use crate::oracle::report::{Findings, Report};
use crate::oracle::run::{Run, checked};
use crate::oracle::tensors::{dtype, integer, number, tensor};
use crate::oracle::{Engine, cases, run_cases};

/// What the language does where TensorFlow raises an error.
enum Answer {
    /// It has a diagnostic too, with this code.
    Refuses(&'static str),
    /// It has no such distinction, for this reason.
    Allows(&'static str),
}

/// What TensorFlow says, and what the language does.
const ERRORS: &[(&str, Answer)] = &[
    // `step` is always there and no parameter of a schedule: to give a step that is none is to give an argument that is unknown.
    (
        "None values not supported.",
        Answer::Refuses("unknown-argument"),
    ),
    (
        "The length of boundaries should be 1 less than the length of values",
        Answer::Refuses("bad-value"),
    ),
    (
        "Values must have elements all with the same dtype",
        Answer::Allows("known numbers have no dtype before they meet a tensor"),
    ),
    (
        "must have the same dtype as x",
        Answer::Allows("`step` is a float in schedules, so that it may be between boundaries"),
    ),
];

/// Runs the cases of a file.
///
/// # Panics
///
/// When one fails.
pub fn run_file(path: &Path, engine: Engine) {
    run_cases(path, "kind", |case| run_case(case, engine));
}

/// Runs the cases of a schedule in f32, which must have TensorFlow's bits.
///
/// # Panics
///
/// When one fails, or there is none.
pub fn same_bits(path: &Path, kind: &str, engine: Engine) {
    let mut report = Report::default();
    let of_kind = |case: &&Json| {
        case["kind"] == kind && case["dtype"] == "float32" && case.get("expected").is_some()
    };
    for mut case in cases(path).iter().filter(of_kind).cloned() {
        case["rtol"] = 0.0.into();
        case["atol"] = 0.0.into();
        let name = case["name"].as_str().unwrap_or("?").to_owned();
        report.case(kind, &name, || run_case(&case, engine));
    }
    report.finish(&path.display().to_string());
}

/// A spec whose rate is this.
fn text(rate: &str) -> String {
    format!(
        "spec run;
model (x: f32) {{ param w: f32 = 0.0; loss w * x; }}
train {{ schedule lr = {rate}; optimizer gradient_descent(lr); steps 1; }}
"
    )
}

fn run_case(case: &Json, engine: Engine) -> Result<Findings, String> {
    let fields = Fields::of(case)?;
    let (kind, _, _) = (
        fields.text("kind")?,
        fields.text("name")?,
        fields.get("note"),
    );
    let dtype = dtype(fields.text("dtype")?)?;
    let wide = match dtype {
        DType::F32 => false,
        DType::F64 => true,
        other => return Err(format!("no schedule is in {other}")),
    };
    let given = fields.need("args")?;
    if let Some(error) = fields.get("expected_error") {
        fields.done("a field")?;
        return run_error(kind, given, error, wide, engine);
    }
    let tolerance = Tolerance::of(&fields)?;
    let steps = fields.list("steps")?;
    let expected = tensor(fields.need("expected")?)?;
    let fractional = match fields.get("boundaries_dtype") {
        None => false,
        Some(name) if name.as_str() == Some("int64") => false,
        Some(name) if name == fields.need("dtype")? => true,
        Some(name) => return Err(format!("boundaries are {}", shortened(name))),
    };
    fields.done("a field")?;

    let mut arguments = arguments(given)?;
    let at: Vec<i64> = if fractional {
        // The step is an index into the points at which the schedule is evaluated.
        let points: Vec<String> = steps.iter().map(literal).collect::<Result<_, _>>()?;
        arguments.push(format!(
            "x: gather([{}], cast(step, i64))",
            points.join(", ")
        ));
        (0..steps.len() as i64).collect()
    } else {
        steps.iter().map(integer).collect::<Result<_, _>>()?
    };
    let found = rates(kind, &arguments, &at, wide, engine)?;
    let found = match wide {
        true => Tensor::new(&[found.len()], found),
        false => Tensor::new(
            &[found.len()],
            found.iter().map(|x| *x as f32).collect::<Vec<_>>(),
        ),
    };
    let mut findings = Findings::default();
    findings
        .wrong
        .extend(same(&expected, &found, tolerance).err());
    Ok(findings)
}

/// A case in which TensorFlow raises an error.
fn run_error(
    kind: &str,
    given: &Json,
    error: &Json,
    wide: bool,
    engine: Engine,
) -> Result<Findings, String> {
    let error = Fields::of(error)?;
    let (_, message) = (error.text("type")?, error.text("message")?);
    error.done("a field of an error")?;
    let Some((_, answer)) = ERRORS.iter().find(|(part, _)| message.contains(part)) else {
        return Err(format!("an error that is not known: {message}"));
    };
    let arguments = arguments(given)?;
    let mut findings = Findings::default();
    match answer {
        Answer::Refuses(code) => {
            let text = text(&format!("{kind}({})", arguments.join(", ")));
            let found = Compilation::check("run.trainspec", &text, &NoFiles, &Options::default());
            let codes: Vec<&str> = found.diagnostics.iter().map(|d| d.code.name()).collect();
            if codes != [*code] {
                let wrong = format!("{text}has the diagnostics {codes:?}, expected {code}");
                findings.wrong.push(wrong);
            }
        }
        Answer::Allows(why) => {
            let values = Fields::of(given)?.list("values")?;
            let values: Vec<f64> = values.iter().map(number).collect::<Result<_, _>>()?;
            for rate in rates(kind, &arguments, &[0, 1, 2], wide, engine)? {
                if !values.iter().any(|v| (v - rate).abs() < 1e-6) {
                    findings.wrong.push(format!("{rate} is none of the values"));
                }
            }
            findings
                .notes
                .push(format!("TensorFlow refuses it: {message} Allowed: {why}"));
        }
    }
    Ok(findings)
}

/// The rate at each of the steps.
fn rates(
    kind: &str,
    arguments: &[String],
    steps: &[i64],
    wide: bool,
    engine: Engine,
) -> Result<Vec<f64>, String> {
    let spec = checked(&text(&format!("{kind}({})", arguments.join(", "))))?;
    let mut run = Run::new(&spec, wide, BTreeMap::new(), engine)?;
    let input = match wide {
        true => Tensor::scalar(0_f64),
        false => Tensor::scalar(0_f32),
    };
    let mut rates = Vec::new();
    for step in steps {
        run.set(GLOBAL_STEP, Tensor::scalar(*step))?;
        let found = run.step(BTreeMap::from([("x".to_owned(), input.clone())]))?;
        let rate = found.get("schedule/lr").ok_or("the step has no `lr`")?;
        if rate.ty() != input.ty() {
            return Err(format!("the rate is {}", rate.ty()));
        }
        rates.push(rate.to_f64s()[0]);
    }
    Ok(rates)
}

/// The arguments of a case, which have the names that the library gives them.
fn arguments(given: &Json) -> Result<Vec<String>, String> {
    let Json::Object(map) = given else {
        return Err("`args` is no object".to_owned());
    };
    map.iter()
        .map(|(name, value)| Ok(format!("{name}: {}", literal(value)?)))
        .collect()
}

/// A value as the language writes it.
fn literal(json: &Json) -> Result<String, String> {
    Ok(match json {
        Json::Null => "none".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(n) if n.is_f64() => format!("{:?}", number(json)?),
        Json::Number(n) => n.to_string(),
        Json::Array(list) => {
            let items: Vec<String> = list.iter().map(literal).collect::<Result<_, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Json::String(_) | Json::Object(_) => {
            return Err(format!("`{}` is no number", shortened(json)));
        }
    })
}
