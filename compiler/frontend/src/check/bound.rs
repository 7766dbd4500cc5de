//! A setting whose arguments are bound to the parameters of its signature: what the conversions into typed settings read.

use trainspec_ir::Span;

use crate::builtins::SettingSignature;
use crate::check::value::Value;
use crate::check::warm_start::StrPairs;
use crate::typed::{Interval, Named, Rate, WarmStartVars};

/// A setting with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub signature: &'static SettingSignature,
    /// The given arguments, all required ones among them.
    pub arguments: Vec<BoundArgument>,
    /// The span of the word.
    pub span: Span,
}

/// An argument of a setting.
#[derive(Debug, Clone)]
pub(crate) struct BoundArgument {
    pub name: &'static str,
    pub value: ArgumentValue,
    /// The span of the value.
    pub span: Span,
}

/// The value of an argument, of the kind that its parameter has.
#[derive(Debug, Clone)]
pub(crate) enum ArgumentValue {
    Int(i64),
    Float(f64),
    Rate(Rate),
    Ints(Vec<i64>),
    Bool(bool),
    Keyword(&'static str),
    Str(String),
    /// Each with its span.
    Strings(Vec<(String, Span)>),
    Interval(Interval),
    Name(String),
    Names(Vec<Named>),
    Pairs(StrPairs),
    Vars(WarmStartVars),
    Calls(Vec<Bound>),
    Init(Value),
}

impl Bound {
    fn find(&self, name: &str) -> Option<&BoundArgument> {
        debug_assert!(self.signature.params.iter().any(|p| p.name == name));
        self.arguments.iter().find(|a| a.name == name)
    }

    /// An argument, where it is given.
    ///
    /// # Panics
    ///
    /// When the parameter has another kind.
    pub(crate) fn get<T: FromArgument>(&self, name: &str) -> Option<T> {
        let argument = self.find(name)?;
        let value = T::from_argument(&argument.value);
        Some(
            value.unwrap_or_else(|| {
                panic!("`{name}` of `{}` has another kind", self.signature.word)
            }),
        )
    }

    /// Whether an argument is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// An argument that is required.
    ///
    /// # Panics
    ///
    /// When the parameter has another kind, or is optional and not given.
    pub(crate) fn require<T: FromArgument>(&self, name: &str) -> T {
        let value = self.get(name);
        value.unwrap_or_else(|| panic!("`{name}` of `{}` is optional", self.signature.word))
    }

    /// An argument that is a keyword, by a table of its values.
    ///
    /// # Panics
    ///
    /// When the table lacks it.
    pub(crate) fn keyword<T: Copy>(&self, name: &str, values: &[(&str, T)]) -> Option<T> {
        let word: Keyword = self.get(name)?;
        let value = values.iter().find(|(w, _)| *w == word.0);
        Some(
            value
                .unwrap_or_else(|| panic!("`{}` has no meaning", word.0))
                .1,
        )
    }

    /// A number that is written as an integer.
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        i64::from_argument(&self.find(name)?.value)
    }

    /// The span of an argument's value; that of the setting where it is not given.
    pub(crate) fn span_of(&self, name: &str) -> Span {
        self.find(name).map_or(self.span, |argument| argument.span)
    }
}

/// A type that the value of an argument can be read as.
pub(crate) trait FromArgument: Sized {
    fn from_argument(value: &ArgumentValue) -> Option<Self>;
}

/// One of the keywords of a parameter.
pub(crate) struct Keyword(&'static str);

macro_rules! from_argument {
    ($($ty:ty: $pattern:pat => $value:expr,)*) => {
        $(impl FromArgument for $ty {
            fn from_argument(value: &ArgumentValue) -> Option<Self> {
                match value {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        })*
    };
}

from_argument! {
    i64: ArgumentValue::Int(n) => *n,
    bool: ArgumentValue::Bool(flag) => *flag,
    Keyword: ArgumentValue::Keyword(word) => Keyword(word),
    Rate: ArgumentValue::Rate(rate) => *rate,
    Vec<i64>: ArgumentValue::Ints(list) => list.clone(),
    Vec<(String, Span)>: ArgumentValue::Strings(list) => list.clone(),
    Interval: ArgumentValue::Interval(interval) => *interval,
    Vec<Named>: ArgumentValue::Names(names) => names.clone(),
    StrPairs: ArgumentValue::Pairs(pairs) => pairs.clone(),
    WarmStartVars: ArgumentValue::Vars(vars) => vars.clone(),
    Vec<Bound>: ArgumentValue::Calls(calls) => calls.clone(),
    Value: ArgumentValue::Init(value) => value.clone(),
}

/// A count, which is at least 1.
impl FromArgument for u64 {
    fn from_argument(value: &ArgumentValue) -> Option<u64> {
        match value {
            ArgumentValue::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }
}

impl FromArgument for f64 {
    fn from_argument(value: &ArgumentValue) -> Option<f64> {
        match value {
            ArgumentValue::Int(n) => Some(*n as f64),
            ArgumentValue::Float(x) => Some(*x),
            _ => None,
        }
    }
}

impl FromArgument for String {
    fn from_argument(value: &ArgumentValue) -> Option<String> {
        match value {
            ArgumentValue::Str(text) | ArgumentValue::Name(text) => Some(text.clone()),
            _ => None,
        }
    }
}
