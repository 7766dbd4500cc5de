//! What is plotted: a panel for each tag, with a series of each run and evaluation.

use std::path::PathBuf;

use trainspec::curves::{Curve, Curves};

use super::axis::{LOG_RATIO, Scale};
use super::series::smoothed;

/// A plot.
#[derive(Debug)]
pub(super) struct Plot {
    /// The names of the runs.
    pub(super) runs: Vec<String>,
    /// The steps of the checkpoints of each run.
    pub(super) checkpoints: Vec<Vec<i64>>,
    /// The panels: losses, then metrics, then schedules and rates.
    pub(super) panels: Vec<Panel>,
    /// The steps.
    pub(super) x: Scale,
    /// The names of evaluations, where there is more than one.
    pub(super) evaluations: Vec<String>,
}

/// The curves of one tag.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) tag: String,
    pub(super) series: Vec<Series>,
    pub(super) y: Scale,
}

/// A curve of a run.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) run: usize,
    /// The evaluation that measured it, by its index in [`Plot::evaluations`].
    pub(super) evaluation: Option<usize>,
    pub(super) raw: Vec<(f64, f64)>,
    /// Where it is noisy.
    pub(super) smooth: Option<Vec<(f64, f64)>>,
}

impl Series {
    /// The line that is to be seen.
    pub(super) fn line(&self) -> &[(f64, f64)] {
        self.smooth.as_deref().unwrap_or(&self.raw)
    }

    /// Its last value.
    pub(super) fn last(&self) -> Option<f64> {
        self.line().last().map(|(_, y)| *y)
    }
}

impl Plot {
    pub(super) fn new(runs: &[(PathBuf, Curves)], weight: Option<f64>) -> Plot {
        let mut evaluations: Vec<String> = Vec::new();
        let mut panels: Vec<Panel> = Vec::new();
        for (run, (_, curves)) in runs.iter().enumerate() {
            for curve in curves.curves.iter().filter(|c| !c.points.is_empty()) {
                let evaluation = curve.evaluation.as_ref().map(|name| {
                    let known = evaluations.iter().position(|e| e == name);
                    known.unwrap_or_else(|| {
                        evaluations.push(name.clone());
                        evaluations.len() - 1
                    })
                });
                let series = series(run, evaluation, curve, weight);
                match panels.iter_mut().find(|panel| panel.tag == curve.tag) {
                    Some(panel) => panel.series.push(series),
                    None => panels.push(Panel {
                        tag: curve.tag.clone(),
                        series: vec![series],
                        y: Scale::exactly(0.0, 1.0),
                    }),
                }
            }
        }
        for panel in &mut panels {
            panel.y = value_scale(&panel.series, is_rate(&panel.tag));
        }
        let evaluated: Vec<String> = (panels.iter())
            .filter(|panel| panel.series.iter().any(|s| s.evaluation.is_some()))
            .map(|panel| panel.tag.clone())
            .collect();
        panels.sort_by_key(|panel| rank(&panel.tag, evaluated.contains(&panel.tag)));
        let steps = || panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.raw);
        let first = steps().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let last = steps().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        // An axis that begins near 0 begins there.
        let first = if first <= 0.1 * last {
            first.min(0.0)
        } else {
            first
        };
        let paths = runs.iter().map(|(path, _)| path.display().to_string());
        Plot {
            runs: short_names(paths.collect()),
            checkpoints: runs.iter().map(|(_, c)| c.checkpoints.clone()).collect(),
            x: Scale::exactly(first, last),
            panels,
            evaluations,
        }
    }
}

fn series(run: usize, evaluation: Option<usize>, curve: &Curve, weight: Option<f64>) -> Series {
    let points = curve.points.iter();
    let raw: Vec<(f64, f64)> = points.map(|(step, y)| (*step as f64, *y)).collect();
    let smooth = match evaluation {
        // An evaluation is a mean already.
        Some(_) => None,
        None => smoothed(&raw, weight),
    };
    Series {
        run,
        evaluation,
        raw,
        smooth,
    }
}

/// The range of what is to be seen: of lines all, of raw values without the outermost, so that a spike flattens nothing.
fn value_scale(series: &[Series], is_rate: bool) -> Scale {
    let mut values: Vec<f64> = Vec::new();
    for one in series {
        let line = one.line().iter().map(|(_, y)| *y);
        values.extend(line.filter(|y| y.is_finite()));
        if one.smooth.is_some() {
            let mut raw: Vec<f64> = one.raw.iter().map(|(_, y)| *y).collect();
            raw.retain(|y| y.is_finite());
            raw.sort_by(f64::total_cmp);
            let cut = raw.len() / 50;
            values.extend(raw.get(cut));
            values.extend(raw.len().checked_sub(1 + cut).and_then(|i| raw.get(i)));
        }
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.sort_by(f64::total_cmp);
    match values.get(values.len() / 2) {
        // A schedule that ends near 0 is seen best as it is; one that falls by decades is not.
        Some(median) if is_rate && high < LOG_RATIO * median => Scale::linear(low, high),
        Some(_) => Scale::around(low, high),
        None => Scale::exactly(0.0, 1.0),
    }
}

/// The order of panels: losses, what evaluations measure, other values, schedules, speed.
fn rank(tag: &str, is_evaluated: bool) -> (u8, String) {
    let class = match () {
        () if tag.contains("loss") => 0,
        () if tag.ends_with("/sec") => 4,
        () if is_evaluated => 1,
        () if is_rate(tag) => 3,
        () => 2,
    };
    (class, tag.to_owned())
}

/// Whether a tag is that of a schedule, by its name.
fn is_rate(tag: &str) -> bool {
    let mut words = tag.split(['_', '/', '-', '.']);
    words.any(|word| matches!(word, "lr" | "rate" | "schedule" | "momentum"))
}

/// Paths without the folders that all of them begin with.
fn short_names(paths: Vec<String>) -> Vec<String> {
    let folders = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.map(ToOwned::to_owned).collect()
    };
    let all: Vec<Vec<String>> = paths.iter().map(|path| folders(path)).collect();
    let shortest = all.iter().map(Vec::len).min().unwrap_or(0);
    let is_shared = |i: &usize| all.iter().all(|parts| parts[*i] == all[0][*i]);
    let shared = match all.len() {
        0 | 1 => shortest.saturating_sub(1),
        _ => (0..shortest.saturating_sub(1))
            .take_while(is_shared)
            .count(),
    };
    all.iter()
        .map(|parts| parts[shared.min(parts.len())..].join("/"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_leave_out_what_they_share() {
        let names = |paths: &[&str]| short_names(paths.iter().map(|p| (*p).to_owned()).collect());
        assert_eq!(names(&["runs/digits"]), ["digits"]);
        assert_eq!(names(&["runs/a/x", "runs/b/x"]), ["a/x", "b/x"]);
        assert_eq!(names(&["runs/a", "runs/a"]), ["a", "a"]);
        assert_eq!(names(&["runs/a", "runs/a/b"]), ["a", "a/b"]);
        assert_eq!(names(&["."]), ["."]);
    }

    #[test]
    fn losses_come_first_and_speed_last() {
        let mut tags = ["global_step/sec", "lr", "x", "accuracy", "loss"];
        tags.sort_by_key(|tag| rank(tag, *tag == "accuracy"));
        assert_eq!(tags, ["loss", "accuracy", "x", "lr", "global_step/sec"]);
    }
}
