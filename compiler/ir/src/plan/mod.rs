//! Kernels to a program: where each buffer lies.
//!
//! In: kernels in order. Out: the same with a place for each buffer. Kernels that do not need each other run in one wave. Buffers that
//! kernels make share one arena: two of them lie in the same place when no wave needs both, or when one is made of the other, element by
//! element.

mod cost;
mod in_place;
mod reuse;
mod waves;

pub use cost::Cost;

use std::fmt;

use crate::kernel::{BufferId, KernelKind, Kernels, Origin};

/// Kernels with places for their buffers.
#[derive(Debug, Clone)]
pub struct Program {
    /// The kernels.
    pub kernels: Kernels,
    /// The wave that each kernel runs in, counted from 0; kernels of one wave can run at once.
    pub waves: Vec<usize>,
    /// The place of each buffer.
    pub allocations: Vec<Allocation>,
    /// How large the arena is, in bytes.
    pub arena: usize,
}

/// Where a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// With the caller, as so many-th input.
    Input(usize),
    /// With the constants, as so many-th.
    Const(usize),
    /// With the state.
    State(usize),
    /// In the arena, from this byte on.
    Arena(usize),
}

/// Every buffer begins at a multiple of this.
pub const ALIGNMENT: usize = 64;

/// Finds places for all buffers.
pub fn plan(kernels: Kernels) -> Program {
    let waves = waves::of(&kernels);
    let last = last_uses(&kernels);
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
    for (buffer, state) in in_place::find(&kernels, &waves, &last, &readers) {
        allocations[buffer.index()] = Allocation::State(state.index());
    }
    let liveness = reuse::Liveness {
        kernels: &kernels,
        waves: &waves,
        last: &last,
        readers: &readers,
    };
    // What is in use: from, to, the last wave that needs it; sorted by place.
    let mut used: Vec<(usize, usize, usize)> = Vec::new();
    let mut arena = 0;
    for (now, kernel) in kernels.kernels.iter().enumerate() {
        // What is read last by the wave itself must not be overwritten by it.
        used.retain(|(_, _, last)| *last >= waves[now]);
        for (buffer, host) in kernel.outputs.iter().zip(liveness.reusable(now)) {
            if matches!(allocations[buffer.index()], Allocation::State(_)) {
                continue;
            }
            let until = waves.get(last[buffer.index()]).copied();
            let until = until.unwrap_or(usize::MAX);
            let host = host.and_then(|host| match allocations[host.index()] {
                Allocation::Arena(from) => used.iter_mut().find(|(start, _, _)| *start == from),
                Allocation::Input(_) | Allocation::Const(_) | Allocation::State(_) => None,
            });
            if let Some((from, _, last)) = host {
                *last = until;
                allocations[buffer.index()] = Allocation::Arena(*from);
                continue;
            }
            let size = aligned_size(&kernels, *buffer);
            let from = first_fit(&used, size);
            let at = used.partition_point(|(start, _, _)| *start < from);
            used.insert(at, (from, from + size, until));
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

/// The first place where so many bytes are free.
fn first_fit(used: &[(usize, usize, usize)], size: usize) -> usize {
    let mut from = 0;
    for (start, end, _) in used {
        if start.saturating_sub(from) >= size && *start >= from {
            break;
        }
        from = from.max(*end);
    }
    from
}

/// The bytes of a buffer, rounded up. Large ones get an odd number of cache lines, because streams whose starts differ by a power
/// of two get in each other's way.
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

/// The last kernel that needs each buffer; one past the end for what is fetched or written.
fn last_uses(kernels: &Kernels) -> Vec<usize> {
    let mut last = vec![0; kernels.buffers.len()];
    for (now, kernel) in kernels.kernels.iter().enumerate() {
        let made = kernel.outputs.iter().copied();
        kernel
            .inputs()
            .map(|v| v.buffer)
            .chain(made)
            .for_each(|b| last[b.index()] = now);
    }
    let ends = kernels
        .results
        .iter()
        .map(|(_, v)| v)
        .chain(kernels.writes.iter().map(|(_, v)| v));
    ends.for_each(|v| last[v.buffer.index()] = kernels.kernels.len());
    last
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Cost::of_all(&self.kernels);
        writeln!(
            f,
            "arena {} bytes at the peak, {} kernels; a step moves {} bytes for {} FLOPs",
            self.arena,
            self.kernels.kernels.len(),
            all.bytes(),
            all.flops
        )?;
        for (i, kernel) in self.kernels.kernels.iter().enumerate() {
            let name = match &kernel.kind {
                KernelKind::Map(map) => format!("map {:?} of {} steps", map.shape, map.body.len()),
                KernelKind::Call {
                    prim,
                    epilogue: None,
                    ..
                } => format!("call {}", prim.name),
                KernelKind::Call {
                    prim,
                    epilogue: Some(map),
                    ..
                } => format!(
                    "call {} then map {:?} of {} steps",
                    prim.name,
                    map.shape,
                    map.body.len()
                ),
                KernelKind::Scan { length, .. } => format!("scan {length}"),
            };
            let made: Vec<String> = kernel
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
            let beside = match i > 0 && self.waves[i] == self.waves[i - 1] {
                true => '|',
                false => ' ',
            };
            writeln!(
                f,
                "{i:4}{beside}  {name}  moves {} bytes for {} FLOPs  makes {}",
                cost.bytes(),
                cost.flops,
                made.join("; ")
            )?;
        }
        Ok(())
    }
}
