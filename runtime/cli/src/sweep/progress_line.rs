//! What a sweep says while it runs, on standard error: a line for each trial that ends, and on a terminal a line at the bottom.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::metric::Metric;
use super::table::end_text;
use super::trial::{Outcome, Trial};
use crate::columns::number;
use crate::output::{note, plain};

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// Says how a sweep goes on.
pub(super) struct ProgressLine {
    bar: Option<ProgressBar>,
    drawn: Option<Instant>,
    start: Instant,
    is_quiet: bool,
    /// Trials that have ended, now and in all, and the number of trials.
    ended_now: usize,
    ended: usize,
    trials: usize,
    /// The trials that are running, with their steps.
    running: BTreeMap<String, Option<u64>>,
    best: Option<(String, f64)>,
}

impl ProgressLine {
    pub(super) fn new(trials: usize, ended: usize, is_quiet: bool) -> ProgressLine {
        let can_draw =
            std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty());
        let is_shown = !is_quiet && can_draw && std::io::stderr().is_terminal();
        let style = ProgressStyle::with_template("{wide_msg}");
        let bar = style.ok().filter(|_| is_shown).map(|style| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style);
            bar
        });
        ProgressLine {
            bar,
            drawn: None,
            start: Instant::now(),
            is_quiet,
            ended_now: 0,
            ended,
            trials,
            running: BTreeMap::new(),
            best: None,
        }
    }

    /// The best value so far.
    pub(super) fn best(&mut self, trial: &Trial, value: f64) {
        self.best = Some((trial.name(), value));
    }

    pub(super) fn started(&mut self, trial: &Trial) {
        self.running.insert(trial.name(), None);
        self.draw();
    }

    pub(super) fn at_step(&mut self, trial: &Trial, step: u64) {
        self.running.insert(trial.name(), Some(step));
    }

    pub(super) fn waits(&self, trial: &Trial, dir: &str) {
        let name = trial.name();
        self.say(format_args!(
            "trial {name} waits for the process that trains in {dir} since an earlier sweep"
        ));
    }

    /// A trial has ended.
    pub(super) fn ended(&mut self, trial: &Trial, outcome: &Outcome, metric: &Metric) {
        self.running.remove(&trial.name());
        self.ended += 1;
        self.ended_now += 1;
        let ended = match (metric.of(&outcome.values), outcome.step) {
            (Some(value), Some(step)) => {
                format!("{} {} at step {step}", metric.name, number(value))
            }
            _ => end_text(&outcome.end),
        };
        self.say(format_args!(
            "trial {} ({}): {ended}  [{} of {}, {:.1} s]",
            trial.name(),
            trial.values_text(),
            self.ended,
            self.trials,
            outcome.seconds,
        ));
        self.draw();
    }

    /// Prints a line above the one at the bottom.
    pub(super) fn say(&self, text: impl std::fmt::Display) {
        if self.is_quiet {
            return;
        }
        let text = plain(text);
        match &self.bar {
            Some(bar) => bar.suspend(|| note(&text)),
            None => note(&text),
        }
    }

    /// Draws the line, where it is time to.
    pub(super) fn tick(&mut self) {
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL) {
            self.draw();
        }
    }

    fn draw(&mut self) {
        let Some(bar) = &self.bar else {
            return;
        };
        self.drawn = Some(Instant::now());
        bar.set_message(plain(self.line(self.start.elapsed().as_secs_f64())));
        bar.tick();
    }

    /// `7/20 trials  008 at step 300, 009  best 003: 0.973  3:05 left`
    fn line(&self, seconds: f64) -> String {
        let running = self.running.iter().map(|(name, step)| match step {
            Some(step) => format!("{name} at step {step}"),
            None => name.clone(),
        });
        let mut parts = vec![format!("{}/{} trials", self.ended, self.trials)];
        let best = self.best.iter();
        parts.extend(best.map(|(trial, value)| format!("best {trial}: {}", number(*value))));
        if self.ended_now > 0 {
            let left = (self.trials - self.ended) as f64 * seconds / self.ended_now as f64;
            parts.push(format!("{} left", crate::run::duration(left)));
        }
        parts.push(running.collect::<Vec<_>>().join(", "));
        parts.join("  ")
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_done_what_is_best_and_what_runs() {
        let mut line = ProgressLine::new(20, 5, true);
        (line.ended, line.ended_now) = (7, 2);
        line.best = Some(("003".to_owned(), 0.9733));
        line.running = [("008".to_owned(), Some(300)), ("009".to_owned(), None)].into();
        assert_eq!(
            line.line(30.0),
            "7/20 trials  best 003: 0.9733  3:15 left  008 at step 300, 009"
        );
    }
}
