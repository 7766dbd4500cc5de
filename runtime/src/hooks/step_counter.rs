//! `StepCounterHook` (`tf.train.StepCounterHook`): steps per second into event files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trainspec_formats::events::{SummaryWriter, summary};

use crate::hooks::{
    Every, LogSink, SecondOrStepTimer, SessionRunContext, SessionRunHook, SessionRunValues,
};
use crate::session::Session;
use crate::train::get_global_step;
use crate::{Code, Error, Graph};

/// The interval where none is given.
const DEFAULT_INTERVAL: Every = Every::Steps(100);

/// The runs without a step after which a warning is given.
const RUNS_WITHOUT_PROGRESS: u32 = 20;

/// Where steps per second are written to.
#[derive(Debug, Clone)]
enum Output {
    Nowhere,
    Folder(PathBuf),
    Writer(Arc<SummaryWriter>),
}

/// Writes steps per second, under the name of the step variable and `/sec`. The first trigger only starts the measurement.
///
/// ```
/// use trainspec::hooks::{Every, StepCounterHook};
///
/// let hook = StepCounterHook::new("runs/digits").every(Every::Steps(10));
/// # let _ = hook;
/// ```
pub struct StepCounterHook {
    every: Every,
    output: Output,
    timer: Option<SecondOrStepTimer>,
    tag: String,
    last_step: Option<u64>,
    stalled: u32,
    warn: Option<LogSink>,
}

impl StepCounterHook {
    /// Writes to the event file of a folder, every 100 steps.
    pub fn new(output_dir: impl Into<PathBuf>) -> StepCounterHook {
        StepCounterHook::to(Output::Folder(output_dir.into()))
    }

    /// Writes with a writer.
    pub fn with_writer(writer: Arc<SummaryWriter>) -> StepCounterHook {
        StepCounterHook::to(Output::Writer(writer))
    }

    /// Writes no file; [`StepCounterHook::on_warning`] still hears of runs without progress.
    pub fn without_output() -> StepCounterHook {
        StepCounterHook::to(Output::Nowhere)
    }

    fn to(output: Output) -> StepCounterHook {
        StepCounterHook {
            every: DEFAULT_INTERVAL,
            output,
            timer: None,
            tag: String::new(),
            last_step: None,
            stalled: 0,
            warn: None,
        }
    }

    /// Another interval.
    pub fn every(mut self, every: Every) -> StepCounterHook {
        self.every = every;
        self
    }

    /// Receives the warning that runs do not increase the global step.
    pub fn on_warning(mut self, warn: impl FnMut(&str) + Send + 'static) -> StepCounterHook {
        self.warn = Some(Box::new(warn));
        self
    }

    fn write(&mut self, elapsed: Duration, steps: u64, step: u64) -> Result<(), Error> {
        let rate = steps as f64 / elapsed.as_secs_f64();
        if let Output::Writer(writer) = &self.output
            && rate.is_finite()
        {
            let summary = summary::scalar(&self.tag, rate as f32);
            writer.add_summary(summary, step as i64)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for StepCounterHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepCounterHook")
            .field("every", &self.every)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl SessionRunHook for StepCounterHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        if let Output::Folder(folder) = &self.output {
            self.output = Output::Writer(graph.summary_writers().get(folder)?);
        }
        let Some(step) = get_global_step(graph)? else {
            let message = "there is no global step to count";
            return Err(Error::new(Code::FailedPrecondition, message));
        };
        self.tag = format!("{step}/sec");
        self.timer = Some(SecondOrStepTimer::new(self.every, graph.clock().clone()));
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let step = context.session.global_step();
        let timer = self.timer.as_mut();
        let triggered = timer.filter(|timer| timer.should_trigger_for_step(step));
        let elapsed = triggered.and_then(|timer| timer.update_last_triggered_step(step));
        if let Some((time, steps)) = elapsed {
            self.write(time, steps, step)?;
        }
        match self.last_step.replace(step) == Some(step) {
            false => self.stalled = 0,
            true => self.stalled += 1,
        }
        if self.stalled == RUNS_WITHOUT_PROGRESS {
            self.stalled = 0;
            if let Some(warn) = &mut self.warn {
                warn(&format!(
                    "the global step ({step}) did not increase in {RUNS_WITHOUT_PROGRESS} runs: do they fetch `train_op`?"
                ));
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        match &self.output {
            Output::Writer(writer) => Ok(writer.flush()?),
            Output::Nowhere | Output::Folder(_) => Ok(()),
        }
    }
}
