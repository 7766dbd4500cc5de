//! Why a run failed: with the step, and the place in the spec or in the data.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::Span;
use trainspec_compiler::ir::interp::RunError;

/// A failed run.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionError {
    /// The step in which it failed, counted from 1; `None` where it failed before the first.
    pub step: Option<u64>,
    /// What failed.
    pub cause: Cause,
}

/// What failed.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The spec cannot be run as it is.
    Spec(Box<Diagnostic>),
    /// The data cannot be read, or is not what the spec says.
    Data(Box<DataError>),
    /// An operation has no value.
    Run {
        /// What is wrong, and where in the spec.
        error: RunError,
        /// The record it happened to.
        record: Option<Place>,
    },
    /// Gradients were not finite too often in a row, at any scale of the loss.
    Overflow {
        /// How often.
        times: u64,
        /// The optimizer.
        span: Span,
    },
    /// A value that must be a number is none.
    NotANumber {
        /// Its name.
        name: String,
        /// The expression it comes from.
        span: Span,
    },
}

/// Where a record stands in a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: Arc<Path>,
    /// Where in it.
    pub at: At,
}

/// A place in a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// A line, counted from 1.
    Line(u64),
    /// A record of a record file, counted from 1.
    Record(u64),
}

impl Place {
    /// In that line of a file.
    pub fn line(path: &Arc<Path>, line: u64) -> Place {
        Place {
            path: path.clone(),
            at: At::Line(line),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.at {
            At::Line(line) => write!(f, "{path}:{line}"),
            At::Record(number) => write!(f, "{path}, record {number}"),
        }
    }
}

/// What is wrong with data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataError {
    /// The fact.
    pub message: String,
    /// The file.
    pub path: Option<Arc<Path>>,
    /// Where in it.
    pub place: Option<At>,
    /// What a value there is called.
    pub column: Option<Box<str>>,
    /// The setting or feature of the spec that it has to do with.
    pub span: Option<Span>,
    /// What to do.
    pub help: Option<Box<str>>,
}

impl DataError {
    /// An error with no place yet.
    pub fn new(message: impl Into<String>) -> DataError {
        DataError {
            message: message.into(),
            ..DataError::default()
        }
    }

    /// In that file.
    pub fn in_file(mut self, path: &Arc<Path>) -> DataError {
        self.path = Some(path.clone());
        self
    }

    /// In that line of a file.
    pub fn in_line(mut self, line: u64) -> DataError {
        self.place = Some(At::Line(line));
        self
    }

    /// In that record of a record file.
    pub fn in_record(mut self, number: u64) -> DataError {
        self.place = Some(At::Record(number));
        self
    }

    /// In that column of a line.
    pub fn in_column(mut self, column: &str) -> DataError {
        self.column = Some(column.into());
        self
    }

    /// At that place of the spec.
    pub fn at(mut self, span: Span) -> DataError {
        self.span = Some(span);
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl Into<Box<str>>) -> DataError {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for DataError {
    /// `data/iris.csv:5: column "x": ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            match self.place {
                Some(at) => write!(
                    f,
                    "{}: ",
                    Place {
                        path: path.clone(),
                        at
                    }
                )?,
                None => write!(f, "{}: ", path.display())?,
            }
        }
        if let Some(column) = &self.column {
            write!(f, "column `{column}`: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DataError {}

impl SessionError {
    /// The same error, in a step, unless it already says which.
    pub fn in_step(mut self, step: u64) -> SessionError {
        self.step.get_or_insert(step);
        self
    }

    /// Whether the spec or the data are to blame, and not the computation.
    pub fn is_bad_input(&self) -> bool {
        match self.cause {
            Cause::Spec(_) | Cause::Data(_) => true,
            Cause::Run { .. } | Cause::NotANumber { .. } | Cause::Overflow { .. } => false,
        }
    }

    /// The error as it is drawn, with the place in the spec where it has one.
    pub fn diagnostic(&self) -> Diagnostic {
        let place = |span: Option<Span>, message: String| match span {
            // Nodes that stand for no text have an empty span.
            Some(span) if span != Span::default() => Diagnostic::new(Code::BadValue, span, message),
            _ => Diagnostic::without_span(Code::BadValue, message),
        };
        let diagnostic = match &self.cause {
            Cause::Spec(diagnostic) => (**diagnostic).clone(),
            Cause::Data(error) => place(error.span, error.to_string())
                .maybe_help(error.help.as_deref().map(str::to_owned)),
            Cause::Run { error, record } => {
                let diagnostic = place(Some(error.span), error.message.clone());
                match record {
                    Some(record) => diagnostic.note(format!("in the record at {record}")),
                    None => diagnostic,
                }
            }
            Cause::Overflow { times, span } => {
                let message = format!(
                    "the gradients were not finite {times} times in a row, whatever the loss was scaled by"
                );
                place(Some(*span), message)
                    .help("look for what overflows in the model or in its data")
            }
            Cause::NotANumber { name, span } => {
                let step = self.step.unwrap_or_default();
                let message = format!("`{name}` is not a number in step {step}");
                return place(Some(*span), message).help(format!(
                    "a smaller learning rate may help; `nan ({name}, fail: false);` in `hooks` ends the run here without an error"
                ));
            }
        };
        match self.step {
            Some(step) => diagnostic.note(format!("in step {step}")),
            None => diagnostic,
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let diagnostic = self.diagnostic();
        f.write_str(&diagnostic.message)?;
        match (&self.cause, self.step) {
            // It names the step itself.
            (Cause::NotANumber { .. }, _) | (_, None) => Ok(()),
            (_, Some(step)) => write!(f, " (in step {step})"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<Cause> for SessionError {
    fn from(cause: Cause) -> SessionError {
        SessionError { step: None, cause }
    }
}

impl From<Diagnostic> for SessionError {
    fn from(diagnostic: Diagnostic) -> SessionError {
        Cause::Spec(Box::new(diagnostic)).into()
    }
}

impl From<DataError> for SessionError {
    fn from(error: DataError) -> SessionError {
        Cause::Data(Box::new(error)).into()
    }
}

impl From<RunError> for SessionError {
    fn from(error: RunError) -> SessionError {
        Cause::Run {
            error,
            record: None,
        }
        .into()
    }
}
