//! `trainspec eval`: the evaluations of a spec with a checkpoint of its run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use trainspec::runs::{RunState, RunSummary};
use trainspec::session::{Event, Options};
use trainspec::{CheckpointChoice, Code, Engine, Error, StopToken, evaluate, find_checkpoint};
use trainspec_compiler::source::Sources;
use trainspec_compiler::typed::Spec;

use crate::output::{diagnostics, note, plain, print, say};
use crate::run::{evaluated_text, event_json};
use crate::signals::Signals;
use crate::{BAD_INPUT, FAILED, FINE, Format, files};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is written, and a run may go on meanwhile. The spec may have other evaluations, data and metrics than \
                  the run was started with; its variables are those of the checkpoint. With `--format json` the lines are the \
                  events `checkpoint` and `eval`, as `trainspec run` has them."
)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// The checkpoint: `latest` or `best` of the run, a prefix, or a folder, of which the newest is taken
    #[arg(long, value_name = "latest|best|PATH", default_value = "latest")]
    checkpoint: String,
    /// Take averages in place of the variables in all evaluations, not only in those that say `with ema`
    #[arg(long)]
    ema: bool,
    /// Evaluate every new checkpoint, until the run ends
    #[arg(long)]
    follow: bool,
    /// With `--follow`: end when no new checkpoint has come for so long
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = seconds)]
    timeout: Option<Duration>,
    /// With `--follow`: the least time from one evaluation to the next
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = seconds)]
    min_interval: Option<Duration>,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The folder of the run, instead of the `dir` of its `checkpoint` hook or `runs/NAME`
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The base folder of relative data paths [default: the folder of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The number of threads [default: one for each core]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = files::threads)]
    threads: Option<usize>,
    /// How results are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// How often a folder is looked at for a new checkpoint.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let format = arguments.format;
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
        ..Options::default()
    };
    let evaluation = Evaluation {
        spec,
        options: &options,
        sources: &compilation.sources,
        choice: arguments.checkpoint.parse().unwrap_or_default(),
        ema: arguments.ema,
        format,
    };
    let done = match arguments.follow {
        true => evaluation.follow(&stop, arguments.timeout, arguments.min_interval),
        false => evaluation.find().and_then(|path| evaluation.once(&path)),
    };
    match (done, signals.exit_code()) {
        (Err(error), Some(code)) if error.code() == Code::Cancelled => code,
        (Err(error), _) => {
            diagnostics(&compilation.sources, &[error.diagnostic()], format);
            if error.is_bad_input() {
                BAD_INPUT
            } else {
                FAILED
            }
        }
        (Ok(()), Some(code)) => code,
        (Ok(()), None) => FINE,
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "write a number of seconds, such as 600".to_owned())
}

/// What is evaluated.
struct Evaluation<'a> {
    spec: &'a Arc<Spec>,
    options: &'a Options,
    sources: &'a Sources,
    choice: CheckpointChoice,
    ema: bool,
    format: Format,
}

impl Evaluation<'_> {
    fn find(&self) -> Result<PathBuf, Error> {
        find_checkpoint(self.spec, self.options, &self.choice)
    }

    /// Evaluates a checkpoint.
    fn once(&self, path: &Path) -> Result<(), Error> {
        match self.format {
            Format::Text => say(format_args!("checkpoint {}", path.display())),
            Format::Json => {
                print(json!({ "event": "checkpoint", "path": path.display().to_string() }));
            }
        }
        let mut observer = |event: &Event| match self.format {
            Format::Text if let Event::Note(message) = event => {
                note(plain(format_args!("note: {message}")))
            }
            Format::Text => evaluated_text(event).into_iter().for_each(print),
            Format::Json => event_json(self.sources, event).into_iter().for_each(print),
        };
        evaluate(self.spec, self.options, path, self.ema, &mut observer)?;
        Ok(())
    }

    /// Evaluates every new checkpoint until the run ends, a signal comes, or none has come for the time that is given.
    fn follow(
        &self,
        stop: &StopToken,
        timeout: Option<Duration>,
        min_interval: Option<Duration>,
    ) -> Result<(), Error> {
        let mut since = Instant::now();
        let mut last: Option<PathBuf> = None;
        let mut waits = false;
        loop {
            // Asked first: what a run saves at its end is there when it is over.
            let is_over = last.as_deref().is_some_and(|path| !is_running(path));
            let is_due = is_over
                || last.is_none()
                || min_interval.is_none_or(|least| since.elapsed() >= least);
            match self.find() {
                Ok(_) if !is_due => {}
                Ok(path) if Some(&path) != last.as_ref() => match self.once(&path) {
                    // A newer one may have replaced it while it was read.
                    Err(error) if self.find().is_ok_and(|now| now == path) => return Err(error),
                    Err(_) => {}
                    Ok(()) => (last, since) = (Some(path), Instant::now()),
                },
                Err(error)
                    if last.is_none() && timeout.is_some_and(|most| since.elapsed() >= most) =>
                {
                    return Err(error);
                }
                Err(error) if last.is_none() && !std::mem::replace(&mut waits, true) => {
                    let message = error.diagnostic().message;
                    note(plain(format_args!("note: waiting: {message}")));
                }
                Ok(_) | Err(_) => {}
            }
            let is_late = timeout.is_some_and(|most| since.elapsed() >= most);
            if is_over || is_late || stop.should_stop() {
                return Ok(());
            }
            std::thread::sleep(FOLLOW_INTERVAL);
        }
    }
}

/// Whether the run that a checkpoint belongs to is running.
fn is_running(checkpoint: &Path) -> bool {
    let folder = checkpoint.parent().unwrap_or(Path::new("."));
    let folder = match folder.ends_with("best") {
        true => folder.parent().unwrap_or(folder),
        false => folder,
    };
    RunSummary::of(folder).is_ok_and(|run| matches!(run.state, RunState::Running { .. }))
}
