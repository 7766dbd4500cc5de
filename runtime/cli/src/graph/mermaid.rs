//! A diagram in Mermaid's language.

use std::collections::BTreeMap;
use std::fmt::Write;

use trainspec_compiler::{Diagram, DiagramNodeKind, GroupMembers};

use super::{kind_name, label};

/// The text of a diagram.
pub(super) fn text(diagram: &Diagram) -> String {
    let mut out = String::from("flowchart TD\n");
    write_group(&mut out, diagram, &diagram.members(), None, 1);
    for edge in &diagram.edges {
        let ty = quoted(&edge.ty.to_string());
        let _ = writeln!(out, "  n{} -->|{ty}| n{}", edge.from, edge.to);
    }
    for (kind, fill) in [
        (DiagramNodeKind::Input, "#eef2ff"),
        (DiagramNodeKind::Variable, "#fff4e6"),
        (DiagramNodeKind::Block, "#e7f5ff"),
        (DiagramNodeKind::Loss, "#ffe3e3"),
        (DiagramNodeKind::Metric, "#e6fcf5"),
        (DiagramNodeKind::Output, "#ebfbee"),
    ] {
        let of_kind = diagram.nodes.iter().enumerate();
        let of_kind = of_kind.filter(|(_, node)| node.kind == kind);
        let ids: Vec<String> = of_kind.map(|(i, _)| format!("n{i}")).collect();
        if !ids.is_empty() {
            let name = kind_name(kind);
            let _ = writeln!(
                out,
                "  classDef {name} fill:{fill},stroke:#9aa1ab,color:#1f2937\n  class {} {name}",
                ids.join(",")
            );
        }
    }
    out
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
        let text = quoted(&label(node).join("<br/>"));
        let (open, close) = match node.kind {
            DiagramNodeKind::Block | DiagramNodeKind::Operation => ("[", "]"),
            DiagramNodeKind::Function => ("(", ")"),
            DiagramNodeKind::Input
            | DiagramNodeKind::Variable
            | DiagramNodeKind::Loss
            | DiagramNodeKind::Metric
            | DiagramNodeKind::Output => ("([", "])"),
        };
        let _ = writeln!(out, "{indent}n{i}{open}{text}{close}");
    }
    for i in &own.groups {
        let inner = &diagram.groups[*i];
        let _ = writeln!(out, "{indent}subgraph g{i} [{}]", quoted(&inner.name));
        write_group(out, diagram, members, Some(*i), depth + 1);
        let _ = writeln!(out, "{indent}end");
    }
}

/// A string in quotes, with Mermaid's entity for quotes inside.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "#quot;"))
}
