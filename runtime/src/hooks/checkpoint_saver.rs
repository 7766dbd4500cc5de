//! `CheckpointSaverHook` (`tf.train.CheckpointSaverHook`): checkpoints at the creation of a session, at an interval, and at the end.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use trainspec_formats::events::SummaryWriter;
use trainspec_formats::proto::SessionLog;
use trainspec_formats::proto::session_log::SessionStatus;

use crate::coordinator::Coordinator;
use crate::graph::SharedSaver;
use crate::hooks::{Every, SecondOrStepTimer, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::monitored::Scaffold;
use crate::saver::Saver;
use crate::session::{Saves, Session};
use crate::{Code, Error, Graph};

/// Acts around the saves of a hook (`tf.train.CheckpointSaverListener`).
///
/// ```
/// use trainspec::Error;
/// use trainspec::hooks::CheckpointSaverListener;
/// use trainspec::session::Session;
///
/// struct CountSaves(u32);
///
/// impl CheckpointSaverListener for CountSaves {
///     fn after_save(&mut self, _: &mut Session, _: u64) -> Result<bool, Error> {
///         self.0 += 1;
///         // The run stops after the third.
///         Ok(self.0 == 3)
///     }
/// }
/// ```
pub trait CheckpointSaverListener: Send {
    /// Called by `begin` of the hook.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Called before a save.
    fn before_save(&mut self, session: &mut Session, global_step: u64) -> Result<(), Error> {
        let _ = (session, global_step);
        Ok(())
    }

    /// Called when a checkpoint is complete. True asks the session to stop.
    fn after_save(&mut self, session: &mut Session, global_step: u64) -> Result<bool, Error> {
        let _ = (session, global_step);
        Ok(false)
    }

    /// Called by `end` of the hook, after the last save.
    fn end(&mut self, session: &mut Session, global_step: u64) -> Result<(), Error> {
        let _ = (session, global_step);
        Ok(())
    }
}

/// What saves.
#[derive(Clone)]
enum Source {
    Saver(SharedSaver),
    Scaffold(Scaffold),
    /// The one in the collection of savers.
    Collection,
}

/// Saves checkpoints. A save is complete before the next hook is called.
///
/// ```
/// use trainspec::hooks::{CheckpointSaverHook, Every};
///
/// let hook = CheckpointSaverHook::new("runs/digits", Every::Secs(600.0));
/// # let _ = hook;
/// ```
pub struct CheckpointSaverHook {
    folder: PathBuf,
    basename: String,
    every: Every,
    source: Source,
    listeners: Vec<Box<dyn CheckpointSaverListener>>,
    saver: Option<SharedSaver>,
    writer: Option<Arc<SummaryWriter>>,
    timer: Option<SecondOrStepTimer>,
}

impl CheckpointSaverHook {
    /// Saves to a folder, as `model.ckpt-STEP`, with the saver of the graph.
    pub fn new(checkpoint_dir: impl Into<PathBuf>, every: Every) -> CheckpointSaverHook {
        CheckpointSaverHook {
            folder: checkpoint_dir.into(),
            basename: "model.ckpt".to_owned(),
            every,
            source: Source::Collection,
            listeners: Vec::new(),
            saver: None,
            writer: None,
            timer: None,
        }
    }

    /// Another name for the checkpoints.
    pub fn checkpoint_basename(mut self, basename: impl Into<String>) -> CheckpointSaverHook {
        self.basename = basename.into();
        self
    }

    /// Saves with a saver. Where a scaffold was given it is an error.
    pub fn saver(mut self, saver: Saver) -> Result<CheckpointSaverHook, Error> {
        self.source = match self.source {
            Source::Collection => Source::Saver(Arc::new(std::sync::Mutex::new(saver))),
            _ => return Err(both()),
        };
        Ok(self)
    }

    /// Saves with the saver of a scaffold. Where a saver was given it is an error.
    pub fn scaffold(mut self, scaffold: Scaffold) -> Result<CheckpointSaverHook, Error> {
        self.source = match self.source {
            Source::Collection => Source::Scaffold(scaffold),
            _ => return Err(both()),
        };
        Ok(self)
    }

    /// Adds a listener.
    pub fn listener(mut self, listener: Box<dyn CheckpointSaverListener>) -> CheckpointSaverHook {
        self.listeners.push(listener);
        self
    }

    fn prefix(&self) -> PathBuf {
        self.folder.join(&self.basename)
    }

    /// Saves, and asks whether a listener requests a stop.
    fn save(&mut self, session: &mut Session, step: u64) -> Result<bool, Error> {
        let Some(saver) = self.saver.clone() else {
            return Err(Error::new(Code::FailedPrecondition, "there is no saver"));
        };
        let prefix = self.prefix();
        for listener in &mut self.listeners {
            listener.before_save(session, step)?;
        }
        session.keep_position(Saves::All);
        {
            let mut saver = saver.lock().unwrap_or_else(PoisonError::into_inner);
            saver.save(session.state(), session.records(), &prefix, Some(step))?;
        }
        if let Some(writer) = &self.writer {
            let mut log = SessionLog {
                checkpoint_path: path_text(&prefix),
                ..SessionLog::default()
            };
            log.set_status(SessionStatus::Checkpoint);
            writer.add_session_log(log, step as i64)?;
        }
        let mut should_stop = false;
        for listener in &mut self.listeners {
            should_stop |= listener.after_save(session, step)?;
        }
        Ok(should_stop)
    }
}

fn both() -> Error {
    let message = "at most one of saver and scaffold can be provided";
    Error::new(Code::InvalidArgument, message)
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl fmt::Debug for CheckpointSaverHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointSaverHook")
            .field("prefix", &self.prefix())
            .field("every", &self.every)
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}

impl SessionRunHook for CheckpointSaverHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        self.writer = Some(graph.summary_writers().get(&self.folder)?);
        self.timer = Some(SecondOrStepTimer::new(self.every, graph.clock().clone()));
        if let Source::Collection = self.source {
            let one = match graph.collections().savers.as_slice() {
                [one] => Ok(one.clone()),
                [] => Err("there is no saver in the collection of the graph, and none was given"),
                _ => Err(
                    "there are several savers in the collection of the graph, and none was given",
                ),
            };
            let help = "give the hook a saver or a scaffold";
            let failed = |message| Error::new(Code::FailedPrecondition, message).help(help);
            self.saver = Some(one.map_err(failed)?);
        }
        self.listeners.iter_mut().try_for_each(|l| l.begin())
    }

    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        match &self.source {
            Source::Saver(saver) => self.saver = Some(saver.clone()),
            Source::Scaffold(scaffold) => self.saver = scaffold.saver(),
            Source::Collection => {}
        }
        let step = session.global_step();
        self.save(session, step)?;
        if let Some(timer) = &mut self.timer {
            timer.update_last_triggered_step(step);
        }
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let step = context.session.global_step();
        let timer = self.timer.as_mut();
        if let Some(timer) = timer.filter(|timer| timer.should_trigger_for_step(step)) {
            timer.update_last_triggered_step(step);
            if self.save(context.session, step)? {
                context.request_stop();
            }
        }
        Ok(())
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        let step = session.global_step();
        let timer = self.timer.as_ref();
        if timer.and_then(SecondOrStepTimer::last_triggered_step) != Some(step) {
            self.save(session, step)?;
        }
        let mut listeners = self.listeners.iter_mut();
        listeners.try_for_each(|listener| listener.end(session, step))?;
        match &self.writer {
            Some(writer) => Ok(writer.flush()?),
            None => Ok(()),
        }
    }
}
