//! `trainspec plot`: the curves of runs as a picture (SVG), or in the terminal.

mod axis;
mod panels;
mod series;
mod svg;
mod terminal;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trainspec::curves::{Curves, run_folders};
use trainspec_compiler::check::matches;
use trainspec_formats::{FileKind, FormatError};

use crate::failure::Failure;
use crate::output::{note, plain, print, say};
use crate::progress::Spinner;
use crate::runs::folder_of;
use crate::tensors::{Number, json_of};
use crate::{FINE, Format, files};
use panels::Plot;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "There is a panel for each tag of the event files, which the `summary` hook writes: losses, metrics, schedules. \
                  A curve that is noisy is smoothed by a centred moving average, with the raw values pale beside it. \
                  Dots are evaluations, triangles the checkpoints that are in the folder."
)]
pub(crate) struct Arguments {
    /// Folders of runs, or folders above them
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Write an SVG picture into this file; without it the plot is drawn in the terminal
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Plot the tags that this pattern matches alone, such as `loss` or `acc*`
    #[arg(long = "tag", value_name = "PATTERN")]
    tags: Vec<String>,
    /// The factor by which the weights of the moving average fall from point to point: 0 (none) to below 1 [default: by the number of points]
    #[arg(long, value_name = "WEIGHT", value_parser = weight)]
    smooth: Option<f64>,
    /// The title of the picture [default: the run, where it is one]
    #[arg(long, value_name = "TEXT", requires = "output")]
    title: Option<String>,
    /// How the plot in the terminal is printed; json is one object for each curve, with its points
    #[arg(long, value_enum, default_value = "text", conflicts_with = "output")]
    format: Format,
}

fn weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if (0.0..1.0).contains(&weight) => Ok(weight),
        _ => Err("write a number from 0 to below 1, such as 0.9".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    match plot(arguments) {
        Ok(()) => FINE,
        Err(failure) => failure.report(arguments.format),
    }
}

fn plot(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.output
        && let Some(ending) = file.extension().and_then(|ending| ending.to_str())
        && !ending.eq_ignore_ascii_case("svg")
    {
        let message = format!("pictures are written as SVG, and not as `.{ending}`");
        let svg = file.with_extension("svg");
        return Err(Failure::input(message).help(format!("name the file `{}`", svg.display())));
    }
    let mut runs = Vec::new();
    for path in &arguments.runs {
        for path in expanded(path)? {
            let spinner = Spinner::new("reading", &path);
            let curves = Curves::read(&path);
            drop(spinner);
            let mut curves = curves?;
            for damage in &curves.damage {
                note(plain(format_args!(
                    "warning: {damage}; the rest is plotted"
                )));
            }
            let patterns = &arguments.tags;
            curves.curves.retain(|curve| {
                patterns.is_empty() || patterns.iter().any(|p| matches(p, &curve.tag))
            });
            runs.push((path, curves));
        }
    }
    if runs.iter().all(|(_, curves)| curves.curves.is_empty()) {
        let paths: Vec<String> = runs
            .iter()
            .map(|(path, _)| path.display().to_string())
            .collect();
        let paths = paths.join(", ");
        return Err(match arguments.tags.is_empty() {
            true => Failure::input(format!("{paths}: the event files have no scalars"))
                .help(SUMMARY_HELP),
            false => Failure::input(format!(
                "{paths}: no tag matches `{}`",
                arguments.tags.join("`, `")
            ))
            .help("`trainspec inspect FOLDER` lists the tags"),
        });
    }
    if arguments.format == Format::Json {
        for (path, curves) in &runs {
            print_json(path, curves);
        }
        return Ok(());
    }
    let plot = Plot::new(&runs, arguments.smooth);
    match &arguments.output {
        Some(file) => {
            let text = svg::picture(&plot, arguments.title.as_deref());
            files::write_output(file, &text)?;
            say(format_args!("wrote {}", file.display()));
        }
        None => terminal::draw(&plot),
    }
    Ok(())
}

const SUMMARY_HELP: &str =
    "a run writes them with `summary (every: 10 steps) { scalar [loss]; }` in `hooks`";

/// The runs that a path means.
fn expanded(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let path = &folder_of(path);
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !path.exists() {
        let error = FormatError::not_found(FileKind::Events, "there is no such folder");
        return Err(Failure::input(error.in_file(path))
            .help("a run is in the `dir` of its `checkpoint` hook; `trainspec runs` lists runs"));
    }
    match run_folders(path) {
        found if found.is_empty() => {
            let error = FormatError::not_found(
                FileKind::Events,
                "there are no event files in this folder or below it",
            );
            Err(Failure::input(error.in_file(path)).help(SUMMARY_HELP))
        }
        found => Ok(found),
    }
}

fn print_json(path: &Path, curves: &Curves) {
    for curve in &curves.curves {
        let steps: Vec<i64> = curve.points.iter().map(|(step, _)| *step).collect();
        let values = curve
            .points
            .iter()
            .map(|(_, value)| json_of(Number::Real(*value)));
        print(json!({
            "run": path.display().to_string(),
            "tag": curve.tag,
            "evaluation": curve.evaluation,
            "steps": steps,
            "values": values.collect::<Vec<Value>>(),
            "checkpoints": curves.checkpoints,
        }));
    }
}
