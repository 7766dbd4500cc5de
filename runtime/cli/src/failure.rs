//! Failures of commands on files: message, help and exit code.

use trainspec_compiler::diag::{Code, Diagnostic, to_json};
use trainspec_compiler::source::Sources;
use trainspec_formats::FormatError;

use crate::output::{note, plain, print};
use crate::{BAD_INPUT, FAILED, Format};

/// A command that ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    help: Option<String>,
}

impl Failure {
    /// The input cannot be used.
    pub(crate) fn input(message: impl ToString) -> Failure {
        Failure {
            code: BAD_INPUT,
            message: message.to_string(),
            help: None,
        }
    }

    /// The output cannot be written.
    pub(crate) fn output(message: impl ToString) -> Failure {
        Failure {
            code: FAILED,
            ..Failure::input(message)
        }
    }

    /// Adds what to type instead.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(help.into());
        self
    }

    /// Reports it, as text on standard error or as the JSON of a diagnostic; gives the exit code.
    pub(crate) fn report(&self, format: Format) -> u8 {
        match (format, &self.help) {
            (Format::Json, help) => {
                let error = Diagnostic::without_span(Code::BadValue, &self.message);
                let error = error.maybe_help(help.clone());
                print(to_json(&Sources::default(), &error));
            }
            (Format::Text, Some(help)) => {
                note(format_args!(
                    "error: {}\n  help: {}",
                    plain(&self.message),
                    plain(help)
                ));
            }
            (Format::Text, None) => note(format_args!("error: {}", plain(&self.message))),
        }
        self.code
    }
}

/// A format error is bad input by default.
impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Failure {
        Failure::input(error)
    }
}
