//! CLIF generation for the body of a fused loop: rows, passes, vector and scalar loops, reductions.
//!
//! 128-bit vectors where all loads and stores are floats of one type, single elements otherwise and for the tail.

use cranelift::codegen::ir::{BlockArg, StackSlot};
use cranelift::prelude::*;
use trainspec_ir::DType;
use trainspec_ir::graph::{Eval, Prim};
use trainspec_ir::kernel::{Combine, InstOp, Map, Phases};

use crate::cpu::Machine;
use crate::math::{Clif, Emit};
use crate::translate::prims::{self, Operand};
use crate::translate::space::Strides;
use crate::translate::{Helpers, Space, lanes_of};

/// Vector types that the backend supports.
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
}

/// A row reduction: its instruction, the combining operation, the reduced register, and the stack slot of its accumulator lanes.
struct Reduction {
    inst: usize,
    combine: Combine,
    register: usize,
    slot: StackSlot,
}

/// A function under construction.
pub(super) struct Kernel<'a, 'f> {
    pub(super) b: &'a mut FunctionBuilder<'f>,
    pub(super) map: &'a Map,
    pub(super) space: &'a Space,
    pub(super) phases: &'a Phases,
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
        // Of these there are only loads and stores.
        DType::Bool | DType::I8 | DType::U8 => types::I8,
        DType::I16 | DType::F16 | DType::Bf16 => types::I16,
        DType::String => panic!("strings are not computed with"),
    }
}

fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Kernel<'_, '_> {
    /// A counted loop over `from..to` in steps of `step`, rotated (tested at the bottom). `iteration` gets the index and the loop-carried
    /// values and returns the next ones; the result is those after the last iteration.
    pub(super) fn counted_loop(
        &mut self,
        from: Value,
        to: Value,
        step: i64,
        carried: &[Value],
        iteration: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
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
        let is_nonempty = self.b.ins().icmp(IntCC::SignedLessThan, from, to);
        self.b.ins().brif(is_nonempty, body, &first, done, &out);
        self.b.switch_to_block(body);
        let parameters = self.b.block_params(body).to_vec();
        let values = iteration(self, parameters[0], &parameters[1..]);
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

    fn strides(&self, access: usize) -> &Strides {
        let loads = self.space.loads.len();
        if access < loads {
            &self.space.loads[access]
        } else {
            &self.space.stores[access - loads]
        }
    }

    /// The element size of an access in bytes.
    fn bytes(&self, access: usize) -> usize {
        let loads = self.space.loads.len();
        if access >= loads {
            return self.map.body[self.map.stores[access - loads].register]
                .dtype
                .bytes();
        }
        let load = self
            .map
            .body
            .iter()
            .find(|i| matches!(i.op, InstOp::Load(l) if l == access));
        // The pointer of a load that no instruction reads is not used, whatever its size.
        load.map_or(4, |i| i.dtype.bytes())
    }

    /// Pointers of loads and stores, advanced along dimensions to a linear index.
    fn advance(
        &mut self,
        pointers: &[Value],
        sizes: &[usize],
        index: Value,
        strides: fn(&Strides) -> &[usize],
    ) -> Vec<Value> {
        let mut rest = index;
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
        for (access, pointer) in pointers.iter().enumerate() {
            let bytes = self.bytes(access);
            let strides = strides(self.strides(access)).to_vec();
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

    /// A row: all passes over it, its reductions, and the values computed from them.
    pub(super) fn row(&mut self, pointers: &[Value], row: Value, lanes: Option<Lanes>) {
        let here = self.advance(pointers, &self.space.outer, row, |s| &s.outer);
        let (zero, length) = (self.b.ins().iconst(types::I64, 0), self.space.inner as i64);
        let length = self.b.ins().iconst(types::I64, length);
        let mut known = vec![None; self.map.body.len()];
        self.row_invariants(&here, 0, &mut known);
        for phase in 0..self.phases.count {
            let reductions = self.begin_reductions(phase);
            match self.space.middle.is_empty() {
                true => self.pass(phase, &here, zero, length, lanes, &known, &reductions),
                false => {
                    let times = self.space.middle.iter().product::<usize>() as i64;
                    let times = self.b.ins().iconst(types::I64, times);
                    self.counted_loop(zero, times, 1, &[], |kernel, i, _| {
                        let there = kernel.advance(&here, &kernel.space.middle, i, |s| &s.middle);
                        kernel.pass(phase, &there, zero, length, lanes, &known, &reductions);
                        Vec::new()
                    });
                }
            }
            for reduction in &reductions {
                known[reduction.inst] = Some(self.horizontal_reduce(reduction));
            }
            self.row_invariants(&here, phase + 1, &mut known);
        }
        for (s, store) in self.map.stores.iter().enumerate() {
            if store.row {
                let value = known[store.register].expect("the result of a row is known at its end");
                self.b
                    .ins()
                    .store(flags(), value, here[self.space.loads.len() + s], 0);
            }
        }
    }

    /// Computes the row-invariant registers that are known in a phase.
    fn row_invariants(&mut self, pointers: &[Value], phase: usize, known: &mut [Option<Value>]) {
        for (i, inst) in self.map.body.iter().enumerate() {
            if !self.phases.row_invariant[i] || self.phases.first[i] != phase || known[i].is_some()
            {
                continue;
            }
            known[i] = Some(match &inst.op {
                InstOp::Const(_) | InstOp::Int(_) => self.constant(i),
                InstOp::Load(load) => {
                    self.b
                        .ins()
                        .load(scalar_type(inst.dtype), flags(), pointers[*load], 0)
                }
                InstOp::Prim(prim, operands) => {
                    let values: Vec<Value> = operands
                        .iter()
                        .map(|o| known[*o].expect("operands come first"))
                        .collect();
                    self.prim(prim, operands, &values, inst.dtype, None)
                }
                InstOp::Reduce(..) => unreachable!("a pass computes it"),
            });
        }
    }

    /// A constant register.
    fn constant(&mut self, i: usize) -> Value {
        let inst = &self.map.body[i];
        match inst.op {
            InstOp::Const(x) if inst.dtype == DType::F32 => self.b.ins().f32const(x as f32),
            InstOp::Const(x) => self.b.ins().f64const(x),
            InstOp::Int(n) => self.b.ins().iconst(scalar_type(inst.dtype), n),
            _ => unreachable!("a constant"),
        }
    }

    /// The reductions of a phase, their accumulator lanes set to the identity element.
    fn begin_reductions(&mut self, phase: usize) -> Vec<Reduction> {
        let mut reductions = Vec::new();
        for (i, inst) in self.map.body.iter().enumerate() {
            let InstOp::Reduce(combine, register) = inst.op else {
                continue;
            };
            if self.phases.first[i] != phase + 1 {
                continue;
            }
            let bytes = inst.dtype.bytes();
            let size = (lanes_of(inst.dtype) * bytes) as u32;
            // Aligned to 2^4 bytes: a vector.
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
            let slot = self.b.create_sized_stack_slot(slot);
            let identity = match inst.dtype {
                DType::F32 => self.b.ins().f32const(combine.identity() as f32),
                _ => self.b.ins().f64const(combine.identity()),
            };
            for lane in 0..lanes_of(inst.dtype) {
                self.b
                    .ins()
                    .stack_store(types::I64, identity, slot, (lane * bytes) as i32);
            }
            reductions.push(Reduction {
                inst: i,
                combine,
                register,
                slot,
            });
        }
        reductions
    }

    /// Horizontal reduction of the accumulator lanes: the first half with the second, and so on.
    fn horizontal_reduce(&mut self, reduction: &Reduction) -> Value {
        let dtype = self.map.body[reduction.inst].dtype;
        let load = |kernel: &mut Self, lane: usize| {
            let offset = (lane * dtype.bytes()) as i32;
            kernel
                .b
                .ins()
                .stack_load(types::I64, scalar_type(dtype), reduction.slot, offset)
        };
        let mut row: Vec<Value> = (0..lanes_of(dtype)).map(|i| load(self, i)).collect();
        while row.len() > 1 {
            let half = row.len() / 2;
            row = (0..half)
                .map(|i| self.combine(reduction.combine, row[i], row[i + half]))
                .collect();
        }
        row[0]
    }

    /// The combining operation of a reduction, on vectors or scalars.
    fn combine(&mut self, how: Combine, x: Value, y: Value) -> Value {
        let ty = self.b.func.dfg.value_type(x);
        let mut clif = Clif::new(self.b, ty, self.machine.fma);
        prims::combine(&mut clif, how, x, y)
    }

    /// A flat loop: the elements `from..to`.
    pub(super) fn flat(
        &mut self,
        pointers: &[Value],
        from: Value,
        to: Value,
        lanes: Option<Lanes>,
    ) {
        let mut known = vec![None; self.map.body.len()];
        self.row_invariants(pointers, 0, &mut known);
        self.pass(0, pointers, from, to, lanes, &known, &[]);
    }

    /// One pass over the elements `from..to` of a row: a vector loop, then a scalar loop for the tail.
    #[allow(clippy::too_many_arguments)] // the loop bounds, its operands and its reductions
    fn pass(
        &mut self,
        phase: usize,
        pointers: &[Value],
        from: Value,
        to: Value,
        lanes: Option<Lanes>,
        known: &[Option<Value>],
        reductions: &[Reduction],
    ) {
        let needed = self.phases.needed(self.map, phase);
        let mut invariant = known.to_vec();
        for (i, inst) in self.map.body.iter().enumerate() {
            if let InstOp::Load(load) = inst.op
                && invariant[i].is_none()
                && needed[i]
                && self.space.loads[load].inner == 0
            {
                let ty = scalar_type(inst.dtype);
                invariant[i] = Some(self.b.ins().load(ty, flags(), pointers[load], 0));
            }
        }
        let mut start = from;
        if let Some(lanes) = lanes {
            let splats: Vec<Option<Value>> = invariant
                .iter()
                .enumerate()
                .map(|(i, v)| {
                    v.filter(|_| needed[i])
                        .map(|v| self.splat(v, self.map.body[i].dtype, lanes))
                })
                .collect();
            // The accumulator lanes of a reduction are two vectors.
            let vectors = if reductions.is_empty() { 1 } else { 2 };
            let step = (lanes.count() * vectors) as i64;
            let length = self.b.ins().isub(to, from);
            let vectorized = self.b.ins().band_imm_s(length, -step);
            let end = self.b.ins().iadd(from, vectorized);
            let bytes = lanes.ty().bytes() as i32;
            let mut carried = Vec::new();
            for reduction in reductions {
                for half in 0..2 {
                    let lanes = self.b.ins().stack_load(
                        types::I64,
                        lanes.ty(),
                        reduction.slot,
                        half * bytes,
                    );
                    carried.push(lanes);
                }
            }
            let combined = self.counted_loop(from, end, step, &carried, |kernel, i, now| {
                let mut next = now.to_vec();
                for half in 0..vectors {
                    let at = kernel.b.ins().iadd_imm_s(i, (half * lanes.count()) as i64);
                    let registers =
                        kernel.element(phase, pointers, at, &splats, &needed, Some(lanes));
                    for (f, reduction) in reductions.iter().enumerate() {
                        let x = registers[reduction.register]
                            .expect("the reduced register is computed");
                        next[2 * f + half] =
                            kernel.combine(reduction.combine, next[2 * f + half], x);
                    }
                }
                next
            });
            for (f, reduction) in reductions.iter().enumerate() {
                for half in 0..2 {
                    let value = combined[2 * f + half];
                    self.b.ins().stack_store(
                        types::I64,
                        value,
                        reduction.slot,
                        half as i32 * bytes,
                    );
                }
            }
            start = end;
        }
        self.counted_loop(start, to, 1, &[], |kernel, i, _| {
            let registers = kernel.element(phase, pointers, i, &invariant, &needed, None);
            for reduction in reductions {
                let dtype = kernel.map.body[reduction.inst].dtype;
                let lane = kernel.b.ins().band_imm_s(i, lanes_of(dtype) as i64 - 1);
                let offset = kernel.b.ins().imul_imm_s(lane, dtype.bytes() as i64);
                let slot = kernel.b.ins().stack_addr(types::I64, reduction.slot, 0);
                let at = kernel.b.ins().iadd(slot, offset);
                let now = kernel.b.ins().load(scalar_type(dtype), flags(), at, 0);
                let x = registers[reduction.register].expect("the reduced register is computed");
                let next = kernel.combine(reduction.combine, now, x);
                kernel.b.ins().store(flags(), next, at, 0);
            }
            Vec::new()
        });
    }

    /// The body for one element, or for a vector of them: computes its registers and stores results.
    fn element(
        &mut self,
        phase: usize,
        pointers: &[Value],
        i: Value,
        invariant: &[Option<Value>],
        needed: &[bool],
        lanes: Option<Lanes>,
    ) -> Vec<Option<Value>> {
        let mut registers: Vec<Option<Value>> = invariant.to_vec();
        let address = |kernel: &mut Self, access: usize| {
            let stride = kernel.strides(access).inner * kernel.bytes(access);
            let offset = kernel.b.ins().imul_imm_s(i, stride as i64);
            kernel.b.ins().iadd(pointers[access], offset)
        };
        for (r, inst) in self.map.body.iter().enumerate() {
            if registers[r].is_some() || !needed[r] {
                continue;
            }
            registers[r] = Some(match &inst.op {
                InstOp::Load(load) => {
                    let at = address(self, *load);
                    let stride = self.space.loads[*load].inner;
                    match lanes {
                        Some(lanes) if stride == 1 => self.b.ins().load(lanes.ty(), flags(), at, 0),
                        Some(lanes) => self.gather(at, stride, lanes),
                        None => self.b.ins().load(scalar_type(inst.dtype), flags(), at, 0),
                    }
                }
                InstOp::Prim(prim, operands) => {
                    let values: Vec<Value> = operands
                        .iter()
                        .map(|o| registers[*o].expect("operands come first"))
                        .collect();
                    self.prim(prim, operands, &values, inst.dtype, lanes)
                }
                InstOp::Const(_) | InstOp::Int(_) | InstOp::Reduce(..) => {
                    unreachable!("row-invariant registers are known")
                }
            });
        }
        for (s, store) in self.map.stores.iter().enumerate() {
            if !store.row && self.phases.first[store.register] == phase {
                let at = address(self, self.space.loads.len() + s);
                let value = registers[store.register].expect("a stored register is computed");
                self.b.ins().store(flags(), value, at, 0);
            }
        }
        registers
    }

    /// Broadcasts a value to a vector. A bool becomes a mask lane: all bits set or none.
    fn splat(&mut self, value: Value, dtype: DType, lanes: Lanes) -> Value {
        if dtype != DType::Bool {
            return self.b.ins().splat(lanes.ty(), value);
        }
        let mask = lanes.ty().as_truthy();
        let wide = self.b.ins().uextend(mask.lane_type(), value);
        let bits = self.b.ins().ineg(wide);
        self.b.ins().splat(mask, bits)
    }

    /// A gather of elements at a stride.
    fn gather(&mut self, at: Value, stride: usize, lanes: Lanes) -> Value {
        let (one, bytes) = (
            lanes.ty().lane_type(),
            lanes.ty().lane_type().bytes() as usize,
        );
        let first = self.b.ins().load(one, flags(), at, 0);
        let mut vector = self.b.ins().splat(lanes.ty(), first);
        for lane in 1..lanes.count() {
            let offset = self.b.ins().iadd_imm_s(at, (lane * stride * bytes) as i64);
            let value = self.b.ins().load(one, flags(), offset, 0);
            vector = self.b.ins().insertlane(vector, value, lane as u8);
        }
        vector
    }

    /// A primitive on the values `x` of its operands: lane operations, integer instructions, or a call for each lane.
    fn prim(
        &mut self,
        prim: &'static Prim,
        operands: &[usize],
        x: &[Value],
        to: DType,
        lanes: Option<Lanes>,
    ) -> Value {
        let from = self.map.body[operands[0]].dtype;
        // The condition of a select is a bool; its float type is that of the other operands.
        let float = [to, from].into_iter().find(|d| d.is_float());
        let ty = lanes.map_or(scalar_type(float.unwrap_or(DType::F32)), Lanes::ty);
        let lane = |(o, v): (&usize, &Value)| Operand {
            lanes: *v,
            known: match self.map.body[*o].op {
                InstOp::Const(c) => Some(c),
                _ => None,
            },
        };
        let known: Vec<Operand<Value>> = operands.iter().zip(x).map(lane).collect();
        let mut clif = Clif::new(self.b, ty, self.machine.fma);
        if let Some(value) = prims::apply(&mut clif, prim, &known, from, to) {
            return value;
        }
        if from.is_float()
            && let Some((value, out_of_range)) = prims::inline_in_range(&mut clif, prim, x[0])
        {
            return self.with_call_fallback(prim, x, value, out_of_range, from, lanes);
        }
        match from.is_float() && prim.name != "cast" {
            false => self.integer(prim, x, from, to),
            true => self.call_lanes(prim, x, from, to, lanes),
        }
    }

    /// Slow path of an inlined function: lanes that are out of range are computed by calls.
    fn with_call_fallback(
        &mut self,
        prim: &'static Prim,
        x: &[Value],
        value: Value,
        out_of_range: Value,
        dtype: DType,
        lanes: Option<Lanes>,
    ) -> Value {
        let (slow_path, done) = (self.b.create_block(), self.b.create_block());
        let ty = self.b.func.dfg.value_type(value);
        self.b.append_block_param(done, ty);
        let is_any = match lanes {
            Some(_) => self.b.ins().vany_true(out_of_range),
            None => out_of_range,
        };
        self.b
            .ins()
            .brif(is_any, slow_path, &[], done, &[value.into()]);
        self.b.switch_to_block(slow_path);
        let called = self.call_lanes(prim, x, dtype, dtype, lanes);
        let blended = Clif::new(self.b, ty, self.machine.fma).select(out_of_range, called, value);
        self.b.ins().jump(done, &[blended.into()]);
        self.b.switch_to_block(done);
        self.b.block_params(done)[0]
    }

    /// A call for each lane.
    fn call_lanes(
        &mut self,
        prim: &'static Prim,
        x: &[Value],
        from: DType,
        to: DType,
        lanes: Option<Lanes>,
    ) -> Value {
        let Some(lanes) = lanes else {
            return self.call(prim, x, from, to);
        };
        let mut result = None;
        for lane in 0..lanes.count() {
            let one: Vec<Value> = x
                .iter()
                .map(|v| self.b.ins().extractlane(*v, lane as u8))
                .collect();
            let value = self.call(prim, &one, from, to);
            result = Some(match result {
                None => self.b.ins().splat(lanes.ty(), value),
                Some(vector) => self.b.ins().insertlane(vector, value, lane as u8),
            });
        }
        result.expect("a vector has lanes")
    }

    /// A primitive on integers, or a conversion between integers and floats.
    fn integer(&mut self, prim: &'static Prim, x: &[Value], from: DType, to: DType) -> Value {
        match prim.name {
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
            "sign" => {
                let above = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, x[0], 0);
                let below = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, x[0], 0);
                let difference = self.b.ins().isub(above, below);
                self.b.ins().sextend(scalar_type(from), difference)
            }
            "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal" => {
                let how = match prim.name {
                    "equal" => IntCC::Equal,
                    "not_equal" => IntCC::NotEqual,
                    "less" => IntCC::SignedLessThan,
                    "less_equal" => IntCC::SignedLessThanOrEqual,
                    "greater" => IntCC::SignedGreaterThan,
                    _ => IntCC::SignedGreaterThanOrEqual,
                };
                self.b.ins().icmp(how, x[0], x[1])
            }
            "select" => self.b.ins().select(x[0], x[1], x[2]),
            "stop_gradient" | "straight_through" => x[0],
            "cast" => self.cast(x[0], from, to),
            name => panic!("`{name}` has no code for integers"),
        }
    }

    fn cast(&mut self, x: Value, from: DType, to: DType) -> Value {
        let target = scalar_type(to);
        match (from, to) {
            _ if from == to => x,
            (DType::F32, DType::F64) => self.b.ins().fpromote(types::F64, x),
            (DType::F64, DType::F32) => self.b.ins().fdemote(types::F32, x),
            (DType::F32 | DType::F64, _) => self.b.ins().fcvt_to_sint_sat(target, x),
            (DType::Bool, _) => self.b.ins().uextend(target, x),
            (_, DType::F32 | DType::F64) => self.b.ins().fcvt_from_sint(target, x),
            (_, DType::Bool) => self.b.ins().icmp_imm_s(IntCC::NotEqual, x, 0),
            (DType::I32, DType::I64) => self.b.ins().sextend(types::I64, x),
            _ => self.b.ins().ireduce(types::I32, x),
        }
    }

    /// A call of the interpreter's scalar function, in f64 and rounded, for one element.
    fn call(&mut self, prim: &'static Prim, x: &[Value], from: DType, to: DType) -> Value {
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
            Eval::Test1(_) | Eval::Compare(..) | Eval::Bool2(_) | Eval::Tensors(_) => {
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
