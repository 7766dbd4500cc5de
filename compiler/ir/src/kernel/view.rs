//! Strided views of buffers: transposes, broadcasts, slices and reshapes without a copy.

use crate::kernel::BufferId;

/// A strided view: a tensor in a buffer, perhaps transposed, broadcast or sliced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// The offset of the first element.
    pub offset: usize,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// The strides in elements; 0 where an element is broadcast.
    pub strides: Vec<usize>,
}

/// The strides of a row-major tensor.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1].max(1);
    }
    strides
}

impl View {
    /// The contiguous view of a buffer, in row-major order.
    pub fn contiguous(buffer: BufferId, shape: &[usize]) -> View {
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

    /// Whether some dimension is broadcast: has stride 0.
    pub fn is_broadcast(&self) -> bool {
        let mut dims = self.shape.iter().zip(&self.strides);
        dims.any(|(size, stride)| *size > 1 && *stride == 0)
    }

    /// Whether the view is contiguous in row-major order.
    pub fn is_contiguous(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let expected = row_major(&self.shape);
        (0..self.shape.len()).all(|i| self.shape[i] == 1 || self.strides[i] == expected[i])
    }

    /// The view with its dimensions permuted.
    pub fn transposed(&self, order: &[usize]) -> View {
        let pick = |list: &[usize]| order.iter().map(|i| list[*i]).collect();
        View {
            buffer: self.buffer,
            offset: self.offset,
            shape: pick(&self.shape),
            strides: pick(&self.strides),
        }
    }

    /// The view broadcast to a shape.
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

    /// A strided slice.
    pub fn sliced(&self, begin: &[usize], size: &[usize], stride: &[usize]) -> View {
        let empty = size.contains(&0);
        let offset: usize = begin.iter().zip(&self.strides).map(|(b, s)| b * s).sum();
        View {
            buffer: self.buffer,
            // An empty slice may begin past the end.
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

    /// The elements in another shape, where that needs no copy.
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
        // Dimensions with mergeable strides are one run; each run is split again, and dimensions of size 1 may be anywhere.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (size, stride) in self.shape.iter().zip(&self.strides) {
            match runs.last_mut() {
                _ if *size == 1 => {}
                Some((length, step)) if *step == size * stride => {
                    (*length, *step) = (*length * size, *stride);
                }
                _ => runs.push((*size, *stride)),
            }
        }
        let mut strides = vec![0; shape.len()];
        let mut next = shape.iter().enumerate().rev().filter(|(_, n)| **n != 1);
        for (length, mut step) in runs.into_iter().rev() {
            let mut left = length;
            while left > 1 {
                let (i, size) = next.next()?;
                if left % size != 0 {
                    return None;
                }
                strides[i] = step;
                (left, step) = (left / size, step * size);
            }
        }
        let complete = next.next().is_none();
        complete.then(|| View {
            buffer: self.buffer,
            offset: self.offset,
            shape: shape.to_vec(),
            strides,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_and_transposes_take_the_shapes_that_need_no_copy() {
        let entire = View::contiguous(BufferId(0), &[2, 6, 12]);
        let slice = entire.sliced(&[0, 0, 4], &[2, 6, 4], &[1, 1, 1]);
        let strides = |view: &View, shape: &[usize]| view.reshaped(shape).map(|v| v.strides);
        assert_eq!(strides(&slice, &[2, 6, 2, 2]), Some(vec![72, 12, 2, 1]));
        assert_eq!(strides(&slice, &[12, 4]), Some(vec![12, 1]));
        assert_eq!(strides(&slice, &[3, 1, 4, 4]), Some(vec![48, 0, 12, 1]));
        assert_eq!(strides(&slice, &[2, 24]), None);
        let transposed = entire.transposed(&[0, 2, 1]);
        assert_eq!(
            strides(&transposed, &[2, 3, 4, 6]),
            Some(vec![72, 4, 1, 12])
        );
        assert_eq!(strides(&transposed, &[2, 72]), None);
        let broadcast = View::contiguous(BufferId(0), &[3, 1]).broadcast(&[3, 4]);
        assert_eq!(strides(&broadcast, &[3, 2, 2]), Some(vec![1, 0, 0]));
        assert_eq!(strides(&broadcast, &[12]), None);
    }

    #[test]
    fn a_reshaped_view_has_the_same_elements_in_the_same_order() {
        let elements = |view: &View| -> Vec<usize> {
            let count = view.elements();
            let offset = |i: usize| {
                let mut rest = i;
                let mut at = view.offset;
                for (size, stride) in view.shape.iter().zip(&view.strides).rev() {
                    at += rest % size * stride;
                    rest /= size;
                }
                at
            };
            (0..count).map(offset).collect()
        };
        let entire = View::contiguous(BufferId(0), &[4, 6, 8]);
        let views = [
            entire.sliced(&[1, 0, 2], &[2, 6, 4], &[1, 1, 1]),
            entire.sliced(&[0, 0, 0], &[4, 3, 8], &[1, 2, 1]),
            entire.transposed(&[2, 0, 1]),
            entire.transposed(&[1, 0, 2]),
            View::contiguous(BufferId(0), &[4, 1, 8]).broadcast(&[4, 6, 8]),
        ];
        let mut reshaped = 0;
        for view in &views {
            let n = view.elements();
            for a in (1..=n).filter(|a| n.is_multiple_of(*a)) {
                for b in (1..=n / a).filter(|b| (n / a).is_multiple_of(*b)) {
                    if let Some(other) = view.reshaped(&[a, b, n / a / b]) {
                        assert_eq!(elements(view), elements(&other), "{view:?} {other:?}");
                        reshaped += 1;
                    }
                }
            }
        }
        assert!(reshaped > 25, "{reshaped}");
    }
}
