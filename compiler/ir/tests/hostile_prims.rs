//! Fuzz test of primitives: no operands or attributes make type inference panic, and what it accepts can be evaluated, to
//! results of the inferred types or to an error.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Attr, Eval, Prim, PrimCall, Type, verify};
use trainspec_ir::ops::PRIMS;
use trainspec_ir::{DType, Tensor, interp};
use trainspec_testing::prim_calls::random_call;
use trainspec_testing::xorshift::XorShift;

const ITERATIONS: usize = 10_000;

#[test]
fn type_inference_never_panics() {
    let sizes = [0, 1, 2, 3, 1 << 20, 1 << 40, usize::MAX / 2, usize::MAX];
    for prim in PRIMS {
        let mut draw = XorShift::new(1);
        for _ in 0..ITERATIONS {
            let (types, attrs) = random_call(&mut draw, prim, &sizes);
            let operands: Vec<&Type> = types.iter().collect();
            let call = PrimCall {
                prim,
                operands: &operands,
                attrs: &attrs,
            };
            let Ok(results) = catch_unwind(AssertUnwindSafe(|| (prim.infer)(&call))) else {
                panic!("`{}` panics on {types:?} {attrs:?}", prim.name);
            };
            // Operands that are not too large have results that are not.
            if !types.iter().all(exists) {
                continue;
            }
            for ty in results.iter().flatten() {
                let what = format!("`{}` makes {ty} of {types:?} {attrs:?}", prim.name);
                assert!(ty.dtype != DType::String && exists(ty), "{what}");
            }
        }
    }
}

fn exists(ty: &Type) -> bool {
    let mut sizes = ty.shape.iter().filter(|n| **n != 0);
    let product = sizes.try_fold(1_usize, |all, n| all.checked_mul(*n));
    product.is_some_and(|n| n <= 1 << 40)
}

#[test]
fn what_type_inference_accepts_is_evaluated() {
    for prim in PRIMS {
        let mut draw = XorShift::new(7);
        for _ in 0..ITERATIONS {
            let (types, attrs) = random_call(&mut draw, prim, &[0, 1, 1, 2, 3, 4]);
            let operands: Vec<&Type> = types.iter().collect();
            let call = PrimCall {
                prim,
                operands: &operands,
                attrs: &attrs,
            };
            if !takes(prim, types.len()) || (prim.infer)(&call).is_err() {
                continue;
            }
            let tensors: Vec<Tensor> = types.iter().map(|ty| tensor(&mut draw, ty)).collect();
            let run = || run(prim, &attrs, &tensors);
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                panic!("`{}` panics on {tensors:?} {attrs:?}", prim.name);
            }
        }
    }
}

/// Whether the evaluation of the primitive takes that many operands.
fn takes(prim: &Prim, operands: usize) -> bool {
    match prim.eval {
        Eval::Float1(_) | Eval::Number1(..) | Eval::Test1(_) => operands == 1,
        Eval::Float2(_) | Eval::Number2(..) | Eval::Compare(..) | Eval::Bool2(_) => operands == 2,
        Eval::Tensors(_) => true,
    }
}

fn run(prim: &'static Prim, attrs: &[Attr], tensors: &[Tensor]) {
    let b = Builder::new("one primitive");
    let mut fed = BTreeMap::new();
    let mut operands: Vec<Value<'_>> = Vec::new();
    for (i, tensor) in tensors.iter().enumerate() {
        operands.push(b.input(&i.to_string(), &tensor.ty()));
        fed.insert(i.to_string(), tensor.clone());
    }
    for result in b.prim(prim, &operands, attrs.to_vec()) {
        b.result("", result);
    }
    let graph = b.finish();
    verify(&graph).expect("the builder keeps the rules");
    if let Ok(outcome) = interp::run(&graph, &fed, &[]) {
        let found = outcome.results.iter().map(Tensor::ty);
        let expected = graph.results.iter().map(|(_, v)| graph.ty(*v).clone());
        assert!(found.eq(expected));
    }
}

fn tensor(draw: &mut XorShift, ty: &Type) -> Tensor {
    let numbers = [0, 1, 2, -1, 3, 1, 0, 2, i64::MIN, i64::MAX];
    let floats = [0.0, -0.0, 1.0, 2.5, -3.0, f64::NAN, f64::INFINITY, 1e300];
    let n = ty.elements();
    match ty.dtype.is_float() {
        true => Tensor::from_f64s(ty, (0..n).map(|_| draw.pick(&floats))),
        false => Tensor::from_i64s(ty, (0..n).map(|_| draw.pick(&numbers))),
    }
}
