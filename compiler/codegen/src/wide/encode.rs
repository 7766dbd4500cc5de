//! Instructions as bytes.
//!
//! Vector instructions are in the VEX form: three operands, 256 bits. Jumps and constants are filled in at the end.

use std::fmt::Write;

/// A general register by its number.
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

/// The last operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rm {
    /// A vector register.
    Reg(u8),
    /// Memory.
    Mem(Mem),
    /// A constant, by its place in the table behind the code.
    Const(usize),
}

/// base + index · scale + displacement.
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

/// A vector instruction: which table of opcodes (1 is 0F, 2 is 0F 38, 3 is 0F 3A), which prefix (0 none, 1 is 66, 2 is F3, 3 is F2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vex {
    pub(super) name: &'static str,
    pub(super) map: u8,
    pub(super) prefix: u8,
    pub(super) wide: bool,
    pub(super) opcode: u8,
    /// Whether it works on 128 bits only.
    pub(super) short: bool,
    /// How its operands are written.
    order: Order,
}

/// How the operands of an instruction are written down in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Result, first operand, last operand.
    Three,
    /// Result, last operand.
    Two,
    /// The last operand is the result.
    Store,
    /// The first operand is the result, the register a part of the instruction.
    First,
}

impl Vex {
    pub(super) const fn new(name: &'static str, map: u8, prefix: u8, opcode: u8) -> Vex {
        Vex {
            name,
            map,
            prefix,
            wide: false,
            opcode,
            short: false,
            order: Order::Three,
        }
    }

    /// It has one operand.
    pub(super) const fn two(self) -> Vex {
        Vex {
            order: Order::Two,
            ..self
        }
    }

    /// It stores its register.
    pub(super) const fn store(self) -> Vex {
        Vex {
            order: Order::Store,
            ..self
        }
    }

    /// Its result stands where others have their first operand.
    pub(super) const fn first(self) -> Vex {
        Vex {
            order: Order::First,
            ..self
        }
    }

    pub(super) const fn w(self) -> Vex {
        Vex { wide: true, ..self }
    }

    pub(super) const fn xmm(self) -> Vex {
        Vex {
            short: true,
            ..self
        }
    }
}

/// A place in the code that jumps go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// When a jump is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Zero,
    NotZero,
    Below,
}

/// Code in the making.
#[derive(Debug, Default)]
pub(super) struct Asm {
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Where a displacement to a label is to be filled in.
    jumps: Vec<(usize, Label)>,
    /// Where a displacement to a constant is, the end of its instruction, and which.
    references: Vec<(usize, usize, usize)>,
    constants: Vec<[u8; 32]>,
    /// The instructions as text, where they are wanted.
    listing: Option<String>,
}

impl Asm {
    pub(super) fn new(listing: bool) -> Asm {
        Asm {
            listing: listing.then(String::new),
            ..Asm::default()
        }
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(listing) = &mut self.listing {
            let _ = writeln!(listing, "  {}", line());
        }
    }

    /// The place of a constant of 32 bytes.
    pub(super) fn constant(&mut self, bytes: [u8; 32]) -> usize {
        if let Some(found) = self.constants.iter().position(|c| *c == bytes) {
            return found;
        }
        self.constants.push(bytes);
        self.constants.len() - 1
    }

    /// Two constants, one right behind the other.
    pub(super) fn constant_pair(&mut self, first: [u8; 32], second: [u8; 32]) -> usize {
        self.constants.push(first);
        self.constants.push(second);
        self.constants.len() - 2
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.bytes.len());
        if let Some(listing) = &mut self.listing {
            let _ = writeln!(listing, "l{}:", label.0);
        }
    }

    pub(super) fn jump(&mut self, when: When, label: Label) {
        let name = match when {
            When::Zero => {
                self.bytes.extend([0x0F, 0x84]);
                "jz"
            }
            When::NotZero => {
                self.bytes.extend([0x0F, 0x85]);
                "jnz"
            }
            When::Below => {
                self.bytes.extend([0x0F, 0x82]);
                "jb"
            }
        };
        self.jumps.push((self.bytes.len(), label));
        self.bytes.extend([0; 4]);
        self.say(|| format!("{name} l{}", label.0));
    }

    /// The last byte of the displacement, or the constant, and the bytes of the operand.
    fn operand(&mut self, reg: u8, rm: Rm, behind: usize) {
        let field = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.bytes.push(0xC0 | field | (r & 7)),
            Rm::Const(constant) => {
                self.bytes.push(field | 5);
                let at = self.bytes.len();
                self.bytes.extend([0; 4]);
                self.references.push((at, at + 4 + behind, constant));
            }
            Rm::Mem(mem) => {
                let small = i8::try_from(mem.disp).ok();
                let mode = match (mem.disp, small) {
                    // Without a displacement that number of a base means something else.
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

    /// A vector instruction: its result (or what it stores), its first operand (0 where it has none), the last one.
    pub(super) fn vector(&mut self, vex: Vex, reg: u8, first: u8, rm: Rm, immediate: Option<u8>) {
        let (x, b) = match rm {
            Rm::Reg(r) => (false, r >= 8),
            Rm::Const(_) => (false, false),
            Rm::Mem(mem) => (mem.index.is_some_and(|(i, _)| i.0 >= 8), mem.base.0 >= 8),
        };
        let length = if vex.short { 0 } else { 4 };
        let last = ((!first & 0xF) << 3) | length | vex.prefix;
        let r = if reg >= 8 { 0 } else { 0x80 };
        if vex.map == 1 && !vex.wide && !x && !b {
            self.bytes.extend([0xC5, r | last]);
        } else {
            let (x, b) = (if x { 0 } else { 0x40 }, if b { 0 } else { 0x20 });
            let w = if vex.wide { 0x80 } else { 0 };
            self.bytes.extend([0xC4, r | x | b | vex.map, w | last]);
        }
        self.bytes.push(vex.opcode);
        self.operand(reg, rm, usize::from(immediate.is_some()));
        self.bytes.extend(immediate);
        self.say(|| {
            let kind = if vex.short { 'x' } else { 'y' };
            let rm = match rm {
                Rm::Reg(r) => format!("{kind}mm{r}"),
                Rm::Const(c) => format!("[constant {c}]"),
                Rm::Mem(mem) => text(mem),
            };
            let immediate = immediate.map_or(String::new(), |i| format!(", {i:#x}"));
            let name = vex.name;
            let (reg, first) = (format!("{kind}mm{reg}"), format!("{kind}mm{first}"));
            match vex.order {
                Order::Three => format!("{name} {reg}, {first}, {rm}{immediate}"),
                Order::Two => format!("{name} {reg}, {rm}{immediate}"),
                Order::Store => format!("{name} {rm}, {reg}{immediate}"),
                Order::First => format!("{name} {first}, {rm}{immediate}"),
            }
        });
    }

    /// Loads lanes whose distances from a base are in a vector, where the mask is set.
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
        // A displacement of one byte, so that every base means itself.
        let mode = 0x44 | ((reg & 7) << 3);
        self.bytes.extend([0xC4, first, second, 0x92, mode, sib, 0]);
        self.say(|| {
            format!(
                "vgather ymm{reg}, [{} + ymm{index}*{scale}], ymm{mask}",
                base.name()
            )
        });
    }

    /// A general instruction of 64 bits with a register (or a number that stands for the instruction) and an operand.
    fn general(&mut self, opcode: &[u8], reg: u8, rm: Result<Gpr, Mem>, behind: usize) {
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
        self.operand(reg, rm, behind);
    }

    pub(super) fn load(&mut self, to: Gpr, from: Mem) {
        self.general(&[0x8B], to.0, Err(from), 0);
        self.say(|| format!("mov {}, {}", to.name(), text(from)));
    }

    pub(super) fn store(&mut self, to: Mem, from: Gpr) {
        self.general(&[0x89], from.0, Err(to), 0);
        self.say(|| format!("mov {}, {}", text(to), from.name()));
    }

    pub(super) fn copy(&mut self, to: Gpr, from: Gpr) {
        self.general(&[0x8B], to.0, Ok(from), 0);
        self.say(|| format!("mov {}, {}", to.name(), from.name()));
    }

    /// Lets the machine fetch what will soon be needed; an address that is none is no fault.
    pub(super) fn prefetch(&mut self, at: Mem) {
        self.general(&[0x0F, 0x18], 1, Err(at), 0);
        self.say(|| format!("prefetcht0 {}", text(at)));
    }

    pub(super) fn address(&mut self, to: Gpr, of: Mem) {
        self.general(&[0x8D], to.0, Err(of), 0);
        self.say(|| format!("lea {}, {}", to.name(), text(of)));
    }

    pub(super) fn address_of_constant(&mut self, to: Gpr, constant: usize) {
        let rex = 0x48 | (u8::from(to.0 >= 8) << 2);
        self.bytes.extend([rex, 0x8D]);
        self.operand(to.0, Rm::Const(constant), 0);
        self.say(|| format!("lea {}, [constant {constant}]", to.name()));
    }

    /// Which: 0 add, 4 and, 5 subtract, 7 compare.
    fn with_number(&mut self, which: u8, name: &str, to: Result<Gpr, Mem>, number: i32) {
        match i8::try_from(number) {
            Ok(small) => {
                self.general(&[0x83], which, to, 1);
                self.bytes.push(small.cast_unsigned());
            }
            Err(_) => {
                self.general(&[0x81], which, to, 4);
                self.bytes.extend(number.to_le_bytes());
            }
        }
        self.say(|| {
            let to = match to {
                Ok(r) => r.name().to_owned(),
                Err(mem) => text(mem),
            };
            format!("{name} {to}, {number}")
        });
    }

    pub(super) fn add(&mut self, to: Gpr, number: i32) {
        self.with_number(0, "add", Ok(to), number);
    }

    pub(super) fn add_to(&mut self, to: Mem, number: i32) {
        self.with_number(0, "add", Err(to), number);
    }

    pub(super) fn and(&mut self, to: Gpr, number: i32) {
        self.with_number(4, "and", Ok(to), number);
    }

    /// Subtracts a number that is known only at the end; gives the place to fill it in.
    pub(super) fn subtract_later(&mut self, from: Gpr) -> usize {
        self.general(&[0x81], 5, Ok(from), 4);
        self.bytes.extend([0; 4]);
        self.say(|| format!("sub {}, frame", from.name()));
        self.bytes.len() - 4
    }

    pub(super) fn fill(&mut self, place: usize, number: i32) {
        self.bytes[place..place + 4].copy_from_slice(&number.to_le_bytes());
    }

    pub(super) fn subtract(&mut self, from: Gpr, what: Gpr) {
        self.general(&[0x2B], from.0, Ok(what), 0);
        self.say(|| format!("sub {}, {}", from.name(), what.name()));
    }

    pub(super) fn negate(&mut self, what: Gpr) {
        self.general(&[0xF7], 3, Ok(what), 0);
        self.say(|| format!("neg {}", what.name()));
    }

    pub(super) fn zero(&mut self, what: Gpr) {
        self.general(&[0x33], what.0, Ok(what), 0);
        self.say(|| format!("xor {0}, {0}", what.name()));
    }

    pub(super) fn compare(&mut self, what: Gpr, with: Gpr) {
        self.general(&[0x3B], what.0, Ok(with), 0);
        self.say(|| format!("cmp {}, {}", what.name(), with.name()));
    }

    pub(super) fn multiply(&mut self, to: Gpr, from: Gpr, number: i32) {
        self.general(&[0x69], to.0, Ok(from), 4);
        self.bytes.extend(number.to_le_bytes());
        self.say(|| format!("imul {}, {}, {number}", to.name(), from.name()));
    }

    pub(super) fn push(&mut self, what: Gpr) {
        if what.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x50 | (what.0 & 7));
        self.say(|| format!("push {}", what.name()));
    }

    pub(super) fn pop(&mut self, what: Gpr) {
        if what.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x58 | (what.0 & 7));
        self.say(|| format!("pop {}", what.name()));
    }

    /// Copies rcx bytes from rsi to rdi.
    pub(super) fn copy_bytes(&mut self) {
        self.bytes.extend([0xF3, 0xA4]);
        self.say(|| "rep movsb".to_owned());
    }

    /// Ends the function: the upper halves of vector registers are given back clean.
    pub(super) fn upper_zero(&mut self) {
        self.bytes.extend([0xC5, 0xF8, 0x77]);
        self.say(|| "vzeroupper".to_owned());
    }

    pub(super) fn ret(&mut self) {
        self.bytes.push(0xC3);
        self.say(|| "ret".to_owned());
    }

    /// The code, its constants behind it. It must begin at a multiple of 32.
    pub(super) fn finish(mut self) -> (Vec<u8>, Option<String>) {
        for (at, label) in &self.jumps {
            let target = self.labels[label.0].expect("labels are placed");
            let distance = target as i64 - (*at as i64 + 4);
            self.bytes[*at..*at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        let table = self.bytes.len().next_multiple_of(32);
        for (at, end, constant) in &self.references {
            let distance = (table + 32 * constant) as i64 - *end as i64;
            self.bytes[*at..*at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        self.bytes.resize(table, 0xCC);
        for constant in &self.constants {
            self.bytes.extend(constant);
        }
        (self.bytes, self.listing)
    }
}

fn text(mem: Mem) -> String {
    let index = mem
        .index
        .map_or(String::new(), |(i, s)| format!(" + {}*{s}", i.name()));
    let disp = match mem.disp {
        0 => String::new(),
        d => format!(" + {d}"),
    };
    format!("[{}{index}{disp}]", mem.base.name())
}
