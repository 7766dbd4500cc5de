//! `trainspec graph`: the model as a diagram for Graphviz or Mermaid.

mod dot;
mod mermaid;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};
use trainspec_compiler::{Diagram, DiagramNode, DiagramNodeKind};

use crate::output::{diagnostics, print, print_raw, say};
use crate::summary::thousands;
use crate::{BAD_INPUT, FINE, Format, files};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Blocks and functions are one node each; edges carry the types of tensors. \
                  `dot -Tsvg model.dot` draws a Graphviz file; GitHub draws Mermaid in a fenced block `mermaid`."
)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The levels of layers that are shown: 2 shows what blocks consist of
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Write into this file, which ends in .dot, .mmd or .json
    #[arg(short, long, value_name = "FILE", value_parser = output_file)]
    output: Option<PathBuf>,
    /// The notation of what is printed [default: by the end of the file, else dot]
    #[arg(long, value_enum)]
    format: Option<Notation>,
}

/// How a diagram is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// Graphviz.
    Dot,
    /// Mermaid.
    Mermaid,
    /// One JSON object.
    Json,
}

impl Notation {
    fn of(path: &Path) -> Option<Notation> {
        match path.extension()?.to_str()? {
            "dot" | "gv" => Some(Notation::Dot),
            "mmd" | "mermaid" => Some(Notation::Mermaid),
            "json" => Some(Notation::Json),
            _ => None,
        }
    }
}

fn output_file(text: &str) -> Result<PathBuf, String> {
    match Notation::of(Path::new(text)) {
        Some(_) => Ok(PathBuf::from(text)),
        None => Err(
            "the name ends in .dot, .mmd or .json; `dot -Tsvg` makes a picture of a .dot file"
                .to_owned(),
        ),
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let of_file = arguments.output.as_deref().and_then(Notation::of);
    let notation = arguments.format.or(of_file).unwrap_or(Notation::Dot);
    let format = match notation {
        Notation::Json => Format::Json,
        Notation::Dot | Notation::Mermaid => Format::Text,
    };
    let compilation = match files::checked(&arguments.file, &arguments.set, format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    let Some(diagram) = Diagram::of(spec, arguments.depth) else {
        diagnostics(&compilation.sources, &[files::no_model(spec)], format);
        return BAD_INPUT;
    };
    let text = match notation {
        Notation::Dot => dot::text(&spec.name, &diagram),
        Notation::Mermaid => mermaid::text(&diagram),
        Notation::Json => format!("{}\n", to_json(&spec.name, &diagram)),
    };
    let Some(path) = &arguments.output else {
        match notation {
            Notation::Json => print(text.trim_end()),
            Notation::Dot | Notation::Mermaid => print_raw(&text),
        }
        return FINE;
    };
    match files::write_output(path, &text) {
        Ok(()) => {
            say(format_args!("wrote {}", path.display()));
            FINE
        }
        Err(failure) => failure.report(format),
    }
}

/// The lines of a node's label: its name, its definition, its parameters.
fn label(node: &DiagramNode) -> Vec<String> {
    let word = match node.kind {
        DiagramNodeKind::Loss => "loss ",
        DiagramNodeKind::Metric => "metric ",
        DiagramNodeKind::Output => "output ",
        DiagramNodeKind::Input
        | DiagramNodeKind::Variable
        | DiagramNodeKind::Block
        | DiagramNodeKind::Function
        | DiagramNodeKind::Operation => "",
    };
    // `loss loss` says one word too many.
    let name = match node.name == word.trim() {
        true => node.name.clone(),
        false => format!("{word}{}", node.name),
    };
    let mut lines = vec![name];
    if !node.definition.is_empty() {
        lines.push(node.definition.clone());
    }
    match node.parameters {
        0 => {}
        1 => lines.push("1 parameter".to_owned()),
        n => lines.push(format!("{} parameters", thousands(n))),
    }
    lines
}

fn to_json(name: &str, diagram: &Diagram) -> Value {
    let nodes = diagram.nodes.iter().enumerate().map(|(i, node)| {
        json!({
            "id": i,
            "kind": kind_name(node.kind),
            "name": node.name,
            "definition": (!node.definition.is_empty()).then_some(&node.definition),
            "parameters": node.parameters,
            "group": node.group,
        })
    });
    let edges = diagram.edges.iter();
    let edges =
        edges.map(|edge| json!({ "from": edge.from, "to": edge.to, "type": edge.ty.to_string() }));
    let groups = diagram.groups.iter().enumerate();
    let groups =
        groups.map(|(i, group)| json!({ "id": i, "name": group.name, "group": group.group }));
    json!({
        "spec": name,
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
    })
}

fn kind_name(kind: DiagramNodeKind) -> &'static str {
    match kind {
        DiagramNodeKind::Input => "input",
        DiagramNodeKind::Variable => "variable",
        DiagramNodeKind::Block => "block",
        DiagramNodeKind::Function => "function",
        DiagramNodeKind::Operation => "operation",
        DiagramNodeKind::Loss => "loss",
        DiagramNodeKind::Metric => "metric",
        DiagramNodeKind::Output => "output",
    }
}
