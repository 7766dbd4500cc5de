//! The body of a fused loop.

use cranelift::codegen::ir::BlockArg;
use cranelift::prelude::*;
use trainspec_ir::DType;
use trainspec_ir::graph::{Eval, Prim};
use trainspec_ir::kernel::{Combine, InstOp, Map};

use crate::math::{self, Function};
use crate::translate::shape::Moves;
use crate::translate::{Helpers, Machine, Space};

/// Vectors that the backend knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    F32X4,
    F64X2,
}

impl Lanes {
    fn count(self) -> usize {
        match self {
            Lanes::F32X4 => 4,
            Lanes::F64X2 => 2,
        }
    }

    fn ty(self) -> Type {
        match self {
            Lanes::F32X4 => types::F32X4,
            Lanes::F64X2 => types::F64X2,
        }
    }

    fn mask(self) -> Type {
        match self {
            Lanes::F32X4 => types::I32X4,
            Lanes::F64X2 => types::I64X2,
        }
    }
}

/// The function of a primitive, where its code is written out for all arguments. Sines of huge ones need a call, so all are calls.
fn written_out(name: &str) -> Option<Function> {
    let trigonometric = [Function::Sin, Function::Cos, Function::Tan];
    Function::of(name).filter(|f| !trigonometric.contains(f))
}

/// What is combined so far: for vectors in a row, and for the elements at its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Carried {
    vectors: Vec<Value>,
    singles: Vec<Value>,
}

impl Carried {
    fn all(&self) -> Vec<Value> {
        [&self.vectors[..], &self.singles].concat()
    }
}

/// A function in the making.
pub(super) struct Kernel<'a, 'f> {
    pub(super) b: &'a mut FunctionBuilder<'f>,
    pub(super) map: &'a Map,
    pub(super) space: &'a Space,
    pub(super) machine: Machine,
    pub(super) helpers: Helpers,
}

/// The type of a register that holds one element.
fn scalar_type(dtype: DType) -> Type {
    match dtype {
        DType::F32 => types::F32,
        DType::F64 => types::F64,
        DType::I32 => types::I32,
        DType::I64 => types::I64,
        // These are only moved.
        DType::Bool | DType::I8 | DType::U8 => types::I8,
        DType::I16 | DType::F16 | DType::Bf16 => types::I16,
        DType::String => panic!("strings are not computed with"),
    }
}

impl Kernel<'_, '_> {
    /// A loop over `from..to` in steps, tested at the bottom, with values that go from round to round.
    pub(super) fn counted(
        &mut self,
        from: Value,
        to: Value,
        step: i64,
        carried: &[Value],
        round: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let (body, done) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(body, types::I64);
        for value in carried {
            let ty = self.b.func.dfg.value_type(*value);
            self.b.append_block_param(body, ty);
            self.b.append_block_param(done, ty);
        }
        let arguments = |values: &[Value]| {
            values
                .iter()
                .map(|v| (*v).into())
                .collect::<Vec<BlockArg>>()
        };
        let (first, out) = (arguments(&[&[from], carried].concat()), arguments(carried));
        let some = self.b.ins().icmp(IntCC::SignedLessThan, from, to);
        self.b.ins().brif(some, body, &first, done, &out);
        self.b.switch_to_block(body);
        let parameters = self.b.block_params(body).to_vec();
        let values = round(self, parameters[0], &parameters[1..]);
        let next = self.b.ins().iadd_imm_s(parameters[0], step);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, to);
        let (again, out) = (
            arguments(&[&[next], &values[..]].concat()),
            arguments(&values),
        );
        self.b.ins().brif(more, body, &again, done, &out);
        self.b.switch_to_block(done);
        self.b.block_params(done).to_vec()
    }

    fn moves(&self, access: usize) -> &Moves {
        let loads = self.space.loads.len();
        if access < loads {
            &self.space.loads[access]
        } else {
            &self.space.stores[access - loads]
        }
    }

    fn dtype(&self, access: usize) -> DType {
        let loads = self.space.loads.len();
        if access >= loads {
            return self.map.body[self.map.stores[access - loads]].dtype;
        }
        let load = self
            .map
            .body
            .iter()
            .find(|i| matches!(i.op, InstOp::Load(l) if l == access));
        load.map_or(DType::F32, |i| i.dtype)
    }

    /// Pointers of loads and stores, moved along dimensions to the place that one number tells.
    fn advance(
        &mut self,
        pointers: &[Value],
        sizes: &[usize],
        place: Value,
        moves: fn(&Moves) -> &[usize],
    ) -> Vec<Value> {
        let mut rest = place;
        let mut indices = Vec::new();
        for (i, size) in sizes.iter().enumerate().rev() {
            if i == 0 {
                indices.push(rest);
                break;
            }
            let size = self.b.ins().iconst(types::I64, *size as i64);
            indices.push(self.b.ins().urem(rest, size));
            rest = self.b.ins().udiv(rest, size);
        }
        indices.reverse();
        let mut here = Vec::new();
        for (access, pointer) in pointers
            .iter()
            .enumerate()
            .take(self.space.loads.len() + self.space.stores.len())
        {
            let bytes = self.dtype(access).bytes();
            let strides = moves(self.moves(access)).to_vec();
            let mut pointer = *pointer;
            for (index, stride) in indices.iter().zip(strides) {
                if stride > 0 {
                    let offset = self.b.ins().imul_imm_s(*index, (stride * bytes) as i64);
                    pointer = self.b.ins().iadd(pointer, offset);
                }
            }
            here.push(pointer);
        }
        here
    }

    /// A row: its elements, and what they combine to.
    pub(super) fn whole_row(&mut self, pointers: &[Value], row: Value, lanes: Option<Lanes>) {
        let here = self.advance(pointers, &self.space.outer, row, |m| &m.outer);
        let (zero, length) = (self.b.ins().iconst(types::I64, 0), self.space.inner as i64);
        let length = self.b.ins().iconst(types::I64, length);
        let carried = self.nothing(lanes);
        let carried = match self.space.middle.is_empty() {
            true => self.row(&here, zero, length, lanes, carried),
            false => {
                let times = self.space.middle.iter().product::<usize>() as i64;
                let times = self.b.ins().iconst(types::I64, times);
                let vectors = carried.vectors.len();
                let all = carried.all();
                let all = self.counted(zero, times, 1, &all, |kernel, i, now| {
                    let now = Carried {
                        vectors: now[..vectors].to_vec(),
                        singles: now[vectors..].to_vec(),
                    };
                    let there = kernel.advance(&here, &kernel.space.middle, i, |m| &m.middle);
                    kernel.row(&there, zero, length, lanes, now).all()
                });
                Carried {
                    vectors: all[..vectors].to_vec(),
                    singles: all[vectors..].to_vec(),
                }
            }
        };
        let flags = MemFlagsData::new().with_notrap();
        for (i, fold) in self.map.folds.iter().enumerate() {
            let count = self.lanes();
            let row_of_lanes: Vec<Value> = match lanes {
                None => carried.vectors[i * count..(i + 1) * count].to_vec(),
                Some(_) => (0..count)
                    .map(|lane| self.b.ins().extractlane(carried.vectors[i], lane as u8))
                    .collect(),
            };
            let combined = self.across(row_of_lanes, fold.how);
            let total = self.combine(fold.how, combined, carried.singles[i]);
            let bytes = self.map.body[fold.register].dtype.bytes();
            let offset = self.b.ins().imul_imm_s(row, bytes as i64);
            let at = self.b.ins().iadd(
                pointers[self.space.loads.len() + self.space.stores.len() + i],
                offset,
            );
            self.b.ins().store(flags, total, at, 0);
        }
    }

    /// What folds begin with.
    fn nothing(&mut self, lanes: Option<Lanes>) -> Carried {
        let mut carried = Carried::default();
        for fold in &self.map.folds {
            let dtype = self.map.body[fold.register].dtype;
            carried
                .singles
                .push(self.number(fold.how.nothing(), dtype, None));
            let vectors = if lanes.is_some() { 1 } else { self.lanes() };
            let nothing = self.number(fold.how.nothing(), dtype, lanes);
            carried.vectors.extend(vec![nothing; vectors]);
        }
        carried
    }

    /// How many lanes folds have: as many as a vector of their type, also where single elements are computed, so that a sum has the
    /// same bits whatever else is in its loop.
    fn lanes(&self) -> usize {
        match self
            .map
            .folds
            .first()
            .map(|fold| self.map.body[fold.register].dtype)
        {
            Some(DType::F64) => Lanes::F64X2.count(),
            _ => Lanes::F32X4.count(),
        }
    }

    fn combine(&mut self, how: Combine, x: Value, y: Value) -> Value {
        match how {
            Combine::Sum => self.b.ins().fadd(x, y),
            Combine::Prod => self.b.ins().fmul(x, y),
            Combine::Max => self.b.ins().fmax(x, y),
            Combine::Min => self.b.ins().fmin(x, y),
        }
    }

    /// The lanes of a vector, combined in pairs: the first half with the second.
    fn across(&mut self, mut row: Vec<Value>, how: Combine) -> Value {
        while row.len() > 1 {
            let half = row.len() / 2;
            row = (0..half)
                .map(|i| self.combine(how, row[i], row[i + half]))
                .collect();
        }
        row[0]
    }

    /// The elements `from..to` of a row: vectors first, the rest one by one.
    pub(super) fn row(
        &mut self,
        pointers: &[Value],
        from: Value,
        to: Value,
        lanes: Option<Lanes>,
        mut carried: Carried,
    ) -> Carried {
        let fixed = self.invariant(pointers);
        let mut start = from;
        if let Some(lanes) = lanes {
            let wide: Vec<Option<Value>> = fixed
                .iter()
                .map(|v| v.map(|v| self.b.ins().splat(lanes.ty(), v)))
                .collect();
            let count = lanes.count() as i64;
            let length = self.b.ins().isub(to, from);
            let whole = self.b.ins().band_imm_s(length, -count);
            let end = self.b.ins().iadd(from, whole);
            carried.vectors = self.counted(from, end, count, &carried.vectors, |kernel, i, now| {
                kernel.element(pointers, i, &wide, Some(lanes), now)
            });
            start = end;
        } else if !self.map.folds.is_empty() {
            let count = self.lanes();
            let length = self.b.ins().isub(to, from);
            let whole = self.b.ins().band_imm_s(length, -(count as i64));
            let end = self.b.ins().iadd(from, whole);
            let vectors = carried.vectors;
            carried.vectors = self.counted(from, end, count as i64, &vectors, |kernel, i, now| {
                let mut next = now.to_vec();
                for lane in 0..count {
                    let at = kernel.b.ins().iadd_imm_s(i, lane as i64);
                    let own: Vec<Value> = next.iter().copied().skip(lane).step_by(count).collect();
                    let own = kernel.element(pointers, at, &fixed, None, &own);
                    for (fold, value) in own.into_iter().enumerate() {
                        next[fold * count + lane] = value;
                    }
                }
                next
            });
            start = end;
        }
        carried.singles = self.counted(start, to, 1, &carried.singles, |kernel, i, now| {
            kernel.element(pointers, i, &fixed, None, now)
        });
        carried
    }

    /// Registers that are the same in a whole row: numbers, and loads that do not move.
    fn invariant(&mut self, pointers: &[Value]) -> Vec<Option<Value>> {
        let mut registers = Vec::new();
        for inst in &self.map.body {
            registers.push(match inst.op {
                InstOp::Const(x) if inst.dtype == DType::F32 => {
                    Some(self.b.ins().f32const(x as f32))
                }
                InstOp::Const(x) => Some(self.b.ins().f64const(x)),
                InstOp::Int(n) => Some(self.b.ins().iconst(scalar_type(inst.dtype), n)),
                InstOp::Load(load) if self.space.loads[load].inner == 0 => Some(self.b.ins().load(
                    scalar_type(inst.dtype),
                    MemFlagsData::new().with_notrap(),
                    pointers[load],
                    0,
                )),
                InstOp::Load(_) | InstOp::Prim(..) => None,
            });
        }
        registers
    }

    /// One element, or a vector of them; gives what is combined, with this one in it.
    fn element(
        &mut self,
        pointers: &[Value],
        i: Value,
        fixed: &[Option<Value>],
        lanes: Option<Lanes>,
        now: &[Value],
    ) -> Vec<Value> {
        let flags = MemFlagsData::new().with_notrap();
        let mut registers: Vec<Value> = Vec::with_capacity(self.map.body.len());
        let address = |kernel: &mut Self, access: usize| {
            let stride = kernel.moves(access).inner * kernel.dtype(access).bytes();
            let offset = kernel.b.ins().imul_imm_s(i, stride as i64);
            kernel.b.ins().iadd(pointers[access], offset)
        };
        for (r, inst) in self.map.body.iter().enumerate() {
            let value = match (&inst.op, fixed[r]) {
                (_, Some(value)) => value,
                (InstOp::Load(load), None) => {
                    let at = address(self, *load);
                    let stride = self.space.loads[*load].inner;
                    match lanes {
                        Some(lanes) if stride == 1 => self.b.ins().load(lanes.ty(), flags, at, 0),
                        Some(lanes) => self.gather(at, stride, lanes),
                        None => self.b.ins().load(scalar_type(inst.dtype), flags, at, 0),
                    }
                }
                (InstOp::Prim(prim, operands), None) => {
                    let from = operands
                        .first()
                        .map_or(inst.dtype, |o| self.map.body[*o].dtype);
                    let operands: Vec<Value> = operands.iter().map(|o| registers[*o]).collect();
                    self.prim(prim, &operands, from, inst.dtype, lanes)
                }
                (InstOp::Const(_) | InstOp::Int(_), None) => {
                    unreachable!("numbers are the same everywhere")
                }
            };
            registers.push(value);
        }
        for (s, register) in self.map.stores.clone().into_iter().enumerate() {
            let at = address(self, self.space.loads.len() + s);
            self.b.ins().store(flags, registers[register], at, 0);
        }
        let folds = self.map.folds.iter().zip(now);
        folds
            .map(|(fold, now)| self.combine(fold.how, *now, registers[fold.register]))
            .collect()
    }

    /// A vector whose elements lie apart.
    fn gather(&mut self, at: Value, stride: usize, lanes: Lanes) -> Value {
        let flags = MemFlagsData::new().with_notrap();
        let (one, bytes) = (
            lanes.ty().lane_type(),
            lanes.ty().lane_type().bytes() as usize,
        );
        let first = self.b.ins().load(one, flags, at, 0);
        let mut vector = self.b.ins().splat(lanes.ty(), first);
        for lane in 1..lanes.count() {
            let offset = self.b.ins().iadd_imm_s(at, (lane * stride * bytes) as i64);
            let value = self.b.ins().load(one, flags, offset, 0);
            vector = self.b.ins().insertlane(vector, value, lane as u8);
        }
        vector
    }

    fn prim(
        &mut self,
        prim: &'static Prim,
        x: &[Value],
        from: DType,
        to: DType,
        lanes: Option<Lanes>,
    ) -> Value {
        let float = from.is_float();
        match prim.name {
            "add" if float => self.b.ins().fadd(x[0], x[1]),
            "subtract" if float => self.b.ins().fsub(x[0], x[1]),
            "multiply" if float => self.b.ins().fmul(x[0], x[1]),
            "divide" => self.b.ins().fdiv(x[0], x[1]),
            "negative" if float => self.b.ins().fneg(x[0]),
            "abs" if float => self.b.ins().fabs(x[0]),
            "maximum" if float => self.b.ins().fmax(x[0], x[1]),
            "minimum" if float => self.b.ins().fmin(x[0], x[1]),
            "sqrt" => self.b.ins().sqrt(x[0]),
            "rsqrt" => {
                let root = self.b.ins().sqrt(x[0]);
                let one = self.number(1.0, from, lanes);
                self.b.ins().fdiv(one, root)
            }
            "add" => self.b.ins().iadd(x[0], x[1]),
            "subtract" => self.b.ins().isub(x[0], x[1]),
            "multiply" => self.b.ins().imul(x[0], x[1]),
            "negative" => self.b.ins().ineg(x[0]),
            "abs" => {
                let minus = self.b.ins().ineg(x[0]);
                let below = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, x[0], 0);
                self.b.ins().select(below, minus, x[0])
            }
            "maximum" => self.b.ins().smax(x[0], x[1]),
            "minimum" => self.b.ins().smin(x[0], x[1]),
            "sign" if !float => {
                let above = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, x[0], 0);
                let below = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, x[0], 0);
                let difference = self.b.ins().isub(above, below);
                self.b.ins().sextend(scalar_type(from), difference)
            }
            "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal" => {
                self.compare(prim.name, x[0], x[1], from)
            }
            "is_nan" => self.b.ins().fcmp(FloatCC::Unordered, x[0], x[0]),
            "is_finite" => {
                let size = self.b.ins().fabs(x[0]);
                let infinity = self.number(f64::INFINITY, from, lanes);
                self.b.ins().fcmp(FloatCC::LessThan, size, infinity)
            }
            "logical_and" => self.b.ins().band(x[0], x[1]),
            "logical_or" => self.b.ins().bor(x[0], x[1]),
            "logical_not" => match lanes {
                Some(_) => self.b.ins().bnot(x[0]),
                None => self.b.ins().bxor_imm_s(x[0], 1),
            },
            "select" => self.choose(x[0], x[1], x[2], to, lanes),
            "stop_gradient" | "straight_through" => x[0],
            "cast" => self.cast(x[0], from, to, lanes),
            _ => self.call(prim, x, from, to, lanes),
        }
    }

    fn number(&mut self, x: f64, dtype: DType, lanes: Option<Lanes>) -> Value {
        let one = match dtype {
            DType::F32 => self.b.ins().f32const(x as f32),
            _ => self.b.ins().f64const(x),
        };
        match lanes {
            Some(lanes) => self.b.ins().splat(lanes.ty(), one),
            None => one,
        }
    }

    fn compare(&mut self, name: &str, x: Value, y: Value, dtype: DType) -> Value {
        if dtype.is_float() {
            let how = match name {
                "equal" => FloatCC::Equal,
                "not_equal" => FloatCC::NotEqual,
                "less" => FloatCC::LessThan,
                "less_equal" => FloatCC::LessThanOrEqual,
                "greater" => FloatCC::GreaterThan,
                _ => FloatCC::GreaterThanOrEqual,
            };
            return self.b.ins().fcmp(how, x, y);
        }
        // Truths are 0 and 1, so they compare as numbers do.
        let how = match name {
            "equal" => IntCC::Equal,
            "not_equal" => IntCC::NotEqual,
            "less" => IntCC::SignedLessThan,
            "less_equal" => IntCC::SignedLessThanOrEqual,
            "greater" => IntCC::SignedGreaterThan,
            _ => IntCC::SignedGreaterThanOrEqual,
        };
        self.b.ins().icmp(how, x, y)
    }

    fn choose(
        &mut self,
        condition: Value,
        yes: Value,
        no: Value,
        dtype: DType,
        lanes: Option<Lanes>,
    ) -> Value {
        let Some(lanes) = lanes else {
            return self.b.ins().select(condition, yes, no);
        };
        if dtype == DType::Bool {
            return self.b.ins().bitselect(condition, yes, no);
        }
        let flags = MemFlagsData::new().with_endianness(cranelift::codegen::ir::Endianness::Little);
        let mask = self.b.ins().bitcast(lanes.ty(), flags, condition);
        self.b.ins().bitselect(mask, yes, no)
    }

    fn cast(&mut self, x: Value, from: DType, to: DType, lanes: Option<Lanes>) -> Value {
        if let Some(lanes) = lanes {
            // Only truths become floats in a loop of vectors.
            if from == to {
                return x;
            }
            if to == DType::Bool {
                let zero = self.number(0.0, from, Some(lanes));
                return self.b.ins().fcmp(FloatCC::NotEqual, x, zero);
            }
            let one = self.number(1.0, to, Some(lanes));
            let flags =
                MemFlagsData::new().with_endianness(cranelift::codegen::ir::Endianness::Little);
            let bits = self.b.ins().bitcast(lanes.mask(), flags, one);
            let kept = self.b.ins().band(bits, x);
            return self.b.ins().bitcast(lanes.ty(), flags, kept);
        }
        let target = scalar_type(to);
        match (from, to) {
            _ if from == to => x,
            (DType::F32, DType::F64) => self.b.ins().fpromote(types::F64, x),
            (DType::F64, DType::F32) => self.b.ins().fdemote(types::F32, x),
            (DType::F32 | DType::F64, DType::Bool) => {
                let zero = self.number(0.0, from, None);
                self.b.ins().fcmp(FloatCC::NotEqual, x, zero)
            }
            (DType::F32 | DType::F64, _) => self.b.ins().fcvt_to_sint_sat(target, x),
            (DType::Bool, DType::F32 | DType::F64) => {
                let wide = self.b.ins().uextend(types::I32, x);
                self.b.ins().fcvt_from_sint(target, wide)
            }
            (DType::Bool, _) => self.b.ins().uextend(target, x),
            (_, DType::F32 | DType::F64) => self.b.ins().fcvt_from_sint(target, x),
            (_, DType::Bool) => self.b.ins().icmp_imm_s(IntCC::NotEqual, x, 0),
            (DType::I32, DType::I64) => self.b.ins().sextend(types::I64, x),
            _ => self.b.ins().ireduce(types::I32, x),
        }
    }

    /// A function as straight-line code, or, where there is none, the interpreter's own, in f64 and rounded, one element after the
    /// other.
    fn call(
        &mut self,
        prim: &'static Prim,
        x: &[Value],
        from: DType,
        to: DType,
        lanes: Option<Lanes>,
    ) -> Value {
        if let Some(function) = written_out(prim.name).filter(|_| from.is_float()) {
            let ty = lanes.map_or(scalar_type(from), Lanes::ty);
            let mut clif = math::Clif::new(self.b, ty, self.machine.fma);
            return math::emit(&mut clif, function, x);
        }
        let Some(lanes) = lanes else {
            return self.call_one(prim, x, from, to);
        };
        let mut result = None;
        for lane in 0..lanes.count() {
            let one: Vec<Value> = x
                .iter()
                .map(|v| self.b.ins().extractlane(*v, lane as u8))
                .collect();
            let value = self.call_one(prim, &one, from, to);
            result = Some(match result {
                None => self.b.ins().splat(lanes.ty(), value),
                Some(vector) => self.b.ins().insertlane(vector, value, lane as u8),
            });
        }
        result.expect("a vector has lanes")
    }

    fn call_one(&mut self, prim: &'static Prim, x: &[Value], from: DType, to: DType) -> Value {
        let wide: Vec<Value> = x
            .iter()
            .map(|v| match from {
                DType::F32 => self.b.ins().fpromote(types::F64, *v),
                _ => *v,
            })
            .collect();
        let (function, address) = match prim.eval {
            Eval::Float1(f) | Eval::Number1(f, _) => (self.helpers.call1, f as usize),
            Eval::Float2(f) | Eval::Number2(f, _) => (self.helpers.call2, f as usize),
            Eval::Test1(_) | Eval::Compare(..) | Eval::Bool2(_) | Eval::Whole(_) => {
                panic!("`{}` has machine code of its own", prim.name)
            }
        };
        let address = self.b.ins().iconst(types::I64, address as i64);
        let mut arguments = vec![address];
        arguments.extend(wide);
        let call = self.b.ins().call(function, &arguments);
        let result = self.b.inst_results(call)[0];
        match to {
            DType::F32 => self.b.ins().fdemote(types::F32, result),
            _ => result,
        }
    }
}
