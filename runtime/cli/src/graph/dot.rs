//! A diagram in Graphviz's language.

use std::collections::BTreeMap;
use std::fmt::Write;

use trainspec_compiler::{Diagram, DiagramNodeKind, GroupMembers};

use super::label;

/// The text of a diagram.
pub(super) fn text(name: &str, diagram: &Diagram) -> String {
    let mut out = format!(
        "digraph {} {{\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=11, shape=box, style=\"rounded,filled\", color=\"#9aa1ab\", fillcolor=\"#ffffff\"];\n  edge [fontname=\"Helvetica\", fontsize=9, color=\"#6b7280\", fontcolor=\"#6b7280\"];\n",
        quoted(name)
    );
    write_group(&mut out, diagram, &diagram.members(), None, 1);
    for edge in &diagram.edges {
        let ty = quoted(&format!(" {}", edge.ty));
        let _ = writeln!(out, "  n{} -> n{} [label={ty}];", edge.from, edge.to);
    }
    out + "}\n"
}

/// The nodes of a group, and the groups in it.
fn write_group(
    out: &mut String,
    diagram: &Diagram,
    members: &BTreeMap<Option<usize>, GroupMembers>,
    group: Option<usize>,
    depth: usize,
) {
    let Some(own) = members.get(&group) else {
        return;
    };
    let indent = "  ".repeat(depth);
    for i in &own.nodes {
        let node = &diagram.nodes[*i];
        let text = quoted(&label(node).join("\n"));
        let _ = writeln!(out, "{indent}n{i} [label={text}{}];", style(node.kind));
    }
    for i in &own.groups {
        let inner = &diagram.groups[*i];
        let name = quoted(&inner.name);
        let _ = writeln!(
            out,
            "{indent}subgraph cluster_{i} {{\n{indent}  label={name}; fontname=\"Helvetica\"; fontsize=11; style=\"rounded\"; color=\"#c5cad1\";"
        );
        write_group(out, diagram, members, Some(*i), depth + 1);
        let _ = writeln!(out, "{indent}}}");
    }
}

fn style(kind: DiagramNodeKind) -> &'static str {
    match kind {
        DiagramNodeKind::Input => ", shape=ellipse, style=filled, fillcolor=\"#eef2ff\"",
        DiagramNodeKind::Variable => ", shape=ellipse, style=filled, fillcolor=\"#fff4e6\"",
        DiagramNodeKind::Block => ", fillcolor=\"#e7f5ff\"",
        DiagramNodeKind::Function => "",
        DiagramNodeKind::Operation => ", style=filled, fontcolor=\"#6b7280\"",
        DiagramNodeKind::Loss => ", shape=ellipse, style=filled, fillcolor=\"#ffe3e3\"",
        DiagramNodeKind::Metric => ", shape=ellipse, style=filled, fillcolor=\"#e6fcf5\"",
        DiagramNodeKind::Output => ", shape=ellipse, style=filled, fillcolor=\"#ebfbee\"",
    }
}

/// A string in quotes; lines are centred.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}
