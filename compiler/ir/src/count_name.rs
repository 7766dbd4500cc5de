//! Names of run-time counts of dynamic dimensions: `x#count`, or `x#count/0`, `x#count/1`, … where several dimensions of `x` have one.
//!
//! Counts travel beside their tensor, as inputs and as results; this is the one place that writes and reads their names.

use std::fmt;

/// The name of a run-time count.
///
/// ```
/// use trainspec_ir::CountName;
///
/// let names: Vec<String> = CountName::all("x", 2).map(|n| n.to_string()).collect();
/// assert_eq!(names, ["x#count/0", "x#count/1"]);
/// assert_eq!(CountName::parse("x#count").map(|n| n.of), Some("x"));
/// assert_eq!(CountName::parse("x"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountName<'a> {
    /// The name of the tensor.
    pub of: &'a str,
    /// Which of its counts, where it has several.
    pub index: Option<usize>,
}

impl<'a> CountName<'a> {
    const SUFFIX: &'static str = "#count";

    /// The names of all `n` counts of a tensor.
    pub fn all(of: &'a str, n: usize) -> impl Iterator<Item = CountName<'a>> {
        (0..n).map(move |i| CountName {
            of,
            index: (n > 1).then_some(i),
        })
    }

    /// The parts of a name; `None` where it is not that of a count.
    pub fn parse(name: &'a str) -> Option<CountName<'a>> {
        let (of, rest) = name.split_once(CountName::SUFFIX)?;
        let index = match rest {
            "" => None,
            rest => Some(rest.strip_prefix('/')?.parse().ok()?),
        };
        Some(CountName { of, index })
    }
}

impl fmt::Display for CountName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.of, CountName::SUFFIX)?;
        match self.index {
            Some(i) => write!(f, "/{i}"),
            None => Ok(()),
        }
    }
}
