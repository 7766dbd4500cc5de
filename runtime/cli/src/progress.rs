//! Progress bars and spinners for long operations.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use trainspec_formats::checkpoint::CheckpointReader;

use crate::output::plain;
use crate::tensors::size;

/// A progress bar: only on a terminal, and only after a second.
pub(crate) struct Progress {
    start: Instant,
    is_terminal: bool,
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `bytes` in total.
    pub(crate) fn new(bytes: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let style = "[{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress {
            start: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            bar,
        }
    }

    /// A bar for the bytes of a file.
    pub(crate) fn of_file(path: &Path) -> Progress {
        Progress::new(std::fs::metadata(path).map_or(0, |about| about.len()))
    }

    /// A bar for the tensors of a checkpoint.
    pub(crate) fn of_tensors(reader: &CheckpointReader) -> Progress {
        let sizes = reader
            .entries()
            .filter_map(|(_, dtype, shape)| size(dtype, shape));
        Progress::new(sizes.fold(0, u64::saturating_add))
    }

    /// Advances by `bytes`.
    pub(crate) fn add(&self, bytes: u64) {
        self.to(self.bar.position().saturating_add(bytes));
    }

    /// Advances to `bytes`.
    pub(crate) fn to(&self, bytes: u64) {
        let late = self.start.elapsed() > Duration::from_secs(1);
        if self.is_terminal && late && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A spinner, where the total is not known: only on a terminal, and only after a second.
pub(crate) struct Spinner {
    bar: ProgressBar,
    /// Dropped when the wait is over.
    over: Option<Sender<()>>,
    late: Option<JoinHandle<()>>,
}

impl Spinner {
    /// A spinner with a message and a path.
    pub(crate) fn new(doing: &str, path: &Path) -> Spinner {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(plain(format_args!("{doing} {}", path.display())));
        let (over, is_over) = mpsc::channel();
        let late = std::io::stderr().is_terminal().then(|| {
            let bar = bar.clone();
            std::thread::spawn(move || {
                let second = Duration::from_secs(1);
                if is_over.recv_timeout(second) == Err(RecvTimeoutError::Timeout) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(Duration::from_millis(100));
                }
            })
        });
        Spinner {
            bar,
            over: Some(over),
            late,
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        drop(self.over.take());
        let _ = self.late.take().map(JoinHandle::join);
        self.bar.finish_and_clear();
    }
}
