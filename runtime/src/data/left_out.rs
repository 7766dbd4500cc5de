//! Records that are left out because they cannot be decoded: `on_error: skip(max: 10)` of a source (`Dataset.ignore_errors`).
//!
//! Which ones they are is a function of the data alone, so a position has only how many there were of this epoch so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::data::{Position, Records};
use crate::{DataError, Error};

/// How many of them are described.
const MAX_DESCRIBED: usize = 5;

const WORD: &str = "on_error";
const VERSION: u32 = 1;

/// The records of a data set that were left out because they cannot be decoded.
///
/// ```
/// use trainspec::LeftOut;
///
/// let left_out = LeftOut { records: 2, first: vec!["iris.csv:5: column `x`: `red` is no f32".to_owned()] };
/// assert_eq!(
///     left_out.to_string(),
///     "2 records of an epoch cannot be decoded and were left out: iris.csv:5: column `x`: `red` is no f32; ..."
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// How many, in the epoch that had most.
    pub records: u64,
    /// The first of them: where they are, and what is wrong.
    pub first: Vec<String>,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.records {
            1 => f.write_str("1 record of an epoch cannot be decoded and was left out: ")?,
            n => write!(
                f,
                "{n} records of an epoch cannot be decoded and were left out: "
            )?,
        }
        f.write_str(&self.first.join("; "))?;
        match self.records > self.first.len() as u64 {
            true => f.write_str("; ..."),
            false => Ok(()),
        }
    }
}

impl LeftOut {
    /// Adds those of another source.
    pub(super) fn add(&mut self, other: &LeftOut) {
        self.records += other.records;
        self.first.extend_from_slice(&other.first);
        self.first.truncate(MAX_DESCRIBED);
    }
}

/// What a source does with a record that cannot be decoded. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct OnError(Option<Arc<Mutex<Skips>>>);

#[derive(Debug)]
struct Skips {
    max: u64,
    /// How many records of this epoch were left out.
    count: u64,
    report: LeftOut,
}

impl OnError {
    /// Leaves out that many records of an epoch; `None` is the first error.
    pub(super) fn new(max: Option<u64>) -> OnError {
        OnError(max.map(|max| {
            Arc::new(Mutex::new(Skips {
                max,
                count: 0,
                report: LeftOut::default(),
            }))
        }))
    }

    fn skips(&self) -> Option<MutexGuard<'_, Skips>> {
        let skips = self.0.as_ref()?;
        Some(skips.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether records may be left out: then each must be decoded to know.
    pub(super) fn is_skip(&self) -> bool {
        self.0.is_some()
    }

    /// Leaves out a record with that error, or fails with it.
    pub(super) fn leave_out(&self, error: DataError) -> Result<(), DataError> {
        let Some(mut skips) = self.skips() else {
            return Err(error);
        };
        if skips.count == skips.max {
            let max = skips.max;
            let message = format!(
                "{}; {max} other records of this epoch were left out, and `max` is {max}",
                error.message
            );
            let error = DataError { message, ..error };
            return Err(error.help("`on_error: skip(max: ...)` of the source allows more"));
        }
        skips.count += 1;
        skips.report.records = skips.report.records.max(skips.count);
        if skips.report.first.len() < MAX_DESCRIBED {
            let described = error.to_string();
            if !skips.report.first.contains(&described) {
                skips.report.first.push(described);
            }
        }
        Ok(())
    }

    /// How many records of this epoch were left out.
    pub(super) fn count(&self) -> u64 {
        self.skips().map_or(0, |skips| skips.count)
    }

    /// Sets how many records of this epoch were left out: 0 at its beginning.
    pub(super) fn set_count(&self, count: u64) {
        if let Some(mut skips) = self.skips() {
            skips.count = count;
        }
    }

    /// Those that were left out so far, if there are any.
    pub(super) fn report(&self) -> Option<LeftOut> {
        let report = self.skips()?.report.clone();
        (report.records > 0).then_some(report)
    }

    /// Appends the number of this epoch to a position.
    pub(super) fn position(&self, at: &mut Position) {
        if self.is_skip() {
            at.push(WORD, VERSION, &[self.count()]);
        }
    }

    /// Takes that number from a position.
    pub(super) fn seek(&self, at: &mut Records<'_>) -> Result<(), Error> {
        if self.is_skip() {
            let [count] = at.pop(WORD, VERSION)?;
            self.set_count(count);
            if let Some(mut skips) = self.skips() {
                skips.report.records = skips.report.records.max(count);
            }
        }
        Ok(())
    }
}
