//! The curves of a run: the scalars of its event files, over steps.
//!
//! In: a folder that a run writes, or an event file. Out: a curve for each scalar, of the training and of each evaluation, and the steps of
//! the checkpoints that are there. Leaves alone: smoothing, drawing, and values that are no scalars.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_formats::FormatError;
use trainspec_formats::events::{Kind, Purge, Run, RunOptions, is_event_file};

use crate::env::Storage;
use crate::saver::step_of;

/// One scalar of a run over its steps.
///
/// ```
/// use trainspec::curves::Curve;
///
/// let loss = Curve { tag: "loss".to_owned(), evaluation: None, points: vec![(10, 0.5), (20, 0.25)] };
/// assert_eq!(loss.points.last(), Some(&(20, 0.25)));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The tag in the event files: the name of a loss, a metric or a schedule.
    pub tag: String,
    /// The evaluation that measured it: its name, or `eval` where it has none; `None` for values of training steps.
    pub evaluation: Option<String>,
    /// Steps and values, in the order in which they were written.
    pub points: Vec<(i64, f64)>,
}

/// The curves of a run.
///
/// ```
/// use trainspec::{Event, Options, check, curves::Curves, train};
///
/// let folder = std::env::temp_dir().join(format!("trainspec-curves-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).map_err(trainspec::Error::other)?;
/// std::fs::write(folder.join("points.csv"), "1,2\n2,4\n").map_err(trainspec::Error::other)?;
/// let spec = check("line", r#"
///     spec line;
///     data points { source csv("points.csv"); feature x: f32; feature y: f32; repeat; batch 2; }
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { data points; optimizer gradient_descent(0.1); steps 4; }
///     hooks { summary (every: 2 steps, dir: "run") { scalar loss; } }
/// "#)?;
/// let options = Options { folder: folder.clone(), dir: Some(folder.join("run")), ..Options::default() };
/// train(&spec, &options, &mut |_: &Event| {})?;
///
/// let curves = Curves::read(&folder.join("run"))?;
/// let steps: Vec<i64> = curves.curves[0].points.iter().map(|(step, _)| *step).collect();
/// assert_eq!((curves.curves[0].tag.as_str(), steps), ("loss", vec![2, 4]));
/// assert_eq!(curves.checkpoints, [4]);
/// # std::fs::remove_dir_all(folder).map_err(trainspec::Error::other)?;
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Curves {
    /// The curves: those of the training by tag, then those of the evaluations.
    pub curves: Vec<Curve>,
    /// The steps of the checkpoints that are in the folder, in order.
    pub checkpoints: Vec<i64>,
    /// The event files that are damaged; what could be read of them is there.
    pub damage: Vec<FormatError>,
}

impl Curves {
    /// Reads a folder with what the evaluations in it wrote, or one event file. What a run that was killed had written after the
    /// checkpoint that it was resumed from is left out.
    pub fn read(path: &Path) -> Result<Curves, FormatError> {
        Curves::read_in(&trainspec_formats::storage::local(), path)
    }

    /// [`read`](Curves::read) in any storage.
    pub fn read_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<Curves, FormatError> {
        let mut curves = Curves::default();
        curves.add(storage, path, None)?;
        if !storage.is_dir(path) {
            return Ok(curves);
        }
        for name in names(storage, path) {
            let evaluation = match name.as_str() {
                "eval" => "eval",
                name => match name.strip_prefix("eval_") {
                    Some(name) => name,
                    None => continue,
                },
            };
            let folder = path.join(&name);
            if storage.is_dir(&folder) {
                curves.add(storage, &folder, Some(evaluation))?;
            }
        }
        curves.checkpoints = checkpoint_steps(storage, path);
        Ok(curves)
    }

    fn add(
        &mut self,
        storage: &Arc<dyn Storage>,
        path: &Path,
        evaluation: Option<&str>,
    ) -> Result<(), FormatError> {
        let options = RunOptions {
            purge: Purge::Restarts,
            ..RunOptions::default()
        };
        let run = Run::read_in(storage, path, options)?;
        for (tag, series) in run.series {
            if series.kind == Kind::Scalar {
                let points = series.points.iter();
                let points = points.filter_map(|point| Some((point.step, point.scalar?)));
                self.curves.push(Curve {
                    tag,
                    evaluation: evaluation.map(ToOwned::to_owned),
                    points: points.collect(),
                });
            }
        }
        self.damage.extend(run.damage);
        Ok(())
    }
}

/// The folders below a path that have event files of their own, the path included, where it is a folder: runs. The folders of
/// evaluations belong to the run above them.
pub fn run_folders(path: &Path) -> Vec<PathBuf> {
    let storage = trainspec_formats::storage::local();
    let mut found = Vec::new();
    collect_run_folders(&storage, path, MAX_DEPTH, &mut found);
    found
}

/// The depth to which folders of runs are looked for.
const MAX_DEPTH: usize = 8;

fn collect_run_folders(
    storage: &Arc<dyn Storage>,
    path: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) {
    let names = names(storage, path);
    let is_eval = |name: &String| name == "eval" || name.starts_with("eval_");
    let has_events = |folder: &Path| {
        let mut inside = self::names(storage, folder).into_iter();
        inside.any(|name| is_event_file(&name))
    };
    let evaluates = |name: &String| is_eval(name) && has_events(&path.join(name));
    if names.iter().any(|name| is_event_file(name)) || names.iter().any(evaluates) {
        found.push(path.to_owned());
    }
    if depth > 0 {
        for name in names.iter().filter(|name| !is_eval(name)) {
            let folder = path.join(name);
            if storage.is_dir(&folder) {
                collect_run_folders(storage, &folder, depth - 1, found);
            }
        }
    }
}

/// The names in a folder, sorted; none where it cannot be read.
fn names(storage: &Arc<dyn Storage>, folder: &Path) -> Vec<String> {
    let names = storage.list(folder).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect()
}

/// The steps of the checkpoints in a folder, by the names of their files.
fn checkpoint_steps(storage: &Arc<dyn Storage>, folder: &Path) -> Vec<i64> {
    let names = names(storage, folder);
    let prefixes = names.iter().filter_map(|name| {
        name.strip_suffix(".index")
            .or(name.strip_suffix(".safetensors"))
    });
    let steps: BTreeSet<i64> = prefixes
        .filter_map(|prefix| i64::try_from(step_of(prefix)?).ok())
        .collect();
    steps.into_iter().collect()
}
