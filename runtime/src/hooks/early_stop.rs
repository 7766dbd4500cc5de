//! `early_stop`: ends a run whose metric has not improved for a number of evaluations.
//!
//! Best value and evaluations since then are a record of the session, so that checkpoints hold them and a resumed run ends at the same step.
//! Evaluations at the end of a run do not count: an interrupted run has one where another has none.

use trainspec_compiler::typed::{EarlyStop, Goal, Spec};

use crate::coordinator::Coordinator;
use crate::hooks::eval::EvalResults;
use crate::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::{End, EventQueue, Session};
use crate::{Code, Error};

/// An `early_stop` hook of a spec.
#[derive(Debug)]
pub(crate) struct EarlyStopHook {
    settings: EarlyStop,
    results: EvalResults,
    events: EventQueue,
    state: EarlyStopState,
    /// The step of the last evaluation that was counted.
    counted: Option<u64>,
}

/// What a resumed run goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct EarlyStopState {
    /// The best value so far.
    best: Option<f64>,
    /// Evaluations since then.
    since: u64,
}

impl EarlyStopState {
    /// Counts an evaluation. What is NaN improves nothing.
    fn count(&mut self, value: f64, settings: &EarlyStop) {
        let improves = match (self.best, settings.goal) {
            (None, _) => !value.is_nan(),
            (Some(best), Goal::Min) => value < best - settings.min_delta,
            (Some(best), Goal::Max) => value > best + settings.min_delta,
        };
        match improves {
            true => (self.best, self.since) = (Some(value), 0),
            false => self.since += 1,
        }
    }

    fn to_text(self) -> String {
        match self.best {
            // Debug prints a float so that parsing gives the same bits.
            Some(best) => format!("best {best:?} since {}", self.since),
            None => format!("best none since {}", self.since),
        }
    }

    fn parse(text: &str) -> Result<EarlyStopState, Error> {
        let words: Vec<&str> = text.split(' ').collect();
        let state = match words[..] {
            ["best", "none", "since", since] => since.parse().ok().map(|since| (None, since)),
            ["best", best, "since", since] => {
                let best: Option<f64> = best.parse().ok();
                best.zip(since.parse().ok())
                    .map(|(best, since)| (Some(best), since))
            }
            _ => None,
        };
        let state = state.map(|(best, since)| EarlyStopState { best, since });
        state.ok_or_else(|| {
            let message =
                format!("the record of `early_stop` in the checkpoint is damaged: `{text}`");
            Error::new(Code::DataLoss, message)
        })
    }
}

impl EarlyStopHook {
    pub(crate) fn new(
        settings: &EarlyStop,
        results: EvalResults,
        events: EventQueue,
    ) -> EarlyStopHook {
        EarlyStopHook {
            settings: settings.clone(),
            results,
            events,
            state: EarlyStopState::default(),
            counted: None,
        }
    }

    /// The name of its record. A larger `patience` goes on with what was counted; another metric, direction or `min_delta` starts over.
    fn record(&self, spec: &Spec) -> String {
        let EarlyStop {
            eval,
            metric,
            goal,
            min_delta,
            ..
        } = &self.settings;
        let eval = &spec.evals[*eval];
        let eval = eval.name.as_ref().unwrap_or(&eval.data);
        format!("early_stop/1/{eval}/{metric}/{goal}/{min_delta:?}")
    }

    /// Counts the evaluation of the current step, where there was one and it was not counted yet.
    fn count_evaluation(&mut self, session: &mut Session) -> bool {
        let step = session.global_step();
        let value = match self.counted == Some(step) {
            true => None,
            false => self.results.metric(step, &self.settings.metric),
        };
        let Some(value) = value else {
            return false;
        };
        self.counted = Some(step);
        self.state.count(value, &self.settings);
        let record = self.record(session.spec());
        let records = session.records_mut();
        records.insert(record, self.state.to_text());
        true
    }

    fn is_exhausted(&self) -> bool {
        self.state.since >= self.settings.patience
    }

    fn ended(&self) {
        let metric = self.settings.metric.clone();
        self.events.end(End::NoImprovement(metric));
    }
}

impl SessionRunHook for EarlyStopHook {
    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.state = match session.records().get(&self.record(session.spec())) {
            Some(text) => EarlyStopState::parse(text)?,
            None => EarlyStopState::default(),
        };
        // An evaluation that was owed has just been made.
        self.count_evaluation(session);
        self.counted = Some(session.global_step());
        if self.is_exhausted() {
            self.ended();
        }
        Ok(())
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        if self.count_evaluation(context.session) && self.is_exhausted() {
            self.ended();
            context.request_stop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(goal: Goal, min_delta: f64) -> EarlyStop {
        EarlyStop {
            metric: "loss".into(),
            eval: 0,
            patience: 2,
            min_delta,
            goal,
        }
    }

    fn since(values: &[f64], settings: &EarlyStop) -> Vec<u64> {
        let mut state = EarlyStopState::default();
        let count = |value: &f64| {
            state.count(*value, settings);
            state.since
        };
        values.iter().map(count).collect()
    }

    #[test]
    fn an_improvement_exceeds_the_best_value_by_more_than_the_delta() {
        let values = [3.0, 2.5, 2.25, 2.5, 1.0, f64::NAN, 0.5];
        let smaller = settings(Goal::Min, 0.0);
        assert_eq!(since(&values, &smaller), [0, 0, 0, 1, 0, 1, 0]);
        let by_half = settings(Goal::Min, 0.5);
        assert_eq!(since(&values, &by_half), [0, 1, 0, 1, 0, 1, 2]);
        let larger = settings(Goal::Max, 0.0);
        assert_eq!(since(&values, &larger), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(since(&[f64::NAN, 1.0], &larger), [1, 0]);
    }

    #[test]
    fn the_record_keeps_every_bit() {
        for best in [None, Some(0.1), Some(-1e-300), Some(f64::INFINITY)] {
            let state = EarlyStopState { best, since: 7 };
            assert_eq!(EarlyStopState::parse(&state.to_text()).unwrap(), state);
        }
        for damaged in [
            "",
            "best",
            "best x since 1",
            "best 1.0 since -1",
            "best 1.0 since 1 ",
        ] {
            let error = EarlyStopState::parse(damaged).unwrap_err();
            assert_eq!(error.code(), Code::DataLoss, "{damaged}");
        }
    }
}
