//! What kept a command on files from its work, and how that is told.

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

    /// The input was fine and the rest went wrong.
    pub(crate) fn output(message: impl ToString) -> Failure {
        Failure {
            code: FAILED,
            ..Failure::input(message)
        }
    }

    /// The same, with what to type instead.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(help.into());
        self
    }

    /// Tells it, for people on standard error, for programs as an object with `error` and `help`; the exit code.
    pub(crate) fn tell(&self, format: Format) -> u8 {
        match (format, &self.help) {
            (Format::Json, help) => {
                print(serde_json::json!({ "error": self.message, "help": help }));
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

/// What was read is at fault unless somebody says otherwise.
impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Failure {
        Failure::input(error)
    }
}
