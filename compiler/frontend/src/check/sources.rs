//! Sources: the files and options of each kind, and what the Rust program registers under a name.

use trainspec_ir::Span;

use crate::ast::{self, Argument, ExprKind, PostfixKind, SettingValue};
use crate::builtins::{OTHER_FILES, find};
use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{
    ArrayFiles, ArrayFormat, Compression, Constant, FilePattern, Registered, Resize, Source,
    SourceKind, TextUnit,
};

/// The key of the option that sources of arrays have beside those of their features.
const ON_ERROR: &str = "on_error";

const COMPRESSIONS: [(&str, Compression); 4] = [
    ("auto", Compression::Auto),
    ("none", Compression::None),
    ("gzip", Compression::Gzip),
    ("zlib", Compression::Zlib),
];

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
            return Some(Source {
                span: registered.span,
                kind: SourceKind::Registered(registered),
                max_skipped: None,
            });
        }
        if let Some((format, arguments, span)) = keyed_arrays(setting) {
            let (files, max_skipped) = self.array_files(format.word(), arguments, span)?;
            let kind = SourceKind::Arrays { format, files };
            return Some(Source {
                kind,
                max_skipped,
                span,
            });
        }
        let bound = self.call_setting(setting)?;
        let compression = || bound.keyword("compression", &COMPRESSIONS);
        let kind = match bound.signature.word {
            "tfrecord" => SourceKind::TfRecord {
                files: self.files(&bound)?,
                compression: compression().unwrap_or(Compression::Auto),
            },
            "csv" => {
                let delimiter = self.delimiter(&bound);
                SourceKind::Csv {
                    files: self.files(&bound)?,
                    delimiter: delimiter?,
                    header: bound.get("header").unwrap_or(false),
                    missing: missing(&bound),
                    compression: compression().unwrap_or(Compression::Auto),
                }
            }
            "text" => {
                let units = [
                    TextUnit::Line,
                    TextUnit::Word,
                    TextUnit::Character,
                    TextUnit::Byte,
                ];
                let unit = bound.keyword("unit", &units.map(|unit| (unit.word(), unit)));
                SourceKind::Text {
                    files: self.files(&bound)?,
                    compression: compression().unwrap_or(Compression::Auto),
                    unit: unit.unwrap_or(TextUnit::Line),
                }
            }
            "npz" => SourceKind::Arrays {
                format: ArrayFormat::Npz,
                files: ArrayFiles::Shared(self.files(&bound)?),
            },
            "files" => {
                let ways = [Resize::Nearest, Resize::Bilinear, Resize::Area];
                SourceKind::Files {
                    files: self.files(&bound)?,
                    resize: bound.keyword("resize", &ways.map(|way| (way.word(), way))),
                }
            }
            "memory" => SourceKind::Memory {
                name: bound.require("name"),
            },
            other => unreachable!("the source `{other}` is read here"),
        };
        let max_skipped = match bound.signature.params.iter().any(|p| p.name == ON_ERROR) {
            true => self.max_skipped(bound.get(ON_ERROR), bound.span_of(ON_ERROR))?,
            false => None,
        };
        Some(Source {
            kind,
            max_skipped,
            span: bound.span,
        })
    }

    /// `on_error: skip(max: 10)`; the outer `None` where it is wrong.
    fn max_skipped(&mut self, calls: Option<Vec<Bound>>, span: Span) -> Option<Option<u64>> {
        match calls.as_deref() {
            None => Some(None),
            Some([skip]) => Some(Some(skip.require("max"))),
            Some(_) => {
                let message = "there is one thing to do on an error";
                let error = Diagnostic::new(Code::BadValue, span, message);
                self.report(error.help("write `on_error: skip(max: 10)`"));
                None
            }
        }
    }

    /// A source that reads other files in the same way.
    pub(super) fn other_files(
        &mut self,
        source: Source,
        arguments: &[Argument],
        at: Span,
    ) -> Option<Source> {
        let mut source = Source { span: at, ..source };
        let word = source.word();
        match &mut source.kind {
            SourceKind::Mix { .. } | SourceKind::Zip { .. } => {
                let message = "the other data set takes its records from several, so there are no other files to read";
                self.report(Diagnostic::new(Code::UnknownArgument, at, message));
                return None;
            }
            SourceKind::Memory { name: _ } | SourceKind::Registered(_) => {
                let message =
                    "a source of the Rust program reads no files, so there are no others to read";
                self.report(Diagnostic::new(Code::UnknownArgument, at, message));
                return None;
            }
            SourceKind::Arrays {
                files: ArrayFiles::ByKey(own),
                ..
            } => {
                let (others, max_skipped) = self.array_files(word, arguments, at)?;
                let ArrayFiles::ByKey(others) = others else {
                    let message =
                        "the other data set has a file for each feature, and so must this one";
                    let keys: Vec<String> = own
                        .iter()
                        .map(|(key, _)| format!("{key}: \"...\""))
                        .collect();
                    let error = Diagnostic::new(Code::BadValue, at, message);
                    self.report(error.help(format!("write `({})`", keys.join(", "))));
                    return None;
                };
                if let Some((missing, _)) = own
                    .iter()
                    .find(|(key, _)| !others.iter().any(|(o, _)| o == key))
                {
                    let message = format!(
                        "the other data set has a file for `{missing}`, and this one has none"
                    );
                    let error = Diagnostic::new(Code::MissingArgument, at, message);
                    self.report(error.help(format!("add it: `{missing}: \"...\"`")));
                    return None;
                }
                if let Some((other, files)) = others
                    .iter()
                    .find(|(key, _)| !own.iter().any(|(o, _)| o == key))
                {
                    let message = format!("the other data set has no file for `{other}`");
                    let keys = own.iter().map(|(key, _)| key.as_str());
                    let help = nearest(other, keys).map(|near| format!("did you mean `{near}`?"));
                    let span = files.first().map_or(at, |file| file.span);
                    let error = Diagnostic::new(Code::UnknownArgument, span, message);
                    self.report(error.maybe_help(help));
                    return None;
                }
                *own = others;
                source.max_skipped = max_skipped.or(source.max_skipped);
            }
            SourceKind::TfRecord { files, .. }
            | SourceKind::Csv { files, .. }
            | SourceKind::Text { files, .. }
            | SourceKind::Files { files, .. }
            | SourceKind::Arrays {
                files: ArrayFiles::Shared(files),
                ..
            } => {
                let bound = self.bind_setting(&OTHER_FILES, arguments, at)?;
                *files = self.files(&bound)?;
            }
        }
        Some(source)
    }

    /// The files of arrays: `("x.npy")`, or one argument for each feature: `(image: "...", label: "...")`.
    fn array_files(
        &mut self,
        word: &str,
        arguments: &[Argument],
        at: Span,
    ) -> Option<(ArrayFiles, Option<u64>)> {
        let mut max_skipped = None;
        let mut shared = None;
        let mut keyed: Vec<(String, Vec<FilePattern>)> = Vec::new();
        for argument in arguments {
            let span = argument.value.span;
            let Some(key) = &argument.name else {
                if shared.is_some() || !keyed.is_empty() {
                    let message =
                        "each file belongs to one feature, so it needs the name of its feature";
                    let error = Diagnostic::new(Code::MissingArgument, span, message);
                    self.report(error.help(format!(
                        "write `source {word}(image: \"...\", label: \"...\");`"
                    )));
                    return None;
                }
                shared = Some(self.patterns_of(argument, "the files")?);
                continue;
            };
            if key.text == ON_ERROR {
                let calls = self.setting_calls("on_error", &argument.value, "`on_error`")?;
                max_skipped = self.max_skipped(Some(calls), span)?;
                continue;
            }
            if keyed.iter().any(|(own, _)| *own == key.text) {
                let message = format!("the files of `{}` are given twice", key.text);
                self.report(Diagnostic::new(Code::DuplicateArgument, key.span, message));
                return None;
            }
            if shared.is_some() {
                let message = "the file before has no feature";
                let error = Diagnostic::new(Code::MissingArgument, key.span, message);
                self.report(error.help(format!(
                    "write `source {word}(image: \"...\", label: \"...\");`"
                )));
                return None;
            }
            let files = self.patterns_of(argument, &format!("`{}`", key.text))?;
            keyed.push((key.text.clone(), files));
        }
        match (shared, keyed.is_empty()) {
            (Some(files), _) => Some((ArrayFiles::Shared(files), max_skipped)),
            (None, false) => Some((ArrayFiles::ByKey(keyed), max_skipped)),
            (None, true) => {
                let message = "the source names no file";
                let error = Diagnostic::new(Code::MissingArgument, at, message);
                self.report(error.help(format!(
                    "write `source {word}(image: \"...\", label: \"...\");`"
                )));
                None
            }
        }
    }

    fn patterns_of(&mut self, argument: &Argument, what: &str) -> Option<Vec<FilePattern>> {
        let paths = self.string_list(&argument.value, what)?;
        self.file_patterns(paths, argument.value.span)
    }

    /// The files of a source, of which there must be one.
    fn files(&mut self, bound: &Bound) -> Option<Vec<FilePattern>> {
        self.file_patterns(bound.require("path"), bound.span_of("path"))
    }

    fn file_patterns(
        &mut self,
        paths: Vec<(String, Span)>,
        span: Span,
    ) -> Option<Vec<FilePattern>> {
        if paths.is_empty() {
            let message = "the source names no file";
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

/// The fields of a csv file that stand for a missing value.
fn missing(bound: &Bound) -> Option<Vec<String>> {
    let words: Option<Vec<(String, Span)>> = bound.get("missing");
    words.map(|words| words.into_iter().map(|(word, _)| word).collect())
}

/// A source of arrays whose arguments are the names of features.
fn keyed_arrays(setting: &ast::Setting) -> Option<(ArrayFormat, &[Argument], Span)> {
    let SettingValue::Value(expr) = &setting.value else {
        return None;
    };
    let ExprKind::Postfix(base, ops) = &expr.kind else {
        return None;
    };
    let (ExprKind::Name(name), [only]) = (&base.kind, ops.as_slice()) else {
        return None;
    };
    let PostfixKind::Call(arguments) = &only.kind else {
        return None;
    };
    let formats = [ArrayFormat::Idx, ArrayFormat::Npy];
    let format = formats.into_iter().find(|format| format.word() == name)?;
    debug_assert!(find("source", name).is_some());
    Some((format, arguments, base.span))
}
