//! `MonitoredTrainingSession` (`tf.train.MonitoredTrainingSession`): a monitored session with the hooks that most trainings need.

use std::path::PathBuf;
use std::time::Duration;

use crate::coordinator::STOP_GRACE_PERIOD;
use crate::hooks::{CheckpointSaverHook, Every, SessionRunHook, StepCounterHook, SummarySaverHook};
use crate::monitored::{
    ChiefSessionCreator, MonitoredSession, Scaffold, SessionCreator, WorkerSessionCreator,
};
use crate::session::Options;
use crate::supervisor::{CheckpointSource, MAX_WAIT};
use crate::{Error, Graph};

/// A setting with a default that depends on others: left out, given, or switched off.
///
/// ```
/// use trainspec::monitored::Setting;
///
/// assert_eq!(Setting::<u64>::default(), Setting::Default);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Setting<T> {
    /// What is usual.
    #[default]
    Default,
    /// This.
    Own(T),
    /// Nothing.
    None,
}

/// The arguments of [`monitored_training_session`], with TensorFlow's defaults.
///
/// ```
/// use trainspec::monitored::{Setting, TrainingSessionOptions};
///
/// let options = TrainingSessionOptions {
///     checkpoint_dir: Some("runs/digits".into()),
///     save_checkpoint_steps: Setting::Own(500),
///     ..TrainingSessionOptions::default()
/// };
/// assert!(options.is_chief);
/// ```
pub struct TrainingSessionOptions {
    /// Whether this process initializes, saves and writes summaries.
    pub is_chief: bool,
    /// Where checkpoints are restored from and saved to.
    pub checkpoint_dir: Option<PathBuf>,
    /// The pieces of the start.
    pub scaffold: Scaffold,
    /// Hooks of every process.
    pub hooks: Vec<Box<dyn SessionRunHook>>,
    /// Hooks of the chief alone.
    pub chief_only_hooks: Vec<Box<dyn SessionRunHook>>,
    /// Seconds between checkpoints; 600 where neither this nor the steps are given.
    pub save_checkpoint_secs: Setting<f64>,
    /// Steps between checkpoints.
    pub save_checkpoint_steps: Setting<u64>,
    /// Seconds between summaries.
    pub save_summaries_secs: Setting<f64>,
    /// Steps between summaries; 100 where neither this nor the seconds are given.
    pub save_summaries_steps: Setting<u64>,
    /// Where summaries are written to; the folder of the checkpoints where it is left out.
    pub summary_dir: Option<PathBuf>,
    /// Steps between measurements of steps per second; 0 switches them off.
    pub log_step_count_steps: u64,
    /// How long the end waits for threads.
    pub stop_grace_period: Duration,
    /// How long a worker waits for its chief.
    pub max_wait: Duration,
    /// Seed, engine and compilation (`config`).
    pub options: Options,
}

impl Default for TrainingSessionOptions {
    fn default() -> TrainingSessionOptions {
        TrainingSessionOptions {
            is_chief: true,
            checkpoint_dir: None,
            scaffold: Scaffold::new(),
            hooks: Vec::new(),
            chief_only_hooks: Vec::new(),
            save_checkpoint_secs: Setting::Default,
            save_checkpoint_steps: Setting::Default,
            save_summaries_secs: Setting::Default,
            save_summaries_steps: Setting::Default,
            summary_dir: None,
            log_step_count_steps: 100,
            stop_grace_period: STOP_GRACE_PERIOD,
            max_wait: MAX_WAIT,
            options: Options::default(),
        }
    }
}

impl std::fmt::Debug for TrainingSessionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainingSessionOptions")
            .field("is_chief", &self.is_chief)
            .field("checkpoint_dir", &self.checkpoint_dir)
            .field("hooks", &self.hooks.len())
            .field("chief_only_hooks", &self.chief_only_hooks.len())
            .field("summary_dir", &self.summary_dir)
            .finish_non_exhaustive()
    }
}

/// The interval of two settings of which at most one is given; `None` switches off, and so does 0.
fn interval(
    steps: Setting<u64>,
    secs: Setting<f64>,
    default: Every,
) -> Result<Option<Every>, Error> {
    let own = |steps: Setting<u64>| match steps {
        Setting::Own(steps) => Some(steps),
        Setting::Default | Setting::None => None,
    };
    let (steps, secs) = match (steps, secs) {
        (Setting::Default, Setting::Default) => return Ok(Some(default)),
        (steps, Setting::Own(secs)) => (own(steps), Some(secs)),
        (steps, Setting::Default | Setting::None) => (own(steps), None),
    };
    let (steps, secs) = (steps.filter(|n| *n > 0), secs.filter(|s| *s > 0.0));
    match (steps, secs) {
        (None, None) => Ok(None),
        given => Every::steps_or_secs(given.0, given.1).map(Some),
    }
}

/// A session that restores or initializes itself, counts steps, writes the summaries of the graph and saves checkpoints: hooks that the
/// chief has before those that are given.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::hooks::StopAtStepHook;
/// use trainspec::monitored::{TrainingSessionOptions, monitored_training_session};
/// use trainspec::InputView;
///
/// let text = "
///     spec line;
///     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
///     train { optimizer gradient_descent(0.05); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-mts-{}", std::process::id()));
/// let feeds = [("x", InputView::new(&[1], &[1.0_f32])), ("y", InputView::new(&[1], &[2.0_f32]))];
/// for last_step in [3, 5] {
///     let mut session = monitored_training_session(Graph::new(&spec), TrainingSessionOptions {
///         checkpoint_dir: Some(folder.clone()),
///         hooks: vec![Box::new(StopAtStepHook::last_step(last_step))],
///         ..TrainingSessionOptions::default()
///     })?;
///     while !session.should_stop() {
///         session.run("train_op", &feeds)?;
///     }
///     session.close()?;
/// }
/// // The second session went on where the first one ended.
/// assert!(folder.join("model.ckpt-3.index").exists() && folder.join("model.ckpt-5.index").exists());
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn monitored_training_session(
    graph: Graph,
    args: TrainingSessionOptions,
) -> Result<MonitoredSession, Error> {
    let TrainingSessionOptions {
        scaffold, options, ..
    } = args;
    if !args.is_chief {
        let creator: Box<dyn SessionCreator> = Box::new(WorkerSessionCreator {
            scaffold,
            options,
            max_wait: args.max_wait,
        });
        let session = MonitoredSession::new(graph, creator, args.hooks)?;
        return Ok(session.with_stop_grace_period(args.stop_grace_period));
    }
    let mut hooks = args.chief_only_hooks;
    let default = Every::Steps(100);
    let summaries = interval(args.save_summaries_steps, args.save_summaries_secs, default)?;
    let default = Every::Secs(600.0);
    let saves = interval(
        args.save_checkpoint_steps,
        args.save_checkpoint_secs,
        default,
    )?;
    if let Some(folder) = args.summary_dir.as_ref().or(args.checkpoint_dir.as_ref()) {
        if args.log_step_count_steps > 0 {
            let every = Every::Steps(args.log_step_count_steps);
            hooks.push(Box::new(StepCounterHook::new(folder).every(every)));
        }
        if let Some(every) = summaries {
            let scaffold = Some(scaffold.clone());
            let hook = SummarySaverHook::new(every, folder, None, scaffold)?;
            hooks.push(Box::new(hook));
        }
    }
    if let (Some(folder), Some(every)) = (&args.checkpoint_dir, saves) {
        let hook = CheckpointSaverHook::new(folder, every).scaffold(scaffold.clone())?;
        hooks.push(Box::new(hook));
    }
    hooks.extend(args.hooks);
    let creator = ChiefSessionCreator {
        scaffold,
        options,
        checkpoint: args.checkpoint_dir.map(CheckpointSource::Folder),
    };
    let session = MonitoredSession::new(graph, Box::new(creator), hooks)?;
    Ok(session.with_stop_grace_period(args.stop_grace_period))
}
