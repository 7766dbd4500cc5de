//! Which buffers can be made where another one ends.
//!
//! A loop that reads a buffer element by element, as the last that does, may put what it makes in its place: what it writes is in the
//! cache already.

use std::collections::{HashMap, HashSet};

use crate::kernel::{BufferId, KernelKind, Kernels, Map, Origin, Phases, View};

/// What of the kernels is known before buffers get their places.
pub(super) struct Liveness<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) waves: &'a [usize],
    /// The last kernel that needs each buffer.
    pub(super) last: &'a [usize],
    /// How many kernels of a wave read a buffer.
    pub(super) readers: &'a HashMap<(usize, BufferId), usize>,
}

impl Liveness<'_> {
    /// For each buffer that a kernel makes, the one in whose place it can be; no two have the same. A place has to be of the same size, and
    /// in the arena, which the caller has to see to.
    pub(super) fn reusable(&self, now: usize) -> Vec<Option<BufferId>> {
        let kernel = &self.kernels.kernels[now];
        let mut hosts = vec![None; kernel.outputs.len()];
        // The loop, which of the made buffers are its, and what a routine reads in any order.
        let (map, first, others): (&Map, usize, &[View]) = match &kernel.kind {
            KernelKind::Map(map) => (map, 0, &[]),
            KernelKind::Call {
                epilogue: Some(map),
                operands,
                ..
            } => (map, 1, operands),
            KernelKind::Call { epilogue: None, .. } | KernelKind::Scan { .. } => return hosts,
        };
        // A second walk over a row must find what the first one found.
        if Phases::of(map).walks_again() {
            return hosts;
        }
        let free = |buffer: BufferId| {
            let mut loads = map.loads.iter().filter(|load| load.buffer == buffer);
            self.kernels.buffers[buffer.index()].origin == Origin::Temp
                && self.last[buffer.index()] == now
                && self.readers.get(&(self.waves[now], buffer)) == Some(&1)
                && loads.all(|load| *load == View::whole(buffer, &map.shape))
                && others.iter().all(|view| view.buffer != buffer)
        };
        let mut taken = HashSet::new();
        for (store, (made, host)) in map
            .stores
            .iter()
            .zip(kernel.outputs[first..].iter().zip(&mut hosts[first..]))
        {
            let bytes = |b: BufferId| {
                let ty = &self.kernels.buffers[b.index()].ty;
                (ty.elements(), ty.dtype.bytes())
            };
            *host = map.loads.iter().map(|load| load.buffer).find(|b| {
                !store.row && bytes(*b) == bytes(*made) && !taken.contains(b) && free(*b)
            });
            taken.extend(*host);
        }
        hosts
    }
}
