//! `trainspec cat`: one tensor of a checkpoint as text, CSV, JSON or `.npy`.

mod layout;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use trainspec::saver::{RECORDS_KEY, Records};
use trainspec_formats::checkpoint::{CheckpointReader, Elements, Tensor, numpy};
use trainspec_formats::files::{Durability, Replacement};
use trainspec_formats::{Code, FileKind, FormatError};

use crate::artifacts;
use crate::failure::Failure;
use crate::output::{escape_controls, plain};
use crate::tensors::FormattedElements;
use crate::{FINE, Format};

const HELP: &str = "\
Numbers have the fewest digits that read back as the same number of their type. CSV and JSON have the exact values of types below 32 bits, with \
the fewest digits that read back as the same float64.
JSON is one object: `name`, `dtype`, `shape` and `values`, all elements in row-major order; a complex number is a \
pair, and what JSON has no number for is the string NaN, Infinity or -Infinity; a string that is no UTF-8 is an object with `hex`. After a \
failure it is `error` and `help`.
Exit codes: 0 done; 1 it could not be written; 2 bad input.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// A checkpoint's prefix or folder, a `.safetensors` or an `.npz` file
    checkpoint: PathBuf,
    /// A tensor's name, or the path of a variable in an object-based checkpoint
    name: String,
    /// The output form [default: by the extension of --output, else text]
    #[arg(
        long = "as",
        value_enum,
        value_name = "FORM",
        conflicts_with = "format"
    )]
    form: Option<Form>,
    /// Write to a file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
    /// Print every element of a large tensor, and strings in full
    #[arg(long)]
    all: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Readable, with type and shape; large tensors in part, unless --all is given
    Text,
    /// A line for each row of the last dimension
    Csv,
    /// NumPy's array file
    Npy,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    match cat(arguments) {
        Ok(()) => FINE,
        Err(failure) => failure.report(arguments.format),
    }
}

fn cat(arguments: &Arguments) -> Result<(), Failure> {
    let form = arguments.form.unwrap_or_else(|| form_of(arguments));
    if form == Form::Npy && arguments.output.is_none() && io::stdout().is_terminal() {
        return Err(
            Failure::input("the bytes of an array are nothing for a terminal")
                .help("write them to a file: `--output tensor.npy`"),
        );
    }
    if let Some(path) = arguments.output.as_ref().filter(|path| path.exists())
        && !arguments.force
    {
        let message = format!("{} is there already", path.display());
        return Err(
            Failure::input(message).help("`--force` replaces it, when the new one is complete")
        );
    }
    let reader = artifacts::open(&arguments.checkpoint)?;
    let tensor = find(&reader, arguments)?;
    if form == Form::Npy && arguments.format == Format::Text && !numpy::holds(tensor.dtype()) {
        return Err(Failure::input(format!(
            "{}: `{}` is {}, for which NumPy has no type",
            arguments.checkpoint.display(),
            arguments.name,
            tensor.dtype()
        ))
        .help("`--as csv` writes its numbers as text"));
    }
    let is_seen = arguments.output.is_none() && io::stdout().is_terminal();
    let write = |out: &mut dyn Write| -> io::Result<()> {
        match (arguments.format, form) {
            (Format::Json, _) => json(&arguments.name, &tensor, out),
            (Format::Text, Form::Csv) => csv(&tensor, is_seen, out),
            (Format::Text, Form::Npy) => {
                numpy::put_npy(tensor.view(), &mut { out }).map_err(into_io_error)
            }
            (Format::Text, Form::Text) if arguments.name == RECORDS_KEY => records(&tensor, out),
            (Format::Text, Form::Text) => layout::put(&arguments.name, &tensor, arguments.all, out),
        }
    };
    match &arguments.output {
        Some(path) => to_file(path, write),
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match write(&mut out).and_then(|()| out.flush()) {
                // A closed pipe (EPIPE) is no failure.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                done => done.map_err(|e| Failure::output(format!("cannot print it: {e}"))),
            }
        }
    }
}

/// Writes the records of a checkpoint, each after a line with its name: the position of the input, the tables, the counters of hooks.
fn records(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let text = match tensor.elements() {
        Elements::Strings(strings) if strings.len() == 1 => String::from_utf8_lossy(&strings[0]),
        Elements::Strings(_) | Elements::Bytes(_) => {
            return layout::put(RECORDS_KEY, tensor, true, out);
        }
    };
    let Ok(records) = Records::parse(&text) else {
        // Of another version: as it is.
        return writeln!(out, "{}", escape_controls(&text));
    };
    for (i, (name, text)) in records.iter().enumerate() {
        let gap = if i > 0 { "\n" } else { "" };
        writeln!(out, "{gap}{}:", plain(name))?;
        writeln!(out, "{}", escape_controls(text.trim_end()))?;
    }
    Ok(())
}

fn form_of(arguments: &Arguments) -> Form {
    let ending = arguments.output.as_deref().and_then(Path::extension);
    match ending.and_then(|ending| ending.to_str()) {
        Some("npy") => Form::Npy,
        Some("csv") => Form::Csv,
        _ => Form::Text,
    }
}

/// The tensor, or an error with the nearest names.
fn find(reader: &CheckpointReader, arguments: &Arguments) -> Result<Tensor, Failure> {
    let (name, path) = (arguments.name.as_str(), arguments.checkpoint.display());
    let in_file = |error: FormatError| error.in_file(&arguments.checkpoint);
    let error = match reader.get_variable(name) {
        Ok(tensor) => return Ok(tensor),
        Err(error) => in_file(error),
    };
    // Of a tensor that is there, a data file may be missing.
    if error.code != Code::NotFound || reader.has_tensor(name) {
        return Err(error.into());
    }
    let mut names: Vec<String> = reader.names().into_iter().map(str::to_owned).collect();
    if let Some(graph) = reader.object_graph().map_err(in_file)? {
        if graph.value_at(name).is_some() || !graph.named(name).is_empty() {
            return Err(error.into());
        }
        // Object paths are shorter than the tensors' names, and what people write.
        names = graph.variables().into_iter().map(|v| v.path).collect();
    }
    let near: Vec<String> = nearest_names(name, &names)
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let meant = match near.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", near.join(" or ")),
    };
    Err(
        Failure::input(format!("{path}: there is no tensor `{name}`"))
            .help(format!("{meant}`trainspec inspect {path}` lists the names")),
    )
}

/// At most three names: those at a small edit distance (optimal string alignment), and those that contain `name`.
fn nearest_names<'a>(name: &str, names: &'a [String]) -> Vec<&'a str> {
    let max_distance = (name.chars().count() / 3).max(2);
    let mut found: Vec<(usize, &str)> = names
        .iter()
        .map(|known| {
            let distance = strsim::osa_distance(name, known);
            let contains = !name.is_empty() && known.contains(name);
            (
                if contains {
                    distance.min(max_distance)
                } else {
                    distance
                },
                known.as_str(),
            )
        })
        .filter(|(distance, _)| *distance <= max_distance)
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The error of the operating system, where there is one.
fn into_io_error(mut error: FormatError) -> io::Error {
    match error.source.take() {
        Some(source) => source,
        None => io::Error::other(error),
    }
}

/// Strings are written raw, but escaped on a terminal.
fn csv(tensor: &Tensor, is_seen: bool, out: &mut dyn Write) -> io::Result<()> {
    let elements = FormattedElements::new(tensor);
    let row = tensor.shape().last().copied().unwrap_or(1);
    for i in 0..elements.count() {
        let field = elements.csv(i);
        match is_seen {
            true => out.write_all(plain(String::from_utf8_lossy(&field)).as_bytes())?,
            false => out.write_all(&field)?,
        }
        let end: &[u8] = if (i + 1) % row == 0 { b"\n" } else { b"," };
        out.write_all(end)?;
    }
    Ok(())
}

fn json(name: &str, tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let elements = FormattedElements::new(tensor);
    let (name, shape) = (serde_json::json!(name), serde_json::json!(tensor.shape()));
    let (name, dtype) = (name.to_string(), tensor.dtype());
    let name = escape_controls(&name);
    // Numbers are written as they are formatted: a `float32` widened to `float64` would get insignificant digits.
    write!(
        out,
        "{{\"name\":{name},\"dtype\":\"{dtype}\",\"shape\":{shape},\"values\":["
    )?;
    for i in 0..elements.count() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(elements.json(i).as_bytes())?;
    }
    out.write_all(b"]}\n")
}

fn to_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let file = Replacement::create(FileKind::Other, path).map_err(Failure::output)?;
    let mut out = BufWriter::new(file);
    let written = write(&mut out).and_then(|()| out.into_inner().map_err(|e| e.into_error()));
    written
        .map_err(|e| Failure::output(format!("{}: cannot write it: {e}", path.display())))?
        .commit(Durability::Synced)
        .map_err(Failure::output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_cannot_draw_on_the_terminal() {
        let tensor = Tensor::strings(&[1], vec![b"\x1b[31m\n".to_vec()]).unwrap();
        let written = |is_seen| {
            let mut out = Vec::new();
            csv(&tensor, is_seen, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(true), "\"\\u{1b}[31m\\n\"\n");
        assert_eq!(written(false), "\"\u{1b}[31m\n\"\n");
    }
}
