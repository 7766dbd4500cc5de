//! A repeated step allocates nothing: result tensors are allocated once, the arena and scratch buffers are reused.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array2, ArrayView2, ShapeBuilder};
use trainspec_codegen::Options;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, InputView};
use trainspec_ir::build::{Builder, Convolution, Pool as Window, Value};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::plan::plan;
use trainspec_ir::{DType, Tensor, passes};
use trainspec_testing::feeds::feeds;

/// The system's allocator, counting the allocations of all threads.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code)] // a global allocator cannot be written without
// SAFETY: all calls are passed on as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The optimizer of a training step.
enum Optimizer {
    Sgd,
    Adam,
}

fn f32(shape: &[usize]) -> Type {
    Type::new(DType::F32, shape)
}

/// The model with updates of its parameters.
fn step(b: Builder, loss: impl Fn(&Builder) -> (Vec<String>, u32), optimizer: Optimizer) -> Graph {
    let (names, loss) = loss(&b);
    let loss = b.value(trainspec_ir::graph::ValueId(loss));
    let types: Vec<Type> = b.with_graph(|g| {
        let of = |name: &String| g.find_state(name).map(|s| g.state[s.index()].ty.clone());
        names
            .iter()
            .map(|name| of(name).expect("it is read"))
            .collect()
    });
    let params: Vec<Value<'_>> = names
        .iter()
        .zip(&types)
        .map(|(n, ty)| b.read(n, ty))
        .collect();
    for ((name, w), gradient) in names.iter().zip(&params).zip(b.gradients(&[loss], &params)) {
        let gradient = gradient.expect("the loss depends on it").dense();
        match optimizer {
            Optimizer::Sgd => b.write(name, *w - 0.01 * gradient),
            Optimizer::Adam => {
                let slots = [format!("{name}/m"), format!("{name}/v")];
                let (m, v) = (b.read(&slots[0], &w.ty()), b.read(&slots[1], &w.ty()));
                let m = 0.9 * m + 0.1 * gradient;
                let v = 0.999 * v + 0.001 * gradient.square();
                b.write(&slots[0], m);
                b.write(&slots[1], v);
                b.write(name, *w - 0.001 * m / (v.abs().sqrt() + 1e-8));
            }
        }
    }
    b.result("loss", loss);
    passes::run(b.finish(), &Default::default())
}

fn regression() -> Graph {
    let model = |b: &Builder| {
        let (x, y) = (b.input("x", &f32(&[32, 8])), b.input("y", &f32(&[32])));
        let (w, bias) = (b.read("w", &f32(&[8, 1])), b.read("b", &f32(&[1])));
        let prediction = (x.matmul(w) + bias).reshape(&[32]);
        let loss = (prediction - y).square().mean(&[0]);
        (vec!["w".to_owned(), "b".to_owned()], loss.id().0)
    };
    step(Builder::new("regression"), model, Optimizer::Sgd)
}

/// The loss of logits at labels.
fn cross_entropy<'g>(b: &'g Builder, logits: Value<'g>, labels: Value<'g>) -> Value<'g> {
    let shape = logits.shape();
    let logs = logits - logits.max(&[1]).keep_dims(&[1]).stop_gradient();
    let logs = logs - logs.exp().sum(&[1]).log().keep_dims(&[1]);
    let labels = labels.floormod(labels.like(shape[1] as f64));
    let at = b.iota(shape[1]).broadcast(&shape);
    let picked = at.equal(labels.expand(1).broadcast(&shape));
    -picked
        .select(logs, logs.like(0.0).broadcast(&shape))
        .sum(&[1])
        .mean(&[0])
}

fn perceptron() -> Graph {
    let model = |b: &Builder| {
        let x = b.input("x", &f32(&[128, 64]));
        let labels = b.input("labels", &Type::new(DType::I64, &[128]));
        let (w1, b1) = (b.read("w1", &f32(&[64, 256])), b.read("b1", &f32(&[256])));
        let (w2, b2) = (b.read("w2", &f32(&[256, 10])), b.read("b2", &f32(&[10])));
        let hidden = (x.matmul(w1) + b1).tanh();
        let loss = cross_entropy(b, hidden.matmul(w2) + b2, labels);
        let names = ["w1", "b1", "w2", "b2"].map(str::to_owned).to_vec();
        (names, loss.id().0)
    };
    step(Builder::new("perceptron"), model, Optimizer::Adam)
}

fn convolutions() -> Graph {
    let model = |b: &Builder| {
        let x = b.input("x", &f32(&[16, 8, 8, 1]));
        let labels = b.input("labels", &Type::new(DType::I64, &[16]));
        let window = Convolution {
            strides: [1, 1],
            pads: [(1, 1), (1, 1)],
            dilations: [1, 1],
            groups: 1,
        };
        let pool = Window {
            ksize: [2, 2],
            strides: [2, 2],
            pads: [(0, 0), (0, 0)],
        };
        let (k1, k2) = (
            b.read("k1", &f32(&[3, 3, 1, 8])),
            b.read("k2", &f32(&[3, 3, 8, 16])),
        );
        let (bias, w) = (b.read("bias", &f32(&[8])), b.read("w", &f32(&[64, 10])));
        let first = (x.conv2d(k1, &window) + bias).maximum(x.like(0.0));
        let second = first
            .max_pool2d(&pool)
            .conv2d(k2, &window)
            .maximum(x.like(0.0));
        let features = second.max_pool2d(&pool).reshape(&[16, 64]);
        let loss = cross_entropy(b, features.matmul(w), labels);
        let names = ["k1", "k2", "bias", "w"].map(str::to_owned).to_vec();
        (names, loss.id().0)
    };
    step(Builder::new("convolutions"), model, Optimizer::Adam)
}

/// How matrices are fed; other inputs are tensors.
#[derive(Debug, Clone, Copy)]
enum Feeding {
    Tensors,
    /// Row-major arrays, which are read in place.
    Arrays,
    /// Column-major arrays, which are copied to a staging buffer.
    Transposed,
}

/// A matrix as an array, where it is fed so.
fn matrix(tensor: &Tensor, feeding: Feeding) -> Option<Array2<f32>> {
    let (&[m, n], Some(values)) = (tensor.shape(), tensor.values::<f32>()) else {
        return None;
    };
    let rows = ArrayView2::from_shape((m, n), values).expect("it is a matrix");
    match feeding {
        Feeding::Tensors => None,
        Feeding::Arrays => Some(rows.to_owned()),
        Feeding::Transposed => {
            let mut columns = Array2::zeros((m, n).f());
            columns.assign(&rows);
            assert!(!InputView::from(&columns).is_contiguous());
            Some(columns)
        }
    }
}

/// The view that an input is fed by: of the matrix, where there is one.
fn view<'a>(tensor: &'a Tensor, matrix: &'a Option<Array2<f32>>) -> InputView<'a> {
    match matrix {
        Some(matrix) => matrix.into(),
        None => tensor.into(),
    }
}

/// The allocations of the steps after the first few.
fn allocations(graph: &Graph, threads: usize, feeding: Feeding) -> usize {
    let pool = Arc::new(Pool::exactly(threads));
    let threads_of_program = Arc::clone(&pool);
    let compiled = CompiledProgram::compile(plan(fuse(graph, true)), &Options::default());
    let mut program = Executable::new(compiled.expect("it compiles"), pool);
    let fed = feeds(graph, 1);
    let tensors: Vec<&Tensor> = program
        .inputs()
        .iter()
        .map(|(n, _)| &fed.inputs[n])
        .collect();
    let matrices: Vec<_> = tensors.iter().map(|t| matrix(t, feeding)).collect();
    let pairs = tensors.iter().zip(&matrices);
    let inputs: Vec<InputView<'_>> = pairs.map(|(t, m)| view(t, m)).collect();
    let mut state = fed.state.clone();
    let places: Vec<usize> = (0..state.len()).collect();
    let mut results = program.results();
    let mut run = |steps: usize| {
        for _ in 0..steps {
            let step = program.step(&inputs, &mut state, &places, &mut results);
            step.expect("it runs");
        }
    };
    run(3);
    barrier(&threads_of_program);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run(50);
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(results[0].1.to_f64s()[0].is_finite(), "{results:?}");
    allocated
}

/// A barrier: waits until every thread has started, because a thread allocates its name when it starts.
fn barrier(pool: &Pool) {
    let present = AtomicUsize::new(0);
    pool.run(pool.threads(), &|_| {
        present.fetch_add(1, Ordering::SeqCst);
        while present.load(Ordering::SeqCst) < pool.threads() {
            std::thread::yield_now();
        }
    });
}

/// Without the usual harness, whose own threads would be counted.
fn main() {
    for (name, graph) in [
        ("regression", regression()),
        ("perceptron", perceptron()),
        ("convolutions", convolutions()),
    ] {
        for threads in [1, 2] {
            for feeding in [Feeding::Tensors, Feeding::Arrays, Feeding::Transposed] {
                assert_eq!(
                    allocations(&graph, threads, feeding),
                    0,
                    "{name} on {threads} threads, fed by {feeding:?}, in 50 steps"
                );
            }
        }
    }
}
