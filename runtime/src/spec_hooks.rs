//! The hooks of a spec as hooks of a session.
//!
//! In: a spec, its evaluations, its saver, and what the program registers. Out: hooks in the order in which they act at one step: log,
//! summary, evaluations, `early_stop`, registered hooks, checkpoint; before them those that always watch, after them what is not to keep
//! the last state from being saved: `final_ops`, and the error of the last evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::typed::{DefaultHook, HookKind, Model, Spec};
use trainspec_formats::checkpoint::latest_checkpoint_in;

use crate::data_watch::DataWatch;
use crate::env::Storage;
use crate::hooks::{
    BestSaver, CheckpointHook, CheckpointSaverListener, EarlyStopHook, EvalFailure, EvalHook,
    EventFiles, FinalValuesHook, GlobalStepWaiterHook, LastBatch, LogHook, OverflowHook,
    ProfileHook, ProfileStepHook, ProgressHook, RaiseHook, SessionRunHook, StepsPerSecondHook,
    StopAtHook, StopHook, SummaryHook,
};
use crate::saver::{Saver, step_of};
use crate::session::{EventQueue, Options, Timeline};
use crate::{Code, Error};

type Hooks = Vec<Box<dyn SessionRunHook>>;

/// The savers of the `checkpoint` hook.
pub(crate) struct Savers {
    pub(crate) newest: Saver,
    pub(crate) best: Option<BestSaver>,
    /// The data files, which must not change.
    pub(crate) data: Option<DataWatch>,
}

/// What the hooks of a spec are made with.
pub(crate) struct HookParts<'a> {
    pub(crate) options: &'a Options,
    pub(crate) events: &'a EventQueue,
    /// The folder of the run.
    pub(crate) run_dir: Option<PathBuf>,
    /// The folder of hooks that have none, in a run without one.
    pub(crate) default_dir: PathBuf,
    pub(crate) evaluations: Vec<EvalHook>,
    pub(crate) savers: Option<Savers>,
    /// Those that the program registers.
    pub(crate) registered: Hooks,
    /// The listeners of checkpoints that the program registers.
    pub(crate) listeners: Vec<Box<dyn CheckpointSaverListener>>,
    /// The batch that `final_ops` computes with.
    pub(crate) last_batch: LastBatch,
    /// The record of the training in its checkpoints.
    pub(crate) identity: Option<String>,
}

impl HookParts<'_> {
    /// The folder of a hook: the one that is given, that of the hook, or that of the checkpoints, which `check` demands otherwise.
    fn folder(&self, dir: &Option<String>) -> PathBuf {
        match (&self.options.dir, dir, &self.run_dir) {
            (Some(dir), _, _) => dir.clone(),
            (None, Some(dir), _) => PathBuf::from(dir),
            (None, None, Some(dir)) => dir.clone(),
            (None, None, None) => self.default_dir.clone(),
        }
    }
}

/// The hooks of a spec, in the order in which they act.
pub(crate) fn spec_hooks(spec: &Arc<Spec>, model: &Model, mut parts: HookParts<'_>) -> Hooks {
    let (env, events) = (&parts.options.env, parts.events);
    let files = EventFiles::new(env.storage.clone(), events.clone());
    let mut log = LogHook::new(events.clone());
    let stop = StopHook::new(parts.options.stop.clone(), events.clone());
    let mut stops: Hooks = vec![Box::new(stop.clone())];
    let (mut summaries, mut early_stops): (Hooks, Hooks) = (Vec::new(), Vec::new());
    let mut last: Hooks = Vec::new();
    let mut finals: Hooks = Vec::new();
    for hook in &spec.hooks {
        match &hook.kind {
            HookKind::Log {
                names,
                every,
                at_end,
            } => log.add(spec, names, *every, *at_end),
            HookKind::StopAt(bound) => {
                stops.push(Box::new(StopAtHook::new(*bound, events.clone())));
            }
            HookKind::Summary { every, dir, values } => {
                let folder = parts.folder(dir);
                for evaluation in &mut parts.evaluations {
                    evaluation.write_to(&files, &folder);
                }
                let hook = SummaryHook::new(files.clone(), folder, values, *every);
                summaries.push(Box::new(hook));
            }
            HookKind::StepCounter { every, dir } => {
                let folder = parts.folder(dir);
                let hook = StepsPerSecondHook::new(files.clone(), folder, *every);
                summaries.push(Box::new(hook));
            }
            HookKind::Profile {
                every,
                dir,
                show_dataflow,
                show_memory,
            } => {
                let timeline = Timeline {
                    show_dataflow: *show_dataflow,
                    show_memory: *show_memory,
                };
                let folder = parts.folder(dir);
                let (env, events) = (env.clone(), events.clone());
                let hook = ProfileHook::new(env, files.clone(), events, folder, timeline, *every);
                summaries.push(Box::new(hook));
            }
            HookKind::EarlyStop(settings) => {
                let results = parts.evaluations[settings.eval].results();
                let hook = EarlyStopHook::new(settings, results, events.clone());
                early_stops.push(Box::new(hook));
            }
            HookKind::WaitForStep { step, dir } => {
                let (storage, dir) = (env.storage.clone(), PathBuf::from(dir));
                let hook = GlobalStepWaiterHook::new(i64::try_from(*step).unwrap_or(i64::MAX))
                    .reading(move || newest_step(&storage, &dir))
                    .with_stop(parts.options.stop.clone());
                stops.push(Box::new(hook));
            }
            HookKind::FinalOps { names } => {
                let hook = FinalValuesHook::new(names, parts.last_batch.clone(), events.clone());
                finals.push(Box::new(hook));
            }
            HookKind::Checkpoint {
                dir,
                every,
                basename,
                ..
            } => {
                if let Some(Savers { newest, best, data }) = parts.savers.take() {
                    let prefix = parts.folder(&Some(dir.clone())).join(basename);
                    let (events, files) = (events.clone(), files.clone());
                    let hook = CheckpointHook::new(newest, best, prefix, *every, events, files);
                    let hook = hook.of(parts.identity.clone());
                    let listeners = std::mem::take(&mut parts.listeners);
                    last.push(Box::new(hook.watching(data).telling(listeners)));
                }
            }
            // A step checks its values; the registry has made the others.
            HookKind::Nan { .. } | HookKind::Registered(_) | HookKind::Feed(_) => {}
        }
    }
    if let Some(path) = &parts.options.profile {
        let hook = ProfileStepHook::new(env.clone(), events.clone(), path.clone());
        summaries.push(Box::new(hook));
    }
    let mut hooks: Hooks = vec![
        Box::new(ProgressHook::new(env.clock.clone())),
        Box::new(OverflowHook::default()),
    ];
    hooks.append(&mut stops);
    hooks.push(Box::new(match spec.hooks_off.contains(&DefaultHook::Log) {
        true => log,
        false => log.or_default(&model.train),
    }));
    hooks.append(&mut summaries);
    let failure = EvalFailure::default();
    for mut evaluation in parts.evaluations {
        evaluation.fail_into(&failure);
        hooks.push(Box::new(evaluation));
    }
    // Evaluations take time, in which a stop may be requested.
    hooks.push(Box::new(stop));
    finals.push(Box::new(RaiseHook(failure)));
    hooks.append(&mut early_stops);
    hooks.append(&mut parts.registered);
    hooks.append(&mut last);
    hooks.append(&mut finals);
    hooks
}

/// The step of the newest checkpoint in the folder of another run; 0 where there is none yet.
fn newest_step(storage: &Arc<dyn Storage>, folder: &Path) -> Result<u64, Error> {
    let Some(prefix) = latest_checkpoint_in(storage, folder, None)? else {
        return Ok(0);
    };
    step_of(&prefix.to_string_lossy()).ok_or_else(|| {
        let message = format!(
            "the name of the checkpoint {} has no step, so `wait_for_step` cannot compare it",
            prefix.display()
        );
        Error::new(Code::InvalidArgument, message)
    })
}
