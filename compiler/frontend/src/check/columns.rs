//! Operations on columns: functions of strings, and those with a table, in `map` and `filter`.
//!
//! In: their applications, met while an expression over features is evaluated. Out: a stage for each, before the program of the
//! expression, which sees the result as an input; so programs have no strings. An operand that is itself computed becomes a `map` of
//! its own.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_ir::ops::Op;
use trainspec_ir::{Count, DType, Dim, Shape, Size, Span, TensorType};

use crate::check::Checker;
use crate::check::value::{ArgValue, Builtin, Tensor, Value};
use crate::diag::{Code, Diagnostic};
use crate::typed::{
    ColumnOp, ColumnOpKind, ColumnOperand, Const, FilePattern, Input, NodeKind, Program, Stage,
    StageKind, Vocabulary, WordSource,
};

/// The most features that are crossed.
const MAX_CROSSED: usize = 64;

/// What a feature depends on, besides the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Origin {
    /// The number of passes over the training data that must be over.
    pub passes: u32,
    /// Whether random numbers are drawn.
    pub is_random: bool,
}

impl Origin {
    pub(super) fn and(self, other: Origin) -> Origin {
        Origin {
            passes: self.passes.max(other.passes),
            is_random: self.is_random || other.is_random,
        }
    }
}

/// The origins of features.
#[derive(Debug, Default)]
pub(super) struct Origins {
    features: BTreeMap<String, Origin>,
    /// That of the choice of the records.
    pub records: Origin,
}

impl Origins {
    pub(super) fn of(&self, feature: &str) -> Origin {
        let own = self.features.get(feature).copied().unwrap_or_default();
        own.and(self.records)
    }

    pub(super) fn of_program(&self, program: &Program, value: crate::typed::ValueId) -> Origin {
        let inputs = program.inputs_of([value]);
        let drawn = Origin {
            passes: 0,
            is_random: program.is_random(),
        };
        (inputs.iter()).fold(drawn.and(self.records), |all, name| all.and(self.of(name)))
    }

    pub(super) fn set(&mut self, feature: &str, origin: Origin) {
        self.features.insert(feature.to_owned(), origin);
    }
}

/// The operations on columns of one expression over features.
#[derive(Debug, Default)]
pub(crate) struct Lifting {
    /// The feature that the expression gives, or `filter`.
    pub(super) target: String,
    /// The stages before the program of the expression.
    pub(super) stages: Vec<Stage>,
    /// The features that these give for the expression alone.
    pub(super) hidden: Vec<String>,
    pub(super) origins: Origins,
    /// The names of the tables of the data set.
    pub(super) tables: BTreeSet<String>,
    /// The stage from which on elements are batches.
    pub(super) batched: Option<Span>,
}

impl Lifting {
    /// A new name, after what is computed.
    fn hide(&mut self, function: &str) -> String {
        let base = format!("{}/{function}", self.target);
        let name = unique(&base, |name| self.hidden.iter().any(|n| n == name));
        self.hidden.push(name.clone());
        name
    }

    /// A name for a table: that of the feature it is for.
    fn table(&mut self) -> String {
        let name = unique(&self.target, |name| self.tables.contains(name));
        self.tables.insert(name.clone());
        name
    }
}

/// A name that is not taken: with `_1`, `_2` and so on where it is.
fn unique(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1..).map(|i| format!("{base}_{i}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).expect("numbers go on")
}

/// Whether an operation is given strings as tensors.
pub(super) fn has_strings(op: &Op, args: &[Option<&ArgValue>]) -> bool {
    let is_string = |value: &Value| match value {
        Value::Tensor(t) => t.ty.dtype == DType::String,
        Value::List(list) | Value::Tuple(list) => list
            .iter()
            .any(|v| matches!(v, Value::Tensor(t) if t.ty.dtype == DType::String)),
        Value::Str(_) => op.name == "where",
        _ => false,
    };
    args.iter().flatten().any(|given| is_string(&given.value))
}

impl Checker<'_> {
    /// Applies an operation to strings.
    pub(super) fn op_on_strings(
        &mut self,
        op: &'static Op,
        args: &[Option<&ArgValue>],
        span: Span,
    ) -> Value {
        let (kind, dtype) = match op.name {
            "equal" => (ColumnOpKind::Equal, DType::Bool),
            "not_equal" => (ColumnOpKind::NotEqual, DType::Bool),
            "where" => (ColumnOpKind::Select, DType::String),
            _ => return self.no_strings(op, args, span),
        };
        let given: Vec<&ArgValue> = args.iter().copied().flatten().collect();
        for (i, argument) in given.iter().enumerate() {
            let expected = match (op.name, i) {
                ("where", 0) => DType::Bool,
                _ => DType::String,
            };
            match &argument.value {
                Value::Tensor(t) if t.ty.dtype == expected => {}
                Value::Str(_) if expected == DType::String => {}
                other => {
                    let message = format!(
                        "{} needs `{expected}` elements here",
                        self.quoted_name(op, span)
                    );
                    let help = match (expected, other) {
                        (DType::Bool, _) => None,
                        (_, Value::Int(n)) => Some(format!("write it in quotes: `\"{n}\"`")),
                        _ => Some("strings are compared with strings".to_owned()),
                    };
                    return self.fail(
                        Diagnostic::new(Code::DtypeMismatch, argument.span, message)
                            .label(format!("this is {}", other.describe()))
                            .maybe_help(help),
                    );
                }
            }
        }
        let Some(dims) = self.common_dims(&given, &self.quoted_name(op, span), span) else {
            return Value::Poison;
        };
        let ty = TensorType::new(dtype, dims);
        self.lift(kind, &given, ty, op.name, span)
    }

    /// Rejects an operation on strings that is none, and says which there are.
    fn no_strings(&mut self, op: &'static Op, args: &[Option<&ArgValue>], span: Span) -> Value {
        let strings = args.iter().flatten().find(|given| match &given.value {
            Value::Tensor(t) => t.ty.dtype == DType::String,
            _ => true,
        });
        let Some(strings) = strings else {
            return Value::Poison;
        };
        let message = format!("{} takes no strings", self.quoted_name(op, span));
        let error = Diagnostic::new(Code::DtypeMismatch, strings.span, message)
            .label(format!("this is {}", strings.value.describe()));
        let help = self.string_help(strings.span);
        self.fail(error.help(help))
    }

    /// Which functions make numbers of a string.
    pub(super) fn string_help(&self, span: Span) -> String {
        let x = self.snippet(span);
        let is_name = x.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let x = if is_name { x.as_str() } else { "x" };
        format!(
            "`vocabulary({x}, from: data, size: 1_000)` and `hash_bucket({x}, 1_000)` make a number of it, `{x} == \"...\"` and `is_missing({x})` a bool"
        )
    }

    /// A function on columns.
    pub(super) fn column_function(
        &mut self,
        builtin: Builtin,
        args: &[Option<&ArgValue>],
        span: Span,
    ) -> Value {
        let first = args[0].expect("the first argument is required");
        let value = match builtin {
            Builtin::IsMissing => self.is_missing(first, span),
            Builtin::Standardize => self.standardize(first, span),
            Builtin::Vocabulary => self.word_ids(first, args, span),
            Builtin::HashBucket => self.hash_bucket(first, args[1], span),
            Builtin::Crossed => self.crossed(first, args[1], span),
            Builtin::Bytes | Builtin::Characters | Builtin::Words => {
                self.split_string(builtin, first, args[1], span)
            }
            other => unreachable!("`{}` is no function on columns", other.name()),
        };
        value.unwrap_or(Value::Poison)
    }

    /// `is_missing(x)`: NaN, or the empty string.
    fn is_missing(&mut self, x: &ArgValue, span: Span) -> Option<Value> {
        let Value::Tensor(tensor) = &x.value else {
            self.wrong_tensor("is_missing", "floats or strings", x, None);
            return None;
        };
        match tensor.ty.dtype {
            DType::String => {
                let ty = tensor.ty.with_dtype(DType::Bool);
                Some(self.lift(ColumnOpKind::IsMissing, &[x], ty, "is_missing", span))
            }
            dtype if dtype.is_float() => {
                let op = trainspec_ir::ops::find("is_nan").expect("the table has it");
                let given = ArgValue {
                    name: None,
                    ..x.clone()
                };
                Some(self.apply_op(op, vec![given], span))
            }
            _ => {
                let help = "an integer that a record lacks has a default: `feature x: i64 = -1;`";
                self.wrong_tensor("is_missing", "floats or strings", x, Some(help));
                None
            }
        }
    }

    /// `standardize(x)`: the difference from the mean of the training data, in standard deviations.
    fn standardize(&mut self, x: &ArgValue, span: Span) -> Option<Value> {
        let tensor = match &x.value {
            Value::Tensor(tensor) if tensor.ty.dtype.is_float() => tensor,
            other => {
                let help = match other {
                    Value::Tensor(t) if t.ty.dtype == DType::String => None,
                    _ => Some(format!("convert it: `cast({}, f32)`", self.snippet(x.span))),
                };
                self.wrong_tensor("standardize", "floats", x, help.as_deref());
                return None;
            }
        };
        if tensor.ty.shape.is_counted() {
            let message = "`standardize` needs a feature of one length";
            self.report(
                Diagnostic::new(Code::TypeMismatch, x.span, message)
                    .label(format!("this is `{}`", tensor.ty)),
            );
            return None;
        }
        let ty = (*tensor.ty).clone();
        let pass = self.pass_of_table("standardize", &[x], span)?;
        let table = self
            .lifting
            .as_mut()
            .map(Lifting::table)
            .unwrap_or_default();
        let kind = ColumnOpKind::Standardize { table, pass };
        Some(self.lift(kind, &[x], ty, "standardize", span))
    }

    /// `vocabulary(x, from: ..., size: 10_000, oov: 1)`
    fn word_ids(&mut self, x: &ArgValue, args: &[Option<&ArgValue>], span: Span) -> Option<Value> {
        let ty = self.keys("vocabulary", x)?;
        let (from, size, oov) = (args[1]?, args[2], args[3]);
        let words = match &from.value {
            Value::Str(path) if !path.is_empty() => WordSource::File(FilePattern {
                pattern: path.to_string(),
                span: from.span,
            }),
            Value::List(list) if !list.is_empty() => self.word_list(list, from.span)?,
            Value::Data => WordSource::Data { pass: 0 },
            other => {
                let help = match other {
                    Value::Tensor(_) if self.snippet(from.span) == "data" => {
                        "a feature is called `data`: give it another name, `feature content: ... as \"data\";`"
                    }
                    _ => {
                        "it is a file, `\"words.txt\"`, a list, `[\"a\", \"b\"]`, or `data`: the words of the training data"
                    }
                };
                let message = "`from` says where the words come from";
                self.report(
                    Diagnostic::new(Code::TypeMismatch, from.span, message)
                        .label(format!("this is {}", other.describe()))
                        .help(help),
                );
                return None;
            }
        };
        let listed = match &words {
            WordSource::List(words) => Some(words.len() as u64),
            WordSource::File(_) | WordSource::Data { .. } => None,
        };
        let size_given = size.filter(|given| !matches!(given.value, Value::None));
        let size = match (size_given, listed) {
            (Some(given), _) => self.count_argument("size", given, 1)?,
            (None, Some(n)) => n,
            (None, None) => {
                let error = Diagnostic::new(
                    Code::MissingArgument,
                    span,
                    "`vocabulary` needs the argument `size`",
                );
                self.report(error.help(
                    "say how many words it has at most: `size: 10_000`; nothing is read before the run starts",
                ));
                return None;
            }
        };
        if let (Some(n), Some(given)) = (listed.filter(|n| *n > size), size_given) {
            let message = format!("the list has {n} words, and `size` is {size}");
            self.report(Diagnostic::new(Code::BadValue, given.span, message));
            return None;
        }
        let oov = match oov {
            Some(given) => self.count_argument("oov", given, 0)?,
            None => 1,
        };
        let words = match words {
            WordSource::Data { .. } => WordSource::Data {
                pass: self.pass_of_table("vocabulary", &[x], span)?,
            },
            other => other,
        };
        let kind = ColumnOpKind::Vocabulary(Vocabulary {
            table: self
                .lifting
                .as_mut()
                .map(Lifting::table)
                .unwrap_or_default(),
            words,
            size,
            oov,
        });
        Some(self.lift(kind, &[x], ty.with_dtype(DType::I64), "vocabulary", span))
    }

    /// The words of a list, each once.
    fn word_list(&mut self, list: &[Value], span: Span) -> Option<WordSource> {
        let mut words = Vec::with_capacity(list.len());
        let mut seen = BTreeSet::new();
        for word in list {
            let Value::Str(word) = word else {
                self.wrong_kind(span, "strings in the list", word);
                return None;
            };
            if !seen.insert(word.clone()) {
                let message = format!("the word {word:?} is there twice");
                self.report(Diagnostic::new(Code::BadValue, span, message));
                return None;
            }
            words.push(word.to_string());
        }
        Some(WordSource::List(words))
    }

    /// `hash_bucket(x, buckets)`
    fn hash_bucket(
        &mut self,
        x: &ArgValue,
        buckets: Option<&ArgValue>,
        span: Span,
    ) -> Option<Value> {
        let ty = self.keys("hash_bucket", x)?.with_dtype(DType::I64);
        let buckets = self.count_argument("buckets", buckets?, 1)?;
        let kind = ColumnOpKind::HashBucket { buckets };
        Some(self.lift(kind, &[x], ty, "hash_bucket", span))
    }

    /// `crossed([a, b], buckets)`
    fn crossed(
        &mut self,
        features: &ArgValue,
        buckets: Option<&ArgValue>,
        span: Span,
    ) -> Option<Value> {
        let list = match &features.value {
            Value::List(list) | Value::Tuple(list) if (2..=MAX_CROSSED).contains(&list.len()) => {
                list.to_vec()
            }
            other => {
                let message = format!("`crossed` needs a list of 2 to {MAX_CROSSED} features");
                self.report(
                    Diagnostic::new(Code::TypeMismatch, features.span, message)
                        .label(format!("this is {}", other.describe()))
                        .help("write `crossed([a, b], 1_000)`"),
                );
                return None;
            }
        };
        let given: Vec<ArgValue> = (list.into_iter())
            .map(|value| ArgValue {
                name: None,
                value,
                span: features.span,
            })
            .collect();
        let given: Vec<&ArgValue> = given.iter().collect();
        for one in &given {
            self.keys("crossed", one)?;
        }
        let dims = self.common_dims(&given, "`crossed`", span)?;
        let buckets = self.count_argument("buckets", buckets?, 1)?;
        let kind = ColumnOpKind::Crossed { buckets };
        let ty = TensorType::new(DType::I64, dims);
        Some(self.lift(kind, &given, ty, "crossed", span))
    }

    /// `bytes(x, max: 128)`, `characters(x, max: 128)`, `words(x, max: 64)`
    fn split_string(
        &mut self,
        builtin: Builtin,
        x: &ArgValue,
        max: Option<&ArgValue>,
        span: Span,
    ) -> Option<Value> {
        let function = builtin.name();
        let tensor = match &x.value {
            Value::Tensor(t) if t.ty.dtype == DType::String => t,
            _ => {
                self.wrong_tensor(function, "strings", x, None);
                return None;
            }
        };
        if tensor.ty.rank() != 0 {
            let message = format!("`{function}` takes one string of each record");
            let batched = self.lifting.as_ref().and_then(|lifting| lifting.batched);
            let error = Diagnostic::new(Code::RankMismatch, x.span, message)
                .label(format!("this is `{}`", tensor.ty));
            self.report(match batched {
                Some(batched) => error
                    .note_at(batched, "batches begin here")
                    .help(format!("put `{function}` before `batch`")),
                None => error,
            });
            return None;
        }
        let max = self.count_argument("max", max?, 1)?;
        let (kind, dtype) = match builtin {
            Builtin::Bytes => (ColumnOpKind::Bytes, DType::U8),
            Builtin::Characters => (ColumnOpKind::Characters, DType::String),
            _ => (ColumnOpKind::Words, DType::String),
        };
        self.counts += 1;
        let count = Count(format!("count {}", self.counts).into());
        let dim = Dim::at_most(Size::fixed(max as i64), count);
        let ty = TensorType::new(dtype, Shape(vec![dim]));
        if ty.shape.elements().is_none() {
            self.size_overflow(span);
            return None;
        }
        Some(self.lift(kind, &[x], ty, function, span))
    }

    /// `words_of(ids, label)`: the ids, which are those of words in the vocabulary of an input.
    pub(super) fn words_of(
        &mut self,
        ids: &ArgValue,
        vocabulary: Option<&ArgValue>,
        span: Span,
    ) -> Value {
        let Some(vocabulary) = vocabulary else {
            return Value::Poison;
        };
        let is_int = matches!(&ids.value, Value::Tensor(t) if t.ty.dtype.is_int());
        if !is_int {
            self.wrong_tensor("words_of", "integers: ids of words", ids, None);
            return Value::Poison;
        }
        let input = match &vocabulary.value {
            Value::Tensor(t) => self.input_name(t),
            _ => None,
        };
        let Some(input) = input else {
            let message = "`words_of` takes an input of the model, whose data set has a vocabulary";
            return self.fail(
                Diagnostic::new(Code::TypeMismatch, vocabulary.span, message).help(
                    "write `words_of(argmax(logits, axis: 1), label)`, with the input `label`",
                ),
            );
        };
        let op = trainspec_ir::ops::find("identity").expect("the table has it");
        let given = ArgValue {
            name: None,
            ..ids.clone()
        };
        let value = self.apply_op(op, vec![given], span);
        if let Value::Tensor(t) = &value {
            self.store.word_ids.insert(t.id, (input, span));
        }
        value
    }

    // ---- Stages ----

    /// Adds an operation on columns; its result is an input of the program.
    fn lift(
        &mut self,
        kind: ColumnOpKind,
        given: &[&ArgValue],
        ty: TensorType,
        function: &str,
        span: Span,
    ) -> Value {
        let mut operands = Vec::with_capacity(given.len());
        for argument in given {
            match self.operand(argument, function) {
                Some(operand) => operands.push(operand),
                None => return Value::Poison,
            }
        }
        let user_span = self.user_span(span);
        let Some(lifting) = &mut self.lifting else {
            if self.generic {
                // A definition that nothing calls.
                let input = NodeKind::Input(Input::Named(function.to_owned()));
                return self.emit_one(input, ty, span);
            }
            let message = format!("`{function}` of strings and tables belongs to a data set");
            return self.fail(
                Diagnostic::new(Code::MisplacedStatement, span, message)
                    .help("compute it in a `map` or `filter` of the data set: models take numbers"),
            );
        };
        let name = lifting.hide(function);
        let op = ColumnOp {
            name: name.clone(),
            kind,
            operands,
            ty: ty.clone(),
            span: user_span,
        };
        let mut origin = (op.inputs()).fold(lifting.origins.records, |all, input| {
            all.and(lifting.origins.of(input))
        });
        if let Some(pass) = op.pass() {
            origin.passes = origin.passes.max(pass + 1);
        }
        lifting.origins.set(&name, origin);
        lifting.stages.push(Stage {
            kind: StageKind::Column(Box::new(op)),
            span: user_span,
        });
        self.emit_one(NodeKind::Input(Input::Named(name)), ty, span)
    }

    /// A value as an operand: a feature, a string, or else a `map` of its own.
    fn operand(&mut self, given: &ArgValue, function: &str) -> Option<ColumnOperand> {
        let tensor = match &given.value {
            Value::Str(text) => return Some(ColumnOperand::Str(text.to_string())),
            Value::Tensor(tensor) => tensor.clone(),
            _ => return None,
        };
        if self.scan_depth > 0 {
            let message = format!("`{function}` of strings and tables cannot stand in a `scan`");
            self.report(
                Diagnostic::new(Code::MisplacedStatement, given.span, message)
                    .help("compute it of the whole feature, before the loop"),
            );
            return None;
        }
        if self.lifting.is_none() {
            return Some(ColumnOperand::Feature(String::new()));
        }
        if !self.spend(self.program.nodes.len(), given.span) {
            return None;
        }
        if let Some(name) = self.input_name(&tensor) {
            return Some(ColumnOperand::Feature(name));
        }
        if let Some(text) = self.string_constant(&tensor) {
            return Some(ColumnOperand::Str(text));
        }
        let program = self.program.pruned([tensor.id]);
        let span = self.user_span(given.span);
        let lifting = self.lifting.as_mut()?;
        let name = lifting.hide("value");
        let origin = lifting.origins.of_program(&program, tensor.id);
        lifting.origins.set(&name, origin);
        lifting.stages.push(Stage {
            kind: StageKind::Map {
                name: name.clone(),
                program,
                value: tensor.id,
            },
            span,
        });
        Some(ColumnOperand::Feature(name))
    }

    /// The name of the input that a tensor is.
    pub(super) fn input_name(&self, tensor: &Tensor) -> Option<String> {
        match self.defining_node(tensor)? {
            NodeKind::Input(Input::Named(name)) => Some(name.clone()),
            _ => None,
        }
    }

    /// The string that a tensor is.
    pub(super) fn string_constant(&self, tensor: &Tensor) -> Option<String> {
        match self.defining_node(tensor)? {
            NodeKind::Const(Const::Str(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn defining_node(&self, tensor: &Tensor) -> Option<&NodeKind> {
        let mut nodes = self.program.nodes.iter().rev();
        let node = nodes.find(|node| node.results.first == tensor.id && node.results.count == 1)?;
        Some(&node.kind)
    }

    // ---- Arguments ----

    /// The type of what has keys: strings, or integers, which stand for their decimal digits.
    fn keys(&mut self, function: &str, x: &ArgValue) -> Option<TensorType> {
        match &x.value {
            Value::Tensor(t) if t.ty.dtype == DType::String || t.ty.dtype.is_int() => {
                Some((*t.ty).clone())
            }
            Value::Poison => None,
            other => {
                let help = match other {
                    Value::Tensor(t) if t.ty.dtype.is_float() => {
                        Some("`bucketize(x, [18, 30, 50])` makes integers of floats")
                    }
                    _ => None,
                };
                self.wrong_tensor(function, "strings or integers", x, help);
                None
            }
        }
    }

    /// The dimensions of operands, of which those that are no plain strings have the same.
    fn common_dims(&mut self, given: &[&ArgValue], callee: &str, span: Span) -> Option<Shape> {
        let mut found: Option<TensorType> = None;
        for argument in given {
            let Value::Tensor(tensor) = &argument.value else {
                continue;
            };
            if self.string_constant(tensor).is_some() {
                continue;
            }
            match &found {
                None => found = Some((*tensor.ty).clone()),
                Some(first) if first.shape == tensor.ty.shape => {}
                Some(first) => {
                    let message = format!("{callee} cannot combine these shapes");
                    let error = Diagnostic::new(Code::ShapeMismatch, span, message)
                        .label(format!("`{first}` and `{}`", tensor.ty));
                    self.report(error.help("features that are combined here have the same shape"));
                    return None;
                }
            }
        }
        Some(found.map(|ty| ty.shape).unwrap_or_default())
    }

    /// A known integer of at least `least`.
    fn count_argument(&mut self, name: &str, given: &ArgValue, least: i64) -> Option<u64> {
        let size = self.as_size(given.value.clone(), given.span, &format!("`{name}`"))?;
        let Some(n) = size.value() else {
            let message = format!("`{name}` must be a number that is known");
            self.report(Diagnostic::new(Code::UnknownSize, given.span, message));
            return None;
        };
        if n < least {
            let message = format!("`{name}` must be at least {least}, and is {n}");
            self.report(Diagnostic::new(Code::BadValue, given.span, message));
            return None;
        }
        Some(n as u64)
    }

    /// The pass over the training data in which a table of these operands can be made.
    fn pass_of_table(&mut self, function: &str, given: &[&ArgValue], span: Span) -> Option<u32> {
        let Some(lifting) = &self.lifting else {
            return Some(0);
        };
        if let Some(batched) = lifting.batched {
            let message = format!(
                "`{function}` with a table of the training data is made of records, so it comes before `batch`"
            );
            self.report(
                Diagnostic::new(Code::StageOrder, span, message)
                    .note_at(batched, "batches begin here"),
            );
            return None;
        }
        let mut origin = lifting.origins.records;
        for argument in given {
            if let Value::Tensor(t) = &argument.value {
                origin = origin.and(lifting.origins.of_program(&self.program, t.id));
            }
        }
        // While training they are those of an evaluation.
        if origin.is_random && !self.training {
            let message = format!(
                "the table of `{function}` would depend on random numbers, which are drawn in evaluations, too"
            );
            self.report(Diagnostic::new(Code::BadValue, span, message).help(
                "draw them after it, or only while training: `if training { ... } else { ... }`",
            ));
            return None;
        }
        Some(origin.passes)
    }

    fn wrong_tensor(
        &mut self,
        function: &str,
        expected: &str,
        given: &ArgValue,
        help: Option<&str>,
    ) {
        if given.value.is_poison() {
            return;
        }
        let strings = matches!(&given.value, Value::Tensor(t) if t.ty.dtype == DType::String);
        let help = match (help, strings) {
            (Some(help), _) => Some(help.to_owned()),
            (None, true) => Some(self.string_help(given.span)),
            (None, false) => None,
        };
        let message = format!("`{function}` takes {expected}");
        self.report(
            Diagnostic::new(Code::DtypeMismatch, given.span, message)
                .label(format!("this is {}", given.value.describe()))
                .maybe_help(help),
        );
    }

    /// Checks that the training data makes the tables that another data set takes from it.
    pub(super) fn tables_of_training(
        &mut self,
        set: &crate::typed::DataSet,
        trained: Option<&crate::typed::DataSet>,
        span: Span,
    ) {
        for op in set.data_tables() {
            let table = op.table().expect("it is made of data");
            let made = trained.and_then(|t| t.data_tables().find(|own| own.table() == Some(table)));
            let alike = |own: &ColumnOp| match (&own.kind, &op.kind) {
                (ColumnOpKind::Vocabulary(a), ColumnOpKind::Vocabulary(b)) => {
                    (a.size, a.oov) == (b.size, b.oov)
                }
                (a, b) => a.name() == b.name() && own.ty == op.ty,
            };
            let function = op.kind.name();
            let error = match (trained, made) {
                (_, Some(own)) if alike(own) => continue,
                (Some(trained), Some(own)) => {
                    let message = format!(
                        "the table `{table}` of `{}` is not that of the training data `{}`",
                        set.name, trained.name
                    );
                    Diagnostic::new(Code::FeatureMismatch, span, message)
                        .note_at(op.span, "it is taken here")
                        .note_at(own.span, "and made here")
                        .help("say the same `map` in both")
                }
                (Some(trained), None) => {
                    let message = format!(
                        "`{}` takes the table `{table}` from the training data, and `{}` makes none",
                        set.name, trained.name
                    );
                    Diagnostic::new(Code::FeatureMismatch, span, message)
                        .note_at(op.span, format!("`{function}` needs it here"))
                        .help(format!(
                            "say the `map` of `{table}` in `{}`, too",
                            trained.name
                        ))
                }
                (None, _) => {
                    let message = format!(
                        "`{}` takes the table `{table}` from the training data, and there is none",
                        set.name
                    );
                    Diagnostic::new(Code::FeatureMismatch, span, message)
                        .note_at(op.span, format!("`{function}` needs it here"))
                        .help("say what is trained on: `data NAME;` in `train`")
                }
            };
            self.report(error);
        }
    }
}
