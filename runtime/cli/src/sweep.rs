//! `trainspec sweep`: searches over constants of a spec, with a run for each combination of values.
//!
//! In: a spec, and grids and samples of its constants. Out: a folder with a run for each trial, and a table of them. Trials are processes
//! of this program, so one that crashes is a row of the table.

mod child;
mod commands;
mod draw;
mod metric;
mod progress_line;
mod record;
mod space;
mod table;
mod trial;
mod workers;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trainspec::{SpecFolder, StopToken};
use trainspec_compiler::Compilation;

use crate::failure::Failure;
use crate::output::{count, diagnostics, is_closed, note, print, say};
use crate::run::CLOSED_OUTPUT;
use crate::signals::Signals;
use crate::{BAD_INPUT, FAILED, FINE, Format, files};
use commands::RunOptions;
use metric::{Goal, Metric};
use progress_line::ProgressLine;
pub(crate) use record::varied_constants;
use record::{Description, SweepFolder};
use space::{MAX_TRIALS, Parameter, Space};
use table::Row;
pub(crate) use trial::values_text;
use trial::{BadTrials, Outcome, Plan, Trial, TrialEnd};
use workers::Message;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A trial is a run of its own, in a folder below that of the sweep; `trainspec runs` and `trainspec plot` show them. \
                  Called again with the same arguments a sweep goes on: trials that have ended are not run again, and one that was \
                  interrupted goes on from its checkpoint; with more `--trials` others follow. The same seed draws the same values, \
                  and gives the same table, whatever `--jobs`. The value of a trial is that of its last evaluation.\n\n\
                  Exit codes: 0 where a trial has a value; 1 where none has; 2, 130, 143 and 141 as for `run`."
)]
pub(crate) struct Arguments {
    /// The spec
    file: PathBuf,
    /// Try each of these values of a constant, in combination with all other grids
    #[arg(long, value_name = "NAME=V1,V2,...", value_parser = space::grid)]
    grid: Vec<Parameter>,
    /// Draw a constant at random: from a range with both bounds, uniformly or by its logarithm (`:log`), integers where the constant is one
    /// or with `:int`; or from a list NAME=V1,V2,...
    #[arg(long, value_name = "NAME=LOW..HIGH[:log][:int]", value_parser = space::sample, allow_hyphen_values = true)]
    sample: Vec<Parameter>,
    /// The number of trials of a sweep that samples, in all: they take the points of the grid in turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_TRIALS))]
    trials: Option<u64>,
    /// The seed of the draws
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    seed: i64,
    /// How many trials are run at a time; they share the threads
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = files::threads)]
    jobs: usize,
    /// What trials are compared by; EVALUATION/METRIC where several evaluations measure it [default: the first metric of the first
    /// evaluation, else the loss]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Which values are better [default: min for losses, errors and distances, else max]
    #[arg(long, value_enum)]
    goal: Option<Goal>,
    /// Give a constant another value in all trials
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The number of steps of each trial, instead of what the spec says
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The steps between two saves of a trial, instead of the interval of its `checkpoint` hook
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: Option<u64>,
    /// Begin each trial with the values of a checkpoint, as `run` does
    #[arg(long, value_name = "CHECKPOINT")]
    warm_start: Option<PathBuf>,
    /// The base folder of relative data paths [default: the folder of the spec]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The folder of the sweep [default: runs/NAME-sweep]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Start over: a sweep that is in the folder already is moved aside
    #[arg(long)]
    fresh: bool,
    /// Run the trials again that have failed, from their last checkpoints
    #[arg(long, conflicts_with = "fresh")]
    retry: bool,
    /// List the trials, but run none and write nothing
    #[arg(long)]
    dry_run: bool,
    /// How results are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the table only
    #[arg(long)]
    quiet: bool,
    /// The number of threads of all trials together [default: one for each core]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = files::threads)]
    threads: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let format = arguments.format;
    let sweep = match prepare(arguments) {
        Ok(sweep) => sweep,
        Err(Refused::Code(code)) => return code,
        Err(Refused::Failure(failure)) => return failure.report(format),
    };
    let done = match arguments.dry_run {
        true => sweep.list(),
        false => sweep.run(),
    };
    done.unwrap_or_else(|failure| failure.report(format))
}

/// Why nothing is run.
enum Refused {
    /// What is wrong is printed already.
    Code(u8),
    Failure(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failure(failure)
    }
}

/// A sweep whose trials are checked.
struct Sweep<'a> {
    arguments: &'a Arguments,
    plan: Plan,
    metric: Metric,
    description: Description,
    options: RunOptions,
    dir: PathBuf,
}

/// Checks the spec, the space, every trial and the metric.
fn prepare(arguments: &Arguments) -> Result<Sweep<'_>, Refused> {
    let (path, format) = (&arguments.file, arguments.format);
    if path == Path::new(files::STDIN) {
        let message = "a sweep reads its spec for each trial, and standard input can be read once";
        return Err(Failure::input(message)
            .help("write the spec into a file")
            .into());
    }
    let base = files::checked(path, &arguments.set, format).map_err(Refused::Code)?;
    diagnostics(&base.sources, &base.diagnostics, format);
    let Some(spec) = &base.spec else {
        return Err(Refused::Code(BAD_INPUT));
    };
    if spec.train.is_none() {
        return Err(files::no_train(spec, "nothing to search").into());
    }
    let parameters = arguments.grid.iter().chain(&arguments.sample).cloned();
    let space = Space::new(
        parameters.collect(),
        arguments.seed,
        arguments.trials,
        &spec.constants,
        &arguments.set,
    )?;
    let text = files::read(path).map_err(|diagnostic| {
        diagnostics(&base.sources, &[diagnostic], format);
        Refused::Code(BAD_INPUT)
    })?;
    let (name, folder) = (path.display().to_string(), SpecFolder::of(path));
    let compile = |values: &[(String, String)]| {
        let set = [&arguments.set, values].concat();
        Compilation::check(&name, &text, &folder, &files::options(&set))
    };
    let plan = trial::check(&space, compile).map_err(|bad| match bad {
        BadTrials::Failure(failure) => Refused::Failure(failure),
        BadTrials::Diagnostics(message, sources, list) => {
            match format {
                Format::Text => note(format_args!("error: {}", crate::output::plain(&message))),
                Format::Json => print(json!({ "event": "note", "message": message })),
            }
            diagnostics(&sources, &list, format);
            Refused::Code(BAD_INPUT)
        }
    })?;
    let metric = Metric::choose(&plan.spec, arguments.metric.as_deref(), arguments.goal)?;
    let set = arguments.set.iter().cloned();
    let text_of = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let description = Description {
        spec: spec.name.clone(),
        space: space.to_json(),
        options: json!({
            "set": set.map(|(name, value)| (name, json!(value))).collect::<serde_json::Map<_, _>>(),
            "steps": arguments.steps,
            "warm_start": text_of(&arguments.warm_start),
            "data_dir": text_of(&arguments.data_dir),
        }),
        canonical: plan.canonical.clone(),
    };
    let default_dir = || Path::new("runs").join(format!("{}-sweep", spec.name));
    Ok(Sweep {
        arguments,
        plan,
        metric,
        description,
        options: RunOptions {
            file: path.clone(),
            set: arguments.set.clone(),
            steps: arguments.steps,
            save_every: arguments.save_every,
            data_dir: arguments.data_dir.clone(),
            warm_start: arguments.warm_start.clone(),
        },
        dir: arguments.dir.clone().unwrap_or_else(default_dir),
    })
}

impl Sweep<'_> {
    /// Lists the trials.
    fn list(&self) -> Result<u8, Failure> {
        let known = match self.arguments.fresh {
            true => Vec::new(),
            false => record::known_outcomes(&self.dir, &self.description, &self.plan)?,
        };
        let rows: Vec<Row> = self
            .plan
            .trials
            .iter()
            .map(|trial| (trial, known.get(trial.ordinal).and_then(Option::as_ref)))
            .collect();
        match self.arguments.format {
            Format::Json => table::show_json(&rows, &self.metric, &self.dir, "dry_run"),
            Format::Text => {
                table::show_plan(&rows);
                let trials = count(rows.len(), "trial");
                say(format_args!(
                    "{trials} in {}, compared by {}; this was a dry run",
                    self.dir.display(),
                    self.metric.in_words()
                ));
            }
        }
        Ok(FINE)
    }

    /// Runs the trials that have not ended, and prints the table of all.
    fn run(&self) -> Result<u8, Failure> {
        let arguments = self.arguments;
        let program = std::env::current_exe()
            .map_err(|e| Failure::output(format!("cannot find this program: {e}")))?;
        let stop = StopToken::default();
        let signals = Signals::install(&stop);
        let description = self.description.clone();
        let mut folder = SweepFolder::open(&self.dir, description, &self.plan, arguments.fresh)?;
        let is_due = |trial: &&Trial| match folder.outcome(trial).map(|outcome| &outcome.end) {
            None | Some(TrialEnd::Interrupted) => true,
            Some(TrialEnd::Failed(_)) => arguments.retry,
            Some(TrialEnd::Finished(_)) => false,
        };
        let due: Vec<&Trial> = self.plan.trials.iter().filter(is_due).collect();
        let jobs = arguments.jobs.min(due.len()).max(1);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (arguments.threads.unwrap_or_else(cores) / jobs).max(1);
        let is_quiet = arguments.quiet || arguments.format == Format::Json;
        let ended = self.plan.trials.len() - due.len();
        let mut line = ProgressLine::new(self.plan.trials.len(), ended, is_quiet);
        self.announce(&line, &folder, ended, jobs, threads);
        let command = |trial: &Trial| {
            self.options
                .run(&program, trial, &trial.dir(&self.dir), threads)
        };
        let hear = |message: Option<Message>| {
            match message {
                None => {}
                Some(Message::Waits(trial)) => {
                    line.waits(trial, &trial.dir(&self.dir).display().to_string());
                }
                Some(Message::Started(trial)) => line.started(trial),
                Some(Message::Step(trial, step)) => line.at_step(trial, step),
                Some(Message::Ended(trial, outcome)) => {
                    self.same_spec(trial, &outcome)?;
                    self.ended(&mut line, trial, &outcome);
                    folder.keep(trial, outcome)?;
                    let rows = self.sorted(&folder);
                    if let Some((best, value)) = table::best(&rows, &self.metric) {
                        line.best(best, value);
                    }
                }
            }
            line.tick();
            Ok(())
        };
        let done = workers::run_all(due, jobs, &self.dir, &stop, command, hear);
        line.finish();
        done?;
        let stopped_by = match is_closed() {
            true => Some(CLOSED_OUTPUT),
            false => signals.exit_code(),
        };
        Ok(self.finish(&folder, stopped_by))
    }

    /// Says what is about to be run.
    fn announce(
        &self,
        line: &ProgressLine,
        folder: &SweepFolder,
        ended: usize,
        jobs: usize,
        threads: usize,
    ) {
        let trials = &self.plan.trials;
        let names = trials.first().map(|trial| {
            let names = trial.values.iter().map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>().join(", ")
        });
        line.say(format_args!(
            "{}: {} over {}, compared by {}",
            self.plan.spec.name,
            count(trials.len(), "trial"),
            names.unwrap_or_default(),
            self.metric.in_words()
        ));
        line.say(format_args!(
            "writes {}: {jobs} at a time, each on {}",
            self.dir.display(),
            count(threads, "thread")
        ));
        folder.note.iter().for_each(|note| line.say(note));
        if ended > 0 {
            line.say(format_args!(
                "{} of them ended before",
                count(ended, "trial")
            ));
        }
    }

    /// Prints that a trial has ended.
    fn ended(&self, line: &mut ProgressLine, trial: &Trial, outcome: &Outcome) {
        line.ended(trial, outcome, &self.metric);
        if self.arguments.format == Format::Json && !self.arguments.quiet {
            let mut object = table::row_json((trial, Some(outcome)), &self.metric, &self.dir);
            object["event"] = json!("trial");
            object["seconds"] = json!(outcome.seconds);
            print(object);
        }
    }

    /// Fails where a run has trained another spec than was checked: its file was written meanwhile. The run is moved aside.
    fn same_spec(&self, trial: &Trial, outcome: &Outcome) -> Result<(), Failure> {
        let dir = trial.dir(&self.dir);
        let described = std::fs::read(dir.join("run.json")).unwrap_or_default();
        let described: Value = serde_json::from_slice(&described).unwrap_or_default();
        let is_other = described["identity"].is_string() && described["identity"] != trial.identity;
        // One that failed may have found another run in its folder.
        if !is_other || matches!(outcome.end, TrialEnd::Failed(_)) {
            return Ok(());
        }
        let aside = record::move_aside(&dir)?;
        let message = format!(
            "{} has changed while the sweep ran: trial {} trained another spec, and is in {} now",
            self.arguments.file.display(),
            trial.name(),
            aside.display()
        );
        let help = "with the spec of before the sweep goes on; `--fresh` starts over with this one";
        Err(Failure::input(message).help(help))
    }

    /// The rows of the table, the best first.
    fn sorted<'f>(&'f self, folder: &'f SweepFolder) -> Vec<Row<'f>> {
        let trials = self.plan.trials.iter();
        let rows: Vec<Row> = trials.map(|trial| (trial, folder.outcome(trial))).collect();
        table::sorted(&rows, &self.metric)
    }

    /// Prints the table, and what can be done next; gives the exit code.
    fn finish(&self, folder: &SweepFolder, stopped_by: Option<u8>) -> u8 {
        let rows = self.sorted(folder);
        let all = self.plan.trials.len();
        let is_over = |row: &&Row| {
            row.1
                .is_some_and(|outcome| outcome.end != TrialEnd::Interrupted)
        };
        let over = rows.iter().filter(is_over).count();
        let is_text = self.arguments.format == Format::Text;
        match is_text {
            true => table::show(&rows, &self.metric),
            false => table::show_json(&rows, &self.metric, &folder.path, "end"),
        }
        if over < all {
            note(format_args!(
                "stopped after {over} of {}; `{}` goes on from here",
                count(all, "trial"),
                commands::called_again(&[])
            ));
            return stopped_by.unwrap_or(FAILED);
        }
        let failed = rows.iter().filter_map(|(_, outcome)| outcome.as_ref());
        let failed = failed.filter(|outcome| matches!(outcome.end, TrialEnd::Failed(_)));
        let failed = failed.count();
        if is_text && !self.arguments.quiet {
            let has_evaluations = !self.plan.spec.evals.is_empty();
            table::show_commands(
                &rows,
                &self.metric,
                &folder.path,
                &self.options,
                has_evaluations,
            );
        }
        if failed > 0 {
            note(format_args!(
                "note: {} failed; `{}` runs {} again",
                count(failed, "trial"),
                commands::called_again(&["--retry"]),
                if failed == 1 { "it" } else { "them" }
            ));
        }
        match table::best(&rows, &self.metric) {
            Some(_) => FINE,
            None => FAILED,
        }
    }
}
