//! A way to read a buffer.

use crate::kernel::BufferId;

/// A tensor that lies in a buffer, perhaps with its dimensions in another order, repeated, or in part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// The place of the first element.
    pub offset: usize,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// How far apart neighbours are, for each dimension; 0 where an element is repeated.
    pub strides: Vec<usize>,
}

/// The strides of a tensor that lies row after row.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1].max(1);
    }
    strides
}

impl View {
    /// A whole buffer.
    pub fn whole(buffer: BufferId, shape: &[usize]) -> View {
        View {
            buffer,
            offset: 0,
            shape: shape.to_vec(),
            strides: row_major(shape),
        }
    }

    /// How many elements the view has.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether a dimension has the same elements at all its places.
    pub fn is_spread(&self) -> bool {
        let mut dims = self.shape.iter().zip(&self.strides);
        dims.any(|(size, stride)| *size > 1 && *stride == 0)
    }

    /// Whether its elements lie row after row, one behind the other.
    pub fn is_contiguous(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let expected = row_major(&self.shape);
        (0..self.shape.len()).all(|i| self.shape[i] == 1 || self.strides[i] == expected[i])
    }

    /// With its dimensions in another order.
    pub fn transposed(&self, order: &[usize]) -> View {
        let pick = |list: &[usize]| order.iter().map(|i| list[*i]).collect();
        View {
            buffer: self.buffer,
            offset: self.offset,
            shape: pick(&self.shape),
            strides: pick(&self.strides),
        }
    }

    /// Repeated to a shape.
    pub fn broadcast(&self, shape: &[usize]) -> View {
        let new = shape.len() - self.shape.len();
        let stride = |i: usize| match i.checked_sub(new) {
            Some(own) if self.shape[own] == shape[i] => self.strides[own],
            _ => 0,
        };
        View {
            buffer: self.buffer,
            offset: self.offset,
            shape: shape.to_vec(),
            strides: (0..shape.len()).map(stride).collect(),
        }
    }

    /// A part.
    pub fn sliced(&self, begin: &[usize], size: &[usize], stride: &[usize]) -> View {
        let empty = size.contains(&0);
        let offset: usize = begin.iter().zip(&self.strides).map(|(b, s)| b * s).sum();
        View {
            buffer: self.buffer,
            // A part without elements may begin behind the end.
            offset: if empty {
                self.offset
            } else {
                self.offset + offset
            },
            shape: size.to_vec(),
            strides: self
                .strides
                .iter()
                .zip(stride)
                .map(|(a, b)| a * b)
                .collect(),
        }
    }

    /// The same elements in another shape, where no element has to move.
    pub fn reshaped(&self, shape: &[usize]) -> Option<View> {
        if self.is_contiguous() {
            let strides = row_major(shape);
            return Some(View {
                buffer: self.buffer,
                offset: self.offset,
                shape: shape.to_vec(),
                strides,
            });
        }
        // Dimensions of size 1 may come and go anywhere.
        let kept = |shape: &[usize]| {
            shape
                .iter()
                .copied()
                .filter(|n| *n != 1)
                .collect::<Vec<_>>()
        };
        if kept(&self.shape) != kept(shape) {
            return None;
        }
        let mut own = (0..self.shape.len())
            .filter(|i| self.shape[*i] != 1)
            .map(|i| self.strides[i]);
        let strides = shape
            .iter()
            .map(|n| if *n == 1 { 0 } else { own.next().unwrap_or(0) })
            .collect();
        Some(View {
            buffer: self.buffer,
            offset: self.offset,
            shape: shape.to_vec(),
            strides,
        })
    }
}
