//! Views and reductions, over leading, middle and trailing axes.

use trainspec_ir::DType;
use trainspec_ir::build::Value;

use super::Mixer;

impl<'g> Mixer<'g, '_> {
    pub(super) fn view(&mut self) -> Value<'g> {
        let x = self.any();
        let shape = x.shape();
        let rank = shape.len();
        let c = &mut self.c;
        match c.below(11) {
            0 => x.transpose(&(0..rank).rev().collect::<Vec<_>>()),
            1 if rank > 1 => {
                let (from, to) = (c.below(rank), c.below(rank));
                x.move_axis(from, to)
            }
            2 => x.reshape(&[x.ty().elements()]),
            3 if rank > 1 => {
                let mut flat = shape[1..].to_vec();
                flat[0] *= shape[0];
                x.reshape(&flat)
            }
            4 => {
                let mut wide = vec![c.of(&[2, 3, 1, 7])];
                let grown = |n: &usize| if *n == 1 { 1 + c.below(9) } else { *n };
                wide.extend(shape.iter().map(grown));
                x.broadcast(&wide)
            }
            5 => {
                let stride: Vec<usize> = shape.iter().map(|_| 1 + c.below(3) / 2).collect();
                let begin: Vec<usize> = shape.iter().map(|n| c.below(n / 2 + 1)).collect();
                let size: Vec<usize> = (0..rank)
                    .map(|i| (shape[i] - begin[i]).div_ceil(stride[i]))
                    .map(|n| n - c.below(n / 3 + 1))
                    .collect();
                x.slice(&begin, &size, &stride)
            }
            6 => {
                let mut some = || shape.iter().map(|_| c.below(3)).collect::<Vec<_>>();
                let (low, high, inside) = (some(), some(), some());
                let value = match x.dtype() {
                    DType::Bool => self.b.int(DType::Bool, 1),
                    _ => x.like(2.0),
                };
                x.pad(value, &low, &high, &inside)
            }
            7 => x.reverse(&c.axes(rank)),
            8 => x.expand(c.below(rank + 1)),
            9 if rank > 0 => {
                let axis = c.below(rank);
                let y = match x.dtype() {
                    DType::Bool => x.logical_not(),
                    _ => x + x,
                };
                self.b.concat(&[x, y, x], axis)
            }
            _ if rank > 0 => {
                // The first and second half combined, as in a rotary embedding.
                let axis = c.below(rank);
                let half = shape[axis] / 2;
                let (a, b) = (x.narrow(axis, 0, half), x.narrow(axis, half, half));
                match x.dtype() {
                    DType::Bool => a.logical_or(b),
                    _ => a * b - b,
                }
            }
            _ => x.reshape(&[1]),
        }
    }

    /// Axes of each kind: all, the last, the first, one in the middle, any.
    fn some_axes(&mut self, rank: usize) -> Vec<usize> {
        match self.c.below(6) {
            0 if rank > 0 => vec![rank - 1],
            1 if rank > 0 => vec![0],
            2 if rank > 2 => vec![1],
            3 if rank > 1 => (0..rank - 1).collect(),
            4 => (0..rank).collect(),
            _ => self.c.axes(rank),
        }
    }

    pub(super) fn reduction(&mut self) -> Value<'g> {
        let x = self.any();
        let shape = x.shape();
        let axes = self.some_axes(shape.len());
        let empty = axes.iter().any(|a| shape[*a] == 0);
        if x.dtype() == DType::Bool {
            return match self.c.below(2) {
                0 => x.all(&axes),
                _ => x.any(&axes),
            };
        }
        let float = x.dtype().is_float();
        let kind = self.c.below(9);
        // A producer before and a consumer after the reduction are often fused with it.
        let x = if float && self.c.below(3) == 1 {
            x.square()
        } else {
            x
        };
        let y = match kind {
            1 if !empty => x.max(&axes),
            2 if !empty => x.min(&axes),
            3 if float => x.tanh().prod(&axes),
            3 => x.prod(&axes),
            4 | 5 if !empty && float => x.mean(&axes),
            6 if float && !axes.is_empty() && !empty => {
                let max = x.max(&axes).keep_dims(&axes);
                return x - max;
            }
            _ => x.sum(&axes),
        };
        match self.c.below(4) {
            1 => y.keep_dims(&axes),
            2 => x - y.keep_dims(&axes),
            3 if float => y.tanh(),
            _ => y,
        }
    }
}
