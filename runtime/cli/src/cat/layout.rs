//! A tensor in the layout of NumPy's `array2string`: nested brackets, aligned columns, and `...` for the middle of large ones.

use std::io::{self, Write};

use trainspec_formats::checkpoint::{DType, Tensor};

use crate::output::plain;
use crate::tensors::{FormattedElements, typed};

/// Tensors of more elements are summarized (NumPy's `threshold`).
const SUMMARIZE_THRESHOLD: usize = 1000;
/// The elements at each end of each dimension of a summarized tensor (NumPy's `edgeitems`).
const EDGE_ITEMS: usize = 3;
/// The most characters of a string.
const MAX_STRING_CHARS: usize = 200;
/// The width of a line in characters (NumPy's `linewidth`).
const LINE_WIDTH: usize = 80;

/// Writes a line with name, type and shape, and then the elements.
pub(super) fn put(name: &str, tensor: &Tensor, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let shape = tensor.shape();
    writeln!(out, "{}: {}", plain(name), typed(tensor.dtype(), shape))?;
    let elements = FormattedElements::new(tensor);
    if elements.count() == 0 {
        return writeln!(out, "[]");
    }
    let mut page = Page {
        elements: &elements,
        shape,
        edge: (!all && elements.count() > SUMMARIZE_THRESHOLD).then_some(EDGE_ITEMS),
        longest: if all { usize::MAX } else { MAX_STRING_CHARS },
        width: 0,
    };
    if shape.is_empty() {
        return writeln!(out, "{}", elements.readable(0, page.longest));
    }
    // Strings are not aligned in columns.
    if !matches!(tensor.dtype(), DType::String | DType::Variant) {
        page.width = page.widest(0, 0);
    }
    page.block(0, 0, out)?;
    writeln!(out)
}

struct Page<'a> {
    elements: &'a FormattedElements<'a>,
    shape: &'a [usize],
    edge: Option<usize>,
    /// The most characters of a string.
    longest: usize,
    /// The width of a column.
    width: usize,
}

impl Page<'_> {
    /// The indices of a dimension that are shown; `None` for the gap where some are left out.
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

    /// The greatest width of the elements in the `block`-th block of a dimension.
    fn widest(&self, dimension: usize, block: usize) -> usize {
        let indices = self.shown(dimension).flatten();
        let widths = indices.map(|i| {
            let at = block * self.shape[dimension] + i;
            match self.last(dimension) {
                true => self.elements.readable(at, self.longest).len(),
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
        for (n, index) in self.shown(dimension).enumerate() {
            if n > 0 {
                // Matrices are separated by a blank line, higher ranks by more.
                let lines = "\n".repeat(self.shape.len() - dimension - 1);
                write!(out, ",{lines}{}", " ".repeat(dimension + 1))?;
            }
            match index {
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
        for (n, index) in self.shown(dimension).enumerate() {
            let text = match index {
                Some(i) => self
                    .elements
                    .readable(block * self.shape[dimension] + i, self.longest),
                None => "...".to_owned(),
            };
            // Numbers are aligned to the right; the gap is not padded.
            let width = if index.is_some() { self.width } else { 0 };
            let size = text.chars().count().max(width);
            if n > 0 {
                match column + size + 3 > LINE_WIDTH {
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
