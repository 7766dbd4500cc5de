//! The cases of `clipping.json`: the functions of `compiler/std/clipping`, and `zero_fraction`.
//!
//! Sparse tensors (`IndexedSlices`) are clipped by their values, as TensorFlow does it: the functions see the values, and the
//! indices stay.

use std::path::Path;

use serde_json::{Map, Value as Json};
use trainspec_ir::graph::Type;
use trainspec_ir::{DType, Tensor};

use crate::oracle::compare::{Tolerance, same};
use crate::oracle::fields::{Fields, shortened};
use crate::oracle::gradient::{self, Gradient};
use crate::oracle::model::Model;
use crate::oracle::ops::optional;
use crate::oracle::report::Findings;
use crate::oracle::tensors::{self, integer, number, sizes, tensor};
use crate::oracle::{Engine, run_cases};

/// A case.
#[derive(Debug)]
struct Case {
    model: Model,
    /// What each output of the model is called, and what it is.
    expected: Vec<(String, Tensor)>,
    /// The cotangent of the first output, and the gradient of the first input.
    gradient: Option<(Tensor, Tensor)>,
    /// Whether TensorFlow refuses it.
    refused: bool,
    tolerance: Tolerance,
}

/// An entry of a list of tensors.
#[derive(Debug, PartialEq)]
enum Entry {
    Dense(Tensor),
    Sparse {
        indices: Tensor,
        values: Tensor,
        /// The dense shape, where it is given.
        shape: Option<Vec<usize>>,
    },
}

impl Entry {
    fn read(json: &Json) -> Result<Entry, String> {
        let fields = Fields::of(json)?;
        let Some(indices) = fields.get("indices") else {
            return tensor(json).map(Entry::Dense);
        };
        let rows = Entry::Sparse {
            indices: tensor(indices)?,
            values: tensor(fields.need("values")?)?,
            shape: fields.get("dense_shape").map(sizes).transpose()?,
        };
        fields.done("a field of rows")?;
        Ok(rows)
    }

    fn values(&self) -> &Tensor {
        match self {
            Entry::Dense(values) | Entry::Sparse { values, .. } => values,
        }
    }

    /// Says when the row indices of the two differ.
    fn same_indices(&self, other: &Entry) -> Result<(), String> {
        let same = match (self, other) {
            (Entry::Dense(_), Entry::Dense(_)) => true,
            (
                Entry::Sparse { indices, shape, .. },
                Entry::Sparse {
                    indices: others,
                    shape: other,
                    ..
                },
            ) => indices == others && (other.is_none() || shape == other),
            _ => false,
        };
        match same {
            true => Ok(()),
            false => Err("the rows of an output are not those of its input".to_owned()),
        }
    }
}

impl Case {
    fn read(json: &Json) -> Result<Case, String> {
        let fields = Fields::of(json)?;
        fields.text("name")?;
        let dtype = match fields.get("dtype") {
            Some(_) => tensors::dtype(fields.text("dtype")?)?,
            None => DType::F32,
        };
        let none = Json::Object(Map::new());
        let inputs = Fields::of(fields.get("inputs").unwrap_or(&none))?;
        let args = Fields::of(fields.get("args").unwrap_or(&none))?;
        let expected = Fields::of(fields.get("expected").unwrap_or(&none))?;
        let mut given = Vec::new();
        let mut made = match fields.text("op")? {
            op @ ("clip_by_value" | "clip_by_norm" | "clip_by_average_norm" | "zero_fraction") => {
                given.push(tensor(inputs.need("t")?)?);
                let arguments = arguments(op, &args, &mut given)?;
                let call = format!("{op}(x0{arguments})");
                let output = tensor(expected.need("output")?)?;
                Case {
                    model: Model::calling(given, &call, 1),
                    expected: vec![("output".to_owned(), output)],
                    ..Case::empty()
                }
            }
            op @ ("global_norm" | "clip_by_global_norm") => {
                listed(op, dtype, &inputs, &args, &expected)?
            }
            other => return Err(format!("the operation `{other}` is not known")),
        };
        made.tolerance = Tolerance::of(&fields)?;
        made.refused = fields.get("expected_error").is_some();
        if let Some(weights) = fields.get("weights") {
            let gradient = tensor(expected.need("gradient")?)?;
            made.gradient = Some((tensor(weights)?, gradient));
        }
        fields.done("a field of the case")?;
        inputs.done("an input")?;
        args.done("an argument")?;
        expected.done("a field of `expected`")?;
        Ok(made)
    }

    fn empty() -> Case {
        Case {
            model: Model::calling(Vec::new(), "0", 1),
            expected: Vec::new(),
            gradient: None,
            refused: false,
            tolerance: Tolerance {
                relative: 0.0,
                absolute: 0.0,
            },
        }
    }

    fn run(&self, engine: Engine) -> Result<Findings, String> {
        let mut findings = Findings::default();
        if self.refused {
            if self.model.check().is_ok() {
                let wrong = format!("is not refused:\n{}", self.model.text());
                findings.wrong.push(wrong);
            }
            return Ok(findings);
        }
        let weights = self.gradient.as_ref().map(|(weights, _)| {
            let mut all = vec![None; self.expected.len()];
            all[0] = Some(weights.clone());
            all
        });
        let found = self.model.run(weights.as_deref(), engine)?;
        for ((what, expected), found) in self.expected.iter().zip(&found.outputs) {
            let compared = same(expected, found, self.tolerance);
            let wrong =
                compared.map_err(|wrong| format!("{what} of `{}` {wrong}", self.model.body));
            findings.wrong.extend(wrong.err());
        }
        if let Some((_, expected)) = &self.gradient {
            let expected = Some(Gradient::Dense(expected.clone()));
            let what = format!("the gradient of `{}`", self.model.body);
            let found = &found.gradients[0];
            gradient::compare(&mut findings, &what, &expected, found, self.tolerance);
        }
        Ok(findings)
    }
}

/// The arguments after the tensor; those that are tensors become inputs.
fn arguments(op: &str, args: &Fields<'_>, inputs: &mut Vec<Tensor>) -> Result<String, String> {
    let names: &[&str] = match op {
        "clip_by_value" => &["clip_value_min", "clip_value_max"],
        "clip_by_norm" | "clip_by_average_norm" => &["clip_norm"],
        _ => &[],
    };
    let mut text = String::new();
    for name in names {
        let value = match args.need(name)? {
            json @ Json::Object(_) => {
                inputs.push(tensor(json)?);
                format!("x{}", inputs.len() - 1)
            }
            json => known(json)?,
        };
        text += &format!(", {name}: {value}");
    }
    if op == "clip_by_norm"
        && let Some(axes) = args.get("axes")
    {
        let axes = match axes {
            Json::Array(list) => list.iter().map(integer).collect::<Result<Vec<i64>, _>>()?,
            one => vec![integer(one)?],
        };
        text += &format!(", axes: {axes:?}");
    }
    Ok(text)
}

/// A function of a list of tensors.
fn listed(
    op: &str,
    dtype: DType,
    inputs: &Fields<'_>,
    args: &Fields<'_>,
    expected: &Fields<'_>,
) -> Result<Case, String> {
    let Some(_) = inputs.get("t_list") else {
        // A tensor instead of a list.
        let one = Tensor::zeros(&Type::new(dtype, &[2]));
        let bound = known(args.need("clip_norm")?)?;
        return Ok(Case {
            model: Model::calling(vec![one], &format!("{op}(x0, {bound})"), 1),
            ..Case::empty()
        });
    };
    let entries = optional(inputs.list("t_list")?, Entry::read)?;
    let mut given: Vec<Tensor> = Vec::new();
    let mut list = Vec::new();
    for entry in &entries {
        list.push(match entry {
            Some(entry) => {
                given.push(entry.values().clone());
                format!("x{}", given.len() - 1)
            }
            None => "none".to_owned(),
        });
    }
    let list = list.join(", ");
    let norm = (
        "global_norm".to_owned(),
        tensor(expected.need("global_norm")?)?,
    );
    if op == "global_norm" {
        return Ok(Case {
            model: Model::calling(given, &format!("global_norm([{list}])"), 1),
            expected: vec![norm],
            ..Case::empty()
        });
    }
    let bound = known(args.need("clip_norm")?)?;
    let use_norm = match args.get("use_norm") {
        Some(json) => {
            let scalar = match json {
                Json::Object(_) => tensor(json)?,
                json => Tensor::from_f64s(&Type::scalar(dtype), [number(json)?]),
            };
            given.push(scalar);
            format!(", use_norm: x{}", given.len() - 1)
        }
        None => String::new(),
    };
    let body = format!("let (clipped, norm) = clip_by_global_norm([{list}], {bound}{use_norm});");
    let (mut outputs, mut values) = (vec!["norm".to_owned()], vec![norm]);
    let clipped = optional(expected.list("outputs")?, Entry::read)?;
    if clipped.len() != entries.len() {
        return Err(format!(
            "{} outputs of {} inputs",
            clipped.len(),
            entries.len()
        ));
    }
    for (i, (entry, clipped)) in entries.iter().zip(&clipped).enumerate() {
        match (entry, clipped) {
            (None, None) => {}
            (Some(entry), Some(clipped)) => {
                entry.same_indices(clipped)?;
                outputs.push(format!("clipped[{i}]"));
                values.push((format!("output {i}"), clipped.values().clone()));
            }
            _ => {
                return Err(format!(
                    "output {i} is there and its input is not, or otherwise"
                ));
            }
        }
    }
    Ok(Case {
        model: Model {
            inputs: given,
            body,
            outputs,
        },
        expected: values,
        ..Case::empty()
    })
}

/// A number as it is written.
fn known(json: &Json) -> Result<String, String> {
    match json {
        Json::Number(_) | Json::String(_) => crate::oracle::calls::literal(json),
        other => Err(format!("`{}` is no number", shortened(other))),
    }
}

/// Runs all cases of a file.
///
/// # Panics
///
/// When one of them fails.
pub fn run_file(path: &Path, engine: Engine) {
    run_cases(path, "op", |json| Case::read(json)?.run(engine));
}
