//! Model patterns: softmax, layer normalisation, losses, attention and dense layers.

use trainspec_ir::build::Value;
use trainspec_ir::ops::find_prim;

use super::{Mixer, SIZES};

impl<'g> Mixer<'g, '_> {
    /// Normalisations and losses along some axes, most often the last.
    pub(super) fn pattern(&mut self) -> Value<'g> {
        let x = self.floats();
        let shape = x.shape();
        let rank = shape.len();
        if rank == 0 || shape.contains(&0) {
            return x.tanh();
        }
        let axes = match self.c.below(4) {
            0 | 1 => vec![rank - 1],
            2 => vec![0],
            _ => (1.min(rank - 1)..rank).collect(),
        };
        let keepdims = |v: Value<'g>| v.keep_dims(&axes);
        let width: Vec<usize> = shape[rank - 1..].to_vec();
        match self.c.below(9) {
            0 => {
                let e = (x - keepdims(x.max(&axes)).stop_gradient()).exp();
                e / keepdims(e.sum(&axes))
            }
            1 => {
                let x = x - keepdims(x.max(&axes)).stop_gradient();
                x - keepdims(x.exp().sum(&axes).log())
            }
            2 | 3 => {
                let centered = x - keepdims(x.mean(&axes));
                let variance = keepdims(centered.square().mean(&axes));
                let y = centered * (variance + 1e-3).rsqrt();
                let (g, shift) = (
                    self.source(x.dtype(), &width),
                    self.source(x.dtype(), &width),
                );
                y * g + shift
            }
            4 => x * keepdims((x.square().sum(&axes) + 1e-2).rsqrt()),
            5 => {
                // Sigmoid cross-entropy.
                let labels = self.source(x.dtype(), &shape);
                x.maximum(x.like(0.0)) - x * labels + (-x.abs()).exp().log1p()
            }
            6 => {
                // Sparse softmax cross-entropy.
                let last = [rank - 1];
                let logs = x - x.max(&last).keep_dims(&last).stop_gradient();
                let logs = logs - logs.exp().sum(&last).log().keep_dims(&last);
                let at = self.b.iota(width[0]).broadcast(&shape);
                let label = x.argmax(rank - 1).keep_dims(&last).broadcast(&shape);
                let zero = logs.like(0.0).broadcast(&shape);
                -at.equal(label).select(logs, zero).sum(&last)
            }
            7 => {
                let inner = (x + 0.044715 * x * x * x) * 0.797_884_560_8;
                0.5 * x * (1.0 + inner.tanh())
            }
            _ => {
                let scale = keepdims((x.abs()).max(&axes)) + 0.1;
                (x / scale).minimum(x.like(0.5))
            }
        }
    }

    /// Matrix products with the usual prologue and epilogue.
    pub(super) fn dense(&mut self) -> Value<'g> {
        let x = self.floats();
        let shape = x.shape();
        let rank = shape.len();
        let x = match rank {
            0 => x.reshape(&[1, 1]),
            1 => x.reshape(&[1, shape[0]]),
            _ => x,
        };
        let shape = x.shape();
        let rank = shape.len();
        let (n, k) = (shape[rank - 2], shape[rank - 1]);
        let m = SIZES[self.c.below(11)];
        if rank == 2 && n * k > 0 && self.c.rarely(24) {
            let prim = find_prim("orthogonalize").expect("there is such a primitive");
            return self.b.prim(prim, &[x], Vec::new())[0];
        }
        let y = match self.c.below(6) {
            0 | 1 => {
                let w = self.source(x.dtype(), &[k, m]);
                x.matmul(w)
            }
            2 => {
                let w = self.source(x.dtype(), &[m, k]);
                x.matmul_with(w, false, true)
            }
            3 => {
                // Self-attention.
                let scores = x.matmul_with(x, false, true) * 0.25;
                if n == 0 {
                    return scores;
                }
                let axes = [rank - 1];
                let e = (scores - scores.max(&axes).keep_dims(&axes)).exp();
                return (e / e.sum(&axes).keep_dims(&axes)).matmul(x);
            }
            4 => {
                let flat: usize = shape[..rank - 1].iter().product();
                let w = self.source(x.dtype(), &[flat, m]);
                x.reshape(&[flat, k]).matmul_with(w, true, false)
            }
            _ => {
                // A transposed view on either side.
                let mut order: Vec<usize> = (0..rank).collect();
                order.swap(rank - 2, rank - 1);
                let w = self.source(x.dtype(), &[m, n]);
                let w = w.transpose(&[1, 0]);
                x.transpose(&order).matmul(w)
            }
        };
        let width = y.shape()[y.rank() - 1];
        let y = match self.c.below(3) {
            0 => y,
            _ => y + self.source(x.dtype(), &[width]),
        };
        match self.c.below(5) {
            0 => y.maximum(y.like(0.0)),
            1 => y.tanh(),
            2 => y * y.sigmoid(),
            3 => y.softplus(),
            _ => y,
        }
    }
}
