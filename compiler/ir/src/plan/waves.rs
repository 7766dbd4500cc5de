//! Wavefront scheduling: consecutive independent kernels form a wave, which runs in parallel.

use std::collections::HashSet;

use crate::kernel::{BufferId, KernelKind, Kernels};

/// The wave of each kernel: consecutive loops without a dependence between them share one, so that many small ones cost no more than
/// a large one. Library calls and scans have a wave of their own.
pub(super) fn of(kernels: &Kernels) -> Vec<usize> {
    let mut waves: Vec<usize> = Vec::with_capacity(kernels.kernels.len());
    // The outputs of the wave so far; `None` where nothing can join it.
    let mut written: Option<HashSet<BufferId>> = None;
    for kernel in &kernels.kernels {
        let is_loop = matches!(kernel.kind, KernelKind::Map(_));
        let joins =
            |written: &HashSet<BufferId>| kernel.inputs().all(|v| !written.contains(&v.buffer));
        let next = waves.last().map_or(0, |wave| wave + 1);
        match &mut written {
            Some(written) if is_loop && joins(written) => {
                waves.push(next - 1);
                written.extend(&kernel.outputs);
            }
            _ => {
                waves.push(next);
                written = is_loop.then(|| kernel.outputs.iter().copied().collect());
            }
        }
    }
    waves
}
