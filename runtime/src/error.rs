//! Errors of a run: a code as TensorFlow has them (`tf.errors`), the step, and the location in the spec or in the data.

mod origin;

pub use origin::Origin;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::diag::{self, DataLocation, Diagnostic};
use trainspec_compiler::ir::Span;
use trainspec_compiler::ir::interp::RunError;
use trainspec_compiler::readable_bytes;
use trainspec_formats::FormatError;

use crate::CheckError;

pub use trainspec_formats::Code;

/// A failed run, or something that could not be done.
///
/// ```
/// use trainspec::{Code, Error};
///
/// let error = Error::new(Code::Aborted, "the worker was preempted").in_step(7);
/// assert_eq!(error.code(), Code::Aborted);
/// assert_eq!(error.to_string(), "the worker was preempted (in step 7)");
/// // A hook may fail with an error of its own, which is kept as the source.
/// let own = Error::other(std::io::Error::other("the sensor is unplugged"));
/// assert_eq!(own.code(), Code::Unknown);
/// assert!(std::error::Error::source(&own).is_some());
/// ```
#[derive(Debug, Clone)]
pub struct Error {
    /// The step in which it failed, counted from 1; `None` where it failed before the first.
    pub step: Option<u64>,
    /// The cause.
    pub cause: Cause,
}

/// The cause of a failed run.
///
/// ```
/// use trainspec::{Cause, Code, Error};
///
/// let error = Error::new(Code::NotFound, "there is no such sensor").help("plug it in");
/// let Cause::Message { message, help, .. } = error.cause else { panic!("a message") };
/// assert_eq!((&*message, help.as_deref()), ("there is no such sensor", Some("plug it in")));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// Something was asked for that cannot be done, or a hook ended the run.
    Message {
        /// The class of the failure.
        code: Code,
        /// The fact.
        message: String,
        /// What to do.
        help: Option<String>,
    },
    /// A file could not be read or written.
    File(Arc<FormatError>),
    /// An error of a program's own hook, source or closure.
    Other {
        /// The class of the failure; [`Code::Unknown`] unless the program says more.
        code: Code,
        /// The error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A loop ends without a failure (Python's `StopIteration`).
    StopIteration,
    /// The spec has errors.
    Check(Arc<CheckError>),
    /// The spec cannot be run as it is.
    Spec(Box<Diagnostic>),
    /// The data cannot be read, or is not what the spec says.
    Data(Box<DataError>),
    /// An operation has no value.
    Run {
        /// The error of the operation, with its span.
        error: RunError,
        /// The record that was processed.
        record: Option<SourceLocation>,
    },
    /// Gradients overflowed: too many updates in a row were skipped, at any loss scale.
    Overflow {
        /// The number of skipped updates.
        times: u64,
        /// The optimizer.
        span: Span,
    },
    /// The stop token was set within an update of several micro-batches; their gradients are discarded.
    Stopped {
        /// The micro-batches that had been computed.
        micro_batches: usize,
    },
    /// The run needs more memory than there is.
    OutOfMemory {
        /// What needs it: the state, or a program.
        what: String,
        /// The bytes it needs.
        needed: u64,
        /// The bytes there are.
        available: u64,
        /// What bounds them.
        limit: &'static str,
        /// The largest buffers: what they are, and their bytes.
        largest: Vec<(String, u64)>,
        /// What to do.
        help: &'static str,
    },
    /// A checked value is NaN or infinite.
    NotFinite {
        /// The name of the value.
        name: String,
        /// The element that is not finite.
        value: f64,
        /// The expression it comes from.
        span: Span,
        /// The first value that is not finite on the way to it; `None` where that is not known.
        origin: Option<Box<Origin>>,
    },
}

/// The location of a record: its data file and its position there.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use trainspec::SourceLocation;
///
/// let path: Arc<Path> = Arc::from(Path::new("iris.csv"));
/// assert_eq!(SourceLocation::line(&path, 5).to_string(), "iris.csv:5");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file.
    pub path: Arc<Path>,
    /// The position in the file.
    pub position: Position,
}

/// A position in a data file.
///
/// ```
/// use trainspec::{Position, SourceLocation};
///
/// let location = SourceLocation { path: std::path::Path::new("a.tfrecord").into(), position: Position::Record(3) };
/// assert_eq!(location.to_string(), "a.tfrecord, record 3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// A line, counted from 1.
    Line(u64),
    /// A record of a record file, counted from 1.
    Record(u64),
    /// The whole file, which is one record.
    File,
}

impl SourceLocation {
    /// A line of a file.
    pub fn line(path: &Arc<Path>, line: u64) -> SourceLocation {
        SourceLocation {
            path: path.clone(),
            position: Position::Line(line),
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.position {
            Position::Line(line) => write!(f, "{path}:{line}"),
            Position::Record(number) => write!(f, "{path}, record {number}"),
            Position::File => write!(f, "{path}"),
        }
    }
}

/// An error in data: what is wrong, and where.
///
/// ```
/// use trainspec::DataError;
///
/// let error = DataError::new("`red` is no number").in_file(&std::path::Path::new("iris.csv").into()).in_line(5).in_column("width");
/// assert_eq!(error.to_string(), "iris.csv:5: column `width`: `red` is no number");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataError {
    /// The fact.
    pub message: String,
    /// The file.
    pub path: Option<Arc<Path>>,
    /// The position in the file.
    pub position: Option<Position>,
    /// The name of the column.
    pub column: Option<Box<str>>,
    /// The setting or feature of the spec that it concerns.
    pub span: Option<Span>,
    /// What to do.
    pub help: Option<Box<str>>,
}

impl DataError {
    /// An error without a location.
    pub fn new(message: impl Into<String>) -> DataError {
        DataError {
            message: message.into(),
            ..DataError::default()
        }
    }

    /// Adds the file.
    pub fn in_file(mut self, path: &Arc<Path>) -> DataError {
        self.path = Some(path.clone());
        self
    }

    /// Adds the line of a file.
    pub fn in_line(mut self, line: u64) -> DataError {
        self.position = Some(Position::Line(line));
        self
    }

    /// Adds the record of a record file.
    pub fn in_record(mut self, number: u64) -> DataError {
        self.position = Some(Position::Record(number));
        self
    }

    /// Adds the column of a line.
    pub fn in_column(mut self, column: &str) -> DataError {
        self.column = Some(column.into());
        self
    }

    /// Adds the span in the spec.
    pub fn at(mut self, span: Span) -> DataError {
        self.span = Some(span);
        self
    }

    /// Adds what to do.
    pub fn help(mut self, help: impl Into<Box<str>>) -> DataError {
        self.help = Some(help.into());
        self
    }

    /// The file, the record in it and the column, as diagnostics have them.
    fn location(&self) -> Option<DataLocation> {
        let place = data_location(self.path.as_ref()?, self.position);
        Some(DataLocation {
            field: self.column.as_deref().map(str::to_owned),
            ..place
        })
    }

    /// Adds what to do, where nothing is said yet.
    pub(crate) fn or_help(mut self, help: impl Into<Box<str>>) -> DataError {
        self.help.get_or_insert_with(|| help.into());
        self
    }
}

/// A position in a file, as diagnostics have it.
fn data_location(path: &Path, position: Option<Position>) -> DataLocation {
    let mut place = DataLocation {
        file: path.display().to_string(),
        ..DataLocation::default()
    };
    match position {
        Some(Position::Line(line)) => place.line = Some(line),
        Some(Position::Record(record)) => place.record = Some(record),
        Some(Position::File) | None => {}
    }
    place
}

impl fmt::Display for DataError {
    /// `data/iris.csv:5: column "x": ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            match self.position {
                Some(position) => write!(
                    f,
                    "{}: ",
                    SourceLocation {
                        path: path.clone(),
                        position
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

impl Error {
    /// An error of a class, with the fact.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Cause::Message {
            code,
            message: message.into(),
            help: None,
        }
        .into()
    }

    /// An error of a program's own, with itself as the source.
    pub fn other(source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Cause::Other {
            code: Code::Unknown,
            source: Arc::new(source),
        }
        .into()
    }

    /// The end of a loop that is no failure: the session ends as it does at the end of the input.
    pub fn stop_iteration() -> Error {
        Cause::StopIteration.into()
    }

    /// Another class for an error of a program's own: one that is [`Code::Aborted`] or [`Code::Unavailable`] is recovered from.
    pub fn with_code(mut self, class: Code) -> Error {
        if let Cause::Message { code, .. } | Cause::Other { code, .. } = &mut self.cause {
            *code = class;
        }
        self
    }

    /// Adds what to do, where the cause is a message without one.
    pub fn help(mut self, advice: impl Into<String>) -> Error {
        if let Cause::Message { help, .. } = &mut self.cause {
            help.get_or_insert(advice.into());
        }
        self
    }

    /// The class of the failure, as `tf.errors` has them.
    pub fn code(&self) -> Code {
        match &self.cause {
            Cause::Message { code, .. } | Cause::Other { code, .. } => *code,
            Cause::File(error) => error.code,
            Cause::StopIteration => Code::OutOfRange,
            Cause::Check(_) | Cause::Spec(_) | Cause::Data(_) | Cause::Run { .. } => {
                Code::InvalidArgument
            }
            Cause::Overflow { .. } | Cause::NotFinite { .. } => Code::FailedPrecondition,
            Cause::OutOfMemory { .. } => Code::ResourceExhausted,
            Cause::Stopped { .. } => Code::Cancelled,
        }
    }

    /// Whether a loop ends here without a failure: the input is exhausted, or a hook ended it ([`Error::stop_iteration`]).
    pub fn is_end_of_input(&self) -> bool {
        self.code() == Code::OutOfRange
    }

    /// Adds the step, unless the error already has one.
    pub fn in_step(mut self, step: u64) -> Error {
        self.step.get_or_insert(step);
        self
    }

    /// Whether the spec or the data are to blame, and not the computation.
    pub fn is_bad_input(&self) -> bool {
        match self.cause {
            Cause::Check(_) | Cause::Spec(_) | Cause::Data(_) | Cause::OutOfMemory { .. } => true,
            Cause::Message { code, .. } => is_of_input(code),
            Cause::File(ref error) => is_of_input(error.code),
            Cause::Run { .. }
            | Cause::NotFinite { .. }
            | Cause::Overflow { .. }
            | Cause::Other { .. }
            | Cause::Stopped { .. }
            | Cause::StopIteration => false,
        }
    }

    /// The error as a diagnostic, with its span in the spec where it has one.
    pub fn diagnostic(&self) -> Diagnostic {
        let at_span = |span: Option<Span>, message: String| match span {
            // Synthetic nodes, which stand for no source text, have an empty span.
            Some(span) if span != Span::default() => {
                Diagnostic::new(diag::Code::BadValue, span, message)
            }
            _ => Diagnostic::without_span(diag::Code::BadValue, message),
        };
        let diagnostic = match &self.cause {
            Cause::Message { message, help, .. } => {
                at_span(None, message.clone()).maybe_help(help.clone())
            }
            Cause::File(error) => at_span(None, error.to_string()),
            Cause::Other { source, .. } => at_span(None, source.to_string()),
            Cause::StopIteration => at_span(None, "the loop was ended".to_owned()),
            Cause::Check(error) => match error.diagnostics() {
                [one] => one.clone(),
                _ => at_span(None, error.to_string()),
            },
            Cause::Spec(diagnostic) => (**diagnostic).clone(),
            Cause::Data(error) => Diagnostic {
                data: error.location().map(Box::new),
                ..at_span(error.span, error.to_string())
                    .maybe_help(error.help.as_deref().map(str::to_owned))
            },
            Cause::Run { error, record } => {
                let diagnostic = at_span(Some(error.span), error.message.clone());
                match record {
                    Some(record) => Diagnostic {
                        data: Some(Box::new(data_location(&record.path, Some(record.position)))),
                        ..diagnostic.note(format!("in the record at {record}"))
                    },
                    None => diagnostic,
                }
            }
            Cause::Overflow { times, span } => {
                let message = format!(
                    "the gradients were not finite {times} times in a row, whatever the loss was scaled by"
                );
                at_span(Some(*span), message)
                    .help("look for what overflows in the model or in its data")
            }
            Cause::Stopped { micro_batches } => {
                let message = format!(
                    "stopped within an update: {micro_batches} of its micro-batches were computed, and change nothing"
                );
                at_span(None, message)
            }
            Cause::OutOfMemory {
                what,
                needed,
                available,
                limit,
                largest,
                help,
            } => {
                let message = format!(
                    "{what} needs {} of memory, and there are {}: {limit}",
                    readable_bytes(*needed),
                    readable_bytes(*available)
                );
                let notes = largest.iter();
                let notes =
                    notes.map(|(name, bytes)| format!("{name}: {}", readable_bytes(*bytes)));
                let diagnostic =
                    Diagnostic::without_span(diag::Code::SizeOverflow, message).help(*help);
                notes.fold(diagnostic, Diagnostic::note)
            }
            Cause::NotFinite {
                name,
                value,
                span,
                origin,
            } => {
                let step = self.step.unwrap_or_default();
                let what = match value.is_nan() {
                    true => "not a number",
                    false => "infinite",
                };
                let message = format!("`{name}` is {what} in step {step}");
                let diagnostic = match origin {
                    Some(origin) => {
                        origin.describe(at_span(Some(origin.span(*span)), message), step)
                    }
                    None => at_span(Some(*span), message).note(
                        "the step was not repeated, so that the first value that is not finite is not known",
                    ),
                };
                let intact = "the state is that of before the step";
                return diagnostic.note(format!(
                    "{intact}; `nan ({name}, fail: false);` in `hooks` ends the run here without an error"
                ));
            }
        };
        match self.step {
            Some(step) => diagnostic.note(format!("in step {step}")),
            None => diagnostic,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Check(error) => write!(f, "{error}")?,
            _ => f.write_str(&self.diagnostic().message)?,
        }
        match (&self.cause, self.step) {
            // It names the step itself.
            (Cause::NotFinite { .. }, _) | (_, None) => Ok(()),
            (_, Some(step)) => write!(f, " (in step {step})"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Other { source, .. } => Some(source.as_ref()),
            Cause::File(error) => Some(error.as_ref()),
            Cause::Data(error) => Some(error.as_ref()),
            Cause::Check(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

/// Whether a class of failures is one of what was given, and not of the computation or the machine.
fn is_of_input(code: Code) -> bool {
    matches!(
        code,
        Code::NotFound
            | Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unimplemented
            | Code::DataLoss
    )
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Error {
        Cause::File(Arc::new(error)).into()
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Error {
        Error { step: None, cause }
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Error {
        Cause::Spec(Box::new(diagnostic)).into()
    }
}

impl From<DataError> for Error {
    fn from(error: DataError) -> Error {
        Cause::Data(Box::new(error)).into()
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        match error.not_finite {
            Some(found) => Cause::NotFinite {
                name: found.name,
                value: if found.is_nan {
                    f64::NAN
                } else {
                    f64::INFINITY
                },
                span: error.span,
                origin: None,
            },
            None => Cause::Run {
                error,
                record: None,
            },
        }
        .into()
    }
}
