//! Elementwise operations: which nodes can be fused into a loop, and which are cheap to rematerialize.

use crate::graph::{Eval, Prim, Type};
use crate::ops::prims;
use crate::types::DType;

/// Whether a primitive is elementwise: each element of its result is computed from the elements at the same position of its
/// operands, whatever their type.
pub fn is_elementwise(prim: &'static Prim) -> bool {
    match prim.eval {
        Eval::Float1(_)
        | Eval::Float2(_)
        | Eval::Test1(_)
        | Eval::Compare(..)
        | Eval::Bool2(_)
        | Eval::Number1(..)
        | Eval::Number2(..) => true,
        Eval::Tensors(_) => {
            let moves = [
                &prims::SELECT,
                &prims::CAST,
                &prims::LOGICAL_NOT,
                &prims::STOP_GRADIENT,
                &prims::STRAIGHT_THROUGH,
            ];
            moves.contains(&prim)
        }
    }
}

/// Whether a node can be fused into a loop: it is elementwise, cannot fail, and works on types that the code generator supports.
/// Everything else is a library call.
pub fn is_fusible(prim: &'static Prim, operands: &[&Type], result: &Type) -> bool {
    let supported = |ty: &Type| {
        matches!(
            ty.dtype,
            DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::Bool
        )
    };
    if !operands
        .iter()
        .all(|ty| supported(ty) && ty.shape == result.shape)
        || !supported(result)
    {
        return false;
    }
    if operands.is_empty() || prim.name == "polygamma" {
        return false;
    }
    let float = operands.iter().all(|ty| ty.dtype.is_float());
    let total = [
        &prims::ADD,
        &prims::SUBTRACT,
        &prims::MULTIPLY,
        &prims::MAXIMUM,
        &prims::MINIMUM,
    ];
    let may_fail = matches!(prim.eval, Eval::Number2(..)) && !float && !total.contains(&prim);
    is_elementwise(prim) && !may_fail
}

/// Whether an operation is cheap to rematerialize: it takes about as long as a load from memory, so that recomputing the result costs
/// no more than storing it.
pub fn is_cheap(prim: &Prim) -> bool {
    let cheap = [
        &prims::ADD,
        &prims::SUBTRACT,
        &prims::MULTIPLY,
        &prims::NEGATIVE,
        &prims::ABS,
        &prims::MAXIMUM,
        &prims::MINIMUM,
        &prims::SELECT,
        &prims::CAST,
        &prims::STOP_GRADIENT,
        &prims::STRAIGHT_THROUGH,
        &prims::EQUAL,
        &prims::NOT_EQUAL,
        &prims::LESS,
        &prims::LESS_EQUAL,
        &prims::GREATER,
        &prims::GREATER_EQUAL,
        &prims::LOGICAL_AND,
        &prims::LOGICAL_OR,
        &prims::LOGICAL_NOT,
    ];
    cheap.iter().any(|own| own.name == prim.name)
}
