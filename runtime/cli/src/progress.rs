//! How far something is that takes long.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use trainspec_formats::records::{FOOTER, HEADER};

/// A bar for people who wait: only on a terminal, and only after a second.
pub(crate) struct Progress {
    start: Instant,
    watched: bool,
    bar: ProgressBar,
}

impl Progress {
    /// For so many bytes in all.
    pub(crate) fn new(bytes: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let style = "[{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress {
            start: Instant::now(),
            watched: std::io::stderr().is_terminal(),
            bar,
        }
    }

    /// For the bytes of a file; a compressed one gives more, and the bar stays at its end.
    pub(crate) fn of_file(path: &Path) -> Progress {
        Progress::new(std::fs::metadata(path).map_or(0, |about| about.len()))
    }

    /// So many more are done.
    pub(crate) fn add(&self, bytes: u64) {
        let late = self.start.elapsed() > Duration::from_secs(1);
        if self.watched && late && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How many bytes of its file a record takes.
pub(crate) fn framed(record: &[u8]) -> u64 {
    (HEADER + record.len() + FOOTER) as u64
}
