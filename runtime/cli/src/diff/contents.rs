//! What a checkpoint contains, whether it can be read or not.

use std::collections::BTreeSet;

use trainspec_formats::checkpoint::{CheckpointReader, DType};

/// The tensors of a checkpoint, those of unsupported types included.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    reader: &'a CheckpointReader,
    unsupported: BTreeSet<&'a str>,
}

/// The type and the shape of a tensor, unless its type is unsupported.
pub(super) type Entry<'a> = Result<(DType, &'a [usize]), Unsupported>;

/// The type of a tensor is unsupported.
#[derive(Debug)]
pub(super) struct Unsupported;

impl<'a> Contents<'a> {
    pub(super) fn new(reader: &'a CheckpointReader) -> Contents<'a> {
        let unsupported = reader.unsupported().into_iter().map(|(name, _)| name);
        Contents {
            reader,
            unsupported: unsupported.collect(),
        }
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let entries = self.reader.entries().map(|(name, _, _)| name);
        entries.chain(self.unsupported.iter().copied())
    }

    /// A tensor by its name.
    pub(super) fn get(&self, name: &str) -> Option<Entry<'a>> {
        let unsupported = self.unsupported.contains(name).then_some(Err(Unsupported));
        self.reader.entry(name).map(Ok).or(unsupported)
    }
}
