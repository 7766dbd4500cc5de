//! A loop over rows, put together from straight-line code.

use trainspec_ir::DType;
use trainspec_ir::fuse::is_cheap;
use trainspec_ir::kernel::{Combine, InstOp, Map, Phases};

use super::block::{Block, One, Op, Two, V};
use super::encode::{Asm, Gpr, Mem, R8, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm, When};
use super::registers::{self, Frame, MOVE, PUT, Room};
use super::{KEPT_BYTES, MOST_ACCESSES, Wide, whole};
use crate::math::{Emit, Lane};
use crate::translate::prims::{self, Operand};
use crate::translate::{Space, lanes_of};

/// The registers that pointers can have.
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
/// Those of them that belong to the caller.
const SAVED: [Gpr; 5] = [RBX, Gpr(12), Gpr(13), Gpr(14), Gpr(15)];

/// Loops that read so many bytes find them in memory, not in a cache.
const FAR: usize = 1 << 25;
/// How far ahead memory is fetched, in bytes.
const AHEAD: i32 = 512;

/// More rows that are combined at once would leave too few registers.
const MOST_FOLDS: usize = 6;

pub(super) fn compile(map: &Map, space: &Space, listing: bool) -> Option<Wide> {
    let lane = lane_of(map)?;
    let phases = Phases::of(map);
    let accesses = map.loads.len() + map.stores.len();
    if !space.middle.is_empty() || accesses + 1 > MOST_ACCESSES {
        return None;
    }
    let mut kernel = Kernel {
        map,
        space,
        lane,
        fixed: fixed_slots(map, &phases),
        kept: kept(map, space, &phases, lane),
        phases,
        frame: frame(map, space, lane)?,
        asm: Asm::new(listing),
    };
    kernel.frame.fixed = kernel.fixed.iter().flatten().count();
    kernel.function()?;
    let keeps_rows = kernel.kept.iter().any(Option::is_some);
    let (bytes, listing) = kernel.asm.finish();
    Some(Wide {
        bytes,
        keeps_rows,
        listing,
    })
}

/// The one width of all that a loop computes with.
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

/// A place for each register that is the same in a whole row, constants excepted.
fn fixed_slots(map: &Map, phases: &Phases) -> Vec<Option<usize>> {
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

/// The registers of an earlier walk that a later one needs and that are dear to compute again, each with a place.
fn kept(map: &Map, space: &Space, phases: &Phases, lane: Lane) -> Vec<Option<usize>> {
    let row = row_bytes(space, lane);
    let mut dear = vec![false; map.body.len()];
    for (i, inst) in map.body.iter().enumerate() {
        if let InstOp::Prim(prim, operands) = &inst.op {
            dear[i] =
                !phases.row_invariant[i] && (!is_cheap(prim) || operands.iter().any(|o| dear[*o]));
        }
    }
    let mut places = vec![None; map.body.len()];
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
                let wanted = dear[*o] && phases.first[*o] < phase && places[*o].is_none();
                let lies = map.stores.iter().any(|s| !s.row && s.register == *o);
                let truth = map.body[*o].dtype == DType::Bool;
                if wanted && !lies && !truth && (next + 1) * row <= KEPT_BYTES {
                    places[*o] = Some(next);
                    next += 1;
                }
            }
        }
        // What is combined in a later walk may be of an earlier one, too.
        for (i, inst) in map.body.iter().enumerate() {
            if let InstOp::Reduce(_, o) = inst.op
                && phases.first[i] == phase + 1
                && phases.first[o] < phase
                && dear[o]
                && places[o].is_none()
                && (next + 1) * row <= KEPT_BYTES
            {
                places[o] = Some(next);
                next += 1;
            }
        }
    }
    places
}

/// The bytes of a row that is kept: whole vectors.
fn row_bytes(space: &Space, lane: Lane) -> usize {
    (space.inner * lane.width() as usize / 8).next_multiple_of(32)
}

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
    // Accesses whose lanes lie apart need a register most.
    let apart = |a: usize| a < map.loads.len() && space.loads[a].inner > 1;
    let mut order: Vec<usize> = (0..accesses).collect();
    order.sort_by_key(|a| !apart(*a));
    let mut pointers = vec![None; accesses + 1];
    for (access, register) in order.iter().zip(POINTERS) {
        pointers[*access] = Some(register);
    }
    for access in (0..accesses).filter(|a| apart(*a)) {
        pointers[access]?;
    }
    for moves in space.loads.iter().chain(&space.stores) {
        // Distances are numbers of 32 bits in instructions.
        let furthest = moves.inner.max(moves.outer.last().copied().unwrap_or(0));
        i32::try_from(furthest.checked_mul(8 * 8)?).ok()?;
    }
    Some(Frame {
        fixed: 0,
        spilled: 0,
        pointers,
        bytes,
        table: RDI,
        kept: (accesses, row_bytes(space, lane) as i32),
    })
}

struct Kernel<'a> {
    map: &'a Map,
    space: &'a Space,
    lane: Lane,
    phases: Phases,
    fixed: Vec<Option<usize>>,
    kept: Vec<Option<usize>>,
    frame: Frame,
    asm: Asm,
}

/// The registers of a walk as values of a block.
struct Values {
    block: Block,
    made: Vec<Option<V>>,
}

impl Kernel<'_> {
    fn lanes(&self) -> usize {
        256 / self.lane.width() as usize
    }

    /// The whole function: rdi is the table, rsi the number of rows, rdx their length.
    fn function(&mut self) -> Option<()> {
        let used = |register: &Gpr| self.frame.pointers.contains(&Some(*register));
        let saved: Vec<Gpr> = SAVED.into_iter().filter(used).collect();
        for saved in &saved {
            self.asm.push(*saved);
        }
        self.asm.push(RBP);
        self.asm.copy(RBP, RSP);
        let size = self.asm.subtract_later(RSP);
        self.asm.and(RSP, -32);
        for (access, register) in self.frame.pointers.clone().into_iter().enumerate() {
            if let Some(register) = register {
                self.asm.load(register, Mem::at(RDI, 8 * access as i32));
            }
        }
        let row = self.asm.label();
        self.asm.place(row);
        self.once(0)?;
        for phase in 0..self.phases.count {
            self.walk(phase)?;
            self.once(phase + 1)?;
        }
        self.next_row();
        self.asm.add(RSI, -1);
        self.asm.jump(When::NotZero, row);
        self.asm.upper_zero();
        self.asm.copy(RSP, RBP);
        self.asm.pop(RBP);
        for saved in saved.iter().rev() {
            self.asm.pop(*saved);
        }
        self.asm.ret();
        self.asm.fill(size, self.frame.size());
        Some(())
    }

    /// Moves all pointers to the next row.
    fn next_row(&mut self) {
        let moves = self.space.loads.iter().chain(&self.space.stores);
        let steps: Vec<usize> = moves
            .map(|m| m.outer.last().copied().unwrap_or(0))
            .collect();
        for (access, step) in steps.into_iter().enumerate() {
            let bytes = step * self.frame.bytes[access] as usize;
            let Ok(bytes) = i32::try_from(bytes) else {
                unreachable!("rows that are far apart were refused");
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
            made: vec![None; self.map.body.len()],
        }
    }

    /// What is the same in a whole row, once a walk is done.
    fn once(&mut self, phase: usize) -> Option<()> {
        let mut values = self.new_block();
        let folds = self.folds(phase.wrapping_sub(1));
        for (i, inst) in self.map.body.iter().enumerate() {
            let Some(slot) = self.fixed[i].filter(|_| self.phases.first[i] == phase) else {
                continue;
            };
            let v = match &inst.op {
                InstOp::Load(load) => match inst.dtype {
                    // A truth would be a byte.
                    DType::Bool => return None,
                    _ => values.block.push(Op::LoadRow(*load)),
                },
                InstOp::Reduce(how, _) => {
                    let sum = folds.iter().position(|f| *f == i).expect("it was combined");
                    total(&mut values.block, sum, *how)
                }
                InstOp::Prim(..) => self.compute(&mut values, i, phase)?,
                InstOp::Const(_) | InstOp::Int(_) => unreachable!("numbers have no place"),
            };
            values.made[i] = Some(v);
            values.block.push(Op::SetFixed(slot, v));
        }
        for (s, store) in self.map.stores.iter().enumerate() {
            if store.row && self.phases.first[store.register] == phase {
                if self.map.body[store.register].dtype == DType::Bool {
                    return None;
                }
                let v = self.value(&mut values, store.register, phase)?;
                values.block.push(Op::StoreRow(self.map.loads.len() + s, v));
            }
        }
        let room = Room {
            sums: (0..folds.len()).map(|i| 15 - i as u8).collect(),
            ..Room::default()
        };
        registers::write(&mut self.asm, &mut self.frame, &values.block, &room);
        Some(())
    }

    /// The instructions that a walk combines for.
    fn folds(&self, phase: usize) -> Vec<usize> {
        let is = |i: &usize| {
            matches!(self.map.body[*i].op, InstOp::Reduce(..))
                && self.phases.first[*i] == phase.wrapping_add(1)
        };
        (0..self.map.body.len()).filter(is).collect()
    }

    /// One walk over a row: whole vectors, then the end.
    fn walk(&mut self, phase: usize) -> Option<()> {
        let folds = self.folds(phase);
        if folds.len() > MOST_FOLDS {
            return None;
        }
        let lanes = self.lanes() as i32;
        let flat = self.space.is_flat(self.map);
        let (inner, has_end) = (
            self.space.inner,
            flat || !self.space.inner.is_multiple_of(self.lanes()),
        );
        let sums: Vec<u8> = (0..folds.len()).map(|i| 15 - i as u8).collect();
        let body = self.body(phase, &folds, false)?;
        let held = match flat || inner > 4 * self.lanes() {
            true => registers::held(&body.block, &sums),
            false => Default::default(),
        };
        let mut room = Room {
            sums: sums.clone(),
            held,
            end: false,
        };
        for (f, sum) in folds.iter().zip(&sums) {
            let InstOp::Reduce(how, _) = self.map.body[*f].op else {
                unreachable!("a fold");
            };
            let bits = self.lane.bits_of(how.identity());
            let bytes = registers::spread(bits.cast_unsigned(), self.lane);
            let nothing = Rm::Const(self.asm.constant(bytes));
            self.asm.vector(MOVE, *sum, 0, nothing, None);
        }
        self.asm.zero(RAX);
        if flat || inner >= self.lanes() {
            let (again, done) = (self.asm.label(), self.asm.label());
            self.asm.copy(RCX, RDX);
            self.asm.and(RCX, -lanes);
            if flat {
                self.asm.jump(When::Zero, done);
            }
            registers::load_held(&mut self.asm, &self.frame, self.lane, &room.held);
            self.asm.place(again);
            self.prefetch(phase);
            registers::write(&mut self.asm, &mut self.frame, &body.block, &room);
            self.asm.add(RAX, lanes);
            self.asm.compare(RAX, RCX);
            self.asm.jump(When::Below, again);
            self.asm.place(done);
        }
        if has_end {
            room.held.clear();
            room.end = true;
            self.end(phase, &folds, &room)?;
        }
        Some(())
    }

    /// Fetches ahead what is read from memory: the machine finds such a stream by itself, but loses it at the end of each page.
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
        if streams.iter().map(bytes).sum::<usize>() < FAR {
            return;
        }
        for load in streams {
            let scale = self.frame.bytes[load];
            if let Some(base) = self.frame.pointers[load] {
                self.asm.prefetch(Mem {
                    base,
                    index: Some((RAX, scale)),
                    disp: AHEAD,
                });
            }
        }
    }

    /// The last elements of a row, fewer than a vector has lanes.
    fn end(&mut self, phase: usize, folds: &[usize], room: &Room) -> Option<()> {
        let done = self.asm.label();
        self.asm.copy(RCX, RDX);
        self.asm.subtract(RCX, RAX);
        if self.space.is_flat(self.map) {
            self.asm.jump(When::Zero, done);
        }
        // So many lanes are set, the others are not: a window on ones and zeros.
        let table = self.asm.constant_pair([0xFF; 32], [0; 32]);
        self.asm.address_of_constant(R8, table + 1);
        self.asm.negate(RCX);
        let window = Mem {
            base: R8,
            index: Some((RCX, self.lane.width() as u8 / 8)),
            disp: 0,
        };
        let free = 0;
        self.asm.vector(MOVE, free, 0, Rm::Mem(window), None);
        let mask = Rm::Mem(self.frame.mask());
        self.asm.vector(PUT, free, 0, mask, None);
        let body = self.body(phase, folds, true)?;
        // What the body does, which is more than the walk needs where it keeps something for a later one.
        let truths = body.block.ops.iter().filter_map(|op| match op {
            Op::LoadBytes(access) => Some((*access, true)),
            Op::StoreBytes(access, _) => Some((*access, false)),
            _ => None,
        });
        let truths: Vec<(usize, bool)> = truths.collect();
        // There is one place for truths at the end of a row.
        if truths.len() > 1 {
            return None;
        }
        if let [(access, true)] = truths[..] {
            self.copy_truths(access, true);
        }
        registers::write(&mut self.asm, &mut self.frame, &body.block, room);
        if let [(access, false)] = truths[..] {
            self.copy_truths(access, false);
        }
        self.asm.place(done);
        Some(())
    }

    /// Copies the truths at the end of a row from where they lie, or back.
    fn copy_truths(&mut self, access: usize, from: bool) {
        let spare = self.frame.truths();
        let save = |i: i32| Mem::at(RSP, spare.disp + 8 + 8 * i);
        self.asm.store(save(0), RDI);
        self.asm.store(save(1), RSI);
        match self.frame.pointers[access] {
            Some(register) => self.asm.copy(R8, register),
            None => self.asm.load(R8, Mem::at(RDI, 8 * access as i32)),
        }
        let there = Mem {
            base: R8,
            index: Some((RAX, 1)),
            disp: 0,
        };
        let (source, target) = if from { (there, spare) } else { (spare, there) };
        self.asm.address(RSI, source);
        self.asm.address(RDI, target);
        self.asm.copy(RCX, RDX);
        self.asm.subtract(RCX, RAX);
        self.asm.copy_bytes();
        self.asm.load(RDI, save(0));
        self.asm.load(RSI, save(1));
    }

    /// What a walk does to each vector.
    fn body(&self, phase: usize, folds: &[usize], end: bool) -> Option<Values> {
        let mut values = self.new_block();
        let mut stored = false;
        for (s, store) in self.map.stores.iter().enumerate() {
            if store.row || self.phases.first[store.register] != phase {
                continue;
            }
            let v = self.value(&mut values, store.register, phase)?;
            // A buffer may be written where another is read, so all is read before anything is stored.
            if !std::mem::replace(&mut stored, true) {
                self.read_all(&mut values, phase)?;
            }
            let access = self.map.loads.len() + s;
            let block = &mut values.block;
            match self.map.body[store.register].dtype {
                DType::Bool => {
                    let bytes = block.push(Op::One(One::Bytes, v));
                    block.push(Op::StoreBytes(access, bytes))
                }
                _ => block.push(Op::Store(access, v)),
            };
        }
        for (i, place) in self.kept.iter().enumerate() {
            if let Some(place) = place.filter(|_| self.phases.first[i] == phase) {
                let v = self.value(&mut values, i, phase)?;
                values.block.push(Op::Keep(place, v));
            }
        }
        for (sum, fold) in folds.iter().enumerate() {
            let InstOp::Reduce(how, register) = self.map.body[*fold].op else {
                unreachable!("a fold");
            };
            let v = self.value(&mut values, register, phase)?;
            let block = &mut values.block;
            let v = match end {
                true => {
                    let (mask, nothing) = (block.push(Op::Mask), block.float(how.identity()));
                    block.select(mask, v, nothing)
                }
                false => v,
            };
            let sum_so_far = block.push(Op::Sum(sum));
            let next = prims::combine(block, how, sum_so_far, v);
            block.push(Op::SetSum(sum, next));
        }
        Some(values)
    }

    /// The elements that a walk reads, as far as they are not known yet. What is gathered is never written.
    fn read_all(&self, values: &mut Values, phase: usize) -> Option<()> {
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

    /// A register as a value of a block, with all it needs.
    fn value(&self, values: &mut Values, register: usize, phase: usize) -> Option<V> {
        if let Some(v) = values.made[register] {
            return Some(v);
        }
        let inst = &self.map.body[register];
        let earlier = self.phases.first[register] < phase && !self.phases.row_invariant[register];
        let lies = || {
            let at = |s: &trainspec_ir::kernel::Store| !s.row && s.register == register;
            self.map.stores.iter().position(at)
        };
        let block = &mut values.block;
        let v = match &inst.op {
            InstOp::Const(x) => block.float(*x),
            InstOp::Int(n) if inst.dtype == DType::Bool => block.bits_const(-*n),
            InstOp::Int(n) => block.bits_const(*n),
            _ if self.fixed[register].is_some() => {
                block.push(Op::Fixed(self.fixed[register].expect("it has a place")))
            }
            InstOp::Load(load) => self.load(block, *load, inst.dtype)?,
            InstOp::Prim(..) if earlier && self.kept[register].is_some() => {
                block.push(Op::Kept(self.kept[register].expect("it is kept")))
            }
            // What an earlier walk stored is read back.
            InstOp::Prim(..) if earlier && inst.dtype != DType::Bool && lies().is_some() => {
                let store = lies().expect("it is stored");
                block.push(Op::Load(self.map.loads.len() + store))
            }
            InstOp::Prim(..) => self.compute(values, register, phase)?,
            InstOp::Reduce(..) => unreachable!("what rows combine to has a place"),
        };
        values.made[register] = Some(v);
        Some(v)
    }

    fn load(&self, block: &mut Block, load: usize, dtype: DType) -> Option<V> {
        Some(match (self.space.loads[load].inner, dtype) {
            (0, DType::Bool) => return None,
            (0, _) => block.push(Op::LoadRow(load)),
            (1, DType::Bool) => {
                let bytes = block.push(Op::LoadBytes(load));
                let zero = block.int(0);
                block.two(Two::IntGreater, bytes, zero)
            }
            (1, _) => block.push(Op::Load(load)),
            (_, DType::Bool) => return None,
            (stride, _) => block.push(Op::Gather(load, stride)),
        })
    }

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
                whole::apply(block, prim, &lanes, from, inst.dtype)
            }
        }
    }
}

/// What the lanes of a sum combine to, in all lanes: the first half with the second, and so on.
fn total(block: &mut Block, sum: usize, how: Combine) -> V {
    let mut v = block.push(Op::Sum(sum));
    let dtype = match block.lane {
        Lane::F32 => DType::F32,
        Lane::F64 => DType::F64,
    };
    let mut half = lanes_of(dtype) / 2;
    while half > 0 {
        let swap = match (block.lane, half) {
            (Lane::F32, 4) | (Lane::F64, 2) => One::SwapHalves,
            (Lane::F32, 2) => One::SwapPairs,
            _ => One::SwapLanes,
        };
        let other = block.push(Op::One(swap, v));
        v = prims::combine(block, how, v, other);
        half /= 2;
    }
    block.push(Op::One(One::Spread, v))
}
