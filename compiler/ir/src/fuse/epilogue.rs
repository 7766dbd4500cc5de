//! Loops that ride on a product: bias and activation are done row by row, while the rows are in cache.

use std::collections::HashMap;

use crate::fuse::Fuser;
use crate::kernel::{BufferId, Kernel, KernelKind, Kernels, Map, View};
use crate::ops::prims;
use crate::types::DType;

impl Fuser<'_> {
    /// Adds a loop. One that walks over the rows of a product, and reads nothing that is made after it, becomes a part of the product.
    pub(super) fn fuse_epilogue(&mut self, kernel: Kernel) {
        let KernelKind::Map(map) = kernel.kind else {
            return self.push(kernel);
        };
        let Some(place) = gemm_for_epilogue(&self.out, &self.makers, &map) else {
            let kind = KernelKind::Map(map);
            return self.push(Kernel { kind, ..kernel });
        };
        for buffer in &kernel.outputs {
            self.makers.insert(*buffer, place);
        }
        let product = &mut self.out.kernels[place];
        if let KernelKind::Call { epilogue, .. } = &mut product.kind {
            *epilogue = Some(Box::new(map));
        }
        product.outputs.extend(kernel.outputs);
        product.ended = kernel.ended;
        product.span = kernel.span;
    }
}

/// The product that a loop can ride on.
fn gemm_for_epilogue(
    kernels: &Kernels,
    makers: &HashMap<BufferId, usize>,
    map: &Map,
) -> Option<usize> {
    // The latest of what the loop reads must be the product.
    let places: Vec<Option<usize>> = map
        .loads
        .iter()
        .map(|v| makers.get(&v.buffer).copied())
        .collect();
    let place = (*places.iter().max()?)?;
    let product = &kernels.kernels[place];
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
    let row: usize = map.shape[map.shape.len() - map.folded..].iter().product();
    let columns = *ty.shape.last()?;
    let whole =
        |view: &View| view.is_contiguous() && view.offset == 0 && view.elements() == ty.elements();
    let rides = **prim == prims::MATMUL
        && floats
        && ty.elements() > 0
        && columns % row == 0
        && map
            .loads
            .iter()
            .zip(&places)
            .all(|(view, at)| *at != Some(place) || whole(view));
    rides.then_some(place)
}
