//! Sources: the files and options of each kind, and what the Rust program registers under a name.

use trainspec_ir::Span;

use crate::ast::{self, ExprKind, PostfixKind, SettingValue};
use crate::builtins::OTHER_FILES;
use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic};
use crate::typed::{Compression, Constant, FilePattern, Registered, Source};

impl Checker<'_> {
    /// `source csv("x.csv")`, or a source that the Rust program registers.
    pub(super) fn source(&mut self, setting: &ast::Setting) -> Option<Source> {
        if let Some(registered) = self.registered(setting) {
            let registered = registered?;
            if let Some(reader) = reader_of(&registered.name) {
                let message = "a source needs to know how the file is read";
                let help = format!("write `source {reader}({:?});`", registered.name);
                let error = Diagnostic::new(Code::BadValue, setting.span, message);
                self.report(error.help(help));
                return None;
            }
            return Some(Source::Registered(registered));
        }
        let bound = self.call_setting(setting)?;
        let span = bound.span;
        match bound.signature.word {
            "tfrecord" => {
                let compressions = [
                    ("auto", Compression::Auto),
                    ("none", Compression::None),
                    ("gzip", Compression::Gzip),
                    ("zlib", Compression::Zlib),
                ];
                let compression = bound.keyword("compression", &compressions);
                Some(Source::TfRecord {
                    files: self.files(&bound)?,
                    compression: compression.unwrap_or(Compression::Auto),
                    span,
                })
            }
            "csv" => {
                let delimiter = self.delimiter(&bound);
                Some(Source::Csv {
                    files: self.files(&bound)?,
                    delimiter: delimiter?,
                    header: bound.get("header").unwrap_or(false),
                    span,
                })
            }
            other => unreachable!("the source `{other}` is refused, or read here"),
        }
    }

    /// A source that reads other files.
    pub(super) fn other_files(
        &mut self,
        source: Source,
        arguments: &[ast::Argument],
        at: Span,
    ) -> Option<Source> {
        if let Source::Registered(registered) = &source {
            let message = format!(
                "the source `{}` reads no files, so there are no others to read",
                registered.name
            );
            self.report(Diagnostic::new(Code::UnknownArgument, at, message));
            return None;
        }
        let bound = self.bind_setting(&OTHER_FILES, arguments, at)?;
        let others = self.files(&bound)?;
        Some(match source {
            Source::TfRecord { compression, .. } => Source::TfRecord {
                files: others,
                compression,
                span: at,
            },
            Source::Csv {
                delimiter, header, ..
            } => Source::Csv {
                files: others,
                delimiter,
                header,
                span: at,
            },
            Source::Registered(_) => unreachable!("it is refused above"),
        })
    }

    /// The files of a source, of which there must be one.
    fn files(&mut self, bound: &Bound) -> Option<Vec<FilePattern>> {
        let paths: Vec<(String, Span)> = bound.require("path");
        if paths.is_empty() {
            let message = "the source names no file";
            let span = bound.span_of("path");
            self.report(Diagnostic::new(Code::BadValue, span, message));
            return None;
        }
        let file = |(pattern, span)| FilePattern { pattern, span };
        Some(paths.into_iter().map(file).collect())
    }

    fn delimiter(&mut self, bound: &Bound) -> Option<u8> {
        let Some(string) = bound.get::<String>("delimiter") else {
            return Some(b',');
        };
        match string.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
            _ => {
                let message = format!(
                    "the delimiter must be one ASCII character, and no quote or line end, but is {string:?}"
                );
                let span = bound.span_of("delimiter");
                self.report(Diagnostic::new(Code::BadValue, span, message));
                None
            }
        }
    }

    /// `word "name" (constants)`: a source or hook that the Rust program registers. The outer `None` where the
    /// setting has another form.
    pub(crate) fn registered(&mut self, setting: &ast::Setting) -> Option<Option<Registered>> {
        let SettingValue::Value(expr) = &setting.value else {
            return None;
        };
        let (name, arguments) = match &expr.kind {
            ExprKind::Str(name) => (name.clone(), &[][..]),
            ExprKind::Postfix(base, ops) => match (&base.kind, ops.as_slice()) {
                (ExprKind::Str(name), [only]) => match &only.kind {
                    PostfixKind::Call(arguments) => (name.clone(), arguments.as_slice()),
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        };
        let mut bound = Vec::new();
        let mut fine = true;
        for (i, argument) in arguments.iter().enumerate() {
            let value = self.eval(&argument.value);
            let key = argument
                .name
                .as_ref()
                .map_or_else(|| i.to_string(), |n| n.text.clone());
            match self.constant_value(&value, argument.value.span) {
                Some(value) => bound.push((key, value)),
                None => fine = false,
            }
        }
        Some(fine.then_some(Registered {
            name,
            arguments: bound,
            span: setting.word.span,
        }))
    }

    /// A compile-time value as a constant.
    fn constant_value(&mut self, value: &Value, span: Span) -> Option<Constant> {
        Some(match value {
            Value::Int(n) => Constant::Int(n.clone()),
            Value::Float(x) => Constant::Float(*x),
            Value::Bool(b) => Constant::Bool(*b),
            Value::Str(t) => Constant::Str(t.to_string()),
            Value::DType(d) => Constant::DType(*d),
            Value::None => Constant::None,
            Value::Quantity(q) => Constant::Interval(self.interval(*q, span)?),
            Value::List(list) | Value::Tuple(list) => {
                let list: Option<Vec<Constant>> =
                    list.iter().map(|v| self.constant_value(v, span)).collect();
                Constant::List(list?)
            }
            other => {
                self.wrong_kind(span, "a known value", other);
                return None;
            }
        })
    }
}

/// The source that reads a path, by its ending; `None` where it is none.
fn reader_of(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending {
        "csv" | "tsv" => "csv",
        "tfrecord" | "tfrecords" | "record" => "tfrecord",
        "npy" => "npy",
        "npz" => "npz",
        "txt" => "text",
        _ => return None,
    })
}
