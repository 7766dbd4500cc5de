//! Convolutions and pools.

use trainspec_ir::build::{Convolution, Pool, Value};

use super::Mixer;

impl<'g> Mixer<'g, '_> {
    pub(super) fn windows(&mut self) -> Value<'g> {
        let x = self.floats();
        let x = match x.shape().as_slice() {
            [n, h, w, c] if *n > 0 && *h > 0 && *w > 0 && *c > 0 => x,
            _ => {
                let size = self.c.of(&[5, 4, 7, 8]);
                let shape = [
                    1 + self.c.below(3),
                    size,
                    3 + self.c.below(5),
                    self.c.of(&[1, 2, 4, 3, 9]),
                ];
                self.source(x.dtype(), &shape)
            }
        };
        let x = match x.shape()[..] {
            // Few enough multiply-adds for the interpreter.
            [n, h, w, c] => x.slice(
                &[0, 0, 0, 0],
                &[n.min(3), h.min(9), w.min(9), c.min(9)],
                &[1, 1, 1, 1],
            ),
            _ => x,
        };
        let shape = x.shape();
        let (height, width, channels) = (shape[1], shape[2], shape[3]);
        let ksize = [
            1 + self.c.below(height.min(3)),
            1 + self.c.below(width.min(3)),
        ];
        let strides = [1 + self.c.below(2), 1 + self.c.below(2)];
        let c = &mut self.c;
        let pads = [
            (c.below(ksize[0]), c.below(ksize[0])),
            (c.below(ksize[1]), c.below(ksize[1])),
        ];
        let pool = Pool {
            ksize,
            strides,
            pads,
        };
        match c.below(6) {
            5 => x.max_pool2d_pick(x.sin(), &pool),
            0 => x.max_pool2d(&pool),
            1 => x.sum_pool2d(&pool),
            kind => {
                let groups = match kind {
                    2 if channels % 2 == 0 => 2,
                    3 if channels <= 4 => channels,
                    _ => 1,
                };
                let filters = groups * self.c.of(&[1, 2, 3]);
                let dilation = |k: usize, size: usize, dilated: bool| match dilated {
                    true if (k - 1) * 2 < size => 2,
                    _ => 1,
                };
                let dilated = self.c.rarely(3);
                let window = Convolution {
                    strides,
                    pads,
                    dilations: [
                        dilation(ksize[0], height, dilated),
                        dilation(ksize[1], width, dilated),
                    ],
                    groups,
                };
                let w = self.source(x.dtype(), &[ksize[0], ksize[1], channels / groups, filters]);
                let y = x.conv2d(w, &window);
                match self.c.below(3) {
                    0 => y.maximum(y.like(0.0)),
                    1 => (y + self.source(x.dtype(), &[filters])).tanh(),
                    _ => y,
                }
            }
        }
    }
}
