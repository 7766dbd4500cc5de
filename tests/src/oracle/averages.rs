//! The cases of `ema.json`: moving averages of variables and of values.
//!
//! A variable has the value that a case gives it because it is set before the step, and its gradient is 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value as Json;
use trainspec::train::ExponentialMovingAverage;
use trainspec_frontend::lower::GLOBAL_STEP;
use trainspec_ir::graph::Type;
use trainspec_ir::{DType, Tensor};

use crate::oracle::calls::literal;
use crate::oracle::compare::Tolerance;
use crate::oracle::fields::Fields;
use crate::oracle::report::Findings;
use crate::oracle::run::{Run, checked};
use crate::oracle::tensors::{dtype, integer, row, tensor, tensors};
use crate::oracle::{Engine, run_cases};

/// Runs the cases of a file.
///
/// # Panics
///
/// When one fails, or is of no known kind.
pub fn run_file(path: &Path, engine: Engine) {
    run_cases(path, "kind", |case| match case["kind"].as_str() {
        Some("apply") => apply(case, engine),
        Some("variables_to_restore") => variables_to_restore(case),
        _ => Err("the kind is not known".to_owned()),
    });
}

fn apply(case: &Json, engine: Engine) -> Result<Findings, String> {
    let fields = Fields::of(case)?;
    for known in ["name", "kind"] {
        fields.need(known)?;
    }
    let widen = dtype(fields.text("dtype")?)? == DType::F64;
    let tolerance = Tolerance::of(&fields)?;
    let args = Fields::of(fields.need("args")?)?;
    let decay = literal(args.need("decay")?)?;
    let debias = args.need("zero_debias")?.as_bool().unwrap_or_default();
    let own = args.get("name").and_then(Json::as_str);
    args.done("an argument")?;
    let updates: Option<Vec<i64>> = match fields.get("num_updates") {
        Some(Json::Array(list)) => Some(list.iter().map(integer).collect::<Result<_, _>>()?),
        Some(_) => return Err("`num_updates` is no list".to_owned()),
        None => None,
    };
    let values = tensors(fields.need("values")?)?;
    let Some(sources) = fields.need("sources")?.as_object() else {
        return Err("`sources` is no object".to_owned());
    };
    let expected = Fields::of(fields.need("expected")?)?;
    fields.done("a field")?;

    let shown = |t: &Tensor, skip: usize| Type::new(DType::F32, &t.shape()[skip..]).to_string();
    let (mut inputs, mut body, mut loss) = (Vec::new(), String::new(), Vec::new());
    let (mut given, mut of) = (BTreeMap::new(), Vec::new());
    for (name, source) in sources {
        let source = Fields::of(source)?;
        match source.text("source")? {
            "variable" => {
                let initial = tensor(source.need("initial")?)?;
                let _ = writeln!(body, "    param {name}: {} = zeros();", shown(&initial, 0));
                loss.push(format!("sum(0.0 * {name})"));
                given.insert(name.clone(), initial);
            }
            "tensor" => {
                source.get("initial");
                inputs.push(format!("fed_{name}: {}", shown(&values[name], 1)));
                let _ = writeln!(body, "    let {name} = 1.0 * fed_{name};");
                of.push(name.clone());
            }
            other => return Err(format!("a source that is not known: `{other}`")),
        }
        source.done("a field of a source")?;
    }
    let mut settings = format!("decay: {decay}, zero_debias: {debias}");
    if updates.is_some() {
        settings += ", num_updates: step";
    }
    if let Some(own) = own {
        let _ = write!(settings, ", name: \"{own}\"");
    }
    let of = of.join(", ");
    let text = format!(
        "spec run;\nmodel ({}) {{\n{body}    loss {};\n}}\ntrain {{\n    optimizer gradient_descent(0.1);\n    \
         ema ({settings}, tensors: [{of}]) for \"**\";\n    steps 1;\n}}\n",
        inputs.join(", "),
        loss.join(" + ")
    );
    let names = expected.need("average_names")?;
    let shadow = |name: &str| names[name].as_str().unwrap_or_default().to_owned();
    // An average begins with its variable, whose initial value is given here.
    let shadows: Vec<(String, Tensor)> =
        given.iter().map(|(n, t)| (shadow(n), t.clone())).collect();
    given.extend(shadows);
    let mut run = Run::new(&checked(&text)?, widen, given, engine)?;
    let mut findings = Findings::default();
    let mut compare = |what: String, expected: &Tensor, found: Option<&Tensor>| {
        findings.compare(what, expected, found, tolerance);
    };
    for (name, t) in tensors(expected.need("initial_averages")?)? {
        compare(
            format!("the first average of `{name}`"),
            &t,
            run.get(&shadow(&name)),
        );
    }
    let ema = ExponentialMovingAverage::new(own.unwrap_or(ExponentialMovingAverage::NAME));
    let names_expected = expected.need("average_name_results")?;
    for name in sources.keys() {
        let name_expected = names_expected[name].as_str().unwrap_or_default();
        if ema.average_name(name) != name_expected || shadow(name) != name_expected {
            let found = ema.average_name(name);
            return Err(format!(
                "`average_name` of `{name}` is `{found}`, not `{name_expected}`"
            ));
        }
    }
    for extra in expected.list("extra_variables")? {
        let name = extra.as_str().unwrap_or_default();
        if run.get(name).is_none() {
            return Err(format!("there is no `{name}`"));
        }
    }
    let averages = tensors(expected.need("averages")?)?;
    expected.done("an expectation")?;
    let steps = averages.values().next().map_or(0, |t| t.shape()[0]);
    for step in 0..steps {
        let mut inputs = BTreeMap::new();
        for (name, t) in &values {
            match run.get(name) {
                Some(_) => run.set(name, row(t, step))?,
                None => {
                    inputs.insert(format!("fed_{name}"), row(t, step));
                }
            }
        }
        if let Some(updates) = &updates {
            // `step` counts there with the update that is being made.
            run.set(GLOBAL_STEP, Tensor::scalar(updates[step] - 1))?;
        }
        run.step(inputs)?;
        for (name, t) in &averages {
            let now = run.get(&shadow(name));
            compare(
                format!("the average of `{name}` after step {step}"),
                &row(t, step),
                now,
            );
        }
    }
    Ok(findings)
}

fn variables_to_restore(case: &Json) -> Result<Findings, String> {
    let fields = Fields::of(case)?;
    for known in ["name", "kind", "dtype"] {
        fields.need(known)?;
    }
    let ema = ExponentialMovingAverage::new(ExponentialMovingAverage::NAME);
    let (mut all, mut default) = (Vec::new(), Vec::new());
    for variable in fields.list("variables")? {
        let variable = Fields::of(variable)?;
        variable.need("key")?;
        let name = variable.text("name")?;
        let flag = |name: &str| variable.need(name).map(|v| v.as_bool().unwrap_or_default());
        let (trainable, averaged) = (flag("trainable")?, flag("moving_average")?);
        all.push(name.to_owned());
        if averaged {
            // The shadow is a variable too.
            all.push(ema.average_name(name));
        }
        if trainable || averaged {
            default.push(name.to_owned());
        }
        variable.done("a field of a variable")?;
    }
    let chosen = match fields.get("moving_avg_variables") {
        None => default,
        Some(Json::Array(list)) => list
            .iter()
            .map(|n| n.as_str().unwrap_or_default().to_owned())
            .collect(),
        Some(_) => return Err("`moving_avg_variables` is no list".to_owned()),
    };
    let Some(expected) = fields.need("expected")?.as_object() else {
        return Err("`expected` is no object".to_owned());
    };
    fields.done("a field")?;
    let expected: BTreeMap<String, String> = expected
        .iter()
        .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
        .collect();
    let found = ema.variables_to_restore(&all, &chosen);
    let mut findings = Findings::default();
    if found != expected {
        findings.wrong.push(format!("{found:?}, not {expected:?}"));
    }
    Ok(findings)
}
