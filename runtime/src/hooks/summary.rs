//! `summary`: values into event files at an interval (`tf.train.SummarySaverHook`).

use std::path::PathBuf;

use trainspec_compiler::Fetch;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::typed::{self, Interval, NamedKind, SummaryKind};
use trainspec_formats::proto::Summary;

use crate::coordinator::Coordinator;
use crate::hooks::event_files::EventFiles;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::program::FeedDict;
use crate::session::{Session, Timer, value_type};
use crate::summary::summarize;
use crate::{Code, Error};

/// A `summary` hook of a spec.
#[derive(Debug)]
pub(crate) struct SummaryHook {
    files: EventFiles,
    folder: PathBuf,
    values: Vec<typed::Summary>,
    timer: Timer,
}

impl SummaryHook {
    pub(crate) fn new(
        files: EventFiles,
        folder: PathBuf,
        values: &[typed::Summary],
        every: Interval,
    ) -> SummaryHook {
        SummaryHook {
            files,
            folder,
            values: values.to_vec(),
            timer: Timer::every(every),
        }
    }

    /// One summary of all values.
    fn summary(&self, session: &Session, batch: Option<&dyn FeedDict>) -> Result<Summary, Error> {
        let mut all = Summary::default();
        for summary in &self.values {
            for named in &summary.names {
                match &named.kind {
                    NamedKind::Value(name) => {
                        let value = value_of(session, batch, name, summary.kind);
                        let value = value.ok_or_else(|| {
                            Error::new(Code::NotFound, format!("the step gives no `{name}`"))
                        })?;
                        all.value
                            .extend(summarize(name, &value, summary.kind)?.value);
                    }
                    NamedKind::Variables(pattern) => {
                        let spec = session.spec().clone();
                        for variable in spec.variables_matching(pattern) {
                            if let Some(value) = session.state().get(&variable.name) {
                                let made = summarize(&variable.name, value, summary.kind)?;
                                all.value.extend(made.value);
                            }
                        }
                    }
                }
            }
        }
        Ok(all)
    }
}

impl SessionRunHook for SummaryHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.timer.begin(&session.progress());
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let now = context.session.progress();
        if self.timer.triggers(&now) {
            let batch = context.batches.last().copied();
            let summary = self.summary(context.session, batch)?;
            self.files.add(&self.folder, summary, now.step);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        self.files.flush();
        Ok(())
    }
}

/// The value of a result of the last step, without padding, as a scalar the mean of a metric; or an input, or the step.
fn value_of(
    session: &Session,
    batch: Option<&dyn FeedDict>,
    name: &str,
    kind: SummaryKind,
) -> Option<Tensor> {
    let spec = session.spec();
    let Some(fetch) = Fetch::find(spec, name) else {
        let fed = batch.and_then(|batch| batch.feed(name));
        let step = || (name == "step").then(|| Tensor::scalar(session.global_step() as i64));
        return fed.map(|view| view.to_tensor()).or_else(step);
    };
    let fetched = session.step_results();
    let Some(ty) = value_type(spec, &fetch) else {
        return fetched.value(&fetch).cloned();
    };
    match (&fetch, kind) {
        (Fetch::Metric(_), SummaryKind::Scalar) => {
            let mean = session.step_metric(&fetch, ty)?;
            Some(Tensor::scalar(mean.value()))
        }
        _ => Some(fetched.without_padding(&fetch, ty)?.into_owned()),
    }
}
