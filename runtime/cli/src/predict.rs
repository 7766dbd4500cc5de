//! `trainspec predict`: the outputs of a checkpoint for the records of a file.

mod stdin;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use serde_json::json;
use trainspec::env::Env;
use trainspec::predict::{InputFormat, Request};
use trainspec::session::Options;
use trainspec::{Engine, Error, Predictor, StopToken, find_checkpoint};
use trainspec_compiler::typed::Spec;

use crate::failure::Failure;
use crate::output::{diagnostics, is_closed, note, plain, print, say};
use crate::run::CLOSED_OUTPUT;
use crate::signals::Signals;
use crate::{BAD_INPUT, FAILED, FINE, Format, files};
use stdin::StdinStorage;
use writer::{OutputFormat, Writer};

const HELP: &str = "\
Records go through the features and maps of the data set of `train`; what the outputs do not depend on, such as a label, need not be in the file. \
Every record gives a prediction, in the order of the file: `filter`, `split`, `shuffle`, `take` and the like are not applied. Averages, \
vocabularies and statistics are those of the checkpoint. An output that the spec declares with `words_of` is written as words.
A csv file is read as the csv source of the data set has it, and with a header where its source is another; npz and JSON lines have an array or a \
member for each feature; npy has the only feature. csv, tfrecord and jsonl are read batch by batch, and `-` is standard input.
A csv output has a column for each element, `name_0`, `name_1`; jsonl an object for each record. npy, npz and files are written when all is \
predicted, and replace nothing unless --force is given.
With `--format json` outputs on standard output are jsonl, and with --output the last line is an object with `checkpoint`, `records`, `output`, \
`outputs` and `seconds`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// The records; `-` is standard input
    #[arg(long, short, value_name = "FILE")]
    input: PathBuf,
    /// What the input holds [default: by its ending]
    #[arg(long, value_enum, value_name = "KIND")]
    input_format: Option<InputKind>,
    /// Where the predictions go [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How they are written [default: by the ending of --output, else csv]
    #[arg(long, value_enum, value_name = "KIND")]
    output_format: Option<OutputFormat>,
    /// Replace the output if it is there
    #[arg(long, requires = "output")]
    force: bool,
    /// The checkpoint: `latest` or `best` of the run, a prefix, a file, or a folder, of which the newest is taken
    #[arg(long, value_name = "latest|best|PATH", default_value = "latest")]
    checkpoint: String,
    /// Take averages in place of the variables
    #[arg(long)]
    ema: bool,
    /// Predict this output, or `let` of the model; may be given several times [default: all outputs]
    #[arg(long, value_name = "NAME")]
    fetch: Vec<String>,
    /// The data set whose features and maps the records go through [default: that of `train`]
    #[arg(long, value_name = "NAME")]
    data: Option<String>,
    /// The records of a batch [default: that of the data set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The folder of the run, instead of the `dir` of its `checkpoint` hook or `runs/NAME`
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The base folder of relative paths in the spec [default: its folder]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The number of threads [default: one for each core]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = files::threads)]
    threads: Option<usize>,
    /// How results and errors are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputKind {
    /// Comma-separated values
    Csv,
    /// An array of NumPy
    Npy,
    /// Several arrays of NumPy
    Npz,
    /// TFRecords of Examples
    Tfrecord,
    /// A JSON object in each line
    Jsonl,
}

impl InputKind {
    fn format(self) -> InputFormat {
        match self {
            InputKind::Csv => InputFormat::Csv,
            InputKind::Npy => InputFormat::Npy,
            InputKind::Npz => InputFormat::Npz,
            InputKind::Tfrecord => InputFormat::TfRecord,
            InputKind::Jsonl => InputFormat::JsonLines,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let format = arguments.format;
    let request = match request(arguments) {
        Ok(request) => request,
        Err(failure) => return failure.report(format),
    };
    let writer = Writer::new(
        arguments.output.as_deref(),
        arguments.output_format,
        arguments.force,
        format,
    );
    let writer = match writer {
        Ok(writer) => writer,
        Err(failure) => return failure.report(format),
    };
    let compilation = match files::checked(&arguments.file, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    let stop = StopToken::default();
    let signals = Signals::install(&stop);
    let options = Options {
        folder: files::data_folder(&arguments.file, arguments.data_dir.as_deref()),
        engine: arguments
            .threads
            .map_or_else(Engine::default, Engine::compiled),
        dir: arguments.dir.clone(),
        default_hooks: true,
        stop: stop.clone(),
        env: match request.path == Path::new(files::STDIN) {
            true => Env::with_storage(Arc::new(StdinStorage::default())),
            false => Env::default(),
        },
        ..Options::default()
    };
    match predict(arguments, spec, &options, &request, writer) {
        Ok(()) if is_closed() => CLOSED_OUTPUT,
        Ok(()) => signals.exit_code().unwrap_or(FINE),
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

/// What is predicted, and of what.
fn request(arguments: &Arguments) -> Result<Request, Failure> {
    let path = &arguments.input;
    let is_stdin = path == Path::new(files::STDIN);
    if is_stdin && arguments.file == Path::new(files::STDIN) {
        return Err(Failure::input(
            "the spec and the records cannot both be standard input",
        ));
    }
    let kind = arguments.input_format.map(InputKind::format);
    let Some(format) = kind.or_else(|| InputFormat::of(path)) else {
        let message = match is_stdin {
            true => "standard input has no ending that says what it holds".to_owned(),
            false => format!(
                "the ending of {} does not say what it holds",
                path.display()
            ),
        };
        let help = "name it: `--input-format csv`, or npy, npz, tfrecord, jsonl";
        return Err(Failure::input(message).help(help));
    };
    if is_stdin && matches!(format, InputFormat::Npy | InputFormat::Npz) {
        let message = "arrays of NumPy are read from files, and not from standard input";
        return Err(Failure::input(message).help("csv, jsonl and tfrecord can be piped"));
    }
    Ok(Request {
        data: arguments.data.clone(),
        fetch: arguments.fetch.clone(),
        ema: arguments.ema,
        batch: arguments.batch,
        ..Request::of(path, format)
    })
}

/// Why nothing more is predicted.
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

fn predict(
    arguments: &Arguments,
    spec: &Arc<Spec>,
    options: &Options,
    request: &Request,
    mut writer: Writer,
) -> Result<(), Stopped> {
    let start = Instant::now();
    let choice = arguments.checkpoint.parse().unwrap_or_default();
    let checkpoint = find_checkpoint(spec, options, &choice)?;
    let mut predictor = Predictor::open(spec, options, &checkpoint, request)?;
    if let Some(what) = predictor.other_spec() {
        note(plain(format_args!("note: {what}")));
    }
    writer.begin(predictor.outputs())?;
    if !predictor.left_out().is_empty() {
        note(plain(format_args!(
            "note: {} {} no row for each record, and is left out",
            predictor.left_out().join(", "),
            if predictor.left_out().len() == 1 {
                "has"
            } else {
                "have"
            }
        )));
    }
    while let Some(predictions) = predictor.next()? {
        writer.write(&predictions)?;
        if options.stop.should_stop() || is_closed() {
            // A file that is not complete is none; standard output has what was predicted so far.
            return Ok(());
        }
    }
    if predictor.predicted() == 0 {
        let shown = request.path.display();
        return Err(Failure::input(format!("{shown} has no records")).into());
    }
    writer.finish()?;
    let Some(output) = &arguments.output else {
        return Ok(());
    };
    match arguments.format {
        Format::Text => {
            say(format_args!("checkpoint {}", checkpoint.display()));
            say(format_args!(
                "predicted {}: {}",
                crate::output::count(
                    usize::try_from(predictor.predicted()).unwrap_or(usize::MAX),
                    "record"
                ),
                output.display()
            ));
        }
        Format::Json => {
            let outputs = predictor
                .outputs()
                .iter()
                .map(|output| output.name.as_str());
            print(json!({
                "checkpoint": checkpoint.display().to_string(),
                "records": predictor.predicted(),
                "output": output.display().to_string(),
                "outputs": outputs.collect::<Vec<_>>(),
                "seconds": start.elapsed().as_secs_f64(),
            }));
        }
    }
    Ok(())
}
