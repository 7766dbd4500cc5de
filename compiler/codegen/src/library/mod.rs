//! Kernel library: routines for primitives that are no fused loops: matmul, convolution, pooling, reductions, gather and scatter, sorts.
//!
//! In: a primitive with its attributes, and dense row-major slices of operands and results. Out: the results, or
//! the [`EvalError`] that the interpreter would give. Every primitive has a routine; elementwise ones use the primitive's
//! scalar functions. Leaves alone: elementwise primitives that were fused, which are faster as a compiled loop.
//!
//! Work is divided into tasks by sizes alone, so that results are deterministic for any number of threads.

mod argmax_argsort;
mod cast;
mod concat;
mod convolution;
mod cumsum;
mod elements;
mod elementwise;
mod gather_scatter;
mod generators;
mod matmul;
mod orthogonalize;
mod pad;
mod polygamma;
mod pooling;
mod reduce;
mod scratch;
mod segments;
mod sets;
mod slices;
mod strided;
mod sum_rows;

use trainspec_ir::graph::{Attr, Eval, Prim, Type};
use trainspec_ir::interp::EvalError;

use crate::cpu::Cpu;
use crate::exec::pool::Pool;
use elements::Elem;
pub use matmul::matmul_with_epilogue;
pub use scratch::{BufferPool, Pooled, Scratch};
pub use slices::{Slice, SliceMut};

/// One call of a primitive: its types, its data, threads and scratch memory.
pub struct Routine<'a> {
    /// The primitive.
    pub prim: &'static Prim,
    /// Its attributes.
    pub attrs: &'a [Attr],
    /// The types of the operands.
    pub types: &'a [&'a Type],
    /// The types of the results.
    pub results: &'a [&'a Type],
    /// The operands, row-major.
    pub operands: &'a [Slice<'a>],
    /// The results, row-major; their contents before the call are arbitrary.
    pub outputs: &'a mut [SliceMut<'a>],
    /// The CPU features to use.
    pub cpu: Cpu,
    /// The threads to compute on.
    pub pool: &'a Pool,
    /// Scratch memory, reused from call to call.
    pub scratch: &'a mut Scratch,
}

/// A routine. After an error the results are arbitrary.
///
/// Panics where slices do not match the types.
pub type Run = fn(&mut Routine<'_>) -> Result<(), EvalError>;

/// The routine of a primitive.
pub fn find(prim: &Prim) -> Option<Run> {
    Some(match prim.name {
        "argmax" => argmax_argsort::argmax,
        "argmin" => argmax_argsort::argmin,
        "argsort" => argmax_argsort::argsort,
        "bounded" => sets::bounded,
        "broadcast" => strided::broadcast,
        "cast" => cast::cast,
        "check_finite" => sets::check_finite,
        "compact" => sets::compact,
        "concat" => concat::concat,
        "conv2d" => convolution::conv2d,
        "conv2d_filter_grad" => convolution::conv2d_filter_grad,
        "conv2d_input_grad" => convolution::conv2d_input_grad,
        "cumsum" => cumsum::cumsum,
        "fold_key" => generators::fold_key,
        "iota" => generators::iota,
        "logical_not" => elementwise::logical_not,
        "matmul" => matmul::matmul,
        "max_pool2d" => pooling::max_pool2d,
        "max_pool2d_grad" => pooling::max_pool2d_grad,
        "max_pool2d_pick" => pooling::max_pool2d_pick,
        "orthogonalize" => orthogonalize::orthogonalize,
        "pad" => pad::pad,
        "polygamma" => polygamma::polygamma,
        "put_rows" => gather_scatter::put_rows,
        "random_key" => generators::random_key,
        "random_uniform" => generators::random_uniform,
        "reduce_all" => reduce::reduce_all,
        "reduce_any" => reduce::reduce_any,
        "reduce_max" => reduce::reduce_max,
        "reduce_min" => reduce::reduce_min,
        "reduce_prod" => reduce::reduce_prod,
        "reduce_sum" => reduce::reduce_sum,
        "reshape" | "stop_gradient" | "straight_through" => strided::copy,
        "reverse" => strided::reverse,
        "scatter_add" => gather_scatter::scatter_add,
        "scatter_set" => gather_scatter::scatter_set,
        "select" => elementwise::select,
        "slice" => strided::slice,
        "sum_pool2d" => pooling::sum_pool2d,
        "sum_pool2d_grad" => pooling::sum_pool2d_grad,
        "sum_rows" => sum_rows::sum_rows,
        "take" => gather_scatter::take,
        "transpose" => strided::transpose,
        "unique" => sets::unique,
        "unsorted_segment_max" => segments::max,
        "unsorted_segment_min" => segments::min,
        "unsorted_segment_prod" => segments::prod,
        _ => match prim.eval {
            Eval::Float1(_)
            | Eval::Float2(_)
            | Eval::Number1(..)
            | Eval::Number2(..)
            | Eval::Test1(_)
            | Eval::Compare(..)
            | Eval::Bool2(_) => elementwise::elementwise,
            Eval::Tensors(_) => return None,
        },
    })
}

/// The grain size: elements of a task where each is little work.
const GRAIN: usize = 1 << 14;

impl<'a> Routine<'a> {
    /// The elements of an operand.
    fn x<T: Elem>(&self, i: usize) -> &'a [T] {
        let x = T::of(&self.operands[i]);
        x.unwrap_or_else(|| panic!("operand {i} of `{}` is not {}", self.prim.name, T::DTYPE))
    }

    /// Panics unless the lengths of the slices match the types.
    fn check(&self) {
        let name = self.prim.name;
        let operands = self.operands.iter().map(Slice::len);
        let expected = self.types.iter().map(|ty| ty.elements());
        assert!(operands.eq(expected), "the operands of `{name}`");
        let outputs = self.outputs.iter().map(SliceMut::len);
        let expected = self.results.iter().map(|ty| ty.elements());
        assert!(outputs.eq(expected), "the results of `{name}`");
    }

    fn attr(&self, name: &str) -> &'a Attr {
        let index = self.prim.attrs.iter().position(|(n, _)| *n == name);
        let index =
            index.unwrap_or_else(|| panic!("`{}` has no attribute `{name}`", self.prim.name));
        &self.attrs[index]
    }

    fn int(&self, name: &str) -> i64 {
        match self.attr(name) {
            Attr::Int(n) => *n,
            other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
        }
    }

    fn size(&self, name: &str) -> usize {
        match self.attr(name) {
            Attr::Size(n) => *n,
            other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
        }
    }

    fn sizes(&self, name: &str) -> &'a [usize] {
        match self.attr(name) {
            Attr::Sizes(n) => n,
            other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
        }
    }

    fn pairs(&self, name: &str) -> &'a [(usize, usize)] {
        match self.attr(name) {
            Attr::Pairs(n) => n,
            other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
        }
    }

    fn flag(&self, name: &str) -> bool {
        match self.attr(name) {
            Attr::Flag(b) => *b,
            other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
        }
    }

    fn string(&self, name: &str) -> &'a str {
        match self.attr(name) {
            Attr::String(t) => t,
            other => panic!("`{name}` of `{}` is {other:?}", self.prim.name),
        }
    }
}

/// The elements of a result.
fn y<'b, T: Elem>(output: &'b mut SliceMut<'_>) -> &'b mut [T] {
    T::of_mut(output).unwrap_or_else(|| panic!("a result is not {}", T::DTYPE))
}
