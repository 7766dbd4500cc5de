//! Integer primitives; integer lanes are as wide as the float lanes of their loop.

use trainspec_ir::DType;
use trainspec_ir::graph::Prim;

use super::block::{BinaryOp, Block, Op, UnaryOp, V};
use crate::math::{Emit, Lane};

/// A primitive that [`crate::translate::prims::apply`] does not support; `None` where there is no lane operation for it.
pub(super) fn apply(block: &mut Block, prim: &Prim, x: &[V], from: DType, to: DType) -> Option<V> {
    let is_int = |d: DType| matches!(d, DType::I32 | DType::I64);
    let zero = block.int(0);
    Some(match prim.name {
        "add" if is_int(from) => block.iadd(x[0], x[1]),
        "subtract" if is_int(from) => block.isub(x[0], x[1]),
        "multiply" if from == DType::I32 => block.binary(BinaryOp::IntMul, x[0], x[1]),
        "negative" if is_int(from) => block.isub(zero, x[0]),
        "abs" if is_int(from) => {
            let (below, minus) = (
                block.binary(BinaryOp::IntGreater, zero, x[0]),
                block.isub(zero, x[0]),
            );
            block.push(Op::Select(below, minus, x[0]))
        }
        "maximum" if is_int(from) => {
            let above = block.binary(BinaryOp::IntGreater, x[0], x[1]);
            block.push(Op::Select(above, x[0], x[1]))
        }
        "minimum" if is_int(from) => {
            let above = block.binary(BinaryOp::IntGreater, x[0], x[1]);
            block.push(Op::Select(above, x[1], x[0]))
        }
        "sign" if is_int(from) => {
            let (below, above) = (
                block.binary(BinaryOp::IntGreater, zero, x[0]),
                block.binary(BinaryOp::IntGreater, x[0], zero),
            );
            block.isub(below, above)
        }
        "equal" if is_int(from) => block.binary(BinaryOp::IntEqual, x[0], x[1]),
        "not_equal" if is_int(from) => {
            let equal = block.binary(BinaryOp::IntEqual, x[0], x[1]);
            block.mask_not(equal)
        }
        "greater" if is_int(from) => block.binary(BinaryOp::IntGreater, x[0], x[1]),
        "less" if is_int(from) => block.binary(BinaryOp::IntGreater, x[1], x[0]),
        "less_equal" if is_int(from) => {
            let above = block.binary(BinaryOp::IntGreater, x[0], x[1]);
            block.mask_not(above)
        }
        "greater_equal" if is_int(from) => {
            let below = block.binary(BinaryOp::IntGreater, x[1], x[0]);
            block.mask_not(below)
        }
        "select" => block.select(x[0], x[1], x[2]),
        "stop_gradient" | "straight_through" => x[0],
        "cast" if from == to => x[0],
        "cast" if to == DType::Bool => {
            let is = block.binary(BinaryOp::IntEqual, x[0], zero);
            block.mask_not(is)
        }
        "cast" if from == DType::Bool => {
            let one = block.int(1);
            block.binary(BinaryOp::And, x[0], one)
        }
        "cast" if (from, to) == (DType::I32, DType::F32) => {
            block.push(Op::Unary(UnaryOp::FromInt, x[0]))
        }
        "cast" if (from, to) == (DType::F32, DType::I32) => {
            // Saturating conversion: above the range gives `i32::MAX`, NaN gives 0.
            debug_assert_eq!(block.lane, Lane::F32);
            let bound = block.float(2_147_483_648.0);
            let (large, number) = (block.le(bound, x[0]), block.eq(x[0], x[0]));
            let plain = block.push(Op::Unary(UnaryOp::ToInt, x[0]));
            let bounded = block.binary(BinaryOp::Xor, plain, large);
            block.binary(BinaryOp::And, bounded, number)
        }
        _ => return None,
    })
}
