//! Error reporting of the checker: deduplicated, and moved to the user's call.

use trainspec_ir::Span;
use trainspec_ir::ops::{RuleError, RuleErrorKind};

use crate::check::value::{Value, same};
use crate::check::{Checker, MAX_REPORTED};
use crate::diag::{Code, Diagnostic, Note};

impl Checker<'_> {
    /// Reports a diagnostic, moved to where its reader can do something about it.
    ///
    /// An error inside the standard library is reported at the user's call, with a note that points inside; an error
    /// inside a definition of the user's is reported there, with a note that points at the call.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.generic && depends_on_sizes(diagnostic.code) {
            return;
        }
        self.names_hidden |= hides_names(diagnostic.code);
        if diagnostic.code == Code::UnknownName && self.names_hidden {
            return;
        }
        let diagnostic = self.with_call_site(diagnostic);
        let key = (diagnostic.code, diagnostic.span, diagnostic.message.clone());
        let reported = self
            .errors
            .iter()
            .filter(|e| e.severity == diagnostic.severity)
            .count();
        if reported == MAX_REPORTED || !self.seen.insert(key) {
            return;
        }
        if diagnostic.is_error() && reported + 1 == MAX_REPORTED {
            // Nothing more will be reported, so nothing more is checked.
            self.exhausted = true;
        }
        self.errors.push(diagnostic);
    }

    /// The expression of the user's that something inside the library comes from.
    pub(crate) fn user_span(&self, span: Span) -> Span {
        if !self.is_library(span) {
            return span;
        }
        let calls = self.calls.iter().rev().map(|c| c.span);
        let own = calls
            .filter(|s| s.file.0 != u32::MAX)
            .find(|s| !self.is_library(*s));
        own.unwrap_or(span)
    }

    pub(crate) fn is_library(&self, span: Span) -> bool {
        self.sources.get(span.file).library
    }

    /// Adds the call that a diagnostic is inside of: as a note to one in the user's definition; one in the library moves to the user's
    /// call.
    fn with_call_site(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let Some(span) = diagnostic.span else {
            return diagnostic;
        };
        if !self.is_library(span) {
            if let Some(call) = self.calls.last()
                && call.span.file.0 != u32::MAX
                && call.def.file == span.file
                && call.def.ast.name.span != span
                && !call.def.library
                && !self.is_library(call.span)
                && !(call.span.file == span.file
                    && call.span.start <= span.start
                    && span.end <= call.span.end)
            {
                let message = format!("in this call of `{}`", call.def.name());
                diagnostic.notes.push(Note {
                    message,
                    span: Some(call.span),
                });
            }
            return diagnostic;
        }
        let outside = self.calls.iter().rev().find(|c| !self.is_library(c.span));
        if let Some(call) = outside {
            let inner = Note {
                message: format!("inside `{}` of the standard library", call.def.name()),
                span: Some(span),
            };
            diagnostic.notes.insert(0, inner);
            let argument = self.argument_at(span, &diagnostic);
            diagnostic.span = Some(argument.unwrap_or(call.span));
        }
        diagnostic
    }

    /// The user's argument that an error inside the library is about: what stands at `span` is the name of a parameter, or the message
    /// of a `fail` begins with one.
    fn argument_at(&self, span: Span, diagnostic: &Diagnostic) -> Option<Span> {
        let mut calls = self.calls.iter().rev();
        let call = calls.next()?;
        let mut argument = call.argument(self.sources.slice(span)).or_else(|| {
            let (name, _) = diagnostic.message.strip_prefix('`')?.split_once('`')?;
            let failed = diagnostic.code == Code::BadValue;
            call.argument(name).filter(|_| failed)
        })?;
        // The library may have handed on a parameter of its own.
        while self.is_library(argument) {
            argument = calls.next()?.argument(self.sources.slice(argument))?;
        }
        Some(argument)
    }

    /// Reports an error, and gives [`Value::Poison`].
    pub(crate) fn fail(&mut self, diagnostic: Diagnostic) -> Value {
        self.report(diagnostic);
        Value::Poison
    }

    /// Reports a value of another type than expected.
    pub(crate) fn wrong_kind(&mut self, span: Span, expected: &str, found: &Value) -> Value {
        if found.is_poison() {
            return Value::Poison;
        }
        let diagnostic = match found {
            Value::Tensor(_) => Diagnostic::new(
                Code::NotConstant,
                span,
                format!("{expected} must be known when the spec is checked"),
            )
            .label(format!(
                "this is {}, known at run time only",
                found.describe()
            )),
            _ => Diagnostic::new(Code::TypeMismatch, span, format!("expected {expected}"))
                .label(format!("this is {}", found.describe())),
        };
        let number = ["an integer", "a number"]
            .iter()
            .any(|n| expected.starts_with(n));
        let help = match found {
            Value::Str(text) if number && text.trim().parse::<f64>().is_ok() => {
                Some(format!("write it without quotes: `{text}`"))
            }
            Value::List(list) | Value::Tuple(list) if number => match &list[..] {
                [first @ Value::Int(n), rest @ ..]
                    if rest.iter().all(|v| same(v, first) == Some(true)) =>
                {
                    Some(format!("one number stands for all: `{n}`"))
                }
                _ => None,
            },
            Value::Tensor(_) if expected.starts_with("a list") => {
                Some("write a list: `[a, b]`".to_owned())
            }
            _ => None,
        };
        self.fail(diagnostic.maybe_help(help))
    }

    pub(crate) fn size_overflow(&mut self, span: Span) -> Value {
        self.fail(
            Diagnostic::new(
                Code::SizeOverflow,
                span,
                "this number is too large for a size",
            )
            .help("sizes are integers below 2^63, and a tensor has at most 2^40 elements"),
        )
    }
}

/// Whether a file that could not be read may declare the names that other errors miss.
fn hides_names(code: Code) -> bool {
    matches!(
        code,
        Code::UseFailed
            | Code::UseCycle
            | Code::UnclosedString
            | Code::UnbalancedBracket
            | Code::TooDeep
            | Code::StringTooLong
    )
}

/// Whether only the callers of a definition can decide if this is an error: on its own its sizes are symbolic.
fn depends_on_sizes(code: Code) -> bool {
    matches!(
        code,
        Code::AxisOutOfRange
            | Code::BadValue
            | Code::BroadcastWidens
            | Code::CarryMismatch
            | Code::CountMismatch
            | Code::IndexOutOfRange
            | Code::NegativeSize
            | Code::NotConstant
            | Code::PatternMismatch
            | Code::RankMismatch
            | Code::ShapeMismatch
            | Code::SizeOverflow
            | Code::UnknownSize
    )
}

/// The code of a broken rule.
pub(crate) fn code_of(error: &RuleError) -> Code {
    match error.kind {
        RuleErrorKind::ShapeMismatch => Code::ShapeMismatch,
        RuleErrorKind::RankMismatch => Code::RankMismatch,
        RuleErrorKind::AxisOutOfRange => Code::AxisOutOfRange,
        RuleErrorKind::IndexOutOfRange => Code::IndexOutOfRange,
        RuleErrorKind::BadValue => Code::BadValue,
        RuleErrorKind::DtypeMismatch => Code::DtypeMismatch,
        RuleErrorKind::SizeOverflow => Code::SizeOverflow,
        RuleErrorKind::NegativeSize => Code::NegativeSize,
        RuleErrorKind::UnknownSize => Code::UnknownSize,
        RuleErrorKind::CountMismatch => Code::CountMismatch,
    }
}
