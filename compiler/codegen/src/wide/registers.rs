//! Straight-line code to instructions: registers are chosen as it is written down.
//!
//! A value lives in a register from where it is made to where it is read last. When registers run out, the value that is read
//! furthest from now goes to memory. Constants and what is the same in a row are read from memory as operands, or stay in registers
//! that are left over.

use std::collections::HashMap;

use super::block::{Block, Fused, One, Op, Shift, Two, V};
use super::encode::{Asm, Gpr, Mem, R8, RAX, RSP, Rm, Vex};
use crate::math::Lane;

/// What surrounds a block.
#[derive(Debug)]
pub(super) struct Frame {
    /// How many values are the same in a row, each with 32 bytes from the stack pointer on; the mask comes right behind them, then
    /// 32 bytes for truths, then what did not find a register.
    pub(super) fixed: usize,
    /// How many values had to go to memory at once, at most.
    pub(super) spilled: usize,
    /// The register of each access that has one; the others are in the table.
    pub(super) pointers: Vec<Option<Gpr>>,
    /// The bytes of an element of each access.
    pub(super) bytes: Vec<u8>,
    /// Where the table is.
    pub(super) table: Gpr,
    /// Where rows are kept: the access behind the last, and the bytes of a row.
    pub(super) kept: (usize, i32),
}

impl Frame {
    pub(super) fn slot(index: usize) -> Mem {
        Mem::at(RSP, (32 * index) as i32)
    }

    pub(super) fn mask(&self) -> Mem {
        Frame::slot(self.fixed)
    }

    pub(super) fn truths(&self) -> Mem {
        Frame::slot(self.fixed + 1)
    }

    fn spill(&self, index: usize) -> Mem {
        Frame::slot(self.fixed + 2 + index)
    }

    pub(super) fn size(&self) -> i32 {
        (32 * (self.fixed + 2 + self.spilled)) as i32
    }
}

/// What a block may use.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    /// Registers of what rows combine to.
    pub(super) sums: Vec<u8>,
    /// What stays in a register for the whole loop.
    pub(super) held: HashMap<Op, u8>,
    /// Whether this is the end of a row, where not all lanes are there.
    pub(super) end: bool,
}

impl Room {
    fn free(&self) -> Vec<u8> {
        let taken = |r: &u8| self.sums.contains(r) || self.held.values().any(|h| h == r);
        (0..16).rev().filter(|r| !taken(r)).collect()
    }
}

/// Which operations are wanted for an effect.
fn wanted(block: &Block) -> Vec<bool> {
    let mut wanted: Vec<bool> = block.ops.iter().map(Op::is_effect).collect();
    for i in (0..block.ops.len()).rev() {
        if wanted[i] {
            let (operands, n) = block.ops[i].operands();
            operands[..n].iter().for_each(|v| wanted[v.index()] = true);
        }
    }
    wanted
}

/// Where each value is read, in order.
fn reads(block: &Block, wanted: &[bool]) -> Vec<Vec<u32>> {
    let mut reads = vec![Vec::new(); block.ops.len()];
    for (i, op) in block.ops.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        let (operands, n) = op.operands();
        for v in &operands[..n] {
            reads[v.index()].push(i as u32);
        }
    }
    reads
}

/// What should stay in registers for a whole loop: as much as is left over, what is read most first.
pub(super) fn held(block: &Block, sums: &[u8]) -> HashMap<Op, u8> {
    let wanted = wanted(block);
    let reads = reads(block, &wanted);
    let (mut live, mut most) = (0_usize, 0_usize);
    let mut ends = vec![0_usize; block.ops.len()];
    for (i, op) in block.ops.iter().enumerate() {
        if !wanted[i] {
            continue;
        }
        if !op.is_at_hand() && !op.is_effect() {
            live += 1;
            if let Some(last) = reads[i].last() {
                ends[*last as usize] += 1;
            }
        }
        most = most.max(live);
        live -= ends[i].min(live);
    }
    // Two more for operands that must be in a register.
    let left = (16 - sums.len()).saturating_sub(most + 2);
    let mut candidates: Vec<(usize, usize)> = (0..block.ops.len())
        .filter(|i| wanted[*i] && matches!(block.ops[*i], Op::Const(_) | Op::Fixed(_)))
        .map(|i| (reads[i].len(), i))
        .collect();
    candidates.sort_by_key(|(n, i)| (std::cmp::Reverse(*n), *i));
    let free = (0..16).filter(|r| !sums.contains(r));
    candidates
        .iter()
        .take(left)
        .zip(free)
        .map(|((_, i), r)| (block.ops[*i], r))
        .collect()
}

/// Loads what stays in registers.
pub(super) fn load_held(asm: &mut Asm, frame: &Frame, lane: Lane, held: &HashMap<Op, u8>) {
    let mut all: Vec<_> = held.iter().collect();
    all.sort_by_key(|(_, r)| **r);
    for (op, r) in all {
        let rm = at_hand(asm, frame, lane, *op);
        asm.vector(MOVE, *r, 0, rm, None);
    }
}

fn at_hand(asm: &mut Asm, frame: &Frame, lane: Lane, op: Op) -> Rm {
    match op {
        Op::Const(bits) => Rm::Const(asm.constant(spread(bits, lane))),
        Op::Fixed(slot) => Rm::Mem(Frame::slot(slot)),
        _ => Rm::Mem(frame.mask()),
    }
}

pub(super) fn spread(bits: u64, lane: Lane) -> [u8; 32] {
    let mut bytes = [0; 32];
    let width = lane.width() as usize / 8;
    for chunk in bytes.chunks_exact_mut(width) {
        chunk.copy_from_slice(&bits.to_le_bytes()[..width]);
    }
    bytes
}

pub(super) const MOVE: Vex = Vex::new("vmovups", 1, 0, 0x10).two();
pub(super) const PUT: Vex = Vex::new("vmovups", 1, 0, 0x11).store();

/// Writes a block down.
pub(super) fn write(asm: &mut Asm, frame: &mut Frame, block: &Block, room: &Room) {
    let wanted = wanted(block);
    let reads = reads(block, &wanted);
    let mut writer = Writer {
        asm,
        frame,
        block,
        room,
        next: vec![0; block.ops.len()],
        reads,
        homes: vec![Home::default(); block.ops.len()],
        free: room.free(),
        inside: [None; 16],
        spills: Vec::new(),
        ended: Vec::new(),
        now: 0,
    };
    for (i, op) in block.ops.iter().enumerate() {
        if wanted[i] {
            writer.now = i;
            writer.op(V(i as u32), *op);
            for place in writer.ended.drain(..) {
                writer.spills[place] = false;
            }
        }
    }
}

/// Where a value is.
#[derive(Debug, Clone, Copy, Default)]
struct Home {
    register: Option<u8>,
    spill: Option<usize>,
}

struct Writer<'a> {
    asm: &'a mut Asm,
    frame: &'a mut Frame,
    block: &'a Block,
    room: &'a Room,
    reads: Vec<Vec<u32>>,
    /// How many of its reads each value has behind it.
    next: Vec<usize>,
    homes: Vec<Home>,
    free: Vec<u8>,
    inside: [Option<V>; 16],
    /// Whether each place in memory is in use.
    spills: Vec<bool>,
    /// Places whose values nobody reads after this operation. It may read them itself when its result has taken a register, so they are
    /// free only then.
    ended: Vec<usize>,
    now: usize,
}

impl Writer<'_> {
    fn double(&self) -> bool {
        self.block.lane == Lane::F64
    }

    /// The instruction for floats: the same opcode, marked by a prefix for f64.
    fn float(&self, name: &'static str, map: u8, opcode: u8) -> Vex {
        Vex::new(name, map, u8::from(self.double()), opcode)
    }

    fn next_read(&self, v: V) -> u32 {
        self.reads[v.index()]
            .get(self.next[v.index()])
            .copied()
            .unwrap_or(u32::MAX)
    }

    /// A register, made free if there is none; `locked` ones are needed now.
    fn take(&mut self, locked: &[u8]) -> u8 {
        if let Some(r) = self.free.pop() {
            return r;
        }
        let candidates = (0..16_u8).filter(|r| !locked.contains(r));
        let victim = candidates
            .filter_map(|r| self.inside[r as usize].map(|v| (self.next_read(v), r, v)))
            .max_by_key(|(next, r, _)| (*next, *r));
        let (_, r, v) = victim.expect("an operation needs fewer registers than there are");
        let again = self.block.ops[v.index()].is_at_hand();
        if !again && self.homes[v.index()].spill.is_none() {
            let place = match self.spills.iter().position(|used| !used) {
                Some(place) => place,
                None => {
                    self.spills.push(false);
                    self.spills.len() - 1
                }
            };
            self.spills[place] = true;
            self.frame.spilled = self.frame.spilled.max(self.spills.len());
            self.homes[v.index()].spill = Some(place);
            let to = self.frame.spill(place);
            self.asm.vector(PUT, r, 0, Rm::Mem(to), None);
        }
        self.homes[v.index()].register = None;
        self.inside[r as usize] = None;
        r
    }

    fn settle(&mut self, v: V, r: u8) {
        self.homes[v.index()].register = Some(r);
        self.inside[r as usize] = Some(v);
    }

    /// The register that a value is in now, or stays in.
    fn in_register(&self, v: V) -> Option<u8> {
        let op = self.block.ops[v.index()];
        if let Op::Sum(sum) = op {
            return Some(self.room.sums[sum]);
        }
        self.room
            .held
            .get(&op)
            .copied()
            .or(self.homes[v.index()].register)
    }

    /// A value as the last operand of an instruction: a register or memory.
    fn last(&mut self, v: V) -> Rm {
        if let Some(r) = self.in_register(v) {
            return Rm::Reg(r);
        }
        if let Some(place) = self.homes[v.index()].spill {
            return Rm::Mem(self.frame.spill(place));
        }
        let op = self.block.ops[v.index()];
        at_hand(self.asm, self.frame, self.block.lane, op)
    }

    /// A value in a register.
    fn register(&mut self, v: V, locked: &[u8]) -> u8 {
        if let Some(r) = self.in_register(v) {
            return r;
        }
        let from = self.last(v);
        let r = self.take(locked);
        self.asm.vector(MOVE, r, 0, from, None);
        self.settle(v, r);
        r
    }

    /// Whether a value is not read after this operation, and its register may be overwritten.
    fn ends(&self, v: V) -> bool {
        let op = self.block.ops[v.index()];
        let own = !matches!(op, Op::Sum(_)) && !self.room.held.contains_key(&op);
        let later = self.reads[v.index()].iter();
        own && !later
            .skip(self.next[v.index()])
            .any(|at| *at as usize > self.now)
    }

    /// Operands are read; those that nobody reads again give their registers back.
    fn release(&mut self, operands: &[V]) {
        for v in operands {
            while self.next_read(*v) <= self.now as u32 {
                self.next[v.index()] += 1;
            }
            if self.next_read(*v) == u32::MAX {
                let home = &mut self.homes[v.index()];
                self.ended.extend(home.spill.take());
                if let Some(r) = home.register.take() {
                    self.inside[r as usize] = None;
                    self.free.push(r);
                }
            }
        }
    }

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

    /// Where the lanes of an access are.
    fn place(&mut self, access: usize) -> Mem {
        Mem {
            base: self.pointer(access),
            index: Some((RAX, self.frame.bytes[access])),
            disp: 0,
        }
    }

    /// Where the lanes of a row that is kept are.
    fn kept(&mut self, row: usize) -> Mem {
        let (access, bytes) = self.frame.kept;
        Mem {
            base: self.pointer(access),
            index: Some((RAX, self.block.lane.width() as u8 / 8)),
            disp: row as i32 * bytes,
        }
    }

    fn op(&mut self, v: V, op: Op) {
        let (operands, n) = op.operands();
        let operands = &operands[..n];
        match op {
            // Read where they are.
            Op::Const(_) | Op::Fixed(_) | Op::Mask | Op::Sum(_) => {}
            Op::Load(access) => {
                let at = self.place(access);
                self.load(v, at);
            }
            Op::Kept(row) => {
                let at = self.kept(row);
                let r = self.take(&[]);
                self.asm.vector(MOVE, r, 0, Rm::Mem(at), None);
                self.settle(v, r);
            }
            Op::LoadRow(access) => {
                let base = self.pointer(access);
                let r = self.take(&[]);
                let vex = match self.double() {
                    true => Vex::new("vbroadcastsd", 2, 1, 0x19).two(),
                    false => Vex::new("vbroadcastss", 2, 1, 0x18).two(),
                };
                self.asm.vector(vex, r, 0, Rm::Mem(Mem::at(base, 0)), None);
                self.settle(v, r);
            }
            Op::LoadBytes(access) => {
                let at = match self.room.end {
                    // They were copied there, because not all of them may be there to read.
                    true => self.frame.truths(),
                    false => self.place(access),
                };
                let r = self.take(&[]);
                let vex = match self.double() {
                    true => Vex::new("vpmovzxbq", 2, 1, 0x32).two(),
                    false => Vex::new("vpmovzxbd", 2, 1, 0x31).two(),
                };
                self.asm.vector(vex, r, 0, Rm::Mem(at), None);
                self.settle(v, r);
            }
            Op::Gather(access, stride) => self.gather(v, access, stride),
            Op::Two(two, a, b) => self.two(v, two, a, b),
            Op::Compare(how, a, b) => {
                let a = self.register(a, &[]);
                let b = self.last(b);
                self.release(operands);
                let r = self.take(&[]);
                let vex = self.float("vcmpps", 1, 0xC2);
                self.asm.vector(vex, r, a, b, Some(how));
                self.settle(v, r);
            }
            Op::One(one, a) => self.one(v, one, a),
            Op::Shift(shift, a, by) => {
                let a = self.register(a, &[]);
                self.release(operands);
                let r = self.take(&[]);
                let opcode = if self.double() { 0x73 } else { 0x72 };
                let (which, name) = match shift {
                    Shift::Left => (6, "vpsll"),
                    Shift::Right => (2, "vpsrl"),
                };
                let vex = Vex::new(name, 1, 1, opcode).first();
                self.asm.vector(vex, which, r, Rm::Reg(a), Some(by));
                self.settle(v, r);
            }
            Op::Fma(fused, a, b, c) => self.fma(v, fused, [a, b, c]),
            Op::Select(mask, yes, no) => {
                let mask = self.register(mask, &[]);
                let no = self.register(no, &[mask]);
                let yes = self.last(yes);
                self.release(operands);
                let r = self.take(&[]);
                let opcode = if self.double() { 0x4B } else { 0x4A };
                let vex = Vex::new("vblendv", 3, 1, opcode);
                self.asm.vector(vex, r, no, yes, Some(mask << 4));
                self.settle(v, r);
            }
            Op::Store(access, a) => {
                let a = self.register(a, &[]);
                let mut mask = None;
                if self.room.end {
                    mask = Some(self.mask(&[a]));
                }
                let at = Rm::Mem(self.place(access));
                match mask {
                    None => self.asm.vector(PUT, a, 0, at, None),
                    Some(mask) => {
                        let opcode = if self.double() { 0x2F } else { 0x2E };
                        let vex = Vex::new("vmaskmov to memory", 2, 1, opcode);
                        self.asm.vector(vex, a, mask, at, None);
                    }
                }
                self.release(operands);
            }
            Op::StoreBytes(access, a) => {
                let a = self.register(a, &[]);
                let at = match self.room.end {
                    true => self.frame.truths(),
                    false => self.place(access),
                };
                let vex = match self.double() {
                    true => Vex::new("vmovd", 1, 1, 0x7E).xmm().store(),
                    false => Vex::new("vmovq", 1, 1, 0xD6).xmm().store(),
                };
                self.asm.vector(vex, a, 0, Rm::Mem(at), None);
                self.release(operands);
            }
            Op::StoreRow(access, a) => {
                let a = self.register(a, &[]);
                let base = self.pointer(access);
                let vex = match self.double() {
                    true => Vex::new("vmovsd", 1, 3, 0x11).xmm().store(),
                    false => Vex::new("vmovss", 1, 2, 0x11).xmm().store(),
                };
                self.asm.vector(vex, a, 0, Rm::Mem(Mem::at(base, 0)), None);
                self.release(operands);
            }
            Op::Keep(row, a) => {
                let a = self.register(a, &[]);
                let at = self.kept(row);
                self.asm.vector(PUT, a, 0, Rm::Mem(at), None);
                self.release(operands);
            }
            Op::SetSum(sum, a) => {
                let from = self.last(a);
                let to = self.room.sums[sum];
                self.asm.vector(MOVE, to, 0, from, None);
                self.release(operands);
            }
            Op::SetFixed(slot, a) => {
                let a = self.register(a, &[]);
                self.asm.vector(PUT, a, 0, Rm::Mem(Frame::slot(slot)), None);
                self.release(operands);
            }
        }
    }

    fn load(&mut self, v: V, at: Mem) {
        if !self.room.end {
            let r = self.take(&[]);
            self.asm.vector(MOVE, r, 0, Rm::Mem(at), None);
            return self.settle(v, r);
        }
        let mask = self.mask(&[]);
        let r = self.take(&[mask]);
        let opcode = if self.double() { 0x2D } else { 0x2C };
        let vex = Vex::new("vmaskmov", 2, 1, opcode);
        self.asm.vector(vex, r, mask, Rm::Mem(at), None);
        self.settle(v, r);
    }

    /// The mask in a register of its own, which is free again after this operation.
    fn mask(&mut self, locked: &[u8]) -> u8 {
        let r = self.take(locked);
        let from = Rm::Mem(self.frame.mask());
        self.asm.vector(MOVE, r, 0, from, None);
        self.free.insert(0, r);
        r
    }

    fn gather(&mut self, v: V, access: usize, stride: usize) {
        let bytes = self.frame.bytes[access];
        let mut lanes = [0; 32];
        for (i, lane) in lanes.chunks_exact_mut(4).enumerate() {
            lane.copy_from_slice(&((i * stride) as u32).to_le_bytes());
        }
        let lanes = self.asm.constant(lanes);
        let base = self.frame.pointers[access].expect("gathered accesses have a register");
        self.asm.multiply(R8, RAX, stride as i32);
        let at = Mem {
            base,
            index: Some((R8, bytes)),
            disp: 0,
        };
        self.asm.address(R8, at);
        let r = self.take(&[]);
        let index = self.take(&[r]);
        let mask = self.take(&[r, index]);
        self.asm.vector(MOVE, index, 0, Rm::Const(lanes), None);
        match self.room.end {
            true => {
                let from = Rm::Mem(self.frame.mask());
                self.asm.vector(MOVE, mask, 0, from, None);
            }
            false => {
                let all = self.asm.constant([0xFF; 32]);
                self.asm.vector(MOVE, mask, 0, Rm::Const(all), None);
            }
        }
        // Lanes that are not there are zero, as for other loads.
        let zero = Vex::new("vxorps", 1, 0, 0x57);
        self.asm.vector(zero, r, r, Rm::Reg(r), None);
        self.asm.gather(self.double(), r, R8, index, bytes, mask);
        self.free.push(mask);
        self.free.push(index);
        self.settle(v, r);
    }

    fn two(&mut self, v: V, two: Two, a: V, b: V) {
        let double = self.double();
        let int = |name, d: u8, q: u8| Vex::new(name, 1, 1, if double { q } else { d });
        let (vex, either_way) = match two {
            Two::Add => (self.float("vaddps", 1, 0x58), true),
            Two::Sub => (self.float("vsubps", 1, 0x5C), false),
            Two::Mul => (self.float("vmulps", 1, 0x59), true),
            Two::Div => (self.float("vdivps", 1, 0x5E), false),
            Two::Min => (self.float("vminps", 1, 0x5D), false),
            Two::Max => (self.float("vmaxps", 1, 0x5F), false),
            Two::And => (self.float("vandps", 1, 0x54), true),
            Two::AndNot => (self.float("vandnps", 1, 0x55), false),
            Two::Or => (self.float("vorps", 1, 0x56), true),
            Two::Xor => (self.float("vxorps", 1, 0x57), true),
            Two::IntAdd => (int("vpadd", 0xFE, 0xD4), true),
            Two::IntSub => (int("vpsub", 0xFA, 0xFB), false),
            Two::IntMul => (Vex::new("vpmulld", 2, 1, 0x40), true),
            Two::IntEqual if double => (Vex::new("vpcmpeqq", 2, 1, 0x29), true),
            Two::IntEqual => (Vex::new("vpcmpeqd", 1, 1, 0x76), true),
            Two::IntGreater if double => (Vex::new("vpcmpgtq", 2, 1, 0x37), false),
            Two::IntGreater => (Vex::new("vpcmpgtd", 1, 1, 0x66), false),
        };
        let (first, second) = match either_way && self.in_register(a).is_none() {
            true => (b, a),
            false => (a, b),
        };
        let x = self.register(first, &[]);
        let y = self.last(second);
        self.release(&[a, b]);
        let r = self.take(&[]);
        self.asm.vector(vex, r, x, y, None);
        self.settle(v, r);
    }

    fn one(&mut self, v: V, one: One, a: V) {
        let double = self.double();
        let permute = if double { 0x05 } else { 0x04 };
        let (vex, immediate) = match one {
            One::Sqrt => (self.float("vsqrtps", 1, 0x51).two(), None),
            One::Round(how) => {
                let opcode = if double { 0x09 } else { 0x08 };
                // Without the exception for inexact results.
                (Vex::new("vroundps", 3, 1, opcode).two(), Some(how | 8))
            }
            One::FromInt => (Vex::new("vcvtdq2ps", 1, 0, 0x5B).two(), None),
            One::ToInt => (Vex::new("vcvttps2dq", 1, 2, 0x5B).two(), None),
            One::SwapHalves => return self.swap_halves(v, a),
            One::SwapPairs => (Vex::new("vpermilps", 3, 1, 0x04).two(), Some(0x4E)),
            One::SwapLanes => {
                let order = if double { 0x05 } else { 0xB1 };
                (Vex::new("vpermilps", 3, 1, permute).two(), Some(order))
            }
            One::Spread => {
                let from = self.register(a, &[]);
                self.release(&[a]);
                let r = self.take(&[]);
                let vex = match double {
                    true => Vex::new("vbroadcastsd", 2, 1, 0x19).two(),
                    false => Vex::new("vbroadcastss", 2, 1, 0x18).two(),
                };
                self.asm.vector(vex, r, 0, Rm::Reg(from), None);
                return self.settle(v, r);
            }
            One::Bytes => return self.bytes(v, a),
        };
        let from = self.last(a);
        self.release(&[a]);
        let r = self.take(&[]);
        self.asm.vector(vex, r, 0, from, immediate);
        self.settle(v, r);
    }

    fn swap_halves(&mut self, v: V, a: V) {
        let from = self.register(a, &[]);
        self.release(&[a]);
        let r = self.take(&[]);
        let vex = Vex::new("vperm2f128", 3, 1, 0x06);
        self.asm.vector(vex, r, from, Rm::Reg(from), Some(1));
        self.settle(v, r);
    }

    /// Truths as bytes of 0 or 1 in the first lanes.
    fn bytes(&mut self, v: V, a: V) {
        let from = self.register(a, &[]);
        // The result is written before the operand is read for the last time.
        let r = self.take(&[from]);
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
        let size = Vex::new("vpabsb", 2, 1, 0x1C).xmm().two();
        self.asm.vector(size, r, 0, Rm::Reg(r), None);
        self.settle(v, r);
    }

    /// a · b + c in the place of an operand that is not read again, or of a copy.
    fn fma(&mut self, v: V, fused: Fused, [a, b, c]: [V; 3]) {
        let (name, base) = match fused {
            Fused::Plus => ("vfmadd", 0x08),
            Fused::Less => ("vfmsub", 0x0A),
            Fused::From => ("vfnmadd", 0x0C),
        };
        let vex = |row: u8| {
            let vex = Vex::new(name, 2, 1, row | base);
            if self.double() { vex.w() } else { vex }
        };
        // The two orders: 213 gives second · first + third, 231 gives second · third + first.
        let (over_factor, over_sum) = (vex(0xA0), vex(0xB0));
        let own = |writer: &Self, x: V| {
            writer.homes[x.index()]
                .register
                .filter(|_| writer.ends(x) && writer.in_register(x).is_some())
        };
        let different = c != a && c != b;
        if let Some(r) = own(self, c).filter(|_| different) {
            let x = self.register(a, &[r]);
            let y = self.last(b);
            self.asm.vector(over_sum, r, x, y, None);
            return self.replace(v, r, &[a, b, c], c);
        }
        for (own_factor, other) in [(a, b), (b, a)] {
            if own_factor == other || own_factor == c {
                continue;
            }
            if let Some(r) = own(self, own_factor) {
                let x = self.register(other, &[r]);
                let y = self.last(c);
                self.asm.vector(over_factor, r, x, y, None);
                return self.replace(v, r, &[a, b, c], own_factor);
            }
        }
        let (first, second) = match self.in_register(a).is_none() {
            true => (b, a),
            false => (a, b),
        };
        let x = self.register(first, &[]);
        let r = self.take(&[x]);
        let sum = self.last(c);
        self.asm.vector(MOVE, r, 0, sum, None);
        let y = self.last(second);
        self.asm.vector(over_sum, r, x, y, None);
        self.release(&[a, b, c]);
        self.settle(v, r);
    }

    /// The result stands in the register of an operand that ends here.
    fn replace(&mut self, v: V, r: u8, operands: &[V], gone: V) {
        self.homes[gone.index()].register = None;
        self.inside[r as usize] = None;
        self.release(operands);
        self.settle(v, r);
    }
}
