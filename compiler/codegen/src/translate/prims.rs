//! Lane operations for primitives on floats and bools: one definition for the Cranelift lowering and the AVX2 emitter.

use trainspec_ir::DType;
use trainspec_ir::graph::Prim;
use trainspec_ir::kernel::Combine;

use crate::math::{self, Emit, Function};

/// An operand: its lanes, and its value where it is a compile-time constant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand<T> {
    /// The lanes.
    pub lanes: T,
    /// The constant.
    pub known: Option<f64>,
}

/// The inlined function of a primitive, where it covers all arguments; sines of huge arguments need a call.
pub(crate) fn inline_function(name: &str) -> Option<Function> {
    Function::of(name).filter(|f| !has_limited_range(*f))
}

/// Whether the inlined code of a function is valid up to some magnitude only.
fn has_limited_range(function: Function) -> bool {
    [Function::Sin, Function::Cos, Function::Tan].contains(&function)
}

/// The value of an inlined function of limited range, and the mask of the lanes that need a call.
pub(crate) fn inline_in_range<T: Copy, E: Emit<V = T, I = T, M = T>>(
    e: &mut E,
    prim: &Prim,
    x: T,
) -> Option<(T, T)> {
    let function = Function::of(prim.name).filter(|f| has_limited_range(*f))?;
    let value = math::emit(e, function, &[x]);
    let out_of_range = math::needs_call(e, function, &[x])?;
    Some((value, out_of_range))
}

/// Whether [`apply`] supports a primitive on operands of these types.
pub(crate) fn is_supported(prim: &Prim, from: DType, to: DType) -> bool {
    let float_or_bool = |d: DType| d.is_float() || d == DType::Bool;
    if !float_or_bool(from) || !float_or_bool(to) {
        return false;
    }
    match prim.name {
        "add" | "subtract" | "multiply" | "divide" | "negative" | "abs" | "maximum" | "minimum"
        | "is_nan" | "is_finite" => from.is_float(),
        "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal"
        | "logical_and" | "logical_or" | "logical_not" | "select" | "stop_gradient"
        | "straight_through" => true,
        "cast" => from == to || from == DType::Bool || to == DType::Bool,
        name => from.is_float() && inline_function(name).is_some(),
    }
}

/// A primitive on floats or bools; `from` is the type of its first operand, `to` that of its result. `None` where lane operations
/// cannot express it.
pub(crate) fn apply<T: Copy, E: Emit<V = T, I = T, M = T>>(
    e: &mut E,
    prim: &Prim,
    operands: &[Operand<T>],
    from: DType,
    to: DType,
) -> Option<T> {
    if !is_supported(prim, from, to) {
        return None;
    }
    let x = |i: usize| operands[i].lanes;
    Some(match prim.name {
        "add" => e.add(x(0), x(1)),
        "subtract" => e.sub(x(0), x(1)),
        "multiply" => e.mul(x(0), x(1)),
        "divide" => e.div(x(0), x(1)),
        "negative" => e.neg(x(0)),
        "abs" => e.abs(x(0)),
        "maximum" => maximum(e, operands[0], operands[1]),
        "minimum" => minimum(e, operands[0], operands[1]),
        "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal" => {
            match from.is_float() {
                true => compare(e, prim.name, x(0), x(1)),
                false => compare_bools(e, prim.name, x(0), x(1)),
            }
        }
        "is_nan" => e.unordered(x(0), x(0)),
        "is_finite" => {
            let (size, infinity) = (e.abs(x(0)), e.float(f64::INFINITY));
            e.lt(size, infinity)
        }
        "logical_and" => e.mask_and(x(0), x(1)),
        "logical_or" => e.mask_or(x(0), x(1)),
        "logical_not" => e.mask_not(x(0)),
        "select" if to == DType::Bool => {
            let (yes, not) = (e.mask_and(x(0), x(1)), e.mask_not(x(0)));
            let no = e.mask_and(not, x(2));
            e.mask_or(yes, no)
        }
        "select" => e.select(x(0), x(1), x(2)),
        "stop_gradient" | "straight_through" => x(0),
        "cast" if from == to => x(0),
        "cast" if to == DType::Bool => {
            let zero = e.float(0.0);
            let is = e.eq(x(0), zero);
            e.mask_not(is)
        }
        "cast" => {
            let (zero, one) = (e.float(0.0), e.float(1.0));
            e.select(x(0), one, zero)
        }
        name => {
            let function = inline_function(name)?;
            let lanes: Vec<T> = operands.iter().map(|o| o.lanes).collect();
            math::emit(e, function, &lanes)
        }
    })
}

/// The combining operation of a reduction.
pub(crate) fn combine<T: Copy, E: Emit<V = T, I = T, M = T>>(
    e: &mut E,
    how: Combine,
    x: T,
    y: T,
) -> T {
    let (a, b) = (
        Operand {
            lanes: x,
            known: None,
        },
        Operand {
            lanes: y,
            known: None,
        },
    );
    match how {
        Combine::Sum => e.add(x, y),
        Combine::Prod => e.mul(x, y),
        Combine::Max => maximum(e, a, b),
        Combine::Min => minimum(e, a, b),
    }
}

fn compare<T: Copy, E: Emit<V = T, I = T, M = T>>(e: &mut E, name: &str, x: T, y: T) -> T {
    match name {
        "equal" => e.eq(x, y),
        "not_equal" => {
            let equal = e.eq(x, y);
            e.mask_not(equal)
        }
        "less" => e.lt(x, y),
        "less_equal" => e.le(x, y),
        "greater" => e.lt(y, x),
        _ => e.le(y, x),
    }
}

/// Comparison of bools; false is less than true.
fn compare_bools<T: Copy, E: Emit<V = T, I = T, M = T>>(e: &mut E, name: &str, x: T, y: T) -> T {
    let (not_x, not_y) = (e.mask_not(x), e.mask_not(y));
    match name {
        "less" => e.mask_and(not_x, y),
        "greater" => e.mask_and(x, not_y),
        "less_equal" => e.mask_or(not_x, y),
        "greater_equal" => e.mask_or(x, not_y),
        _ => {
            let (less, greater) = (e.mask_and(not_x, y), e.mask_and(x, not_y));
            let differ = e.mask_or(less, greater);
            match name {
                "not_equal" => differ,
                _ => e.mask_not(differ),
            }
        }
    }
}

/// IEEE 754-2019 maximum: propagates NaN, and 0 is greater than -0.
fn maximum<T: Copy, E: Emit<V = T, I = T, M = T>>(e: &mut E, x: Operand<T>, y: Operand<T>) -> T {
    if let Some((bound, c, other)) = constant_operand(x, y) {
        let below = e.lt(other, bound);
        let larger = e.select(below, bound, other);
        // -0 becomes 0, nothing else changes.
        return match c == 0.0 && c.is_sign_positive() {
            true => e.add(larger, bound),
            false => larger,
        };
    }
    let (x, y) = (x.lanes, y.lanes);
    let (above, below) = (e.lt(y, x), e.lt(x, y));
    let (a, b) = (e.select(above, x, y), e.select(below, y, x));
    let (a, b) = (e.bits(a), e.bits(b));
    // The two differ where x and y are zeros of either sign.
    let both = e.iand(a, b);
    let larger = e.bits_to_float(both);
    let (nan, sum) = (e.unordered(x, y), e.add(x, y));
    e.select(nan, sum, larger)
}

/// IEEE 754-2019 minimum: propagates NaN, and -0 is less than 0.
fn minimum<T: Copy, E: Emit<V = T, I = T, M = T>>(e: &mut E, x: Operand<T>, y: Operand<T>) -> T {
    if let Some((bound, c, other)) = constant_operand(x, y)
        && !(c == 0.0 && c.is_sign_negative())
    {
        let above = e.lt(bound, other);
        return e.select(above, bound, other);
    }
    let (x, y) = (x.lanes, y.lanes);
    let (below, above) = (e.lt(x, y), e.lt(y, x));
    let (a, b) = (e.select(below, x, y), e.select(above, y, x));
    let (a, b) = (e.bits(a), e.bits(b));
    let both = e.ior(a, b);
    let smaller = e.bits_to_float(both);
    let (nan, sum) = (e.unordered(x, y), e.add(x, y));
    e.select(nan, sum, smaller)
}

/// The constant operand with its value, and the other one.
fn constant_operand<T: Copy>(x: Operand<T>, y: Operand<T>) -> Option<(T, f64, T)> {
    let known = |o: Operand<T>| o.known.filter(|c| !c.is_nan());
    match (known(x), known(y)) {
        (_, Some(c)) => Some((y.lanes, c, x.lanes)),
        (Some(c), None) => Some((x.lanes, c, y.lanes)),
        (None, None) => None,
    }
}
