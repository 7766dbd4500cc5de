//! Sharded file names (`name@10`, `name-00000-of-00010`) and their expansion.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::glob;
use crate::storage::{self, Storage};

/// The maximum number of shards: five digits.
const MAX_SHARDS: u32 = 99_999;

/// A set of shards: `name-00000-of-00010` to `name-00009-of-00010`, with a common suffix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardedName {
    /// The name before `-00000-of-00010`.
    pub prefix: String,
    /// The number of shards.
    pub count: u32,
    /// The name after it, such as `.tfrecord`.
    pub suffix: String,
}

impl ShardedName {
    /// A set by its shard spec: `name@10`, or `name@10.tfrecord`. `None` if it is not of that form.
    ///
    /// ```
    /// use trainspec_formats::records::ShardedName;
    ///
    /// let set = ShardedName::parse("data/train@3.tfrecord").unwrap();
    /// assert_eq!(set.shard(2), "data/train-00002-of-00003.tfrecord");
    /// ```
    pub fn parse(pattern: &str) -> Option<ShardedName> {
        let (prefix, rest) = pattern.rsplit_once('@')?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, suffix) = rest.split_at(digits);
        ShardedName::checked(prefix, count, suffix)
    }

    /// The set that a file belongs to by its name, and its shard index.
    pub fn of_shard(pattern: &str) -> Option<(ShardedName, u32)> {
        // The rightmost match decides.
        (0..pattern.len()).rev().find_map(|at| {
            let rest = pattern.get(at..)?.strip_prefix('-')?;
            let (index, rest) = (rest.get(..5)?, rest.get(5..)?.strip_prefix("-of-")?);
            let (count, suffix) = (rest.get(..5)?, rest.get(5..)?);
            let all_digits = |pattern: &str| pattern.bytes().all(|c| c.is_ascii_digit());
            if !all_digits(index) || suffix.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let set = ShardedName::checked(&pattern[..at], count, suffix)?;
            let index = index.parse().ok().filter(|index| *index < set.count)?;
            Some((set, index))
        })
    }

    fn checked(prefix: &str, count: &str, suffix: &str) -> Option<ShardedName> {
        // A number, and not a name with an `@` in it.
        let name_goes_on = suffix.contains('/') || suffix.starts_with(char::is_alphanumeric);
        if count.bytes().any(|c| !c.is_ascii_digit()) || name_goes_on {
            return None;
        }
        let count = count
            .parse()
            .ok()
            .filter(|count| (1..=MAX_SHARDS).contains(count))?;
        Some(ShardedName {
            prefix: prefix.to_owned(),
            count,
            suffix: suffix.to_owned(),
        })
    }

    /// The name of a shard.
    pub fn shard(&self, index: u32) -> String {
        format!(
            "{}-{index:05}-of-{:05}{}",
            self.prefix, self.count, self.suffix
        )
    }

    /// The names of all shards.
    pub fn shards(&self) -> impl Iterator<Item = PathBuf> + '_ {
        (0..self.count).map(|index| PathBuf::from(self.shard(index)))
    }
}

/// The files that a name expands to, in order: those of a set of shards (`name@10`), the sorted matches of a glob pattern, or the file
/// of this name. It is an error if a shard is missing, or if nothing matches.
pub fn expand(pattern: &str) -> Result<Vec<PathBuf>> {
    expand_in(&storage::local(), pattern)
}

/// [`expand`] in any storage.
pub fn expand_in(storage: &Arc<dyn Storage>, pattern: &str) -> Result<Vec<PathBuf>> {
    // A file whose name looks like something else is still a file.
    if storage.exists(Path::new(pattern)) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    if glob::is_pattern(pattern) {
        let found = glob::expand(Path::new(""), pattern, |folder| storage.list(folder))?;
        return match found.is_empty() {
            true => Err(FormatError::not_found(
                FileKind::Record,
                format!("no file matches `{pattern}`"),
            )),
            false => Ok(found),
        };
    }
    let Some(set) = ShardedName::parse(pattern) else {
        let error = FormatError::not_found(FileKind::Record, "there is no such file");
        return Err(error.in_file(pattern));
    };
    let shards: Vec<PathBuf> = set.shards().collect();
    let missing: Vec<&PathBuf> = shards.iter().filter(|path| !storage.exists(path)).collect();
    match missing.first() {
        None => Ok(shards),
        Some(first) => Err(FormatError::new(
            Code::NotFound,
            FileKind::Record,
            format!(
                "{} of the {} shards of `{pattern}` are missing, such as this one",
                missing.len(),
                set.count
            ),
        )
        .in_file(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_spec_requires_a_count() {
        let set = |prefix: &str, count, suffix: &str| {
            Some(ShardedName {
                prefix: prefix.to_owned(),
                count,
                suffix: suffix.to_owned(),
            })
        };
        assert_eq!(ShardedName::parse("a@10"), set("a", 10, ""));
        assert_eq!(
            ShardedName::parse("b@c/a@2.rec.gz"),
            set("b@c/a", 2, ".rec.gz")
        );
        for name in ["a", "a@", "a@0", "a@b", "a@3b", "a@3/b", "a@123456", "@-1"] {
            assert_eq!(ShardedName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_shard_knows_its_set() {
        let (set, index) = ShardedName::of_shard("d/a-00003-of-00010.rec").unwrap();
        assert_eq!(
            (set.prefix.as_str(), set.count, set.suffix.as_str(), index),
            ("d/a", 10, ".rec", 3)
        );
        assert_eq!(set.shard(index), "d/a-00003-of-00010.rec");
        for name in [
            "a-00010-of-00010",
            "a-0001-of-00010",
            "a-00001-of-000101",
            "é",
        ] {
            assert_eq!(ShardedName::of_shard(name), None, "{name}");
        }
    }
}
