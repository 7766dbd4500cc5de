//! Fuzz test of type inference: no argument makes it panic, and its result is always a shape that is not too large.

use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::ops::{Arg, Call, Elements, Kind, Op, Param, TABLE};
use trainspec_ir::{Class, Count, DType, Dim, Shape, Size, TensorType};

const ITERATIONS: usize = 4_000;

#[test]
fn no_rule_panics_on_hostile_arguments() {
    for op in TABLE {
        let mut draw = Lcg(1);
        let mut accepted = 0;
        for _ in 0..ITERATIONS {
            let dtype = [DType::F32, DType::I32][draw.below(2)];
            let args: Vec<Arg> = op
                .params
                .iter()
                .map(|p| argument(&mut draw, p, dtype))
                .collect();
            accepted += usize::from(check(op, &args));
        }
        assert!(accepted > 0, "`{}` never got anything it takes", op.name);
    }
}

/// Whether the call is accepted.
fn check(op: &'static Op, args: &[Arg]) -> bool {
    let call = || {
        (op.infer)(&Call {
            op,
            args,
            site: "site",
        })
    };
    let Ok(result) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("`{}` panics on {args:?}", op.name);
    };
    for ty in result.iter().flatten() {
        let negative = |d: &Dim| d.size.value().is_some_and(|n| n < 0);
        assert!(
            !ty.shape.0.iter().any(negative),
            "`{}` gives {ty} for {args:?}",
            op.name
        );
        assert!(
            ty.shape.elements().is_some(),
            "`{}` gives {ty} for {args:?}",
            op.name
        );
    }
    result.is_ok()
}

fn argument(draw: &mut Lcg, param: &Param, dtype: DType) -> Arg {
    if let Some(default) = param.default_arg()
        && draw.below(2) == 0
    {
        return default;
    }
    match param.kind {
        Kind::Tensor(elements) => Arg::Tensor(tensor(draw, elements, dtype)),
        Kind::Tensors(elements) => {
            let n = 1 + draw.below(3);
            Arg::Tensors((0..n).map(|_| tensor(draw, elements, dtype)).collect())
        }
        Kind::Int => Arg::Int(number(draw)),
        Kind::Ints => {
            let n = draw.below(6);
            Arg::Ints((0..n).map(|_| number(draw)).collect())
        }
        Kind::Pairs => {
            let n = draw.below(5);
            Arg::Pairs((0..n).map(|_| (number(draw), number(draw))).collect())
        }
        Kind::Float => Arg::Float(float(draw)),
        Kind::Number if draw.below(2) == 0 => Arg::Float(float(draw)),
        Kind::Number => Arg::Int(number(draw)),
        Kind::Bool => Arg::Bool(draw.below(2) == 0),
        Kind::Word(words) => Arg::Word(words[draw.below(words.len())].to_owned()),
        Kind::String => {
            let strings = [
                "",
                "->",
                "i->i",
                "i,i",
                "ij,jk->ik",
                "...i,i...->...",
                "é..,",
                "ijkl->",
                "......",
            ];
            Arg::Word(strings[draw.below(strings.len())].to_owned())
        }
        Kind::DType => Arg::DType(DType::ALL[draw.below(DType::ALL.len())]),
    }
}

fn tensor(draw: &mut Lcg, elements: Elements, dtype: DType) -> TensorType {
    let dtype = match elements {
        Elements::Only(only) => only,
        Elements::Of(class) | Elements::Same(_, class) => match class {
            Class::Float => DType::F32,
            Class::Int => DType::I32,
            Class::Number | Class::Any => dtype,
        },
    };
    let dims = [
        Dim::fixed(1),
        Dim::fixed(2),
        Dim::fixed(0),
        Dim::exact(Size::named("n")),
        Dim::at_most(Size::fixed(2), Count("c".into())),
        Dim::fixed(1 << 35),
    ];
    // Often the same few dimensions, so that shapes are compatible now and then.
    let kinds = [1, 2, dims.len()][draw.below(3)];
    let rank = draw.below(6);
    let mut shape = Shape((0..rank).map(|_| dims[draw.below(kinds)].clone()).collect());
    if shape.elements().is_none() {
        shape = Shape::fixed(&[2; 4]);
    }
    TensorType::new(dtype, shape)
}

fn number(draw: &mut Lcg) -> Size {
    let numbers = [
        0,
        1,
        2,
        -1,
        -2,
        3,
        1 << 20,
        1 << 40,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        i64::MIN + 1,
    ];
    let kinds = [3, numbers.len()][draw.below(2)];
    match draw.below(12) {
        0 => Size::named("n"),
        1 => Size::named("n")
            .mul(&Size::fixed(i64::MIN))
            .expect("it fits"),
        _ => Size::fixed(numbers[draw.below(kinds)]),
    }
}

fn float(draw: &mut Lcg) -> f64 {
    let floats = [
        0.0,
        -0.0,
        0.5,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        5e-324,
    ];
    floats[draw.below(floats.len())]
}

/// A linear congruential generator (Knuth's MMIX constants), the same in every run.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}
