//! Feeds: random values for the inputs and the state of a graph.

use std::collections::BTreeMap;

use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Tensor};

use crate::xorshift::XorShift;

/// The feeds of a run: inputs and initial state.
#[derive(Debug, Clone, PartialEq)]
pub struct Feeds {
    /// The inputs by name.
    pub inputs: BTreeMap<String, Tensor>,
    /// The state, in the order of the graph.
    pub state: Vec<Tensor>,
}

/// The distribution of the fed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedKind {
    /// Floats uniform in [-2, 2), integers of one digit.
    Uniform,
    /// Multiples of 0.5, so that there are ties.
    Ties,
    /// Limits of integer types, zeros of both signs, infinities and NaN among others.
    SpecialValues,
}

/// Values for a graph; a few seeds give special ones.
pub fn feeds(graph: &Graph, seed: u64) -> Feeds {
    let mut numbers = XorShift::new(seed);
    let kind = match seed % 16 {
        13 | 14 => FeedKind::Ties,
        15 => FeedKind::SpecialValues,
        _ => FeedKind::Uniform,
    };
    let inputs = graph
        .inputs()
        .map(|(name, v)| (name.to_owned(), tensor(graph.ty(v), kind, &mut numbers)))
        .collect();
    let state = graph
        .state
        .iter()
        .map(|piece| tensor(&piece.ty, kind, &mut numbers))
        .collect();
    Feeds { inputs, state }
}

fn tensor(ty: &Type, kind: FeedKind, numbers: &mut XorShift) -> Tensor {
    let n = ty.elements();
    if ty.dtype.is_float() {
        let values: Vec<f64> = (0..n).map(|_| float(kind, numbers)).collect();
        return Tensor::from_f64s(ty, values);
    }
    let (min, max) = ty.dtype.int_range().unwrap_or((0, 1));
    let integer = |numbers: &mut XorShift| match ty.dtype {
        DType::Bool => (numbers.below(2)) as i64,
        _ if kind == FeedKind::SpecialValues && numbers.below(6) == 0 => {
            [min, max, 0, -1, min + 1][numbers.below(5) as usize]
        }
        _ => numbers.below(19) as i64 - 9,
    };
    let values: Vec<i64> = (0..n).map(|_| integer(numbers)).collect();
    Tensor::from_i64s(ty, values)
}

fn float(kind: FeedKind, numbers: &mut XorShift) -> f64 {
    match kind {
        FeedKind::Uniform => numbers.unit() * 2.0,
        FeedKind::Ties => numbers.below(9) as f64 * 0.5 - 2.0,
        FeedKind::SpecialValues if numbers.below(6) == 0 => {
            let special = [
                0.0,
                -0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                // Small enough that sums of products do not lose all digits.
                1e4,
                -300.0,
                // Products with it are denormal, which flush-to-zero (FTZ) makes zero. Denormal inputs may be read as they are or
                // as zero, so there are none.
                1e-37,
            ];
            special[numbers.below(special.len() as u64) as usize]
        }
        FeedKind::SpecialValues => numbers.unit() * 2.0,
    }
}
