//! `trainspec export`: the model of a checkpoint as a folder that stands alone: its weights, its spec, and how both are loaded.

mod readme;
mod spec_files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use trainspec::session::Options;
use trainspec::{EXPORTED_MODEL, Engine, Error, Vocabulary, export, find_checkpoint};
use trainspec_compiler::Compilation;
use trainspec_compiler::typed::Spec;

use crate::atomic_folder::AtomicFolder;
use crate::failure::Failure;
use crate::output::{count, diagnostics, print, say};
use crate::{BAD_INPUT, FAILED, FINE, Format, columns, files};
use readme::Described;

const HELP: &str = "\
The folder has `model.safetensors`: the variables of the model, without slots, and the vocabularies and statistics of the training data; the spec, \
with the values that --set gives and the files that it uses; a file of words for each output that is declared with `words_of`; and README.md, which \
says how the weights are loaded in Python and how the model is run in Rust and with `trainspec predict`. It appears at once, when it is complete.
With `--format json` the result is an object with `output`, `checkpoint`, `step`, `variables`, `parameters`, `bytes` and `files`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// The folder to write
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    /// Replace an exported model that is there
    #[arg(long)]
    force: bool,
    /// The checkpoint: `latest` or `best` of the run, a prefix, a file, or a folder, of which the newest is taken
    #[arg(long, value_name = "latest|best|PATH", default_value = "latest")]
    checkpoint: String,
    /// Export averages in place of the variables, under their names
    #[arg(long)]
    ema: bool,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The folder of the run, instead of the `dir` of its `checkpoint` hook or `runs/NAME`
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The base folder of relative paths in the spec [default: its folder]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Why nothing is exported.
enum Stopped {
    Error(Error),
    Failure(Failure),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Error(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failure(failure)
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let format = arguments.format;
    let compilation = match files::checked(&arguments.file, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    match write(arguments, spec, &compilation) {
        Ok(()) => FINE,
        Err(Stopped::Failure(failure)) => failure.report(format),
        Err(Stopped::Error(error)) => {
            diagnostics(&compilation.sources, &[error.diagnostic()], format);
            match error.is_bad_input() {
                true => BAD_INPUT,
                false => FAILED,
            }
        }
    }
}

fn write(
    arguments: &Arguments,
    spec: &Arc<Spec>,
    compilation: &Compilation,
) -> Result<(), Stopped> {
    let output = &arguments.output;
    ensure_free(output, arguments.force)?;
    let options = Options {
        folder: files::data_folder(&arguments.file, arguments.data_dir.as_deref()),
        engine: Engine::compiled(1),
        dir: arguments.dir.clone(),
        default_hooks: true,
        ..Options::default()
    };
    let choice = arguments.checkpoint.parse().unwrap_or_default();
    let checkpoint = find_checkpoint(spec, &options, &choice)?;
    let folder = AtomicFolder::create(output)?;
    let prefix = folder.path.join(EXPORTED_MODEL);
    let prefix = prefix.with_extension("");
    let exported = export(spec, &options, &checkpoint, arguments.ema, &prefix)?;
    let texts = spec_files::of(
        spec,
        compilation,
        &arguments.file,
        &arguments.set,
        &options.folder,
    )?;
    let name = texts[0].0.clone();
    for (path, text) in &texts {
        folder.write(path, text)?;
    }
    for (output, vocabulary) in &exported.words {
        folder.write(&words_file(output), &lines(vocabulary))?;
    }
    let described = Described {
        spec,
        file: &name,
        exported: &exported,
        checkpoint: &checkpoint,
        ema: arguments.ema,
    };
    folder.write(Path::new("README.md"), described.text().as_bytes())?;
    let names = folder.names()?;
    let bytes = std::fs::metadata(folder.path.join(EXPORTED_MODEL)).map_or(0, |found| found.len());
    folder.commit(output)?;
    match arguments.format {
        Format::Text => {
            say(format_args!("checkpoint {}", checkpoint.display()));
            say(format_args!(
                "exported {} with {} after {}, {}: {}",
                count(exported.variables.len(), "variable"),
                count(
                    usize::try_from(exported.parameters).unwrap_or(usize::MAX),
                    "parameter"
                ),
                count(usize::try_from(exported.step).unwrap_or(usize::MAX), "step"),
                columns::bytes(bytes),
                output.display()
            ));
            say(format_args!(
                "{} says how it is loaded",
                output.join("README.md").display()
            ));
        }
        Format::Json => print(json!({
            "output": output.display().to_string(),
            "checkpoint": checkpoint.display().to_string(),
            "step": exported.step,
            "variables": exported.variables.len(),
            "parameters": exported.parameters,
            "bytes": bytes,
            "files": names,
        })),
    }
    Ok(())
}

/// The file of the words of an output.
fn words_file(output: &str) -> PathBuf {
    PathBuf::from(format!("{output}.words.txt"))
}

/// A word in each line, by its id.
fn lines(vocabulary: &Vocabulary) -> Vec<u8> {
    vocabulary
        .iter()
        .flat_map(|word| [word, b"\n"].concat())
        .collect()
}

/// Fails where a folder may not be written or replaced.
fn ensure_free(folder: &Path, force: bool) -> Result<(), Failure> {
    let shown = folder.display();
    if folder.file_name().is_none() {
        return Err(Failure::input(format!("{shown} has no name")).help("name a new folder"));
    }
    if folder.is_file() {
        return Err(Failure::input(format!("{shown} is a file")).help("name a new folder"));
    }
    let entries = std::fs::read_dir(folder).map_or(0, |entries| entries.count());
    if entries == 0 {
        return Ok(());
    }
    match (folder.join(EXPORTED_MODEL).is_file(), force) {
        (true, true) => Ok(()),
        (true, false) => Err(Failure::input(format!("{shown} has an exported model"))
            .help("`--force` replaces it, when the new one is complete")),
        (false, _) => {
            Err(Failure::input(format!("{shown} has other files")).help("name a new folder"))
        }
    }
}
