//! Tensor contractions: matmul, einsum and tensordot.

use trainspec_ir::build::{Builder, CallArg, Value};
use trainspec_ir::ops::{Arg, RuleErrorKind};
use trainspec_ir::{DType, Tensor};

use crate::support::gradcheck;
use crate::support::graphs::{Feed, call, counting, f64s, gradient, int, ints, try_call, word};

fn flag<'g>(set: bool) -> CallArg<'g> {
    CallArg::Known(Arg::Bool(set))
}

/// The product of two tensors by an equation.
fn einsum<'g>(equation: &str, inputs: &[Value<'g>]) -> Value<'g> {
    let named = [
        ("equation", word(equation)),
        ("inputs", CallArg::Values(inputs.to_vec())),
    ];
    call(inputs[0].builder(), "einsum", &named)
}

#[test]
fn matrices_are_multiplied_in_all_four_layouts() {
    // [1 2 3; 4 5 6] @ [1 2; 3 4; 5 6]
    let product = [22.0, 28.0, 49.0, 64.0];
    let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let transposed_a = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    let transposed_b = [1.0, 3.0, 5.0, 2.0, 4.0, 6.0];
    for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = match transpose_a {
            true => f64s(&[3, 2], &transposed_a),
            false => f64s(&[2, 3], &a),
        };
        let y = match transpose_b {
            true => f64s(&[2, 3], &transposed_b),
            false => f64s(&[3, 2], &a),
        };
        let (x, y) = (feed.input(&b, x), feed.input(&b, y));
        let named = [
            ("a", x.into()),
            ("b", y.into()),
            ("transpose_a", flag(transpose_a)),
            ("transpose_b", flag(transpose_b)),
        ];
        let z = call(&b, "matmul", &named);
        assert_eq!(feed.f64s(&b, z), product);
        // dy is 1 everywhere: each gradient consists of the row or column sums of the other.
        let grad = feed.f64s(&b, gradient(&b, z, x));
        let of_a = [3.0, 7.0, 11.0, 3.0, 7.0, 11.0];
        let of_transposed_a = [3.0, 3.0, 7.0, 7.0, 11.0, 11.0];
        assert_eq!(grad, if transpose_a { of_transposed_a } else { of_a });
        let grad = feed.f64s(&b, gradient(&b, z, y));
        let of_b = [5.0, 5.0, 7.0, 7.0, 9.0, 9.0];
        let of_transposed_b = [5.0, 7.0, 9.0, 5.0, 7.0, 9.0];
        assert_eq!(grad, if transpose_b { of_transposed_b } else { of_b });
    }
}

#[test]
fn batches_are_broadcast() {
    let shapes: [(&[usize], &[usize]); 5] = [
        (&[2, 3, 2, 2], &[2, 2]),
        (&[2, 2], &[3, 2, 2]),
        (&[2, 1, 2, 2], &[3, 2, 2]),
        (&[3, 2, 2], &[3, 2, 2]),
        (&[1, 2, 2], &[2, 2]),
    ];
    for (left, right) in shapes {
        for turn in [false, true] {
            let (b, feed) = (Builder::new("t"), Feed::default());
            let x = feed.input(&b, counting(left));
            let y = feed.input(&b, counting(right));
            let named = [
                ("a", x.into()),
                ("b", y.into()),
                ("transpose_a", flag(turn)),
                ("transpose_b", flag(turn)),
            ];
            let z = call(&b, "matmul", &named);
            let order = if turn {
                "...ji,...kj->...ik"
            } else {
                "...ij,...jk->...ik"
            };
            let other = einsum(order, &[x, y]);
            assert_eq!(feed.f64s(&b, z), feed.f64s(&b, other));
            for input in [x, y] {
                let gradients = [z, other].map(|z| feed.f64s(&b, gradient(&b, z * z, input)));
                assert_eq!(gradients[0], gradients[1]);
            }
        }
    }
}

#[test]
fn integers_are_multiplied_and_wrap_around() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, Tensor::new(&[1, 2], vec![100_i8, 50]));
    let y = feed.input(&b, Tensor::new(&[2, 1], vec![2_i8, 2]));
    let z = feed.run(&b, &[x.matmul(y)]).unwrap().remove(0);
    assert_eq!((z.dtype(), z.to_i64s()), (DType::I8, vec![44]));
    let x = feed.input(&b, Tensor::new(&[1, 1], vec![i64::MAX]));
    let z = feed.run(&b, &[x.matmul(x)]).unwrap().remove(0);
    assert_eq!(z.to_i64s(), [1]);
}

#[test]
fn sums_of_products_are_rounded_once() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, Tensor::new(&[1, 3], vec![4096.0_f32, 1.0, -4096.0]));
    let y = feed.input(&b, Tensor::new(&[3, 1], vec![4096.0_f32, 1.0, 4096.0]));
    assert_eq!(feed.f64s(&b, x.matmul(y)), [1.0]);
}

#[test]
fn empty_contractions_are_zero() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2, 0], &[]));
    let y = feed.input(&b, f64s(&[0, 3], &[]));
    assert_eq!(feed.f64s(&b, x.matmul(y)), [0.0; 6]);
    assert_eq!(feed.f64s(&b, y.matmul_with(x, true, true)), [0.0; 6]);
    assert_eq!(feed.f64s(&b, einsum("ij,jk->ki", &[x, y])), [0.0; 6]);
    assert_eq!(feed.f64s(&b, einsum("ij->j", &[x])), [0.0; 0]);
    let none = feed.input(&b, f64s(&[0, 2, 2], &[]));
    assert_eq!(feed.f64s(&b, none.matmul(none)), [0.0; 0]);
    assert_eq!(feed.f64s(&b, gradient(&b, x.matmul(y), x)), [0.0; 0]);
}

#[test]
fn equations_say_what_is_summed() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3]));
    let y = feed.input(&b, f64s(&[3], &[1.0, 10.0, 100.0]));
    let z = feed.input(&b, f64s(&[2], &[1.0, -1.0]));
    let run = |equation: &str, inputs: &[Value<'_>]| {
        // The closure has one lifetime for all graphs, so the values come by number.
        let inputs: Vec<Value<'_>> = inputs.iter().map(|v| b.value(v.id())).collect();
        feed.f64s(&b, einsum(equation, &inputs))
    };
    assert_eq!(run("ij->ji", &[x]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(run("ij->", &[x]), [21.0]);
    assert_eq!(run("ij,j->i", &[x, y]), [321.0, 654.0]);
    assert_eq!(run("ij,j", &[x, y]), [321.0, 654.0]);
    assert_eq!(run("ij,j,i->", &[x, y, z]), [-333.0]);
    assert_eq!(
        run("i,j,ij->ji", &[z, y, x]),
        [1.0, -4.0, 20.0, -50.0, 300.0, -600.0]
    );
    assert_eq!(run("i,k->", &[z, y]), [0.0]);
    assert_eq!(run("i,k->k", &[y, z]), [111.0, -111.0]);
    assert_eq!(run("j,ij->ij", &[y, x]), run("ij,j->ij", &[x, y]));
    assert_eq!(
        run("i,j->ji", &[z, y]),
        [1.0, -1.0, 10.0, -10.0, 100.0, -100.0]
    );
    // `...` broadcasts, also where it stands for nothing.
    assert_eq!(run("...,...->...", &[x, y]), run("ij,j->ij", &[x, y]));
    let row = x.narrow(0, 0, 1);
    assert_eq!(
        run("a...,b...->ab...", &[row, x]),
        [1.0, 4.0, 9.0, 4.0, 10.0, 18.0]
    );
    assert_eq!(
        run("...j,...->...j", &[row, row.narrow(1, 2, 1)]),
        [3.0, 6.0, 9.0]
    );
}

#[test]
fn gradients_of_contractions_agree_with_finite_differences() {
    let x = f64s(&[2, 3], &[1.0, -2.0, 0.5, 3.0, 0.25, -1.5]);
    gradcheck::check(&x, |x| x.matmul_with(x, false, true));
    gradcheck::check(&x, |x| x.matmul_with(x.square(), true, false));
    for equation in [
        "ij,kj->ki",
        "ij,ij->i",
        "ij,kl->lj",
        "ij,ik,il->jkl",
        "ij,ik->",
    ] {
        gradcheck::check(&x, |x| {
            let inputs = vec![x; equation.matches(',').count() + 1];
            einsum(equation, &inputs)
        });
    }
}

#[test]
fn axes_are_summed_in_pairs() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3, 4]));
    let y = feed.input(&b, counting(&[4, 2, 3]));
    let named = [
        ("a", x.into()),
        ("b", y.into()),
        ("a_axes", ints(&[1, -1])),
        ("b_axes", ints(&[2, 0])),
    ];
    let z = call(&b, "tensordot", &named);
    let expected = einsum("ajk,kbj->ab", &[x, y]);
    assert_eq!(feed.f64s(&b, z), feed.f64s(&b, expected));
    let w = feed.input(&b, counting(&[3, 4, 2]));
    let dot = |axes: i64| {
        let named = [("a", x.into()), ("b", w.into()), ("axes", int(axes))];
        call(&b, "tensordot", &named)
    };
    let expected = einsum("ajk,jkb->ab", &[x, w]);
    assert_eq!(feed.f64s(&b, dot(2)), feed.f64s(&b, expected));
    let expected = einsum("abc,def->abcdef", &[x, w]);
    assert_eq!(feed.f64s(&b, dot(0)), feed.f64s(&b, expected));
    assert_eq!(dot(0).shape(), [2, 3, 4, 3, 4, 2]);
}

#[test]
fn products_that_are_too_large_on_the_way_are_refused() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(
        &b,
        Tensor::zeros(&trainspec_ir::graph::Type::new(DType::I8, &[1])),
    );
    let wide = x.broadcast(&[1 << 15]);
    let named = [
        ("equation", word("a,b,c,abc->")),
        (
            "inputs",
            CallArg::Values(vec![wide, wide, wide, x.reshape(&[1, 1, 1])]),
        ),
    ];
    assert!(try_call(&b, "einsum", &named).is_err());
    let cube = x
        .reshape(&[1, 1, 1])
        .broadcast(&[1 << 13, 1 << 13, 1 << 14]);
    let inputs = vec![cube, wide.narrow(0, 0, 1 << 13), x];
    let named = [
        ("equation", word("abc,a,d->bcd")),
        ("inputs", CallArg::Values(inputs)),
    ];
    assert!(try_call(&b, "einsum", &named).is_ok());
    let inputs = vec![cube, wide, cube];
    let named = [
        ("equation", word("abc,d,abc->d")),
        ("inputs", CallArg::Values(inputs)),
    ];
    let error = try_call(&b, "einsum", &named).unwrap_err();
    assert_eq!(error.kind, RuleErrorKind::SizeOverflow);
}
