//! Validation of ranks, dimensions and sizes, with the error messages.

use std::fmt::Display;

use crate::ops::op::{Call, RuleError, RuleErrorKind};
use crate::size::Size;
use crate::types::{Dim, Shape, TensorType};

/// The maximum number of tensors one operation may produce: more is a mistake, and would only exhaust memory.
pub(in crate::ops) const MAX_OUTPUT_TENSORS: i64 = 1 << 16;

/// `2 dimensions`, `1 dimension`, `no dimensions`.
pub(in crate::ops) fn dimensions(rank: usize) -> String {
    match rank {
        0 => "no dimensions".to_owned(),
        1 => "1 dimension".to_owned(),
        n => format!("{n} dimensions"),
    }
}

/// The parameter must have just `rank` dimensions.
pub(in crate::ops) fn exact_rank(
    call: &Call<'_>,
    param: &'static str,
    rank: usize,
) -> Result<(), RuleError> {
    let found = call.tensor(param).rank();
    if found == rank {
        return Ok(());
    }
    Err(wrong_rank(param, &dimensions(rank), found))
}

/// The parameter must have at least `rank` dimensions.
pub(in crate::ops) fn min_rank(
    call: &Call<'_>,
    param: &'static str,
    rank: usize,
) -> Result<(), RuleError> {
    let found = call.tensor(param).rank();
    if found >= rank {
        return Ok(());
    }
    let expected = format!("at least {}", dimensions(rank));
    Err(wrong_rank(param, &expected, found))
}

/// The dimensions of a parameter that must have just `N`.
pub(in crate::ops) fn dims<'a, const N: usize>(
    call: &Call<'a>,
    param: &'static str,
) -> Result<&'a [Dim; N], RuleError> {
    let found = call.tensor(param);
    let wrong = |_| wrong_rank(param, &dimensions(N), found.rank());
    found.shape.0.as_slice().try_into().map_err(wrong)
}

fn wrong_rank(param: &'static str, expected: &str, found: usize) -> RuleError {
    RuleError::new(
        RuleErrorKind::RankMismatch,
        format!(
            "`{param}` must have {expected}, but has {}",
            dimensions(found)
        ),
    )
    .at(param)
}

/// A list must have just `expected` entries, `why` being what there is one for each of.
pub(in crate::ops) fn length(
    param: &'static str,
    found: usize,
    expected: usize,
    why: &str,
) -> Result<(), RuleError> {
    if found == expected {
        return Ok(());
    }
    Err(RuleError::new(
        RuleErrorKind::BadValue,
        format!("`{param}` needs {expected} entries, one for each {why}, but has {found}"),
    )
    .at(param))
}

/// Two dimensions must have one extent; `what` names them in the plural.
pub(in crate::ops) fn same_dim(what: impl Display, p: &Dim, q: &Dim) -> Result<(), RuleError> {
    if p == q {
        return Ok(());
    }
    if p.size == q.size {
        return Err(RuleError::new(
            RuleErrorKind::CountMismatch,
            format!(
                "{what} hold at most {} each, but their counts may differ ({p} and {q})",
                p.size
            ),
        ));
    }
    Err(RuleError::new(
        RuleErrorKind::ShapeMismatch,
        format!("{what} differ: {p} and {q}"),
    ))
}

/// The dimensions of `short` must be the first ones of `long`; gives those of `long` after them.
pub(in crate::ops) fn prefix<'a>(
    (short_name, short): (&'static str, &TensorType),
    (long_name, long): (&'static str, &'a TensorType),
) -> Result<&'a [Dim], RuleError> {
    if short.rank() > long.rank() {
        return Err(RuleError::new(
            RuleErrorKind::RankMismatch,
            format!(
                "`{short_name}` has {}, `{long_name}` only {}",
                dimensions(short.rank()),
                dimensions(long.rank())
            ),
        )
        .at(short_name));
    }
    let (head, tail) = long.shape.0.split_at(short.rank());
    for (i, (p, q)) in head.iter().zip(&short.shape.0).enumerate() {
        let what = format!("dimensions {i} of `{long_name}` and `{short_name}`");
        same_dim(what, p, q)?;
    }
    Ok(tail)
}

/// A dimension whose extent must not depend on values.
pub(in crate::ops) fn exact_dim<'a>(
    param: &'static str,
    dim: &'a Dim,
) -> Result<&'a Size, RuleError> {
    match dim.count {
        None => Ok(&dim.size),
        Some(_) => Err(RuleError::new(
            RuleErrorKind::CountMismatch,
            format!("this dimension of `{param}` has a run-time count (`{dim}`), which is not possible here"),
        )
        .at(param)),
    }
}

/// An integer that must be `min` or more where it is known.
pub(in crate::ops) fn at_least(
    param: &'static str,
    min: i64,
    size: &Size,
) -> Result<(), RuleError> {
    match size.value() {
        Some(n) if n < min => Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("`{param}` must be {min} or more, but is {n}"),
        )
        .at(param)),
        _ => Ok(()),
    }
}

/// Whether the size is certainly negative.
pub(in crate::ops) fn known_negative(size: &Size) -> bool {
    size.value().is_some_and(|n| n < 0)
}

/// `size`, which must not be negative where it is known.
pub(in crate::ops) fn not_negative(what: &str, size: Option<Size>) -> Result<Size, RuleError> {
    let size = size.ok_or_else(RuleError::overflow)?;
    if known_negative(&size) {
        return Err(RuleError::new(
            RuleErrorKind::NegativeSize,
            format!("{what} would be {size}"),
        ));
    }
    Ok(size)
}

/// A shape given as a list of sizes.
pub(in crate::ops) fn exact_sizes(param: &'static str, sizes: &[Size]) -> Result<Shape, RuleError> {
    let mut dims = Vec::with_capacity(sizes.len());
    for (i, size) in sizes.iter().enumerate() {
        let size =
            not_negative(&format!("dimension {i}"), Some(size.clone())).map_err(|e| e.at(param))?;
        dims.push(Dim::exact(size));
    }
    Ok(Shape(dims))
}

/// A result whose number of elements fits.
pub(in crate::ops) fn fits(ty: TensorType) -> Result<Vec<TensorType>, RuleError> {
    if !ty.shape.fits() {
        return Err(RuleError::overflow());
    }
    Ok(vec![ty])
}
