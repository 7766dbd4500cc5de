//! The progress bar of a run on a terminal: one line, as much of it as the width takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use trainspec::session::{Reading, StepProgress};

use super::readings::number;

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// The least time between two steps that are taken in.
const SAMPLING: Duration = Duration::from_millis(1);

/// The weight of what was before in a running mean of speeds, for each time the line is drawn.
const RATE_WEIGHT: f64 = 0.9;

/// The weight of the steps before in a running mean of losses and metrics: that of about the last hundred steps.
const STEP_WEIGHT: f64 = 0.99;

/// The bar beside the other parts: without it there is more space for numbers.
const BAR_RANK: u8 = 4;

/// The most characters of the bar itself, and the fewest that it is drawn with.
const MAX_BAR: usize = 32;
const MIN_BAR: usize = 8;

/// The share of the time that steps wait for data from which on a run is called reader-bound.
const READER_BOUND: f64 = 0.3;

/// A line that shows what a run is doing.
pub(super) struct Bar {
    bar: ProgressBar,
    drawn: Option<Instant>,
    /// When a step was taken in last.
    taken: Option<Instant>,
    /// The records of an epoch, where they are known.
    epoch_records: Option<u64>,
    /// Running means of losses and metrics, and schedules as they are.
    means: BTreeMap<String, f64>,
    /// The names that are schedules.
    schedules: BTreeSet<String>,
    /// Steps, records and seconds when the line was drawn last.
    before: (u64, u64, f64),
    /// Steps and records a second, as running means.
    rates: Option<(f64, f64)>,
    saved: Option<u64>,
}

impl Bar {
    /// A bar where standard error and output are terminals that can move the cursor; else none.
    pub(super) fn on_terminal(schedules: BTreeSet<String>) -> Option<Bar> {
        let can_draw =
            std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty());
        let is_seen = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        if !(can_draw && is_seen) {
            return None;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{msg}").ok()?);
        Some(Bar {
            bar,
            drawn: None,
            taken: None,
            epoch_records: None,
            means: BTreeMap::new(),
            schedules,
            before: (0, 0, 0.0),
            rates: None,
            saved: None,
        })
    }

    /// Whether it is time to draw the line again.
    fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL)
    }

    /// Prints with the line out of the way.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Draws another line in its place.
    pub(super) fn say(&self, text: String) {
        self.bar.set_message(text);
    }

    /// The records of an epoch.
    pub(super) fn has_epochs_of(&mut self, records: Option<u64>) {
        self.epoch_records = records;
    }

    /// A run goes on at a step, somewhere in an epoch.
    pub(super) fn begins_at(&mut self, step: u64) {
        self.before.0 = step;
        self.epoch_records = None;
    }

    /// Whether another step is to be taken in: not each, where they take microseconds.
    pub(super) fn follows(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.taken.is_none_or(|taken| now - taken >= SAMPLING);
        if is_due {
            self.taken = Some(now);
        }
        is_due
    }

    /// A checkpoint is complete.
    pub(super) fn saved(&mut self, step: u64) {
        self.saved = Some(step);
    }

    /// Takes the values of a step into the running means.
    fn add(&mut self, now: &StepProgress) {
        for (name, reading) in &now.values {
            let value = match reading {
                Reading::Number(x) => *x,
                Reading::Mean(mean) => mean.value(),
                Reading::Tensor(_) => continue,
            };
            match self.means.get_mut(name) {
                Some(mean) if mean.is_finite() && !self.schedules.contains(name) => {
                    *mean = STEP_WEIGHT * *mean + (1.0 - STEP_WEIGHT) * value;
                }
                _ => {
                    self.means.insert(name.clone(), value);
                }
            }
        }
    }

    /// Takes in a step, and draws the line where it is time.
    pub(super) fn step(&mut self, now: &StepProgress) {
        self.add(now);
        if self.is_due() {
            self.draw(now);
        }
    }

    fn draw(&mut self, now: &StepProgress) {
        self.drawn = Some(Instant::now());
        let (steps, examples, seconds) = self.before;
        let passed = now.seconds - seconds;
        if passed > 0.0 {
            let new = (
                now.step.saturating_sub(steps) as f64 / passed,
                now.examples.saturating_sub(examples) as f64 / passed,
            );
            let mixed = |old: f64, new: f64| RATE_WEIGHT * old + (1.0 - RATE_WEIGHT) * new;
            self.rates = Some(match self.rates {
                Some(old) => (mixed(old.0, new.0), mixed(old.1, new.1)),
                None => new,
            });
            self.before = (now.step, now.examples, now.seconds);
        }
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        self.bar
            .set_message(self.line(now, width.saturating_sub(1)));
        self.bar.tick();
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The epochs that are done, where one has a known number of records and the run began with the first: between two ends of epochs,
    /// also a part.
    fn epochs_done(&self, now: &StepProgress) -> f64 {
        let part = |records: u64| (now.examples % records.max(1)) as f64 / records.max(1) as f64;
        now.passes as f64 + self.epoch_records.map_or(0.0, part)
    }

    /// How much of the run is done, and the seconds that are left.
    fn done(&self, now: &StepProgress) -> (Option<f64>, Option<f64>) {
        let rate = |choose: fn((f64, f64)) -> f64| {
            let rate = self.rates.map(choose);
            rate.filter(|rate| *rate > 0.0)
        };
        match (now.last_step, now.epochs, self.epoch_records) {
            (Some(last), _, _) => {
                let left = rate(|(steps, _)| steps)
                    .map(|steps| last.saturating_sub(now.step) as f64 / steps);
                (Some(now.step as f64 / last.max(1) as f64), left)
            }
            (None, Some(all), records) => {
                let done = self.epochs_done(now);
                let left = (all as f64 - done).max(0.0);
                let seconds = rate(|(_, examples)| examples)
                    .zip(records)
                    .map(|(examples, records)| left * records as f64 / examples);
                (Some(done / all.max(1) as f64), seconds)
            }
            (None, None, _) => (None, None),
        }
    }

    /// The line in this many columns: the step first, then whatever tells most, in a fixed order.
    fn line(&self, now: &StepProgress, width: usize) -> String {
        let (done, left) = self.done(now);
        let step = match now.last_step {
            Some(last) => format!("step {}/{last}", now.step),
            None => format!("step {}", now.step),
        };
        // Each with its rank: what matters less is left out first.
        let mut parts: Vec<(u8, String)> = vec![(0, step)];
        let epoch = match now.epochs {
            Some(all) => format!("epoch {}/{all}", (now.passes + 1).min(all)),
            None => format!("epoch {}", now.passes + 1),
        };
        parts.push((8, epoch));
        for (i, (name, _)) in now.values.iter().enumerate() {
            if let Some(value) = self.means.get(name) {
                let rank = if i == 0 { 1 } else { 5 };
                parts.push((rank, format!("{name} {}", short(*value))));
            }
        }
        if let Some((steps, examples)) = self.rates {
            parts.push((6, format!("{} steps/s", number_of(steps))));
            parts.push((9, format!("{} examples/s", number_of(examples))));
            parts.extend(left.map(|seconds| (3, format!("{} left", duration(seconds)))));
        }
        parts.extend(self.saved.map(|step| (7, format!("saved {step}"))));
        parts.push(match now.waited / now.seconds.max(1e-9) {
            share if share > READER_BOUND => (2, "reader-bound".to_owned()),
            _ => (10, "compute-bound".to_owned()),
        });
        if done.is_some() {
            parts.insert(0, (BAR_RANK, " ".repeat(MIN_BAR)));
        }
        let length = |parts: &[(u8, String)]| {
            let all = parts.iter().map(|(_, text)| text.chars().count() + 2);
            all.sum::<usize>().saturating_sub(2)
        };
        while length(&parts) > width && parts.len() > 1 {
            let last = parts.iter().map(|(rank, _)| *rank).max();
            let i = parts.iter().rposition(|(rank, _)| Some(*rank) == last);
            parts.remove(i.unwrap_or(0));
        }
        let free = width.saturating_sub(length(&parts));
        if let (Some(done), Some((BAR_RANK, text))) = (done, parts.first_mut()) {
            *text = bar(done, (MIN_BAR + free).min(MAX_BAR));
        }
        let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
        texts.join("  ").chars().take(width).collect()
    }
}

/// `[=====>    ]`
fn bar(done: f64, width: usize) -> String {
    let inside = width - 2;
    let full = ((done.clamp(0.0, 1.0) * inside as f64) as usize).min(inside);
    let head = if full < inside { ">" } else { "" };
    let rest = inside - full - head.len();
    format!("[{}{head}{}]", "=".repeat(full), " ".repeat(rest))
}

/// A number with three significant digits.
fn short(x: f64) -> String {
    match x.abs() {
        size if x == 0.0 || !x.is_finite() || !(1e-3..1e5).contains(&size) => {
            if x == 0.0 || !x.is_finite() {
                number(x)
            } else {
                format!("{x:.2e}")
            }
        }
        size => {
            let places = (2 - size.log10().floor() as i32).clamp(0, 5) as usize;
            format!("{x:.places$}")
        }
    }
}

/// A rate: `812`, `3.4`, `12.5k`.
pub(super) fn number_of(rate: f64) -> String {
    match rate {
        r if r < 10.0 => format!("{r:.2}"),
        r if r < 100.0 => format!("{r:.1}"),
        r if r < 10_000.0 => format!("{r:.0}"),
        r if r < 1e6 => format!("{:.1}k", r / 1e3),
        r => format!("{:.2}M", r / 1e6),
    }
}

/// `42 s`, `3:05`, `2:10:00`.
pub(crate) fn duration(seconds: f64) -> String {
    let all = seconds.clamp(0.0, 1e9).round() as u64;
    match all {
        0..60 => format!("{all} s"),
        60..3600 => format!("{}:{:02}", all / 60, all % 60),
        _ => format!("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: usize) -> String {
        let bar = Bar {
            bar: ProgressBar::hidden(),
            drawn: None,
            taken: None,
            epoch_records: None,
            schedules: BTreeSet::new(),
            means: [("loss".to_owned(), 0.1234), ("accuracy".to_owned(), 0.95)].into(),
            before: (0, 0, 0.0),
            rates: Some((812.4, 52_000.0)),
            saved: Some(1000),
        };
        let now = StepProgress {
            step: 1200,
            last_step: Some(2000),
            passes: 3,
            examples: 76_800,
            values: vec![
                ("loss".to_owned(), Reading::Number(0.1)),
                ("accuracy".to_owned(), Reading::Number(0.9)),
            ],
            seconds: 1.5,
            waited: 1.0,
            ..StepProgress::default()
        };
        bar.line(&now, width)
    }

    #[test]
    fn a_line_is_as_wide_as_the_terminal_lets_it_be() {
        assert_eq!(
            shown(200),
            "[==================>           ]  step 1200/2000  epoch 4  loss 0.123  accuracy 0.950  812 steps/s  52.0k examples/s  1 s left  saved 1000  reader-bound"
        );
        assert_eq!(
            shown(79),
            "[=====>   ]  step 1200/2000  loss 0.123  accuracy 0.950  1 s left  reader-bound"
        );
        assert_eq!(
            shown(60),
            "[===>  ]  step 1200/2000  loss 0.123  1 s left  reader-bound"
        );
        assert_eq!(shown(20), "step 1200/2000");
        for width in 10..220 {
            assert!(
                shown(width).chars().count() <= width.max(14),
                "{}",
                shown(width)
            );
        }
    }

    #[test]
    fn durations_have_minutes_and_hours() {
        for (seconds, text) in [
            (0.4, "0 s"),
            (59.0, "59 s"),
            (185.0, "3:05"),
            (7800.0, "2:10:00"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
