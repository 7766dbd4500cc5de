//! A diagnostic as one line of JSON, for editors and other programs.

use serde_json::{Value, json};
use trainspec_ir::Span;

use crate::diag::Diagnostic;
use crate::source::Sources;

/// One line, without the line end.
///
/// Positions are given as byte offsets and as lines and columns counted from 1.
pub fn to_json(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let location = |span: Option<Span>| match span {
        None => Value::Null,
        Some(span) => {
            let (line, column) = sources.line_column(span.file, span.start as usize);
            let (end_line, end_column) = sources.line_column(span.file, span.end as usize);
            json!({
                "file": sources.get(span.file).name,
                "start": span.start,
                "end": span.end,
                "line": line,
                "column": column,
                "end_line": end_line,
                "end_column": end_column,
            })
        }
    };
    let notes: Vec<Value> = diagnostic
        .notes
        .iter()
        .map(|n| json!({ "message": n.message, "location": location(n.span) }))
        .collect();
    let mut object = json!({
        // What programs that read the lines of a run tell them apart by.
        "event": diagnostic.severity.name(),
        "severity": diagnostic.severity.name(),
        "code": diagnostic.code.name(),
        "message": diagnostic.message,
        "label": diagnostic.label,
        "location": location(diagnostic.span),
        "notes": notes,
        "help": diagnostic.help,
    });
    if let Some(data) = &diagnostic.data {
        object["data"] = json!({
            "file": data.file,
            "line": data.line,
            "record": data.record,
            "field": data.field,
        });
    }
    object.to_string()
}
