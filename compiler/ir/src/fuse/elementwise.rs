//! Which nodes are loops over elements.

use crate::graph::{Eval, Prim, Type};
use crate::ops::prims;
use crate::types::DType;

/// Whether a primitive computes each element of its result from the elements at the same place of its operands, whatever their type.
pub fn is_by_element(prim: &'static Prim) -> bool {
    match prim.eval {
        Eval::Float1(_)
        | Eval::Float2(_)
        | Eval::Test1(_)
        | Eval::Compare(..)
        | Eval::Bool2(_)
        | Eval::Number1(..)
        | Eval::Number2(..) => true,
        Eval::Whole(_) => {
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

/// Whether that is so, the primitive cannot fail, and works on types that machine code knows. Everything else is a routine.
pub fn is_elementwise(prim: &'static Prim, operands: &[&Type], result: &Type) -> bool {
    let known = |ty: &Type| {
        matches!(
            ty.dtype,
            DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::Bool
        )
    };
    if !operands
        .iter()
        .all(|ty| known(ty) && ty.shape == result.shape)
        || !known(result)
    {
        return false;
    }
    if operands.is_empty() || prim.name == "polygamma" {
        return false;
    }
    let float = operands.iter().all(|ty| ty.dtype.is_float());
    let safe = [
        &prims::ADD,
        &prims::SUBTRACT,
        &prims::MULTIPLY,
        &prims::MAXIMUM,
        &prims::MINIMUM,
    ];
    let may_fail = matches!(prim.eval, Eval::Number2(..)) && !float && !safe.contains(&prim);
    is_by_element(prim) && !may_fail
}

/// Whether an operation takes about as long as it takes to read a value from memory, so that doing it again costs no more than keeping
/// what it gave.
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
