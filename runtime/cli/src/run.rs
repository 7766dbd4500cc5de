//! `trainspec run`: trains a spec and prints its events.

mod bar;
mod dry_run;
mod events_json;
pub(crate) mod next_commands;
mod plan;
mod printer;
mod readings;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use trainspec::Engine;
use trainspec::session::{Event, Observer, Options};
use trainspec::train;
use trainspec::{Code, Error, StopToken, with_default_hooks, writable_default_hooks};
use trainspec_compiler::typed::{Hook, HookKind};

use crate::failure::Failure;
use crate::output::{count, diagnostics, is_closed, note};
use crate::signals::Signals;
use crate::{BAD_INPUT, FAILED, FINE, Format, files};
pub(crate) use bar::duration;
pub(crate) use events_json::event_json;
use next_commands::NextCommands;
use plan::Given;
use printer::Printer;
pub(crate) use printer::evaluated_text;

/// The exit code of a run whose standard output was closed, as shells give it for SIGPIPE.
pub(crate) const CLOSED_OUTPUT: u8 = 128 + 13;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The number of steps, instead of what the spec says
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The seed of everything random that has none of its own, instead of the one in `train`
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<i64>,
    /// The base folder of relative data paths [default: the folder of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The folder of the run, instead of the `dir` of its `checkpoint` hook [default: runs/NAME]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The steps between two saves, instead of the interval of its `checkpoint` hook
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: Option<u64>,
    /// Begin with the values of a checkpoint, or of the newest one of a folder: that of `warm_start`, or of all trainable variables where
    /// the spec has none. A run that is resumed goes on with its own
    #[arg(long, value_name = "CHECKPOINT")]
    warm_start: Option<PathBuf>,
    /// Start over: a run that is in the folder already is moved aside, not resumed
    #[arg(long)]
    fresh: bool,
    /// Go on with the run in the folder, and fail where there is none; without it a run goes on where there is one, and begins where not
    #[arg(long, conflicts_with = "fresh")]
    resume: bool,
    /// Write a profile of the tenth step (of the first, in a shorter run) into this file, for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Check that the training can begin: open the data, compile the step and compare memory, but train and write nothing
    #[arg(long, conflicts_with_all = ["quiet", "profile"])]
    dry_run: bool,
    /// Stop as at SIGTERM when standard input ends: for programs that start runs, which stop with them
    #[arg(long)]
    stop_at_eof: bool,
    /// How progress is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the last line only
    #[arg(long)]
    quiet: bool,
    /// Whether diagnostics have colours
    #[arg(long, value_enum, default_value = "auto")]
    color: Colour,
    /// Run the reference interpreter, not machine code
    #[arg(long)]
    interpret: bool,
    /// The number of threads [default: one for each core]; results do not depend on it
    #[arg(long, value_name = "N", conflicts_with = "interpret", value_parser = files::threads)]
    threads: Option<usize>,
    /// Disable an optimization pass
    #[arg(long = "disable-pass", value_name = "NAME", value_parser = files::pass_name)]
    disabled: Vec<String>,
}

/// Whether diagnostics have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    fn set(self) {
        match self {
            Colour::Auto => anstream::ColorChoice::Auto,
            Colour::Always => anstream::ColorChoice::Always,
            Colour::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    arguments.color.set();
    let path = &arguments.file;
    let format = arguments.format;
    if arguments.stop_at_eof && path == Path::new(files::STDIN) {
        let message = "the spec is read from standard input, so `--stop-at-eof` cannot watch it";
        return Failure::input(message)
            .help("write the spec into a file")
            .report(format);
    }
    let compilation = match files::checked(path, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    if let Some(Err(failure)) = arguments.profile.as_deref().map(files::has_folder) {
        return failure.report(format);
    }
    let sources = &compilation.sources;
    diagnostics(sources, &compilation.diagnostics, format);
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    let stop = StopToken::default();
    let signals = Signals::install(&stop);
    if arguments.stop_at_eof {
        signals.stop_at_eof(&stop);
    }
    let options = Options {
        seed: arguments.seed,
        steps: arguments.steps,
        folder: files::data_folder(path, arguments.data_dir.as_deref()),
        pipeline: files::pipeline(&arguments.disabled),
        engine: match (arguments.interpret, arguments.threads) {
            (true, _) => Engine::Interpreted,
            (false, Some(threads)) => Engine::compiled(threads),
            (false, None) => Engine::default(),
        },
        dir: arguments.dir.clone(),
        default_hooks: true,
        save_every: arguments.save_every,
        warm_start: arguments.warm_start.clone(),
        fresh: arguments.fresh,
        resume: arguments.resume,
        profile: arguments.profile.clone(),
        stop: stop.clone(),
        ..Options::default()
    };
    let given = Given {
        steps: arguments.steps,
        dir: arguments.dir.clone(),
        is_unwritable: false,
        threads: match &options.engine {
            Engine::Interpreted => 0,
            Engine::Compiled(pool) => pool.threads(),
        },
    };
    let code = |error: Error| {
        diagnostics(sources, &[error.diagnostic()], format);
        match error.is_bad_input() {
            true => BAD_INPUT,
            false => FAILED,
        }
    };
    if arguments.threads.is_some_and(|n| n > given.threads) {
        let cores = count(given.threads, "thread");
        note(format_args!("note: on {cores}: there are no more cores"));
    }
    if arguments.dry_run {
        return match trainspec::dry_run(spec, &options) {
            Ok(sizes) => {
                let spec = &with_default_hooks(spec, &options);
                diagnostics(sources, &sizes.warnings, format);
                dry_run::show(spec, &given, &sizes, format);
                FINE
            }
            Err(error) => code(error),
        };
    }
    let (spec, why) = &writable_default_hooks(spec, &options);
    // They are those of the spec now.
    let options = Options {
        default_hooks: false,
        ..options
    };
    let given = Given {
        is_unwritable: why.is_some(),
        ..given
    };
    let mut printer = Printer::new(sources, spec, given, format, arguments.quiet);
    let commands = NextCommands::new(arguments);
    printer.commands = commands.clone();
    printer.stop = stop.clone();
    if let Some(why) = why {
        printer.event(&Event::Note(why.clone()));
    }
    let trained = train(spec, &options, &mut printer);
    let stopped_by = match is_closed() {
        true => Some(CLOSED_OUTPUT),
        false => signals.exit_code(),
    };
    match trained {
        Ok(_) => match stopped_by.filter(|_| printer.stopped) {
            Some(code) => {
                let saves = |hook: &Hook| matches!(hook.kind, HookKind::Checkpoint { .. });
                match spec.hooks.iter().any(saves) {
                    true => note(format_args!(
                        "stopped; `{}` goes on from here",
                        commands.go_on(printer.has_saved())
                    )),
                    false => note(
                        "stopped; nothing was saved: the spec says `checkpoint none;`, and no `--dir` is given",
                    ),
                }
                code
            }
            None => FINE,
        },
        // A signal before the first step.
        Err(error) if stopped_by.is_some() && error.code() == Code::Cancelled => {
            note(error.diagnostic().message);
            stopped_by.unwrap_or(FAILED)
        }
        Err(error) => code(error),
    }
}
