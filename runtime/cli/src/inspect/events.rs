//! The event files of a run: tags, their kinds and their last values.

use std::path::Path;

use serde_json::json;
use trainspec_formats::FormatError;
use trainspec_formats::events::{Kind, Run, RunOptions, Series};
use trainspec_formats::proto::session_log::SessionStatus;

use super::last;
use crate::Format;
use crate::columns::{self, Align};
use crate::output::{count, print, say};
use crate::progress::Spinner;

/// Shows a run; gives its damage.
pub(crate) fn show(path: &Path, format: Format) -> Result<Vec<FormatError>, FormatError> {
    let spinner = Spinner::new("reading", path);
    let run = Run::read(path, RunOptions::default());
    drop(spinner);
    let mut run = run?;
    let damage = std::mem::take(&mut run.damage);
    match format {
        Format::Text => text(path, &run)?,
        Format::Json => print(to_json(path, &run)?),
    }
    Ok(damage)
}

fn text(path: &Path, run: &Run) -> Result<(), FormatError> {
    say(format_args!(
        "{}: events, {}, {}, {}",
        path.display(),
        count(run.files().len(), "file"),
        count(run.events as usize, "event"),
        count(run.series.len(), "tag"),
    ));
    if !run.series.is_empty() {
        let head = [
            ("tag", Align::Left),
            ("kind", Align::Left),
            ("values", Align::Right),
            ("first step", Align::Right),
            ("last step", Align::Right),
            ("last value", Align::Right),
        ];
        let rows: Vec<_> = run
            .series
            .iter()
            .map(|(tag, series)| cells(run, tag, series))
            .collect();
        columns::lines(&head, &rows).for_each(say);
    }
    if let Some(graph) = run.graph()? {
        say(format_args!("graph: {}", count(graph.node.len(), "node")));
    }
    for tag in run.run_metadata.keys() {
        say(format_args!("run metadata: {tag}"));
    }
    for (step, _, log) in &run.sessions {
        say(format_args!(
            "session at step {step}: {}",
            status(log.status())
        ));
    }
    Ok(())
}

fn cells(run: &Run, tag: &str, series: &Series) -> Vec<String> {
    let step = |point: Option<&trainspec_formats::events::Point>| {
        point.map_or_else(String::new, |point| point.step.to_string())
    };
    let last = last::value(run, series).map(|(text, _)| text);
    let kind = match &series.kind {
        Kind::Plugin(name) => name.clone(),
        kind => kind.to_string(),
    };
    vec![
        tag.to_owned(),
        kind,
        series.points.len().to_string(),
        step(series.points.first()),
        step(series.points.last()),
        last.unwrap_or_default(),
    ]
}

fn status(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::StatusUnspecified => "nothing is said",
        SessionStatus::Start => "started",
        SessionStatus::Stop => "stopped",
        SessionStatus::Checkpoint => "saved",
    }
}

fn to_json(path: &Path, run: &Run) -> Result<serde_json::Value, FormatError> {
    let tags: Vec<_> = run
        .series
        .iter()
        .map(|(tag, series)| {
            json!({
                "tag": tag,
                "kind": series.kind.to_string(),
                "values": series.points.len(),
                "first_step": series.points.first().map(|p| p.step),
                "last_step": series.points.last().map(|p| p.step),
                "last_value": last::value(run, series).map(|(_, value)| value),
            })
        })
        .collect();
    Ok(json!({
        "kind": "events",
        "path": path.display().to_string(),
        "files": run.files().iter().map(|f| f.display().to_string()).collect::<Vec<_>>(),
        "events": run.events,
        "tags": tags,
        "graph_nodes": run.graph()?.map(|graph| graph.node.len()),
        "run_metadata": run.run_metadata.keys().collect::<Vec<_>>(),
        "sessions": run.sessions.iter().map(|(step, time, log)| json!({
            "step": step, "wall_time": time, "status": status(log.status()),
        })).collect::<Vec<_>>(),
    }))
}
