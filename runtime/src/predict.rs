//! Predictions of a checkpoint on a file of records (batch inference).
//!
//! In: a spec, a checkpoint of its run, and a file. Out: the outputs of the model for each record, in the order of the file, batch by batch.
//! A record goes through the features and maps of the data set of the training; what the outputs do not depend on, such as a label, is not asked
//! for. Leaves alone: the folder of the run, as evaluations do; how outputs are written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::Fetch;
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Size, Tensor, TensorType};
use trainspec_compiler::typed::{DataSet, Model, Remainder, Spec, ValueId};

use crate::data::{DataContext, GivenData, RecordFormat, data_of_inputs, each_data};
use crate::run_folder::other_spec;
use crate::saver::{OTHER_MODEL, RestoreOptions, Strictness, VarList, restore_in};
use crate::session::{Options, Session, the_model, the_train};
use crate::train::ExponentialMovingAverage;
use crate::training_tables::the_tables;
use crate::{Error, Vocabulary};

/// The records of a batch, where neither the spec nor the caller says.
const DEFAULT_BATCH: u64 = 128;

/// What a file of records holds.
///
/// ```
/// use trainspec::predict::InputFormat;
///
/// assert_eq!(InputFormat::of("points.csv".as_ref()), Some(InputFormat::Csv));
/// assert_eq!(InputFormat::of("points.txt".as_ref()), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// Comma-separated values, as the csv source of the data set has them, and with a header where its source is another.
    Csv,
    /// An array of NumPy: the only feature, whose first dimension is the records.
    Npy,
    /// Arrays of NumPy, one for each feature.
    Npz,
    /// `tf.train.Example` messages.
    TfRecord,
    /// A JSON object in each line.
    JsonLines,
}

impl InputFormat {
    /// The format by the ending of a name.
    pub fn of(path: &Path) -> Option<InputFormat> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name
            .strip_suffix(".gz")
            .filter(|name| name.contains(".tfrecord"))
            .unwrap_or(&name);
        Some(match name.rsplit_once('.')?.1 {
            "csv" | "tsv" => InputFormat::Csv,
            "npy" => InputFormat::Npy,
            "npz" => InputFormat::Npz,
            "tfrecord" | "tfrecords" => InputFormat::TfRecord,
            "jsonl" | "ndjson" => InputFormat::JsonLines,
            _ => return None,
        })
    }

    fn records(self) -> RecordFormat {
        match self {
            InputFormat::Csv => RecordFormat::Csv,
            InputFormat::Npy => RecordFormat::Npy,
            InputFormat::Npz => RecordFormat::Npz,
            InputFormat::TfRecord => RecordFormat::TfRecord,
            InputFormat::JsonLines => RecordFormat::JsonLines,
        }
    }
}

/// What is predicted, and of what.
///
/// ```
/// use trainspec::predict::{InputFormat, Request};
///
/// let request = Request { fetch: vec!["probabilities".to_owned()], ..Request::of("new.csv", InputFormat::Csv) };
/// assert!(!request.ema);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The file, in the storage of the options.
    pub path: PathBuf,
    /// What it holds.
    pub format: InputFormat,
    /// The data set whose features and maps the records go through, instead of that of `train`.
    pub data: Option<String>,
    /// The outputs, or `let`s of the model; where there is none, all outputs that have a row for each record.
    pub fetch: Vec<String>,
    /// Whether averages take the place of their variables.
    pub ema: bool,
    /// The records of a batch, instead of what the data set says.
    pub batch: Option<u64>,
}

impl Request {
    /// All outputs for the records of a file.
    pub fn of(path: impl Into<PathBuf>, format: InputFormat) -> Request {
        Request {
            path: path.into(),
            format,
            data: None,
            fetch: Vec::new(),
            ema: false,
            batch: None,
        }
    }
}

/// An output that is predicted.
///
/// ```
/// # fn see(output: &trainspec::predict::Output) {
/// println!("{}: {} for each record", output.name, output.dtype);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its element type; strings where it is words.
    pub dtype: DType,
    /// The words of its ids, where the spec says `words_of`.
    pub words: Option<Arc<Vocabulary>>,
}

/// The outputs for some consecutive records.
///
/// ```
/// # fn see(predictions: &trainspec::predict::Predictions) {
/// assert_eq!(predictions.values[0].shape()[0], predictions.rows);
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    /// The number of records.
    pub rows: usize,
    /// The values of each output, whose first dimension is the records.
    pub values: Vec<Tensor>,
}

/// Predicts batch by batch.
///
/// ```
/// use trainspec::predict::{InputFormat, Request};
/// use trainspec::{CheckpointChoice, Event, Options, Predictor, check, find_checkpoint, train};
///
/// let folder = std::env::temp_dir().join(format!("trainspec-predict-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).map_err(trainspec::Error::other)?;
/// std::fs::write(folder.join("points.csv"), "x,y\n1,2\n2,4\n").map_err(trainspec::Error::other)?;
/// std::fs::write(folder.join("new.csv"), "x\n3\n4\n5\n").map_err(trainspec::Error::other)?;
/// let spec = check("line", r#"
///     spec line;
///     data points { source csv("points.csv", header: true); feature x: f32; feature y: f32; repeat; batch 2; }
///     model (x: f32[batch], y: f32[batch]) {
///         param a: f32 = zeros();
///         loss mean(square(a * x - y));
///         output guess = a * x;
///     }
///     train { data points; optimizer gradient_descent(0.1); steps 40; }
/// "#)?;
/// let options = Options { folder: folder.clone(), dir: Some(folder.join("run")), ..Options::default() };
/// train(&spec, &options, &mut |_: &Event| {})?;
///
/// let checkpoint = find_checkpoint(&spec, &options, &CheckpointChoice::Latest)?;
/// // The new file has no `y`, and needs none.
/// let request = Request::of(folder.join("new.csv"), InputFormat::Csv);
/// let mut predictor = Predictor::open(&spec, &options, &checkpoint, &request)?;
/// let mut guesses = Vec::new();
/// while let Some(batch) = predictor.next()? {
///     guesses.extend(batch.values[0].to_f64s());
/// }
/// assert_eq!(guesses.len(), 3);
/// assert!((guesses[2] - 10.0).abs() < 1e-3);
/// # std::fs::remove_dir_all(folder).map_err(trainspec::Error::other)?;
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct Predictor {
    session: Session,
    data: GivenData,
    outputs: Vec<Output>,
    fetches: Vec<(Fetch, TensorType)>,
    left_out: Vec<String>,
    other_spec: Option<String>,
    predicted: u64,
}

impl Predictor {
    /// Opens the file, and restores the variables of the model from a checkpoint; slots and other state are not needed.
    pub fn open(
        spec: &Arc<Spec>,
        options: &Options,
        checkpoint: &Path,
        request: &Request,
    ) -> Result<Predictor, Error> {
        let train = the_train(spec)?;
        let model = the_model(spec)?;
        let chosen = Chosen::of(spec, model, &request.fetch)?;
        let set = chosen_data(spec, model, train.data.as_deref(), request)?;
        let cx = DataContext {
            remainder: Remainder::Keep,
            training: false,
            ..DataContext::of(spec, options, options.seed.unwrap_or(train.seed))
        };
        // The model with what is asked for alone, so that a program computes nothing else and takes no other inputs.
        let values = chosen.outputs.iter().map(|(_, value)| *value);
        let needed = model.eval.program.inputs_of(values);
        ensure_given(model, &set, &needed)?;
        let mut pruned = Spec::clone(spec);
        if let Some(model) = &mut pruned.model {
            model.eval.outputs = chosen.outputs.clone();
        }
        let pruned = Arc::new(pruned);
        let mut session = Session::uninitialized(&pruned, options)?;
        let restore = RestoreOptions {
            var_list: variables(spec, request.ema)?,
            strictness: Strictness::Partial,
            ..RestoreOptions::default()
        };
        let storage = &options.env.storage;
        let restored = restore_in(storage, session.state_mut(), checkpoint, &restore)?;
        restored.plan.require(OTHER_MODEL)?;
        session.restored(restored.records);
        the_tables(&cx, Some(checkpoint), &options.stop)?;
        let data = GivenData::open(
            &cx,
            &set,
            &needed,
            (&request.path, request.format.records()),
            request.batch,
            !set.keeps_remainder(model),
        )?;
        let mut outputs = Vec::new();
        let mut fetches = Vec::new();
        for (name, value) in &chosen.outputs {
            let ty = &model.eval.program.values[value.0 as usize];
            let words = match model.eval.words.iter().any(|words| words.output == *name) {
                true => session.vocabulary(name)?,
                false => None,
            };
            outputs.push(Output {
                name: name.clone(),
                dtype: match words {
                    Some(_) => DType::String,
                    None => ty.dtype,
                },
                words,
            });
            fetches.push((Fetch::Output(name.clone()), TensorType::clone(ty)));
        }
        Ok(Predictor {
            session,
            data,
            outputs,
            fetches,
            left_out: chosen.left_out,
            other_spec: other_spec(&**storage, checkpoint, spec),
            predicted: 0,
        })
    }

    /// What is predicted, in the order of the values.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The outputs that are left out, since they are no rows for each record, and none was asked for by name.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// What is worth saying where the spec is not the one that the checkpoint was trained with.
    pub fn other_spec(&self) -> Option<&str> {
        self.other_spec.as_deref()
    }

    /// The number of records that were predicted so far.
    pub fn predicted(&self) -> u64 {
        self.predicted
    }

    /// The outputs for the next batch; `None` at the end.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Predictions>, Error> {
        let Some(batch) = self.data.pipeline.next()? else {
            return Ok(None);
        };
        // Copies that fill up the last batch are cut off again.
        let rows = batch.rows.unwrap_or(1).saturating_sub(self.data.filled());
        self.session.predict(&batch)?;
        let mut values = Vec::new();
        for (output, (fetch, ty)) in self.outputs.iter().zip(&self.fetches) {
            let value = self.session.results().without_padding(fetch, ty);
            let value = value.expect("a prediction gives its outputs").into_owned();
            let value = first_rows(value, rows);
            values.push(match &output.words {
                Some(words) => words.words(&value)?,
                None => value,
            });
        }
        self.predicted += rows as u64;
        Ok(Some(Predictions { rows, values }))
    }
}

/// Which values of the model are predicted.
struct Chosen {
    outputs: Vec<(String, ValueId)>,
    left_out: Vec<String>,
}

impl Chosen {
    fn of(spec: &Spec, model: &Model, fetch: &[String]) -> Result<Chosen, Error> {
        let mode = &model.eval;
        let has_rows = |value: ValueId| has_rows(model, &mode.program.values[value.0 as usize]);
        let error = |code: Code, message: String, help: String| -> Error {
            Diagnostic::without_span(code, message).help(help).into()
        };
        if fetch.is_empty() {
            let outputs = mode.outputs.iter().cloned();
            let (outputs, other): (Vec<_>, Vec<_>) =
                outputs.partition(|(_, value)| has_rows(*value));
            if outputs.is_empty() {
                let message = format!("the model of `{}` has no output for each record", spec.name);
                let help = "say what is predicted: `output probabilities = softmax(logits);`";
                return Err(error(Code::MissingItem, message, help.to_owned()));
            }
            return Ok(Chosen {
                outputs,
                left_out: other.into_iter().map(|(name, _)| name).collect(),
            });
        }
        let known: BTreeMap<&str, ValueId> = (mode.lets.iter())
            .chain(&mode.outputs)
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let mut outputs: Vec<(String, ValueId)> = Vec::new();
        for name in fetch {
            let Some(value) = known.get(name.as_str()) else {
                let near = trainspec_compiler::diag::nearest(name, known.keys().copied());
                let names: Vec<String> = (mode.outputs.iter())
                    .map(|(name, _)| format!("`{name}`"))
                    .collect();
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("its outputs are {}", names.join(", ")),
                };
                let message = format!("the model has no output `{name}`");
                return Err(error(Code::UnknownName, message, help));
            };
            if !has_rows(*value) {
                let ty = &mode.program.values[value.0 as usize];
                let message = format!("`{name}` is `{ty}`, which has no row for each record");
                let help = "an output that is predicted has the dimension of the batch first";
                return Err(error(Code::ShapeMismatch, message, help.to_owned()));
            }
            if !outputs.iter().any(|(known, _)| known == name) {
                outputs.push((name.clone(), *value));
            }
        }
        Ok(Chosen {
            outputs,
            left_out: Vec::new(),
        })
    }
}

/// Whether the first dimension of a value is that of the batch.
fn has_rows(model: &Model, ty: &TensorType) -> bool {
    let batch: Vec<&Size> = (model.inputs.iter())
        .filter_map(|input| Some(&input.ty.shape.0.first()?.size))
        .collect();
    let first = ty.shape.0.first();
    first.is_some_and(|dim| dim.count.is_none() && batch.contains(&&dim.size))
}

/// The data set whose features and maps records go through.
fn chosen_data(
    spec: &Spec,
    model: &Model,
    trained: Option<&str>,
    request: &Request,
) -> Result<DataSet, Error> {
    let set = match (request.data.as_deref().or(trained), spec.data.as_slice()) {
        (Some(name), _) => crate::trainer::the_data(spec, name)?.clone(),
        (None, []) => data_of_inputs(&model.inputs, request.batch.unwrap_or(DEFAULT_BATCH)),
        (None, [only]) => only.clone(),
        (None, several) => {
            let names: Vec<String> = (several.iter())
                .map(|set| format!("`{}`", set.name))
                .collect();
            let message = format!(
                "the spec has the data sets {}, and `train` names none",
                names.join(", ")
            );
            let error = Diagnostic::without_span(Code::MissingItem, message);
            return Err(error
                .help("name the one whose features and maps the records go through")
                .into());
        }
    };
    if set.batch().is_none() {
        let message = format!("the data set `{}` has no `batch`", set.name);
        let error = Diagnostic::without_span(Code::MissingItem, message);
        return Err(error
            .help("a prediction takes batches of records: `batch 32;`")
            .into());
    }
    Ok(set)
}

/// Fails where the data set does not give an input.
fn ensure_given(model: &Model, set: &DataSet, needed: &BTreeSet<String>) -> Result<(), Error> {
    let missing = |name: &&String| !set.elements.contains_key(*name);
    let Some(name) = needed.iter().find(missing) else {
        return Ok(());
    };
    let span = model.inputs.iter().find(|input| input.name == *name);
    let message = format!(
        "the outputs need `{name}`, which the data set `{}` does not give",
        set.name
    );
    let mut error = crate::DataError::new(message);
    if let Some(input) = span {
        error = error.at(input.span);
    }
    Err(error.into())
}

/// The variables of the model, with the names of their values in a checkpoint: with `ema` those of their averages.
pub(crate) fn variables(spec: &Spec, ema: bool) -> Result<VarList, Error> {
    let names = ExponentialMovingAverage::default();
    let averaged: BTreeSet<String> = (spec.train.iter())
        .flat_map(|train| &train.averages)
        .map(|average| average.state[0].name.clone())
        .collect();
    let mut any = false;
    let list = spec.variables.iter().map(|variable| {
        let average = names.average_name(&variable.name);
        let key = match ema && averaged.contains(&average) {
            true => {
                any = true;
                average
            }
            false => variable.name.clone(),
        };
        (key, variable.name.clone())
    });
    let list: BTreeMap<String, String> = list.collect();
    if ema && !any {
        let message = format!("the spec `{}` has no averages", spec.name);
        let error = Diagnostic::without_span(Code::MissingItem, message);
        return Err(error
            .help("`ema (decay: 0.999);` in `train` keeps averages of its variables")
            .into());
    }
    Ok(VarList::Map(list))
}

/// The first rows of a tensor.
fn first_rows(tensor: Tensor, rows: usize) -> Tensor {
    let mut shape = tensor.shape().to_vec();
    if shape[0] <= rows {
        return tensor;
    }
    shape[0] = rows;
    let elements: usize = shape.iter().product();
    let data = each_data!(tensor.into_data(), values => {
        let mut values = values;
        values.truncate(elements);
        values
    });
    Tensor::of(&shape, data)
}
