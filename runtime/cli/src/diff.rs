//! `trainspec diff`: two checkpoints, tensor by tensor, with tolerances (`numpy.isclose`).

mod compare;
mod contents;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::{DType, Tensor};

use crate::artifacts;
use crate::failure::Failure;
use crate::output::{count, print, say};
use crate::progress::Progress;
use crate::tensors::{FormattedElements, json_real, real, size, typed};
use crate::{BAD_INPUT, FAILED, FINE, Format};
use compare::{Difference, Extreme, Tolerance};
use contents::Contents;

const HELP: &str = "\
Elements are equal if |a - b| <= atol + rtol * |b|; NaN equals NaN, and its difference from a number is infinite.
A tensor that cannot be read is not compared, and nothing is equal then, whatever the others are.
JSON is one object: `equal`; `tensors`, how many both have; `only_in_a` and `only_in_b`, with `name`, `dtype` and `shape` (null if they are not \
known); `other_type`, with `name`, `a` and `b`; `not_compared`, with `name`, and `a` and `b`, the cause of the failure to read it there, or null; \
and `differing`, with `name`, `dtype`, `shape`, `elements`, `differing` (how many of them), and for numbers `absolute` and \
`relative`, the largest differences: `value`, `at`, `a`, `b`, and for strings `first` instead: `at`, `a`, `b`. After a failure it is `error` and \
`help`.
Exit codes: 0 equal; 1 different; 2 bad input, or a tensor could not be compared.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// A checkpoint's prefix or folder, a `.safetensors` or an `.npz` file
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// The relative difference that is allowed
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = tolerance)]
    rtol: f64,
    /// The absolute difference that is allowed
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = tolerance)]
    atol: f64,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x >= 0.0 && x.is_finite() => Ok(x),
        _ => Err("write a number that is not negative".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let found = match diff(arguments) {
        Ok(found) => found,
        Err(failure) => return failure.report(arguments.format),
    };
    match arguments.format {
        Format::Text => found.text(arguments),
        Format::Json => print(found.json()),
    }
    match (found.not_compared.is_empty(), found.equal()) {
        (false, _) => BAD_INPUT,
        (true, true) => FINE,
        (true, false) => FAILED,
    }
}

/// The type and the shape of a tensor.
type Described = (DType, Vec<usize>);

/// A tensor that one checkpoint has; of unsupported ones, neither type nor shape is known.
type OnlyInOne = (String, Option<Described>);

/// The differences of two checkpoints.
#[derive(Debug, Default)]
struct CheckpointDiff {
    /// The number of tensors that both have.
    common: usize,
    /// The number of elements compared.
    elements: usize,
    only_a: Vec<OnlyInOne>,
    only_b: Vec<OnlyInOne>,
    other_type: Vec<(String, [Described; 2])>,
    differing: Vec<TensorDiff>,
    /// The tensors that both have and one or both of which cannot be read, and why.
    not_compared: Vec<(String, [Option<FormatError>; 2])>,
}

/// A tensor whose elements differ.
#[derive(Debug)]
struct TensorDiff {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    elements: usize,
    differing: usize,
    worst: Worst,
}

#[derive(Debug)]
enum Worst {
    Numbers {
        absolute: ElementDiff,
        relative: ElementDiff,
    },
    Strings {
        first: ElementDiff,
    },
}

/// An element that differs, with both values formatted as text and as JSON.
#[derive(Debug)]
struct ElementDiff {
    /// The difference; of strings there is none.
    value: f64,
    at: Vec<usize>,
    text: [String; 2],
    json: [String; 2],
}

fn diff(arguments: &Arguments) -> Result<CheckpointDiff, Failure> {
    let a = artifacts::open(&arguments.a)?;
    let b = artifacts::open(&arguments.b)?;
    let allowed = Tolerance {
        relative: arguments.rtol,
        absolute: arguments.atol,
    };
    let mut found = CheckpointDiff::default();
    let progress = Progress::of_tensors(&a);
    let (contents_a, contents_b) = (Contents::new(&a), Contents::new(&b));
    let names: BTreeSet<&str> = contents_a.names().chain(contents_b.names()).collect();
    let described = |(dtype, shape): (DType, &[usize])| (dtype, shape.to_vec());
    for name in names {
        let (in_a, in_b) = match (contents_a.get(name), contents_b.get(name)) {
            (Some(in_a), Some(in_b)) => (in_a, in_b),
            (in_a, in_b) => {
                let only = match in_a.is_some() {
                    true => &mut found.only_a,
                    false => &mut found.only_b,
                };
                let known = in_a.or(in_b).and_then(Result::ok);
                only.push((name.to_owned(), known.map(described)));
                continue;
            }
        };
        found.common += 1;
        if let (Ok(in_a), Ok(in_b)) = (&in_a, &in_b)
            && in_a != in_b
        {
            let both = [*in_a, *in_b].map(described);
            found.other_type.push((name.to_owned(), both));
            continue;
        }
        if let Ok((dtype, shape)) = in_a {
            progress.add(size(dtype, shape).unwrap_or(0));
        }
        // Streamed: only two tensors are in memory. One that is unsupported fails here, with the reason.
        let in_a = a.get_tensor(name).map_err(|e| e.in_file(&arguments.a));
        let in_b = b.get_tensor(name).map_err(|e| e.in_file(&arguments.b));
        let (in_a, in_b) = match (in_a, in_b) {
            (Ok(in_a), Ok(in_b)) => (in_a, in_b),
            (in_a, in_b) => {
                let causes = [in_a.err(), in_b.err()];
                found.not_compared.push((name.to_owned(), causes));
                continue;
            }
        };
        found.elements += FormattedElements::new(&in_a).count();
        if let Some(difference) = compare::tensors(&in_a, &in_b, allowed) {
            found
                .differing
                .push(TensorDiff::new(name, &in_a, &in_b, difference));
        }
    }
    Ok(found)
}

impl TensorDiff {
    fn new(name: &str, a: &Tensor, b: &Tensor, difference: Difference) -> TensorDiff {
        let (in_a, in_b) = (FormattedElements::new(a), FormattedElements::new(b));
        let element = |extreme: Extreme| ElementDiff {
            value: extreme.value,
            at: multi_index(a.shape(), extreme.at),
            text: [&in_a, &in_b].map(|elements| elements.readable(extreme.at, 40)),
            json: [&in_a, &in_b].map(|elements| elements.json(extreme.at)),
        };
        let (differing, worst) = match difference {
            Difference::Numbers {
                count,
                absolute,
                relative,
            } => (
                count,
                Worst::Numbers {
                    absolute: element(absolute),
                    relative: element(relative),
                },
            ),
            Difference::Strings { count, first } => {
                let first = element(Extreme {
                    value: 0.0,
                    at: first,
                });
                (count, Worst::Strings { first })
            }
        };
        TensorDiff {
            name: name.to_owned(),
            dtype: a.dtype(),
            shape: a.shape().to_vec(),
            elements: in_a.count(),
            differing,
            worst,
        }
    }
}

/// The multi-index of an element, row-major (`numpy.unravel_index`).
fn multi_index(shape: &[usize], mut index: usize) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (at, &size) in at.iter_mut().zip(shape).rev() {
        *at = index % size;
        index /= size;
    }
    at
}

impl CheckpointDiff {
    /// Whether a difference was found.
    fn differs(&self) -> bool {
        let is_same = self.only_a.is_empty()
            && self.only_b.is_empty()
            && self.other_type.is_empty()
            && self.differing.is_empty();
        !is_same
    }

    /// Whether all tensors were compared, and no difference was found.
    fn equal(&self) -> bool {
        !self.differs() && self.not_compared.is_empty()
    }

    fn text(&self, arguments: &Arguments) {
        let within = match (arguments.rtol, arguments.atol) {
            (0.0, 0.0) => String::new(),
            (rtol, atol) => format!(" within rtol {} and atol {}", real(rtol), real(atol)),
        };
        let tensors = count(self.common, "tensor");
        if self.equal() {
            let elements = count(self.elements, "element");
            say(format_args!("equal{within}: {tensors}, {elements}"));
            return;
        }
        let sides = [(&arguments.a, &self.only_a), (&arguments.b, &self.only_b)];
        for (path, only) in sides {
            for (name, described) in only {
                let path = path.display();
                let described = described
                    .as_ref()
                    .map_or("of an unsupported type".to_owned(), |(dtype, shape)| {
                        typed(*dtype, shape)
                    });
                say(format_args!("{name}: {described}, only in {path}"));
            }
        }
        for (name, [a, b]) in &self.other_type {
            say(format_args!(
                "{name}: {} and {}",
                typed(a.0, &a.1),
                typed(b.0, &b.1)
            ));
        }
        for differing in &self.differing {
            say(differing.text());
        }
        for (name, causes) in &self.not_compared {
            let causes = causes.iter().flatten().map(ToString::to_string);
            let causes = causes.collect::<Vec<_>>().join("; ");
            say(format_args!("{name}: not compared: {causes}"));
        }
        let only = self.only_a.len() + self.only_b.len();
        let counts = [
            (only, "only in one"),
            (self.other_type.len(), "of another type or shape"),
            (self.differing.len(), "with other elements"),
            (self.not_compared.len(), "not compared"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        let verdict = match self.differs() {
            true => "different",
            false => "not known to be equal",
        };
        say(format_args!(
            "{verdict}{within}: {tensors} in both; {}",
            counts.join(", ")
        ));
    }

    fn json(&self) -> Json {
        let only = |list: &[OnlyInOne]| -> Json {
            let one = |(name, described): &OnlyInOne| match described {
                Some((dtype, shape)) => {
                    json!({ "name": name, "dtype": dtype.name(), "shape": shape })
                }
                None => json!({ "name": name, "dtype": null, "shape": null }),
            };
            list.iter().map(one).collect()
        };
        let side =
            |(dtype, shape): &(DType, Vec<usize>)| json!({ "dtype": dtype.name(), "shape": shape });
        let other: Json = self
            .other_type
            .iter()
            .map(|(name, [a, b])| json!({ "name": name, "a": side(a), "b": side(b) }))
            .collect();
        let differing: Json = self.differing.iter().map(TensorDiff::json).collect();
        let cause = |error: &Option<FormatError>| error.as_ref().map(ToString::to_string);
        let not_compared: Json = self
            .not_compared
            .iter()
            .map(|(name, [a, b])| json!({ "name": name, "a": cause(a), "b": cause(b) }))
            .collect();
        json!({
            "equal": self.equal(), "tensors": self.common, "only_in_a": only(&self.only_a), "only_in_b": only(&self.only_b),
            "other_type": other, "differing": differing, "not_compared": not_compared,
        })
    }
}

impl TensorDiff {
    fn text(&self) -> String {
        let at = |element: &ElementDiff| {
            let [a, b] = &element.text;
            match element.at.is_empty() {
                true => format!("({a} and {b})"),
                false => format!("at {:?} ({a} and {b})", element.at),
            }
        };
        let largest = match &self.worst {
            Worst::Numbers { absolute, relative } => format!(
                "largest absolute difference {} {}, relative {} {}",
                short(absolute.value),
                at(absolute),
                short(relative.value),
                at(relative)
            ),
            Worst::Strings { first } => format!("the first {}", at(first)),
        };
        let differ = if self.elements == 1 {
            "differs"
        } else {
            "differ"
        };
        format!(
            "{}: {}, {} of {} {differ}; {largest}",
            self.name,
            typed(self.dtype, &self.shape),
            self.differing,
            count(self.elements, "element")
        )
    }

    fn json(&self) -> Json {
        let parsed = |text: &str| -> Json { serde_json::from_str(text).unwrap_or(Json::Null) };
        let element = |element: &ElementDiff| {
            let [a, b] = &element.json;
            json!({ "at": element.at, "a": parsed(a), "b": parsed(b) })
        };
        let valued = |worst: &ElementDiff| {
            let mut object = element(worst);
            object["value"] = parsed(&json_real(worst.value));
            object
        };
        let mut object = json!({
            "name": self.name, "dtype": self.dtype.name(), "shape": self.shape, "elements": self.elements, "differing": self.differing,
        });
        match &self.worst {
            Worst::Numbers { absolute, relative } => {
                object["absolute"] = valued(absolute);
                object["relative"] = valued(relative);
            }
            Worst::Strings { first } => object["first"] = element(first),
        }
        object
    }
}

/// Few digits are enough to see how large a difference is.
fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    real(rounded)
}
