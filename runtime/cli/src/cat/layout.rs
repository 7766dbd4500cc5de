//! A tensor as NumPy shows arrays: brackets for dimensions, columns, and dots for the middle of large ones.

use std::io::{self, Write};

use trainspec_formats::checkpoint::{DType, Tensor};

use crate::tensors::{Texts, typed};

/// So many elements are shown in full.
const MANY: usize = 1000;
/// Of more, so many at each end of each dimension.
const EDGE: usize = 3;
/// Of a string, so many characters.
const LONG: usize = 200;
/// How wide a line becomes.
const WIDTH: usize = 80;

/// Writes a line with name, type and shape, and then the elements.
pub(super) fn put(name: &str, tensor: &Tensor, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let shape = tensor.shape();
    writeln!(out, "{name}: {}", typed(tensor.dtype(), shape))?;
    let texts = Texts::new(tensor);
    if texts.count() == 0 {
        return writeln!(out, "[]");
    }
    let mut page = Page {
        texts: &texts,
        shape,
        edge: (!all && texts.count() > MANY).then_some(EDGE),
        longest: if all { usize::MAX } else { LONG },
        width: 0,
    };
    if shape.is_empty() {
        return writeln!(out, "{}", texts.readable(0, page.longest));
    }
    // Strings stand better one after the other.
    if !matches!(tensor.dtype(), DType::String | DType::Variant) {
        page.width = page.widest(0, 0);
    }
    page.block(0, 0, out)?;
    writeln!(out)
}

struct Page<'a> {
    texts: &'a Texts<'a>,
    shape: &'a [usize],
    edge: Option<usize>,
    longest: usize,
    /// Of a column.
    width: usize,
}

impl Page<'_> {
    /// The places of a dimension that are shown; nothing where some are left out.
    fn shown(&self, dimension: usize) -> impl Iterator<Item = Option<usize>> + use<> {
        let size = self.shape[dimension];
        let (head, tail) = match self.edge {
            Some(edge) if size > 2 * edge => (edge, size - edge),
            _ => (size, size),
        };
        let gap = (head < tail).then_some(None);
        (0..head).map(Some).chain(gap).chain((tail..size).map(Some))
    }

    fn last(&self, dimension: usize) -> bool {
        dimension + 1 == self.shape.len()
    }

    /// The longest text of the elements from the `block`-th of a dimension on.
    fn widest(&self, dimension: usize, block: usize) -> usize {
        let places = self.shown(dimension).flatten();
        let widths = places.map(|i| {
            let at = block * self.shape[dimension] + i;
            match self.last(dimension) {
                true => self.texts.readable(at, self.longest).len(),
                false => self.widest(dimension + 1, at),
            }
        });
        widths.max().unwrap_or(0)
    }

    fn block(&self, dimension: usize, block: usize, out: &mut dyn Write) -> io::Result<()> {
        if self.last(dimension) {
            return self.row(dimension, block, out);
        }
        write!(out, "[")?;
        for (n, place) in self.shown(dimension).enumerate() {
            if n > 0 {
                // Matrices have a line between them, and what is made of matrices has more.
                let lines = "\n".repeat(self.shape.len() - dimension - 1);
                write!(out, ",{lines}{}", " ".repeat(dimension + 1))?;
            }
            match place {
                Some(i) => {
                    self.block(dimension + 1, block * self.shape[dimension] + i, out)?;
                }
                None => write!(out, "...")?,
            }
        }
        write!(out, "]")
    }

    fn row(&self, dimension: usize, block: usize, out: &mut dyn Write) -> io::Result<()> {
        let indent = dimension + 1;
        let mut column = indent;
        write!(out, "[")?;
        for (n, place) in self.shown(dimension).enumerate() {
            let text = match place {
                Some(i) => self
                    .texts
                    .readable(block * self.shape[dimension] + i, self.longest),
                None => "...".to_owned(),
            };
            // The column ends at the widest number; dots need no room.
            let width = if place.is_some() { self.width } else { 0 };
            let size = text.chars().count().max(width);
            if n > 0 {
                match column + size + 3 > WIDTH {
                    true => {
                        write!(out, ",\n{}", " ".repeat(indent))?;
                        column = indent;
                    }
                    false => {
                        write!(out, ", ")?;
                        column += 2;
                    }
                }
            }
            write!(out, "{text:>width$}")?;
            column += size;
        }
        write!(out, "]")
    }
}
