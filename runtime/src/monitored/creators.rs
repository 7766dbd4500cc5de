//! Creators of sessions (`tf.train.SessionCreator`): initial values, the chief's, a worker's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::graph::Graph;
use crate::monitored::Scaffold;
use crate::session::{Options, Session};
use crate::supervisor::{CheckpointSource, Prepare, SessionManager, SessionManagerOptions};

/// Creates the session of a monitored one, and creates it again after a recovery (`tf.train.SessionCreator`).
///
/// ```
/// use trainspec::monitored::SessionCreator;
/// use trainspec::{Error, Graph, MonitoredSession, Options, Session};
///
/// let text = "spec line;
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { optimizer gradient_descent(0.5); }";
/// let spec = trainspec::check("line", text)?;
/// // A closure creates sessions too.
/// let creator = |graph: &mut Graph| Session::new(graph.spec(), &Options::default());
/// let mut session = MonitoredSession::new(Graph::new(&spec), Box::new(creator), Vec::new())?;
/// assert!(!session.should_stop());
/// session.close()?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub trait SessionCreator: Send {
    /// A session that is initialized or restored. The graph is finalized here at the latest.
    fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error>;
}

impl<F: FnMut(&mut Graph) -> Result<Session, Error> + Send> SessionCreator for F {
    fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error> {
        graph.finalize();
        self(graph)
    }
}

/// Creates sessions with the initial values of a spec.
///
/// ```
/// use trainspec::monitored::InitialSession;
///
/// let creator = InitialSession::default();
/// # let _ = creator;
/// ```
#[derive(Debug, Clone, Default)]
pub struct InitialSession {
    /// Seed, engine and compilation.
    pub options: Options,
}

impl SessionCreator for InitialSession {
    fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error> {
        graph.finalize();
        Session::new(graph.spec(), &graph.options(&self.options))
    }
}

/// Creates the sessions of a chief: restored from a checkpoint where there is one, else initialized (`tf.train.ChiefSessionCreator`).
///
/// ```
/// use trainspec::monitored::ChiefSessionCreator;
/// use trainspec::supervisor::CheckpointSource;
///
/// let creator = ChiefSessionCreator {
///     checkpoint: Some(CheckpointSource::Folder("runs/digits".into())),
///     ..ChiefSessionCreator::default()
/// };
/// # let _ = creator;
/// ```
#[derive(Debug, Clone)]
pub struct ChiefSessionCreator {
    /// The pieces of the start.
    pub scaffold: Scaffold,
    /// Seed, engine and compilation (`config`).
    pub options: Options,
    /// The folder whose newest checkpoint is restored, or one checkpoint (`checkpoint_dir`, `checkpoint_filename_with_path`).
    pub checkpoint: Option<CheckpointSource>,
}

impl Default for ChiefSessionCreator {
    fn default() -> ChiefSessionCreator {
        ChiefSessionCreator {
            scaffold: Scaffold::new(),
            options: Options::default(),
            checkpoint: None,
        }
    }
}

impl ChiefSessionCreator {
    /// A chief whose checkpoints are in a folder.
    pub fn with_folder(scaffold: Scaffold, folder: impl Into<PathBuf>) -> ChiefSessionCreator {
        ChiefSessionCreator {
            scaffold,
            checkpoint: Some(CheckpointSource::Folder(folder.into())),
            ..ChiefSessionCreator::default()
        }
    }
}

impl SessionCreator for ChiefSessionCreator {
    fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error> {
        self.scaffold.finalize(graph)?;
        let scaffold = self.scaffold.clone();
        let init_fn = scaffold.init_fn();
        let prepare = Prepare {
            init_op: scaffold.init_op(),
            init_feed_dict: scaffold.init_feed_dict(),
            init_fn: init_fn.map(|init_fn| -> crate::supervisor::InitFn {
                Arc::new(move |session| init_fn(&scaffold, session))
            }),
            saver: self.scaffold.saver(),
            checkpoint: self.checkpoint.clone(),
            ..Prepare::default()
        };
        manager(&self.scaffold)?.prepare_session(graph, &self.options, &prepare)
    }
}

/// The time that a worker waits for its chief.
pub const WORKER_MAX_WAIT: Duration = Duration::from_secs(30 * 60);

/// Creates the sessions of a worker: it waits until another has initialized the variables (`tf.train.WorkerSessionCreator`).
///
/// ```
/// use trainspec::monitored::{WORKER_MAX_WAIT, WorkerSessionCreator};
///
/// assert_eq!(WorkerSessionCreator::default().max_wait, WORKER_MAX_WAIT);
/// ```
#[derive(Debug, Clone)]
pub struct WorkerSessionCreator {
    /// The pieces of the start.
    pub scaffold: Scaffold,
    /// Seed, engine and compilation (`config`).
    pub options: Options,
    /// How long it waits.
    pub max_wait: Duration,
}

impl Default for WorkerSessionCreator {
    fn default() -> WorkerSessionCreator {
        WorkerSessionCreator {
            scaffold: Scaffold::new(),
            options: Options::default(),
            max_wait: WORKER_MAX_WAIT,
        }
    }
}

impl SessionCreator for WorkerSessionCreator {
    fn create_session(&mut self, graph: &mut Graph) -> Result<Session, Error> {
        self.scaffold.finalize(graph)?;
        let manager = manager(&self.scaffold)?;
        manager.wait_for_session(graph, &self.options, Some(self.max_wait))
    }
}

/// The session manager of a scaffold that is finalized.
fn manager(scaffold: &Scaffold) -> Result<SessionManager, Error> {
    SessionManager::new(SessionManagerOptions {
        local_init_op: scaffold.local_init_op(),
        local_init_feed_dict: scaffold.local_init_feed_dict(),
        ready_op: scaffold.ready_op(),
        ready_for_local_init_op: scaffold.ready_for_local_init_op(),
        ..SessionManagerOptions::default()
    })
}
