//! `eval`: evaluations of a spec at an interval and at the end, each over a data set of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::TensorType;
use trainspec_compiler::typed::{self, Eval, Spec};
use trainspec_formats::events::summary::scalar;
use trainspec_formats::proto::Summary;

use crate::coordinator::Coordinator;
use crate::curves::Curves;
use crate::data::{DataContext, Pipeline, gives_nothing};
use crate::hooks::event_files::EventFiles;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::registry::Feeds;
use crate::session::{Event, EventQueue, Mean, Session, Timer};
use crate::trainer::the_data;
use crate::{DataError, Error, StopToken};

/// What the record of an evaluation is called, before its name: it was due at the step of the checkpoint and a stop cut it short, so a run
/// that goes on makes it first.
const OWED_RECORD: &str = "eval/owed/1/";

/// What its data is read for.
pub(crate) const TO_EVALUATE: &str = " to evaluate on";

/// An evaluation of a spec.
pub(crate) struct EvalHook {
    eval: Eval,
    data: Pipeline,
    metrics: Vec<Metric>,
    timer: Option<Timer>,
    events: EventQueue,
    /// Where the metrics are written to: a run of their own in TensorBoard.
    files: Option<(EventFiles, PathBuf)>,
    feeds: Feeds,
    results: EvalResults,
    evaluated_step: Option<u64>,
    /// The step at which this start began.
    begun_at: u64,
    /// How many records of its data were said to be left out.
    reported_left_out: u64,
    /// Whether the next evaluation may have been made by an earlier start.
    is_repeated: bool,
    /// Looked at before each batch: whoever asks a run to stop does not wait for an evaluation.
    stop: StopToken,
    failure: EvalFailure,
}

/// Why the last evaluation failed. It is raised when the state is saved: [`RaiseHook`] does that. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct EvalFailure(Arc<Mutex<Option<Error>>>);

/// Fails at the end of a run with what an evaluation failed with there.
#[derive(Debug)]
pub(crate) struct RaiseHook(pub(crate) EvalFailure);

impl SessionRunHook for RaiseHook {
    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        let mut failure = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }
}

/// The latest results of an evaluation, for hooks that act on them. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct EvalResults(Arc<Mutex<Option<EvalResult>>>);

/// The step of an evaluation, and its metrics.
type EvalResult = (u64, Vec<(String, Mean)>);

impl EvalResults {
    /// A metric of the evaluation after a step; `None` where there was none after this step.
    pub(crate) fn metric(&self, step: u64, name: &str) -> Option<f64> {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, metrics) = results.as_ref().filter(|(at, _)| *at == step)?;
        let found = metrics.iter().find(|(metric, _)| metric == name);
        found.map(|(_, mean)| mean.value())
    }

    fn set(&self, result: EvalResult) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

/// A metric or loss, averaged over the batches of an evaluation.
struct Metric {
    name: String,
    /// Its result.
    fetch: Fetch,
    ty: Arc<TensorType>,
}

impl EvalHook {
    pub(crate) fn new(
        spec: &Spec,
        eval: &Eval,
        data: Pipeline,
        feeds: Feeds,
        events: EventQueue,
        stop: StopToken,
    ) -> EvalHook {
        let metrics = spec.model.as_ref().map(|model| metrics(eval, &model.eval));
        EvalHook {
            timer: eval.every.map(Timer::every),
            eval: eval.clone(),
            data,
            metrics: metrics.unwrap_or_default(),
            events,
            files: None,
            feeds,
            results: EvalResults::default(),
            evaluated_step: None,
            begun_at: 0,
            reported_left_out: 0,
            is_repeated: false,
            stop,
            failure: EvalFailure::default(),
        }
    }

    /// The files that it reads.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.data.files()
    }

    /// Keeps the error of an evaluation at the end of the run here.
    pub(crate) fn fail_into(&mut self, failure: &EvalFailure) {
        self.failure = failure.clone();
    }

    /// Reads its first batch, which there must be: what cannot be read is an error before the first step, not after hours.
    pub(crate) fn check_data(&mut self, cx: &DataContext) -> Result<(), Error> {
        let first = self.data.next()?;
        if first.is_none() {
            let set = the_data(&cx.spec, &self.eval.data)?;
            return Err(gives_nothing(cx, set, TO_EVALUATE).into());
        }
        self.data.rewind();
        Ok(())
    }

    /// Its latest results.
    pub(crate) fn results(&self) -> EvalResults {
        self.results.clone()
    }

    /// Writes the metrics into event files below a folder: `eval`, or `eval_NAME` where the evaluation has a name.
    pub(crate) fn write_to(&mut self, files: &EventFiles, folder: &Path) {
        let name = match &self.eval.name {
            Some(name) => format!("eval_{name}"),
            None => "eval".to_owned(),
        };
        self.files = Some((files.clone(), folder.join(name)));
    }

    /// Evaluates one pass over the data, or `steps` batches of it: the means of the metrics. False where a stop was requested before its
    /// end: then there are none.
    pub(crate) fn evaluate(&mut self, session: &mut Session) -> Result<bool, Error> {
        let step = session.global_step();
        self.data.rewind();
        let mut means = vec![Mean::default(); self.metrics.len()];
        let mut batches = 0;
        while self.eval.steps.is_none_or(|n| batches < n)
            && let Some(mut batch) = self.data.next()?
        {
            if self.stop.should_stop() {
                return Ok(false);
            }
            batches += 1;
            self.feeds.fill(std::iter::once(&mut batch))?;
            session.evaluate(&batch, &BTreeSet::new(), self.eval.with_ema)?;
            for (metric, mean) in self.metrics.iter().zip(&mut means) {
                let Some(own) = Mean::of(session.results(), &metric.fetch, &metric.ty) else {
                    continue;
                };
                mean.add(match metric.fetch {
                    // One number for a batch, weighted by the records of the batch.
                    Fetch::Loss(_) => own.with_weight(batch.rows.unwrap_or(1) as f64),
                    _ => own,
                });
            }
        }
        if batches == 0 {
            let message = format!(
                "the data set `{}` gives nothing{TO_EVALUATE}",
                self.data.name
            );
            return Err(DataError::new(message).into());
        }
        for new in session.specialised() {
            self.events.push(Event::Specialised(new));
        }
        if let Some(left_out) = self.data.left_out()
            && left_out.records > self.reported_left_out
        {
            self.reported_left_out = left_out.records;
            let message = format!("data set `{}`: {left_out}", self.data.name);
            self.events.push(Event::Note(message));
        }
        let is_known = std::mem::take(&mut self.is_repeated) && self.is_written(step);
        if let Some((files, folder)) = self.files.as_ref().filter(|_| !is_known) {
            let scalars = self.metrics.iter().zip(&means);
            let scalars = scalars.map(|(m, mean)| scalar(&m.name, mean.value() as f32));
            let value = scalars.flat_map(|summary| summary.value).collect();
            files.add(folder, Summary { value }, step);
            files.flush();
        }
        let names = self.metrics.iter().map(|m| m.name.clone());
        let metrics: Vec<(String, Mean)> = names.zip(means).collect();
        self.results.set((step, metrics.clone()));
        self.events.push(Event::Evaluated {
            name: self.eval.name.clone(),
            data: self.data.name.to_owned(),
            step,
            metrics,
        });
        self.evaluated_step = Some(step);
        Ok(true)
    }

    /// Whether the event files of the evaluation have its values of a step.
    fn is_written(&self, step: u64) -> bool {
        let Some((files, folder)) = &self.files else {
            return false;
        };
        let curves = Curves::read_in(files.storage(), folder).unwrap_or_default();
        let mut points = curves.curves.iter().flat_map(|curve| &curve.points);
        points.any(|(at, _)| u64::try_from(*at) == Ok(step))
    }

    fn owed_record(&self) -> String {
        let name = self.eval.name.as_ref().unwrap_or(&self.data.name);
        format!("{OWED_RECORD}{name}")
    }

    /// Makes an evaluation that is due. One that a stop cuts short is owed: the next start makes it, so that what depends on it, the best
    /// checkpoint and `early_stop`, is what it would have been.
    fn evaluate_due(&mut self, session: &mut Session) -> Result<(), Error> {
        let (record, step) = (self.owed_record(), session.global_step().to_string());
        match self.evaluate(session)? {
            true => session.records_mut().remove(&record),
            false => session.records_mut().insert(record, step),
        };
        Ok(())
    }
}

impl SessionRunHook for EvalHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        if let Some(timer) = &mut self.timer {
            timer.begin(&session.progress());
        }
        self.begun_at = session.global_step();
        let step = session.global_step().to_string();
        match session.records().get(&self.owed_record()) {
            Some(owed) if owed == step => self.evaluate_due(session),
            Some(_) | None => Ok(()),
        }
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let now = context.session.progress();
        let triggered = self.timer.as_mut().is_some_and(|t| t.triggers(&now));
        let begun = self.eval.start_after.is_none_or(|after| now.reaches(after));
        match triggered && begun {
            true => self.evaluate_due(context.session),
            false => Ok(()),
        }
    }

    /// Evaluates the last state, unless that was just done, or a stop was requested: then the state is saved at once.
    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        if self.stop.should_stop() || self.evaluated_step == Some(session.global_step()) {
            return Ok(());
        }
        // A finished run that is started again evaluates again, and does not write again what its event files have.
        self.is_repeated = session.global_step() == self.begun_at;
        if let Err(error) = self.evaluate(session) {
            let mut failure = (self.failure.0.lock()).unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
        Ok(())
    }
}

/// The metrics of an evaluation.
fn metrics(eval: &Eval, mode: &typed::Mode) -> Vec<Metric> {
    let find = |name: &str| {
        let has_name = |(n, _): &&(String, _)| n == name;
        let metric = mode.metrics.iter().find(has_name);
        let (fetch, (name, value)) = match metric {
            Some(metric) => (Fetch::Metric(metric.0.clone()), metric),
            None => {
                let loss = mode.losses.iter().find(has_name)?;
                (Fetch::Loss(loss.0.clone()), loss)
            }
        };
        Some(Metric {
            name: name.clone(),
            fetch,
            ty: mode.program.values[value.0 as usize].clone(),
        })
    };
    eval.measured(mode).into_iter().filter_map(find).collect()
}
