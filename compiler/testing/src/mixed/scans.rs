//! Scans (loops over the leading dimension), with recurrent cells.

use trainspec_ir::build::{Loop, Value};
use trainspec_ir::graph::Type;

use super::Mixer;

impl<'g> Mixer<'g, '_> {
    pub(super) fn scan(&mut self) -> Value<'g> {
        let x = self.floats();
        let shape = x.shape();
        if shape.is_empty() {
            return x.sin();
        }
        // A few iterations suffice.
        let length = shape[0].min(9);
        let x = x.narrow(0, 0, length);
        let float = x.dtype();
        let inner = shape[1..].to_vec();
        let reverse = self.c.below(2) == 1;
        let kind = self.c.below(3);
        let width = 4;
        let (captures, start) = match kind {
            0 => {
                let capture = self.partner(float, &[]);
                (vec![capture], Type::new(float, &inner))
            }
            1 => (Vec::new(), Type::new(float, &inner)),
            _ => {
                // A recurrent cell: each row of an element with the state of its row.
                let features: usize = inner.last().copied().unwrap_or(1);
                let w = self.source(float, &[features, width]);
                let u = self.source(float, &[width, width]);
                let rows: usize = inner.iter().rev().skip(1).product();
                (vec![w, u], Type::new(float, &[rows, width]))
            }
        };
        let starts = match self.c.below(2) {
            0 => vec![self.b.full(&start, 0.125)],
            _ => vec![self.source(float, &start.shape)],
        };
        let scan = Loop {
            length,
            reverse,
            captures,
            starts,
            over: vec![x],
        };
        let (last, all) = self.b.scan(scan, |iteration| {
            let (h, x) = (iteration.carries[0], iteration.elements[0]);
            match kind {
                0 => {
                    let at = iteration.position.cast(float) * 0.125;
                    let next = (h * iteration.captures[0] + x * (h + at).cos()).tanh();
                    (vec![next], vec![next * x, next.sum(&next.axes())])
                }
                1 => {
                    let next = h * 0.5 + x;
                    (vec![next], vec![next.square(), h.less(x).cast(float)])
                }
                _ => {
                    let rows = h.shape()[0];
                    let features = x.ty().elements() / rows.max(1);
                    let x = x.reshape(&[rows, if rows == 0 { 0 } else { features }]);
                    let x = match rows {
                        0 => h,
                        _ => x.matmul(iteration.captures[0]),
                    };
                    let next = (x + h.matmul(iteration.captures[1])).tanh();
                    (vec![next], vec![next, next.mean(&[1])])
                }
            }
        });
        match self.c.below(3) {
            0 => last[0],
            1 => all[0],
            _ => all[1],
        }
    }
}
