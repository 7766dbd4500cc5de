//! Which new values of state can be written where the old ones are.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::graph::{Attr, StateId};
use crate::kernel::{BufferId, Kernel, KernelKind, Kernels, Origin, Phases, View};
use crate::ops::prims;

/// Routines that have an answer for all operands of their types.
const NEVER_FAIL: [&crate::graph::Prim; 18] = [
    &prims::MATMUL,
    &prims::CONV2D,
    &prims::CONV2D_INPUT_GRAD,
    &prims::CONV2D_FILTER_GRAD,
    &prims::MAX_POOL2D,
    &prims::MAX_POOL2D_GRAD,
    &prims::SUM_POOL2D,
    &prims::SUM_POOL2D_GRAD,
    &prims::REDUCE_SUM,
    &prims::REDUCE_MAX,
    &prims::REDUCE_MIN,
    &prims::REDUCE_PROD,
    &prims::ARGMAX,
    &prims::IOTA,
    &prims::CUMSUM,
    &prims::CONCAT,
    &prims::PAD,
    &prims::PUT_ROWS,
];

/// New values of state that can be written where the old ones are.
///
/// The kernel that makes one must be a loop that reads the old value element by element or not at all, or put rows into the old
/// value; nothing may need the old value after it or beside it; and nothing after it may fail, so that a failed run leaves the state as
/// it was.
pub(super) fn find(
    kernels: &Kernels,
    waves: &[usize],
    last: &[usize],
    readers: &HashMap<(usize, BufferId), usize>,
) -> Vec<(BufferId, StateId)> {
    let sums = sums(kernels);
    let fails = kernels.kernels.iter().rposition(|k| may_fail(&sums, k));
    let safe = fails.map_or(0, |i| i + 1);
    let mut homes: BTreeMap<StateId, BufferId> = BTreeMap::new();
    for (i, buffer) in kernels.buffers.iter().enumerate() {
        if let Origin::State(state) = buffer.origin {
            homes.entry(state).or_insert(BufferId(i as u32));
        }
    }
    let mut makers: BTreeMap<BufferId, usize> = BTreeMap::new();
    for (place, kernel) in kernels.kernels.iter().enumerate().skip(safe) {
        kernel.outputs.iter().for_each(|b| {
            makers.insert(*b, place);
        });
    }
    let mut found = Vec::new();
    for (state, view) in &kernels.writes {
        let Some(place) = makers.get(&view.buffer).copied() else {
            continue;
        };
        let old = homes.get(state).copied();
        let whole = *view == View::whole(view.buffer, &view.shape);
        let gone = old.is_none_or(|old| {
            let own = kernels.kernels[place].inputs().any(|v| v.buffer == old);
            let beside = readers.get(&(waves[place], old)).copied().unwrap_or(0);
            last[old.index()] <= place && beside == usize::from(own)
        });
        if whole && gone && replaces(&kernels.kernels[place], old, view) {
            found.push((view.buffer, *state));
        }
    }
    found
}

/// How many kernels of a wave read a buffer.
pub(super) fn readers(kernels: &Kernels, waves: &[usize]) -> HashMap<(usize, BufferId), usize> {
    let mut readers = HashMap::new();
    for (kernel, wave) in kernels.kernels.iter().zip(waves) {
        let own: HashSet<BufferId> = kernel.inputs().map(|v| v.buffer).collect();
        for buffer in own {
            *readers.entry((*wave, buffer)).or_insert(0) += 1;
        }
    }
    readers
}

/// Whether a kernel may write a value where the old one lies.
fn replaces(kernel: &Kernel, old: Option<BufferId>, new: &View) -> bool {
    match &kernel.kind {
        // A second walk over a row must find what the first one found.
        KernelKind::Map(map) => {
            let mut reads = map.loads.iter().filter(|load| Some(load.buffer) == old);
            !Phases::of(map).walks_again()
                && reads.all(|load| *load == View::whole(load.buffer, &map.shape))
        }
        KernelKind::Call { prim, operands, .. } if **prim == prims::PUT_ROWS => {
            let [x, rest @ ..] = operands.as_slice() else {
                return false;
            };
            Some(x.buffer) == old
                && *x == View::whole(x.buffer, &new.shape)
                && rest.iter().all(|v| Some(v.buffer) != old)
        }
        KernelKind::Call { .. } | KernelKind::Scan { .. } => false,
    }
}

/// Positions that `sum_rows` made, and what they are below.
fn sums(kernels: &Kernels) -> HashMap<BufferId, usize> {
    let positions = |k: &Kernel| match &k.kind {
        KernelKind::Call { prim, attrs, .. } if **prim == prims::SUM_ROWS => match attrs[0] {
            Attr::Size(length) => Some((k.outputs[0], length)),
            _ => None,
        },
        _ => None,
    };
    kernels.kernels.iter().filter_map(positions).collect()
}

/// Whether there are operands for which a kernel has no answer.
fn may_fail(sums: &HashMap<BufferId, usize>, kernel: &Kernel) -> bool {
    match &kernel.kind {
        KernelKind::Map(_) => false,
        KernelKind::Call { prim, operands, .. } if **prim == prims::TAKE => {
            // Positions that were checked when rows were summed are in range.
            let rows = operands[0].shape.first();
            let below = sums.get(&operands[1].buffer);
            below.zip(rows).is_none_or(|(below, rows)| below > rows)
        }
        KernelKind::Call { prim, .. } => !NEVER_FAIL.contains(prim),
        KernelKind::Scan { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::build::Builder;
    use crate::fuse::fuse;
    use crate::graph::Type;
    use crate::plan::{Allocation, plan};
    use crate::types::DType;

    /// A loop that runs beside another must not write what the other reads.
    #[test]
    fn what_is_read_beside_is_not_written_in_place() {
        let b = Builder::new("step");
        let s = b.read("s", &Type::new(DType::F32, &[64]));
        b.result("y", s.reshape(&[8, 8]).transpose(&[1, 0]) + 1.0);
        b.write("s", s * 0.5);
        let program = plan(fuse(&b.finish(), true));
        assert_eq!(program.waves, [0, 0]);
        let (_, view) = &program.kernels.writes[0];
        assert!(matches!(
            program.allocations[view.buffer.index()],
            Allocation::Arena(_)
        ));
    }
}
