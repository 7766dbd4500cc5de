//! The arguments of a supervisor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trainspec_compiler::ir::Tensor;
use trainspec_formats::events::SummaryWriter;

use crate::coordinator::STOP_GRACE_PERIOD;
use crate::graph::SharedSaver;
use crate::monitored::{InitOp, ReadyOp, Setting};
use crate::session::Options;
use crate::summary::SummaryOp;
use crate::supervisor::{InitFn, RECOVERY_WAIT, SessionManager};

/// The arguments of `tf.train.Supervisor`, with TensorFlow's defaults: each operation is usual, given, or switched off.
///
/// ```
/// use trainspec::monitored::Setting;
/// use trainspec::supervisor::SupervisorOptions;
///
/// let quiet = SupervisorOptions { summary_op: Setting::None, ..SupervisorOptions::default() };
/// assert_eq!(quiet.save_model_secs, 600.0);
/// ```
pub struct SupervisorOptions {
    /// Says whether a session is ready; by default that all variables have values.
    pub ready_op: Setting<ReadyOp>,
    /// Says whether a session is ready for `local_init_op`; by default nothing is asked.
    pub ready_for_local_init_op: Setting<ReadyOp>,
    /// Whether this process initializes, saves and writes summaries.
    pub is_chief: bool,
    /// Initializes variables where there is no checkpoint; by default to their initial values.
    pub init_op: Setting<InitOp>,
    /// What `init_op` is fed.
    pub init_feed_dict: Vec<(String, Tensor)>,
    /// Runs after initialization and after a restore.
    pub local_init_op: Setting<InitOp>,
    /// The folder of checkpoints and event files; without it nothing is saved.
    pub logdir: Option<PathBuf>,
    /// The summaries that are written; by default all of the graph.
    pub summary_op: Setting<SummaryOp>,
    /// Saves and restores; by default all variables.
    pub saver: Setting<SharedSaver>,
    /// The name of the step variable.
    pub global_step: Setting<String>,
    /// Seconds between summaries; 0 switches them off.
    pub save_summaries_secs: f64,
    /// Seconds between checkpoints; 0 switches them off.
    pub save_model_secs: f64,
    /// The time between two tries to find a session or a checkpoint.
    pub recovery_wait: Duration,
    /// How long a stop waits for threads.
    pub stop_grace: Duration,
    /// The name of checkpoints.
    pub checkpoint_basename: String,
    /// Makes the sessions; by default one with the operations above.
    pub session_manager: Option<SessionManager>,
    /// Writes event files; by default to `logdir`.
    pub summary_writer: Setting<Arc<SummaryWriter>>,
    /// Runs after `init_op`.
    pub init_fn: Option<InitFn>,
    /// Seed, engine and compilation (`config`).
    pub options: Options,
}

impl Default for SupervisorOptions {
    fn default() -> SupervisorOptions {
        SupervisorOptions {
            ready_op: Setting::Default,
            ready_for_local_init_op: Setting::Default,
            is_chief: true,
            init_op: Setting::Default,
            init_feed_dict: Vec::new(),
            local_init_op: Setting::Default,
            logdir: None,
            summary_op: Setting::Default,
            saver: Setting::Default,
            global_step: Setting::Default,
            save_summaries_secs: 120.0,
            save_model_secs: 600.0,
            recovery_wait: RECOVERY_WAIT,
            stop_grace: STOP_GRACE_PERIOD,
            checkpoint_basename: "model.ckpt".to_owned(),
            session_manager: None,
            summary_writer: Setting::Default,
            init_fn: None,
            options: Options::default(),
        }
    }
}

impl std::fmt::Debug for SupervisorOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SupervisorOptions")
            .field("is_chief", &self.is_chief)
            .field("logdir", &self.logdir)
            .field("save_summaries_secs", &self.save_summaries_secs)
            .field("save_model_secs", &self.save_model_secs)
            .field("checkpoint_basename", &self.checkpoint_basename)
            .finish_non_exhaustive()
    }
}
