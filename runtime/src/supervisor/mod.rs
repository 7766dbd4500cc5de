//! Supervision (`tf.train.Supervisor`, `tf.train.SessionManager`): sessions that are restored or initialized, with services on threads that
//! save, summarize and count steps.
//!
//! New programs use a [`MonitoredSession`](crate::MonitoredSession), whose hooks run between steps. A supervisor's services run beside
//! them, on a session that is shared under a lock.

mod basic_train_loop;
mod options;
mod services;
mod session_manager;
mod shared_session;

pub use basic_train_loop::basic_train_loop;
pub use options::SupervisorOptions;
pub use session_manager::{
    CheckpointSource, InitFn, MAX_WAIT, Prepare, RECOVERY_WAIT, SessionFactory, SessionManager,
    SessionManagerOptions,
};
pub use shared_session::SharedSession;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trainspec_formats::events::SummaryWriter;
use trainspec_formats::files::{Durability, create_dir_in};
use trainspec_formats::proto::session_log::SessionStatus;
use trainspec_formats::proto::{SessionLog, Summary};

use crate::coordinator::{Coordinator, LooperThread, Thread};
use crate::graph::{Collections, Graph, SUMMARIES, SharedSaver};
use crate::monitored::{InitOp, ReadyOp, Setting, default_saver};
use crate::queue::{QueueRunner, RunnerThread, restart_input, start_queue_runners};
use crate::session::Options;
use crate::summary::{SummaryOp, merge_all_summaries};
use crate::train::{get_global_step, global_step};
use crate::{Code, Error};

/// Prepares sessions and runs services beside them.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::InputView;
/// use trainspec::supervisor::{Supervisor, SupervisorOptions};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// # let logdir = std::env::temp_dir().join(format!("trainspec-doc-supervisor-{}", std::process::id()));
/// let mut supervisor = Supervisor::new(Graph::new(&spec), SupervisorOptions {
///     logdir: Some(logdir.clone()),
///     ..SupervisorOptions::default()
/// })?;
/// let feeds = [("x", InputView::new(&[1], &[1.0_f32]))];
/// supervisor.managed_session(|supervisor, session| {
///     while !supervisor.should_stop() && session.lock().global_step() < 10 {
///         session.run("train_op", &feeds)?;
///     }
///     Ok(())
/// })?;
/// # std::fs::remove_dir_all(logdir).unwrap();
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct Supervisor {
    graph: Graph,
    coordinator: Coordinator,
    is_chief: bool,
    ready_op: Option<ReadyOp>,
    ready_for_local_init_op: Option<ReadyOp>,
    init_op: Option<InitOp>,
    init_feed_dict: Vec<(String, crate::Tensor)>,
    local_init_op: Option<InitOp>,
    init_fn: Option<InitFnField>,
    summary_op: Option<SummaryOp>,
    saver: Option<SaverField>,
    global_step: Option<String>,
    logdir: Option<PathBuf>,
    save_path: Option<PathBuf>,
    save_summaries: Option<Duration>,
    save_model: Option<Duration>,
    stop_grace: Duration,
    summary_writer: Option<Arc<SummaryWriter>>,
    /// Whether the supervisor made the writer, and so closes it.
    owns_writer: bool,
    session_manager: SessionManager,
    options: Options,
}

/// A field that is not shown.
struct InitFnField(InitFn);
/// A field that is not shown.
struct SaverField(SharedSaver);

impl std::fmt::Debug for InitFnField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InitFn")
    }
}

impl std::fmt::Debug for SaverField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Saver")
    }
}

/// What a three-valued argument stands for: the first of a collection, else one that is made and collected.
fn choose<T: Clone>(
    graph: &mut Graph,
    setting: Setting<T>,
    collection: fn(&mut Collections) -> &mut Vec<T>,
    make: impl FnOnce(&Graph) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    match setting {
        Setting::None => return Ok(None),
        Setting::Own(own) => return Ok(Some(own)),
        Setting::Default => {}
    }
    let known = collection(&mut graph.collections().clone())
        .first()
        .cloned();
    if known.is_some() {
        return Ok(known);
    }
    let made = make(graph)?;
    if let Some(made) = &made {
        collection(graph.collections_mut()?).push(made.clone());
    }
    Ok(made)
}

impl Supervisor {
    /// A supervisor over a graph, which is finalized.
    pub fn new(mut graph: Graph, args: SupervisorOptions) -> Result<Supervisor, Error> {
        let g = &mut graph;
        let ready = |_: &Graph| Ok(Some(ReadyOp::report_uninitialized()));
        let ready_op = choose(g, args.ready_op, |all| &mut all.ready_op, ready)?;
        let ready_for_local_init_op = choose(
            g,
            args.ready_for_local_init_op,
            |all| &mut all.ready_for_local_init_op,
            |_| Ok(None),
        )?;
        let init = |_: &Graph| Ok(Some(InitOp::initializer()));
        let init_op = choose(g, args.init_op, |all| &mut all.init_op, init)?;
        let no_op = |_: &Graph| Ok(Some(InitOp::no_op()));
        let local_init_op = choose(g, args.local_init_op, |all| &mut all.local_init_op, no_op)?;
        let saver = |graph: &Graph| default_saver(graph).map(Some);
        let saver = choose(g, args.saver, |all| &mut all.savers, saver)?;
        let merged = |graph: &Graph| Ok(merge_all_summaries(graph, SUMMARIES));
        let summary_op = choose(g, args.summary_op, |all| &mut all.summary_op, merged)?;
        let found = get_global_step(g)?;
        let step = |_: &Graph| Ok(found);
        let global_step = choose(g, args.global_step, |all| &mut all.global_step, step)?;
        let logdir = args.logdir.filter(|_| args.is_chief);
        if let Some(folder) = &logdir {
            let made = create_dir_in(graph.storage(), folder, Durability::Synced);
            made.map_err(|e| {
                let message = format!("{} cannot be made: {e}", folder.display());
                Error::new(Code::PermissionDenied, message)
            })?;
        }
        let owns_writer = matches!(args.summary_writer, Setting::Default);
        let summary_writer = match (args.summary_writer, &logdir) {
            (Setting::Default, Some(folder)) => {
                let options = trainspec_formats::events::WriterOptions {
                    storage: graph.storage().clone(),
                    clock: graph.clock().clone(),
                    ..Default::default()
                };
                Some(Arc::new(SummaryWriter::open(folder, options)?))
            }
            (Setting::Own(writer), _) if args.is_chief => Some(writer),
            _ => None,
        };
        let session_manager = match args.session_manager {
            Some(manager) => manager,
            None => SessionManager::new(SessionManagerOptions {
                local_init_op: local_init_op.clone(),
                ready_op: ready_op.clone(),
                ready_for_local_init_op: ready_for_local_init_op.clone(),
                recovery_wait: args.recovery_wait,
                ..SessionManagerOptions::default()
            })?,
        };
        graph.finalize();
        let interval = |secs: f64| match args.is_chief && secs > 0.0 {
            true => Duration::try_from_secs_f64(secs).ok(),
            false => None,
        };
        Ok(Supervisor {
            coordinator: Coordinator::new(),
            is_chief: args.is_chief,
            ready_op,
            ready_for_local_init_op,
            init_op,
            init_feed_dict: args.init_feed_dict,
            local_init_op,
            init_fn: args.init_fn.map(InitFnField),
            summary_op,
            saver: saver.map(SaverField),
            global_step,
            save_path: logdir
                .as_ref()
                .map(|dir| dir.join(&args.checkpoint_basename)),
            logdir,
            save_summaries: interval(args.save_summaries_secs),
            save_model: interval(args.save_model_secs),
            stop_grace: args.stop_grace,
            summary_writer,
            owns_writer,
            session_manager,
            options: args.options,
            graph,
        })
    }

    /// A session that is ready: the chief restores or initializes it, a worker waits for it. Services start, unless switched off. A
    /// supervisor that was stopped can be used again.
    pub fn prepare_or_wait_for_session(
        &mut self,
        start_standard_services: bool,
        wait_for_checkpoint: bool,
        max_wait: Duration,
    ) -> Result<SharedSession, Error> {
        self.coordinator.clear_stop();
        if let Some(writer) = &self.summary_writer {
            writer.reopen()?;
        }
        restart_input(&self.graph);
        if !self.is_chief {
            let manager = &self.session_manager;
            let session = manager.wait_for_session(&self.graph, &self.options, Some(max_wait))?;
            if start_standard_services {
                self.start_queue_runners(None)?;
            }
            return Ok(SharedSession::new(session));
        }
        let prepare = Prepare {
            init_op: self.init_op.clone(),
            init_feed_dict: self.init_feed_dict.clone(),
            init_fn: self.init_fn.as_ref().map(|field| field.0.clone()),
            saver: self.saver(),
            checkpoint: self.logdir.clone().map(CheckpointSource::Folder),
            wait_for_checkpoint,
            max_wait,
        };
        let manager = &self.session_manager;
        let session = manager.prepare_session(&self.graph, &self.options, &prepare)?;
        let session = SharedSession::new(session);
        if start_standard_services {
            self.start_standard_services(&session)?;
            self.start_queue_runners(None)?;
        }
        Ok(session)
    }

    /// Starts queue runners under the coordinator of the services: those that are given, or all that the graph has collected, which a
    /// session starts by itself.
    pub fn start_queue_runners(
        &self,
        queue_runners: Option<&[QueueRunner]>,
    ) -> Result<Vec<RunnerThread>, Error> {
        let Some(runners) = queue_runners else {
            return start_queue_runners(&self.graph, Some(&self.coordinator), None);
        };
        let mut threads = Vec::new();
        for runner in runners {
            threads.extend(runner.create_threads(Some(&self.coordinator))?);
        }
        Ok(threads)
    }

    /// Starts the threads that write summaries, count steps and save, and gives them. Without a folder nothing starts. Only a chief may.
    pub fn start_standard_services(
        &mut self,
        session: &SharedSession,
    ) -> Result<Vec<LooperThread>, Error> {
        if !self.is_chief {
            let message = "only the chief starts the standard services";
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        if self.logdir.is_none() {
            return Ok(Vec::new());
        }
        if let (Some(step), Some(writer)) = (&self.global_step, &self.summary_writer) {
            let mut log = SessionLog::default();
            log.set_status(SessionStatus::Start);
            writer.add_session_log(log, global_step(&session.lock(), step)?)?;
        }
        services::start(self, session)
    }

    /// Calls a function at an interval on a thread of its own, until the supervisor stops.
    pub fn looping(
        &mut self,
        name: &str,
        interval: Option<Duration>,
        target: impl FnMut() -> Result<(), Error> + Send + 'static,
    ) -> Result<LooperThread, Error> {
        LooperThread::start(&self.coordinator, name, interval, target)
    }

    /// Stops the services and waits for them and for `threads`; gives the first error among them. The session stays open. A writer that the
    /// supervisor made is closed, after a last log entry.
    pub fn stop(&mut self, threads: Vec<Thread>) -> Result<(), Error> {
        let close_summary_writer = self.owns_writer;
        self.stop_with(threads, close_summary_writer, false)
    }

    /// As [`Supervisor::stop`], with whether the writer is closed, and whether threads that still run after the grace period are an error.
    pub fn stop_with(
        &mut self,
        threads: Vec<Thread>,
        close_summary_writer: bool,
        ignore_live_threads: bool,
    ) -> Result<(), Error> {
        self.coordinator.request_stop(None)?;
        let joined = self
            .coordinator
            .join_with(threads, self.stop_grace, ignore_live_threads);
        let closed = match &self.summary_writer {
            Some(writer) if close_summary_writer => {
                let mut log = SessionLog::default();
                log.set_status(SessionStatus::Stop);
                let logged = writer.add_session_log(log, 0);
                logged.and(writer.close()).map_err(Error::from)
            }
            _ => Ok(()),
        };
        joined.and(closed)
    }

    /// Requests a stop, with the error that made it.
    pub fn request_stop(&self, error: Option<Error>) -> Result<(), Error> {
        self.coordinator.request_stop(error)
    }

    /// Whether a stop was requested.
    pub fn should_stop(&self) -> bool {
        self.coordinator.should_stop()
    }

    /// Runs a function; its error requests a stop (`stop_on_exception`).
    pub fn stop_on_error(&self, function: impl FnOnce() -> Result<(), Error>) {
        self.coordinator.stop_on_error(function);
    }

    /// Waits until a stop is requested.
    pub fn wait_for_stop(&self) {
        self.coordinator.wait_for_stop(None);
    }

    /// Writes a summary that the program computed, under a step, or the one that the session has.
    pub fn summary_computed(
        &self,
        session: &SharedSession,
        summary: Summary,
        step: Option<i64>,
    ) -> Result<(), Error> {
        let Some(writer) = &self.summary_writer else {
            let message = "a summary can be written only with a summary writer: give a `logdir`";
            return Err(Error::new(Code::FailedPrecondition, message));
        };
        let step = match (step, &self.global_step) {
            (Some(step), _) => step,
            (None, Some(name)) => global_step(&session.lock(), name)?,
            (None, None) => 0,
        };
        Ok(writer.add_summary(summary, step)?)
    }

    /// Runs a function with a session. Its error and those of services are given back when all threads have stopped; the end of the input
    /// is none.
    pub fn managed_session(
        &mut self,
        body: impl FnOnce(&Supervisor, &SharedSession) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.prepare_or_wait_for_session(true, false, MAX_WAIT) {
            Ok(session) => {
                if let Err(error) = body(self, &session) {
                    self.request_stop(Some(error))?;
                }
            }
            Err(error) => self.request_stop(Some(error))?,
        }
        self.stop(Vec::new())
    }

    /// Whether this process initializes, saves and writes summaries.
    pub fn is_chief(&self) -> bool {
        self.is_chief
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The coordinator of the services.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// The manager of the sessions.
    pub fn session_manager(&self) -> &SessionManager {
        &self.session_manager
    }

    /// Says whether a session is ready.
    pub fn ready_op(&self) -> Option<&ReadyOp> {
        self.ready_op.as_ref()
    }

    /// Says whether a session is ready for `local_init_op`.
    pub fn ready_for_local_init_op(&self) -> Option<&ReadyOp> {
        self.ready_for_local_init_op.as_ref()
    }

    /// Initializes variables where there is no checkpoint.
    pub fn init_op(&self) -> Option<&InitOp> {
        self.init_op.as_ref()
    }

    /// Runs after initialization and after a restore.
    pub fn local_init_op(&self) -> Option<&InitOp> {
        self.local_init_op.as_ref()
    }

    /// The summaries that are written.
    pub fn summary_op(&self) -> Option<&SummaryOp> {
        self.summary_op.as_ref()
    }

    /// Saves and restores.
    pub fn saver(&self) -> Option<SharedSaver> {
        self.saver.as_ref().map(|field| field.0.clone())
    }

    /// The name of the step variable.
    pub fn global_step(&self) -> Option<&str> {
        self.global_step.as_deref()
    }

    /// The folder of checkpoints and event files; `None` where this process is not the chief.
    pub fn logdir(&self) -> Option<&Path> {
        self.logdir.as_deref()
    }

    /// The prefix of checkpoints.
    pub fn save_path(&self) -> Option<&Path> {
        self.save_path.as_deref()
    }

    /// The writer of event files.
    pub fn summary_writer(&self) -> Option<&Arc<SummaryWriter>> {
        self.summary_writer.as_ref()
    }

    /// The time between two summaries; `None` where they are switched off.
    pub fn save_summaries_interval(&self) -> Option<Duration> {
        self.save_summaries
    }

    /// The time between two checkpoints; `None` where they are switched off.
    pub fn save_model_interval(&self) -> Option<Duration> {
        self.save_model
    }
}
