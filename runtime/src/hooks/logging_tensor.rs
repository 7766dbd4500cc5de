//! `LoggingTensorHook` (`tf.train.LoggingTensorHook`): values at an interval of *local* runs, or at the end, as text.

use std::fmt;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;

use crate::hooks::{
    Every, SecondOrStepTimer, SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues,
};
use crate::session::{Session, Target};
use crate::{Code, Error, Graph};

/// Makes the text of logged values.
///
/// ```
/// use std::sync::Arc;
/// use trainspec::Tensor;
/// use trainspec::hooks::Formatter;
///
/// let formatter: Formatter = Arc::new(|values: &[(String, Tensor)]| {
///     values.iter().map(|(tag, value)| format!("{tag}: {:.2}", value.to_f64s()[0])).collect()
/// });
/// assert_eq!(formatter(&[("loss".to_owned(), Tensor::scalar(0.125_f32))]), "loss: 0.12");
/// ```
pub type Formatter = Arc<dyn Fn(&[(String, Tensor)]) -> String + Send + Sync>;

/// Receives a line of a log.
///
/// ```
/// use trainspec::hooks::LogSink;
///
/// let mut sink: LogSink = Box::new(|line: &str| println!("{line}"));
/// sink("step 100");
/// ```
pub type LogSink = Box<dyn FnMut(&str) + Send>;

/// Logs values, by the names of their fetches, each under a tag.
///
/// ```
/// use trainspec::hooks::LoggingTensorHook;
///
/// let hook = LoggingTensorHook::new(["loss", "accuracy"], |line: &str| println!("{line}"))
///     .every_n_iter(100)?
///     .at_end();
/// # let _ = hook;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct LoggingTensorHook {
    tensors: Vec<(String, String)>,
    targets: Vec<Target>,
    every: Option<Every>,
    at_end: bool,
    formatter: Option<Formatter>,
    sink: LogSink,
    timer: Option<SecondOrStepTimer>,
    /// Runs so far, also those before a recovery.
    iterations: u64,
    triggered: bool,
    /// The values of the last run, where they are logged at the end.
    last: Vec<Option<Tensor>>,
}

impl LoggingTensorHook {
    /// Logs fetches in the order given, each under its own name. At least one of [`every_n_iter`](Self::every_n_iter),
    /// [`every_n_secs`](Self::every_n_secs) and [`at_end`](Self::at_end) must follow.
    pub fn new<'n>(
        tensors: impl IntoIterator<Item = &'n str>,
        sink: impl FnMut(&str) + Send + 'static,
    ) -> LoggingTensorHook {
        let tensors = tensors.into_iter();
        let tagged = tensors.map(|name| (name.to_owned(), name.to_owned()));
        LoggingTensorHook::of(tagged.collect(), Box::new(sink))
    }

    /// Logs fetches under tags, in the order of the tags.
    pub fn tagged<'n>(
        tensors: impl IntoIterator<Item = (&'n str, &'n str)>,
        sink: impl FnMut(&str) + Send + 'static,
    ) -> LoggingTensorHook {
        let tensors = tensors.into_iter();
        let mut tagged: Vec<(String, String)> = tensors
            .map(|(tag, name)| (tag.to_owned(), name.to_owned()))
            .collect();
        tagged.sort();
        LoggingTensorHook::of(tagged, Box::new(sink))
    }

    fn of(tensors: Vec<(String, String)>, sink: LogSink) -> LoggingTensorHook {
        LoggingTensorHook {
            tensors,
            targets: Vec::new(),
            every: None,
            at_end: false,
            formatter: None,
            sink,
            timer: None,
            iterations: 0,
            triggered: false,
            last: Vec::new(),
        }
    }

    /// Logs at the first run, and then every `n` runs. Where an interval is set already, or `n` is 0, it is an error.
    pub fn every_n_iter(self, n: u64) -> Result<LoggingTensorHook, Error> {
        if n == 0 {
            return Err(invalid("every_n_iter is 0, and must be at least 1"));
        }
        self.every(Every::Steps(n))
    }

    /// Logs at the first run, and then every N seconds. Where an interval is set already it is an error.
    pub fn every_n_secs(self, secs: f64) -> Result<LoggingTensorHook, Error> {
        self.every(Every::Secs(secs))
    }

    fn every(mut self, every: Every) -> Result<LoggingTensorHook, Error> {
        match self.every.replace(every) {
            None => Ok(self),
            Some(_) => Err(missing_interval()),
        }
    }

    /// Logs at the end, too: variables as they are then, other values of the last run. No input is consumed for it; instead every run fetches
    /// the values.
    pub fn at_end(mut self) -> LoggingTensorHook {
        self.at_end = true;
        self
    }

    /// Another text than `a = 1, b = 2 (0.123 sec)`.
    pub fn formatter(
        mut self,
        formatter: impl Fn(&[(String, Tensor)]) -> String + Send + Sync + 'static,
    ) -> LoggingTensorHook {
        self.formatter = Some(Arc::new(formatter));
        self
    }

    /// Logs the values that there are, and the time since the last ones.
    fn log(&mut self, values: &[Option<Tensor>]) {
        let timer = self.timer.as_mut();
        let last = timer.and_then(|timer| timer.update_last_triggered_step(self.iterations));
        let elapsed = last.map(|(time, _)| time);
        let tags = self.tensors.iter().map(|(tag, _)| tag.clone());
        let values: Vec<(String, Tensor)> = tags
            .zip(values)
            .filter_map(|(tag, value)| Some((tag, value.clone()?)))
            .collect();
        let text = match &self.formatter {
            Some(formatter) => formatter(&values),
            None => {
                let stats = values.iter().map(|(tag, value)| format!("{tag} = {value}"));
                let stats = stats.collect::<Vec<_>>().join(", ");
                match elapsed {
                    Some(time) => format!("{stats} ({:.3} sec)", time.as_secs_f64()),
                    None => stats,
                }
            }
        };
        (self.sink)(&text);
    }
}

impl fmt::Debug for LoggingTensorHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggingTensorHook")
            .field("tensors", &self.tensors)
            .field("every", &self.every)
            .field("at_end", &self.at_end)
            .finish_non_exhaustive()
    }
}

impl SessionRunHook for LoggingTensorHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        if self.every.is_none() && !self.at_end {
            return Err(missing_interval());
        }
        let targets = self.tensors.iter().map(|(_, name)| graph.target(name));
        self.targets = targets.collect::<Result<_, Error>>()?;
        graph.declare(&self.targets)?;
        let timer = |every| SecondOrStepTimer::new(every, graph.clock().clone());
        self.timer = self.every.map(timer);
        self.iterations = 0;
        Ok(())
    }

    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let timer = self.timer.as_ref();
        self.triggered = timer.is_some_and(|timer| timer.should_trigger_for_step(self.iterations));
        let fetches = || SessionRunArgs::fetch(self.targets.iter().cloned());
        Ok((self.triggered || self.at_end).then(fetches))
    }

    fn after_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let results = values.results.as_deref().unwrap_or_default();
        if self.triggered {
            self.log(results);
        }
        if self.at_end {
            self.last = results.to_vec();
        }
        self.iterations += 1;
        Ok(())
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        if self.at_end {
            let mut values = std::mem::take(&mut self.last);
            values.resize(self.targets.len(), None);
            for (target, value) in self.targets.iter().zip(&mut values) {
                if let Target::Variable(_) = target {
                    *value = session.value(target)?;
                }
            }
            self.log(&values);
        }
        Ok(())
    }
}

fn missing_interval() -> Error {
    invalid("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided")
}

fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidArgument, message)
}
