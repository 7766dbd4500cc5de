//! A graph as text.

use std::fmt::{self, Write};

use crate::graph::{Attr, Graph, Node, What};

impl fmt::Display for Graph {
    /// The text form, which [`parse`](super::parse()) reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {:?} {{", self.name)?;
        body(f, self, 1)?;
        f.write_str("}\n")
    }
}

fn body(f: &mut impl Write, graph: &Graph, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for state in &graph.state {
        writeln!(f, "{indent}state {:?} : {}", state.name, state.ty)?;
    }
    for node in &graph.nodes {
        f.write_str(&indent)?;
        line(f, graph, node, depth)?;
        f.write_str("\n")?;
    }
    for write in &graph.writes {
        let name = &graph.state[write.state.index()].name;
        writeln!(f, "{indent}write {name:?} <- %{}", write.value.0)?;
    }
    for (name, value) in &graph.results {
        writeln!(f, "{indent}return {name:?} = %{}", value.0)?;
    }
    Ok(())
}

fn line(f: &mut impl Write, graph: &Graph, node: &Node, depth: usize) -> fmt::Result {
    values(f, &node.results)?;
    f.write_str(" = ")?;
    match &node.what {
        What::Input(name) => write!(f, "input {name:?}")?,
        What::Const(tensor) => write!(f, "const {tensor}")?,
        What::Read(state) => write!(f, "read {:?}", graph.state[state.index()].name)?,
        What::Prim(prim, attrs) => {
            write!(f, "{}(", prim.name)?;
            values(f, &node.operands)?;
            let mut separator = if node.operands.is_empty() { "" } else { "; " };
            for ((name, _), attr) in prim.attrs.iter().zip(attrs.iter()) {
                if *attr == Attr::Flag(false) {
                    continue;
                }
                write!(f, "{separator}{name}: ")?;
                attribute(f, attr)?;
                separator = ", ";
            }
            f.write_str(")")?;
        }
        What::Scan(scan) => {
            let (captures, rest) = node.operands.split_at(scan.captures);
            let (starts, over) = rest.split_at(scan.carries);
            let reverse = if scan.reverse { " reverse" } else { "" };
            write!(f, "scan {}{reverse} captures [", scan.length)?;
            values(f, captures)?;
            f.write_str("] carries [")?;
            values(f, starts)?;
            f.write_str("] over [")?;
            values(f, over)?;
            f.write_str("] {\n")?;
            body(f, &scan.body, depth + 1)?;
            write!(f, "{}}}", "  ".repeat(depth))?;
        }
    }
    f.write_str(" : ")?;
    for (i, value) in node.results.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{}", graph.ty(*value))?;
    }
    Ok(())
}

fn values(f: &mut impl Write, ids: &[crate::graph::ValueId]) -> fmt::Result {
    for (i, id) in ids.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}%{}", id.0)?;
    }
    Ok(())
}

fn attribute(f: &mut impl Write, attr: &Attr) -> fmt::Result {
    match attr {
        Attr::Int(n) => write!(f, "{n}"),
        Attr::Size(n) => write!(f, "{n}"),
        Attr::Sizes(n) => write!(f, "{n:?}"),
        Attr::Pairs(pairs) => write!(f, "{pairs:?}"),
        Attr::Flag(b) => write!(f, "{b}"),
        Attr::DType(d) => write!(f, "{d}"),
        Attr::Text(t) => write!(f, "{t:?}"),
    }
}
