//! The `trainspec` command: parses its arguments, calls the compiler or the runtime, prints.

mod artifacts;
mod atomic_folder;
mod bench;
mod cat;
mod check;
mod columns;
mod completions;
mod convert;
mod data;
mod diff;
mod doctor;
mod emit;
mod eval;
mod explain;
mod export;
mod failure;
mod files;
mod format;
mod gradcheck;
mod graph;
mod inspect;
mod new;
mod output;
mod plot;
mod predict;
mod progress;
mod recover;
mod run;
mod runs;
mod signals;
mod summary;
mod sweep;
mod tensors;
mod verify;
mod verify_resume;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Describe a training run as text: model, loss, optimizer, data and hooks, checked before anything runs.
#[derive(Debug, Parser)]
#[command(
    name = "trainspec",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit codes: 0 fine; 1 a failed run, or `fmt --check` or `diff` found a difference; 2 bad input;\n\
                        130, 143 and 141 a run that SIGINT, SIGTERM or a closed output stopped.\n\
                        Colour is used on a terminal, unless NO_COLOR is set."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a folder to start from: a spec with comments and data, or the spec for a table of yours
    New(new::Arguments),
    /// Check specs and print what is wrong with them
    Check(check::Arguments),
    /// Lay specs out in the canonical form
    Fmt(format::Arguments),
    /// Print a stage of the compilation as text
    Emit(emit::Arguments),
    /// Show the layers of a model with their shapes and parameters, and the memory of its training
    Summary(summary::Arguments),
    /// Show what a data set gives, and where the time of reading goes
    Data(data::Arguments),
    /// Write the model as a diagram, with the types of tensors on its edges
    Graph(graph::Arguments),
    /// Measure how fast a spec trains, on synthetic data
    Bench(bench::Arguments),
    /// Check the gradients of a spec's losses against central differences
    Gradcheck(gradcheck::Arguments),
    /// Train a spec
    #[command(alias = "train")]
    Run(run::Arguments),
    /// Search over constants of a spec: a run for each combination of values, and a table of them
    Sweep(sweep::Arguments),
    /// Plot the losses, metrics and schedules of runs, as a picture or in the terminal
    Plot(plot::Arguments),
    /// Evaluate a checkpoint of a run
    Eval(eval::Arguments),
    /// Predict the outputs of a checkpoint for the records of a file
    Predict(predict::Arguments),
    /// Write the model of a checkpoint as a folder that stands alone
    Export(export::Arguments),
    /// List runs with their state, step and best metric; compare and remove them
    Runs(runs::Arguments),
    /// Show what is in checkpoints, record files and event files
    Inspect(inspect::Arguments),
    /// Check every checksum of checkpoints, record files and event files
    Verify(verify::Arguments),
    /// Show that a run of a spec that is killed and resumed ends with the same bits
    VerifyResume(verify_resume::Arguments),
    /// Save the intact records of a damaged record file
    Recover(recover::Arguments),
    /// Print a tensor of a checkpoint
    Cat(cat::Arguments),
    /// Compare two checkpoints, tensor by tensor
    Diff(diff::Arguments),
    /// Write a checkpoint as another kind of file
    Convert(convert::Arguments),
    /// Say what is used of this machine, and test that machine code computes what it should
    Doctor(doctor::Arguments),
    /// Explain an error code, with an example
    Explain(explain::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything was fine.
const FINE: u8 = 0;
/// A run failed, or a check found a difference.
const FAILED: u8 = 1;
/// The input cannot be used.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    signals::fail_writes_beyond_limits();
    let code = match cli.command {
        Command::New(arguments) => new::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Fmt(arguments) => format::run(&arguments),
        Command::Emit(arguments) => emit::run(&arguments),
        Command::Summary(arguments) => summary::run(&arguments),
        Command::Data(arguments) => data::run(&arguments),
        Command::Graph(arguments) => graph::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Gradcheck(arguments) => gradcheck::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Runs(arguments) => runs::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::VerifyResume(arguments) => verify_resume::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    let lost = code == FINE && !output::is_complete();
    ExitCode::from(if lost { FAILED } else { code })
}
