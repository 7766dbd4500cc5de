//! The printer of the textual form of graphs.

use std::fmt::{self, Write};

use crate::graph::{Attr, Graph, Node, NodeKind, StateId, ValueId};
use crate::tensor::{Data, Tensor};
use crate::text::MAX_SPLAT_ELEMENTS;

impl fmt::Display for Graph {
    /// The textual form, which [`parse`](crate::text::parse()) reads back. Graphs that violate invariants can be printed, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {:?} {{", self.name)?;
        let mut printer = Printer {
            out: f,
            splats: MAX_SPLAT_ELEMENTS,
        };
        printer.body(self, 1)?;
        f.write_str("}\n")
    }
}

struct Printer<'a, W> {
    out: &'a mut W,
    /// How many elements of `splat` constants are left.
    splats: usize,
}

impl<W: Write> Printer<'_, W> {
    fn body(&mut self, graph: &Graph, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let numbers = Numbers::new(graph);
        for state in &graph.state {
            writeln!(self.out, "{indent}state {:?} : {}", state.name, state.ty)?;
        }
        for node in &graph.nodes {
            self.out.write_str(&indent)?;
            self.node(graph, &numbers, node, depth)?;
            self.out.write_str("\n")?;
        }
        for write in &graph.writes {
            let (name, value) = (name_of(graph, write.state), numbers.of(&[write.value]));
            writeln!(self.out, "{indent}write {name:?} <- {value}")?;
        }
        for (name, value) in &graph.results {
            let value = numbers.of(&[*value]);
            writeln!(self.out, "{indent}return {name:?} = {value}")?;
        }
        Ok(())
    }

    fn node(&mut self, graph: &Graph, numbers: &Numbers, node: &Node, depth: usize) -> fmt::Result {
        if !node.results.is_empty() {
            write!(self.out, "{} = ", numbers.of(&node.results))?;
        }
        match &node.kind {
            NodeKind::Input(name) => write!(self.out, "input {name:?}")?,
            NodeKind::Const(tensor) => {
                self.out.write_str("const ")?;
                self.constant(tensor)?;
            }
            NodeKind::Read(state) => write!(self.out, "read {:?}", name_of(graph, *state))?,
            NodeKind::Prim(prim, attrs) => {
                write!(self.out, "{}({}", prim.name, numbers.of(&node.operands))?;
                let mut separator = if node.operands.is_empty() { "" } else { "; " };
                for ((name, _), attr) in prim.attrs.iter().zip(attrs.iter()) {
                    if *attr == Attr::Flag(false) {
                        continue;
                    }
                    write!(self.out, "{separator}{name}: ")?;
                    self.attribute(attr)?;
                    separator = ", ";
                }
                self.out.write_str(")")?;
            }
            NodeKind::Scan(scan) => {
                let up_to = |n: usize, all: &[ValueId]| n.min(all.len());
                let (captures, rest) =
                    (node.operands).split_at(up_to(scan.captures, &node.operands));
                let (starts, over) = rest.split_at(up_to(scan.carries, rest));
                let reverse = if scan.reverse { " reverse" } else { "" };
                write!(self.out, "scan {}{reverse}", scan.length)?;
                for (word, values) in [("captures", captures), ("carries", starts), ("over", over)]
                {
                    write!(self.out, " {word} [{}]", numbers.of(values))?;
                }
                self.out.write_str(" {\n")?;
                self.body(&scan.body, depth + 1)?;
                write!(self.out, "{}}}", "  ".repeat(depth))?;
            }
        }
        for (i, value) in node.results.iter().enumerate() {
            let separator = if i > 0 { ", " } else { " : " };
            match graph.types.get(value.index()) {
                Some(ty) => write!(self.out, "{separator}{ty}")?,
                None => write!(self.out, "{separator}?")?,
            }
        }
        Ok(())
    }

    fn constant(&mut self, tensor: &Tensor) -> fmt::Result {
        let (data, n) = (tensor.data(), tensor.data().len());
        if tensor.shape().is_empty() {
            return element(self.out, data, 0);
        }
        let text = |i: usize| {
            let mut text = String::new();
            element(&mut text, data, i).map(|()| text)
        };
        if n > 1 && n <= self.splats {
            let first = text(0)?;
            if (1..n).all(|i| text(i).as_ref() == Ok(&first)) {
                self.splats -= n;
                return write!(self.out, "splat {first}");
            }
        }
        self.out.write_str("[")?;
        for i in 0..n {
            self.out.write_str(if i > 0 { ", " } else { "" })?;
            element(self.out, data, i)?;
        }
        self.out.write_str("]")
    }

    fn attribute(&mut self, attr: &Attr) -> fmt::Result {
        match attr {
            Attr::Int(n) => write!(self.out, "{n}"),
            Attr::Size(n) => write!(self.out, "{n}"),
            Attr::Sizes(n) => write!(self.out, "{n:?}"),
            Attr::Pairs(pairs) => write!(self.out, "{pairs:?}"),
            Attr::Flag(b) => write!(self.out, "{b}"),
            Attr::DType(d) => write!(self.out, "{d}"),
            Attr::String(t) => write!(self.out, "{t:?}"),
        }
    }
}

/// One element, with the shortest digits that round-trip.
fn element(out: &mut impl Write, data: &Data, i: usize) -> fmt::Result {
    match data {
        Data::F16(v) => float(out, v[i].is_nan(), v[i].to_f64()),
        Data::Bf16(v) => float(out, v[i].is_nan(), v[i].to_f64()),
        Data::F32(v) => float(out, v[i].is_nan(), v[i]),
        Data::F64(v) => float(out, v[i].is_nan(), v[i]),
        Data::I8(v) => write!(out, "{}", v[i]),
        Data::I16(v) => write!(out, "{}", v[i]),
        Data::I32(v) => write!(out, "{}", v[i]),
        Data::I64(v) => write!(out, "{}", v[i]),
        Data::U8(v) => write!(out, "{}", v[i]),
        Data::Bool(v) => write!(out, "{}", v[i]),
        Data::String(v) => write!(out, "{:?}", String::from_utf8_lossy(&v[i])),
    }
}

fn float(out: &mut impl Write, is_nan: bool, x: impl fmt::Debug) -> fmt::Result {
    match is_nan {
        true => out.write_str("nan"),
        false => write!(out, "{x:?}"),
    }
}

fn name_of(graph: &Graph, state: StateId) -> &str {
    let state = graph.state.get(state.index());
    state.map_or("", |state| &state.name)
}

/// Values numbered in the order of their definition.
struct Numbers(Vec<Option<usize>>);

impl Numbers {
    fn new(graph: &Graph) -> Numbers {
        let mut numbers = vec![None; graph.types.len()];
        let defined = graph.nodes.iter().flat_map(|n| &n.results);
        for (i, value) in defined.enumerate() {
            if let Some(number) = numbers.get_mut(value.index()) {
                *number = Some(i);
            }
        }
        Numbers(numbers)
    }

    /// `%0, %1`. A value that is never defined, which only an invalid graph has, is `%?` and its number in the graph.
    fn of(&self, values: &[ValueId]) -> String {
        let one = |v: &ValueId| match self.0.get(v.index()).copied().flatten() {
            Some(n) => format!("%{n}"),
            None => format!("%?{}", v.0),
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
