//! Names that stand for several files: sets of shards, and patterns.

use std::path::{Path, PathBuf};

use super::glob;
use crate::error::{Code, FileKind, FormatError, Result};

/// The most shards that a set may have: as many as its five digits count.
const MOST: u32 = 99_999;

/// A set of files, each of which holds a part: `name-00000-of-00010` to `name-00009-of-00010`, and whatever follows that in each
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardedName {
    /// What stands before `-00000-of-00010`.
    pub before: String,
    /// How many shards there are.
    pub count: u32,
    /// What stands behind it, such as `.tfrecord`.
    pub behind: String,
}

impl ShardedName {
    /// A set by its short name: `name@10`, or `name@10.tfrecord`. Nothing if it is not of that form.
    ///
    /// ```
    /// use trainspec_formats::records::ShardedName;
    ///
    /// let set = ShardedName::parse("data/train@3.tfrecord").unwrap();
    /// assert_eq!(set.shard(2), "data/train-00002-of-00003.tfrecord");
    /// ```
    pub fn parse(text: &str) -> Option<ShardedName> {
        let (before, rest) = text.rsplit_once('@')?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, behind) = rest.split_at(digits);
        ShardedName::checked(before, count, behind)
    }

    /// The set that a file belongs to by its name, and which shard of it the file is.
    pub fn of_shard(text: &str) -> Option<(ShardedName, u32)> {
        // The rightmost place that has the form decides.
        (0..text.len()).rev().find_map(|at| {
            let rest = text.get(at..)?.strip_prefix('-')?;
            let (index, rest) = (rest.get(..5)?, rest.get(5..)?.strip_prefix("-of-")?);
            let (count, behind) = (rest.get(..5)?, rest.get(5..)?);
            let all_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
            if !all_digits(index) || behind.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let set = ShardedName::checked(&text[..at], count, behind)?;
            let index = index.parse().ok().filter(|index| *index < set.count)?;
            Some((set, index))
        })
    }

    fn checked(before: &str, count: &str, behind: &str) -> Option<ShardedName> {
        // A number, and not a name with an `@` in it.
        let name_goes_on = behind.contains('/') || behind.starts_with(char::is_alphanumeric);
        if count.bytes().any(|c| !c.is_ascii_digit()) || name_goes_on {
            return None;
        }
        let count = count
            .parse()
            .ok()
            .filter(|count| (1..=MOST).contains(count))?;
        Some(ShardedName {
            before: before.to_owned(),
            count,
            behind: behind.to_owned(),
        })
    }

    /// The name of a shard.
    pub fn shard(&self, index: u32) -> String {
        format!(
            "{}-{index:05}-of-{:05}{}",
            self.before, self.count, self.behind
        )
    }

    /// The names of all.
    pub fn shards(&self) -> impl Iterator<Item = PathBuf> + '_ {
        (0..self.count).map(|index| PathBuf::from(self.shard(index)))
    }
}

/// The files that a text means, in order: those of a set of shards (`name@10`), those that fit a pattern, by name, or the one that
/// has this name. It is an error if a shard is missing, or if nothing fits.
pub fn expand(text: &str) -> Result<Vec<PathBuf>> {
    // A file whose name looks like something else is still a file.
    if Path::new(text).exists() {
        return Ok(vec![PathBuf::from(text)]);
    }
    if glob::is_pattern(text) {
        let found = glob::paths(text)?;
        return match found.is_empty() {
            true => Err(FormatError::not_found(
                FileKind::Record,
                format!("no file fits `{text}`"),
            )),
            false => Ok(found),
        };
    }
    let Some(set) = ShardedName::parse(text) else {
        let error = FormatError::not_found(FileKind::Record, "there is no such file");
        return Err(error.in_file(text));
    };
    let shards: Vec<PathBuf> = set.shards().collect();
    let missing: Vec<&PathBuf> = shards.iter().filter(|path| !path.exists()).collect();
    match missing.first() {
        None => Ok(shards),
        Some(first) => Err(FormatError::new(
            Code::NotFound,
            FileKind::Record,
            format!(
                "{} of the {} shards of `{text}` are missing, such as this one",
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
    fn a_name_is_a_set_only_with_a_number() {
        let set = |before: &str, count, behind: &str| {
            Some(ShardedName {
                before: before.to_owned(),
                count,
                behind: behind.to_owned(),
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
            (set.before.as_str(), set.count, set.behind.as_str(), index),
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
