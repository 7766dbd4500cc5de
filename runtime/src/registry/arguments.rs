//! The arguments of what a program registers: constants of the spec, with the types that the program declares.

use trainspec_compiler::typed::{Constant, Interval, Registered};

use crate::{Code, Error};

/// A parameter of a registered hook or feed.
///
/// ```
/// use trainspec::registry::Parameter;
///
/// let parameters = [Parameter::required::<f64>("threshold"), Parameter::optional::<String>("metric")];
/// assert_eq!(parameters[0].to_string(), "threshold: a number");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    name: &'static str,
    type_name: &'static str,
    accepts: fn(&Constant) -> bool,
    is_required: bool,
}

impl Parameter {
    /// A parameter that the spec must give.
    pub fn required<T: Argument>(name: &'static str) -> Parameter {
        Parameter {
            name,
            type_name: T::TYPE_NAME,
            accepts: |constant| T::from_constant(constant).is_some(),
            is_required: true,
        }
    }

    /// A parameter that the spec may leave out.
    pub fn optional<T: Argument>(name: &'static str) -> Parameter {
        Parameter {
            is_required: false,
            ..Parameter::required::<T>(name)
        }
    }
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.type_name)
    }
}

/// A type that a constant of a spec can be read as: integers, numbers, bools, strings, intervals, and lists of them.
///
/// ```
/// use trainspec::registry::Argument;
///
/// assert_eq!(f64::TYPE_NAME, "a number");
/// assert_eq!(Vec::<i64>::TYPE_NAME, "a list");
/// ```
pub trait Argument: Sized {
    /// What errors call it.
    const TYPE_NAME: &'static str;

    /// The value; `None` where the constant has another type.
    fn from_constant(constant: &Constant) -> Option<Self>;
}

macro_rules! arguments {
    ($($ty:ty, $name:literal: { $($pattern:pat => $value:expr,)* })*) => {
        $(impl Argument for $ty {
            const TYPE_NAME: &'static str = $name;

            fn from_constant(constant: &Constant) -> Option<Self> {
                match constant {
                    $($pattern => $value,)*
                    _ => None,
                }
            }
        })*
    };
}

arguments! {
    i64, "an integer": { Constant::Int(n) => n.value(), }
    f64, "a number": {
        Constant::Float(x) => Some(*x),
        Constant::Int(n) => n.value().map(|n| n as f64),
    }
    bool, "a bool": { Constant::Bool(flag) => Some(*flag), }
    String, "a string": { Constant::Str(text) => Some(text.clone()), }
    Interval, "an interval": { Constant::Interval(interval) => Some(*interval), }
}

impl<T: Argument> Argument for Vec<T> {
    const TYPE_NAME: &'static str = "a list";

    fn from_constant(constant: &Constant) -> Option<Vec<T>> {
        match constant {
            Constant::List(list) => list.iter().map(T::from_constant).collect(),
            _ => None,
        }
    }
}

/// The arguments of a registered hook or feed, as the spec gives them.
///
/// ```
/// use trainspec::registry::Arguments;
/// use trainspec::{Code, Error};
///
/// fn threshold(arguments: &Arguments) -> Result<f64, Error> {
///     arguments.get("threshold")
/// }
/// assert_eq!(threshold(&Arguments::default()).unwrap_err().code(), Code::InvalidArgument);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments(Vec<(&'static str, Constant)>);

impl Arguments {
    /// An argument. Fails where it is left out, or was declared with another type.
    pub fn get<T: Argument>(&self, name: &str) -> Result<T, Error> {
        self.find(name)?.ok_or_else(|| {
            let message = format!("the spec gives no `{name}`");
            Error::new(Code::InvalidArgument, message)
        })
    }

    /// An argument that the spec may leave out.
    pub fn find<T: Argument>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some((_, constant)) = self.0.iter().find(|(known, _)| *known == name) else {
            return Ok(None);
        };
        match T::from_constant(constant) {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!("`{name}` is not {}", T::TYPE_NAME);
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    /// Binds what a spec gives to parameters; adds what is missing, superfluous or of another type to `problems`.
    pub(super) fn bind(
        what: &str,
        registered: &Registered,
        parameters: &[Parameter],
        problems: &mut Vec<String>,
    ) -> Arguments {
        let mut bound: Vec<(&'static str, Constant)> = Vec::new();
        for (key, constant) in &registered.arguments {
            let by_position = key.parse::<usize>().ok().and_then(|i| parameters.get(i));
            let by_name = || parameters.iter().find(|p| p.name == key);
            let Some(parameter) = by_position.or_else(by_name) else {
                problems.push(format!("{what} takes no argument `{key}`"));
                continue;
            };
            if bound.iter().any(|(known, _)| *known == parameter.name) {
                problems.push(format!("{what} is given `{}` twice", parameter.name));
            } else if !(parameter.accepts)(constant) {
                problems.push(format!("{what} takes `{parameter}`"));
            } else {
                bound.push((parameter.name, constant.clone()));
            }
        }
        let given = |parameter: &Parameter| {
            let keys = registered.arguments.iter().map(|(key, _)| key);
            let position = parameters.iter().position(|p| p.name == parameter.name);
            let position = position.map(|i| i.to_string());
            keys.into_iter()
                .any(|key| key == parameter.name || Some(key) == position.as_ref())
        };
        let required = parameters.iter().filter(|p| p.is_required);
        for parameter in required.filter(|p| !given(p)) {
            problems.push(format!("{what} lacks `{parameter}`"));
        }
        Arguments(bound)
    }
}
