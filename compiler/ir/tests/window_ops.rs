//! Convolutions and pools: against TensorFlow's results (`window_ops.tsv`), gradient checks, and fuzz tests.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trainspec_ir::autodiff::Request;
use trainspec_ir::build::{Builder, CallArg, Convolution, Pool, Value};
use trainspec_ir::graph::{Attr, AttrKind, PrimCall, Type, verify};
use trainspec_ir::ops::{self, Arg, RuleError, RuleErrorKind};
use trainspec_ir::{Count, DType, Dim, Shape, Size, Tensor, TensorType, interp};
use trainspec_testing::xorshift::XorShift;

const CASES: &str = include_str!("window_ops.tsv");

/// A case of TensorFlow's results.
struct Case<'a> {
    name: &'a str,
    op: &'a str,
    settings: BTreeMap<&'a str, &'a str>,
    rtol: f64,
    atol: f64,
    tensors: BTreeMap<&'a str, Vec<Tensor>>,
}

impl<'a> Case<'a> {
    fn parse(line: &'a str) -> Case<'a> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, op, dtype, settings, rtol, atol, tensors @ ..] = fields.as_slice() else {
            panic!("too few fields: {line}");
        };
        let dtype = DType::from_name(dtype).expect(dtype);
        let settings = settings.split(' ').map(|s| s.split_once('=').expect(s));
        let mut found: BTreeMap<&str, Vec<Tensor>> = BTreeMap::new();
        for tensor in tensors {
            let (role, tensor) = tensor.split_once(' ').expect(tensor);
            let (shape, values) = tensor.split_once(": ").expect(tensor);
            let shape: Vec<usize> = shape.split(',').map(|n| n.parse().expect(n)).collect();
            let values = values.split(' ').map(|x| x.parse::<f64>().expect(x));
            let tensor = Tensor::from_f64s(&Type::new(dtype, &shape), values);
            found.entry(role).or_default().push(tensor);
        }
        Case {
            name,
            op,
            settings: settings.collect(),
            rtol: rtol.parse().expect(rtol),
            atol: atol.parse().expect(atol),
            tensors: found,
        }
    }

    fn close(&self, what: &str, found: &Tensor, expected: &Tensor) {
        assert_eq!(found.ty(), expected.ty(), "{}: {what}", self.name);
        for (f, e) in found.to_f64s().into_iter().zip(expected.to_f64s()) {
            let near = (f - e).abs() <= self.atol + self.rtol * e.abs();
            assert!(near, "{}: {what}: {f} for {e}", self.name);
        }
    }
}

#[test]
fn values_and_gradients_are_tensorflows() {
    for line in CASES.lines() {
        let case = Case::parse(line);
        let b = Builder::new(case.name);
        let inputs = &case.tensors["input"];
        let xs: Vec<Value<'_>> = inputs.iter().map(|t| b.constant(t.clone())).collect();
        let y = match (case.op, xs.as_slice()) {
            ("separable_conv2d", [x, depthwise, pointwise]) => {
                let middle = call(&b, "depthwise_conv2d", &[*x, *depthwise], &case.settings);
                call(&b, "conv2d", &[middle, *pointwise], &BTreeMap::new())
            }
            (op, xs) => call(&b, op, xs, &case.settings),
        };
        let found = b.differentiate(&Request {
            ys: vec![y],
            xs: xs.clone(),
            seeds: vec![Some(b.constant(case.tensors["weights"][0].clone()))],
            ..Request::default()
        });
        b.result("y", y);
        for gradient in found {
            b.result("gradient", gradient.expect("a gradient").dense());
        }
        let graph = b.finish();
        verify(&graph).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let outcome = interp::run(&graph, &BTreeMap::new(), &[]).expect(case.name);
        case.close("output", &outcome.results[0], &case.tensors["output"][0]);
        for (found, expected) in outcome.results[1..].iter().zip(&case.tensors["gradient"]) {
            case.close("gradient", found, expected);
        }
    }
}

/// Applies an operation, its known arguments being `name=value`.
fn call<'g>(
    b: &'g Builder,
    op: &str,
    tensors: &[Value<'g>],
    settings: &BTreeMap<&str, &str>,
) -> Value<'g> {
    try_call(b, op, tensors, settings).unwrap_or_else(|e| panic!("{op}: {e:?}"))
}

fn try_call<'g>(
    b: &'g Builder,
    op: &str,
    tensors: &[Value<'g>],
    settings: &BTreeMap<&str, &str>,
) -> Result<Value<'g>, RuleError> {
    let op = ops::find(op).expect(op);
    let size = |n: &str| Size::fixed(n.parse().expect(n));
    let mut tensors = tensors.iter();
    let mut given = Vec::new();
    for param in op.params {
        given.push(match (settings.get(param.name), param.kind) {
            (None, ops::Kind::Tensor(_)) => CallArg::Value(*tensors.next().expect("a tensor")),
            (None, _) => CallArg::Known(param.default_arg().expect(param.name)),
            (Some(text), ops::Kind::Word(_)) => CallArg::Known(Arg::Word((*text).to_owned())),
            (Some(text), ops::Kind::Pairs) => {
                let pair = |t: &str| t.split_once(':').map(|(a, b)| (size(a), size(b)));
                let pairs = text.split(',').map(|t| pair(t).expect(t));
                CallArg::Known(Arg::Pairs(pairs.collect()))
            }
            (Some(text), _) => CallArg::Known(Arg::Ints(text.split(',').map(size).collect())),
        });
    }
    b.call(op, &given, "").map(|results| results[0])
}

#[test]
fn gradients_agree_with_finite_differences() {
    for (name, shapes, f) in functions() {
        let graph = differentiated(name, &shapes, f, 1);
        let points = points(&shapes);
        check_against_differences(name, &graph, &points);
    }
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    for (name, shapes, f) in functions() {
        let graph = differentiated(name, &shapes, f, 2);
        let points = points(&shapes);
        check_against_differences(name, &graph, &points);
    }
}

#[test]
fn third_derivatives_agree_with_finite_differences() {
    for (name, shapes, f) in functions() {
        let graph = differentiated(name, &shapes, f, 3);
        let points = points(&shapes);
        check_against_differences(name, &graph, &points);
    }
}

type Function = for<'g> fn(&[Value<'g>]) -> Value<'g>;

const STRIDED_CONV: Convolution = Convolution {
    strides: [2, 1],
    pads: [(1, 2), (0, 1)],
    dilations: [1, 2],
    groups: 1,
};

const GROUPED_CONV: Convolution = Convolution {
    strides: [1, 2],
    pads: [(0, 1), (2, 0)],
    dilations: [2, 1],
    groups: 2,
};

const OVERLAPPING_POOL: Pool = Pool {
    ksize: [3, 2],
    strides: [2, 1],
    pads: [(1, 1), (0, 1)],
};

/// Nonlinear functions, so that no derivative is trivial.
fn functions() -> Vec<(&'static str, Vec<Vec<usize>>, Function)> {
    let images = vec![2, 4, 5, 2];
    vec![
        ("conv2d", vec![images.clone(), vec![2, 3, 2, 3]], |x| {
            x[0].square().conv2d(x[1].sin(), &STRIDED_CONV)
        }),
        (
            "conv2d in groups",
            vec![vec![1, 4, 5, 4], vec![2, 2, 2, 4]],
            |x| x[0].square().conv2d(x[1].sin(), &GROUPED_CONV),
        ),
        ("max_pool2d", vec![images.clone()], |x| {
            (x[0] * 3.0).sin().max_pool2d(&OVERLAPPING_POOL).square()
        }),
        (
            "max_pool2d_pick",
            vec![images.clone(), images.clone()],
            |x| {
                x[0].stop_gradient()
                    .max_pool2d_pick(x[1].sin(), &OVERLAPPING_POOL)
            },
        ),
        ("sum_pool2d", vec![images], |x| {
            x[0].sin().sum_pool2d(&OVERLAPPING_POOL).square()
        }),
    ]
}

/// Values well apart from each other, so that small steps change no maximum.
fn points(shapes: &[Vec<usize>]) -> Vec<Tensor> {
    let mut draw = XorShift::new(7);
    let tensor = |shape: &Vec<usize>| {
        let n: usize = shape.iter().product();
        let mut values: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5) / n as f64 - 0.3).collect();
        for i in (1..n).rev() {
            values.swap(i, draw.index(i + 1));
        }
        Tensor::new(shape, values)
    };
    shapes.iter().map(tensor).collect()
}

/// A graph of a function and, `order` times, of a directional derivative of the previous function. Its results are the last
/// function as a scalar, and its gradients.
fn differentiated(
    name: &str,
    shapes: &[Vec<usize>],
    f: Function,
    order: usize,
) -> trainspec_ir::graph::Graph {
    let b = Builder::new(name);
    let inputs: Vec<Value<'_>> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| b.input(&format!("x{i}"), &Type::new(DType::F64, shape)))
        .collect();
    let mut y = total(f(&inputs));
    for _ in 1..order {
        let gradients = b.gradients(&[y], &inputs);
        let gradients = gradients.into_iter().flatten().map(|s| total(s.dense()));
        y = b.sum_of(&gradients.collect::<Vec<_>>());
    }
    b.result("y", y);
    for (grad, x) in b.gradients(&[y], &inputs).into_iter().zip(&inputs) {
        let grad = grad.map_or_else(|| b.full(&x.ty(), 0.0), |s| s.dense());
        b.result("grad", grad);
    }
    let graph = b.finish();
    verify(&graph).unwrap_or_else(|e| panic!("{name}: {e}"));
    graph
}

/// Σ yᵢ wᵢ with weights that are all different.
fn total(y: Value<'_>) -> Value<'_> {
    let n: usize = y.shape().iter().product();
    let weights = (0..n).map(|i| 0.5 + ((i * 7) % 11) as f64 / 11.0).collect();
    let weights = y
        .builder()
        .constant(Tensor::new::<f64>(&y.shape(), weights));
    (y * weights).sum(&y.axes())
}

fn check_against_differences(name: &str, graph: &trainspec_ir::graph::Graph, points: &[Tensor]) {
    let run = |points: &[Tensor]| {
        let inputs = points
            .iter()
            .enumerate()
            .map(|(i, t)| (format!("x{i}"), t.clone()));
        interp::run(graph, &inputs.collect(), &[])
            .expect(name)
            .results
    };
    let gradients = run(points);
    let step = 1e-5;
    let mut some = false;
    for (i, point) in points.iter().enumerate() {
        if name == "max_pool2d_pick" && i == 0 {
            continue; // it steps where the greatest changes
        }
        for (element, grad) in gradients[1 + i].to_f64s().into_iter().enumerate() {
            let at = |step: f64| {
                let mut moved = points.to_vec();
                let mut values = point.to_f64s();
                values[element] += step;
                moved[i] = Tensor::new(point.shape(), values);
                run(&moved)[0].to_f64s()[0]
            };
            let difference = (at(step) - at(-step)) / (2.0 * step);
            let near = (grad - difference).abs()
                < 1e-6 * (1.0 + grad.abs().max(gradients[0].to_f64s()[0].abs()));
            assert!(near, "{name}: x{i}[{element}]: {grad} for {difference}");
            some |= grad != 0.0;
        }
    }
    assert!(some, "{name}: all gradients are zero");
}

#[test]
fn integers_are_pooled_and_padding_is_never_the_maximum() {
    let window = BTreeMap::from([("ksize", "2"), ("strides", "1"), ("padding", "same")]);
    let pooled = |x: Tensor| {
        let b = Builder::new("pool");
        let y = call(&b, "max_pool2d", &[b.constant(x)], &window);
        b.result("y", y);
        run_constant(b)
    };
    let x = Tensor::new(&[1, 2, 2, 1], vec![-5_i8, -7, -128, -9]);
    assert_eq!(
        pooled(x),
        Tensor::new(&[1, 2, 2, 1], vec![-5_i8, -7, -9, -9])
    );
    let x = Tensor::new(&[1, 2, 2, 1], vec![f32::NEG_INFINITY; 4]);
    assert_eq!(pooled(x.clone()), x);
}

#[test]
fn max_pool_propagates_nan() {
    let b = Builder::new("pool");
    let x = vec![1.0_f32, f32::NAN, 2.0, f32::NAN];
    let x = b.constant(Tensor::new(&[1, 2, 2, 1], x));
    let window = BTreeMap::from([("ksize", "2")]);
    let y = call(&b, "max_pool2d", &[x], &window);
    let grad = b.differentiate(&Request {
        ys: vec![y],
        xs: vec![x],
        seeds: vec![Some(b.constant(Tensor::new(&[1, 1, 1, 1], vec![3.0_f32])))],
        ..Request::default()
    });
    b.result("y", y);
    b.result("grad", grad[0].expect("a gradient").dense());
    let found = interp::run(&b.finish(), &BTreeMap::new(), &[]).unwrap();
    assert!(found.results[0].to_f64s()[0].is_nan());
    assert_eq!(found.results[1].to_f64s(), [0.0, 3.0, 0.0, 0.0]);
}

#[test]
fn empty_tensors_are_convolved_and_pooled() {
    let filters = [
        ("conv2d", [3, 3, 2, 4], [0, 5, 5, 2]),
        ("conv2d", [3, 3, 0, 4], [1, 5, 5, 0]),
        ("conv2d", [3, 3, 2, 0], [1, 5, 5, 2]),
        ("conv2d", [3, 3, 2, 4], [1, 0, 5, 2]),
        ("depthwise_conv2d", [3, 3, 0, 4], [1, 5, 5, 0]),
        ("depthwise_conv2d", [3, 3, 2, 0], [1, 5, 5, 2]),
        ("conv2d_transpose", [3, 3, 4, 2], [1, 0, 5, 2]),
        ("conv2d_transpose", [3, 3, 0, 2], [1, 5, 5, 2]),
        ("conv2d_transpose", [3, 3, 4, 0], [1, 5, 5, 0]),
    ];
    for (op, filters, x) in filters {
        for padding in ["same", "valid"] {
            if x[1] == 0 && padding == "valid" && op != "conv2d_transpose" {
                continue; // refused: the window does not fit
            }
            let b = Builder::new("empty");
            let x = b.constant(Tensor::zeros(&Type::new(DType::F32, &x)));
            let f = b.constant(Tensor::zeros(&Type::new(DType::F32, &filters)));
            let y = call(&b, op, &[x, f], &BTreeMap::from([("padding", padding)]));
            b.result("y", y);
            let gradients = b.gradients(&[y], &[x, f]);
            b.result("x", gradients[0].expect("a gradient").dense());
            b.result("f", gradients[1].expect("a gradient").dense());
            run_constant(b);
        }
    }
    for op in ["max_pool2d", "avg_pool2d"] {
        for x in [[0, 5, 5, 2], [1, 5, 5, 0], [1, 0, 5, 2]] {
            let b = Builder::new("empty");
            let x = b.constant(Tensor::zeros(&Type::new(DType::F32, &x)));
            let window = BTreeMap::from([("ksize", "3,2"), ("padding", "same")]);
            let y = call(&b, op, &[x], &window);
            b.result("y", y);
            b.result("x", b.gradients(&[y], &[x])[0].expect("a gradient").dense());
            run_constant(b);
        }
    }
}

fn run_constant(b: Builder) -> Tensor {
    let graph = b.finish();
    verify(&graph).unwrap();
    let outcome = interp::run(&graph, &BTreeMap::new(), &[]).unwrap();
    outcome.results.into_iter().next().expect("a result")
}

#[test]
fn elements_past_a_count_do_not_matter() {
    let rows = Count("rows".into());
    let channels = Count("channels".into());
    let dims = |sizes: [Result<i64, (i64, &Count)>; 4]| {
        let dim = |d: Result<i64, (i64, &Count)>| match d {
            Ok(n) => Dim::fixed(n),
            Err((n, count)) => Dim::at_most(Size::fixed(n), count.clone()),
        };
        TensorType::new(DType::F64, Shape(sizes.map(dim).to_vec()))
    };
    let b = Builder::new("counted");
    let of_x = dims([Err((3, &rows)), Ok(2), Ok(2), Err((2, &channels))]);
    let of_f = dims([Ok(1), Ok(1), Err((2, &channels)), Ok(2)]);
    let (x, f) = (b.counted_input("x", &of_x), b.counted_input("f", &of_f));
    let y = call(&b, "conv2d", &[x, f], &BTreeMap::new());
    assert_eq!(y.tensor_type().to_string(), "f64[<=3, 2, 2, 2]");
    // Consumers of the result mask by the count, so cotangents past it are 0.
    let used = Tensor::from_f64s(&y.ty(), (0..24).map(|i| f64::from(u8::from(i < 16))));
    let gradients = b.differentiate(&Request {
        ys: vec![y],
        xs: vec![x, f],
        seeds: vec![Some(b.constant(used))],
        ..Request::default()
    });
    b.result("y", y);
    for grad in gradients {
        b.result("grad", grad.expect("a gradient").dense());
    }
    let graph = b.finish();
    let run = |garbage: f64| {
        let x = (0..24).map(|i| {
            if i < 16 && i % 2 == 0 {
                f64::from(i)
            } else {
                garbage
            }
        });
        let f = vec![1.0, 2.0, garbage, garbage];
        let inputs = BTreeMap::from([
            (
                "x".to_owned(),
                Tensor::new(&[3, 2, 2, 2], x.collect::<Vec<_>>()),
            ),
            ("x#count/0".to_owned(), Tensor::scalar(2_i64)),
            ("x#count/1".to_owned(), Tensor::scalar(1_i64)),
            ("f".to_owned(), Tensor::new(&[1, 1, 2, 2], f)),
        ]);
        let found = interp::run(&graph, &inputs, &[]).unwrap().results;
        let y = found[0].to_f64s()[..16].to_vec();
        (y, found[1].to_f64s(), found[2].to_f64s())
    };
    assert_eq!(run(f64::NAN), run(0.0));
    assert_eq!(run(f64::NAN).0[..4], [0.0, 0.0, 2.0, 4.0]);
}

#[test]
fn padding_as_large_as_a_pools_window_is_refused() {
    for pads in ["2:0,0:0", "0:2,0:0", "0:0,3:0", "0:0,0:3"] {
        let b = Builder::new("pool");
        let x = b.constant(Tensor::zeros(&Type::new(DType::F32, &[1, 4, 4, 1])));
        let window = BTreeMap::from([("ksize", "2,3"), ("pads", pads)]);
        let error = try_call(&b, "max_pool2d", &[x], &window).unwrap_err();
        assert_eq!(error.kind, RuleErrorKind::BadValue);
        assert!(
            error
                .message
                .starts_with("`pads` must be less than the window")
        );
    }
}

#[test]
fn an_empty_window_has_the_smallest_number_of_the_type() {
    let window = Pool {
        ksize: [1, 1],
        strides: [1, 1],
        pads: [(1, 0), (0, 0)],
    };
    let pooled = |x: Tensor| {
        let b = Builder::new("pool");
        b.result("y", b.constant(x).max_pool2d(&window));
        run_constant(b).to_f64s()
    };
    let shape = [1, 1, 1, 1];
    assert_eq!(pooled(Tensor::new(&shape, vec![3_u8])), [0.0, 3.0]);
    assert_eq!(pooled(Tensor::new(&shape, vec![3_i16])), [-32768.0, 3.0]);
    let min = f64::NEG_INFINITY;
    assert_eq!(pooled(Tensor::new(&shape, vec![3_f32])), [min, 3.0]);
}

#[test]
fn no_rule_panics_on_fuzzed_attributes() {
    for name in [
        "conv2d",
        "conv2d_filter_grad",
        "conv2d_input_grad",
        "max_pool2d",
        "max_pool2d_grad",
        "max_pool2d_pick",
        "sum_pool2d",
        "sum_pool2d_grad",
    ] {
        let prim = ops::PRIMS.iter().find(|p| p.name == name).expect(name);
        let mut draw = XorShift::new(3);
        let mut accepted = 0;
        for _ in 0..40_000 {
            let mut types: Vec<Type> = (0..draw.index(4)).map(|_| random_type(&mut draw)).collect();
            let attrs: Vec<Attr> = prim
                .attrs
                .iter()
                .map(|(_, kind)| random_attr(&mut draw, *kind))
                .collect();
            if types.len() == 2 && draw.index(2) == 0 {
                types[1] = types[0].clone();
            }
            let operands: Vec<&Type> = types.iter().collect();
            let call = PrimCall {
                prim,
                operands: &operands,
                attrs: &attrs,
            };
            let infer = || (prim.infer)(&call);
            let found = catch_unwind(AssertUnwindSafe(infer));
            let found = found.unwrap_or_else(|_| panic!("{name} panics on {types:?} {attrs:?}"));
            accepted += usize::from(found.is_ok());
            for ty in found.iter().flatten() {
                let sizes = ty.shape.iter().filter(|n| **n != 0).map(|n| *n as u128);
                assert!(sizes.product::<u128>() <= 1 << 40, "{name} gives {ty}");
            }
        }
        let easy = ["conv2d", "max_pool2d", "max_pool2d_pick", "sum_pool2d"];
        assert!(
            accepted > 0 || !easy.contains(&name),
            "{name} takes nothing"
        );
    }
}

fn random_size(draw: &mut XorShift) -> usize {
    draw.pick(&[0, 1, 1, 1, 2, 2, 3, 1 << 20, 1 << 40, usize::MAX])
}

fn random_type(draw: &mut XorShift) -> Type {
    let dtype = draw.pick(&[DType::F32, DType::F32, DType::I32, DType::Bool]);
    let rank = draw.pick(&[4, 4, 4, 4, 4, 4, 0, 3]);
    let shape: Vec<usize> = (0..rank).map(|_| random_size(draw)).collect();
    Type::new(dtype, &shape)
}

fn random_attr(draw: &mut XorShift, kind: AttrKind) -> Attr {
    let n = draw.pick(&[2, 2, 2, 2, 4, 4, 0]);
    match kind {
        AttrKind::Size => Attr::Size(random_size(draw)),
        AttrKind::Sizes => Attr::Sizes((0..n).map(|_| random_size(draw)).collect()),
        AttrKind::Pairs => Attr::Pairs(
            (0..n)
                .map(|_| (random_size(draw), random_size(draw)))
                .collect(),
        ),
        AttrKind::Int | AttrKind::Flag | AttrKind::DType | AttrKind::String => {
            panic!("no window has an attribute {kind:?}")
        }
    }
}
