//! What is told to the user: diagnostics, their codes, and how they are drawn.

mod code;
mod explain;
mod json;
mod nearest;
mod render;

pub use code::{Code, Severity};
pub use explain::explain;
pub use json::to_json;
pub(crate) use nearest::{nearest, one_of};
pub use render::{Style, render};

use trainspec_ir::Span;

/// One error or warning.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The fact, in lower case.
    pub message: String,
    /// Where it is, and what was found there. `None` for what has no place in a text, such as a wrong `--set`.
    pub span: Option<Span>,
    /// What stands at the caret.
    pub label: String,
    /// Other places involved.
    pub notes: Vec<Note>,
    /// What to do.
    pub help: Vec<String>,
}

/// Another place that has to do with an error, or a fact that has no place.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// What is to be said of it.
    pub message: String,
    /// Where it is.
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
            label: String::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A diagnostic that points nowhere.
    pub fn without_span(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            span: None,
            ..Diagnostic::new(code, Span::default(), message)
        }
    }

    /// Says what stands at the caret.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Points at another place.
    pub fn note_at(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note {
            message: message.into(),
            span: Some(span),
        });
        self
    }

    /// Adds a fact.
    pub fn note(mut self, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note {
            message: message.into(),
            span: None,
        });
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    /// Says what to do, where there is something to say.
    pub fn maybe_help(self, help: Option<String>) -> Diagnostic {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Whether it stops a spec from being used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
