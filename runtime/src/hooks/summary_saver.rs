//! `SummarySaverHook` (`tf.train.SummarySaverHook`): a summary operation into event files, at an interval.

use std::path::PathBuf;
use std::sync::Arc;

use trainspec_formats::events::SummaryWriter;
use trainspec_formats::proto::SessionLog;
use trainspec_formats::proto::session_log::SessionStatus;

use crate::coordinator::Coordinator;
use crate::hooks::{
    Every, SecondOrStepTimer, SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues,
};
use crate::monitored::Scaffold;
use crate::session::Session;
use crate::summary::SummaryOp;
use crate::{Code, Error, Graph};

/// What is written.
#[derive(Debug, Clone)]
enum Source {
    Op(SummaryOp),
    Scaffold(Scaffold),
}

/// Where it is written to.
#[derive(Debug, Clone)]
enum Output {
    Folder(PathBuf),
    Writer(Arc<SummaryWriter>),
}

/// Writes summaries at the first run, and then at an interval, under the step after the run.
///
/// ```
/// use trainspec::hooks::{Every, SummarySaverHook};
/// use trainspec::monitored::Scaffold;
///
/// let scaffold = Scaffold::new();
/// let hook = SummarySaverHook::new(Every::Steps(100), "runs/digits", None, Some(scaffold.clone()))?;
/// # let _ = hook;
/// assert!(SummarySaverHook::new(Every::Steps(100), "runs/digits", None, None).is_err());
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug)]
pub struct SummarySaverHook {
    every: Every,
    source: Source,
    output: Output,
    timer: Option<SecondOrStepTimer>,
    /// The operation, once the scaffold is finalized; a graph without summaries has none.
    op: Option<SummaryOp>,
    /// The step after the run before.
    next_step: Option<u64>,
    requested: bool,
}

impl SummarySaverHook {
    /// Writes to the event file of a folder the summary of an operation, or of a scaffold: exactly one of them is given.
    pub fn new(
        every: Every,
        output_dir: impl Into<PathBuf>,
        summary_op: Option<SummaryOp>,
        scaffold: Option<Scaffold>,
    ) -> Result<SummarySaverHook, Error> {
        SummarySaverHook::to(
            every,
            Output::Folder(output_dir.into()),
            summary_op,
            scaffold,
        )
    }

    /// As [`SummarySaverHook::new`], with a writer.
    pub fn with_writer(
        every: Every,
        writer: Arc<SummaryWriter>,
        summary_op: Option<SummaryOp>,
        scaffold: Option<Scaffold>,
    ) -> Result<SummarySaverHook, Error> {
        SummarySaverHook::to(every, Output::Writer(writer), summary_op, scaffold)
    }

    fn to(
        every: Every,
        output: Output,
        summary_op: Option<SummaryOp>,
        scaffold: Option<Scaffold>,
    ) -> Result<SummarySaverHook, Error> {
        let source = match (summary_op, scaffold) {
            (Some(op), None) => Source::Op(op),
            (None, Some(scaffold)) => Source::Scaffold(scaffold),
            _ => {
                let message = "exactly one of scaffold or summary_op must be provided";
                return Err(Error::new(Code::InvalidArgument, message));
            }
        };
        Ok(SummarySaverHook {
            every,
            source,
            output,
            timer: None,
            op: None,
            next_step: None,
            requested: false,
        })
    }

    fn writer(&self) -> Option<&Arc<SummaryWriter>> {
        match &self.output {
            Output::Writer(writer) => Some(writer),
            Output::Folder(_) => None,
        }
    }
}

impl SessionRunHook for SummarySaverHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        if let Output::Folder(folder) = &self.output {
            self.output = Output::Writer(graph.summary_writers().get(folder)?);
        }
        // A scaffold takes its summaries from the collection later; what they fetch is known here.
        let known = match &self.source {
            Source::Op(op) => Some(op.clone()),
            Source::Scaffold(scaffold) => scaffold
                .summary_op()
                .or_else(|| crate::summary::merge_all_summaries(graph, crate::graph::SUMMARIES)),
        };
        if let Some(op) = known {
            graph.declare(&op.targets())?;
        }
        self.timer = Some(SecondOrStepTimer::new(self.every, graph.clock().clone()));
        self.next_step = None;
        Ok(())
    }

    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        self.op = match &self.source {
            Source::Op(op) => Some(op.clone()),
            Source::Scaffold(scaffold) => scaffold.summary_op(),
        };
        Ok(())
    }

    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let timer = self.timer.as_ref();
        let triggers = |step| timer.is_some_and(|timer| timer.should_trigger_for_step(step));
        self.requested = self.next_step.is_none_or(triggers);
        let op = self.op.as_ref().filter(|_| self.requested);
        Ok(op.map(|op| SessionRunArgs::fetch(op.targets())))
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let step = context.session.global_step();
        let is_first = self.next_step.is_none();
        self.next_step = Some(step + 1);
        let Some(writer) = self.writer().cloned() else {
            return Ok(());
        };
        if is_first {
            let mut log = SessionLog::default();
            log.set_status(SessionStatus::Start);
            writer.add_session_log(log, step as i64)?;
        }
        if self.requested {
            if let Some(timer) = &mut self.timer {
                timer.update_last_triggered_step(step);
            }
            if let Some(op) = &self.op {
                let summary = op.evaluate(&values.tensors())?;
                writer.add_summary(summary, step as i64)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        match self.writer() {
            Some(writer) => Ok(writer.flush()?),
            None => Ok(()),
        }
    }
}
