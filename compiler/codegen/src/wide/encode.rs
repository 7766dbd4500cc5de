//! x86-64 assembler: instruction encoding (VEX, REX, ModRM, SIB), labels with fixups, and a constant pool.
//!
//! Vector instructions have the VEX encoding: three operands, 256 bits. Jumps and references to constants are patched at the end.

use std::fmt::Write;

/// A general-purpose register (GPR) by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RSP: Gpr = Gpr(4);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);
pub(super) const R8: Gpr = Gpr(8);

impl Gpr {
    fn name(self) -> &'static str {
        [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ][self.0 as usize]
    }
}

/// The r/m operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rm {
    /// A vector register.
    Reg(u8),
    /// Memory.
    Mem(Mem),
    /// A constant, by its index in the constant pool after the code.
    Const(usize),
}

/// A memory operand: base + index · scale + displacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mem {
    pub(super) base: Gpr,
    pub(super) index: Option<(Gpr, u8)>,
    pub(super) disp: i32,
}

impl Mem {
    pub(super) fn at(base: Gpr, disp: i32) -> Mem {
        Mem {
            base,
            index: None,
            disp,
        }
    }
}

/// A VEX-encoded instruction: opcode map (1 is 0F, 2 is 0F 38, 3 is 0F 3A) and implied prefix (0 none, 1 is 66, 2 is F3, 3 is F2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vex {
    pub(super) name: &'static str,
    pub(super) map: u8,
    pub(super) prefix: u8,
    /// VEX.W.
    pub(super) w: bool,
    pub(super) opcode: u8,
    /// Whether it works on 128 bits (VEX.L = 0).
    pub(super) is_xmm: bool,
    /// The operand order of the listing.
    order: Order,
}

/// The operand order of an instruction in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Result, first operand, last operand.
    Three,
    /// Result, last operand.
    Two,
    /// The last operand is the result.
    Store,
    /// The destination is VEX.vvvv, the register field an opcode extension.
    DestInVvvv,
}

impl Vex {
    pub(super) const fn new(name: &'static str, map: u8, prefix: u8, opcode: u8) -> Vex {
        Vex {
            name,
            map,
            prefix,
            w: false,
            opcode,
            is_xmm: false,
            order: Order::Three,
        }
    }

    /// An instruction of one operand.
    pub(super) const fn two(self) -> Vex {
        Vex {
            order: Order::Two,
            ..self
        }
    }

    /// A store.
    pub(super) const fn store(self) -> Vex {
        Vex {
            order: Order::Store,
            ..self
        }
    }

    /// An instruction whose destination is VEX.vvvv.
    pub(super) const fn dest_in_vvvv(self) -> Vex {
        Vex {
            order: Order::DestInVvvv,
            ..self
        }
    }

    /// Sets VEX.W.
    pub(super) const fn w(self) -> Vex {
        Vex { w: true, ..self }
    }

    /// The 128-bit form.
    pub(super) const fn xmm(self) -> Vex {
        Vex {
            is_xmm: true,
            ..self
        }
    }
}

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// The condition of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Zero,
    NotZero,
    Below,
}

/// The assembler.
#[derive(Debug, Default)]
pub(super) struct Asm {
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Jump fixups: the offset of a displacement, and its label.
    jump_fixups: Vec<(usize, Label)>,
    /// Fixups of RIP-relative constants: the offset of a displacement, the end of its instruction, and the constant.
    constant_fixups: Vec<(usize, usize, usize)>,
    constants: Vec<[u8; 32]>,
    /// The assembly listing, where it is requested.
    listing: Option<String>,
}

impl Asm {
    pub(super) fn new(listing: bool) -> Asm {
        Asm {
            listing: listing.then(String::new),
            ..Asm::default()
        }
    }

    fn list(&mut self, line: impl FnOnce() -> String) {
        if let Some(listing) = &mut self.listing {
            let _ = writeln!(listing, "  {}", line());
        }
    }

    /// The index of a constant of 32 bytes in the constant pool; equal constants are shared.
    pub(super) fn constant(&mut self, bytes: [u8; 32]) -> usize {
        if let Some(found) = self.constants.iter().position(|c| *c == bytes) {
            return found;
        }
        self.constants.push(bytes);
        self.constants.len() - 1
    }

    /// Two adjacent constants.
    pub(super) fn constant_pair(&mut self, first: [u8; 32], second: [u8; 32]) -> usize {
        self.constants.push(first);
        self.constants.push(second);
        self.constants.len() - 2
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds a label to the current offset.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.bytes.len());
        if let Some(listing) = &mut self.listing {
            let _ = writeln!(listing, "l{}:", label.0);
        }
    }

    pub(super) fn jump(&mut self, when: Condition, label: Label) {
        let name = match when {
            Condition::Zero => {
                self.bytes.extend([0x0F, 0x84]);
                "jz"
            }
            Condition::NotZero => {
                self.bytes.extend([0x0F, 0x85]);
                "jnz"
            }
            Condition::Below => {
                self.bytes.extend([0x0F, 0x82]);
                "jb"
            }
        };
        self.jump_fixups.push((self.bytes.len(), label));
        self.bytes.extend([0; 4]);
        self.list(|| format!("{name} l{}", label.0));
    }

    /// ModRM, SIB and displacement of an operand; `immediate_bytes` follow them.
    fn operand(&mut self, reg: u8, rm: Rm, immediate_bytes: usize) {
        let field = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.bytes.push(0xC0 | field | (r & 7)),
            Rm::Const(constant) => {
                self.bytes.push(field | 5);
                let at = self.bytes.len();
                self.bytes.extend([0; 4]);
                self.constant_fixups
                    .push((at, at + 4 + immediate_bytes, constant));
            }
            Rm::Mem(mem) => {
                let small = i8::try_from(mem.disp).ok();
                let mode = match (mem.disp, small) {
                    // Mode 0 with base 5 (rbp, r13) means RIP-relative.
                    (0, _) if mem.base.0 & 7 != 5 => 0x00,
                    (_, Some(_)) => 0x40,
                    _ => 0x80,
                };
                match mem.index {
                    None if mem.base.0 & 7 != 4 => {
                        self.bytes.push(mode | field | (mem.base.0 & 7));
                    }
                    None => {
                        self.bytes.push(mode | field | 4);
                        self.bytes.push(0x24);
                    }
                    Some((index, scale)) => {
                        self.bytes.push(mode | field | 4);
                        let scale = scale.trailing_zeros() as u8;
                        self.bytes
                            .push((scale << 6) | ((index.0 & 7) << 3) | (mem.base.0 & 7));
                    }
                }
                match (mode, small) {
                    (0x40, Some(disp)) => self.bytes.push(disp.cast_unsigned()),
                    (0x80, _) => self.bytes.extend(mem.disp.to_le_bytes()),
                    _ => {}
                }
            }
        }
    }

    /// A VEX instruction: destination (or stored register), first source (0 where it has none), r/m operand.
    pub(super) fn vector(&mut self, vex: Vex, reg: u8, first: u8, rm: Rm, immediate: Option<u8>) {
        let (x, b) = match rm {
            Rm::Reg(r) => (false, r >= 8),
            Rm::Const(_) => (false, false),
            Rm::Mem(mem) => (mem.index.is_some_and(|(i, _)| i.0 >= 8), mem.base.0 >= 8),
        };
        let length = if vex.is_xmm { 0 } else { 4 };
        let last = ((!first & 0xF) << 3) | length | vex.prefix;
        let r = if reg >= 8 { 0 } else { 0x80 };
        if vex.map == 1 && !vex.w && !x && !b {
            self.bytes.extend([0xC5, r | last]);
        } else {
            let (x, b) = (if x { 0 } else { 0x40 }, if b { 0 } else { 0x20 });
            let w = if vex.w { 0x80 } else { 0 };
            self.bytes.extend([0xC4, r | x | b | vex.map, w | last]);
        }
        self.bytes.push(vex.opcode);
        self.operand(reg, rm, usize::from(immediate.is_some()));
        self.bytes.extend(immediate);
        self.list(|| {
            let kind = if vex.is_xmm { 'x' } else { 'y' };
            let rm = match rm {
                Rm::Reg(r) => format!("{kind}mm{r}"),
                Rm::Const(c) => format!("[constant {c}]"),
                Rm::Mem(mem) => listed(mem),
            };
            let immediate = immediate.map_or(String::new(), |i| format!(", {i:#x}"));
            let name = vex.name;
            let (reg, first) = (format!("{kind}mm{reg}"), format!("{kind}mm{first}"));
            match vex.order {
                Order::Three => format!("{name} {reg}, {first}, {rm}{immediate}"),
                Order::Two => format!("{name} {reg}, {rm}{immediate}"),
                Order::Store => format!("{name} {rm}, {reg}{immediate}"),
                Order::DestInVvvv => format!("{name} {first}, {rm}{immediate}"),
            }
        });
    }

    /// A gather: loads the lanes whose indices are in a vector register, where the mask is set.
    pub(super) fn gather(
        &mut self,
        double: bool,
        reg: u8,
        base: Gpr,
        index: u8,
        scale: u8,
        mask: u8,
    ) {
        let bit = |set: bool, bit: u8| if set { 0 } else { bit };
        let first = bit(reg >= 8, 0x80) | bit(index >= 8, 0x40) | bit(base.0 >= 8, 0x20) | 2;
        let w = if double { 0x80 } else { 0 };
        let second = w | ((!mask & 0xF) << 3) | 4 | 1;
        let sib = ((scale.trailing_zeros() as u8) << 6) | ((index & 7) << 3) | (base.0 & 7);
        // A displacement of one byte, so that every base encodes itself.
        let mode = 0x44 | ((reg & 7) << 3);
        self.bytes.extend([0xC4, first, second, 0x92, mode, sib, 0]);
        self.list(|| {
            format!(
                "vgather ymm{reg}, [{} + ymm{index}*{scale}], ymm{mask}",
                base.name()
            )
        });
    }

    /// A 64-bit GPR instruction with a register (or opcode extension) and an r/m operand.
    fn general(&mut self, opcode: &[u8], reg: u8, rm: Result<Gpr, Mem>, immediate_bytes: usize) {
        let (x, b) = match rm {
            Ok(r) => (false, r.0 >= 8),
            Err(mem) => (mem.index.is_some_and(|(i, _)| i.0 >= 8), mem.base.0 >= 8),
        };
        let rex = 0x48 | (u8::from(reg >= 8) << 2) | (u8::from(x) << 1) | u8::from(b);
        self.bytes.push(rex);
        self.bytes.extend(opcode);
        let rm = match rm {
            Ok(r) => Rm::Reg(r.0),
            Err(mem) => Rm::Mem(mem),
        };
        self.operand(reg, rm, immediate_bytes);
    }

    pub(super) fn load(&mut self, to: Gpr, from: Mem) {
        self.general(&[0x8B], to.0, Err(from), 0);
        self.list(|| format!("mov {}, {}", to.name(), listed(from)));
    }

    pub(super) fn store(&mut self, to: Mem, from: Gpr) {
        self.general(&[0x89], from.0, Err(to), 0);
        self.list(|| format!("mov {}, {}", listed(to), from.name()));
    }

    pub(super) fn copy(&mut self, to: Gpr, from: Gpr) {
        self.general(&[0x8B], to.0, Ok(from), 0);
        self.list(|| format!("mov {}, {}", to.name(), from.name()));
    }

    /// Prefetches a cache line; an invalid address does not fault.
    pub(super) fn prefetch(&mut self, at: Mem) {
        self.general(&[0x0F, 0x18], 1, Err(at), 0);
        self.list(|| format!("prefetcht0 {}", listed(at)));
    }

    pub(super) fn address(&mut self, to: Gpr, of: Mem) {
        self.general(&[0x8D], to.0, Err(of), 0);
        self.list(|| format!("lea {}, {}", to.name(), listed(of)));
    }

    pub(super) fn address_of_constant(&mut self, to: Gpr, constant: usize) {
        let rex = 0x48 | (u8::from(to.0 >= 8) << 2);
        self.bytes.extend([rex, 0x8D]);
        self.operand(to.0, Rm::Const(constant), 0);
        self.list(|| format!("lea {}, [constant {constant}]", to.name()));
    }

    /// An ALU instruction with an immediate, by its opcode extension: 0 add, 4 and, 5 subtract, 7 compare.
    fn alu_immediate(&mut self, extension: u8, name: &str, to: Result<Gpr, Mem>, number: i32) {
        match i8::try_from(number) {
            Ok(small) => {
                self.general(&[0x83], extension, to, 1);
                self.bytes.push(small.cast_unsigned());
            }
            Err(_) => {
                self.general(&[0x81], extension, to, 4);
                self.bytes.extend(number.to_le_bytes());
            }
        }
        self.list(|| {
            let to = match to {
                Ok(r) => r.name().to_owned(),
                Err(mem) => listed(mem),
            };
            format!("{name} {to}, {number}")
        });
    }

    pub(super) fn add(&mut self, to: Gpr, number: i32) {
        self.alu_immediate(0, "add", Ok(to), number);
    }

    pub(super) fn add_to(&mut self, to: Mem, number: i32) {
        self.alu_immediate(0, "add", Err(to), number);
    }

    pub(super) fn and(&mut self, to: Gpr, number: i32) {
        self.alu_immediate(4, "and", Ok(to), number);
    }

    /// Subtracts an immediate that is patched later; gives its offset.
    pub(super) fn subtract_patched(&mut self, from: Gpr) -> usize {
        self.general(&[0x81], 5, Ok(from), 4);
        self.bytes.extend([0; 4]);
        self.list(|| format!("sub {}, frame", from.name()));
        self.bytes.len() - 4
    }

    /// Patches a 32-bit immediate.
    pub(super) fn patch(&mut self, offset: usize, number: i32) {
        self.bytes[offset..offset + 4].copy_from_slice(&number.to_le_bytes());
    }

    pub(super) fn subtract(&mut self, from: Gpr, register: Gpr) {
        self.general(&[0x2B], from.0, Ok(register), 0);
        self.list(|| format!("sub {}, {}", from.name(), register.name()));
    }

    pub(super) fn negate(&mut self, register: Gpr) {
        self.general(&[0xF7], 3, Ok(register), 0);
        self.list(|| format!("neg {}", register.name()));
    }

    pub(super) fn zero(&mut self, register: Gpr) {
        self.general(&[0x33], register.0, Ok(register), 0);
        self.list(|| format!("xor {0}, {0}", register.name()));
    }

    pub(super) fn compare(&mut self, register: Gpr, with: Gpr) {
        self.general(&[0x3B], register.0, Ok(with), 0);
        self.list(|| format!("cmp {}, {}", register.name(), with.name()));
    }

    pub(super) fn multiply(&mut self, to: Gpr, from: Gpr, number: i32) {
        self.general(&[0x69], to.0, Ok(from), 4);
        self.bytes.extend(number.to_le_bytes());
        self.list(|| format!("imul {}, {}, {number}", to.name(), from.name()));
    }

    pub(super) fn push(&mut self, register: Gpr) {
        if register.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x50 | (register.0 & 7));
        self.list(|| format!("push {}", register.name()));
    }

    pub(super) fn pop(&mut self, register: Gpr) {
        if register.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x58 | (register.0 & 7));
        self.list(|| format!("pop {}", register.name()));
    }

    /// Copies rcx bytes from rsi to rdi.
    pub(super) fn copy_bytes(&mut self) {
        self.bytes.extend([0xF3, 0xA4]);
        self.list(|| "rep movsb".to_owned());
    }

    /// `vzeroupper`: avoids the AVX-SSE transition penalty in the caller.
    pub(super) fn upper_zero(&mut self) {
        self.bytes.extend([0xC5, 0xF8, 0x77]);
        self.list(|| "vzeroupper".to_owned());
    }

    pub(super) fn ret(&mut self) {
        self.bytes.push(0xC3);
        self.list(|| "ret".to_owned());
    }

    /// The code followed by its constant pool; it must be aligned to 32 bytes.
    pub(super) fn finish(mut self) -> (Vec<u8>, Option<String>) {
        for (at, label) in &self.jump_fixups {
            let target = self.labels[label.0].expect("labels are bound");
            let distance = target as i64 - (*at as i64 + 4);
            self.bytes[*at..*at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        let pool = self.bytes.len().next_multiple_of(32);
        for (at, end, constant) in &self.constant_fixups {
            let distance = (pool + 32 * constant) as i64 - *end as i64;
            self.bytes[*at..*at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        self.bytes.resize(pool, 0xCC);
        for constant in &self.constants {
            self.bytes.extend(constant);
        }
        (self.bytes, self.listing)
    }
}

/// A memory operand in a listing.
fn listed(mem: Mem) -> String {
    let index = mem
        .index
        .map_or(String::new(), |(i, s)| format!(" + {}*{s}", i.name()));
    let disp = match mem.disp {
        0 => String::new(),
        d => format!(" + {d}"),
    };
    format!("[{}{index}{disp}]", mem.base.name())
}
