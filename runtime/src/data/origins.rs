//! Where records come from: file, record or line, and the epoch and ordinal that key random draws.
//!
//! Records that follow one another in a file are one run, so the origins of a block are a few numbers.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use trainspec_compiler::ir::philox::Key;

use crate::{self as runtime, SourceLocation};

/// The files of the sources of a run, in the order in which they were opened. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FileTable(Arc<RwLock<Vec<File>>>);

/// A file, and what its records are counted in.
type File = (Arc<Path>, Unit);

/// What the records of a file are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Records, from 1.
    Record,
    /// Lines, from 1.
    Line,
    /// Nothing: a file is one record.
    File,
}

impl FileTable {
    /// Adds the files of a source; gives the index of the first.
    pub(super) fn add(&self, files: &[Arc<Path>], unit: Unit) -> u32 {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Sources that read the same files have the same indices.
        let rows: Vec<_> = files.iter().map(|path| (path.clone(), unit)).collect();
        let known = table
            .windows(rows.len().max(1))
            .position(|known| known == rows);
        let first = known.unwrap_or(table.len());
        if known.is_none() {
            table.extend(rows);
        }
        first as u32
    }

    /// The location of a record.
    pub(super) fn location(&self, origin: Origin) -> Option<SourceLocation> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (path, unit) = table.get(origin.file as usize)?;
        let position = match unit {
            Unit::Record => runtime::Position::Record(origin.at),
            Unit::Line => runtime::Position::Line(origin.at),
            Unit::File => runtime::Position::File,
        };
        let path = path.clone();
        Some(SourceLocation { path, position })
    }
}

/// Two tables are equal where they name the same files.
impl PartialEq for FileTable {
    fn eq(&self, other: &FileTable) -> bool {
        let rows = |table: &FileTable| {
            let table = table.0.read().unwrap_or_else(PoisonError::into_inner);
            table.clone()
        };
        Arc::ptr_eq(&self.0, &other.0) || rows(self) == rows(other)
    }
}

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The epoch, counted from 0.
    pub pass: u64,
    /// Its ordinal in the source, counted from 0.
    pub ordinal: u64,
    /// Its number in its file.
    pub at: u64,
    /// The index of its file in the [`FileTable`].
    pub file: u32,
}

impl Origin {
    fn after(self, n: u64) -> Origin {
        Origin {
            ordinal: self.ordinal + n,
            at: self.at + n,
            ..self
        }
    }
}

/// The origins of the records of a block, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Origins(Vec<(Origin, usize)>);

impl Origins {
    /// Appends the origin of one more record.
    pub(super) fn push(&mut self, origin: Origin) {
        self.push_run(origin, 1);
    }

    fn push_run(&mut self, origin: Origin, count: usize) {
        if let Some((first, n)) = self.0.last_mut()
            && first.after(*n as u64) == origin
        {
            *n += count;
        } else if count > 0 {
            self.0.push((origin, count));
        }
    }

    /// Appends others.
    pub(super) fn append(&mut self, other: &Origins) {
        for (origin, count) in &other.0 {
            self.push_run(*origin, *count);
        }
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, n)| n).sum()
    }

    /// That of a record.
    pub(super) fn get(&self, mut row: usize) -> Option<Origin> {
        for (first, n) in &self.0 {
            if row < *n {
                return Some(first.after(row as u64));
            }
            row -= n;
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Origin> {
        let runs = self.0.iter();
        runs.flat_map(|(first, n)| (0..*n as u64).map(|i| first.after(i)))
    }

    /// Those of a range of records.
    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> Origins {
        let mut kept = Origins::default();
        let mut start = 0;
        for (first, n) in &self.0 {
            let (from, to) = (range.start.max(start), range.end.min(start + n));
            if from < to {
                kept.push_run(first.after((from - start) as u64), to - from);
            }
            start += n;
        }
        kept
    }

    /// Those of the records with ascending indices.
    pub(super) fn gather(&self, rows: &[usize]) -> Origins {
        let mut kept = Origins::default();
        let (mut runs, mut start) = (self.0.iter().peekable(), 0);
        for row in rows {
            while let Some((_, n)) = runs.peek()
                && start + n <= *row
            {
                start += n;
                runs.next();
            }
            if let Some((first, _)) = runs.peek() {
                kept.push(first.after((row - start) as u64));
            }
        }
        kept
    }

    /// The keys of random draws for a range of records, in an epoch of the stage that draws: distinct for each of its epochs, each
    /// epoch of a record, and each ordinal.
    pub(super) fn keys(&self, pass: u64, range: std::ops::Range<usize>) -> Vec<i64> {
        let mut keys = Vec::with_capacity(range.len());
        let mut start = 0;
        for (first, n) in &self.0 {
            let (from, to) = (range.start.max(start), range.end.min(start + n));
            let epoch = match (pass, first.pass) {
                (0, 0) => 0,
                (pass, own) => Key(0).fold(pass as i64).fold(own as i64).0,
            };
            for row in from..to {
                let ordinal = first.ordinal + (row - start) as u64;
                keys.push(epoch.wrapping_add(ordinal) as i64);
            }
            start += n;
        }
        keys
    }

    /// The same places, as records of the first epoch that are counted from an ordinal on.
    pub(super) fn renumbered(&self, first: u64) -> Origins {
        let numbered = self.iter().zip(first..).map(|(origin, ordinal)| Origin {
            pass: 0,
            ordinal,
            ..origin
        });
        numbered.collect()
    }

    /// Counts the epochs from a later one.
    pub(super) fn add_passes(&mut self, passes: u64) {
        self.0
            .iter_mut()
            .for_each(|(first, _)| first.pass += passes);
    }

    /// The first and the last epoch.
    pub(super) fn passes(&self) -> Option<(u64, u64)> {
        let passes = || self.0.iter().map(|(first, _)| first.pass);
        passes().min().zip(passes().max())
    }

    /// The bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(self.0.as_slice()) as u64
    }
}

impl FromIterator<Origin> for Origins {
    fn from_iter<I: IntoIterator<Item = Origin>>(origins: I) -> Origins {
        let mut all = Origins::default();
        origins.into_iter().for_each(|origin| all.push(origin));
        all
    }
}

/// The locations of the records of an element.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Locations {
    pub(super) origins: Origins,
    pub(super) files: FileTable,
}

impl Locations {
    /// That of a record.
    pub fn get(&self, row: usize) -> Option<SourceLocation> {
        self.files.location(self.origins.get(row)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(pass: u64, ordinal: u64) -> Origin {
        Origin {
            pass,
            ordinal,
            at: ordinal + 1,
            file: 0,
        }
    }

    #[test]
    fn neighbours_are_one_run() {
        let all: Origins = (0..100).map(|i| origin(0, i)).collect();
        assert_eq!((all.0.len(), all.len()), (1, 100));
        assert_eq!(
            all.slice(10..13).iter().collect::<Vec<_>>(),
            [10, 11, 12].map(|i| origin(0, i))
        );
        assert_eq!(all.gather(&[3, 4, 9]).0.len(), 2);
        assert_eq!(all.gather(&[3, 4, 9]).get(2), Some(origin(0, 9)));
        let mut two = all.slice(98..100);
        two.append(&(0..2).map(|i| origin(1, i)).collect());
        assert_eq!((two.0.len(), two.passes()), (2, Some((0, 1))));
        assert_eq!(two.get(2), Some(origin(1, 0)));
        assert_eq!(two.get(4), None);
    }

    #[test]
    fn epochs_have_keys_of_their_own() {
        let all: Origins = [origin(0, 0), origin(0, 1), origin(1, 0), origin(1, 1)]
            .into_iter()
            .collect();
        let mut keys = all.keys(0, 0..4);
        assert_eq!(keys[..2], [0, 1]);
        assert_eq!(all.keys(0, 1..3), keys[1..3]);
        keys.extend(all.keys(1, 0..4));
        keys.extend(all.keys(2, 0..4));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 12);
    }
}
