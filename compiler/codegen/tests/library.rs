//! Differential tests of the routine library: every primitive's routine gives the interpreter's result, bit for bit, or within the rounding
//! error of any summation order where it reduces. The number of threads changes no bit, and error messages are equal.

use std::collections::BTreeMap;

use trainspec_codegen::cpu::Cpu;
use trainspec_codegen::exec::ftz::FtzGuard;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::library::{Routine, Scratch, Slice, SliceMut, find};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Attr, Prim, PrimCall, Type};
use trainspec_ir::interp::EvalError;
use trainspec_ir::ops::{PRIMS, find_prim};
use trainspec_ir::tensor::Data;
use trainspec_ir::{DType, Tensor, interp};
use trainspec_testing::prim_calls::random_call;
use trainspec_testing::xorshift::XorShift;

/// How many random calls of each primitive are tried; most are refused by its rule.
const ROUNDS: usize = 4_000;

#[test]
fn every_primitive_has_a_routine() {
    for prim in PRIMS {
        assert!(find(prim).is_some(), "`{}` has none", prim.name);
    }
}

#[test]
fn small_calls_agree_with_the_interpreter() {
    let mut bench = Bench::new();
    for prim in PRIMS {
        let (mut draw, mut tried) = (XorShift::new(11), 0);
        for _ in 0..ROUNDS {
            let (types, attrs) = random_call(&mut draw, prim, &[0, 1, 1, 2, 3, 4, 5]);
            if infer(prim, &types, &attrs).is_some() {
                bench.agree(prim, &attrs, &draw.tensors(&types));
                tried += 1;
            }
        }
        // Those with a count operand are tested below.
        let other = prim.name.contains("2d") || ["put_rows", "sum_rows"].contains(&prim.name);
        assert!(tried > 0 || other, "`{}`", prim.name);
    }
}

#[test]
fn large_elementwise_calls_agree() {
    let mut bench = Bench::new();
    for prim in PRIMS {
        let mut draw = XorShift::new(5);
        for dtype in DType::ALL {
            let types = vec![Type::new(dtype, &[3, 12_345]); 2];
            for operands in 1..=2 {
                if prim.attrs.is_empty() && infer(prim, &types[..operands], &[]).is_some() {
                    bench.agree(prim, &[], &draw.tensors(&types[..operands]));
                }
            }
        }
    }
}

#[test]
fn every_cast_agrees() {
    let mut bench = Bench::new();
    let values = [
        0.0,
        -0.0,
        0.4,
        0.5,
        -0.6,
        1.5,
        2.5,
        127.0,
        128.0,
        255.5,
        256.0,
        -1.0,
        -129.0,
        65519.0,
        65520.0,
        2147483648.0,
        -9.3e18,
        9.3e18,
        1e30,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-30,
        5e-324,
    ];
    let integers = [
        0,
        1,
        -1,
        127,
        128,
        255,
        256,
        65_536,
        16_777_217,
        33_554_435,
        i64::MAX,
        i64::MIN,
        2049,
        4099,
    ];
    for from in DType::ALL.into_iter().filter(|d| *d != DType::String) {
        let tensor = match from.is_float() {
            true => Tensor::from_f64s(&Type::new(from, &[values.len()]), values),
            false => Tensor::from_i64s(&Type::new(from, &[integers.len()]), integers),
        };
        for to in DType::ALL.into_iter().filter(|d| *d != DType::String) {
            bench.agree(
                prim("cast"),
                &[Attr::DType(to)],
                std::slice::from_ref(&tensor),
            );
        }
    }
}

#[test]
fn reductions_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(3);
    let shapes: &[(&[usize], &[usize])] = &[
        (&[100_003], &[0]),
        (&[3, 10_007], &[1]),
        (&[10_007, 3], &[0]),
        (&[9_001, 130], &[0]),
        (&[40, 700], &[0]),
        (&[40, 700], &[0, 1]),
        (&[7, 60, 5, 40], &[1, 3]),
        (&[7, 60, 5, 40], &[0, 2]),
        (&[70, 90, 1, 4], &[0, 1, 2]),
        (&[2, 9_000, 2, 3], &[1, 2]),
        (&[2, 3], &[]),
        (&[4, 0, 3], &[1]),
        (&[4, 0, 3], &[0]),
    ];
    for (shape, axes) in shapes {
        for dtype in [
            DType::F16,
            DType::Bf16,
            DType::F32,
            DType::F64,
            DType::I8,
            DType::I64,
            DType::Bool,
        ] {
            let attrs = [Attr::Sizes(axes.to_vec())];
            let types = [Type::new(dtype, shape)];
            for name in ["sum", "max", "min", "prod", "any", "all"] {
                let prim = prim(&format!("reduce_{name}"));
                if infer(prim, &types, &attrs).is_some() {
                    bench.agree(prim, &attrs, &draw.tensors(&types));
                }
            }
        }
    }
}

#[test]
fn matrix_products_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(9);
    let sizes = [
        (vec![], 1, 1, 1),
        (vec![], 7, 5, 3),
        (vec![], 130, 300, 70),
        (vec![], 33, 1, 500),
        (vec![], 1, 900, 64),
        (vec![], 257, 129, 511),
        (vec![3], 20, 30, 40),
        (vec![2, 9], 17, 64, 33),
        (vec![2], 150, 160, 170),
        (vec![], 4, 0, 5),
        (vec![3], 0, 4, 5),
        (vec![0], 3, 4, 5),
        (vec![40], 2, 3, 1),
    ];
    for (batch, m, k, n) in sizes {
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            for dtype in [
                DType::F32,
                DType::F64,
                DType::F16,
                DType::Bf16,
                DType::I8,
                DType::I64,
            ] {
                let matrix = |transposed: bool, p, q| {
                    let size = if transposed { [q, p] } else { [p, q] };
                    Type::new(dtype, &[&batch[..], &size].concat())
                };
                let types = [matrix(transpose_a, m, k), matrix(transpose_b, k, n)];
                let attrs = [Attr::Flag(transpose_a), Attr::Flag(transpose_b)];
                bench.agree(prim("matmul"), &attrs, &draw.tensors(&types));
            }
        }
    }
}

#[test]
fn convolutions_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(17);
    for round in 0..160 {
        let groups = draw.pick(&[1, 1, 1, 2, 3]);
        let depthwise = draw.index(4) == 0;
        let c_in = if depthwise {
            1
        } else {
            draw.pick(&[1, 2, 3, 8, 9, 16])
        };
        let groups = if depthwise {
            draw.pick(&[4, 8, 11])
        } else {
            groups
        };
        let each = draw.pick(&[1, 2, 8, 12]);
        let n = draw.pick(&[0, 1, 2, 3, 9]);
        let [h, w] = [0, 1].map(|_| draw.pick(&[1, 4, 7, 12]));
        let [kh, kw] = [0, 1].map(|_| draw.pick(&[1, 1, 2, 3, 5]));
        let strides: Vec<usize> = (0..2).map(|_| draw.pick(&[1, 1, 2, 3])).collect();
        let dilations: Vec<usize> = (0..2).map(|_| draw.pick(&[1, 1, 1, 2])).collect();
        let pads: Vec<(usize, usize)> = (0..2).map(|_| (draw.index(3), draw.index(3))).collect();
        // Every few rounds images that are split into several tasks.
        let [h, w] = if round % 16 == 0 { [40, 30] } else { [h, w] };
        let window = [
            Attr::Sizes(strides),
            Attr::Pairs(pads),
            Attr::Sizes(dilations),
            Attr::Size(groups),
        ];
        let dtype = draw.pick(&[DType::F32, DType::F32, DType::F64, DType::F16, DType::Bf16]);
        let x = Type::new(dtype, &[n, h, w, c_in * groups]);
        let filters = Type::new(dtype, &[kh, kw, c_in, each * groups]);
        bench.convolution_agrees(&mut draw, x, filters, &window);
    }
}

/// Windows of 3 x 3 and 5 x 5 over many channels, which Winograd F(4x4, 3x3) and F(2x2, 5x5) compute.
#[test]
fn winograd_convolutions_agree() {
    if !Cpu::host().has_avx2_fma() {
        println!("skipped: needs AVX2 (Winograd)");
        return;
    }
    let mut bench = Bench::new();
    let mut draw = XorShift::new(31);
    for round in 0..2 {
        let [c_in, c_out] = draw.pick(&[[64, 64], [48, 80], [96, 64]]);
        let size = [3, 5][round % 2];
        let n = draw.pick(&[4, 5]);
        let [h, w] = [0, 1].map(|_| draw.pick(&[23, 24, 26]));
        let pads = (0..2).map(|_| (draw.index(size), draw.index(size)));
        let window = [
            Attr::Sizes(vec![1, 1]),
            Attr::Pairs(pads.collect()),
            Attr::Sizes(vec![1, 1]),
            Attr::Size(1),
        ];
        let dtype = draw.pick(&[DType::F32, DType::F32, DType::F16]);
        let x = Type::new(dtype, &[n, h, w, c_in]);
        let filters = Type::new(dtype, &[size, size, c_in, c_out]);
        bench.convolution_agrees(&mut draw, x, filters, &window);
    }
}

#[test]
fn pools_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(23);
    for _ in 0..120 {
        let shape = [[0, 1, 3], [1, 5, 9], [1, 6, 20], [1, 3, 70]].map(|sizes| draw.pick(&sizes));
        let [ksize, strides] = [[1, 2, 3], [1, 2, 2]]
            .map(|sizes| Attr::Sizes((0..2).map(|_| draw.pick(&sizes)).collect()));
        let pads = (0..2).map(|_| (draw.index(3), draw.index(3)));
        let window = [ksize, strides, Attr::Pairs(pads.collect())];
        bench.pool_agrees(&mut draw, &shape, &window);
    }
}

#[test]
fn pools_of_two_by_two_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(24);
    let two = || Attr::Sizes(vec![2, 2]);
    for _ in 0..40 {
        let shape = [[0, 1, 3], [1, 5, 8], [2, 7, 20], [1, 11, 40]].map(|sizes| draw.pick(&sizes));
        let pads = (0..2).map(|_| (0, draw.index(2)));
        let window = [two(), two(), Attr::Pairs(pads.collect())];
        bench.pool_agrees(&mut draw, &shape, &window);
    }
}

#[test]
fn pools_of_large_images_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(25);
    for (size, stride, pad) in [(2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 3, 1), (5, 2, 2)] {
        let window = [
            Attr::Sizes(vec![size; 2]),
            Attr::Sizes(vec![stride; 2]),
            Attr::Pairs(vec![(pad, pad); 2]),
        ];
        bench.pool_agrees(&mut draw, &[2, 31, 40, 33], &window);
    }
}

impl Bench {
    /// Compares all pools and their gradients on images of this shape.
    fn pool_agrees(&mut self, draw: &mut XorShift, shape: &[usize], window: &[Attr]) {
        for dtype in [
            DType::F32,
            DType::F64,
            DType::F16,
            DType::Bf16,
            DType::I32,
            DType::U8,
        ] {
            let x = Type::new(dtype, shape);
            let one = std::slice::from_ref(&x);
            let y = infer(prim("max_pool2d"), one, window).expect("a pool of numbers");
            self.agree(prim("max_pool2d"), window, &draw.tensors(one));
            if !dtype.is_float() {
                continue;
            }
            self.agree(prim("sum_pool2d"), window, &draw.tensors(one));
            let tensors = draw.tensors(&[x.clone(), y[0].clone()]);
            self.agree(prim("max_pool2d_grad"), window, &tensors);
            let tensors = draw.tensors(&[x.clone(), x.clone()]);
            self.agree(prim("max_pool2d_pick"), window, &tensors);
            let shaped = [&[Attr::Sizes(shape.to_vec())], window].concat();
            self.agree(prim("sum_pool2d_grad"), &shaped, &draw.tensors(&y));
        }
    }
}

#[test]
fn large_moves_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(29);
    let sizes = |sizes: &[usize]| Attr::Sizes(sizes.to_vec());
    let shape = [6, 37, 50, 9];
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::U8, DType::Bool] {
        let x = &[Type::new(dtype, &shape)][..];
        for perm in [
            [0, 1, 2, 3],
            [3, 2, 1, 0],
            [0, 3, 1, 2],
            [0, 2, 3, 1],
            [1, 0, 2, 3],
            [2, 0, 3, 1],
            [0, 2, 1, 3],
        ] {
            bench.agree(prim("transpose"), &[sizes(&perm)], &draw.tensors(x));
        }
        let long = &[Type::new(dtype, &[20_000, 5])][..];
        bench.agree(prim("transpose"), &[sizes(&[1, 0])], &draw.tensors(long));
        let long = &[Type::new(dtype, &[5, 20_000])][..];
        bench.agree(prim("transpose"), &[sizes(&[1, 0])], &draw.tensors(long));
        bench.agree(prim("reverse"), &[sizes(&[1])], &draw.tensors(long));
        for axes in [&[0][..], &[3], &[1, 3], &[0, 1, 2, 3], &[]] {
            bench.agree(prim("reverse"), &[sizes(axes)], &draw.tensors(x));
        }
        let cut = [
            sizes(&[1, 2, 3, 0]),
            sizes(&[5, 10, 20, 9]),
            sizes(&[1, 3, 2, 1]),
        ];
        bench.agree(prim("slice"), &cut, &draw.tensors(x));
        let pads = [
            sizes(&[1, 0, 2, 3]),
            sizes(&[0, 2, 1, 1]),
            sizes(&[0, 1, 0, 2]),
        ];
        let value = Type::scalar(dtype);
        bench.agree(prim("pad"), &pads, &draw.tensors(&[x[0].clone(), value]));
        for (from, to) in [
            (vec![], vec![70_000]),
            (vec![37, 1, 9], shape.to_vec()),
            (vec![300, 1], vec![300, 200]),
        ] {
            let small = [Type::new(dtype, &from)];
            bench.agree(prim("broadcast"), &[sizes(&to)], &draw.tensors(&small));
        }
        for axis in 0..4 {
            let mut types = vec![x[0].clone(); 3];
            types[1].shape[axis] = 0;
            types[2].shape[axis] = 13;
            bench.agree(prim("concat"), &[Attr::Size(axis)], &draw.tensors(&types));
        }
        let choice = x[0].with_dtype(DType::Bool);
        let types = [choice, x[0].clone(), x[0].clone()];
        bench.agree(prim("select"), &[], &draw.tensors(&types));
    }
}

#[test]
fn large_rows_and_orders_agree() {
    let mut bench = Bench::new();
    let mut draw = XorShift::new(31);
    for dtype in [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::Bf16,
        DType::I8,
        DType::I32,
    ] {
        for width in [1, 3, 33] {
            let x = draw.tensors(&[Type::new(dtype, &[1000, width])]).remove(0);
            let rows = draw.tensors(&[Type::new(dtype, &[3000, width])]).remove(0);
            let at = draw.positions(DType::I64, 3000, 0, 1000);
            bench.agree(prim("take"), &[Attr::Flag(false)], &[x.clone(), at.clone()]);
            let all = [x, at, rows.clone()];
            bench.agree(prim("scatter_add"), &[], &all);
            bench.agree(prim("scatter_set"), &[], &all);
            for count in [0_i64, 1, 17, 1700, 3000, 9000] {
                let [x, at, _] = &all;
                let (count, length) = (Tensor::scalar(count), Attr::Size(1000));
                let different = (0..1000_i64).map(|i| i * 7 % 1000).collect();
                let different = Tensor::new(&[1000], different);
                let new = draw.tensors(&[x.ty()]).remove(0);
                let own = [x.clone(), different, new, count.clone()];
                bench.agree(prim("put_rows"), &[], &own);
                if dtype.is_float() {
                    let summed = [at.clone(), rows.clone(), count];
                    bench.agree(prim("sum_rows"), &[length], &summed);
                }
            }
            let ids = draw.positions(DType::I32, 3000, -1, 200);
            for name in ["max", "min", "prod"] {
                let prim = prim(&format!("unsorted_segment_{name}"));
                bench.agree(prim, &[Attr::Size(200)], &[rows.clone(), ids.clone()]);
            }
        }
        let x = Type::new(dtype, &[5, 701, 7]);
        for axis in 0..3 {
            let at = Attr::Size(axis);
            let one = |draw: &mut XorShift| draw.tensors(std::slice::from_ref(&x));
            bench.agree(prim("argmax"), std::slice::from_ref(&at), &one(&mut draw));
            bench.agree(prim("argmin"), std::slice::from_ref(&at), &one(&mut draw));
            for flag in [false, true] {
                let sort = [at.clone(), Attr::Flag(flag)];
                bench.agree(prim("argsort"), &sort, &one(&mut draw));
                let sums = [at.clone(), Attr::Flag(flag), Attr::Flag(axis == 1)];
                bench.agree(prim("cumsum"), &sums, &one(&mut draw));
            }
        }
        let x = Type::new(dtype, &[20_000]);
        bench.agree(prim("unique"), &[], &draw.tensors(&[x]));
        let shape = Attr::Sizes(vec![3, 20_001]);
        if dtype.is_float() {
            let key = Tensor::scalar(77_i64);
            bench.agree(prim("random_uniform"), &[shape, Attr::DType(dtype)], &[key]);
            for size in [[30, 8], [8, 30], [12, 12], [5, 0], [0, 5]] {
                let x = Type::new(dtype, &size);
                bench.agree(prim("orthogonalize"), &[], &draw.tensors(&[x]));
            }
            for order in [0, 1, 2, 5, 100] {
                let x = Type::new(dtype, &[500]);
                let x = Tensor::from_f64s(&x, (0..500).map(|i| f64::from(i) / 16.0 - 9.03));
                bench.agree(prim("polygamma"), &[Attr::Size(order)], &[x]);
            }
        }
    }
    let mask = Type::new(DType::Bool, &[30_000]);
    bench.agree(prim("compact"), &[], &draw.tensors(&[mask]));
    bench.agree(prim("iota"), &[Attr::Size(40_000)], &[]);
}

#[test]
fn error_messages_agree() {
    let mut bench = Bench::new();
    let ints = |values: &[i32]| Tensor::new(&[values.len()], values.to_vec());
    let rows = Tensor::new(&[3, 2], vec![1.0_f32; 6]);
    let at = ints(&[0, 2, 3, -1]);
    let four = Tensor::new(&[4, 2], vec![1.0_f32; 8]);
    let bound = [
        Attr::Int(0),
        Attr::Int(2),
        Attr::String("indices".to_owned()),
    ];
    let calls: Vec<(&str, Vec<Attr>, Vec<Tensor>)> = vec![
        (
            "take",
            vec![Attr::Flag(false)],
            vec![rows.clone(), at.clone()],
        ),
        (
            "scatter_add",
            vec![],
            vec![rows.clone(), at.clone(), four.clone()],
        ),
        ("scatter_set", vec![], vec![rows, at.clone(), four.clone()]),
        (
            "sum_rows",
            vec![Attr::Size(3)],
            vec![at.clone(), four.clone(), Tensor::scalar(4_i64)],
        ),
        (
            "unsorted_segment_max",
            vec![Attr::Size(2)],
            vec![four, at.clone()],
        ),
        ("bounded", bound.to_vec(), vec![at]),
    ];
    for (name, attrs, tensors) in calls {
        assert!(
            bench.agree(prim(name), &attrs, &tensors).is_some(),
            "`{name}` fails"
        );
    }
    for name in [
        "floordiv",
        "floormod",
        "truncatediv",
        "truncatemod",
        "divide",
    ] {
        let (a, b) = (ints(&[5, -6, 7, 8]), ints(&[2, 0, -3, 0]));
        let prim = prim(name);
        if infer(prim, &[a.ty(), b.ty()], &[]).is_some() {
            assert!(bench.agree(prim, &[], &[a, b]).is_some(), "`{name}` fails");
        }
    }
    let negative = bench.agree(prim("pow"), &[], &[ints(&[2, 3]), ints(&[2, -1])]);
    assert!(negative.is_some());
}

fn prim(name: &str) -> &'static Prim {
    find_prim(name).unwrap_or_else(|| panic!("there is no `{name}`"))
}

fn infer(prim: &'static Prim, types: &[Type], attrs: &[Attr]) -> Option<Vec<Type>> {
    let operands: Vec<&Type> = types.iter().collect();
    let operands = &operands;
    (prim.infer)(&PrimCall {
        prim,
        operands,
        attrs,
    })
    .ok()
}

/// Thread pools of several sizes, and scratch buffers that all calls share.
struct Bench {
    pools: Vec<Pool>,
    scratch: Scratch,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            pools: [1, 2, 3, 8].map(Pool::exactly).into(),
            scratch: Scratch::default(),
        }
    }

    /// A convolution and both its gradients.
    fn convolution_agrees(&mut self, draw: &mut XorShift, x: Type, filters: Type, window: &[Attr]) {
        let types = [x.clone(), filters.clone()];
        let made = infer(prim("conv2d"), &types, window);
        let y = made.expect("the sizes go together").remove(0);
        self.agree(prim("conv2d"), window, &draw.tensors(&types));
        let shaped = |ty: &Type| [&[Attr::Sizes(ty.shape.clone())], window].concat();
        let tensors = draw.tensors(&[y.clone(), filters.clone()]);
        self.agree(prim("conv2d_input_grad"), &shaped(&x), &tensors);
        let tensors = draw.tensors(&[x, y]);
        self.agree(prim("conv2d_filter_grad"), &shaped(&filters), &tensors);
    }

    /// Runs a primitive here and in the interpreter; returns the error that both give.
    fn agree(
        &mut self,
        prim: &'static Prim,
        attrs: &[Attr],
        tensors: &[Tensor],
    ) -> Option<EvalError> {
        let expected = interpreted(prim, attrs, tensors);
        let (first, others) = self.pools.split_first().expect("there are pools");
        let found = computed(prim, attrs, tensors, first, &mut self.scratch);
        let what = || {
            let types: Vec<String> = tensors.iter().map(|t| t.ty().to_string()).collect();
            format!("`{}` of {types:?} with {attrs:?}", prim.name)
        };
        for pool in others {
            let again = computed(prim, attrs, tensors, pool, &mut self.scratch);
            let same = match (&found, &again) {
                (Ok(a), Ok(b)) => a.iter().zip(b).all(|(a, b)| bits(a) == bits(b)),
                (a, b) => a.is_err() && a == b,
            };
            assert!(same, "{} differs on {} threads", what(), pool.threads());
        }
        match (expected, found) {
            (Ok(expected), Ok(found)) => {
                let bounds = error_bounds(prim, attrs, tensors, &expected);
                for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    let sums = if prim.name == "sum_rows" { 1 } else { 0 };
                    compare(
                        &what(),
                        expected,
                        found,
                        bounds.as_ref().filter(|_| i == sums),
                    );
                }
                None
            }
            (Err(expected), Err(found)) => {
                assert_eq!(expected, found, "{}", what());
                Some(found)
            }
            (expected, found) => panic!("{}: {expected:?} is not {found:?}", what()),
        }
    }
}

fn interpreted(
    prim: &'static Prim,
    attrs: &[Attr],
    tensors: &[Tensor],
) -> Result<Vec<Tensor>, EvalError> {
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
    match interp::run(&b.finish(), &fed, &[]) {
        Ok(outcome) => Ok(outcome.results),
        Err(error) => Err(EvalError {
            message: error.message,
            not_finite: error.not_finite,
        }),
    }
}

macro_rules! variants {
    ($($variant:ident),*) => {
        fn slice(tensor: &Tensor) -> Slice<'_> {
            match tensor.data() {
                $(Data::$variant(v) => Slice::$variant(v),)*
                Data::String(_) => panic!("strings are not computed with"),
            }
        }

        fn slice_mut(data: &mut Data) -> SliceMut<'_> {
            match data {
                $(Data::$variant(v) => SliceMut::$variant(v),)*
                Data::String(_) => panic!("strings are not computed with"),
            }
        }
    };
}

variants!(F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool);

fn computed(
    prim: &'static Prim,
    attrs: &[Attr],
    tensors: &[Tensor],
    pool: &Pool,
    scratch: &mut Scratch,
) -> Result<Vec<Tensor>, EvalError> {
    let types: Vec<Type> = tensors.iter().map(Tensor::ty).collect();
    let results = infer(prim, &types, attrs).expect("the rule accepts the call");
    // Outputs begin as garbage, which a routine must not read.
    let garbage = |ty: &Type| match ty.dtype.is_float() {
        true => Tensor::from_f64s(ty, std::iter::repeat_n(f64::NAN, ty.elements())),
        false => Tensor::from_i64s(ty, std::iter::repeat_n(85, ty.elements())),
    };
    let mut data: Vec<Data> = results
        .iter()
        .map(|ty| garbage(ty).data().clone())
        .collect();
    let operands: Vec<Slice<'_>> = tensors.iter().map(slice).collect();
    let mut outputs: Vec<SliceMut<'_>> = data.iter_mut().map(slice_mut).collect();
    // As programs set it.
    let _ftz = FtzGuard::enable();
    find(prim).expect("there is a routine")(&mut Routine {
        prim,
        attrs,
        types: &types.iter().collect::<Vec<_>>(),
        results: &results.iter().collect::<Vec<_>>(),
        operands: &operands,
        outputs: &mut outputs,
        cpu: Cpu::host(),
        pool,
        scratch,
    })?;
    let made = results.iter().zip(data);
    Ok(made.map(|(ty, data)| Tensor::of(&ty.shape, data)).collect())
}

/// The bits of all elements.
fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype().is_float() {
        true => tensor.to_f64s().into_iter().map(f64::to_bits).collect(),
        false => tensor.to_i64s().into_iter().map(|n| n as u64).collect(),
    }
}

/// The error bound of each element of a reduction; `None` where it must be bit-equal.
fn error_bounds(
    prim: &'static Prim,
    attrs: &[Attr],
    tensors: &[Tensor],
    results: &[Tensor],
) -> Option<Vec<f64>> {
    let sizes = |i: usize| match &attrs[i] {
        Attr::Sizes(sizes) => sizes.clone(),
        other => panic!("{other:?} are no sizes"),
    };
    let size = |t: &Tensor| t.shape().iter().product::<usize>();
    let (linear, terms) = match prim.name {
        "reduce_sum" => (vec![0], size(&tensors[0]) / size(&results[0]).max(1)),
        "matmul" => {
            let batched =
                size(&tensors[0]) / results[0].shape()[results[0].shape().len() - 2].max(1);
            (vec![0, 1], batched)
        }
        "conv2d" => (vec![0, 1], tensors[1].shape()[..3].iter().product()),
        "conv2d_input_grad" => (vec![0, 1], size(&tensors[1])),
        "conv2d_filter_grad" => (vec![0, 1], size(&tensors[1])),
        "sum_pool2d" => (vec![0], sizes(0).iter().product()),
        "sum_pool2d_grad" => (vec![0], sizes(1).iter().product()),
        "max_pool2d_grad" => (vec![1], sizes(0).iter().product()),
        "scatter_add" => (vec![0, 2], size(&tensors[1]) + 1),
        "sum_rows" => (vec![1], size(&tensors[0])),
        "reduce_prod" => (vec![0], size(&tensors[0]) / size(&results[0]).max(1)),
        _ => return None,
    };
    let sums = if prim.name == "sum_rows" { 1 } else { 0 };
    let dtype = results[sums].dtype();
    if !dtype.is_float() {
        return None;
    }
    let absolute = |(i, t): (usize, &Tensor)| match linear.contains(&i) {
        true => Tensor::from_f64s(&t.ty(), t.to_f64s().into_iter().map(f64::abs)),
        false => t.clone(),
    };
    let all: Vec<Tensor> = tensors.iter().enumerate().map(absolute).collect();
    let absolutes = interpreted(prim, attrs, &all).expect("it had an answer");
    let (own, wide) = match dtype {
        DType::F16 => (2_f64.powi(-10), 2_f64.powi(-23)),
        DType::Bf16 => (2_f64.powi(-7), 2_f64.powi(-23)),
        DType::F32 => (2_f64.powi(-23), 2_f64.powi(-23)),
        _ => (2_f64.powi(-52), 2_f64.powi(-52)),
    };
    let (mut terms, results) = (terms as f64 + 2.0, results[sums].to_f64s());
    let mut sums = absolutes[sums].to_f64s();
    if prim.name.starts_with("conv2d") && absolutes[0].shape().iter().all(|n| *n > 1) {
        // Winograd (Toom-Cook) tiles: the error of each output is that of the largest of its tile, here of all.
        let channels = |t: &Tensor| t.shape()[t.shape().len() - 1];
        let many = |t: &Tensor| channels(t) % 16 == 0;
        if dtype == DType::F32 && tensors.iter().all(many) && many(&absolutes[0]) {
            let largest = sums.iter().copied().filter(|x| x.is_finite());
            let largest = largest.fold(0.0, f64::max);
            sums.fill(largest);
            terms = terms.min(16.0);
        }
    }
    let sums = sums.into_iter().zip(results);
    // The smallest normal number.
    let min_normal = if dtype == DType::F16 { 1e-7 } else { 1e-37 };
    Some(
        sums.map(|(sum, y)| terms * wide * sum + own * y.abs() + min_normal)
            .collect(),
    )
}

fn compare(what: &str, expected: &Tensor, found: &Tensor, bounds: Option<&Vec<f64>>) {
    assert_eq!(expected.ty(), found.ty(), "{what}");
    if !expected.dtype().is_float() {
        assert!(expected == found, "{what}: {expected} is not {found}");
        return;
    }
    let pairs = expected.to_f64s().into_iter().zip(found.to_f64s());
    for (i, (expected, found)) in pairs.enumerate() {
        let same = expected == found || (expected.is_nan() && found.is_nan());
        let near = bounds.is_some_and(|bounds| (expected - found).abs() <= bounds[i]);
        assert!(
            same || near,
            "{what}: element {i} is {found:e}, not {expected:e}"
        );
    }
}

/// Random tensors.
trait RandomTensors {
    /// A tensor of each type; one in four has infinities and NaNs among its floats.
    fn tensors(&mut self, types: &[Type]) -> Vec<Tensor>;

    /// A tensor of one type.
    fn tensor(&mut self, ty: &Type) -> Tensor;

    /// `n` positions in `low..high`.
    fn positions(&mut self, dtype: DType, n: usize, low: i64, high: i64) -> Tensor;
}

impl RandomTensors for XorShift {
    fn tensors(&mut self, types: &[Type]) -> Vec<Tensor> {
        types.iter().map(|ty| self.tensor(ty)).collect()
    }

    fn tensor(&mut self, ty: &Type) -> Tensor {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0];
        let few = self.index(4) == 0;
        let rare = 2 + ty.elements() / 4;
        let numbers = [0, 1, 2, -1, 3, 1, 0, 2, 100, i64::MIN, i64::MAX];
        let n = ty.elements();
        match ty.dtype.is_float() {
            true => {
                let mut float = || match few && self.index(rare) < 2 {
                    true => self.pick(&special),
                    false => self.index(4001) as f64 / 1000.0 - 2.0,
                };
                Tensor::from_f64s(ty, (0..n).map(|_| float()))
            }
            false => Tensor::from_i64s(ty, (0..n).map(|_| self.pick(&numbers))),
        }
    }

    fn positions(&mut self, dtype: DType, n: usize, low: i64, high: i64) -> Tensor {
        let ty = Type::new(dtype, &[n]);
        let span = (high - low) as usize;
        Tensor::from_i64s(&ty, (0..n).map(|_| low + self.index(span) as i64))
    }
}
