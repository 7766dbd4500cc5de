//! `SessionManager` (`tf.train.SessionManager`): sessions that are restored, initialized, or waited for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use trainspec_compiler::ir::Tensor;

use crate::graph::{Graph, SharedSaver};
use crate::monitored::{InitOp, ReadyOp};
use crate::program::InputView;
use crate::saver::NewestCheckpoint;
use crate::session::{Options, Session};
use crate::{Code, Error};

/// How long a session is waited for (`max_wait_secs`).
pub const MAX_WAIT: Duration = Duration::from_secs(7200);
/// The time between two tries (`recovery_wait_secs`).
pub const RECOVERY_WAIT: Duration = Duration::from_secs(30);

/// Runs after `init_op`, where a session starts from initial values.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::Session;
/// use trainspec::supervisor::InitFn;
///
/// let init_fn: InitFn = Arc::new(|session: &mut Session| {
///     assert_eq!(session.global_step(), 0);
///     Ok(())
/// });
/// # let _ = init_fn;
/// ```
pub type InitFn = Arc<dyn Fn(&mut Session) -> Result<(), Error> + Send + Sync>;

/// Where a session is restored from.
///
/// ```
/// use trainspec::supervisor::CheckpointSource;
///
/// let newest = CheckpointSource::Folder("runs/digits".into());
/// assert_ne!(newest, CheckpointSource::File("runs/digits/model.ckpt-100".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointSource {
    /// The newest complete checkpoint of a folder (`checkpoint_dir`).
    Folder(PathBuf),
    /// One checkpoint (`checkpoint_filename_with_path`).
    File(PathBuf),
}

/// The options of a session manager, with TensorFlow's defaults.
///
/// ```
/// use trainspec::supervisor::{RECOVERY_WAIT, SessionManagerOptions};
///
/// assert_eq!(SessionManagerOptions::default().recovery_wait, RECOVERY_WAIT);
/// ```
#[derive(Clone)]
pub struct SessionManagerOptions {
    /// Runs after initialization and after a restore, where the session is ready for it.
    pub local_init_op: Option<InitOp>,
    /// What `local_init_op` is fed.
    pub local_init_feed_dict: Vec<(String, Tensor)>,
    /// Says whether a session is ready for training; `None` does not ask.
    pub ready_op: Option<ReadyOp>,
    /// Says whether a session is ready for `local_init_op`; `None` does not ask.
    pub ready_for_local_init_op: Option<ReadyOp>,
    /// The time between two tries.
    pub recovery_wait: Duration,
    /// Makes the sessions, whose variables have no values yet; `None` makes one of this process.
    pub factory: Option<SessionFactory>,
}

/// Makes sessions for a manager.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::supervisor::{SessionFactory, SessionManagerOptions};
/// use trainspec::{Graph, Options, Session};
///
/// let factory: SessionFactory = Arc::new(|graph: &Graph, options: &Options| {
///     Session::uninitialized(graph.spec(), &Options { seed: Some(7), ..options.clone() })
/// });
/// let options = SessionManagerOptions { factory: Some(factory), ..SessionManagerOptions::default() };
/// # let _ = options;
/// ```
pub type SessionFactory = Arc<dyn Fn(&Graph, &Options) -> Result<Session, Error> + Send + Sync>;

impl Default for SessionManagerOptions {
    fn default() -> SessionManagerOptions {
        SessionManagerOptions {
            local_init_op: None,
            local_init_feed_dict: Vec::new(),
            ready_op: None,
            ready_for_local_init_op: None,
            recovery_wait: RECOVERY_WAIT,
            factory: None,
        }
    }
}

impl fmt::Debug for SessionManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionManagerOptions")
            .field("local_init_op", &self.local_init_op)
            .field("ready_op", &self.ready_op)
            .field("ready_for_local_init_op", &self.ready_for_local_init_op)
            .field("recovery_wait", &self.recovery_wait)
            .finish_non_exhaustive()
    }
}

/// How a session is prepared.
///
/// ```
/// use trainspec::monitored::InitOp;
/// use trainspec::supervisor::Prepare;
///
/// let prepare = Prepare { init_op: Some(InitOp::initializer()), ..Prepare::default() };
/// assert!(!prepare.wait_for_checkpoint);
/// ```
#[derive(Clone)]
pub struct Prepare {
    /// Initializes variables where there is no checkpoint.
    pub init_op: Option<InitOp>,
    /// What `init_op` is fed.
    pub init_feed_dict: Vec<(String, Tensor)>,
    /// Runs after `init_op`.
    pub init_fn: Option<InitFn>,
    /// Restores.
    pub saver: Option<SharedSaver>,
    /// What is restored.
    pub checkpoint: Option<CheckpointSource>,
    /// Whether a folder without a checkpoint is waited for.
    pub wait_for_checkpoint: bool,
    /// How long it is waited for.
    pub max_wait: Duration,
}

impl Default for Prepare {
    fn default() -> Prepare {
        Prepare {
            init_op: None,
            init_feed_dict: Vec::new(),
            init_fn: None,
            saver: None,
            checkpoint: None,
            wait_for_checkpoint: false,
            max_wait: MAX_WAIT,
        }
    }
}

impl fmt::Debug for Prepare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepare")
            .field("init_op", &self.init_op)
            .field("checkpoint", &self.checkpoint)
            .field("wait_for_checkpoint", &self.wait_for_checkpoint)
            .field("max_wait", &self.max_wait)
            .finish_non_exhaustive()
    }
}

/// Makes sessions ready: restores them, initializes them, or waits until another has.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::monitored::{InitOp, ReadyOp};
/// use trainspec::session::Options;
/// use trainspec::supervisor::{Prepare, SessionManager, SessionManagerOptions};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// let manager = SessionManager::new(SessionManagerOptions {
///     ready_op: Some(ReadyOp::report_uninitialized()),
///     ..SessionManagerOptions::default()
/// })?;
/// let prepare = Prepare { init_op: Some(InitOp::initializer()), ..Prepare::default() };
/// let session = manager.prepare_session(&Graph::new(&spec), &Options::default(), &prepare)?;
/// assert_eq!(session.state().get("a").unwrap().to_f64s(), [1.0]);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SessionManager {
    options: SessionManagerOptions,
}

impl SessionManager {
    /// A manager. `ready_for_local_init_op` without `local_init_op` is an error.
    pub fn new(options: SessionManagerOptions) -> Result<SessionManager, Error> {
        if options.ready_for_local_init_op.is_some() && options.local_init_op.is_none() {
            let message = "`ready_for_local_init_op` is given without `local_init_op`, for which it would be asked";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(SessionManager { options })
    }

    /// A session that is ready: restored where there is a checkpoint, else initialized by `init_op` and `init_fn`; then `local_init_op`
    /// has run in both cases.
    ///
    /// Fails where nothing can be restored and nothing is given to initialize with, and where the session is not ready in the end.
    pub fn prepare_session(
        &self,
        graph: &Graph,
        options: &Options,
        prepare: &Prepare,
    ) -> Result<Session, Error> {
        let (mut session, is_restored) = self.restored(graph, options, prepare)?;
        if !is_restored {
            let has_any = prepare.init_op.is_some()
                || prepare.init_fn.is_some()
                || self.options.local_init_op.is_some();
            if !has_any {
                let message = "the model is not initialized: nothing was restored, and there is no `init_op`, `init_fn` or `local_init_op`";
                return Err(Error::new(Code::FailedPrecondition, message));
            }
            if let Some(init_op) = &prepare.init_op {
                init_op.run(&mut session, &fed(&prepare.init_feed_dict))?;
            }
            if let Some(init_fn) = &prepare.init_fn {
                init_fn(&mut session)?;
            }
        }
        if let Some(reason) = self.try_local_init(&mut session)? {
            let message = format!(
                "the initializers did not make the model ready for its local initialization: {reason}"
            );
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        match self.not_ready(&mut session)? {
            None => Ok(session),
            Some(reason) => {
                let message = format!("the initializers did not make the model ready: {reason}");
                Err(Error::new(Code::FailedPrecondition, message))
            }
        }
    }

    /// A session, restored if there is a checkpoint, and whether it is ready. `local_init_op` is tried in any case.
    pub fn recover_session(
        &self,
        graph: &Graph,
        options: &Options,
        prepare: &Prepare,
    ) -> Result<(Session, bool), Error> {
        let (mut session, is_restored) = self.restored(graph, options, prepare)?;
        let local = self.try_local_init(&mut session)?;
        if !is_restored {
            return Ok((session, false));
        }
        let is_ready = self.not_ready(&mut session)?.is_none() && local.is_none();
        Ok((session, is_ready))
    }

    /// A session that another one makes ready: it is created again and asked every `recovery_wait`, for `max_wait` at the most.
    ///
    /// Fails with [`Code::DeadlineExceeded`] before it would sleep past the end of that time.
    pub fn wait_for_session(
        &self,
        graph: &Graph,
        options: &Options,
        max_wait: Option<Duration>,
    ) -> Result<Session, Error> {
        let clock = graph.clock();
        let (wait, end) = (
            self.options.recovery_wait,
            max_wait.map(|max| clock.now() + max),
        );
        loop {
            let mut session = self.create(graph, options)?;
            let local = self.try_local_init(&mut session)?;
            let reason = match local {
                Some(reason) => Some(reason),
                None => self.not_ready(&mut session)?,
            };
            match reason {
                None => return Ok(session),
                Some(reason) if end.is_some_and(|end| clock.now() + wait > end) => {
                    let message = format!("the session did not become ready in time: {reason}");
                    return Err(Error::new(Code::DeadlineExceeded, message));
                }
                Some(_) => clock.sleep(wait),
            }
        }
    }

    fn create(&self, graph: &Graph, options: &Options) -> Result<Session, Error> {
        match &self.options.factory {
            Some(factory) => factory(graph, options),
            None => Session::uninitialized(graph.spec(), &graph.options(options)),
        }
    }

    /// A new session, restored where there is a checkpoint, and whether there was one.
    fn restored(
        &self,
        graph: &Graph,
        options: &Options,
        prepare: &Prepare,
    ) -> Result<(Session, bool), Error> {
        let mut session = self.create(graph, options)?;
        let (Some(saver), Some(source)) = (&prepare.saver, &prepare.checkpoint) else {
            return Ok((session, false));
        };
        let newest = match source {
            CheckpointSource::File(path) => NewestCheckpoint {
                path: Some(path.clone()),
                ..NewestCheckpoint::default()
            },
            CheckpointSource::Folder(folder) => self.newest(graph, folder, prepare)?,
        };
        let Some(path) = &newest.path else {
            return Ok((session, false));
        };
        let mut saver = saver.lock().unwrap_or_else(PoisonError::into_inner);
        let restored = saver.restore(session.state_mut(), path)?;
        session.restored(restored.records);
        // Retention goes on with the list of the folder, so that old files are still deleted.
        if let CheckpointSource::Folder(folder) = source {
            saver.recover_folder(folder, &newest)?;
        }
        Ok((session, true))
    }

    /// The newest checkpoint of a folder, which is waited for where that is asked. When the time is over there is none: no error, since the
    /// session can still be initialized.
    fn newest(
        &self,
        graph: &Graph,
        folder: &Path,
        prepare: &Prepare,
    ) -> Result<NewestCheckpoint, Error> {
        let mut waited = Duration::ZERO;
        loop {
            let newest = NewestCheckpoint::find_in(graph.storage(), folder, None)?;
            let may_wait = prepare.wait_for_checkpoint && waited < prepare.max_wait;
            if newest.path.is_some() || !may_wait {
                return newest.unless_all_damaged();
            }
            graph.clock().sleep(self.options.recovery_wait);
            waited += self.options.recovery_wait;
        }
    }

    /// Runs `local_init_op` where the session is ready for it; why it is not.
    fn try_local_init(&self, session: &mut Session) -> Result<Option<String>, Error> {
        let Some(op) = &self.options.local_init_op else {
            return Ok(None);
        };
        if let Some(ready) = &self.options.ready_for_local_init_op
            && let Some(reason) = ready.reason(session)?
        {
            return Ok(Some(reason));
        }
        op.run(session, &fed(&self.options.local_init_feed_dict))?;
        Ok(None)
    }

    /// Why the session is not ready for training.
    fn not_ready(&self, session: &mut Session) -> Result<Option<String>, Error> {
        match &self.options.ready_op {
            Some(ready) => ready.reason(session),
            None => Ok(None),
        }
    }
}

/// The feeds of an operation, by reference.
fn fed(feeds: &[(String, Tensor)]) -> Vec<(&str, InputView<'_>)> {
    let views = feeds.iter();
    let views = views.map(|(name, value)| (name.as_str(), InputView::from(value)));
    views.collect()
}
