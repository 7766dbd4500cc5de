//! Primitives on whole numbers, which are as wide as the floats of their loop.

use trainspec_ir::DType;
use trainspec_ir::graph::Prim;

use super::block::{Block, One, Op, Two, V};
use crate::math::{Emit, Lane};

/// A primitive that [`crate::translate::prims::apply`] does not know.
pub(super) fn apply(block: &mut Block, prim: &Prim, x: &[V], from: DType, to: DType) -> Option<V> {
    let whole = |d: DType| matches!(d, DType::I32 | DType::I64);
    let zero = block.int(0);
    Some(match prim.name {
        "add" if whole(from) => block.iadd(x[0], x[1]),
        "subtract" if whole(from) => block.isub(x[0], x[1]),
        "multiply" if from == DType::I32 => block.two(Two::IntMul, x[0], x[1]),
        "negative" if whole(from) => block.isub(zero, x[0]),
        "abs" if whole(from) => {
            let (below, minus) = (
                block.two(Two::IntGreater, zero, x[0]),
                block.isub(zero, x[0]),
            );
            block.push(Op::Select(below, minus, x[0]))
        }
        "maximum" if whole(from) => {
            let above = block.two(Two::IntGreater, x[0], x[1]);
            block.push(Op::Select(above, x[0], x[1]))
        }
        "minimum" if whole(from) => {
            let above = block.two(Two::IntGreater, x[0], x[1]);
            block.push(Op::Select(above, x[1], x[0]))
        }
        "sign" if whole(from) => {
            let (below, above) = (
                block.two(Two::IntGreater, zero, x[0]),
                block.two(Two::IntGreater, x[0], zero),
            );
            block.isub(below, above)
        }
        "equal" if whole(from) => block.two(Two::IntEqual, x[0], x[1]),
        "not_equal" if whole(from) => {
            let equal = block.two(Two::IntEqual, x[0], x[1]);
            block.negate(equal)
        }
        "greater" if whole(from) => block.two(Two::IntGreater, x[0], x[1]),
        "less" if whole(from) => block.two(Two::IntGreater, x[1], x[0]),
        "less_equal" if whole(from) => {
            let above = block.two(Two::IntGreater, x[0], x[1]);
            block.negate(above)
        }
        "greater_equal" if whole(from) => {
            let below = block.two(Two::IntGreater, x[1], x[0]);
            block.negate(below)
        }
        "select" => block.select(x[0], x[1], x[2]),
        "stop_gradient" | "straight_through" => x[0],
        "cast" if from == to => x[0],
        "cast" if to == DType::Bool => {
            let is = block.two(Two::IntEqual, x[0], zero);
            block.negate(is)
        }
        "cast" if from == DType::Bool => {
            let one = block.int(1);
            block.two(Two::And, x[0], one)
        }
        "cast" if (from, to) == (DType::I32, DType::F32) => block.push(Op::One(One::FromInt, x[0])),
        "cast" if (from, to) == (DType::F32, DType::I32) => {
            // What is too large is the largest, NaN is 0.
            debug_assert_eq!(block.lane, Lane::F32);
            let bound = block.float(2_147_483_648.0);
            let (large, number) = (block.le(bound, x[0]), block.eq(x[0], x[0]));
            let plain = block.push(Op::One(One::ToInt, x[0]));
            let bounded = block.two(Two::Xor, plain, large);
            block.two(Two::And, bounded, number)
        }
        _ => return None,
    })
}
