//! The cost model of kernels: bytes and FLOPs that can be counted by hand.

use trainspec_ir::DType;
use trainspec_ir::build::{Builder, Convolution, Loop};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::plan::Cost;

fn floats(shape: &[usize]) -> Type {
    Type::new(DType::F32, shape)
}

/// The cost of each kernel.
fn costs(graph: &Graph) -> Vec<Cost> {
    let kernels = fuse(graph, true);
    let each = kernels.kernels.iter();
    each.map(|kernel| Cost::of(&kernels, kernel)).collect()
}

fn cost(read: u64, written: u64, flops: u64) -> Cost {
    Cost {
        read,
        written,
        flops,
    }
}

#[test]
fn a_matrix_product_counts_two_flops_for_each_term() {
    let b = Builder::new("product");
    let (x, y) = (
        b.input("x", &floats(&[2, 3, 5])),
        b.input("y", &floats(&[2, 5, 7])),
    );
    b.result("z", x.matmul(y));
    let (read, written) = (4 * 2 * (15 + 35), 4 * 2 * 21);
    assert_eq!(costs(&b.finish()), [cost(read, written, 2 * 2 * 3 * 5 * 7)]);
    let b = Builder::new("transposed");
    let (x, y) = (
        b.input("x", &floats(&[5, 3])),
        b.input("y", &floats(&[7, 5])),
    );
    b.result("z", x.matmul_with(y, true, true));
    assert_eq!(costs(&b.finish())[0].flops, 2 * 3 * 5 * 7);
}

#[test]
fn a_broadcast_operand_is_read_once() {
    let b = Builder::new("rows");
    let (x, y) = (
        b.input("x", &floats(&[100, 8])),
        b.input("y", &floats(&[8])),
    );
    b.result("z", x * y + x);
    assert_eq!(costs(&b.finish()), [cost(4 * (800 + 8), 4 * 800, 2 * 800)]);
}

#[test]
fn a_sum_fused_with_a_loop_counts_one_flop_for_each_element() {
    let b = Builder::new("squares");
    let x = b.input("x", &floats(&[10, 8]));
    b.result("sum", (x * x).sum(&[1]));
    assert_eq!(costs(&b.finish()), [cost(320, 40, 160)]);
}

#[test]
fn a_row_gather_reads_only_its_rows() {
    let b = Builder::new("rows");
    let table = b.input("table", &floats(&[1000, 4]));
    let indices = b.input("indices", &Type::new(DType::I64, &[3]));
    b.result("rows", table.take(indices));
    assert_eq!(costs(&b.finish()), [cost(48 + 24, 48, 0)]);
}

#[test]
fn a_convolution_and_its_vjps_have_the_same_flops() {
    let b = Builder::new("convolution");
    let window = Convolution {
        strides: [1, 1],
        pads: [(1, 1), (1, 1)],
        dilations: [1, 1],
        groups: 1,
    };
    let (x, f) = (
        b.input("x", &floats(&[2, 6, 6, 3])),
        b.input("f", &floats(&[3, 3, 3, 4])),
    );
    let y = x.conv2d(f, &window);
    b.result("y", y);
    b.result("dx", y.conv2d_input_grad(f, &[2, 6, 6, 3], &window));
    b.result("df", x.conv2d_filter_grad(y, &[3, 3, 3, 4], &window));
    let flops: Vec<u64> = costs(&b.finish()).iter().map(|c| c.flops).collect();
    assert_eq!(flops, [2 * (2 * 6 * 6 * 4) * 27; 3]);
}

#[test]
fn a_loop_costs_its_iterations() {
    let b = Builder::new("loop");
    let xs = b.input("xs", &floats(&[10, 4]));
    let walk = Loop {
        length: 10,
        starts: vec![b.full(&floats(&[4]), 1.0)],
        over: vec![xs],
        ..Loop::default()
    };
    let (carried, _) = b.scan(walk, |r| (vec![r.carries[0] * r.elements[0]], vec![]));
    b.result("product", carried[0]);
    let last = *costs(&b.finish()).last().unwrap();
    assert_eq!(last, cost(10 * 32, 10 * 16, 10 * 4));
}
