//! The jobs of a sweep: threads that each run one trial at a time, in the order of the trials.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trainspec::StopToken;
use trainspec::runs::{RunSummary, is_running};

use super::child;
use super::trial::{Outcome, Trial, TrialEnd};
use crate::failure::Failure;
use crate::output::is_closed;

/// How often a job looks for the end of another process, and the sweep for a request to stop.
const INTERVAL: Duration = Duration::from_millis(50);

/// What a job says.
#[derive(Debug)]
pub(super) enum Message<'t> {
    /// A process of an earlier sweep trains there still.
    Waits(&'t Trial),
    /// It begins, or goes on.
    Started(&'t Trial),
    /// It has reached a step.
    Step(&'t Trial, u64),
    Ended(&'t Trial, Outcome),
}

/// The standard inputs of the runs by their trials; a run stops when its input is closed. `None` where all were closed.
#[derive(Debug)]
struct Inputs(Mutex<Option<BTreeMap<usize, ChildStdin>>>);

impl Inputs {
    fn new() -> Inputs {
        Inputs(Mutex::new(Some(BTreeMap::new())))
    }

    /// Keeps one open; closes it at once where all are closed already.
    fn keep(&self, trial: &Trial, input: ChildStdin) {
        if let Some(all) = self.lock().as_mut() {
            all.insert(trial.ordinal, input);
        }
    }

    /// Forgets that of a run which has ended.
    fn remove(&self, trial: &Trial) {
        if let Some(all) = self.lock().as_mut() {
            all.remove(&trial.ordinal);
        }
    }

    fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<usize, ChildStdin>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs trials, `jobs` at a time. `hear` gets what happens, and `None` at intervals; an error of it ends the sweep as a signal does.
pub(super) fn run_all<'t>(
    trials: Vec<&'t Trial>,
    jobs: usize,
    sweep: &Path,
    stop: &StopToken,
    command: impl Fn(&Trial) -> Command + Sync,
    mut hear: impl FnMut(Option<Message<'t>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let queue = Mutex::new(VecDeque::from(trials));
    let inputs = Inputs::new();
    let (send, receive) = mpsc::channel();
    let mut heard = Ok(());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (send, queue, inputs, command) = (send.clone(), &queue, &inputs, &command);
            scope.spawn(move || {
                let job = Job {
                    sweep,
                    stop,
                    inputs,
                    send,
                };
                let next = || {
                    queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front()
                };
                while let Some(trial) = next().filter(|_| !stop.should_stop()) {
                    job.run(trial, command);
                }
            });
        }
        drop(send);
        loop {
            let now = match receive.recv_timeout(INTERVAL) {
                Ok(message) => hear(Some(message)),
                Err(RecvTimeoutError::Timeout) => hear(None),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if heard.is_ok() {
                heard = now;
            }
            if heard.is_err() || is_closed() {
                stop.request_stop();
            }
            if stop.should_stop() {
                inputs.close();
            }
        }
    });
    heard
}

/// What runs one trial after the other.
struct Job<'a, 't> {
    sweep: &'a Path,
    stop: &'a StopToken,
    inputs: &'a Inputs,
    send: Sender<Message<'t>>,
}

impl<'t> Job<'_, 't> {
    /// Runs a trial. One that was found finished, by a sweep that was killed before it recorded so, has no losses any more: it is run again,
    /// to the same bits.
    fn run(&self, trial: &'t Trial, command: impl Fn(&Trial) -> Command) {
        let dir = trial.dir(self.sweep);
        if is_running(&dir) {
            self.say(Message::Waits(trial));
        }
        while is_running(&dir) {
            if self.stop.should_stop() {
                return;
            }
            std::thread::sleep(INTERVAL);
        }
        self.say(Message::Started(trial));
        let once = || {
            let at_step = |step| self.say(Message::Step(trial, step));
            let started = |input| self.inputs.keep(trial, input);
            let ended = child::run(command(trial), started, at_step);
            self.inputs.remove(trial);
            ended
        };
        let (mut outcome, has_lost) = once();
        if has_lost && !self.stop.should_stop() {
            let removed = RunSummary::of(&dir).and_then(|run| run.remove());
            outcome = match removed {
                Ok(()) => once().0,
                Err(error) => Outcome::failed(error.to_string()),
            };
        }
        if let TrialEnd::Failed(_) = outcome.end {
            outcome.step = failed_step(&dir);
        }
        self.say(Message::Ended(trial, outcome));
    }

    fn say(&self, message: Message<'t>) {
        // The receiver outlives all jobs.
        let _ = self.send.send(message);
    }
}

/// The step in whose place a run failed, as its folder says; `None` for one that crashed.
fn failed_step(dir: &Path) -> Option<u64> {
    let described = std::fs::read(dir.join("run.json")).ok()?;
    let described: serde_json::Value = serde_json::from_slice(&described).ok()?;
    described["end"]["step"].as_u64()
}
