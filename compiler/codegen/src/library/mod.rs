//! Routines for primitives that are no loops over elements: products, windows, rows at positions, sorts.
//!
//! In: a primitive with its attributes, and contiguous slices of operands and results, row after row. Out: the results, or
//! the fault that the interpreter would give. Every primitive has a routine; those of single elements use the primitive's
//! own functions. Leaves alone: what can be fused, which is faster as a compiled loop.
//!
//! How work is cut depends on sizes alone, so that the number of threads changes no bit.

mod cast;
mod concat;
mod convolution;
mod cumsum;
mod elements;
mod elementwise;
mod matmul;
mod moves;
mod numbers;
mod orthogonalize;
mod pad;
mod polygamma;
mod pools;
mod positions;
mod reduce;
mod rows;
mod scratch;
mod segments;
mod sets;
mod slices;
mod sums;
mod windows;

use trainspec_ir::graph::{Attr, Eval, Prim, Type};
use trainspec_ir::interp::EvalError;

use crate::exec::pool::Pool;
use elements::Elem;
pub use matmul::matmul_then;
pub use scratch::{Kept, Scratch, Shelf};
pub use slices::{Slice, SliceMut};

/// One use of a primitive: its types, its data and the means to compute with.
pub struct Routine<'a> {
    /// Which.
    pub prim: &'static Prim,
    /// What it is told besides its operands.
    pub attrs: &'a [Attr],
    /// The types of the operands.
    pub types: &'a [&'a Type],
    /// The types of the results.
    pub results: &'a [&'a Type],
    /// The operands, row after row.
    pub operands: &'a [Slice<'a>],
    /// Where the results go, row after row; what is there before is of no account.
    pub outputs: &'a mut [SliceMut<'a>],
    /// The threads to compute on.
    pub pool: &'a Pool,
    /// Memory to compute in, kept from call to call.
    pub scratch: &'a mut Scratch,
}

/// What computes a primitive. After a fault the results are arbitrary.
///
/// Slices that are not what the types say make it panic.
pub type Run = fn(&mut Routine<'_>) -> Result<(), EvalError>;

/// What computes a primitive: a routine for each there is.
pub fn find(prim: &Prim) -> Option<Run> {
    Some(match prim.name {
        "argmax" => positions::argmax,
        "argmin" => positions::argmin,
        "argsort" => positions::argsort,
        "bounded" => sets::bounded,
        "broadcast" => moves::broadcast,
        "cast" => cast::cast,
        "compact" => sets::compact,
        "concat" => concat::concat,
        "conv2d" => convolution::conv2d,
        "conv2d_filter_grad" => convolution::conv2d_filter_grad,
        "conv2d_input_grad" => convolution::conv2d_input_grad,
        "cumsum" => cumsum::cumsum,
        "fold_key" => numbers::fold_key,
        "iota" => numbers::iota,
        "logical_not" => elementwise::logical_not,
        "matmul" => matmul::matmul,
        "max_pool2d" => pools::max_pool2d,
        "max_pool2d_grad" => pools::max_pool2d_grad,
        "max_pool2d_pick" => pools::max_pool2d_pick,
        "orthogonalize" => orthogonalize::orthogonalize,
        "pad" => pad::pad,
        "polygamma" => polygamma::polygamma,
        "put_rows" => rows::put_rows,
        "random_key" => numbers::random_key,
        "random_uniform" => numbers::random_uniform,
        "reduce_all" => reduce::reduce_all,
        "reduce_any" => reduce::reduce_any,
        "reduce_max" => reduce::reduce_max,
        "reduce_min" => reduce::reduce_min,
        "reduce_prod" => reduce::reduce_prod,
        "reduce_sum" => reduce::reduce_sum,
        "reshape" | "stop_gradient" | "straight_through" => moves::copy,
        "reverse" => moves::reverse,
        "scatter_add" => rows::scatter_add,
        "scatter_set" => rows::scatter_set,
        "select" => elementwise::select,
        "slice" => moves::slice,
        "sum_pool2d" => pools::sum_pool2d,
        "sum_pool2d_grad" => pools::sum_pool2d_grad,
        "sum_rows" => sums::sum_rows,
        "take" => rows::take,
        "transpose" => moves::transpose,
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

/// How many elements a task takes where each is little work.
const GRAIN: usize = 1 << 14;

impl<'a> Routine<'a> {
    /// The elements of an operand.
    fn x<T: Elem>(&self, i: usize) -> &'a [T] {
        let x = T::of(&self.operands[i]);
        x.unwrap_or_else(|| panic!("operand {i} of `{}` is not {}", self.prim.name, T::DTYPE))
    }

    /// Panics unless the slices are as long as the types say.
    fn check(&self) {
        let name = self.prim.name;
        let operands = self.operands.iter().map(Slice::len);
        let wanted = self.types.iter().map(|ty| ty.elements());
        assert!(operands.eq(wanted), "the operands of `{name}`");
        let outputs = self.outputs.iter().map(SliceMut::len);
        let wanted = self.results.iter().map(|ty| ty.elements());
        assert!(outputs.eq(wanted), "the results of `{name}`");
    }

    fn attr(&self, name: &str) -> &'a Attr {
        let place = self.prim.attrs.iter().position(|(n, _)| *n == name);
        let place =
            place.unwrap_or_else(|| panic!("`{}` has no attribute `{name}`", self.prim.name));
        &self.attrs[place]
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
