//! Diagnostics: errors and warnings, their codes, and their rendering.

mod code;
mod explain;
pub(crate) mod foreign;
mod json;
mod nearest;
mod render;

pub use code::{Code, Severity};
pub use explain::explain;
pub use json::to_json;
pub use nearest::nearest;
pub(crate) use nearest::one_of;
pub use render::{Style, render};

use trainspec_ir::Span;

/// One error or warning.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
    /// The fact, in lower case.
    pub message: String,
    /// The primary span. `None` for an error outside of any source text, such as a wrong `--set`.
    pub span: Option<Span>,
    /// The label at the caret.
    pub label: Box<str>,
    /// Notes on other spans involved.
    pub notes: Vec<Note>,
    /// The suggested fix.
    pub help: Vec<String>,
    /// Where in the data it is, for an error of a record.
    pub data: Option<Box<DataLocation>>,
}

/// A place in the data of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataLocation {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// The record, counted from 1.
    pub record: Option<u64>,
    /// The column or feature.
    pub field: Option<String>,
}

/// A note of a diagnostic, with or without a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The message.
    pub message: String,
    /// Its span.
    pub span: Option<Span>,
}

impl Diagnostic {
    /// A diagnostic with the code's own severity.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: code.severity(),
            message: message.into(),
            span: Some(span),
            label: Box::default(),
            notes: Vec::new(),
            help: Vec::new(),
            data: None,
        }
    }

    /// A diagnostic without a span.
    pub fn without_span(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            span: None,
            ..Diagnostic::new(code, Span::default(), message)
        }
    }

    /// Sets the label at the caret.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into().into_boxed_str();
        self
    }

    /// Adds a note with a span.
    pub fn note_at(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note {
            message: message.into(),
            span: Some(span),
        });
        self
    }

    /// Adds a note without a span.
    pub fn note(mut self, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note {
            message: message.into(),
            span: None,
        });
        self
    }

    /// Sets the suggested fix.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    /// Sets the suggested fix, where there is one.
    pub fn maybe_help(self, help: Option<String>) -> Diagnostic {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// A warning, whatever the severity of its code is.
    pub fn as_warning(mut self) -> Diagnostic {
        self.severity = Severity::Warning;
        self
    }

    /// Whether it stops a spec from being used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
