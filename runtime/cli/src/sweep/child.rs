//! One trial: a process of this program that trains, and what its events say.
//!
//! In: a command. Out: how the trial ended. A process that crashes, or cannot be started, is a trial that failed.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::metric::{Measured, real};
use super::trial::{Outcome, TrialEnd};

/// The most bytes of what a process writes to standard error that are kept: the last ones.
const MAX_ERROR_BYTES: usize = 1 << 14;

/// What the events of a run said so far.
#[derive(Debug, Default)]
struct Heard {
    step: Option<u64>,
    resumed: bool,
    evaluated: Vec<Measured>,
    losses: Vec<Measured>,
    why: Option<String>,
    error: Option<String>,
}

/// Runs a trial to its end. `started` gets its standard input: the run stops when that is closed. `at_step` is called now and then.
///
/// The flag that comes with the outcome says that a finished run was found finished, and has no losses any more.
pub(super) fn run(
    mut command: Command,
    started: impl FnOnce(ChildStdin),
    mut at_step: impl FnMut(u64),
) -> (Outcome, bool) {
    let start = Instant::now();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return (Outcome::failed(format!("cannot start a run: {e}")), false),
    };
    if let Some(input) = child.stdin.take() {
        started(input);
    }
    let errors = child.stderr.take();
    let errors = std::thread::spawn(|| errors.map_or_else(String::new, last_bytes));
    let mut heard = Heard::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Ok(event) = serde_json::from_str(&line) {
                heard.event(&event);
                heard.step.into_iter().for_each(&mut at_step);
            }
        }
    }
    let status = child.wait();
    let errors = errors.join().unwrap_or_default();
    let end = match &status {
        Ok(status) => heard.end(*status, &errors),
        Err(e) => TrialEnd::Failed(format!("cannot wait for the run: {e}")),
    };
    let lost = heard.resumed && heard.losses.is_empty() && matches!(end, TrialEnd::Finished(_));
    // What is measured of one that goes on later is no result.
    let values = match end {
        TrialEnd::Interrupted => Vec::new(),
        _ => heard.evaluated.into_iter().chain(heard.losses).collect(),
    };
    let outcome = Outcome {
        end,
        step: heard.step,
        values,
        seconds: start.elapsed().as_secs_f64(),
    };
    (outcome, lost)
}

impl Heard {
    fn event(&mut self, event: &Value) {
        let step = event["step"].as_u64();
        match event["event"].as_str() {
            Some("resume") => (self.resumed, self.step) = (true, step),
            Some("step") => self.step = step,
            Some("eval") => {
                let evaluation = event["name"].as_str().or(event["data"].as_str());
                let evaluation = evaluation.map(str::to_owned);
                self.evaluated.retain(|m| m.evaluation != evaluation);
                for (metric, mean) in event["metrics"].as_object().into_iter().flatten() {
                    self.evaluated
                        .extend(real(&mean["mean"]).map(|value| Measured {
                            evaluation: evaluation.clone(),
                            metric: metric.clone(),
                            value,
                        }));
                }
            }
            Some("end") => {
                self.step = step;
                self.why = event["why"].as_str().map(str::to_owned);
                for (metric, value) in event["losses"].as_object().into_iter().flatten() {
                    self.losses.extend(real(value).map(|value| Measured {
                        evaluation: None,
                        metric: metric.clone(),
                        value,
                    }));
                }
            }
            Some("error") if self.error.is_none() => {
                self.error = event["message"].as_str().map(str::to_owned);
            }
            _ => {}
        }
    }

    fn end(&self, status: ExitStatus, errors: &str) -> TrialEnd {
        let signal = signal(status);
        match (&self.why, status.code()) {
            (Some(why), _) if why == "stopped" => TrialEnd::Interrupted,
            (Some(why), Some(0)) => TrialEnd::Finished(why.clone()),
            // Stopped before its first step, or by a second signal.
            (_, Some(130 | 141 | 143)) => TrialEnd::Interrupted,
            // Stopped before it could listen to signals: SIGHUP, SIGINT, SIGTERM.
            _ if matches!(signal, Some(1 | 2 | 15)) => TrialEnd::Interrupted,
            _ => {
                let mut said = errors.lines().map(str::trim);
                let said = said.find(|line| !line.is_empty()).map(str::to_owned);
                TrialEnd::Failed(match (self.error.clone().or(said), signal) {
                    (_, Some(signal)) => format!("its process was killed by signal {signal}"),
                    (Some(why), None) => why,
                    (None, None) => format!("its process ended with {status}"),
                })
            }
        }
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

/// The last of what a process writes.
fn last_bytes(mut stream: ChildStderr) -> String {
    let (mut last, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            break;
        }
        last.extend_from_slice(&buffer[..count]);
        let excess = last.len().saturating_sub(MAX_ERROR_BYTES);
        last.drain(..excess);
    }
    String::from_utf8_lossy(&last).into_owned()
}
