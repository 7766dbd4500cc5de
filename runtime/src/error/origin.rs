//! The first value that is not finite on the way to one that was checked: what it is, and what to do about it.

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::ir::interp::{FirstNotFinite, Flaw, FlawSource};
use trainspec_compiler::ir::{DType, Span};

use super::SourceLocation;

/// The first value that is not finite on the way to one that was checked.
///
/// ```
/// use trainspec::{Cause, Code, Error, Origin};
///
/// /// The row of the batch that made a loss infinite or NaN.
/// fn row(error: &Error) -> Option<usize> {
///     let Cause::NotFinite { origin: Some(origin), .. } = &error.cause else { return None };
///     let origin: &Origin = origin;
///     origin.row
/// }
/// assert_eq!(row(&Error::new(Code::Aborted, "a lost worker")), None);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The value: an input, a variable, or the result of an expression whose operands are all finite.
    pub first: FirstNotFinite,
    /// The micro-batch of the step, counted from 0.
    pub micro_batch: usize,
    /// The row of the batch that causes it, where one does: the checked value is finite with another row in its place.
    pub row: Option<usize>,
    /// The record of that row, where the data set knows it.
    pub record: Option<SourceLocation>,
}

impl Origin {
    /// The span of the expression, or that of the checked value where it has none.
    pub(super) fn span(&self, checked: Span) -> Span {
        match self.first.flaw.span == Span::default() {
            true => checked,
            false => self.first.flaw.span,
        }
    }

    /// Says what the first value is, where it comes from, and what to do.
    pub(super) fn describe(&self, diagnostic: Diagnostic, step: u64) -> Diagnostic {
        let flaw = &self.first.flaw;
        let is = match flaw.is_nan {
            true => "not a number",
            false => "infinite",
        };
        let at = match flaw.element.as_slice() {
            [] => String::new(),
            indices => format!(" at {indices:?}"),
        };
        let value = match &self.first.source {
            FlawSource::Input(name) => format!("the input `{name}` is {is}{at}"),
            FlawSource::State(name) => format!("`{name}` is {is}{at} before this step"),
            FlawSource::Constant => format!("a constant that is {is}{at}"),
            FlawSource::Operation(name) => format!("`{name}` of {} is {is}{at}", operands(flaw)),
        };
        let diagnostic = diagnostic
            .label(format!("the first value that is not finite: {value}"))
            .help(self.advice(step));
        match (&self.record, self.row) {
            (Some(record), _) => diagnostic.note(format!("caused by the record at {record}")),
            (None, Some(row)) => {
                diagnostic.note(format!("caused by row {row} of the batch, counted from 0"))
            }
            (None, None) => diagnostic,
        }
    }

    fn advice(&self, step: u64) -> String {
        let flaw = &self.first.flaw;
        match &self.first.source {
            FlawSource::Input(name) => {
                format!("look at the data of `{name}`, or replace such values with `map`")
            }
            FlawSource::State(name) if step <= 1 => {
                format!("give `{name}` an initial value that is finite")
            }
            FlawSource::State(name) => format!(
                "`{name}` was restored like this, or the update of the step before overflowed: a smaller learning rate or \
                 `clip global_norm(1.0);` may help"
            ),
            FlawSource::Constant => "replace it with a finite number".to_owned(),
            FlawSource::Operation(name) => match undefined(name, flaw) {
                Some(advice) => advice.to_owned(),
                None if flaw.is_nan => {
                    format!("`{name}` is not defined there: bound what it is given")
                }
                None => overflow(flaw.dtype, step),
            },
        }
    }
}

/// The operands of an elementwise operation, as numbers.
fn operands(flaw: &Flaw) -> String {
    if flaw.operands.is_empty() {
        return "finite numbers".to_owned();
    }
    let numbers = flaw.operands.iter();
    let numbers = numbers.map(|x| match x.abs() {
        y if y != 0.0 && !(1e-4..1e7).contains(&y) => format!("{:e}", *x as f32),
        _ => (*x as f32).to_string(),
    });
    numbers.collect::<Vec<String>>().join(" and ")
}

/// What to write instead of an operation outside its domain; `None` where it is none, but too large a number.
fn undefined(operation: &str, flaw: &Flaw) -> Option<&'static str> {
    let (first, last) = (flaw.operands.first()?, flaw.operands.last()?);
    match operation {
        "log" if *first <= 0.0 => {
            Some("`log` takes positive numbers: `log(maximum(x, 1e-6))` bounds x from below")
        }
        "log1p" if *first <= -1.0 => Some("`log1p` takes numbers above -1: bound its operand"),
        "sqrt" if *first < 0.0 => {
            Some("`sqrt` takes no negative numbers: `sqrt(maximum(x, 0.0))` bounds x from below")
        }
        "rsqrt" if *first <= 0.0 => {
            Some("`rsqrt` takes positive numbers: `rsqrt(x + 1e-6)` keeps x from 0")
        }
        "divide" if *last == 0.0 => {
            Some("`divide_no_nan(x, y)` is 0 where y is 0; `x / (y + 1e-6)` keeps y from 0")
        }
        "pow" if *first == 0.0 => Some("0 has no negative powers: keep the base from 0"),
        _ => None,
    }
}

/// What to do about finite numbers with an infinite result.
fn overflow(dtype: DType, step: u64) -> String {
    let largest = match dtype {
        DType::F16 => "65504",
        DType::F64 => "1.8e308",
        _ => "3.4e38",
    };
    let cause = match step {
        0 | 1 => {
            "the first step has no update before it, so scale the inputs, or choose smaller initial values"
        }
        _ => {
            "a smaller learning rate or `clip global_norm(1.0);` may keep it from growing, or smaller inputs"
        }
    };
    format!("{dtype} ends at {largest}: {cause}")
}
