//! Values of the checker: compile-time values, and tensors by their type.

use std::rc::Rc;
use std::sync::Arc;

use trainspec_ir::ops::Op;
use trainspec_ir::{DType, FileId, Size, Span, TensorType};

use crate::ast::{Definition, Unit};
use crate::typed::ValueId;

/// A definition with the file it stands in.
#[derive(Debug)]
pub(crate) struct Def {
    pub ast: Definition,
    pub file: FileId,
    pub library: bool,
}

impl Def {
    pub(crate) fn name(&self) -> &str {
        &self.ast.name.text
    }
}

/// A value. Only tensors are left for run time; everything else is known at compile time.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Tensor(Tensor),
    Int(Size),
    Float(f64),
    Bool(bool),
    Str(Rc<str>),
    DType(DType),
    None,
    /// `all_but_last`, as an argument for axes.
    AllButLast,
    List(Rc<Elements>),
    Tuple(Rc<Elements>),
    Range(Size, Size),
    Quantity(Quantity),
    Callable(Callable),
    Init(Rc<InitValue>),
    /// `data`: the training data, as what a table is made of.
    Data,
    /// An error was reported already; whatever is done with it is fine.
    Poison,
}

/// The elements of a list or a tuple, with their total size.
#[derive(Debug)]
pub(crate) struct Elements {
    values: Vec<Value>,
    extent: Extent,
}

impl std::ops::Deref for Elements {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        &self.values
    }
}

impl Elements {
    fn shared(values: Vec<Value>) -> Rc<Elements> {
        let extent = Extent::around(values.iter());
        Rc::new(Elements { values, extent })
    }
}

/// The size of a value as a tree. Elements may be shared, so a small program can build an exponentially large value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The number of values it holds, shared ones counted as often as they occur.
    pub weight: usize,
    /// The nesting depth.
    pub depth: usize,
}

impl Extent {
    fn around<'a>(values: impl Iterator<Item = &'a Value>) -> Extent {
        let mut whole = Extent {
            weight: 1,
            depth: 1,
        };
        for value in values {
            let part = value.extent();
            whole.weight = whole.weight.saturating_add(part.weight);
            whole.depth = whole.depth.max(part.depth + 1);
        }
        whole
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub id: ValueId,
    pub ty: Arc<TensorType>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantity {
    pub amount: f64,
    pub unit: Unit,
}

/// A callable value.
#[derive(Debug, Clone)]
pub(crate) enum Callable {
    Def(Arc<Def>),
    Op(&'static Op),
    Builtin(Builtin),
    /// A `layer`, by its index in the list of instances.
    Instance(usize),
}

/// Builtin functions, evaluated by the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    ShapeOf,
    Rank,
    DTypeOf,
    Len,
    SizeOf,
    Old,
    Grad,
    Hessian,
    Known,
    Fail,
    Bytes,
    Characters,
    Crossed,
    HashBucket,
    IsMissing,
    Standardize,
    Vocabulary,
    Words,
    WordsOf,
}

impl Builtin {
    pub(crate) const ALL: [Builtin; 19] = [
        Builtin::ShapeOf,
        Builtin::Rank,
        Builtin::DTypeOf,
        Builtin::Len,
        Builtin::SizeOf,
        Builtin::Old,
        Builtin::Grad,
        Builtin::Hessian,
        Builtin::Known,
        Builtin::Fail,
        Builtin::Bytes,
        Builtin::Characters,
        Builtin::Crossed,
        Builtin::HashBucket,
        Builtin::IsMissing,
        Builtin::Standardize,
        Builtin::Vocabulary,
        Builtin::Words,
        Builtin::WordsOf,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Builtin::ShapeOf => "shape_of",
            Builtin::Rank => "rank",
            Builtin::DTypeOf => "dtype_of",
            Builtin::Len => "len",
            Builtin::SizeOf => "size_of",
            Builtin::Old => "old",
            Builtin::Grad => "grad",
            Builtin::Hessian => "hessian",
            Builtin::Known => "known",
            Builtin::Fail => "fail",
            Builtin::Bytes => "bytes",
            Builtin::Characters => "characters",
            Builtin::Crossed => "crossed",
            Builtin::HashBucket => "hash_bucket",
            Builtin::IsMissing => "is_missing",
            Builtin::Standardize => "standardize",
            Builtin::Vocabulary => "vocabulary",
            Builtin::Words => "words",
            Builtin::WordsOf => "words_of",
        }
    }

    /// The names of its parameters, and how many of them must be given.
    pub(crate) fn params(self) -> (&'static [&'static str], usize) {
        match self {
            Builtin::ShapeOf
            | Builtin::Rank
            | Builtin::DTypeOf
            | Builtin::SizeOf
            | Builtin::Known
            | Builtin::Old
            | Builtin::IsMissing
            | Builtin::Standardize => (&["x"], 1),
            Builtin::Len => (&["list"], 1),
            Builtin::Grad => (&["y", "wrt", "seed"], 2),
            Builtin::Hessian => (&["y", "wrt"], 2),
            Builtin::Fail => (&["message", "help"], 1),
            Builtin::Bytes | Builtin::Characters | Builtin::Words => (&["x", "max"], 2),
            Builtin::Crossed => (&["features", "buckets"], 2),
            Builtin::HashBucket => (&["x", "buckets"], 2),
            Builtin::Vocabulary => (&["x", "from", "size", "oov"], 2),
            Builtin::WordsOf => (&["ids", "vocabulary"], 2),
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Builtin> {
        Builtin::ALL.into_iter().find(|b| b.name() == name)
    }
}

/// An initializer with its arguments, to be applied to a shape (a closure).
#[derive(Debug)]
pub(crate) enum InitValue {
    /// A constant fill.
    Fill(Value),
    /// An `init` of the language.
    Def(Arc<Def>, Vec<ArgValue>, Extent),
}

impl InitValue {
    pub(crate) fn of(def: Arc<Def>, given: Vec<ArgValue>) -> InitValue {
        let extent = Extent::around(given.iter().map(|g| &g.value));
        InitValue::Def(def, given, extent)
    }
}

/// An evaluated argument.
#[derive(Debug, Clone)]
pub(crate) struct ArgValue {
    pub name: Option<crate::ast::Name>,
    pub value: Value,
    pub span: Span,
}

impl Value {
    pub(crate) fn int(n: i64) -> Value {
        Value::Int(Size::fixed(n))
    }

    pub(crate) fn str(text: &str) -> Value {
        Value::Str(text.into())
    }

    pub(crate) fn list(values: Vec<Value>) -> Value {
        Value::List(Elements::shared(values))
    }

    pub(crate) fn tuple(values: Vec<Value>) -> Value {
        Value::Tuple(Elements::shared(values))
    }

    /// The default dtype of a compile-time value.
    pub(crate) fn natural_dtype(&self) -> DType {
        Value::common_dtype([self])
    }

    /// The common dtype of several values (type promotion): a tensor's own, else float, integer, string or bool.
    pub(crate) fn common_dtype<'a>(values: impl IntoIterator<Item = &'a Value>) -> DType {
        // The promotion rank of a dtype.
        let mut strongest = (0, DType::F32);
        for value in values {
            let (strength, dtype) = match value {
                Value::Tensor(t) => (5, t.ty.dtype),
                Value::Float(_) => (4, DType::F32),
                Value::Int(_) => (3, DType::I64),
                Value::Str(_) => (2, DType::String),
                Value::Bool(_) => (1, DType::Bool),
                Value::List(list) | Value::Tuple(list) => match Value::common_dtype(list.iter()) {
                    DType::F32 => (4, DType::F32),
                    DType::I64 => (3, DType::I64),
                    DType::String => (2, DType::String),
                    DType::Bool => (1, DType::Bool),
                    other => (5, other),
                },
                _ => continue,
            };
            if strength > strongest.0 {
                strongest = (strength, dtype);
            }
        }
        strongest.1
    }

    pub(crate) fn extent(&self) -> Extent {
        match self {
            Value::List(list) | Value::Tuple(list) => list.extent,
            Value::Init(init) => match &**init {
                InitValue::Def(_, _, extent) => *extent,
                InitValue::Fill(value) => Extent::around(std::iter::once(value)),
            },
            Value::Tensor(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Str(_)
            | Value::DType(_)
            | Value::None
            | Value::AllButLast
            | Value::Range(..)
            | Value::Quantity(_)
            | Value::Callable(_)
            | Value::Data
            | Value::Poison => Extent {
                weight: 1,
                depth: 0,
            },
        }
    }

    pub(crate) fn is_poison(&self) -> bool {
        matches!(self, Value::Poison)
    }

    /// A description for messages: `f32[2, 3]`, `the integer 3`, `a list of 2`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Tensor(t) => format!("`{}`", t.ty),
            Value::Int(n) => format!("the integer {n}"),
            Value::Float(x) => format!("the number {x:?}"),
            Value::Bool(b) => format!("`{b}`"),
            Value::Str(t) => format!("the string {}", crate::syntax::quote(t)),
            Value::DType(d) => format!("the type `{d}`"),
            Value::None => "`none`".to_owned(),
            Value::AllButLast => "`all_but_last`".to_owned(),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Tuple(list) => format!("a tuple of {}", list.len()),
            Value::Range(a, b) => format!("the range {a}..{b}"),
            Value::Quantity(q) => format!("{} {}", q.amount, q.unit.word()),
            Value::Callable(c) => c.describe(),
            Value::Init(_) => "an initializer".to_owned(),
            Value::Data => "`data`".to_owned(),
            Value::Poison => "nothing".to_owned(),
        }
    }
}

impl Callable {
    fn describe(&self) -> String {
        match self {
            Callable::Def(def) => format!("the {} `{}`", def.ast.kind.word(), def.name()),
            Callable::Op(op) => format!("the operation `{}`", op.name),
            Callable::Builtin(b) => format!("the function `{}`", b.name()),
            Callable::Instance(_) => "a layer".to_owned(),
        }
    }
}

/// Whether two compile-time values are equal; `None` where that is undecided.
pub(crate) fn same(a: &Value, b: &Value) -> Option<bool> {
    Some(match (a, b) {
        (Value::None, Value::None) => true,
        (Value::None, _) | (_, Value::None) => false,
        (Value::Int(a), Value::Int(b)) => match a.sub(b)?.value() {
            Some(difference) => difference == 0,
            None => return None,
        },
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => {
            a.value()? as f64 == *b
        }
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::DType(a), Value::DType(b)) => a == b,
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            if a.len() != b.len() {
                return Some(false);
            }
            for (x, y) in a.iter().zip(b.iter()) {
                if !same(x, y)? {
                    return Some(false);
                }
            }
            true
        }
        _ => return None,
    })
}
