//! Hooks that the options of a run add to those of its spec, or change.
//!
//! In: a spec and the options. Out: the spec as it is run. Leaves alone: data, model and `train`, so it is the same training; and the
//! defaults of `log` and `nan`, which every run has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::{
    CheckpointFormat, DefaultHook, Hook, HookKind, Interval, Named, NamedKind, Spec, Summary,
    SummaryKind, TrainEnd, ValueId,
};
use trainspec_formats::files::{Durability, create_dir_in};

use crate::hooks::DEFAULT_LOG_INTERVAL;
use crate::session::Options;
use crate::trainer::run_dir;

/// The folder of a run that nothing gives another one: `runs/NAME`.
pub(crate) fn default_dir(spec: &Spec) -> PathBuf {
    Path::new("runs").join(&spec.name)
}

/// The spec as it is run: with a `checkpoint` hook where the options give a folder and it has none, with the interval that they give, and
/// with `default_hooks` also with a folder `runs/NAME` and a `summary` hook.
///
/// ```
/// use trainspec::{Options, check, with_default_hooks};
///
/// let spec = check("line", "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); steps 400; }
///     hooks { summary none; }")?;
/// let options = Options { default_hooks: true, ..Options::default() };
/// let words: Vec<&str> = with_default_hooks(&spec, &options).hooks.iter().map(|hook| hook.kind.word()).collect();
/// assert_eq!(words, ["checkpoint"]);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn with_default_hooks(spec: &Arc<Spec>, options: &Options) -> Arc<Spec> {
    let has = |word: &str| spec.hooks.iter().any(|hook| hook.kind.word() == word);
    let is_off = |hook: DefaultHook| spec.hooks_off.contains(&hook);
    let mut added = Vec::new();
    if !has("checkpoint") {
        let dir = match (&options.dir, options.default_hooks) {
            // A folder on the command line is a wish to save.
            (Some(dir), _) => Some(dir.clone()),
            (None, true) if !is_off(DefaultHook::Checkpoint) => Some(default_dir(spec)),
            (None, _) => None,
        };
        added.extend(dir.map(|dir| checkpoint(&dir)));
    }
    if options.default_hooks && !has("summary") && !is_off(DefaultHook::Summary) {
        // Without a folder for checkpoints there is none for events.
        if has("checkpoint") || !added.is_empty() {
            added.extend(summary(spec, options));
        }
    }
    if added.is_empty() && options.save_every.is_none() {
        return spec.clone();
    }
    let mut spec = Spec::clone(spec);
    spec.hooks.extend(added);
    for hook in &mut spec.hooks {
        if let (HookKind::Checkpoint { every, .. }, Some(steps)) =
            (&mut hook.kind, options.save_every)
        {
            *every = Interval::Steps(i64::try_from(steps).unwrap_or(i64::MAX));
        }
    }
    Arc::new(spec)
}

/// As [`with_default_hooks`], but without those that the spec does not mention where `runs/NAME` cannot be created, such as in a clone that
/// is read-only; then also why. The folder is created.
///
/// ```
/// use trainspec::{Options, check, writable_default_hooks};
///
/// let spec = check("line", "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); steps 400; }")?;
/// // Nothing has a default here, so nothing is created.
/// let (same, why) = writable_default_hooks(&spec, &Options::default());
/// assert!(same.hooks.is_empty() && why.is_none());
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn writable_default_hooks(spec: &Arc<Spec>, options: &Options) -> (Arc<Spec>, Option<String>) {
    let with_hooks = with_default_hooks(spec, options);
    if options.dir.is_some() || run_dir(spec, options).is_some() {
        return (with_hooks, None);
    }
    let Some(dir) = run_dir(&with_hooks, options) else {
        return (with_hooks, None);
    };
    match create_dir_in(&options.env.storage, &dir, Durability::Synced) {
        Ok(()) => (with_hooks, None),
        Err(error) => {
            let why = format!(
                "nothing is saved: {} cannot be created ({error}); `--dir FOLDER` names another folder",
                dir.display()
            );
            (spec.clone(), Some(why))
        }
    }
}

/// The hooks of a run, also those that act where a spec does not mention them, of which it has no trace: `log` and `nan`.
pub(crate) fn acting_hooks(spec: &Spec) -> Vec<HookKind> {
    let mut hooks: Vec<HookKind> = spec.hooks.iter().map(|hook| hook.kind.clone()).collect();
    let lacks = |word: &str, hook: DefaultHook| {
        let has = spec.hooks.iter().any(|hook| hook.kind.word() == word);
        !has && !spec.hooks_off.contains(&hook)
    };
    let Some(mode) = spec.model.as_ref().map(|model| &model.train) else {
        return hooks;
    };
    if lacks("log", DefaultHook::Log) {
        hooks.push(HookKind::Log {
            names: named(mode.losses.iter().chain(&mode.metrics)),
            every: DEFAULT_LOG_INTERVAL,
            at_end: true,
        });
    }
    if lacks("nan", DefaultHook::Nan) {
        hooks.extend(mode.losses.iter().map(|(name, _)| HookKind::Nan {
            name: name.clone(),
            fail: true,
        }));
    }
    hooks
}

fn named<'a>(values: impl Iterator<Item = &'a (String, ValueId)>) -> Vec<Named> {
    let named = values.map(|(name, _)| Named {
        kind: NamedKind::Value(name.clone()),
        span: Span::default(),
    });
    named.collect()
}

/// A `checkpoint` hook with its defaults.
fn checkpoint(dir: &Path) -> Hook {
    Hook {
        kind: HookKind::Checkpoint {
            dir: dir.to_string_lossy().into_owned(),
            every: Interval::Seconds(600.0),
            keep: 5,
            keep_every: None,
            basename: "model.ckpt".to_owned(),
            format: CheckpointFormat::Bundle,
            vars: Vec::new(),
            best: None,
        },
        span: Span::default(),
    }
}

/// The number of times that a run of known length writes its values by default, about.
const SUMMARIES_OF_A_RUN: u64 = 200;

/// A `summary` hook of all losses, metrics and schedules; `None` where there are none.
fn summary(spec: &Spec, options: &Options) -> Option<Hook> {
    let train = spec.train.as_ref()?;
    let mode = &spec.model.as_ref()?.train;
    let values = mode.losses.iter().chain(&mode.metrics);
    let names = named(values.chain(&train.schedules));
    let steps = match (options.steps, train.until) {
        (Some(steps), _) | (None, Some(TrainEnd::Steps(steps))) => steps,
        (None, Some(TrainEnd::Epochs(_)) | None) => 100 * SUMMARIES_OF_A_RUN,
    };
    let every = (steps / SUMMARIES_OF_A_RUN).clamp(1, 1000);
    (!names.is_empty()).then(|| Hook {
        kind: HookKind::Summary {
            every: Interval::Steps(every as i64),
            dir: None,
            values: vec![Summary {
                kind: SummaryKind::Scalar,
                names,
                span: Span::default(),
            }],
        },
        span: Span::default(),
    })
}
