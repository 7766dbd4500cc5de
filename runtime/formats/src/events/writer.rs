//! The asynchronous writer of event files (`FileWriter`, `EventLoggerThread`): callers enqueue events, a thread writes them.
//!
//! In: events. Out: a file that always ends in a complete record, or in a truncated one if the process is killed, which readers
//! take as "not yet". Enqueueing blocks only when the queue is full. A failure in the thread is returned by the next
//! call, and by every one after it until the writer is reopened.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prost::Message;

use crate::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use crate::clock::{Clock, SystemClock};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::events::file::{EventFile, Naming};
use crate::proto::event::What;
use crate::proto::{
    Event, GraphDef, MetaGraphDef, RunMetadata, SessionLog, Summary, TaggedRunMetadata,
};
use crate::storage::{self, Storage};

/// The options of a writer.
#[derive(Clone)]
pub struct WriterOptions {
    /// The capacity of the queue; 0 is unbounded.
    pub max_queue: usize,
    /// The flush interval (`flush_secs`). The first event is flushed at once.
    pub flush_every: Duration,
    /// The suffix of the file's name.
    pub filename_suffix: String,
    /// The host name in the file's name; `None` for this machine's.
    pub host: Option<String>,
    /// The clock of the events' times.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// The storage of the folder.
    pub storage: Arc<dyn Storage>,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            max_queue: 10,
            flush_every: Duration::from_secs(120),
            filename_suffix: String::new(),
            host: None,
            clock: Arc::new(SystemClock::default()),
            storage: storage::local(),
        }
    }
}

impl fmt::Debug for WriterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterOptions")
            .field("max_queue", &self.max_queue)
            .field("flush_every", &self.flush_every)
            .field("filename_suffix", &self.filename_suffix)
            .field("host", &self.host)
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}

/// A writer of events into a folder (`tf.compat.v1.summary.FileWriter`).
///
/// Several threads may use it at once. Dropping it writes the queued events, but only [`close`](SummaryWriter::close) returns
/// errors.
#[derive(Debug)]
pub struct SummaryWriter {
    /// The path as it was given.
    folder: PathBuf,
    naming: Naming,
    options: WriterOptions,
    shared: Arc<Shared>,
    /// State of the callers alone; locked before the state that is shared with the thread.
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    thread: Option<JoinHandle<()>>,
    run_tags: BTreeSet<String>,
}

/// State shared by the callers and the thread.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals the thread: events, a flush or the close.
    work: Condvar,
    /// Signals the callers: progress of the thread.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<QueuedEvent>,
    path: PathBuf,
    /// The number of times the writer was opened: a caller that waits for one thread does not wait for the next.
    generation: u64,
    /// The numbers of requested and of completed flushes.
    flushes_requested: u64,
    flushes_done: u64,
    closing: bool,
    /// The thread accepts events.
    open: bool,
    failure: Option<FormatError>,
    /// The failure before the writer was reopened.
    earlier: Option<FormatError>,
}

/// An event in the queue.
#[derive(Debug)]
struct QueuedEvent {
    event: Event,
    /// Its metadata are dropped for tags whose metadata are written.
    shorten: bool,
}

impl SummaryWriter {
    /// Creates a new file in a folder, which is created if it does not exist.
    pub fn open(folder: impl Into<PathBuf>, options: WriterOptions) -> Result<SummaryWriter> {
        let folder = folder.into();
        let naming = Naming {
            storage: Arc::clone(&options.storage),
            // An absolute path: the process may change its working folder.
            folder: std::path::absolute(&folder).map_err(|e| {
                FormatError::io(FileKind::Events, "find the folder", e).in_file(&folder)
            })?,
            host: options.host.clone().unwrap_or_else(storage::host_name),
            suffix: options.filename_suffix.clone(),
        };
        for part in [&naming.host, &naming.suffix] {
            if part.contains(['/', '\\', '\0']) {
                let cause = format!("`{part}` cannot be a part of the name of a file");
                return Err(FormatError::invalid(FileKind::Events, cause).in_file(&naming.folder));
            }
        }
        let writer = SummaryWriter {
            folder,
            naming,
            options,
            shared: Arc::default(),
            callers: Mutex::default(),
        };
        writer.start(&mut lock(&writer.callers))?;
        Ok(writer)
    }

    /// The folder that files are put in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The current file, or the last one.
    pub fn path(&self) -> PathBuf {
        lock(&self.shared.state).path.clone()
    }

    /// Adds the values of a step. Metadata are dropped for tags that had a value before, as TensorFlow does.
    pub fn add_summary(&self, summary: Summary, step: i64) -> Result<()> {
        self.enqueue(QueuedEvent {
            event: self.event(What::Summary(summary), step),
            shorten: true,
        })
    }

    /// Adds the values of a step from a serialized message.
    pub fn add_serialized_summary(&self, summary: &[u8], step: i64) -> Result<()> {
        self.add_summary(
            decode(FileKind::Events, summary, DEFAULT_MEMORY_LIMIT)?,
            step,
        )
    }

    /// Adds an event as it is, with its own time.
    pub fn add_event(&self, event: Event) -> Result<()> {
        self.enqueue(QueuedEvent {
            event,
            shorten: false,
        })
    }

    fn enqueue(&self, queued: QueuedEvent) -> Result<()> {
        let mut state = lock(&self.shared.state);
        loop {
            self.check(&state)?;
            let full = self.options.max_queue > 0 && state.queue.len() >= self.options.max_queue;
            if !full {
                break;
            }
            state = wait(&self.shared.done, state);
        }
        state.queue.push_back(queued);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Adds a graph.
    pub fn add_graph(&self, graph: &GraphDef, step: i64) -> Result<()> {
        self.add(What::GraphDef(graph.encode_to_vec()), step)
    }

    /// Adds a `MetaGraphDef`.
    pub fn add_meta_graph(&self, graph: &MetaGraphDef, step: i64) -> Result<()> {
        self.add(What::MetaGraphDef(graph.encode_to_vec()), step)
    }

    /// Adds the `RunMetadata` of a run, under a tag that was not used before.
    pub fn add_run_metadata(&self, run: &RunMetadata, tag: &str, step: i64) -> Result<()> {
        let mut callers = lock(&self.callers);
        if callers.run_tags.contains(tag) {
            let cause = format!("the tag `{tag}` was used for another run");
            return Err(FormatError::invalid(FileKind::Events, cause).in_file(self.path()));
        }
        let tagged = TaggedRunMetadata {
            tag: tag.to_owned(),
            run_metadata: run.encode_to_vec(),
        };
        self.add(What::TaggedRunMetadata(tagged), step)?;
        callers.run_tags.insert(tag.to_owned());
        Ok(())
    }

    /// Adds a session log.
    pub fn add_session_log(&self, log: SessionLog, step: i64) -> Result<()> {
        self.add(What::SessionLog(log), step)
    }

    /// Waits until all that was added is in the file.
    pub fn flush(&self) -> Result<()> {
        let mut state = lock(&self.shared.state);
        state.flushes_requested += 1;
        let (mine, generation) = (state.flushes_requested, state.generation);
        self.shared.work.notify_one();
        while state.open && state.generation == generation && state.flushes_done < mine {
            state = wait(&self.shared.done, state);
        }
        outcome(&state, generation)
    }

    /// Waits until all that was added is in the file, and closes it. Closing twice has no effect.
    pub fn close(&self) -> Result<()> {
        let mut state = lock(&self.shared.state);
        state.closing = true;
        let generation = state.generation;
        self.shared.work.notify_one();
        while state.open && state.generation == generation {
            state = wait(&self.shared.done, state);
        }
        drop(state);
        let mut callers = lock(&self.callers);
        let state = lock(&self.shared.state);
        if state.generation == generation {
            // A thread that panicked has recorded a failure; one that ended does not use the state.
            let _ = callers.thread.take().map(JoinHandle::join);
        }
        outcome(&state, generation)
    }

    /// Continues in a new file after the writer was closed or has failed; otherwise it has no effect.
    pub fn reopen(&self) -> Result<()> {
        let mut callers = lock(&self.callers);
        let mut state = lock(&self.shared.state);
        if state.open && !state.closing && state.failure.is_none() {
            return Ok(());
        }
        while state.open {
            state = wait(&self.shared.done, state);
        }
        drop(state);
        let _ = callers.thread.take().map(JoinHandle::join);
        self.start(&mut callers)
    }

    fn add(&self, what: What, step: i64) -> Result<()> {
        self.add_event(self.event(what, step))
    }

    fn event(&self, what: What, step: i64) -> Event {
        Event {
            wall_time: self.options.clock.unix_seconds(),
            step,
            what: Some(what),
            source_metadata: None,
        }
    }

    /// Whether events are accepted.
    fn check(&self, state: &State) -> Result<()> {
        outcome(state, state.generation)?;
        if state.open && !state.closing {
            return Ok(());
        }
        let cause = "the writer is closed";
        let error = FormatError::new(Code::FailedPrecondition, FileKind::Events, cause);
        Err(error.in_file(&state.path))
    }

    fn start(&self, callers: &mut Callers) -> Result<()> {
        let mut state = lock(&self.shared.state);
        let previous = Some(&*state.path).filter(|path| !path.as_os_str().is_empty());
        let file = EventFile::create(
            self.naming.clone(),
            self.options.clock.unix_seconds(),
            previous,
        )?;
        *state = State {
            path: file.path().to_owned(),
            open: true,
            generation: state.generation + 1,
            earlier: state.failure.take(),
            ..Default::default()
        };
        drop(state);
        let shared = Arc::clone(&self.shared);
        let clock = self.options.clock.clone();
        let flush_every = self.options.flush_every;
        let thread = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || {
                // However the thread ends, callers are notified.
                let _last = ThreadEndGuard(&shared);
                run(&shared, file, &*clock, flush_every);
            });
        match thread {
            Ok(thread) => callers.thread = Some(thread),
            Err(e) => {
                lock(&self.shared.state).open = false;
                let error = FormatError::io(FileKind::Events, "start a thread", e);
                return Err(error.in_file(self.path()));
            }
        }
        Ok(())
    }
}

impl Drop for SummaryWriter {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// A drop guard that marks the end of the thread, also after a panic.
struct ThreadEndGuard<'a>(&'a Shared);

impl Drop for ThreadEndGuard<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.open = false;
        if std::thread::panicking() && state.failure.is_none() {
            let cause = "the thread that writes events has ended";
            state.failure = Some(FormatError::new(Code::Internal, FileKind::Events, cause));
        }
        self.0.done.notify_all();
    }
}

/// The thread's loop: takes all queued events, writes them, and flushes when that is requested or the interval has passed.
fn run(shared: &Shared, mut file: EventFile, clock: &dyn Clock, flush_every: Duration) {
    // The first events are flushed at once.
    let mut due = Instant::now();
    let mut state = lock(&shared.state);
    loop {
        while state.queue.is_empty()
            && state.flushes_done == state.flushes_requested
            && !state.closing
        {
            let now = Instant::now();
            state = match (file.is_flushed(), due.checked_duration_since(now)) {
                (true, _) => wait(&shared.work, state),
                (false, Some(left)) if !left.is_zero() => {
                    let waited = shared.work.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                (false, _) => break,
            };
        }
        let events = std::mem::take(&mut state.queue);
        let flushes_requested = state.flushes_requested;
        let requested = flushes_requested != state.flushes_done || state.closing;
        let closing = state.closing;
        shared.done.notify_all();
        drop(state);

        let is_due = Instant::now() >= due;
        let flush = requested || is_due;
        let any = !events.is_empty();
        let written = events
            .into_iter()
            .try_for_each(|mut queued| {
                if let Some(What::Summary(summary)) = &mut queued.event.what
                    && queued.shorten
                {
                    file.drop_known(summary);
                }
                file.append(&queued.event, clock)
            })
            .and_then(|()| match flush {
                true => file.flush(clock),
                false => Ok(()),
            });
        if is_due && any {
            due = Instant::now()
                .checked_add(flush_every)
                .unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        }

        state = lock(&shared.state);
        if state.path != file.path() {
            state.path = file.path().to_owned();
        }
        state.flushes_done = flushes_requested;
        state.failure = written.err();
        shared.done.notify_all();
        if state.failure.is_some() || closing && state.queue.is_empty() {
            return;
        }
    }
}

/// The outcome of a generation of the writer so far.
fn outcome(state: &State, generation: u64) -> Result<()> {
    let failure = match state.generation == generation {
        true => &state.failure,
        false => &state.earlier,
    };
    match failure {
        Some(failure) => Err(copy_of(failure)),
        None => Ok(()),
    }
}

/// A copy of a failure.
fn copy_of(failure: &FormatError) -> FormatError {
    let cause = match &failure.source {
        Some(source) => format!("{}: {source}", failure.cause),
        None => failure.cause.clone(),
    };
    FormatError {
        path: failure.path.clone(),
        offset: failure.offset,
        ..FormatError::new(failure.code, failure.kind, cause)
    }
}

/// Locks a mutex even if it is poisoned: the guarded state is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}
