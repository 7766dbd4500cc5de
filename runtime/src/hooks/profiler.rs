//! `ProfilerHook` (`tf.train.ProfilerHook`): traces of runs as `timeline-STEP.json`, and in event files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trainspec_formats::FileKind;
use trainspec_formats::events::SummaryWriter;
use trainspec_formats::files::{Durability, replace_in};

use crate::env::Storage;
use crate::hooks::{
    Every, SecondOrStepTimer, SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues,
};
use crate::saver::SharedClock;
use crate::session::{RunMetadata, RunOptions, Session, Timeline, TraceLevel, run_metadata};
use crate::train::get_global_step;
use crate::{Code, Error, Graph};

/// Traces a run at an interval, never the first: every kernel with start, end and thread. The schedule is that of a run without a trace.
///
/// `timeline-STEP.json` in the folder is in Chrome's trace event format; the event file holds the metadata of the run under `step_STEP`.
///
/// ```
/// use trainspec::hooks::{Every, ProfilerHook};
/// use trainspec::session::Timeline;
///
/// let hook = ProfilerHook::new(Every::Steps(1000), "runs/digits")
///     .with_timeline(Timeline { show_dataflow: true, show_memory: true });
/// # let _ = hook;
/// ```
pub struct ProfilerHook {
    every: Every,
    output_dir: PathBuf,
    timeline: Timeline,
    opened: Option<Opened>,
    /// The step of the next run; `None` before the first.
    next_step: Option<u64>,
    /// The step before the run, and when it began, since the epoch.
    before: (u64, Duration),
    requested: bool,
}

/// What it uses from the first session on.
struct Opened {
    timer: SecondOrStepTimer,
    writer: Arc<SummaryWriter>,
    storage: Arc<dyn Storage>,
    clock: SharedClock,
}

impl ProfilerHook {
    /// Writes to a folder.
    pub fn new(every: Every, output_dir: impl Into<PathBuf>) -> ProfilerHook {
        ProfilerHook {
            every,
            output_dir: output_dir.into(),
            timeline: Timeline::default(),
            opened: None,
            next_step: None,
            before: (0, Duration::ZERO),
            requested: false,
        }
    }

    /// What is shown besides kernels (`show_dataflow`, `show_memory`).
    pub fn with_timeline(mut self, timeline: Timeline) -> ProfilerHook {
        self.timeline = timeline;
        self
    }
}

impl std::fmt::Debug for ProfilerHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfilerHook")
            .field("every", &self.every)
            .field("output_dir", &self.output_dir)
            .field("timeline", &self.timeline)
            .finish_non_exhaustive()
    }
}

impl SessionRunHook for ProfilerHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        if get_global_step(graph)?.is_none() {
            let message = "there is no global step to name traces after";
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        self.opened = Some(Opened {
            timer: SecondOrStepTimer::new(self.every, graph.clock().clone()),
            writer: graph.summary_writers().get(&self.output_dir)?,
            storage: graph.storage().clone(),
            clock: graph.clock().clone(),
        });
        self.next_step = None;
        Ok(())
    }

    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let Some(opened) = &self.opened else {
            return Ok(None);
        };
        let next = self.next_step;
        self.requested = next.is_some_and(|next| opened.timer.should_trigger_for_step(next));
        self.before = (context.session.global_step(), since_epoch(&opened.clock));
        Ok(self.requested.then(full_trace))
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        let (before, began) = self.before;
        if self.next_step.is_none() {
            // The interval begins with the first run.
            opened.timer.update_last_triggered_step(before);
        }
        let mut step = before + 1;
        if let (true, Some(metadata)) = (self.requested, &values.run_metadata) {
            step = context.session.global_step();
            opened.timer.update_last_triggered_step(step);
            write_timeline(
                &opened.storage,
                &self.output_dir,
                step,
                &self.timeline,
                metadata,
            )?;
            let message = run_metadata(metadata, began);
            let tag = format!("step_{step}");
            opened
                .writer
                .add_run_metadata(&message, &tag, step as i64)?;
        }
        self.next_step = Some(step + 1);
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        match &self.opened {
            Some(opened) => Ok(opened.writer.flush()?),
            None => Ok(()),
        }
    }
}

/// The time since the epoch.
pub(crate) fn since_epoch(clock: &SharedClock) -> Duration {
    Duration::try_from_secs_f64(clock.unix_seconds()).unwrap_or_default()
}

/// Asks for a trace of the run.
pub(crate) fn full_trace() -> SessionRunArgs {
    SessionRunArgs {
        options: RunOptions {
            trace_level: TraceLevel::FullTrace,
            ..RunOptions::default()
        },
        ..SessionRunArgs::default()
    }
}

/// Writes `timeline-STEP.json` into a folder, which is created where it is missing.
pub(crate) fn write_timeline(
    storage: &Arc<dyn Storage>,
    folder: &Path,
    step: u64,
    timeline: &Timeline,
    metadata: &RunMetadata,
) -> Result<(), Error> {
    let path = folder.join(format!("timeline-{step}.json"));
    let text = timeline.chrome_trace(metadata);
    let created = storage.create_dir_all(folder);
    created.map_err(|e| {
        trainspec_formats::FormatError::io(FileKind::Other, "create it", e).in_file(folder)
    })?;
    let durability = Durability::Unsynced;
    Ok(replace_in(
        storage,
        FileKind::Other,
        &path,
        text.as_bytes(),
        durability,
    )?)
}
