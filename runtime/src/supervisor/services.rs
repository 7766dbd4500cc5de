//! The services of a supervisor, each on a thread of its own: summaries, steps per second, checkpoints.

use std::sync::PoisonError;

use trainspec_formats::events::summary;
use trainspec_formats::proto::SessionLog;
use trainspec_formats::proto::session_log::SessionStatus;

use crate::Error;
use crate::coordinator::LooperThread;
use crate::program::InputView;
use crate::session::{Saves, Target};
use crate::supervisor::{SharedSession, Supervisor};
use crate::train::global_step;

/// Starts the services that are not switched off.
pub(super) fn start(
    supervisor: &mut Supervisor,
    session: &SharedSession,
) -> Result<Vec<LooperThread>, Error> {
    let started = [
        start_summaries(supervisor, session)?,
        start_step_counter(supervisor, session)?,
        start_saves(supervisor, session)?,
    ];
    Ok(started.into_iter().flatten().collect())
}

/// Evaluates the summary operation at an interval.
fn start_summaries(
    supervisor: &mut Supervisor,
    session: &SharedSession,
) -> Result<Option<LooperThread>, Error> {
    let (Some(op), Some(writer)) = (&supervisor.summary_op, &supervisor.summary_writer) else {
        return Ok(None);
    };
    let Some(interval) = supervisor.save_summaries else {
        return Ok(None);
    };
    let (op, writer, session) = (op.clone(), writer.clone(), session.clone());
    let step = supervisor.global_step.clone();
    let started = supervisor.looping("summaries", Some(interval), move || {
        let none: [(&str, InputView<'_>); 0] = [];
        let targets: Vec<Target> = op.targets();
        let (values, step) = {
            let mut session = session.lock();
            let values = session.run(targets, &none)?;
            let step = step.as_ref().map(|name| global_step(&session, name));
            (values, step.transpose()?.unwrap_or(0))
        };
        let values: Vec<_> = values.into_iter().flatten().collect();
        Ok(writer.add_summary(op.evaluate(&values)?, step)?)
    })?;
    Ok(Some(started))
}

/// Measures steps per second at an interval.
fn start_step_counter(
    supervisor: &mut Supervisor,
    session: &SharedSession,
) -> Result<Option<LooperThread>, Error> {
    let (Some(name), Some(writer)) = (&supervisor.global_step, &supervisor.summary_writer) else {
        return Ok(None);
    };
    let Some(interval) = supervisor.save_summaries else {
        return Ok(None);
    };
    let (name, writer, session) = (name.clone(), writer.clone(), session.clone());
    let clock = supervisor.graph.clock().clone();
    let mut last = (global_step(&session.lock(), &name)?, clock.now());
    let started = supervisor.looping("step counter", Some(interval), move || {
        let now = (global_step(&session.lock(), &name)?, clock.now());
        let seconds = now.1.saturating_sub(last.1).as_secs_f64();
        let steps = (now.0 - last.0) as f64;
        last = now;
        // The first call comes at once, and has measured nothing.
        if seconds > 0.0 {
            let summary = summary::scalar(&format!("{name}/sec"), (steps / seconds) as f32);
            writer.add_summary(summary, now.0)?;
        }
        Ok(())
    })?;
    Ok(Some(started))
}

/// Saves at an interval.
fn start_saves(
    supervisor: &mut Supervisor,
    session: &SharedSession,
) -> Result<Option<LooperThread>, Error> {
    let (Some(saver), Some(prefix)) = (supervisor.saver(), supervisor.save_path.clone()) else {
        return Ok(None);
    };
    let Some(interval) = supervisor.save_model else {
        return Ok(None);
    };
    let (session, writer) = (session.clone(), supervisor.summary_writer.clone());
    let step_name = supervisor.global_step.clone();
    let started = supervisor.looping("checkpoints", Some(interval), move || {
        let mut session = session.lock();
        let step = step_name.as_ref().map(|name| global_step(&session, name));
        let step = step.transpose()?;
        session.keep_position(Saves::All);
        let mut saver = saver.lock().unwrap_or_else(PoisonError::into_inner);
        let number = step.and_then(|step| u64::try_from(step).ok());
        saver.save(session.state(), session.records(), &prefix, number)?;
        drop(session);
        if let (Some(writer), Some(step)) = (&writer, step) {
            let mut log = SessionLog {
                checkpoint_path: prefix.to_string_lossy().into_owned(),
                ..SessionLog::default()
            };
            log.set_status(SessionStatus::Checkpoint);
            writer.add_session_log(log, step)?;
        }
        Ok(())
    })?;
    Ok(Some(started))
}
