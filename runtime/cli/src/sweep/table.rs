//! The result of a sweep: a table of its trials, the best first, and the commands that go on from it.
//!
//! Nothing in the table depends on time, threads or the order in which trials ended.

use std::path::Path;

use serde_json::{Value, json};

use super::commands::RunOptions;
use super::metric::{Measured, Metric};
use super::trial::{Outcome, Trial, TrialEnd, argument_text};
use crate::columns::{self, Align, number};
use crate::output::{plain, print, say};
use crate::tensors::{Number, json_of};

/// The most characters of the reason of a failure.
const MAX_REASON_CHARS: usize = 72;

/// A trial, and how it ended where it has.
pub(super) type Row<'a> = (&'a Trial, Option<&'a Outcome>);

/// The rows of trials that have ended, the best first; those without a value in their order.
pub(super) fn sorted<'a>(rows: &[Row<'a>], metric: &Metric) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = rows.iter().filter(|row| row.1.is_some()).copied().collect();
    rows.sort_by(|a, b| metric.order(value(*a, metric), value(*b, metric)));
    rows
}

/// The best trial: the first of the sorted rows, where it has a number.
pub(super) fn best<'a>(sorted: &[Row<'a>], metric: &Metric) -> Option<(&'a Trial, f64)> {
    let first = *sorted.first()?;
    let value = value(first, metric).filter(|value| !value.is_nan())?;
    Some((first.0, value))
}

/// The value of a trial that ended by itself.
fn value((_, outcome): Row<'_>, metric: &Metric) -> Option<f64> {
    let outcome = outcome?;
    match outcome.end {
        TrialEnd::Finished(_) => metric.of(&outcome.values),
        TrialEnd::Failed(_) | TrialEnd::Interrupted => None,
    }
}

/// Prints the table.
pub(super) fn show(sorted: &[Row<'_>], metric: &Metric) {
    let Some((first, _)) = sorted.first() else {
        return;
    };
    let best = best(sorted, metric).map(|(trial, _)| trial.ordinal);
    let mut head = vec![("trial", Align::Left)];
    head.extend(
        first
            .values
            .iter()
            .map(|(name, _)| (name.as_str(), Align::Left)),
    );
    head.extend([
        (metric.name.as_str(), Align::Left),
        ("", Align::Left),
        ("step", Align::Right),
        ("state", Align::Left),
    ]);
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .map(|row| {
            let (trial, outcome) = *row;
            let mut cells = vec![trial.name()];
            cells.extend(
                trial
                    .values
                    .iter()
                    .map(|(_, value)| plain(argument_text(value))),
            );
            let step = outcome.and_then(|outcome| outcome.step);
            let mark = if Some(trial.ordinal) == best {
                "best"
            } else {
                ""
            };
            cells.extend([
                value(*row, metric).map_or("-".to_owned(), number),
                mark.to_owned(),
                step.map_or("-".to_owned(), |step| step.to_string()),
                outcome.map_or(String::new(), |outcome| plain(end_text(&outcome.end))),
            ]);
            cells
        })
        .collect();
    columns::lines(&head, &rows).for_each(say);
}

/// The trials that a sweep would run, and how those ended that it has run.
pub(super) fn show_plan(rows: &[Row<'_>]) {
    let Some((first, _)) = rows.first() else {
        return;
    };
    let mut head = vec![("trial", Align::Left)];
    head.extend(
        first
            .values
            .iter()
            .map(|(name, _)| (name.as_str(), Align::Left)),
    );
    head.push(("state", Align::Left));
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(trial, outcome)| {
            let mut cells = vec![trial.name()];
            cells.extend(
                trial
                    .values
                    .iter()
                    .map(|(_, value)| plain(argument_text(value))),
            );
            let state = outcome.map(|outcome| plain(end_text(&outcome.end)));
            cells.push(state.unwrap_or_else(|| "to run".to_owned()));
            cells
        })
        .collect();
    columns::lines(&head, &rows).for_each(say);
}

/// Prints the commands that go on from the best trial.
pub(super) fn show_commands(
    sorted: &[Row<'_>],
    metric: &Metric,
    sweep: &Path,
    options: &RunOptions,
    has_evaluations: bool,
) {
    let Some((trial, value)) = best(sorted, metric) else {
        return;
    };
    let (name, dir) = (trial.name(), trial.dir(sweep));
    say(format_args!(
        "  best      {} {} in trial {name}: {}",
        metric.name,
        number(value),
        trial.values_text()
    ));
    if !dir.is_dir() {
        say(format_args!("  its folder {} was removed", dir.display()));
        return;
    }
    if has_evaluations {
        say(format_args!(
            "  evaluate  {}",
            options.evaluate(trial, &dir)
        ));
    }
    let step = sorted.iter().find(|row| row.0.ordinal == trial.ordinal);
    if let Some(step) = step.and_then(|(_, outcome)| outcome.as_ref()?.step) {
        let steps = step.saturating_mul(2);
        say(format_args!(
            "  go on     {}",
            options.go_on(trial, &dir, steps)
        ));
    }
    say(format_args!(
        "  compare   trainspec runs {}",
        sweep.display()
    ));
}

/// `finished`, `failed: ...`
pub(super) fn end_text(end: &TrialEnd) -> String {
    match end {
        TrialEnd::Finished(why) if why == "steps" || why == "epochs" => "finished".to_owned(),
        TrialEnd::Finished(why) => format!("finished: {why}"),
        TrialEnd::Interrupted => "interrupted".to_owned(),
        TrialEnd::Failed(why) => {
            let line = why.lines().next().unwrap_or_default();
            let short: String = line.chars().take(MAX_REASON_CHARS).collect();
            let more = if short.len() < line.len() { "…" } else { "" };
            format!("failed: {short}{more}")
        }
    }
}

/// A trial as an object.
pub(super) fn row_json((trial, outcome): Row<'_>, metric: &Metric, sweep: &Path) -> Value {
    let value = value((trial, outcome), metric);
    let values = outcome.map(|o| o.values.iter().map(Measured::to_json).collect::<Vec<_>>());
    json!({
        "trial": trial.ordinal,
        "dir": trial.dir(sweep).display().to_string(),
        "constants": trial.values_json(),
        "state": outcome.map_or("to run", |outcome| outcome.end.name()),
        "why": outcome.and_then(|outcome| outcome.end.why()),
        "step": outcome.and_then(|outcome| outcome.step),
        "value": value.map(|value| json_of(Number::Real(value))),
        "values": values.unwrap_or_default(),
    })
}

/// Prints the last object: all trials, the best first.
pub(super) fn show_json(rows: &[Row<'_>], metric: &Metric, sweep: &Path, event: &str) {
    let best = best(rows, metric).map(|(trial, _)| trial.ordinal);
    let all: Vec<Value> = rows
        .iter()
        .map(|row| row_json(*row, metric, sweep))
        .collect();
    print(json!({
        "event": event,
        "dir": sweep.display().to_string(),
        "metric": metric.name,
        "evaluation": metric.evaluation,
        "goal": metric.goal_word(),
        "best": best,
        "trials": all,
    }));
}
