//! The cases of `ops_*.json`: one operation each, with its gradient.

use std::path::Path;

use serde_json::{Map, Value as Json};
use trainspec_ir::{DType, Tensor};

use crate::oracle::calls::{Call, OpRequest, Precision, call};
use crate::oracle::compare::{Tolerance, close, same};
use crate::oracle::fields::Fields;
use crate::oracle::gradient::{self, Gradient};
use crate::oracle::model::Model;
use crate::oracle::report::Findings;
use crate::oracle::tensors::{dtype, tensor, tensor_of};
use crate::oracle::{Engine, run_cases};

/// A case.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The operation, as TensorFlow calls it; `composite` for a formula of several.
    pub op: String,
    /// The arguments that are no tensors, by TensorFlow's names.
    pub args: Json,
    /// What is computed, for people; for a composite it says what to call.
    pub formula: Option<String>,
    /// The tensors it takes, in order.
    pub inputs: Vec<Input>,
    /// The cotangent of each output; `None` where there is none. No list: only values are compared.
    pub weights: Option<Vec<Option<Tensor>>>,
    /// What comes out.
    pub outputs: Vec<Tensor>,
    /// The gradient of each input.
    pub gradients: Vec<Option<Gradient>>,
    /// How far a float may be off.
    pub tolerance: Tolerance,
}

/// An input of a case.
#[derive(Debug, Clone)]
pub struct Input {
    /// TensorFlow's name of the parameter.
    pub name: String,
    /// Its value.
    pub value: Tensor,
}

impl Case {
    /// Reads a case; a field that is not known is reported.
    pub fn read(json: &Json) -> Result<Case, String> {
        let fields = Fields::of(json)?;
        // The dtype of the case; its tensors have their own.
        if fields.get("dtype").is_some() {
            dtype(fields.text("dtype")?)?;
        }
        let expected = Fields::of(fields.need("expected")?)?;
        let weights = match fields.get("weights") {
            Some(_) => Some(optional(fields.list("weights")?, tensor)?),
            None => None,
        };
        let gradients = match expected.get("gradients") {
            Some(_) => optional(expected.list("gradients")?, gradient::read)?,
            None => Vec::new(),
        };
        let case = Case {
            name: fields.text("name")?.to_owned(),
            op: fields.text("op")?.to_owned(),
            args: match fields.get("args") {
                Some(args) => args.clone(),
                None => Json::Object(Map::new()),
            },
            formula: match fields.get("formula") {
                Some(_) => Some(fields.text("formula")?.to_owned()),
                None => None,
            },
            inputs: fields
                .list("inputs")?
                .iter()
                .map(Input::read)
                .collect::<Result<_, _>>()?,
            outputs: expected
                .list("outputs")?
                .iter()
                .map(tensor)
                .collect::<Result<_, _>>()?,
            weights,
            gradients,
            tolerance: Tolerance::of(&fields)?,
        };
        fields.done("a field of the case")?;
        expected.done("a field of `expected`")?;
        let (inputs, outputs) = (case.inputs.len(), case.outputs.len());
        match &case.weights {
            Some(weights) if weights.len() != outputs => {
                Err(format!("{} weights for {outputs} outputs", weights.len()))
            }
            Some(_) if case.gradients.len() != inputs => Err(format!(
                "{} gradients for {inputs} inputs",
                case.gradients.len()
            )),
            None if !case.gradients.is_empty() => Err("gradients without weights".to_owned()),
            _ => Ok(case),
        }
    }

    /// The call of the language that computes it.
    pub fn call(&self) -> Result<Call, String> {
        let args = Fields::of(&self.args)?;
        let outputs: Vec<DType> = self.outputs.iter().map(Tensor::dtype).collect();
        let request = OpRequest {
            op: &self.op,
            inputs: &self.inputs,
            args: &args,
            formula: self.formula.as_deref(),
            outputs: &outputs,
        };
        call(&request).map_err(|wrong| format!("`{}`: {wrong}", self.op))
    }

    /// Runs it; says what is not as expected.
    pub fn run(&self, engine: Engine) -> Result<Findings, String> {
        let call = self.call()?;
        let inputs = self.inputs.iter().map(|input| input.value.clone());
        let model = Model::calling(inputs.collect(), &call.text, self.outputs.len());
        let found = model
            .run(self.weights.as_deref(), engine)
            .map_err(|wrong| format!("`{}`: {wrong}", call.text))?;
        let mut findings = Findings::default();
        let tolerance = call.precision.widen(self.tolerance);
        let compare = match call.precision {
            Precision::Full | Precision::RoundedConstant => same,
            Precision::Single => close,
        };
        for (i, (expected, found)) in self.outputs.iter().zip(&found.outputs).enumerate() {
            if let Err(wrong) = compare(expected, found, tolerance) {
                findings
                    .wrong
                    .push(format!("output {i} of `{}` {wrong}", call.text));
            }
        }
        for (i, (expected, found)) in self.gradients.iter().zip(&found.gradients).enumerate() {
            let what = format!(
                "gradient {i} (`{}`) of `{}`",
                self.inputs[i].name, call.text
            );
            gradient::compare(&mut findings, &what, expected, found, tolerance);
        }
        Ok(findings)
    }
}

impl Input {
    fn read(json: &Json) -> Result<Input, String> {
        let fields = Fields::of(json)?;
        let input = Input {
            name: fields.text("name")?.to_owned(),
            value: tensor_of(&fields)?,
        };
        fields.done("a field of an input")?;
        Ok(input)
    }
}

/// The entries of a list, null being `None`.
pub fn optional<T>(
    list: &[Json],
    read: impl Fn(&Json) -> Result<T, String>,
) -> Result<Vec<Option<T>>, String> {
    let one = |json: &Json| match json {
        Json::Null => Ok(None),
        json => read(json).map(Some),
    };
    list.iter().map(one).collect()
}

/// Runs all cases of a file.
///
/// # Panics
///
/// When one of them fails.
pub fn run_file(path: &Path, engine: Engine) {
    run_cases(path, "op", |json| Case::read(json)?.run(engine));
}
