//! Evaluations of a checkpoint, without a training.
//!
//! In: a spec, and which checkpoint of its run. Out: the events of its evaluations. Leaves alone: the folder of the run, into which nothing
//! is written and whose lock is not taken, so that a run may go on meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::typed::{Spec, Train};

use crate::data::{DataContext, Pipeline};
use crate::default_hooks::{default_dir, with_default_hooks};
use crate::hooks::EvalHook;
use crate::run_folder::other_spec;
use crate::saver::{NewestCheckpoint, RestorePlan, restore_run_in};
use crate::session::{Event, EventQueue, Observer, Options, Session, the_model, the_train};
use crate::trainer::{evaluation_context, run_dir, the_data};
use crate::training_tables::the_tables;
use crate::{Error, State};

/// The file of an exported model in its folder.
pub const EXPORTED_MODEL: &str = "model.safetensors";

/// Which checkpoint of a run.
///
/// ```
/// use trainspec::CheckpointChoice;
///
/// assert_eq!("best".parse(), Ok(CheckpointChoice::Best));
/// assert_eq!("runs/a".parse(), Ok(CheckpointChoice::Path("runs/a".into())));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CheckpointChoice {
    /// The newest complete one.
    #[default]
    Latest,
    /// The one of the best evaluation, which the `checkpoint` hook keeps with `best: METRIC`.
    Best,
    /// One by its prefix, the newest of a folder, or the one of an exported model.
    Path(PathBuf),
}

impl std::str::FromStr for CheckpointChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<CheckpointChoice, Self::Err> {
        Ok(match text {
            "latest" => CheckpointChoice::Latest,
            "best" => CheckpointChoice::Best,
            path => CheckpointChoice::Path(PathBuf::from(path)),
        })
    }
}

/// The path of a checkpoint of the run of a spec; an error where it is not there.
pub fn find_checkpoint(
    spec: &Arc<Spec>,
    options: &Options,
    choice: &CheckpointChoice,
) -> Result<PathBuf, Error> {
    let storage = &options.env.storage;
    let dir = run_dir(&with_default_hooks(spec, options), options);
    let dir = dir.unwrap_or_else(|| default_dir(spec));
    let newest = |folder: &Path| -> Result<Option<PathBuf>, Error> {
        match storage.is_dir(folder) {
            true => Ok(NewestCheckpoint::find_in(storage, folder, None)?.path),
            false => Ok(None),
        }
    };
    let not_found =
        |message: String, help: &str| Err(Error::new(crate::Code::NotFound, message).help(help));
    match choice {
        CheckpointChoice::Latest => match newest(&dir)? {
            Some(path) => Ok(path),
            None => not_found(
                format!("there is no checkpoint in {}", dir.display()),
                "train first: `trainspec run SPEC`, or name one: `--checkpoint PATH`",
            ),
        },
        CheckpointChoice::Best => match newest(&dir.join("best"))? {
            Some(path) => Ok(path),
            None => not_found(
                format!("there is no best checkpoint in {}", dir.display()),
                "a run keeps one with `checkpoint (dir: \"...\", best: METRIC)` in `hooks`",
            ),
        },
        CheckpointChoice::Path(path) if storage.is_dir(path) => match newest(path)? {
            Some(path) => Ok(path),
            None if storage.is_file(&path.join(EXPORTED_MODEL)) => Ok(path.join(EXPORTED_MODEL)),
            None => not_found(
                format!("there is no checkpoint in {}", path.display()),
                "name the folder of a run, or the prefix of a checkpoint",
            ),
        },
        CheckpointChoice::Path(path) => Ok(path.clone()),
    }
}

/// Runs all evaluations of a spec with the state of a checkpoint; with `ema` averages take the place of their variables. Gives the state.
///
/// ```
/// use trainspec::{CheckpointChoice, Event, Options, check, evaluate, find_checkpoint, train};
///
/// let folder = std::env::temp_dir().join(format!("trainspec-evaluate-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).map_err(trainspec::Error::other)?;
/// std::fs::write(folder.join("points.csv"), "1,2\n2,4\n").map_err(trainspec::Error::other)?;
/// let spec = check("line", r#"
///     spec line;
///     data points { source csv("points.csv"); feature x: f32; feature y: f32; repeat; batch 2; }
///     data test { source csv("points.csv"); feature x: f32; feature y: f32; batch 2; }
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { data points; optimizer gradient_descent(0.1); steps 40; }
///     eval { data test; }
/// "#)?;
/// let options = Options { folder: folder.clone(), dir: Some(folder.join("run")), ..Options::default() };
/// train(&spec, &options, &mut |_: &Event| {})?;
///
/// let path = find_checkpoint(&spec, &options, &CheckpointChoice::Latest)?;
/// let mut losses = Vec::new();
/// evaluate(&spec, &options, &path, false, &mut |event: &Event| {
///     if let Event::Evaluated { metrics, .. } = event {
///         losses.push(metrics[0].1.value());
///     }
/// })?;
/// assert!(losses[0] < 1e-6);
/// # std::fs::remove_dir_all(folder).map_err(trainspec::Error::other)?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn evaluate(
    spec: &Arc<Spec>,
    options: &Options,
    checkpoint: &Path,
    ema: bool,
    observer: &mut dyn Observer,
) -> Result<State, Error> {
    let train = the_train(spec)?;
    let model = the_model(spec)?;
    let refused = |message: &str, help: &str| -> Error {
        let message = format!("the spec `{}` {message}", spec.name);
        Diagnostic::without_span(Code::MissingItem, message)
            .help(help)
            .into()
    };
    if spec.evals.is_empty() {
        return Err(refused(
            "has no `eval`",
            "say what it is evaluated on: `eval { data test_set; }`",
        ));
    }
    if ema && train.averages.is_empty() {
        return Err(refused(
            "has no averages",
            "`ema (decay: 0.999);` in `train` keeps averages of its variables",
        ));
    }
    let cx = DataContext {
        training: false,
        ..DataContext::of(spec, options, options.seed.unwrap_or(train.seed))
    };
    if let Some(what) = other_spec(&*options.env.storage, checkpoint, spec) {
        observer.event(&Event::Note(what));
    }
    the_tables(&cx, Some(checkpoint), &options.stop)?;
    let events = EventQueue::default();
    let feeds = options.registry.make(spec, &events)?.feeds;
    let mut session = Session::uninitialized(spec, options)?;
    let restored = restore_run_in(&options.env.storage, session.state_mut(), checkpoint)?;
    session.initialize_missing()?;
    let with_ema = ema || spec.evals.iter().any(|eval| eval.with_ema);
    require_evaluated(spec, train, with_ema, restored.plan)?;
    session.restored(restored.records);
    for eval in &spec.evals {
        let mut eval = eval.clone();
        eval.with_ema |= ema;
        let set = the_data(spec, &eval.data)?;
        let eval_cx = evaluation_context(&cx, set, model);
        let data = Pipeline::open(&eval_cx, set)?;
        let stop = options.stop.clone();
        let mut hook = EvalHook::new(spec, &eval, data, feeds.clone(), events.clone(), stop);
        hook.check_data(&eval_cx)?;
        let completed = hook.evaluate(&mut session)?;
        for event in events.take() {
            observer.event(&event);
        }
        if !completed {
            return Err(Error::new(
                crate::Code::Cancelled,
                "the evaluation was stopped",
            ));
        }
    }
    Ok(session.into_state())
}

/// Fails where a checkpoint lacks what evaluations compute with: variables, and averages where they take their place.
fn require_evaluated(
    spec: &Spec,
    train: &Train,
    with_ema: bool,
    mut plan: RestorePlan,
) -> Result<(), Error> {
    let averages = train.averages.iter().flat_map(|average| &average.state);
    let averages: Vec<&str> = averages.map(|state| state.name.as_str()).collect();
    plan.missing.retain(|one| {
        let is_variable = spec.variables.iter().any(|v| v.name == one.variable);
        is_variable || (with_ema && averages.contains(&one.variable.as_str()))
    });
    plan.require("it was saved with `vars`, or by another program: evaluate one that holds all variables of the model")
}
