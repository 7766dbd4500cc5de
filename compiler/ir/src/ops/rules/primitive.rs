//! Type inference of primitives over static shapes: arity, element classes and elementwise results.

use crate::graph::{Eval, PrimCall, Type};
use crate::types::{Class, DType};

/// Operands of one type, whose elements are floats: the result is like them.
pub(in crate::ops) fn floats(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    alike(call, Class::Float).map(|ty| vec![ty])
}

/// Operands of one type, whose elements are numbers: the result is like them.
pub(in crate::ops) fn numbers(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    alike(call, Class::Number).map(|ty| vec![ty])
}

/// Operands of one type: the result is like them.
pub(in crate::ops) fn anything(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    alike(call, Class::Any).map(|ty| vec![ty])
}

/// Boolean operands of one shape: the result is like them.
pub(in crate::ops) fn bools(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let ty = alike(call, Class::Any)?;
    match ty.dtype {
        DType::Bool => Ok(vec![ty]),
        other => Err(format!("the elements must be bool, not {other}")),
    }
}

/// Operands of floats of one type: the result is a boolean for each element.
pub(in crate::ops) fn float_predicates(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    alike(call, Class::Float).map(|ty| vec![ty.with_dtype(DType::Bool)])
}

/// Operands of one type: the result is a boolean for each element.
pub(in crate::ops) fn predicates(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    alike(call, Class::Any).map(|ty| vec![ty.with_dtype(DType::Bool)])
}

/// The type that all operands have, whose elements are of the class.
pub(in crate::ops) fn alike(call: &PrimCall<'_>, class: Class) -> Result<Type, String> {
    let expected = match call.prim.eval {
        Eval::Float1(_) | Eval::Number1(..) | Eval::Test1(_) => Some(1),
        Eval::Float2(_) | Eval::Number2(..) | Eval::Compare(..) | Eval::Bool2(_) => Some(2),
        Eval::Tensors(_) => None,
    };
    let found = call.operands.len();
    if let Some(expected) = expected.filter(|n| *n != found) {
        return Err(format!("there must be {expected} operands, not {found}"));
    }
    let Some(first) = call.operands.first() else {
        return Err("an operand is missing".to_owned());
    };
    if let Some(other) = call.operands.iter().find(|t| **t != *first) {
        return Err(format!(
            "the operands must be of one type, not {first} and {other}"
        ));
    }
    of_class(first, class)?;
    Ok((*first).clone())
}

/// Elements of a class; never strings, which are not computed with.
pub(in crate::ops) fn of_class(ty: &Type, class: Class) -> Result<(), String> {
    match class.contains(ty.dtype) && ty.dtype != DType::String {
        true => Ok(()),
        false => Err(format!(
            "the elements are {}, but must be {}",
            ty.dtype,
            class.name()
        )),
    }
}

/// Exactly N operands.
pub(in crate::ops) fn arity<'a, const N: usize>(
    call: &PrimCall<'a>,
) -> Result<[&'a Type; N], String> {
    call.operands
        .try_into()
        .map_err(|_| format!("there must be {N} operands, not {}", call.operands.len()))
}
