//! The cost model of kernels: memory traffic in bytes and floating-point operations (FLOPs), as in a roofline.
//!
//! In: a kernel. Out: counts that follow from its shapes alone. Leaves alone: caches, and how long an operation takes: an
//! exponential counts one, as an addition does.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

use crate::graph::{Attr, Eval, Prim};
use crate::kernel::{BufferId, InstOp, Kernel, KernelKind, Kernels, Map, Phases, View};
use crate::ops::prims;

/// Memory traffic and arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Bytes read, each element once however often a kernel uses it.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Floating-point operations; a multiply-add counts two.
    pub flops: u64,
}

impl Cost {
    /// The cost of a kernel.
    pub fn of(kernels: &Kernels, kernel: &Kernel) -> Cost {
        let written = kernel.outputs.iter().map(|b| size(kernels, *b)).sum();
        match &kernel.kind {
            KernelKind::Map(map) => Cost {
                read: touched(kernels, map.loads.iter()),
                written,
                flops: of_loop(map),
            },
            KernelKind::Call {
                prim,
                attrs,
                operands,
                epilogue,
            } => {
                let call_outputs = if epilogue.is_some() {
                    1
                } else {
                    kernel.outputs.len()
                };
                let results = kernel.outputs[..call_outputs].iter().map(|b| {
                    let ty = &kernels.buffers[b.index()].ty;
                    ty.elements() as u64
                });
                let flops = of_call(prim, attrs, operands, results.sum());
                let epilogue_flops = epilogue.as_ref().map_or(0, |map| of_loop(map));
                let flops = flops.saturating_add(epilogue_flops);
                // Only the rows at the indices are read.
                let read = if **prim == prims::TAKE {
                    written + touched(kernels, operands[1..].iter())
                } else {
                    // What the epilogue reads of the product is in cache.
                    let others = kernel
                        .inputs()
                        .filter(|v| !kernel.outputs.contains(&v.buffer));
                    touched(kernels, others)
                };
                Cost {
                    read,
                    written,
                    flops,
                }
            }
            KernelKind::Scan { length, body, .. } => Cost::of_all(body).times(*length as u64),
        }
    }

    /// The cost of all kernels together.
    pub fn of_all(kernels: &Kernels) -> Cost {
        let each = kernels.kernels.iter().map(|k| Cost::of(kernels, k));
        each.fold(Cost::default(), Cost::add)
    }

    /// Bytes read and written.
    pub fn bytes(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    fn times(self, n: u64) -> Cost {
        Cost {
            read: self.read.saturating_mul(n),
            written: self.written.saturating_mul(n),
            flops: self.flops.saturating_mul(n),
        }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
            flops: self.flops.saturating_add(other.flops),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

fn size(kernels: &Kernels, buffer: BufferId) -> u64 {
    let ty = &kernels.buffers[buffer.index()].ty;
    ty.elements() as u64 * ty.dtype.bytes() as u64
}

/// The bytes that views cover; of one buffer never more than it has.
fn touched<'a>(kernels: &Kernels, views: impl Iterator<Item = &'a View>) -> u64 {
    let mut buffers: BTreeMap<BufferId, u64> = BTreeMap::new();
    for view in views {
        let distinct = view.shape.iter().zip(&view.strides);
        let elements: u64 = distinct
            .map(|(n, stride)| if *stride == 0 { 1.min(*n) } else { *n } as u64)
            .product();
        let bytes = kernels.buffers[view.buffer.index()].ty.dtype.bytes() as u64;
        *buffers.entry(view.buffer).or_default() += elements * bytes;
    }
    let each = buffers.iter();
    each.map(|(buffer, bytes)| (*bytes).min(size(kernels, *buffer)))
        .sum()
}

fn of_loop(map: &Map) -> u64 {
    let moves = [
        &prims::SELECT,
        &prims::CAST,
        &prims::STOP_GRADIENT,
        &prims::STRAIGHT_THROUGH,
    ];
    let counts = |inst: &&crate::kernel::Inst| match &inst.op {
        InstOp::Prim(prim, _) => inst.dtype.is_float() && !moves.contains(prim),
        InstOp::Reduce(..) => true,
        InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => false,
    };
    let phases = Phases::of(map);
    let rows: usize = map.shape[..map.shape.len() - map.reduced_dims]
        .iter()
        .product();
    let elements: usize = map.shape.iter().product();
    let times = |i: usize| match (&map.body[i].op, phases.row_invariant[i]) {
        (InstOp::Prim(..), true) => rows,
        _ => elements,
    };
    let counted = map.body.iter().enumerate().filter(|(_, inst)| counts(inst));
    counted.fold(0, |sum, (i, _)| sum.saturating_add(times(i) as u64))
}

fn of_call(prim: &'static Prim, attrs: &[Attr], operands: &[View], results: u64) -> u64 {
    let elements = |i: usize| operands.get(i).map_or(0, |v| v.elements() as u64);
    let attr = |name: &str| {
        let index = prim.attrs.iter().position(|(n, _)| *n == name);
        index.and_then(|i| attrs.get(i))
    };
    let window = || match attr("ksize") {
        Some(Attr::Sizes(sizes)) => sizes.iter().product::<usize>() as u64,
        _ => 1,
    };
    // The multiply-adds of one element of a convolution's result: the filter taps of one channel.
    let taps = |filters: &[usize]| filters.iter().take(3).product::<usize>() as u64;
    let shape = || match attr("shape") {
        Some(Attr::Sizes(sizes)) => sizes.as_slice(),
        _ => &[],
    };
    match prim.name {
        "matmul" => {
            let a = &operands[0].shape;
            let transposed = matches!(attr("transpose_a"), Some(Attr::Flag(true)));
            let k = a.len().checked_sub(if transposed { 2 } else { 1 });
            let k = k.map_or(1, |i| a[i] as u64);
            results.saturating_mul(2 * k)
        }
        "conv2d" => results.saturating_mul(2 * taps(&operands[1].shape)),
        "conv2d_filter_grad" => elements(1).saturating_mul(2 * taps(shape())),
        "conv2d_input_grad" => elements(0).saturating_mul(2 * taps(&operands[1].shape)),
        "max_pool2d" | "sum_pool2d" => results.saturating_mul(window()),
        "max_pool2d_grad" => elements(1).saturating_mul(window()),
        "sum_pool2d_grad" => elements(0).saturating_mul(window()),
        "reduce_sum" | "reduce_max" | "reduce_min" | "reduce_prod" | "cumsum" => elements(0),
        "scatter_add" => elements(2),
        "unsorted_segment_max" | "unsorted_segment_min" | "unsorted_segment_prod" => elements(0),
        "polygamma" => results,
        // QR by Householder reflections: about two operations for each element and vector.
        "orthogonalize" => {
            let vectors = operands[0].shape.iter().min().copied().unwrap_or(1) as u64;
            elements(0).saturating_mul(2 * vectors)
        }
        _ => match prim.eval {
            Eval::Float1(_) | Eval::Float2(_) | Eval::Number1(..) | Eval::Number2(..) => results,
            Eval::Test1(_) | Eval::Compare(..) | Eval::Bool2(_) | Eval::Tensors(_) => 0,
        },
    }
}
