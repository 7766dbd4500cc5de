//! In-place update of state: new values that may alias the state that they replace (buffer donation).

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::graph::{Attr, StateId};
use crate::kernel::{BufferId, Kernel, KernelKind, Kernels, Origin, Phases, View};
use crate::ops::prims;

/// Library calls that are total: they cannot fail at run time.
const INFALLIBLE_PRIMS: [&crate::graph::Prim; 18] = [
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

/// The buffers of new state that can alias the old state.
///
/// The kernel that writes one must be a loop that reads the old value elementwise or not at all, or scatter rows into the old value; it
/// must be the last use of the old value, which no other kernel of its wave may read; and no kernel after it may fail, so that a failed run
/// leaves the state as it was.
pub(super) fn find(
    kernels: &Kernels,
    waves: &[usize],
    last_use: &[usize],
    readers: &HashMap<(usize, BufferId), usize>,
) -> Vec<(BufferId, StateId)> {
    let safe = last_fallible(kernels).map_or(0, |i| i + 1);
    let mut old_buffers: BTreeMap<StateId, BufferId> = BTreeMap::new();
    for (i, buffer) in kernels.buffers.iter().enumerate() {
        if let Origin::State(state) = buffer.origin {
            old_buffers.entry(state).or_insert(BufferId(i as u32));
        }
    }
    let mut producers: BTreeMap<BufferId, usize> = BTreeMap::new();
    for (index, kernel) in kernels.kernels.iter().enumerate().skip(safe) {
        kernel.outputs.iter().for_each(|b| {
            producers.insert(*b, index);
        });
    }
    let mut aliases = Vec::new();
    for (state, view) in &kernels.writes {
        let Some(index) = producers.get(&view.buffer).copied() else {
            continue;
        };
        let old = old_buffers.get(state).copied();
        let entire = *view == View::contiguous(view.buffer, &view.shape);
        let dead = old.is_none_or(|old| {
            let own = kernels.kernels[index].inputs().any(|v| v.buffer == old);
            let concurrent = readers.get(&(waves[index], old)).copied().unwrap_or(0);
            last_use[old.index()] <= index && concurrent == usize::from(own)
        });
        if entire && dead && can_alias(&kernels.kernels[index], old, view) {
            aliases.push((view.buffer, *state));
        }
    }
    aliases
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

/// Whether an output of a kernel may alias the old value.
fn can_alias(kernel: &Kernel, old: Option<BufferId>, new: &View) -> bool {
    match &kernel.kind {
        // A second pass over a row must load what the first one loaded.
        KernelKind::Map(map) => {
            let mut reads = map.loads.iter().filter(|load| Some(load.buffer) == old);
            !Phases::of(map).is_multi_pass()
                && reads.all(|load| *load == View::contiguous(load.buffer, &map.shape))
        }
        KernelKind::Call { prim, operands, .. } if **prim == prims::PUT_ROWS => {
            let [x, rest @ ..] = operands.as_slice() else {
                return false;
            };
            Some(x.buffer) == old
                && *x == View::contiguous(x.buffer, &new.shape)
                && rest.iter().all(|v| Some(v.buffer) != old)
        }
        KernelKind::Call { .. } | KernelKind::Scan { .. } => false,
    }
}

/// The deduplicated indices that `sum_rows` computes, and their exclusive upper bound.
fn deduplicated_indices(kernels: &Kernels) -> HashMap<BufferId, usize> {
    let indices = |k: &Kernel| match &k.kind {
        KernelKind::Call { prim, attrs, .. } if **prim == prims::SUM_ROWS => match attrs[0] {
            Attr::Size(length) => Some((k.outputs[0], length)),
            _ => None,
        },
        _ => None,
    };
    kernels.kernels.iter().filter_map(indices).collect()
}

/// Which kernels may fail at run time.
pub(super) fn fallible(kernels: &Kernels) -> Vec<bool> {
    let deduplicated = deduplicated_indices(kernels);
    let all = kernels.kernels.iter();
    all.map(|kernel| may_fail(&deduplicated, kernel)).collect()
}

/// The last kernel that may fail at run time.
pub(super) fn last_fallible(kernels: &Kernels) -> Option<usize> {
    fallible(kernels).iter().rposition(|fails| *fails)
}

/// Whether a kernel may fail at run time.
fn may_fail(deduplicated: &HashMap<BufferId, usize>, kernel: &Kernel) -> bool {
    match &kernel.kind {
        KernelKind::Map(_) => false,
        KernelKind::Call { prim, operands, .. } if **prim == prims::TAKE => {
            // Deduplicated indices were checked by `sum_rows`.
            let rows = operands[0].shape.first();
            let bound = deduplicated.get(&operands[1].buffer);
            bound.zip(rows).is_none_or(|(bound, rows)| bound > rows)
        }
        KernelKind::Call { prim, .. } => !INFALLIBLE_PRIMS.contains(prim),
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

    /// A loop must not write in place what another loop of its wave reads.
    #[test]
    fn state_read_in_the_same_wave_is_not_updated_in_place() {
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
