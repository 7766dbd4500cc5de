//! The README of an exported model: what it is, and code that loads it.

use std::fmt::Write;
use std::path::Path;

use trainspec::{DType, EXPORTED_MODEL, Exported};
use trainspec_compiler::ir::TensorType;
use trainspec_compiler::typed::{Feature, Spec};

use crate::output::count;

/// The variables that are listed.
const MAX_LISTED_VARIABLES: usize = 200;

/// An exported model.
pub(super) struct Described<'a> {
    pub(super) spec: &'a Spec,
    /// The spec in the folder.
    pub(super) file: &'a Path,
    pub(super) exported: &'a Exported,
    pub(super) checkpoint: &'a Path,
    pub(super) ema: bool,
}

impl Described<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let name = &self.spec.name;
        let exported = self.exported;
        let averages = if self.ema {
            "; the weights are moving averages"
        } else {
            ""
        };
        let _ = write!(
            text,
            "# {name}\n\n\
             A model of {} in {}, after {} of training{averages}.\n\
             It was exported from `{}` by trainspec {}.\n\n",
            count(
                usize::try_from(exported.parameters).unwrap_or(usize::MAX),
                "parameter"
            ),
            count(exported.variables.len(), "variable"),
            count(usize::try_from(exported.step).unwrap_or(usize::MAX), "step"),
            self.checkpoint.display(),
            env!("CARGO_PKG_VERSION"),
        );
        self.files(&mut text);
        self.interface(&mut text);
        self.command(&mut text);
        self.python(&mut text);
        self.rust(&mut text);
        self.variables(&mut text);
        text
    }

    fn files(&self, text: &mut String) {
        let _ = write!(
            text,
            "| file | what it has |\n| --- | --- |\n\
             | `{EXPORTED_MODEL}` | the variables by name; in its metadata the vocabularies and statistics of the training data |\n\
             | `{}` | what the model computes |\n",
            self.file.display()
        );
        for (output, _) in &self.exported.words {
            let _ = writeln!(
                text,
                "| `{output}.words.txt` | the words of `{output}`: that of id i is line i + 1 |"
            );
        }
        text.push('\n');
    }

    /// The inputs that the outputs need.
    fn inputs(&self) -> Vec<&Feature> {
        let Some(model) = &self.spec.model else {
            return Vec::new();
        };
        let outputs = model.eval.outputs.iter().map(|(_, value)| *value);
        let needed = model.eval.program.inputs_of(outputs);
        (model.inputs.iter())
            .filter(|input| needed.contains(&input.name))
            .collect()
    }

    fn outputs(&self) -> Vec<(&str, &TensorType)> {
        let model = self.spec.model.iter();
        let outputs = model.flat_map(|model| {
            (model.eval.outputs.iter())
                .map(|(name, value)| (name.as_str(), &*model.eval.program.values[value.0 as usize]))
        });
        outputs.collect()
    }

    fn interface(&self, text: &mut String) {
        text.push_str("| | name | type |\n| --- | --- | --- |\n");
        for input in self.inputs() {
            let _ = writeln!(text, "| input | `{}` | `{}` |", input.name, input.ty);
        }
        for (name, ty) in self.outputs() {
            let _ = writeln!(text, "| output | `{name}` | `{ty}` |");
        }
        if !self.spec.data.is_empty() {
            text.push_str("\nInputs are what the maps of the data set give.\n");
        }
        text.push('\n');
    }

    fn command(&self, text: &mut String) {
        if self
            .spec
            .train
            .as_ref()
            .is_none_or(|train| train.data.is_none())
            && !self.spec.data.is_empty()
        {
            return;
        }
        let _ = write!(
            text,
            "## With the command\n\n```sh\ntrainspec predict {} --checkpoint {EXPORTED_MODEL} --input FILE\n```\n\n\
             FILE is csv, jsonl, npz or tfrecord, with the features of the data set; its records go through the maps of the spec.\n\n",
            self.file.display()
        );
    }

    fn python(&self, text: &mut String) {
        let first = self
            .exported
            .variables
            .first()
            .map_or("", |(name, _)| name.as_str());
        let has_bf16 =
            (self.spec.variables.iter()).any(|variable| variable.ty.dtype == DType::Bf16);
        let (module, note) = match has_bf16 {
            true => (
                "torch",
                "NumPy has no bfloat16, so the weights are tensors of PyTorch.\n\n",
            ),
            false => ("numpy", ""),
        };
        let _ = write!(
            text,
            "## In Python\n\n{note}```python\nfrom safetensors.{module} import load_file\n\n\
             weights = load_file(\"{EXPORTED_MODEL}\")\n\
             for name, value in sorted(weights.items()):\n    print(name, value.dtype, tuple(value.shape))\n\
             first = weights[\"{first}\"]\n```\n\n"
        );
        if let Some((output, _)) = self.exported.words.first() {
            let _ = write!(
                text,
                "The words of `{output}`:\n\n```python\n\
                 words = open(\"{output}.words.txt\", encoding=\"utf-8\").read().splitlines()\n```\n\n"
            );
        }
    }

    fn rust(&self, text: &mut String) {
        let inputs = self.inputs();
        let mut lines = vec![
            "use trainspec::{Error, InputView, SessionBuilder};".to_owned(),
            String::new(),
            "fn main() -> Result<(), Error> {".to_owned(),
            format!(
                "    let builder = SessionBuilder::from_file(\"{}\");",
                self.file.display()
            ),
            format!("    let mut session = builder.restore(\"{EXPORTED_MODEL}\").build()?;"),
        ];
        for input in &inputs {
            let shape = example_shape(input);
            let elements: usize = shape.iter().product();
            let (zero, element) = zero(input.ty.dtype);
            lines.push(format!(
                "    let {} = InputView::new(&{shape:?}, &[{zero}_{element}; {elements}]);",
                input.name
            ));
        }
        let feeds: Vec<String> = inputs
            .iter()
            .map(|input| format!("(\"{0}\", {0})", input.name))
            .collect();
        lines.push(format!("    let feeds = [{}];", feeds.join(", ")));
        lines.push("    let fetched = session.predict(&feeds)?;".to_owned());
        for (name, _) in self.outputs() {
            lines.push(format!(
                "    println!(\"{name}: {{}}\", fetched.get(\"output/{name}\").unwrap());"
            ));
        }
        lines.push("    Ok(())".to_owned());
        lines.push("}".to_owned());
        // f16, bf16 and bool have no literal with a suffix.
        let is_simple = inputs.iter().all(|input| {
            !matches!(
                input.ty.dtype,
                DType::F16 | DType::Bf16 | DType::String | DType::Bool
            )
        });
        if !is_simple || inputs.is_empty() {
            return;
        }
        let _ = write!(
            text,
            "## In Rust\n\nWith `trainspec` among the dependencies, for a batch of one record:\n\n```rust\n{}\n```\n\n",
            lines.join("\n")
        );
        if let Some((output, _)) = self.exported.words.first() {
            let _ = write!(
                text,
                "`session.vocabulary(\"{output}\")?` gives the words of `{output}`.\n\n"
            );
        }
    }

    fn variables(&self, text: &mut String) {
        text.push_str("## Variables\n\n| name | type |\n| --- | --- |\n");
        let all = &self.exported.variables;
        for (name, ty) in all.iter().take(MAX_LISTED_VARIABLES) {
            let _ = writeln!(text, "| `{name}` | `{ty}` |");
        }
        if let Some(more) = all
            .len()
            .checked_sub(MAX_LISTED_VARIABLES)
            .filter(|n| *n > 0)
        {
            let _ = writeln!(text, "\nand {more} more.");
        }
    }
}

/// A shape of an input: 1 for each dimension that is known at run time only.
fn example_shape(input: &Feature) -> Vec<usize> {
    let dims = input.ty.shape.0.iter();
    dims.map(|dim| {
        dim.size
            .value()
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(1)
    })
    .collect()
}

/// A zero of a type, as Rust has it.
fn zero(dtype: DType) -> (&'static str, &'static str) {
    match dtype {
        DType::F64 => ("0.0", "f64"),
        DType::F32 | DType::F16 | DType::Bf16 => ("0.0", "f32"),
        DType::I8 => ("0", "i8"),
        DType::I16 => ("0", "i16"),
        DType::I32 => ("0", "i32"),
        DType::U8 => ("0", "u8"),
        DType::I64 | DType::Bool | DType::String => ("0", "i64"),
    }
}
