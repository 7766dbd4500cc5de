//! Local register allocator for one basic block, fused with emission; spills the furthest next use (Belady).
//!
//! A value occupies a register from its definition to its last use. When registers run out, the value with the furthest next use is
//! spilled. Constants and row-invariant values are memory operands, rematerialized instead of spilled; those used most are hoisted
//! out of the loop into the registers that are left over.

use std::collections::HashMap;

use super::block::{BinaryOp, Block, FmaOp, Op, Shift, UnaryOp, V};
use super::encode::{Asm, Gpr, Mem, R8, RAX, RSP, Rm, Vex};
use crate::math::Lane;

/// The stack frame and pointer registers of a function.
#[derive(Debug)]
pub(super) struct Frame {
    /// The number of slots for row-invariant values, 32 bytes each, at the stack pointer. The tail mask follows, then 32 bytes for the
    /// bool bytes of a masked tail, then the spill slots.
    pub(super) row_invariants: usize,
    /// The number of spill slots.
    pub(super) spill_slots: usize,
    /// The pointer register of each access that has one; the other pointers are loaded from the table.
    pub(super) pointers: Vec<Option<Gpr>>,
    /// The element size of each access in bytes.
    pub(super) bytes: Vec<u8>,
    /// The register that holds the address of the pointer table.
    pub(super) table: Gpr,
    /// The row buffer: its access, which comes after the last one, and the bytes of a row.
    pub(super) row_buffer: (usize, i32),
}

impl Frame {
    /// A slot of 32 bytes at the stack pointer.
    pub(super) fn slot(index: usize) -> Mem {
        Mem::at(RSP, (32 * index) as i32)
    }

    /// The mask of the tail: lanes inside the row have all bits set.
    pub(super) fn mask(&self) -> Mem {
        Frame::slot(self.row_invariants)
    }

    /// The bool bytes of a masked tail.
    pub(super) fn bool_tail(&self) -> Mem {
        Frame::slot(self.row_invariants + 1)
    }

    fn spill(&self, index: usize) -> Mem {
        Frame::slot(self.row_invariants + 2 + index)
    }

    /// The bytes of the frame.
    pub(super) fn size(&self) -> i32 {
        (32 * (self.row_invariants + 2 + self.spill_slots)) as i32
    }
}

/// Registers and values that are pinned while a block is emitted.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned {
    /// The accumulator registers of reductions.
    pub(super) accumulators: Vec<u8>,
    /// Loop-invariant values that are hoisted into a register for the whole loop.
    pub(super) hoisted: HashMap<Op, u8>,
    /// Whether this is the masked tail of a row.
    pub(super) masked_tail: bool,
}

impl Pinned {
    /// The registers that are not pinned, the lowest last, since allocation pops.
    fn free(&self) -> Vec<u8> {
        let taken = |r: &u8| self.accumulators.contains(r) || self.hoisted.values().any(|h| h == r);
        (0..16).rev().filter(|r| !taken(r)).collect()
    }
}

/// Liveness within the block: which operations a side effect depends on. The others are dead code.
fn live_ops(block: &Block) -> Vec<bool> {
    let mut live_ops: Vec<bool> = block.ops.iter().map(Op::is_effect).collect();
    for i in (0..block.ops.len()).rev() {
        if live_ops[i] {
            let (operands, n) = block.ops[i].operands();
            operands[..n]
                .iter()
                .for_each(|v| live_ops[v.index()] = true);
        }
    }
    live_ops
}

/// The uses of each value: positions of the live operations that read it, in order.
fn uses(block: &Block, live_ops: &[bool]) -> Vec<Vec<u32>> {
    let mut uses = vec![Vec::new(); block.ops.len()];
    for (i, op) in block.ops.iter().enumerate().filter(|(i, _)| live_ops[*i]) {
        let (operands, n) = op.operands();
        for v in &operands[..n] {
            uses[v.index()].push(i as u32);
        }
    }
    uses
}

/// Chooses the loop-invariant values to hoist into registers: those with the most uses first, as many as the register pressure of the
/// block leaves registers for.
pub(super) fn hoist(block: &Block, accumulators: &[u8]) -> HashMap<Op, u8> {
    let live_ops = live_ops(block);
    let uses = uses(block, &live_ops);
    let (mut live, mut max_live) = (0_usize, 0_usize);
    let mut last_uses = vec![0_usize; block.ops.len()];
    for (i, op) in block.ops.iter().enumerate() {
        if !live_ops[i] {
            continue;
        }
        if !op.is_rematerializable() && !op.is_effect() {
            live += 1;
            if let Some(last) = uses[i].last() {
                last_uses[*last as usize] += 1;
            }
        }
        max_live = max_live.max(live);
        live -= last_uses[i].min(live);
    }
    // Two more for operands that must be in a register.
    let spare = (16 - accumulators.len()).saturating_sub(max_live + 2);
    let mut candidates: Vec<(usize, usize)> = (0..block.ops.len())
        .filter(|i| live_ops[*i] && matches!(block.ops[*i], Op::Const(_) | Op::RowInvariant(_)))
        .map(|i| (uses[i].len(), i))
        .collect();
    candidates.sort_by_key(|(n, i)| (std::cmp::Reverse(*n), *i));
    let free = (0..16).filter(|r| !accumulators.contains(r));
    candidates
        .iter()
        .take(spare)
        .zip(free)
        .map(|((_, i), r)| (block.ops[*i], r))
        .collect()
}

/// Loads the hoisted values before the loop.
pub(super) fn load_hoisted(asm: &mut Asm, frame: &Frame, lane: Lane, hoisted: &HashMap<Op, u8>) {
    let mut all: Vec<_> = hoisted.iter().collect();
    all.sort_by_key(|(_, r)| **r);
    for (op, r) in all {
        let rm = rematerialized(asm, frame, lane, *op);
        asm.vector(VMOVUPS_LOAD, *r, 0, rm, None);
    }
}

/// A rematerializable value as a memory operand.
fn rematerialized(asm: &mut Asm, frame: &Frame, lane: Lane, op: Op) -> Rm {
    match op {
        Op::Const(bits) => Rm::Const(asm.constant(splat(bits, lane))),
        Op::RowInvariant(slot) => Rm::Mem(Frame::slot(slot)),
        _ => Rm::Mem(frame.mask()),
    }
}

/// The bits of a lane repeated over a vector.
pub(super) fn splat(bits: u64, lane: Lane) -> [u8; 32] {
    let mut bytes = [0; 32];
    let width = lane.width() as usize / 8;
    for chunk in bytes.chunks_exact_mut(width) {
        chunk.copy_from_slice(&bits.to_le_bytes()[..width]);
    }
    bytes
}

pub(super) const VMOVUPS_LOAD: Vex = Vex::new("vmovups", 1, 0, 0x10).two();
pub(super) const VMOVUPS_STORE: Vex = Vex::new("vmovups", 1, 0, 0x11).store();

/// Allocates registers for a block and emits it.
pub(super) fn emit(asm: &mut Asm, frame: &mut Frame, block: &Block, pinned: &Pinned) {
    let live_ops = live_ops(block);
    let uses = uses(block, &live_ops);
    let mut allocator = Allocator {
        asm,
        frame,
        block,
        pinned,
        uses_done: vec![0; block.ops.len()],
        uses,
        locations: vec![Location::default(); block.ops.len()],
        free: pinned.free(),
        occupants: [None; 16],
        slots_in_use: Vec::new(),
        expired_slots: Vec::new(),
        position: 0,
    };
    for (i, op) in block.ops.iter().enumerate() {
        if live_ops[i] {
            allocator.position = i;
            allocator.op(V(i as u32), *op);
            for slot in allocator.expired_slots.drain(..) {
                allocator.slots_in_use[slot] = false;
            }
        }
    }
}

/// The location of a value: a register, a spill slot, or both.
#[derive(Debug, Clone, Copy, Default)]
struct Location {
    register: Option<u8>,
    spill_slot: Option<usize>,
}

struct Allocator<'a> {
    asm: &'a mut Asm,
    frame: &'a mut Frame,
    block: &'a Block,
    pinned: &'a Pinned,
    uses: Vec<Vec<u32>>,
    /// How many of its uses each value has passed.
    uses_done: Vec<usize>,
    locations: Vec<Location>,
    free: Vec<u8>,
    /// The value that occupies each register.
    occupants: [Option<V>; 16],
    /// Whether each spill slot is in use.
    slots_in_use: Vec<bool>,
    /// Spill slots whose live range ends at this operation. The operation may still read them after its result was assigned a register,
    /// so they are freed only after it.
    expired_slots: Vec<usize>,
    /// The index of the current operation.
    position: usize,
}

impl Allocator<'_> {
    /// Whether lanes are f64, four to a vector; else there are eight of 32 bits.
    fn double(&self) -> bool {
        self.block.lane == Lane::F64
    }

    /// A float instruction: f32 and f64 share the opcode, f64 has the 66 prefix.
    fn float(&self, name: &'static str, map: u8, opcode: u8) -> Vex {
        Vex::new(name, map, u8::from(self.double()), opcode)
    }

    /// The position of the next operation that reads a value; `u32::MAX` after its last use.
    fn next_use(&self, v: V) -> u32 {
        self.uses[v.index()]
            .get(self.uses_done[v.index()])
            .copied()
            .unwrap_or(u32::MAX)
    }

    /// Allocates a register; if none is free, spills the value with the furthest next use. `locked` registers hold operands of the
    /// current operation.
    fn alloc_or_spill(&mut self, locked: &[u8]) -> u8 {
        if let Some(r) = self.free.pop() {
            return r;
        }
        let candidates = (0..16_u8).filter(|r| !locked.contains(r));
        let victim = candidates
            .filter_map(|r| self.occupants[r as usize].map(|v| (self.next_use(v), r, v)))
            .max_by_key(|(next, r, _)| (*next, *r));
        let (_, r, v) = victim.expect("an operation needs fewer registers than there are");
        let rematerializable = self.block.ops[v.index()].is_rematerializable();
        if !rematerializable && self.locations[v.index()].spill_slot.is_none() {
            let slot = match self.slots_in_use.iter().position(|used| !used) {
                Some(slot) => slot,
                None => {
                    self.slots_in_use.push(false);
                    self.slots_in_use.len() - 1
                }
            };
            self.slots_in_use[slot] = true;
            self.frame.spill_slots = self.frame.spill_slots.max(self.slots_in_use.len());
            self.locations[v.index()].spill_slot = Some(slot);
            let to = self.frame.spill(slot);
            self.asm.vector(VMOVUPS_STORE, r, 0, Rm::Mem(to), None);
        }
        self.locations[v.index()].register = None;
        self.occupants[r as usize] = None;
        r
    }

    /// Assigns a register to a value.
    fn assign(&mut self, v: V, r: u8) {
        self.locations[v.index()].register = Some(r);
        self.occupants[r as usize] = Some(v);
    }

    /// The register that holds a value now, pinned registers included.
    fn in_register(&self, v: V) -> Option<u8> {
        let op = self.block.ops[v.index()];
        if let Op::Accumulator(sum) = op {
            return Some(self.pinned.accumulators[sum]);
        }
        self.pinned
            .hoisted
            .get(&op)
            .copied()
            .or(self.locations[v.index()].register)
    }

    /// A value as the r/m operand of an instruction: a register or memory.
    fn rm_operand(&mut self, v: V) -> Rm {
        if let Some(r) = self.in_register(v) {
            return Rm::Reg(r);
        }
        if let Some(slot) = self.locations[v.index()].spill_slot {
            return Rm::Mem(self.frame.spill(slot));
        }
        let op = self.block.ops[v.index()];
        rematerialized(self.asm, self.frame, self.block.lane, op)
    }

    /// A value as a register operand, reloaded or rematerialized where it is in memory.
    fn reg_operand(&mut self, v: V, locked: &[u8]) -> u8 {
        if let Some(r) = self.in_register(v) {
            return r;
        }
        let from = self.rm_operand(v);
        let r = self.alloc_or_spill(locked);
        self.asm.vector(VMOVUPS_LOAD, r, 0, from, None);
        self.assign(v, r);
        r
    }

    /// Whether this operation is the last use of a value, so that its register may be overwritten.
    fn is_last_use(&self, v: V) -> bool {
        let op = self.block.ops[v.index()];
        let own = !matches!(op, Op::Accumulator(_)) && !self.pinned.hoisted.contains_key(&op);
        let later = self.uses[v.index()].iter();
        own && !later
            .skip(self.uses_done[v.index()])
            .any(|at| *at as usize > self.position)
    }

    /// Advances the uses of operands; frees registers and spill slots whose live range ends here.
    fn release(&mut self, operands: &[V]) {
        for v in operands {
            while self.next_use(*v) <= self.position as u32 {
                self.uses_done[v.index()] += 1;
            }
            if self.next_use(*v) == u32::MAX {
                let location = &mut self.locations[v.index()];
                self.expired_slots.extend(location.spill_slot.take());
                if let Some(r) = location.register.take() {
                    self.occupants[r as usize] = None;
                    self.free.push(r);
                }
            }
        }
    }

    /// The register that holds the pointer of an access; one without a register of its own is loaded from the table into R8.
    fn pointer(&mut self, access: usize) -> Gpr {
        match self.frame.pointers[access] {
            Some(r) => r,
            None => {
                let at = Mem::at(self.frame.table, 8 * access as i32);
                self.asm.load(R8, at);
                R8
            }
        }
    }

    /// The address of an access at the loop index.
    fn address(&mut self, access: usize) -> Mem {
        Mem {
            base: self.pointer(access),
            index: Some((RAX, self.frame.bytes[access])),
            disp: 0,
        }
    }

    /// The address in a row of the row buffer at the loop index.
    fn row_buffer(&mut self, row: usize) -> Mem {
        let (access, bytes) = self.frame.row_buffer;
        Mem {
            base: self.pointer(access),
            index: Some((RAX, self.block.lane.width() as u8 / 8)),
            disp: row as i32 * bytes,
        }
    }

    /// Emits an operation, whose result is `v`.
    fn op(&mut self, v: V, op: Op) {
        let (operands, n) = op.operands();
        let operands = &operands[..n];
        match op {
            // Memory operands or pinned registers of their uses.
            Op::Const(_) | Op::RowInvariant(_) | Op::Mask | Op::Accumulator(_) => {}
            Op::Load(access) => {
                let at = self.address(access);
                self.load(v, at);
            }
            Op::LoadRowBuffer(row) => {
                let at = self.row_buffer(row);
                let r = self.alloc_or_spill(&[]);
                self.asm.vector(VMOVUPS_LOAD, r, 0, Rm::Mem(at), None);
                self.assign(v, r);
            }
            Op::LoadBroadcast(access) => {
                let base = self.pointer(access);
                let r = self.alloc_or_spill(&[]);
                let vex = match self.double() {
                    true => Vex::new("vbroadcastsd", 2, 1, 0x19).two(),
                    false => Vex::new("vbroadcastss", 2, 1, 0x18).two(),
                };
                self.asm.vector(vex, r, 0, Rm::Mem(Mem::at(base, 0)), None);
                self.assign(v, r);
            }
            Op::LoadBools(access) => {
                let at = match self.pinned.masked_tail {
                    // The tail bytes were copied there: a full load could read past the buffer.
                    true => self.frame.bool_tail(),
                    false => self.address(access),
                };
                let r = self.alloc_or_spill(&[]);
                let vex = match self.double() {
                    true => Vex::new("vpmovzxbq", 2, 1, 0x32).two(),
                    false => Vex::new("vpmovzxbd", 2, 1, 0x31).two(),
                };
                self.asm.vector(vex, r, 0, Rm::Mem(at), None);
                self.assign(v, r);
            }
            Op::Gather(access, stride) => self.gather(v, access, stride),
            Op::Binary(op, a, b) => self.binary(v, op, a, b),
            Op::Compare(predicate, a, b) => {
                let a = self.reg_operand(a, &[]);
                let b = self.rm_operand(b);
                self.release(operands);
                let r = self.alloc_or_spill(&[]);
                let vex = self.float("vcmpps", 1, 0xC2);
                self.asm.vector(vex, r, a, b, Some(predicate));
                self.assign(v, r);
            }
            Op::Unary(op, a) => self.unary(v, op, a),
            Op::Shift(shift, a, by) => {
                let a = self.reg_operand(a, &[]);
                self.release(operands);
                let r = self.alloc_or_spill(&[]);
                let opcode = if self.double() { 0x73 } else { 0x72 };
                // The opcode extension in ModRM.reg.
                let (extension, name) = match shift {
                    Shift::Left => (6, "vpsll"),
                    Shift::Right => (2, "vpsrl"),
                };
                let vex = Vex::new(name, 1, 1, opcode).dest_in_vvvv();
                self.asm.vector(vex, extension, r, Rm::Reg(a), Some(by));
                self.assign(v, r);
            }
            Op::Fma(fused, a, b, c) => self.fma(v, fused, [a, b, c]),
            Op::Select(mask, yes, no) => {
                let mask = self.reg_operand(mask, &[]);
                let no = self.reg_operand(no, &[mask]);
                let yes = self.rm_operand(yes);
                self.release(operands);
                let r = self.alloc_or_spill(&[]);
                let opcode = if self.double() { 0x4B } else { 0x4A };
                let vex = Vex::new("vblendv", 3, 1, opcode);
                self.asm.vector(vex, r, no, yes, Some(mask << 4));
                self.assign(v, r);
            }
            Op::Store(access, a) => {
                let a = self.reg_operand(a, &[]);
                let mut mask = None;
                if self.pinned.masked_tail {
                    mask = Some(self.mask(&[a]));
                }
                let at = Rm::Mem(self.address(access));
                match mask {
                    None => self.asm.vector(VMOVUPS_STORE, a, 0, at, None),
                    Some(mask) => {
                        let opcode = if self.double() { 0x2F } else { 0x2E };
                        let vex = Vex::new("vmaskmov to memory", 2, 1, opcode);
                        self.asm.vector(vex, a, mask, at, None);
                    }
                }
                self.release(operands);
            }
            Op::StoreBools(access, a) => {
                let a = self.reg_operand(a, &[]);
                let at = match self.pinned.masked_tail {
                    true => self.frame.bool_tail(),
                    false => self.address(access),
                };
                let vex = match self.double() {
                    true => Vex::new("vmovd", 1, 1, 0x7E).xmm().store(),
                    false => Vex::new("vmovq", 1, 1, 0xD6).xmm().store(),
                };
                self.asm.vector(vex, a, 0, Rm::Mem(at), None);
                self.release(operands);
            }
            Op::StoreScalar(access, a) => {
                let a = self.reg_operand(a, &[]);
                let base = self.pointer(access);
                let vex = match self.double() {
                    true => Vex::new("vmovsd", 1, 3, 0x11).xmm().store(),
                    false => Vex::new("vmovss", 1, 2, 0x11).xmm().store(),
                };
                self.asm.vector(vex, a, 0, Rm::Mem(Mem::at(base, 0)), None);
                self.release(operands);
            }
            Op::StoreRowBuffer(row, a) => {
                let a = self.reg_operand(a, &[]);
                let at = self.row_buffer(row);
                self.asm.vector(VMOVUPS_STORE, a, 0, Rm::Mem(at), None);
                self.release(operands);
            }
            Op::SetAccumulator(sum, a) => {
                let from = self.rm_operand(a);
                let to = self.pinned.accumulators[sum];
                self.asm.vector(VMOVUPS_LOAD, to, 0, from, None);
                self.release(operands);
            }
            Op::SetRowInvariant(slot, a) => {
                let a = self.reg_operand(a, &[]);
                self.asm
                    .vector(VMOVUPS_STORE, a, 0, Rm::Mem(Frame::slot(slot)), None);
                self.release(operands);
            }
        }
    }

    /// A load of a vector; in the masked tail only of the lanes inside the row, the others being zero.
    fn load(&mut self, v: V, at: Mem) {
        if !self.pinned.masked_tail {
            let r = self.alloc_or_spill(&[]);
            self.asm.vector(VMOVUPS_LOAD, r, 0, Rm::Mem(at), None);
            return self.assign(v, r);
        }
        let mask = self.mask(&[]);
        let r = self.alloc_or_spill(&[mask]);
        let opcode = if self.double() { 0x2D } else { 0x2C };
        let vex = Vex::new("vmaskmov", 2, 1, opcode);
        self.asm.vector(vex, r, mask, Rm::Mem(at), None);
        self.assign(v, r);
    }

    /// The tail mask in a temporary register, which is free again after this operation.
    fn mask(&mut self, locked: &[u8]) -> u8 {
        let r = self.alloc_or_spill(locked);
        let from = Rm::Mem(self.frame.mask());
        self.asm.vector(VMOVUPS_LOAD, r, 0, from, None);
        self.free.insert(0, r);
        r
    }

    /// A load of elements at a stride (`vgather`).
    fn gather(&mut self, v: V, access: usize, stride: usize) {
        let bytes = self.frame.bytes[access];
        let mut lanes = [0; 32];
        for (i, lane) in lanes.chunks_exact_mut(4).enumerate() {
            lane.copy_from_slice(&((i * stride) as u32).to_le_bytes());
        }
        let lanes = self.asm.constant(lanes);
        let base = self.frame.pointers[access].expect("strided accesses have a register");
        self.asm.multiply(R8, RAX, stride as i32);
        let at = Mem {
            base,
            index: Some((R8, bytes)),
            disp: 0,
        };
        self.asm.address(R8, at);
        let r = self.alloc_or_spill(&[]);
        let index = self.alloc_or_spill(&[r]);
        let mask = self.alloc_or_spill(&[r, index]);
        self.asm
            .vector(VMOVUPS_LOAD, index, 0, Rm::Const(lanes), None);
        match self.pinned.masked_tail {
            true => {
                let from = Rm::Mem(self.frame.mask());
                self.asm.vector(VMOVUPS_LOAD, mask, 0, from, None);
            }
            false => {
                let all = self.asm.constant([0xFF; 32]);
                self.asm.vector(VMOVUPS_LOAD, mask, 0, Rm::Const(all), None);
            }
        }
        // Masked-out lanes are zero, as for `vmaskmov`.
        let zero = Vex::new("vxorps", 1, 0, 0x57);
        self.asm.vector(zero, r, r, Rm::Reg(r), None);
        self.asm.gather(self.double(), r, R8, index, bytes, mask);
        self.free.push(mask);
        self.free.push(index);
        self.assign(v, r);
    }

    fn binary(&mut self, v: V, op: BinaryOp, a: V, b: V) {
        let double = self.double();
        let int = |name, d: u8, q: u8| Vex::new(name, 1, 1, if double { q } else { d });
        let (vex, commutative) = match op {
            BinaryOp::Add => (self.float("vaddps", 1, 0x58), true),
            BinaryOp::Sub => (self.float("vsubps", 1, 0x5C), false),
            BinaryOp::Mul => (self.float("vmulps", 1, 0x59), true),
            BinaryOp::Div => (self.float("vdivps", 1, 0x5E), false),
            BinaryOp::Min => (self.float("vminps", 1, 0x5D), false),
            BinaryOp::Max => (self.float("vmaxps", 1, 0x5F), false),
            BinaryOp::And => (self.float("vandps", 1, 0x54), true),
            BinaryOp::AndNot => (self.float("vandnps", 1, 0x55), false),
            BinaryOp::Or => (self.float("vorps", 1, 0x56), true),
            BinaryOp::Xor => (self.float("vxorps", 1, 0x57), true),
            BinaryOp::IntAdd => (int("vpadd", 0xFE, 0xD4), true),
            BinaryOp::IntSub => (int("vpsub", 0xFA, 0xFB), false),
            BinaryOp::IntMul => (Vex::new("vpmulld", 2, 1, 0x40), true),
            BinaryOp::IntEqual if double => (Vex::new("vpcmpeqq", 2, 1, 0x29), true),
            BinaryOp::IntEqual => (Vex::new("vpcmpeqd", 1, 1, 0x76), true),
            BinaryOp::IntGreater if double => (Vex::new("vpcmpgtq", 2, 1, 0x37), false),
            BinaryOp::IntGreater => (Vex::new("vpcmpgtd", 1, 1, 0x66), false),
        };
        let (first, second) = match commutative && self.in_register(a).is_none() {
            true => (b, a),
            false => (a, b),
        };
        let x = self.reg_operand(first, &[]);
        let y = self.rm_operand(second);
        self.release(&[a, b]);
        let r = self.alloc_or_spill(&[]);
        self.asm.vector(vex, r, x, y, None);
        self.assign(v, r);
    }

    fn unary(&mut self, v: V, op: UnaryOp, a: V) {
        let double = self.double();
        let permute = if double { 0x05 } else { 0x04 };
        let (vex, immediate) = match op {
            UnaryOp::Sqrt => (self.float("vsqrtps", 1, 0x51).two(), None),
            UnaryOp::Round(how) => {
                let opcode = if double { 0x09 } else { 0x08 };
                // Bit 3 suppresses the precision exception.
                (Vex::new("vroundps", 3, 1, opcode).two(), Some(how | 8))
            }
            UnaryOp::FromInt => (Vex::new("vcvtdq2ps", 1, 0, 0x5B).two(), None),
            UnaryOp::ToInt => (Vex::new("vcvttps2dq", 1, 2, 0x5B).two(), None),
            UnaryOp::Swap128 => return self.swap_128(v, a),
            UnaryOp::Swap64 => (Vex::new("vpermilps", 3, 1, 0x04).two(), Some(0x4E)),
            UnaryOp::SwapLanes => {
                let order = if double { 0x05 } else { 0xB1 };
                (Vex::new("vpermilps", 3, 1, permute).two(), Some(order))
            }
            UnaryOp::Broadcast => {
                let from = self.reg_operand(a, &[]);
                self.release(&[a]);
                let r = self.alloc_or_spill(&[]);
                let vex = match double {
                    true => Vex::new("vbroadcastsd", 2, 1, 0x19).two(),
                    false => Vex::new("vbroadcastss", 2, 1, 0x18).two(),
                };
                self.asm.vector(vex, r, 0, Rm::Reg(from), None);
                return self.assign(v, r);
            }
            UnaryOp::PackBools => return self.pack_bools(v, a),
        };
        let from = self.rm_operand(a);
        self.release(&[a]);
        let r = self.alloc_or_spill(&[]);
        self.asm.vector(vex, r, 0, from, immediate);
        self.assign(v, r);
    }

    /// Swaps the lower and the upper 128 bits of a vector.
    fn swap_128(&mut self, v: V, a: V) {
        let from = self.reg_operand(a, &[]);
        self.release(&[a]);
        let r = self.alloc_or_spill(&[]);
        let vex = Vex::new("vperm2f128", 3, 1, 0x06);
        self.asm.vector(vex, r, from, Rm::Reg(from), Some(1));
        self.assign(v, r);
    }

    /// Packs mask lanes to bytes of 0 or 1.
    fn pack_bools(&mut self, v: V, a: V) {
        let from = self.reg_operand(a, &[]);
        // The result is written before the last read of the operand, so they must not share a register.
        let r = self.alloc_or_spill(&[from]);
        self.release(&[a]);
        let upper = Vex::new("vextractf128", 3, 1, 0x19).store();
        self.asm.vector(upper, from, 0, Rm::Reg(r), Some(1));
        let pack = |name, opcode| Vex::new(name, 1, 1, opcode).xmm();
        let words = pack("vpackssdw", 0x6B);
        self.asm.vector(words, r, from, Rm::Reg(r), None);
        if self.double() {
            self.asm.vector(words, r, r, Rm::Reg(r), None);
        }
        let bytes = pack("vpacksswb", 0x63);
        self.asm.vector(bytes, r, r, Rm::Reg(r), None);
        let magnitude = Vex::new("vpabsb", 2, 1, 0x1C).xmm().two();
        self.asm.vector(magnitude, r, 0, Rm::Reg(r), None);
        self.assign(v, r);
    }

    /// Fused multiply-add: destroys an operand whose last use this is, or a copy of the addend.
    fn fma(&mut self, v: V, fused: FmaOp, [a, b, c]: [V; 3]) {
        let (name, base) = match fused {
            FmaOp::MulAdd => ("vfmadd", 0x08),
            FmaOp::MulSub => ("vfmsub", 0x0A),
            FmaOp::NegMulAdd => ("vfnmadd", 0x0C),
        };
        let vex = |row: u8| {
            let vex = Vex::new(name, 2, 1, row | base);
            if self.double() { vex.w() } else { vex }
        };
        // Forms 213 (second · first + third) and 231 (second · third + first).
        let (form_213, form_231) = (vex(0xA0), vex(0xB0));
        let dying = |allocator: &Self, x: V| {
            allocator.locations[x.index()]
                .register
                .filter(|_| allocator.is_last_use(x) && allocator.in_register(x).is_some())
        };
        let different = c != a && c != b;
        if let Some(r) = dying(self, c).filter(|_| different) {
            let x = self.reg_operand(a, &[r]);
            let y = self.rm_operand(b);
            self.asm.vector(form_231, r, x, y, None);
            return self.overwrite(v, r, &[a, b, c], c);
        }
        for (factor, other) in [(a, b), (b, a)] {
            if factor == other || factor == c {
                continue;
            }
            if let Some(r) = dying(self, factor) {
                let x = self.reg_operand(other, &[r]);
                let y = self.rm_operand(c);
                self.asm.vector(form_213, r, x, y, None);
                return self.overwrite(v, r, &[a, b, c], factor);
            }
        }
        let (first, second) = match self.in_register(a).is_none() {
            true => (b, a),
            false => (a, b),
        };
        let x = self.reg_operand(first, &[]);
        let r = self.alloc_or_spill(&[x]);
        let sum = self.rm_operand(c);
        self.asm.vector(VMOVUPS_LOAD, r, 0, sum, None);
        let y = self.rm_operand(second);
        self.asm.vector(form_231, r, x, y, None);
        self.release(&[a, b, c]);
        self.assign(v, r);
    }

    /// Assigns to the result the register of an operand whose live range ends here.
    fn overwrite(&mut self, v: V, r: u8, operands: &[V], dead: V) {
        self.locations[dead.index()].register = None;
        self.occupants[r as usize] = None;
        self.release(operands);
        self.assign(v, r);
    }
}
