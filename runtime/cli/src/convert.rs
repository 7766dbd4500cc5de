//! `trainspec convert`: a checkpoint in another file format.

mod plan;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use trainspec_formats::checkpoint::bundle::{data_files, index_path};
use trainspec_formats::checkpoint::{
    BundleWriter, CheckpointReader, DType, Elements, Tensor, numpy, safetensors, v1,
};
use trainspec_formats::files::Durability;
use trainspec_formats::{FormatError, Result as FormatResult};

use crate::artifacts;
use crate::failure::Failure;
use crate::output::{count, print, say};
use crate::progress::Progress;
use crate::{FINE, Format, columns};
use plan::{Entry, Plan};

const HELP: &str = "\
Tensors are streamed one by one, so memory is that of the largest. An existing OUT is replaced atomically. Partitioned tensors are merged, and \
the object graph of a checkpoint stays a tensor like the others. What the kind cannot hold is reported before \
anything is written: v1 has no bfloat16, float8, uint32, uint64 and variants; safetensors no strings, variants, complex128 and quantized types; npz no \
bfloat16, float8, variants and quantized types; and only v2 has types below eight bits.
JSON is one object: `input`, `output`, `kind`, `tensors` (how many were written), `bytes` (of their elements), `seconds`, `skipped` (names), and \
`converted` (names of those that got another type). After a failure it is `error` and `help`.
Exit codes: 0 done; 1 it could not be written; 2 bad input.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// A checkpoint's prefix or folder, a `.safetensors` or an `.npz` file
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write, or the prefix of the files
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The kind of file [default: by the extension of OUT, else v2]
    #[arg(long, value_enum, value_name = "KIND")]
    to: Option<Kind>,
    /// Replace what is there
    #[arg(long)]
    force: bool,
    /// Leave out tensors that the kind cannot hold
    #[arg(long)]
    skip_unsupported: bool,
    /// The type that replaces bfloat16 where the kind does not have it [default: an error]
    #[arg(long, value_enum, value_name = "TYPE")]
    bfloat16_as: Option<Bfloat16As>,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// TensorFlow's checkpoint V2: an index and a data file
    V2,
    /// TensorFlow's checkpoint V1: one table
    V1,
    /// Hugging Face's file
    Safetensors,
    /// NumPy's archive
    Npz,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bfloat16As {
    /// Equal values in twice the space
    Float32,
    /// The bits as unsigned integers
    Uint16,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    match convert(arguments) {
        Ok(()) => FINE,
        Err(failure) => failure.report(arguments.format),
    }
}

fn convert(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    let kind = match arguments.to {
        Some(kind) => kind,
        None => kind_of(&arguments.output)?,
    };
    let reader = artifacts::open(&arguments.input)?;
    let plan = Plan::new(
        (&arguments.input, &reader),
        kind,
        arguments.bfloat16_as,
        arguments.skip_unsupported,
    )?;
    let output = output_path(&arguments.output, kind, arguments.force)?;
    // The folder of the output is created for every kind.
    if let Some(folder) = output.parent() {
        std::fs::create_dir_all(folder).map_err(|e| {
            Failure::output(format!(
                "{}: cannot create the folder: {e}",
                folder.display()
            ))
        })?;
    }
    let bytes = write((&arguments.input, &reader), &plan, kind, &output)?;
    let seconds = start.elapsed().as_secs_f64();
    let output = output.display();
    match arguments.format {
        Format::Text => {
            let mut line = format!(
                "wrote {output}: {}, {}, in {seconds:.2} s",
                count(plan.entries.len(), "tensor"),
                columns::bytes(bytes)
            );
            if !plan.skipped.is_empty() {
                line += &format!("; left out {}", plan.skipped.join(", "));
            }
            say(line);
        }
        Format::Json => {
            let changed = plan
                .entries
                .iter()
                .filter(|entry| entry.converted.is_some());
            let converted: Vec<&str> = changed.map(|entry| entry.name).collect();
            print(serde_json::json!({
                "input": arguments.input.display().to_string(), "output": output.to_string(), "kind": kind.name(),
                "tensors": plan.entries.len(), "bytes": bytes, "seconds": seconds, "skipped": plan.skipped, "converted": converted,
            }));
        }
    }
    Ok(())
}

/// The kind by the extension of a path. Prefixes of checkpoints may contain dots, but not the extensions of other file formats.
fn kind_of(path: &Path) -> Result<Kind, Failure> {
    const FOREIGN_EXTENSIONS: [&str; 16] = [
        "h5", "hdf5", "keras", "npy", "pt", "pth", "bin", "pb", "pkl", "onnx", "tflite", "gguf",
        "msgpack", "zip", "json", "tfrecord",
    ];
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("safetensors") => Ok(Kind::Safetensors),
        Some("npz") => Ok(Kind::Npz),
        Some(other) if FOREIGN_EXTENSIONS.contains(&other.to_lowercase().as_str()) => {
            let message = format!(
                "{}: files that end in `.{other}` are not written",
                path.display()
            );
            let help = "end it in `.safetensors` or `.npz`, or name a kind: `--to v2`";
            Err(Failure::input(message).help(help))
        }
        _ => Ok(Kind::V2),
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::V2 => "v2",
            Kind::V1 => "v1",
            Kind::Safetensors => "safetensors",
            Kind::Npz => "npz",
        }
    }

    fn holds(self, dtype: DType) -> bool {
        match self {
            Kind::V2 => dtype != DType::Resource,
            Kind::V1 => v1::holds(dtype),
            Kind::Safetensors => safetensors::holds(dtype),
            Kind::Npz => numpy::holds(dtype),
        }
    }
}

/// The path to write to; an error where a file exists that may not be replaced.
fn output_path(path: &Path, kind: Kind, force: bool) -> Result<PathBuf, Failure> {
    let shown = path.display();
    // People name a checkpoint by its index, too.
    let named = path.to_str().and_then(|path| path.strip_suffix(".index"));
    let path = match (kind, named) {
        (Kind::V2, Some(prefix)) => Path::new(prefix),
        _ => path,
    };
    if path.is_dir() || path.file_name().is_none() {
        let example = match kind {
            Kind::V2 | Kind::V1 => "model.ckpt",
            Kind::Safetensors => "model.safetensors",
            Kind::Npz => "model.npz",
        };
        return Err(Failure::input(format!("{shown} is a folder")).help(format!(
            "name what to write in it: `{}`",
            path.join(example).display()
        )));
    }
    let index = index_path(path);
    let exists = match kind {
        Kind::V2 => index.exists() || !data_files(path).is_empty(),
        // A V2 checkpoint would shadow a V1 checkpoint of its prefix.
        Kind::V1 if index.exists() => {
            return Err(Failure::input(format!(
                "{} is there: a reader would take it instead of the new file",
                index.display()
            ))
            .help("choose another name"));
        }
        Kind::V1 | Kind::Safetensors | Kind::Npz => path.exists(),
    };
    match exists && !force {
        true => Err(Failure::input(format!("{shown} is there already"))
            .help("`--force` replaces it, when the new one is complete")),
        false => Ok(path.to_owned()),
    }
}

/// Writes all tensors; gives the bytes of their elements.
fn write(
    (input, reader): (&Path, &CheckpointReader),
    plan: &Plan<'_>,
    kind: Kind,
    path: &Path,
) -> Result<u64, Failure> {
    let progress = Progress::new(plan.bytes);
    let (read_failed, bytes) = (Cell::new(false), Cell::new(0));
    let read = |entry: &Entry<'_>| -> FormatResult<Tensor> {
        let tensor = entry.read(reader).inspect_err(|_| read_failed.set(true))?;
        let size = size_of(&tensor);
        bytes.set(bytes.get() + size);
        progress.add(size);
        Ok(tensor)
    };
    let by_name = |name: &str| read(plan.entry(name));
    let entries: Vec<(&str, DType, &[usize])> = plan
        .entries
        .iter()
        .map(|entry| (entry.name, entry.dtype(), entry.shape))
        .collect();
    let names: Vec<&str> = plan.entries.iter().map(|entry| entry.name).collect();
    let durability = Durability::Synced;
    let written = match kind {
        Kind::V2 => bundle(path, plan, read),
        Kind::V1 => v1::write_each(path, &entries, durability, by_name),
        Kind::Npz => numpy::write_npz_each(path, &names, Default::default(), durability, by_name),
        Kind::Safetensors => {
            let metadata = match reader {
                CheckpointReader::Safetensors(file) => file.metadata().clone(),
                CheckpointReader::Bundle(_)
                | CheckpointReader::Table(_)
                | CheckpointReader::Npz(_) => Default::default(),
            };
            safetensors::write_each(path, &entries, &metadata, durability, by_name)
        }
    };
    match (written, read_failed.get()) {
        (Ok(()), _) => Ok(bytes.get()),
        (Err(e), true) => Err(Failure::input(e.in_file(input))),
        (Err(e), false) => Err(Failure::output(e.in_file(path))),
    }
}

fn bundle(
    prefix: &Path,
    plan: &Plan<'_>,
    read: impl Fn(&Entry<'_>) -> Result<Tensor, FormatError>,
) -> FormatResult<()> {
    let mut writer = BundleWriter::create(prefix, Default::default())?;
    for entry in &plan.entries {
        writer.add(entry.name, &read(entry)?)?;
    }
    writer.finish()
}

fn size_of(tensor: &Tensor) -> u64 {
    match tensor.elements() {
        Elements::Bytes(bytes) => bytes.len() as u64,
        Elements::Strings(strings) => strings.iter().map(|string| string.len() as u64).sum(),
    }
}
