//! In-place reuse: outputs that may alias an input whose last use is this kernel.
//!
//! A loop that reads a buffer elementwise, as its last use, may write its output to the same allocation: the cache lines that it writes
//! are in the cache already.

use std::collections::{HashMap, HashSet};

use crate::kernel::{BufferId, KernelKind, Kernels, Map, Origin, Phases, View};

/// Liveness of the buffers: last uses and readers, known before allocation.
pub(super) struct Liveness<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) waves: &'a [usize],
    /// The last use of each buffer, as the index of a kernel.
    pub(super) last_use: &'a [usize],
    /// How many kernels of a wave read a buffer.
    pub(super) readers: &'a HashMap<(usize, BufferId), usize>,
}

impl Liveness<'_> {
    /// For each output of a kernel, the input that it may alias; no two outputs alias the same input. The input has the same size; the
    /// caller has to check that it is in the arena.
    pub(super) fn reusable(&self, now: usize) -> Vec<Option<BufferId>> {
        let kernel = &self.kernels.kernels[now];
        let mut reused = vec![None; kernel.outputs.len()];
        // The loop, its first output, and the operands of the library call, which are read in any order.
        let (map, first, others): (&Map, usize, &[View]) = match &kernel.kind {
            KernelKind::Map(map) => (map, 0, &[]),
            KernelKind::Call {
                epilogue: Some(map),
                operands,
                ..
            } => (map, 1, operands),
            KernelKind::Call { epilogue: None, .. } | KernelKind::Scan { .. } => return reused,
        };
        // A second pass over a row must load what the first one loaded.
        if Phases::of(map).is_multi_pass() {
            return reused;
        }
        let is_dead_after = |buffer: BufferId| {
            let mut loads = map.loads.iter().filter(|load| load.buffer == buffer);
            self.kernels.buffers[buffer.index()].origin == Origin::Temp
                && self.last_use[buffer.index()] == now
                && self.readers.get(&(self.waves[now], buffer)) == Some(&1)
                && loads.all(|load| *load == View::contiguous(buffer, &map.shape))
                && others.iter().all(|view| view.buffer != buffer)
        };
        let mut taken = HashSet::new();
        for (store, (output, alias)) in map
            .stores
            .iter()
            .zip(kernel.outputs[first..].iter().zip(&mut reused[first..]))
        {
            let bytes = |b: BufferId| {
                let ty = &self.kernels.buffers[b.index()].ty;
                (ty.elements(), ty.dtype.bytes())
            };
            *alias = map.loads.iter().map(|load| load.buffer).find(|b| {
                !store.row && bytes(*b) == bytes(*output) && !taken.contains(b) && is_dead_after(*b)
            });
            taken.extend(*alias);
        }
        reused
    }
}
