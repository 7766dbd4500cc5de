//! `BytesColumn`: byte strings in one buffer.

use crate::error::{FileKind, Result};
use crate::memory;

/// Byte strings in one buffer, with their ends: an element takes four bytes besides its own (eight past 4 GiB).
///
/// ```
/// use trainspec_formats::tensor::BytesColumn;
///
/// let column: BytesColumn = ["a", "bc"].into_iter().collect();
/// assert_eq!(column.len(), 2);
/// assert_eq!(&column[1], b"bc");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BytesColumn {
    data: Vec<u8>,
    /// The end of each, as long as it fits into 32 bits,
    ends: Vec<u32>,
    /// and the ends of the rest.
    wide_ends: Vec<u64>,
}

impl BytesColumn {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.ends.len() + self.wide_ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The concatenation of all strings.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The string at an index.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = self.end(index)?;
        let start = match index {
            0 => 0,
            _ => self.end(index - 1)?,
        };
        self.data.get(start..end)
    }

    /// The first string.
    pub fn first(&self) -> Option<&[u8]> {
        self.get(0)
    }

    /// All strings, in order.
    pub fn iter(&self) -> BytesIter<'_> {
        BytesIter {
            column: self,
            next: 0,
        }
    }

    /// Appends a string.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        match u32::try_from(self.data.len()) {
            Ok(end) => self.ends.push(end),
            Err(_) => self.wide_ends.push(self.data.len() as u64),
        }
    }

    /// Appends a string of a file.
    #[inline]
    pub(crate) fn try_push(&mut self, kind: FileKind, value: &[u8]) -> Result<()> {
        memory::reserve(kind, &mut self.data, value.len())?;
        match u32::try_from(self.data.len() + value.len()) {
            Ok(_) => memory::reserve(kind, &mut self.ends, 1)?,
            Err(_) => memory::reserve(kind, &mut self.wide_ends, 1)?,
        }
        self.push(value);
        Ok(())
    }

    /// Reserves memory for `count` more strings, which have `bytes` bytes together.
    pub(crate) fn try_reserve(&mut self, kind: FileKind, count: usize, bytes: usize) -> Result<()> {
        memory::reserve(kind, &mut self.data, bytes)?;
        match u32::try_from(self.data.len().saturating_add(bytes)) {
            Ok(_) => memory::reserve(kind, &mut self.ends, count),
            // How many ends are wide shows when the strings come.
            Err(_) => Ok(()),
        }
    }

    /// The end of a string in the buffer.
    pub fn end(&self, index: usize) -> Option<usize> {
        match self.ends.get(index) {
            Some(end) => Some(*end as usize),
            None => {
                let far = self.wide_ends.get(index.checked_sub(self.ends.len())?);
                far.map(|end| *end as usize)
            }
        }
    }

    /// Keeps the first `count` strings.
    pub(crate) fn truncate(&mut self, count: usize) {
        let end = match count {
            0 => 0,
            _ => self.end(count - 1).unwrap_or(self.data.len()),
        };
        self.data.truncate(end);
        self.wide_ends
            .truncate(count.saturating_sub(self.ends.len()));
        self.ends.truncate(count);
    }
}

impl std::ops::Index<usize> for BytesColumn {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        match self.get(index) {
            Some(value) => value,
            None => panic!("there are {} strings, and no number {index}", self.len()),
        }
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for BytesColumn {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> BytesColumn {
        let mut column = BytesColumn::default();
        values
            .into_iter()
            .for_each(|value| column.push(value.as_ref()));
        column
    }
}

impl From<Vec<Vec<u8>>> for BytesColumn {
    fn from(strings: Vec<Vec<u8>>) -> BytesColumn {
        strings.into_iter().collect()
    }
}

/// The strings of a column, in order.
#[derive(Debug, Clone)]
pub struct BytesIter<'a> {
    column: &'a BytesColumn,
    next: usize,
}

impl<'a> Iterator for BytesIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let value = self.column.get(self.next)?;
        self.next += 1;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.column.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for BytesIter<'_> {}

impl<'a> IntoIterator for &'a BytesColumn {
    type Item = &'a [u8];
    type IntoIter = BytesIter<'a>;

    fn into_iter(self) -> BytesIter<'a> {
        self.iter()
    }
}
