//! The lane operations as Cranelift instructions (CLIF), on 128-bit vectors or scalars.

use cranelift::prelude::*;

use super::emit::{Emit, Lane};

/// Emits into the current block of a function.
pub struct Clif<'a, 'f> {
    builder: &'a mut FunctionBuilder<'f>,
    float: Type,
    int: Type,
    fma: bool,
}

impl<'a, 'f> Clif<'a, 'f> {
    /// Over lanes of `float`: F32, F64, F32X4 or F64X2. `fma` says that the target has fused multiply-add.
    ///
    /// # Panics
    ///
    /// If `float` is another type: Cranelift has no code for wider or narrower vectors.
    pub fn new(builder: &'a mut FunctionBuilder<'f>, float: Type, fma: bool) -> Clif<'a, 'f> {
        let int = match float {
            types::F32 => types::I32,
            types::F64 => types::I64,
            types::F32X4 => types::I32X4,
            types::F64X2 => types::I64X2,
            other => panic!("no vector math on {other}"),
        };
        Clif {
            builder,
            float,
            int,
            fma,
        }
    }

    /// The function builder.
    pub fn builder(&mut self) -> &mut FunctionBuilder<'f> {
        self.builder
    }

    fn spread(&mut self, of: Type, scalar: Value) -> Value {
        if of.is_vector() {
            self.builder.ins().splat(of, scalar)
        } else {
            scalar
        }
    }

    fn cast(&mut self, to: Type, a: Value) -> Value {
        self.builder.ins().bitcast(to, MemFlagsData::new(), a)
    }

    fn compare(&mut self, code: FloatCC, a: Value, b: Value) -> Value {
        self.builder.ins().fcmp(code, a, b)
    }
}

impl Emit for Clif<'_, '_> {
    type V = Value;
    type I = Value;
    type M = Value;

    fn lane(&self) -> Lane {
        if self.float.lane_type() == types::F32 {
            Lane::F32
        } else {
            Lane::F64
        }
    }
    fn has_fma(&self) -> bool {
        self.fma
    }
    fn float(&mut self, value: f64) -> Value {
        let scalar = match self.lane() {
            Lane::F32 => self.builder.ins().f32const(value as f32),
            Lane::F64 => self.builder.ins().f64const(value),
        };
        self.spread(self.float, scalar)
    }
    fn int(&mut self, value: i64) -> Value {
        let value = match self.lane() {
            Lane::F32 => i64::from(value as u32),
            Lane::F64 => value,
        };
        let scalar = self.builder.ins().iconst(self.int.lane_type(), value);
        self.spread(self.int, scalar)
    }
    fn add(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fadd(a, b)
    }
    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fsub(a, b)
    }
    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fmul(a, b)
    }
    fn div(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fdiv(a, b)
    }
    fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        if self.fma {
            return self.builder.ins().fma(a, b, c);
        }
        let product = self.mul(a, b);
        self.add(product, c)
    }
    fn neg(&mut self, a: Value) -> Value {
        self.builder.ins().fneg(a)
    }
    fn abs(&mut self, a: Value) -> Value {
        self.builder.ins().fabs(a)
    }
    fn sqrt(&mut self, a: Value) -> Value {
        self.builder.ins().sqrt(a)
    }
    fn floor(&mut self, a: Value) -> Value {
        self.builder.ins().floor(a)
    }
    fn ceil(&mut self, a: Value) -> Value {
        self.builder.ins().ceil(a)
    }
    fn nearest(&mut self, a: Value) -> Value {
        self.builder.ins().nearest(a)
    }
    fn trunc(&mut self, a: Value) -> Value {
        self.builder.ins().trunc(a)
    }
    fn lt(&mut self, a: Value, b: Value) -> Value {
        self.compare(FloatCC::LessThan, a, b)
    }
    fn le(&mut self, a: Value, b: Value) -> Value {
        self.compare(FloatCC::LessThanOrEqual, a, b)
    }
    fn eq(&mut self, a: Value, b: Value) -> Value {
        self.compare(FloatCC::Equal, a, b)
    }
    fn unordered(&mut self, a: Value, b: Value) -> Value {
        self.compare(FloatCC::Unordered, a, b)
    }
    fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        if self.float.is_vector() {
            let mask = self.cast(self.float, mask);
            self.builder.ins().bitselect(mask, a, b)
        } else {
            self.builder.ins().select(mask, a, b)
        }
    }
    fn mask_and(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().band(a, b)
    }
    fn mask_or(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bor(a, b)
    }
    fn mask_not(&mut self, a: Value) -> Value {
        if self.float.is_vector() {
            return self.builder.ins().bnot(a);
        }
        // A scalar mask is 0 or 1.
        let one = self.builder.ins().iconst(types::I8, 1);
        self.builder.ins().bxor(a, one)
    }
    fn bits(&mut self, a: Value) -> Value {
        self.cast(self.int, a)
    }
    fn bits_to_float(&mut self, a: Value) -> Value {
        self.cast(self.float, a)
    }
    fn iadd(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().iadd(a, b)
    }
    fn isub(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().isub(a, b)
    }
    fn iand(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().band(a, b)
    }
    fn ior(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bor(a, b)
    }
    fn ixor(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bxor(a, b)
    }
    fn inot(&mut self, a: Value) -> Value {
        self.builder.ins().bnot(a)
    }
    fn shl(&mut self, a: Value, by: u32) -> Value {
        let by = self.builder.ins().iconst(types::I32, i64::from(by));
        self.builder.ins().ishl(a, by)
    }
    fn shr(&mut self, a: Value, by: u32) -> Value {
        let by = self.builder.ins().iconst(types::I32, i64::from(by));
        self.builder.ins().ushr(a, by)
    }
}
