//! Memory planning, kernels to a program: the static allocation of each buffer.
//!
//! In: kernels in order. Out: the same with an allocation for each buffer. Independent kernels run in one wave. Temporaries share one
//! arena, allocated first fit by live range: two of them overlap when no wave needs both, or when one is computed in place of the other,
//! element by element.

mod cost;
mod in_place;
mod reuse;
mod waves;
mod writes_last;

pub use cost::Cost;

use std::fmt;

use crate::graph::{StateId, Type};
use crate::kernel::{BufferId, KernelKind, Kernels, Origin, View};

/// Kernels with allocations for their buffers.
#[derive(Debug, Clone)]
pub struct Program {
    /// The kernels.
    pub kernels: Kernels,
    /// The wave that each kernel runs in, counted from 0; kernels of one wave can run at once.
    pub waves: Vec<usize>,
    /// The allocation of each buffer.
    pub allocations: Vec<Allocation>,
    /// The size of the arena, in bytes.
    pub arena: usize,
}

/// Where a buffer is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// By the caller: the index of the input.
    Input(usize),
    /// With the constants: the index among them.
    Const(usize),
    /// With the state: the index among it.
    State(usize),
    /// In the arena, at this byte offset.
    Arena(usize),
}

/// The alignment of buffers, in bytes: a cache line.
pub const ALIGNMENT: usize = 64;

/// Schedules kernels in waves and allocates all buffers.
pub fn plan(mut kernels: Kernels) -> Program {
    writes_last::reorder(&mut kernels);
    let waves = waves::of(&kernels);
    let last_use = last_uses(&kernels);
    let (mut inputs, mut constants) = (0, 0);
    let mut allocations = Vec::with_capacity(kernels.buffers.len());
    for buffer in &kernels.buffers {
        allocations.push(match &buffer.origin {
            Origin::Input(_) => {
                inputs += 1;
                Allocation::Input(inputs - 1)
            }
            Origin::Const(_) => {
                constants += 1;
                Allocation::Const(constants - 1)
            }
            Origin::State(id) => Allocation::State(id.index()),
            // Replaced when its kernel is reached.
            Origin::Temp => Allocation::Arena(0),
        });
    }
    let readers = in_place::readers(&kernels, &waves);
    for (buffer, state) in in_place::find(&kernels, &waves, &last_use, &readers) {
        allocations[buffer.index()] = Allocation::State(state.index());
    }
    let liveness = reuse::Liveness {
        kernels: &kernels,
        waves: &waves,
        last_use: &last_use,
        readers: &readers,
    };
    // The live allocations: begin, end, the last wave that uses it; sorted by offset.
    let mut live: Vec<(usize, usize, usize)> = Vec::new();
    let mut arena = 0;
    for (now, kernel) in kernels.kernels.iter().enumerate() {
        // A buffer whose last use is in this wave must not be overwritten by the wave.
        live.retain(|(_, _, last)| *last >= waves[now]);
        for (buffer, reused) in kernel.outputs.iter().zip(liveness.reusable(now)) {
            if matches!(allocations[buffer.index()], Allocation::State(_)) {
                continue;
            }
            let until = waves.get(last_use[buffer.index()]).copied();
            let until = until.unwrap_or(usize::MAX);
            let reused = reused.and_then(|reused| match allocations[reused.index()] {
                Allocation::Arena(from) => live.iter_mut().find(|(start, _, _)| *start == from),
                Allocation::Input(_) | Allocation::Const(_) | Allocation::State(_) => None,
            });
            if let Some((from, _, last)) = reused {
                *last = until;
                allocations[buffer.index()] = Allocation::Arena(*from);
                continue;
            }
            let size = aligned_size(&kernels, *buffer);
            let from = first_fit(&live, size);
            let at = live.partition_point(|(start, _, _)| *start < from);
            live.insert(at, (from, from + size, until));
            arena = arena.max(from + size);
            allocations[buffer.index()] = Allocation::Arena(from);
        }
    }
    Program {
        kernels,
        waves,
        allocations,
        arena,
    }
}

/// First fit: the lowest offset where `size` bytes are free.
fn first_fit(live: &[(usize, usize, usize)], size: usize) -> usize {
    let mut from = 0;
    for (start, end, _) in live {
        if start.saturating_sub(from) >= size && *start >= from {
            break;
        }
        from = from.max(*end);
    }
    from
}

/// The bytes of a buffer, rounded up to the alignment. From a page of 64 lines on they are an odd number of cache lines, because streams
/// whose starts differ by a power of two conflict in the cache sets.
fn aligned_size(kernels: &Kernels, buffer: BufferId) -> usize {
    let ty = &kernels.buffers[buffer.index()].ty;
    let lines = (ty.elements() * ty.dtype.bytes())
        .div_ceil(ALIGNMENT)
        .max(1);
    if lines >= 64 {
        (lines | 1) * ALIGNMENT
    } else {
        lines * ALIGNMENT
    }
}

/// The last use of each buffer, as the index of a kernel; one past the end for results and state writes.
fn last_uses(kernels: &Kernels) -> Vec<usize> {
    let mut last = vec![0; kernels.buffers.len()];
    for (now, kernel) in kernels.kernels.iter().enumerate() {
        let outputs = kernel.outputs.iter().copied();
        kernel
            .inputs()
            .map(|v| v.buffer)
            .chain(outputs)
            .for_each(|b| last[b.index()] = now);
    }
    let live_out = kernels
        .results
        .iter()
        .map(|(_, v)| v)
        .chain(kernels.writes.iter().map(|(_, v)| v));
    live_out.for_each(|v| last[v.buffer.index()] = kernels.kernels.len());
    last
}

impl Program {
    /// The bytes of the state that it reads or writes.
    pub fn state_bytes(&self) -> u64 {
        let types = self.kernels.state.iter().map(|state| &state.ty);
        types.fold(0, |all, ty| all.saturating_add(ty.bytes()))
    }

    /// The bytes that the bodies of its scans take besides its arena: their own arenas, and the carried values of this iteration and of the
    /// next.
    pub fn scan_bytes(&self) -> u64 {
        let scans = self.kernels.kernels.iter();
        let scans = scans.filter_map(|kernel| match &kernel.kind {
            KernelKind::Scan { body, carries, .. } => Some((body, *carries)),
            KernelKind::Map(_) | KernelKind::Call { .. } => None,
        });
        let bytes = scans.map(|(body, carries)| {
            let carried = body.results[..carries].iter().map(|(_, view)| {
                let dtype = body.buffers[view.buffer.index()].ty.dtype;
                (view.elements() * dtype.bytes()) as u64
            });
            let carried = carried.fold(0, u64::saturating_add);
            let planned = plan(Kernels::clone(body));
            let arenas = (planned.arena as u64).saturating_add(planned.scan_bytes());
            carried.saturating_mul(2).saturating_add(arenas)
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// The type of the staging buffer through which a state variable is written: one whose new value lies in an input, a constant or
    /// another variable, which may change before it is read. `None` where there is none.
    pub fn staged(&self, state: StateId, value: &View) -> Option<Type> {
        match self.allocations[value.buffer.index()] {
            Allocation::Arena(_) => None,
            Allocation::State(own) if own == state.index() => None,
            Allocation::Input(_) | Allocation::Const(_) | Allocation::State(_) => {
                let ty = &self.kernels.buffers[value.buffer.index()].ty;
                Some(ty.with_shape(&value.shape))
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Cost::of_all(&self.kernels);
        writeln!(
            f,
            "state {} bytes; arena {} bytes at the peak, {} kernels; a step moves {} bytes for {} FLOPs",
            self.state_bytes(),
            self.arena,
            self.kernels.kernels.len(),
            all.bytes(),
            all.flops
        )?;
        for (i, kernel) in self.kernels.kernels.iter().enumerate() {
            let steps = match kernel.kind.fused_loop() {
                Some(map) => format!(" of {} steps", map.body.len()),
                None => String::new(),
            };
            let name = kernel.name() + &steps;
            let outputs: Vec<String> = kernel
                .outputs
                .iter()
                .map(|b| match self.allocations[b.index()] {
                    Allocation::State(i) => {
                        format!("b{} in place of {:?}", b.0, self.kernels.state[i].name)
                    }
                    Allocation::Arena(at) => {
                        format!(
                            "b{} at {at}, {} bytes",
                            b.0,
                            aligned_size(&self.kernels, *b)
                        )
                    }
                    other => format!("b{} {other:?}", b.0),
                })
                .collect();
            let cost = Cost::of(&self.kernels, kernel);
            let parallel = match i > 0 && self.waves[i] == self.waves[i - 1] {
                true => '|',
                false => ' ',
            };
            writeln!(
                f,
                "{i:4}{parallel}  {name}  moves {} bytes for {} FLOPs  outputs {}",
                cost.bytes(),
                cost.flops,
                outputs.join("; ")
            )?;
        }
        Ok(())
    }
}
