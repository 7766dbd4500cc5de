//! Elementwise operations: every primitive of the table.

use trainspec_ir::DType;
use trainspec_ir::build::Value;
use trainspec_ir::graph::{Attr, AttrKind, Eval, Prim};
use trainspec_ir::ops::PRIMS;

use super::Mixer;

/// The elementwise primitives whose evaluation is of some form.
fn prims_where(which: fn(&Eval) -> bool) -> Vec<&'static Prim> {
    let all = PRIMS.iter().copied();
    all.filter(|p| which(&p.eval)).collect()
}

/// An argument in the interior of a function's domain, where it is differentiable.
fn in_domain<'g>(prim: &Prim, x: Value<'g>) -> Value<'g> {
    match prim.name {
        "acos" | "asin" | "atanh" | "erfinv" => x.sin() * 0.9,
        "acosh" => x.square() + 1.25,
        "log" | "sqrt" | "rsqrt" | "lgamma" | "digamma" | "log1p" => x.square() + 0.5,
        "exp" | "expm1" | "sinh" | "cosh" => x.tanh() * 3.0,
        "tan" => x.sin(),
        _ => x,
    }
}

impl<'g> Mixer<'g, '_> {
    pub(super) fn unary(&mut self) -> Value<'g> {
        let raw = self.c.rarely(8);
        match self.c.below(12) {
            0..=8 => {
                let prims = prims_where(|e| matches!(e, Eval::Float1(_)));
                let prim = prims[self.c.below(prims.len())];
                let x = self.floats();
                let x = if raw { x } else { in_domain(prim, x) };
                let attrs = match prim.attrs {
                    [] => Vec::new(),
                    [(_, AttrKind::Size)] => vec![Attr::Size(1 + self.c.below(2))],
                    _ => return x.tanh(),
                };
                self.b.prim(prim, &[x], attrs)[0]
            }
            9 => (self.floats().square() + 0.5).polygamma(1 + self.c.below(2)),
            10 => {
                let prims = prims_where(|e| matches!(e, Eval::Test1(_)));
                let prim = prims[self.c.below(prims.len())];
                let x = self.floats();
                self.b.prim(prim, &[x], Vec::new())[0]
            }
            _ => {
                let prims = prims_where(|e| matches!(e, Eval::Number1(..)));
                let prim = prims[self.c.below(prims.len())];
                let x = self.any();
                let x = match x.dtype() {
                    DType::Bool => x.cast(DType::I32),
                    _ => x,
                };
                self.b.prim(prim, &[x], Vec::new())[0]
            }
        }
    }

    pub(super) fn binary(&mut self) -> Value<'g> {
        let x = self.any();
        let dtype = x.dtype();
        let y = self.partner(dtype, &x.shape());
        let b = self.b;
        let both = b.broadcast_all(&[x, y]);
        let (x, y) = (both[0], both[1]);
        if dtype == DType::Bool {
            let prims = prims_where(|e| matches!(e, Eval::Bool2(_)));
            let prim = prims[self.c.below(prims.len())];
            return match self.c.below(4) {
                0 => x.logical_not(),
                1 => x.equal(y),
                _ => b.prim(prim, &[x, y], Vec::new())[0],
            };
        }
        match self.c.below(12) {
            0 => x + y,
            1 => x * y,
            2 => x - y,
            3 | 4 => {
                let prims = prims_where(|e| matches!(e, Eval::Number2(..)));
                let prim = prims[self.c.below(prims.len())];
                let (x, y) = self.domain_operands(prim, x, y);
                b.prim(prim, &[x, y], Vec::new())[0]
            }
            5 | 6 if dtype.is_float() => {
                let prims = prims_where(|e| matches!(e, Eval::Float2(_)));
                let prim = prims[self.c.below(prims.len())];
                let y = if self.c.rarely(6) {
                    y
                } else {
                    y.square() + 0.5
                };
                b.prim(prim, &[x, y], Vec::new())[0]
            }
            7 => {
                let prims = prims_where(|e| matches!(e, Eval::Compare(..)));
                let prim = prims[self.c.below(prims.len())];
                b.prim(prim, &[x, y], Vec::new())[0]
            }
            8 => x.less(y).select(x, y),
            9 => x.maximum(y),
            10 => x.straight_through(y),
            _ if dtype.is_float() => x * y.sigmoid() + y * x.stop_gradient(),
            _ => x + y * x,
        }
    }

    /// Operands in the domain of an operation on numbers, most of the time.
    fn domain_operands(
        &mut self,
        prim: &Prim,
        x: Value<'g>,
        y: Value<'g>,
    ) -> (Value<'g>, Value<'g>) {
        let divides = ["floordiv", "floormod", "truncatediv", "truncatemod"];
        match prim.name {
            "pow" if x.dtype().is_float() => (x.tanh().square() + 0.5, y.tanh()),
            "pow" => (x, y.abs().minimum(y.like(4.0)).maximum(y.like(0.0))),
            name if divides.contains(&name) && !self.c.rarely(8) => match x.dtype().is_float() {
                true => (x, y.square() + 0.75),
                false => (
                    x,
                    y.equal(y.like(0.0))
                        .select(y.like(3.0).broadcast(&y.shape()), y),
                ),
            },
            _ => (x, y),
        }
    }

    /// Casts, selects and random numbers.
    pub(super) fn mixed_types(&mut self) -> Value<'g> {
        let x = self.any();
        match self.c.below(6) {
            0 => {
                let dtype = self.c.int();
                x.cast(dtype)
            }
            1 => {
                let dtype = self.c.float();
                x.cast(dtype)
            }
            2 => x.cast(DType::Bool),
            3 => {
                let y = self.partner(x.dtype(), &x.shape());
                let which = self.partner(DType::Bool, &x.shape());
                which.select(x, y)
            }
            4 => {
                let y = self.floats();
                let y = y.mean(&y.axes()).cast(self.float);
                x.cast(self.float) * y
            }
            _ => {
                let key = self.b.key("site");
                let ty = x.ty().with_dtype(self.float);
                let draw = self.b.random_uniform(key, &ty);
                draw.less(self.b.full(&ty, 0.75))
                    .select(x.cast(self.float), draw)
            }
        }
    }
}
