//! The textual form of kernels.

use std::fmt::{self, Write};

use crate::kernel::{InstOp, Kernel, KernelKind, Kernels, Map, Origin, Store, View};

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernels {:?} {{", self.name)?;
        body(f, self, 1)?;
        f.write_str("}\n")
    }
}

impl Kernel {
    /// Its name: `map [8, 4]` for a loop of that shape, `call matmul` for a library routine, `call matmul epilogue map [8, 4]` where a
    /// loop follows, `scan 12` for a scan of that length.
    pub fn name(&self) -> String {
        self.kind.name_with("")
    }
}

impl KernelKind {
    /// The name, with the operands of a routine or scan.
    fn name_with(&self, operands: &str) -> String {
        match self {
            KernelKind::Map(map) => format!("map {:?}", map.shape),
            KernelKind::Call { prim, epilogue, .. } => {
                let call = format!("call {}{operands}", prim.name);
                match epilogue {
                    Some(map) => format!("{call} epilogue map {:?}", map.shape),
                    None => call,
                }
            }
            KernelKind::Scan { length, .. } => format!("scan {length}{operands}"),
        }
    }

    /// The fused loop: that of a map, or the epilogue of a routine.
    pub fn fused_loop(&self) -> Option<&Map> {
        match self {
            KernelKind::Map(map) => Some(map),
            KernelKind::Call { epilogue, .. } => epilogue.as_deref(),
            KernelKind::Scan { .. } => None,
        }
    }
}

impl fmt::Display for View {
    /// `b3[2, 4]` is a contiguous buffer, `b3[2, 4; 0, 1]` a view of that shape and those strides, `b3+8[…]` one that begins at element 8.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.buffer.0)?;
        if self.offset > 0 {
            write!(f, "+{}", self.offset)?;
        }
        if self.is_contiguous() {
            return write!(f, "{:?}", self.shape);
        }
        let list = |l: &[usize]| {
            l.iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(f, "[{}; {}]", list(&self.shape), list(&self.strides))
    }
}

fn body(f: &mut impl Write, kernels: &Kernels, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for (i, buffer) in kernels.buffers.iter().enumerate() {
        match &buffer.origin {
            Origin::Input(name) => writeln!(f, "{indent}b{i} : {} = input {name:?}", buffer.ty)?,
            Origin::Const(tensor) if tensor.ty().elements() <= 8 => {
                writeln!(f, "{indent}b{i} : {} = const {tensor}", buffer.ty)?;
            }
            Origin::Const(_) => writeln!(f, "{indent}b{i} : {} = const", buffer.ty)?,
            Origin::State(id) => {
                writeln!(
                    f,
                    "{indent}b{i} : {} = state {:?}",
                    buffer.ty,
                    kernels.state[id.index()].name
                )?;
            }
            Origin::Temp => {}
        }
    }
    for kernel in &kernels.kernels {
        one(f, kernels, kernel, depth)?;
    }
    for (state, view) in &kernels.writes {
        writeln!(
            f,
            "{indent}write {:?} <- {view}",
            kernels.state[state.index()].name
        )?;
    }
    for (name, view) in &kernels.results {
        writeln!(f, "{indent}return {name:?} = {view}")?;
    }
    Ok(())
}

fn one(f: &mut impl Write, kernels: &Kernels, kernel: &Kernel, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let outputs: Vec<String> = kernel
        .outputs
        .iter()
        .map(|b| format!("b{} : {}", b.0, kernels.buffers[b.index()].ty))
        .collect();
    write!(f, "{indent}{} = ", outputs.join(", "))?;
    let views = |list: &[View]| {
        list.iter()
            .map(View::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let operands = match &kernel.kind {
        KernelKind::Map(_) => String::new(),
        KernelKind::Call { operands, .. } => format!("({})", views(operands)),
        KernelKind::Scan {
            reverse, operands, ..
        } => {
            let reverse = if *reverse { " reverse" } else { "" };
            format!("{reverse}({})", views(operands))
        }
    };
    write!(f, "{}", kernel.kind.name_with(&operands))?;
    if let Some(map) = kernel.kind.fused_loop() {
        writeln!(f, " {{")?;
        instructions(f, map, depth + 1)?;
        return writeln!(f, "{indent}}} // {}", kernel.fusion_barrier);
    }
    match &kernel.kind {
        KernelKind::Map(_) | KernelKind::Call { .. } => writeln!(f),
        KernelKind::Scan { body: inner, .. } => {
            writeln!(f, " {{")?;
            body(f, inner, depth + 1)?;
            writeln!(f, "{indent}}}")
        }
    }
}

fn instructions(f: &mut impl Write, map: &Map, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for (i, inst) in map.body.iter().enumerate() {
        write!(f, "{indent}r{i} = ")?;
        match &inst.op {
            InstOp::Load(load) => writeln!(f, "load {}", map.loads[*load])?,
            InstOp::Const(x) => writeln!(f, "{x:?}")?,
            InstOp::Int(n) => writeln!(f, "{n}")?,
            InstOp::Prim(prim, operands) => {
                let operands: Vec<String> = operands.iter().map(|r| format!("r{r}")).collect();
                writeln!(f, "{}({})", prim.name, operands.join(", "))?;
            }
            InstOp::Reduce(combine, register) => {
                let row = &map.shape[map.shape.len() - map.reduced_dims..];
                writeln!(f, "reduce {row:?} {}(r{register})", combine.name())?;
            }
        }
    }
    if !map.stores.is_empty() {
        let store = |store: &Store| match store.row {
            true => format!("row r{}", store.register),
            false => format!("r{}", store.register),
        };
        let stores: Vec<String> = map.stores.iter().map(store).collect();
        writeln!(f, "{indent}store {}", stores.join(", "))?;
    }
    Ok(())
}
