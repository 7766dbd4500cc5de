//! Retention: which checkpoints stay on disk, by the rules of `Saver` and of `CheckpointManager`.
//!
//! In: the path of a new checkpoint and the time. Out: the paths to delete. Pure: no file is touched, no clock is read.

use std::path::{Path, PathBuf};

/// A checkpoint and the time it was written, in seconds since the Unix epoch.
///
/// ```
/// use trainspec::saver::Retained;
///
/// let one = Retained { path: "run/model-5".into(), time: 1.5e9 };
/// assert_eq!(one.path.file_name().unwrap(), "model-5");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Retained {
    /// Its prefix.
    pub path: PathBuf,
    /// When it was written. Infinity where that is not known: then it is never deleted.
    pub time: f64,
}

/// The rule of `tf.compat.v1.train.Saver`: the newest `max_to_keep` stay, and of the older ones one for every interval.
///
/// The intervals begin when the rule is made. A checkpoint that stays for good leaves the list.
///
/// ```
/// use trainspec::saver::SaverRetention;
///
/// let mut rule = SaverRetention::new(Some(2), 10_000.0, 0.0);
/// assert!(rule.record("model-1".as_ref(), 1.0).is_empty());
/// assert!(rule.record("model-2".as_ref(), 2.0).is_empty());
/// assert_eq!(rule.record("model-3".as_ref(), 3.0), [std::path::Path::new("model-1")]);
/// assert_eq!(rule.listed().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SaverRetention {
    max_to_keep: Option<u32>,
    interval_seconds: f64,
    /// A checkpoint that is dropped and is younger than this stays for good.
    next_preserved: f64,
    listed: Vec<Retained>,
}

impl SaverRetention {
    /// A rule that begins at a Unix time. `None` and 0 keep all, and list none.
    pub fn new(max_to_keep: Option<u32>, keep_every_n_hours: f64, now: f64) -> SaverRetention {
        let interval_seconds = keep_every_n_hours * 3600.0;
        SaverRetention {
            max_to_keep: max_to_keep.filter(|&n| n > 0),
            interval_seconds,
            next_preserved: now + interval_seconds,
            listed: Vec::new(),
        }
    }

    /// Adds a checkpoint; returns those to delete, the oldest first. One that is listed already moves to the end.
    pub fn record(&mut self, path: &Path, now: f64) -> Vec<PathBuf> {
        let Some(max) = self.max_to_keep else {
            return Vec::new();
        };
        self.listed.retain(|one| one.path != path);
        self.listed.push(Retained {
            path: path.to_owned(),
            time: now,
        });
        let excess = self.listed.len().saturating_sub(max as usize);
        let mut dropped = Vec::new();
        for old in self.listed.drain(..excess) {
            match old.time > self.next_preserved {
                true => self.next_preserved += self.interval_seconds,
                false => dropped.push(old.path),
            }
        }
        dropped
    }

    /// The checkpoints that the rule may still drop, the oldest first.
    pub fn listed(&self) -> &[Retained] {
        &self.listed
    }

    /// Replaces the list.
    pub fn set_listed(&mut self, listed: Vec<Retained>) {
        self.listed = listed;
    }
}

/// The rule of `tf.train.CheckpointManager`: the newest `max_to_keep` stay, and of the older ones each that is an interval younger than
/// the last that stayed for good.
///
/// ```
/// use trainspec::saver::ManagerRetention;
///
/// let mut rule = ManagerRetention::new(Some(1), Some(1.0), 0.0);
/// rule.record("ckpt-1".as_ref(), 3600.0);
/// rule.record("ckpt-2".as_ref(), 3700.0);
/// // The first is an hour younger than the rule: it stays for good, and is no longer listed.
/// assert!(rule.sweep().is_empty());
/// assert_eq!(rule.last_preserved(), 3600.0);
/// rule.record("ckpt-3".as_ref(), 3800.0);
/// assert_eq!(rule.sweep(), [std::path::Path::new("ckpt-2")]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ManagerRetention {
    max_to_keep: Option<u32>,
    interval_seconds: Option<f64>,
    last_preserved: f64,
    listed: Vec<Retained>,
}

impl ManagerRetention {
    /// A rule for a folder without checkpoints, made at a Unix time. `None` keeps and lists all.
    pub fn new(
        max_to_keep: Option<u32>,
        keep_every_n_hours: Option<f64>,
        now: f64,
    ) -> ManagerRetention {
        ManagerRetention {
            max_to_keep: max_to_keep.filter(|&n| n > 0),
            // No interval is 0 as well.
            interval_seconds: keep_every_n_hours.filter(|&h| h > 0.0).map(|h| h * 3600.0),
            // A second earlier, so that a manager that is made again at once keeps no checkpoint twice.
            last_preserved: now - 1.0,
            listed: Vec::new(),
        }
    }

    /// Goes on where the rule of an earlier process ended. A time in the future counts as `now`: the clock was set back.
    pub fn recover(&mut self, listed: Vec<Retained>, last_preserved: f64, now: f64) {
        self.last_preserved = last_preserved.min(now);
        let since = self.last_preserved;
        let clamped = listed.into_iter().map(|one| Retained {
            time: one.time.min(now),
            ..one
        });
        self.listed = clamped.filter(|one| one.time > since).collect();
    }

    /// Adds a checkpoint. One that is listed already moves to the end.
    pub fn record(&mut self, path: &Path, now: f64) {
        self.listed.retain(|one| one.path != path);
        self.listed.push(Retained {
            path: path.to_owned(),
            time: now,
        });
    }

    /// Drops what is too much from the list; returns what to delete, the oldest first.
    pub fn sweep(&mut self) -> Vec<PathBuf> {
        let Some(max) = self.max_to_keep else {
            return Vec::new();
        };
        let excess = self.listed.len().saturating_sub(max as usize);
        let mut dropped = Vec::new();
        for old in self.listed.drain(..excess) {
            match self.interval_seconds {
                Some(interval) if old.time - interval >= self.last_preserved => {
                    self.last_preserved = old.time;
                }
                _ => dropped.push(old.path),
            }
        }
        dropped
    }

    /// The checkpoints of the list, the oldest first.
    pub fn listed(&self) -> &[Retained] {
        &self.listed
    }

    /// The time of the last checkpoint that stayed for good.
    pub fn last_preserved(&self) -> f64 {
        self.last_preserved
    }
}
