//! Source spans: the byte range that a node came from.

/// A source text, by its index in the list that the caller of the front end holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub u32);

/// A range of bytes in a source text.
///
/// ```
/// use trainspec_ir::{FileId, Span};
///
/// let span = Span::new(FileId(0), 4, 9);
/// assert_eq!(&"let hello = 1;"[span.range()], "hello");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end` of `file`.
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        // Texts are at most a few megabytes (the front end refuses longer ones), so the casts lose nothing.
        Span {
            file,
            start: start as u32,
            end: end as u32,
        }
    }

    /// The span as a range of byte offsets.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The smallest span that covers both, which must be of one file.
    pub fn to(self, other: Span) -> Span {
        debug_assert_eq!(self.file, other.file);
        Span {
            file: self.file,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}
