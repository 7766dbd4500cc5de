//! Epilogue fusion: bias and activation are applied to each row of a matrix product while the row is in cache.

use std::collections::HashMap;

use crate::fuse::Fuser;
use crate::kernel::{BufferId, Kernel, KernelKind, Kernels, Map, View};
use crate::ops::prims;
use crate::types::DType;

impl Fuser<'_> {
    /// Adds a loop. One over the rows of a matrix product, which reads nothing that is computed after the product, becomes its epilogue.
    pub(super) fn fuse_epilogue(&mut self, kernel: Kernel) {
        let KernelKind::Map(map) = kernel.kind else {
            return self.push(kernel);
        };
        let Some(index) = gemm_for_epilogue(&self.out, &self.producers, &map) else {
            let kind = KernelKind::Map(map);
            return self.push(Kernel { kind, ..kernel });
        };
        for buffer in &kernel.outputs {
            self.producers.insert(*buffer, index);
        }
        let product = &mut self.out.kernels[index];
        if let KernelKind::Call { epilogue, .. } = &mut product.kind {
            *epilogue = Some(Box::new(map));
        }
        product.outputs.extend(kernel.outputs);
        product.fusion_barrier = kernel.fusion_barrier;
        product.span = kernel.span;
    }
}

/// The matrix product that a loop can be the epilogue of, by the index of its kernel.
fn gemm_for_epilogue(
    kernels: &Kernels,
    producers: &HashMap<BufferId, usize>,
    map: &Map,
) -> Option<usize> {
    // The last producer of the loop's inputs must be the product.
    let indices: Vec<Option<usize>> = map
        .loads
        .iter()
        .map(|v| producers.get(&v.buffer).copied())
        .collect();
    let index = (*indices.iter().max()?)?;
    let product = &kernels.kernels[index];
    let KernelKind::Call {
        prim,
        epilogue: None,
        ..
    } = &product.kind
    else {
        return None;
    };
    let ty = &kernels.buffers[product.outputs[0].index()].ty;
    let floats = matches!(ty.dtype, DType::F32 | DType::F64);
    let row: usize = map.shape[map.shape.len() - map.reduced_dims..]
        .iter()
        .product();
    let columns = *ty.shape.last()?;
    let entire =
        |view: &View| view.is_contiguous() && view.offset == 0 && view.elements() == ty.elements();
    let fits = **prim == prims::MATMUL
        && floats
        && ty.elements() > 0
        && columns % row == 0
        && map
            .loads
            .iter()
            .zip(&indices)
            .all(|(view, at)| *at != Some(index) || entire(view));
    fits.then_some(index)
}
