//! Operation definitions: signature (parameters with defaults), type inference and lowering to primitives.

use crate::build::Lower;
use crate::size::Size;
use crate::types::{Class, Count, DType, TensorType};

/// An operation of the table.
///
/// There is no default for any field: a new op that forgets one does not compile.
#[derive(Debug)]
pub struct Op {
    /// The name, which is TensorFlow's where TensorFlow has the operation.
    pub name: &'static str,
    /// Synonyms.
    pub aliases: &'static [&'static str],
    /// What it computes, in one sentence.
    pub doc: &'static str,
    /// What it takes, in positional order.
    pub params: &'static [Param],
    /// Whether it samples random numbers, and so needs a site of its own.
    pub random: bool,
    /// Its lowering to primitives of the graph.
    pub lower: Lower,
    /// Type inference: the types of the results. Dtypes of tensor arguments already agree with `params` when this is called.
    pub infer: fn(&Call<'_>) -> Result<Vec<TensorType>, RuleError>,
}

/// A parameter of an operation.
#[derive(Debug)]
pub struct Param {
    /// The name, usable as a named argument.
    pub name: &'static str,
    /// What may be given.
    pub kind: Kind,
    /// The default value.
    pub default: Default,
    /// Whether it alone, with what else is known, decides the run-time counts of the results: two calls with the same value
    /// have the same counts.
    pub counting: bool,
}

impl Param {
    /// A parameter that must be given.
    pub const fn required(name: &'static str, kind: Kind) -> Param {
        Param {
            name,
            kind,
            default: Default::Required,
            counting: false,
        }
    }

    /// A parameter that must be given, and that decides the run-time counts of the results.
    pub const fn counting(name: &'static str, kind: Kind) -> Param {
        Param {
            name,
            kind,
            default: Default::Required,
            counting: true,
        }
    }

    /// A parameter that may be left out, which the rule sees as [`Arg::Absent`].
    pub const fn optional(name: &'static str, kind: Kind) -> Param {
        Param {
            name,
            kind,
            default: Default::Absent,
            counting: false,
        }
    }

    /// A parameter with a value of its own when left out.
    pub const fn with(name: &'static str, kind: Kind, default: Default) -> Param {
        Param {
            name,
            kind,
            default,
            counting: false,
        }
    }

    /// The argument that stands in when none is given; `None` where one must be given.
    ///
    /// One number is the default of a list as it is an argument for one: a list of one.
    pub fn default_arg(&self) -> Option<Arg> {
        Some(match self.default {
            Default::Required => return None,
            Default::Absent => Arg::Absent,
            Default::Int(n) if self.kind == Kind::Ints => Arg::Ints(vec![Size::fixed(n)]),
            Default::Int(n) => Arg::Int(Size::fixed(n)),
            Default::Float(x) => Arg::Float(x),
            Default::Bool(b) => Arg::Bool(b),
            Default::Word(w) => Arg::Word(w.to_owned()),
            Default::DType(d) => Arg::DType(d),
        })
    }
}

/// What a parameter takes. All but tensors are known at compile time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// One tensor.
    Tensor(Elements),
    /// A list of at least one tensor.
    Tensors(Elements),
    /// An integer, such as an axis or a count.
    Int,
    /// A list of integers, or one, which is a list of one.
    Ints,
    /// A list of pairs of integers.
    Pairs,
    /// A number; an integer is converted to a float.
    Float,
    /// A number that keeps its type: an integer is [`Arg::Int`], a float [`Arg::Float`].
    Number,
    /// `true` or `false`.
    Bool,
    /// A string, one of these (an enumeration).
    Word(&'static [&'static str]),
    /// Any string.
    String,
    /// An element type.
    DType,
}

/// Which element types a tensor parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Elements {
    /// Just this type.
    Only(DType),
    /// Any type of the class, on its own.
    Of(Class),
    /// A type of the class, the same for all parameters that name the same variable; literals take it on.
    Same(&'static str, Class),
}

/// What a parameter is when no argument is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// It must be given.
    Required,
    /// It may be left out; the rule decides what that means.
    Absent,
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string of an enumeration.
    Word(&'static str),
    /// An element type.
    DType(DType),
}

/// An argument as the rule sees it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each mirrors the `Kind` of its name; a `String` is a `Word`
pub enum Arg {
    Absent,
    Tensor(TensorType),
    Tensors(Vec<TensorType>),
    Int(Size),
    Ints(Vec<Size>),
    Pairs(Vec<(Size, Size)>),
    Float(f64),
    Bool(bool),
    Word(String),
    DType(DType),
}

/// An integer or a float, as a parameter of [`Kind::Number`] takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number<'a> {
    /// An integer, which may be symbolic.
    Int(&'a Size),
    /// A float.
    Float(f64),
}

/// A use of an operation: its arguments, one for each parameter, in the order of the parameters.
///
/// The accessors panic when asked for another kind than the parameter has: that is a mistake in an op's own file.
#[derive(Debug)]
pub struct Call<'a> {
    /// The operation.
    pub op: &'a Op,
    /// One argument for each of the op's parameters.
    pub args: &'a [Arg],
    /// A name for a count that this call creates, unique to it.
    pub site: &'a str,
}

impl<'a> Call<'a> {
    fn arg(&self, name: &str) -> &'a Arg {
        let index = self.op.params.iter().position(|p| p.name == name);
        let index = index.unwrap_or_else(|| panic!("`{}` has no parameter `{name}`", self.op.name));
        &self.args[index]
    }

    fn wrong(&self, name: &str, arg: &Arg) -> ! {
        panic!(
            "`{}` asks for `{name}` as another kind: {arg:?}",
            self.op.name
        )
    }

    /// Whether the argument was given (or has a default).
    pub fn has(&self, name: &str) -> bool {
        *self.arg(name) != Arg::Absent
    }

    /// A tensor that is always there.
    pub fn tensor(&self, name: &str) -> &'a TensorType {
        match self.arg(name) {
            Arg::Tensor(t) => t,
            other => self.wrong(name, other),
        }
    }

    /// A tensor that may have been left out.
    pub fn tensor_opt(&self, name: &str) -> Option<&'a TensorType> {
        match self.arg(name) {
            Arg::Absent => None,
            Arg::Tensor(t) => Some(t),
            other => self.wrong(name, other),
        }
    }

    /// A list of tensors, never empty.
    pub fn tensors(&self, name: &str) -> &'a [TensorType] {
        match self.arg(name) {
            Arg::Tensors(t) => t,
            other => self.wrong(name, other),
        }
    }

    /// An integer, which may be symbolic.
    pub fn size(&self, name: &str) -> &'a Size {
        match self.arg(name) {
            Arg::Int(n) => n,
            other => self.wrong(name, other),
        }
    }

    /// An integer that may be symbolic, or `None` where left out.
    pub fn size_opt(&self, name: &str) -> Option<&'a Size> {
        match self.arg(name) {
            Arg::Absent => None,
            Arg::Int(n) => Some(n),
            other => self.wrong(name, other),
        }
    }

    /// An integer that must be known now; a rule error where it is symbolic.
    pub fn int(&self, name: &'static str) -> Result<i64, RuleError> {
        let size = self.size(name);
        size.value()
            .ok_or_else(|| RuleError::unknown_size(name, size))
    }

    /// An integer that must be known now, or `None` where left out.
    pub fn int_opt(&self, name: &'static str) -> Result<Option<i64>, RuleError> {
        let known = |s: &Size| s.value().ok_or_else(|| RuleError::unknown_size(name, s));
        self.size_opt(name).map(known).transpose()
    }

    /// A list of integers, or `None` where left out.
    pub fn sizes_opt(&self, name: &str) -> Option<&'a [Size]> {
        match self.arg(name) {
            Arg::Absent => None,
            Arg::Ints(n) => Some(n),
            other => self.wrong(name, other),
        }
    }

    /// A list of integers.
    pub fn sizes(&self, name: &str) -> &'a [Size] {
        match self.arg(name) {
            Arg::Ints(n) => n,
            other => self.wrong(name, other),
        }
    }

    /// A list of integers that must be known now, or `None` where left out.
    pub fn ints_opt(&self, name: &'static str) -> Result<Option<Vec<i64>>, RuleError> {
        let Some(sizes) = self.sizes_opt(name) else {
            return Ok(None);
        };
        let known = |s: &Size| s.value().ok_or_else(|| RuleError::unknown_size(name, s));
        sizes.iter().map(known).collect::<Result<_, _>>().map(Some)
    }

    /// A list of integers that must be known now.
    pub fn ints(&self, name: &'static str) -> Result<Vec<i64>, RuleError> {
        match self.ints_opt(name)? {
            Some(ints) => Ok(ints),
            None => self.wrong(name, &Arg::Absent),
        }
    }

    /// A list of pairs, or `None` where left out.
    pub fn pairs_opt(&self, name: &str) -> Option<&'a [(Size, Size)]> {
        match self.arg(name) {
            Arg::Absent => None,
            Arg::Pairs(p) => Some(p),
            other => self.wrong(name, other),
        }
    }

    /// A list of pairs.
    pub fn pairs(&self, name: &str) -> &'a [(Size, Size)] {
        match self.arg(name) {
            Arg::Pairs(p) => p,
            other => self.wrong(name, other),
        }
    }

    /// A float.
    pub fn float(&self, name: &str) -> f64 {
        match self.arg(name) {
            Arg::Float(x) => *x,
            other => self.wrong(name, other),
        }
    }

    /// An integer or a float.
    pub fn number(&self, name: &str) -> Number<'a> {
        match self.arg(name) {
            Arg::Int(n) => Number::Int(n),
            Arg::Float(x) => Number::Float(*x),
            other => self.wrong(name, other),
        }
    }

    /// A boolean.
    pub fn bool(&self, name: &str) -> bool {
        match self.arg(name) {
            Arg::Bool(b) => *b,
            other => self.wrong(name, other),
        }
    }

    /// A string.
    pub fn word(&self, name: &str) -> &'a str {
        match self.arg(name) {
            Arg::Word(w) => w,
            other => self.wrong(name, other),
        }
    }

    /// An element type.
    pub fn dtype(&self, name: &str) -> DType {
        match self.arg(name) {
            Arg::DType(d) => *d,
            other => self.wrong(name, other),
        }
    }

    /// An element type, or `None` where left out.
    pub fn dtype_opt(&self, name: &str) -> Option<DType> {
        match self.arg(name) {
            Arg::Absent => None,
            Arg::DType(d) => Some(*d),
            other => self.wrong(name, other),
        }
    }

    /// The count that this call creates.
    pub fn count(&self) -> Count {
        Count(self.site.into())
    }

    /// The count of one of several results, where each has its own.
    pub fn count_of(&self, result: usize) -> Count {
        Count(format!("{}/{result}", self.site).into())
    }
}

/// Which precondition a call violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleErrorKind {
    /// Incompatible shapes.
    ShapeMismatch,
    /// Too many or too few dimensions.
    RankMismatch,
    /// An axis that the tensor does not have.
    AxisOutOfRange,
    /// A position outside the tensor.
    IndexOutOfRange,
    /// A value that the parameter does not take.
    BadValue,
    /// Incompatible element types.
    DtypeMismatch,
    /// More elements than a tensor may have.
    SizeOverflow,
    /// A size that becomes negative.
    NegativeSize,
    /// A size that must be known and is not.
    UnknownSize,
    /// Run-time counts that may differ, or a counted dimension where an exact one is needed.
    CountMismatch,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleError {
    /// Which precondition is violated.
    pub kind: RuleErrorKind,
    /// The fact, in lower case; the caller adds the types of the tensors involved.
    pub message: String,
    /// The parameter to point at, where it is one.
    pub param: Option<&'static str>,
    /// What to do.
    pub help: Option<String>,
}

impl RuleError {
    /// An error that concerns the call, not one parameter.
    pub fn new(kind: RuleErrorKind, message: impl Into<String>) -> RuleError {
        RuleError {
            kind,
            message: message.into(),
            param: None,
            help: None,
        }
    }

    /// This error, attributed to a parameter.
    pub fn at(mut self, param: &'static str) -> RuleError {
        self.param = Some(param);
        self
    }

    /// This error, with advice.
    pub fn help(mut self, help: impl Into<String>) -> RuleError {
        self.help = Some(help.into());
        self
    }

    /// A size that must be a number now.
    pub fn unknown_size(param: &'static str, size: &Size) -> RuleError {
        RuleError::new(
            RuleErrorKind::UnknownSize,
            format!("`{param}` must be known here, but `{size}` is not known until run time"),
        )
        .at(param)
    }

    /// A size or an element count that does not fit.
    pub fn overflow() -> RuleError {
        RuleError::new(
            RuleErrorKind::SizeOverflow,
            "the result has more elements than a tensor may have (2^40)",
        )
    }
}
