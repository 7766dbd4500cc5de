//! Which kernels can run at once.

use std::collections::HashSet;

use crate::kernel::{BufferId, KernelKind, Kernels};

/// The wave of each kernel: loops in a row that read nothing of each other share one, so that many small ones cost no more than a
/// large one. All else runs alone.
pub(super) fn of(kernels: &Kernels) -> Vec<usize> {
    let mut waves: Vec<usize> = Vec::with_capacity(kernels.kernels.len());
    // What the wave makes so far; `None` where nothing can join it.
    let mut made: Option<HashSet<BufferId>> = None;
    for kernel in &kernels.kernels {
        let is_loop = matches!(kernel.kind, KernelKind::Map(_));
        let joins = |made: &HashSet<BufferId>| kernel.inputs().all(|v| !made.contains(&v.buffer));
        let next = waves.last().map_or(0, |wave| wave + 1);
        match &mut made {
            Some(made) if is_loop && joins(made) => {
                waves.push(next - 1);
                made.extend(&kernel.outputs);
            }
            _ => {
                waves.push(next);
                made = is_loop.then(|| kernel.outputs.iter().copied().collect());
            }
        }
    }
    waves
}
