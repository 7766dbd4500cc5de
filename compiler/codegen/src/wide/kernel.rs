//! Code generation for a fused loop: rows, the passes of a multi-pass loop over each row, masked tails and reductions.
//!
//! Every pass is a vector loop around one basic block, followed by the same block with masked loads and stores for the tail.
//! Row-invariant values are computed once between passes.

use trainspec_ir::DType;
use trainspec_ir::fuse::is_cheap;
use trainspec_ir::kernel::{Combine, InstOp, Map, Phases};

use super::block::{BinaryOp, Block, Op, UnaryOp, V};
use super::encode::{Asm, Condition, Gpr, Mem, R8, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm};
use super::registers::{self, Frame, Pinned, VMOVUPS_LOAD, VMOVUPS_STORE};
use super::{MAX_ACCESSES, ROW_BUFFER_BYTES, Wide, integer};
use crate::math::{Emit, Lane};
use crate::translate::prims::{self, Operand};
use crate::translate::{Space, lanes_of};

/// The registers available for pointers.
const POINTERS: [Gpr; 8] = [
    Gpr(9),
    Gpr(10),
    Gpr(11),
    RBX,
    Gpr(12),
    Gpr(13),
    Gpr(14),
    Gpr(15),
];
/// Those of them that are callee-saved.
const CALLEE_SAVED: [Gpr; 5] = [RBX, Gpr(12), Gpr(13), Gpr(14), Gpr(15)];

/// Loops that stream at least this many bytes prefetch: their working set is in memory, not in a cache.
const PREFETCH_MIN_BYTES: usize = 1 << 25;
/// The prefetch distance in bytes.
const PREFETCH_DISTANCE_BYTES: i32 = 512;

/// The most accumulators of a pass; more would leave too few registers.
const MAX_ACCUMULATORS: usize = 6;

/// Compiles a fused loop; `None` where it has mixed element widths, too many accesses, or an operation that AVX2 code does not cover.
pub(super) fn compile(map: &Map, space: &Space, listing: bool) -> Option<Wide> {
    let lane = lane_of(map)?;
    let phases = Phases::of(map);
    let accesses = map.loads.len() + map.stores.len();
    if !space.middle.is_empty() || accesses + 1 > MAX_ACCESSES {
        return None;
    }
    let mut kernel = Kernel {
        map,
        space,
        lane,
        invariant_slots: invariant_slots(map, &phases),
        buffered: buffered_rows(map, space, &phases, lane),
        phases,
        frame: frame(map, space, lane)?,
        asm: Asm::new(listing),
    };
    kernel.frame.row_invariants = kernel.invariant_slots.iter().flatten().count();
    kernel.function()?;
    let uses_row_buffer = kernel.buffered.iter().any(Option::is_some);
    let (bytes, listing) = kernel.asm.finish();
    Some(Wide {
        bytes,
        uses_row_buffer,
        listing,
    })
}

/// The lane type of a loop whose values all have one width; `None` for mixed widths.
fn lane_of(map: &Map) -> Option<Lane> {
    let mut found = None;
    for inst in &map.body {
        let lane = match inst.dtype {
            DType::F32 | DType::I32 => Lane::F32,
            DType::F64 | DType::I64 => Lane::F64,
            DType::Bool => continue,
            _ => return None,
        };
        if *found.get_or_insert(lane) != lane {
            return None;
        }
    }
    Some(found.unwrap_or(Lane::F32))
}

/// A stack slot for each row-invariant register, constants excepted.
fn invariant_slots(map: &Map, phases: &Phases) -> Vec<Option<usize>> {
    let mut next = 0;
    let mut slots = Vec::with_capacity(map.body.len());
    for (i, inst) in map.body.iter().enumerate() {
        let slot = phases.row_invariant[i] && !matches!(inst.op, InstOp::Const(_) | InstOp::Int(_));
        slots.push(slot.then(|| {
            next += 1;
            next - 1
        }));
    }
    slots
}

/// The registers of an earlier pass that a later one reads and that are too expensive to recompute, each with a row of the row buffer.
fn buffered_rows(map: &Map, space: &Space, phases: &Phases, lane: Lane) -> Vec<Option<usize>> {
    let row = row_bytes(space, lane);
    let mut expensive = vec![false; map.body.len()];
    for (i, inst) in map.body.iter().enumerate() {
        if let InstOp::Prim(prim, operands) = &inst.op {
            expensive[i] = !phases.row_invariant[i]
                && (!is_cheap(prim) || operands.iter().any(|o| expensive[*o]));
        }
    }
    let mut rows = vec![None; map.body.len()];
    let mut next = 0;
    for phase in 1..phases.count {
        let needed = phases.needed(map, phase);
        for (i, inst) in map.body.iter().enumerate() {
            let InstOp::Prim(_, operands) = &inst.op else {
                continue;
            };
            if !needed[i] || phases.first[i] != phase || phases.row_invariant[i] {
                continue;
            }
            for o in operands {
                let candidate = expensive[*o] && phases.first[*o] < phase && rows[*o].is_none();
                let stored = map.stores.iter().any(|s| !s.row && s.register == *o);
                let is_bool = map.body[*o].dtype == DType::Bool;
                if candidate && !stored && !is_bool && (next + 1) * row <= ROW_BUFFER_BYTES {
                    rows[*o] = Some(next);
                    next += 1;
                }
            }
        }
        // A reduction of a later pass may read a register of an earlier one, too.
        for (i, inst) in map.body.iter().enumerate() {
            if let InstOp::Reduce(_, o) = inst.op
                && phases.first[i] == phase + 1
                && phases.first[o] < phase
                && expensive[o]
                && rows[o].is_none()
                && (next + 1) * row <= ROW_BUFFER_BYTES
            {
                rows[o] = Some(next);
                next += 1;
            }
        }
    }
    rows
}

/// The bytes of a row of the row buffer, rounded up to full vectors.
fn row_bytes(space: &Space, lane: Lane) -> usize {
    (space.inner * lane.width() as usize / 8).next_multiple_of(32)
}

/// The frame of a loop: assigns pointer registers to accesses. `None` where a gather would have none, or a stride is too large.
fn frame(map: &Map, space: &Space, lane: Lane) -> Option<Frame> {
    let accesses = map.loads.len() + map.stores.len();
    let mut bytes = vec![0; accesses];
    for inst in &map.body {
        if let InstOp::Load(load) = inst.op {
            bytes[load] = inst.dtype.bytes() as u8;
        }
    }
    for (s, store) in map.stores.iter().enumerate() {
        bytes[map.loads.len() + s] = map.body[store.register].dtype.bytes() as u8;
    }
    // Strided accesses become gathers, which need a pointer register.
    let strided = |a: usize| a < map.loads.len() && space.loads[a].inner > 1;
    let mut order: Vec<usize> = (0..accesses).collect();
    order.sort_by_key(|a| !strided(*a));
    let mut pointers = vec![None; accesses + 1];
    for (access, register) in order.iter().zip(POINTERS) {
        pointers[*access] = Some(register);
    }
    for access in (0..accesses).filter(|a| strided(*a)) {
        pointers[access]?;
    }
    for strides in space.loads.iter().chain(&space.stores) {
        // Displacements and immediates have 32 bits: up to 8 lanes of 8 bytes.
        let largest = strides
            .inner
            .max(strides.outer.last().copied().unwrap_or(0));
        i32::try_from(largest.checked_mul(8 * 8)?).ok()?;
    }
    Some(Frame {
        row_invariants: 0,
        spill_slots: 0,
        pointers,
        bytes,
        table: RDI,
        row_buffer: (accesses, row_bytes(space, lane) as i32),
    })
}

/// A function under construction.
struct Kernel<'a> {
    map: &'a Map,
    space: &'a Space,
    lane: Lane,
    phases: Phases,
    /// The stack slot of each row-invariant register.
    invariant_slots: Vec<Option<usize>>,
    /// The row of the row buffer of each register that has one.
    buffered: Vec<Option<usize>>,
    frame: Frame,
    asm: Asm,
}

/// A block under construction and the virtual register of each IR register that it defines.
struct Values {
    block: Block,
    defined: Vec<Option<V>>,
}

impl Kernel<'_> {
    /// The lanes of a vector.
    fn lanes(&self) -> usize {
        256 / self.lane.width() as usize
    }

    /// The function: rdi holds the pointer table, rsi the number of rows, rdx their length.
    fn function(&mut self) -> Option<()> {
        let used = |register: &Gpr| self.frame.pointers.contains(&Some(*register));
        let saved: Vec<Gpr> = CALLEE_SAVED.into_iter().filter(used).collect();
        for saved in &saved {
            self.asm.push(*saved);
        }
        self.asm.push(RBP);
        self.asm.copy(RBP, RSP);
        let size = self.asm.subtract_patched(RSP);
        self.asm.and(RSP, -32);
        for (access, register) in self.frame.pointers.clone().into_iter().enumerate() {
            if let Some(register) = register {
                self.asm.load(register, Mem::at(RDI, 8 * access as i32));
            }
        }
        let row = self.asm.label();
        self.asm.bind(row);
        self.row_invariants(0)?;
        for phase in 0..self.phases.count {
            self.pass(phase)?;
            self.row_invariants(phase + 1)?;
        }
        self.next_row();
        self.asm.add(RSI, -1);
        self.asm.jump(Condition::NotZero, row);
        self.asm.upper_zero();
        self.asm.copy(RSP, RBP);
        self.asm.pop(RBP);
        for saved in saved.iter().rev() {
            self.asm.pop(*saved);
        }
        self.asm.ret();
        self.asm.patch(size, self.frame.size());
        Some(())
    }

    /// Advances all pointers to the next row.
    fn next_row(&mut self) {
        let strides = self.space.loads.iter().chain(&self.space.stores);
        let row_strides: Vec<usize> = strides
            .map(|s| s.outer.last().copied().unwrap_or(0))
            .collect();
        for (access, stride) in row_strides.into_iter().enumerate() {
            let bytes = stride * self.frame.bytes[access] as usize;
            let Ok(bytes) = i32::try_from(bytes) else {
                unreachable!("rows with larger strides were refused");
            };
            match self.frame.pointers[access] {
                _ if bytes == 0 => {}
                Some(register) => self.asm.add(register, bytes),
                None => self.asm.add_to(Mem::at(RDI, 8 * access as i32), bytes),
            }
        }
    }

    fn new_block(&self) -> Values {
        Values {
            block: Block::new(self.lane),
            defined: vec![None; self.map.body.len()],
        }
    }

    /// Computes the row-invariant values that are known after pass `phase - 1`, horizontal reductions included.
    fn row_invariants(&mut self, phase: usize) -> Option<()> {
        let mut values = self.new_block();
        let reductions = self.reductions(phase.wrapping_sub(1));
        for (i, inst) in self.map.body.iter().enumerate() {
            let Some(slot) = self.invariant_slots[i].filter(|_| self.phases.first[i] == phase)
            else {
                continue;
            };
            let v = match &inst.op {
                InstOp::Load(load) => match inst.dtype {
                    // A bool would be a byte.
                    DType::Bool => return None,
                    _ => values.block.push(Op::LoadBroadcast(*load)),
                },
                InstOp::Reduce(how, _) => {
                    let index = reductions.iter().position(|f| *f == i);
                    let index = index.expect("the last pass reduced it");
                    horizontal_reduce(&mut values.block, index, *how)
                }
                InstOp::Prim(..) => self.compute(&mut values, i, phase)?,
                InstOp::Const(_) | InstOp::Int(_) => unreachable!("constants have no slot"),
            };
            values.defined[i] = Some(v);
            values.block.push(Op::SetRowInvariant(slot, v));
        }
        for (s, store) in self.map.stores.iter().enumerate() {
            if store.row && self.phases.first[store.register] == phase {
                if self.map.body[store.register].dtype == DType::Bool {
                    return None;
                }
                let v = self.value(&mut values, store.register, phase)?;
                values
                    .block
                    .push(Op::StoreScalar(self.map.loads.len() + s, v));
            }
        }
        let pinned = Pinned {
            accumulators: (0..reductions.len()).map(|i| 15 - i as u8).collect(),
            ..Pinned::default()
        };
        registers::emit(&mut self.asm, &mut self.frame, &values.block, &pinned);
        Some(())
    }

    /// The reductions that a pass accumulates.
    fn reductions(&self, phase: usize) -> Vec<usize> {
        let is_reduced = |i: &usize| {
            matches!(self.map.body[*i].op, InstOp::Reduce(..))
                && self.phases.first[*i] == phase.wrapping_add(1)
        };
        (0..self.map.body.len()).filter(is_reduced).collect()
    }

    /// One pass over a row: full vectors, then the masked tail.
    fn pass(&mut self, phase: usize) -> Option<()> {
        let reductions = self.reductions(phase);
        if reductions.len() > MAX_ACCUMULATORS {
            return None;
        }
        let lanes = self.lanes() as i32;
        let flat = self.space.is_flat(self.map);
        let (inner, has_tail) = (
            self.space.inner,
            flat || !self.space.inner.is_multiple_of(self.lanes()),
        );
        let accumulators: Vec<u8> = (0..reductions.len()).map(|i| 15 - i as u8).collect();
        let body = self.body(phase, &reductions, false)?;
        // In a loop of a few iterations the loads before it would cost more than they save.
        let hoisted = match flat || inner > 4 * self.lanes() {
            true => registers::hoist(&body.block, &accumulators),
            false => Default::default(),
        };
        let mut pinned = Pinned {
            accumulators: accumulators.clone(),
            hoisted,
            masked_tail: false,
        };
        for (f, accumulator) in reductions.iter().zip(&accumulators) {
            let InstOp::Reduce(how, _) = self.map.body[*f].op else {
                unreachable!("a reduction");
            };
            let bits = self.lane.bits_of(how.identity());
            let bytes = registers::splat(bits.cast_unsigned(), self.lane);
            let identity = Rm::Const(self.asm.constant(bytes));
            self.asm
                .vector(VMOVUPS_LOAD, *accumulator, 0, identity, None);
        }
        self.asm.zero(RAX);
        if flat || inner >= self.lanes() {
            let (loop_start, done) = (self.asm.label(), self.asm.label());
            self.asm.copy(RCX, RDX);
            self.asm.and(RCX, -lanes);
            if flat {
                self.asm.jump(Condition::Zero, done);
            }
            registers::load_hoisted(&mut self.asm, &self.frame, self.lane, &pinned.hoisted);
            self.asm.bind(loop_start);
            self.prefetch(phase);
            registers::emit(&mut self.asm, &mut self.frame, &body.block, &pinned);
            self.asm.add(RAX, lanes);
            self.asm.compare(RAX, RCX);
            self.asm.jump(Condition::Below, loop_start);
            self.asm.bind(done);
        }
        if has_tail {
            pinned.hoisted.clear();
            pinned.masked_tail = true;
            self.masked_tail(phase, &reductions, &pinned)?;
        }
        Some(())
    }

    /// Software prefetch of streams that come from memory: the hardware prefetcher stops at page boundaries.
    fn prefetch(&mut self, phase: usize) {
        let needed = self.phases.needed(self.map, phase);
        let elements: usize = self.map.shape.iter().product();
        let mut streams = Vec::new();
        for (i, inst) in self.map.body.iter().enumerate() {
            if let InstOp::Load(load) = inst.op
                && needed[i]
                && self.space.loads[load].inner == 1
                && self.map.loads[load].strides.iter().all(|s| *s > 0)
                && !streams.contains(&load)
            {
                streams.push(load);
            }
        }
        let bytes = |load: &usize| elements * self.frame.bytes[*load] as usize;
        if streams.iter().map(bytes).sum::<usize>() < PREFETCH_MIN_BYTES {
            return;
        }
        for load in streams {
            let scale = self.frame.bytes[load];
            if let Some(base) = self.frame.pointers[load] {
                self.asm.prefetch(Mem {
                    base,
                    index: Some((RAX, scale)),
                    disp: PREFETCH_DISTANCE_BYTES,
                });
            }
        }
    }

    /// The masked tail: the last elements of a row, fewer than a vector has lanes.
    fn masked_tail(&mut self, phase: usize, reductions: &[usize], pinned: &Pinned) -> Option<()> {
        let done = self.asm.label();
        self.asm.copy(RCX, RDX);
        self.asm.subtract(RCX, RAX);
        if self.space.is_flat(self.map) {
            self.asm.jump(Condition::Zero, done);
        }
        // The mask is a window on 32 bytes of ones followed by 32 bytes of zeros.
        let table = self.asm.constant_pair([0xFF; 32], [0; 32]);
        self.asm.address_of_constant(R8, table + 1);
        self.asm.negate(RCX);
        let window = Mem {
            base: R8,
            index: Some((RCX, self.lane.width() as u8 / 8)),
            disp: 0,
        };
        // No value is in a register between two blocks, but for accumulators, which are at the other end.
        let scratch = 0;
        self.asm
            .vector(VMOVUPS_LOAD, scratch, 0, Rm::Mem(window), None);
        let mask = Rm::Mem(self.frame.mask());
        self.asm.vector(VMOVUPS_STORE, scratch, 0, mask, None);
        let body = self.body(phase, reductions, true)?;
        // Bool accesses of the body, which reads more than the stores of the pass need where it fills the row buffer.
        let bools = body.block.ops.iter().filter_map(|op| match op {
            Op::LoadBools(access) => Some((*access, true)),
            Op::StoreBools(access, _) => Some((*access, false)),
            _ => None,
        });
        let bools: Vec<(usize, bool)> = bools.collect();
        // The frame has space for the bool tail of one access.
        if bools.len() > 1 {
            return None;
        }
        if let [(access, true)] = bools[..] {
            self.copy_bool_tail(access, true);
        }
        registers::emit(&mut self.asm, &mut self.frame, &body.block, pinned);
        if let [(access, false)] = bools[..] {
            self.copy_bool_tail(access, false);
        }
        self.asm.bind(done);
        Some(())
    }

    /// Copies the bool bytes of a masked tail from their buffer to the frame (`from`), or back.
    fn copy_bool_tail(&mut self, access: usize, from: bool) {
        let spare = self.frame.bool_tail();
        let save = |i: i32| Mem::at(RSP, spare.disp + 8 + 8 * i);
        self.asm.store(save(0), RDI);
        self.asm.store(save(1), RSI);
        match self.frame.pointers[access] {
            Some(register) => self.asm.copy(R8, register),
            None => self.asm.load(R8, Mem::at(RDI, 8 * access as i32)),
        }
        let buffer = Mem {
            base: R8,
            index: Some((RAX, 1)),
            disp: 0,
        };
        let (source, target) = if from {
            (buffer, spare)
        } else {
            (spare, buffer)
        };
        self.asm.address(RSI, source);
        self.asm.address(RDI, target);
        self.asm.copy(RCX, RDX);
        self.asm.subtract(RCX, RAX);
        self.asm.copy_bytes();
        self.asm.load(RDI, save(0));
        self.asm.load(RSI, save(1));
    }

    /// The basic block of a pass.
    fn body(&self, phase: usize, reductions: &[usize], masked_tail: bool) -> Option<Values> {
        let mut values = self.new_block();
        let mut stored = false;
        for (s, store) in self.map.stores.iter().enumerate() {
            if store.row || self.phases.first[store.register] != phase {
                continue;
            }
            let v = self.value(&mut values, store.register, phase)?;
            // A store may alias a load (in-place reuse), so all loads come before the first store.
            if !std::mem::replace(&mut stored, true) {
                self.load_all(&mut values, phase)?;
            }
            let access = self.map.loads.len() + s;
            let block = &mut values.block;
            match self.map.body[store.register].dtype {
                DType::Bool => {
                    let bytes = block.push(Op::Unary(UnaryOp::PackBools, v));
                    block.push(Op::StoreBools(access, bytes))
                }
                _ => block.push(Op::Store(access, v)),
            };
        }
        for (i, row) in self.buffered.iter().enumerate() {
            if let Some(row) = row.filter(|_| self.phases.first[i] == phase) {
                let v = self.value(&mut values, i, phase)?;
                values.block.push(Op::StoreRowBuffer(row, v));
            }
        }
        for (index, reduction) in reductions.iter().enumerate() {
            let InstOp::Reduce(how, register) = self.map.body[*reduction].op else {
                unreachable!("a reduction");
            };
            let v = self.value(&mut values, register, phase)?;
            let block = &mut values.block;
            let v = match masked_tail {
                true => {
                    let (mask, identity) = (block.push(Op::Mask), block.float(how.identity()));
                    block.select(mask, v, identity)
                }
                false => v,
            };
            let accumulator = block.push(Op::Accumulator(index));
            let next = prims::combine(block, how, accumulator, v);
            block.push(Op::SetAccumulator(index, next));
        }
        Some(values)
    }

    /// Emits the contiguous loads of a pass that the block does not have yet. Operands of a gather never alias a store.
    fn load_all(&self, values: &mut Values, phase: usize) -> Option<()> {
        let needed = self.phases.needed(self.map, phase);
        for (i, inst) in self.map.body.iter().enumerate() {
            if let InstOp::Load(load) = inst.op
                && needed[i]
                && self.space.loads[load].inner == 1
            {
                self.value(values, i, phase)?;
            }
        }
        Some(())
    }

    /// The value of an IR register in a block, with the operations it depends on.
    fn value(&self, values: &mut Values, register: usize, phase: usize) -> Option<V> {
        if let Some(v) = values.defined[register] {
            return Some(v);
        }
        let inst = &self.map.body[register];
        let earlier = self.phases.first[register] < phase && !self.phases.row_invariant[register];
        let stored = || {
            let at = |s: &trainspec_ir::kernel::Store| !s.row && s.register == register;
            self.map.stores.iter().position(at)
        };
        let block = &mut values.block;
        let v = match &inst.op {
            InstOp::Const(x) => block.float(*x),
            InstOp::Int(n) if inst.dtype == DType::Bool => block.bits_const(-*n),
            InstOp::Int(n) => block.bits_const(*n),
            _ if self.invariant_slots[register].is_some() => {
                let slot = self.invariant_slots[register].expect("it has a slot");
                block.push(Op::RowInvariant(slot))
            }
            InstOp::Load(load) => self.load(block, *load, inst.dtype)?,
            InstOp::Prim(..) if earlier && self.buffered[register].is_some() => {
                let row = self.buffered[register].expect("it is buffered");
                block.push(Op::LoadRowBuffer(row))
            }
            // A value that an earlier pass stored is loaded from its buffer.
            InstOp::Prim(..) if earlier && inst.dtype != DType::Bool && stored().is_some() => {
                let store = stored().expect("it is stored");
                block.push(Op::Load(self.map.loads.len() + store))
            }
            InstOp::Prim(..) => self.compute(values, register, phase)?,
            InstOp::Reduce(..) => unreachable!("a reduction is row-invariant and has a slot"),
        };
        values.defined[register] = Some(v);
        Some(v)
    }

    /// A load by its stride: a broadcast, a vector or a gather. `None` for bools that are not contiguous.
    fn load(&self, block: &mut Block, load: usize, dtype: DType) -> Option<V> {
        Some(match (self.space.loads[load].inner, dtype) {
            (0, DType::Bool) => return None,
            (0, _) => block.push(Op::LoadBroadcast(load)),
            (1, DType::Bool) => {
                let bytes = block.push(Op::LoadBools(load));
                let zero = block.int(0);
                block.binary(BinaryOp::IntGreater, bytes, zero)
            }
            (1, _) => block.push(Op::Load(load)),
            (_, DType::Bool) => return None,
            (stride, _) => block.push(Op::Gather(load, stride)),
        })
    }

    /// A primitive on the values of its operands; `None` where there are no vector instructions for it.
    fn compute(&self, values: &mut Values, register: usize, phase: usize) -> Option<V> {
        let inst = &self.map.body[register];
        let InstOp::Prim(prim, operands) = &inst.op else {
            unreachable!("a primitive");
        };
        let mut lanes = Vec::with_capacity(operands.len());
        for o in operands {
            let known = match self.map.body[*o].op {
                InstOp::Const(c) => Some(c),
                _ => None,
            };
            lanes.push(Operand {
                lanes: self.value(values, *o, phase)?,
                known,
            });
        }
        let from = self.map.body[operands[0]].dtype;
        let block = &mut values.block;
        match prims::apply(block, prim, &lanes, from, inst.dtype) {
            Some(v) => Some(v),
            None => {
                let lanes: Vec<V> = lanes.iter().map(|o| o.lanes).collect();
                integer::apply(block, prim, &lanes, from, inst.dtype)
            }
        }
    }
}

/// Horizontal reduction of an accumulator, broadcast to all lanes: a butterfly that combines the first half with the second, and so on.
fn horizontal_reduce(block: &mut Block, index: usize, how: Combine) -> V {
    let mut v = block.push(Op::Accumulator(index));
    let dtype = match block.lane {
        Lane::F32 => DType::F32,
        Lane::F64 => DType::F64,
    };
    let mut half = lanes_of(dtype) / 2;
    while half > 0 {
        let swap = match (block.lane, half) {
            (Lane::F32, 4) | (Lane::F64, 2) => UnaryOp::Swap128,
            (Lane::F32, 2) => UnaryOp::Swap64,
            _ => UnaryOp::SwapLanes,
        };
        let other = block.push(Op::Unary(swap, v));
        v = prims::combine(block, how, v, other);
        half /= 2;
    }
    block.push(Op::Unary(UnaryOp::Broadcast, v))
}
