//! Scheduling of state writes: kernels that only compute new state run after the last kernel that may fail.
//!
//! In: kernels in order. Out: the same, in an order in which more state can be updated in place: a failed run must leave the state as it
//! was, so nothing is written in place before a kernel that may fail. Leaves alone: the order of all other kernels.

use std::collections::HashSet;

use crate::kernel::{BufferId, Kernels};
use crate::plan::in_place;

/// Moves kernels that compute new state, and those that read them, after the last kernel that may fail, unless it depends on them.
pub(super) fn reorder(kernels: &mut Kernels) {
    let Some(last) = in_place::last_fallible(kernels) else {
        return;
    };
    let written: HashSet<BufferId> = kernels.writes.iter().map(|(_, v)| v.buffer).collect();
    let is_written = |b: &BufferId| written.contains(b);
    let before = &kernels.kernels[..=last];
    if !before.iter().any(|k| k.outputs.iter().any(is_written)) {
        return;
    }
    // What kernels that may fail depend on, and where several outputs of a kernel are needed, all of it.
    let fallible = in_place::fallible(kernels);
    let mut needed: HashSet<BufferId> = HashSet::new();
    let mut stays = vec![false; last + 1];
    for (i, kernel) in before.iter().enumerate().rev() {
        stays[i] = fallible[i] || kernel.outputs.iter().any(|b| needed.contains(b));
        if stays[i] {
            needed.extend(kernel.inputs().map(|v| v.buffer));
        }
    }
    let mut moved: HashSet<BufferId> = HashSet::new();
    for (i, kernel) in before.iter().enumerate() {
        let writes = kernel.outputs.iter().any(is_written);
        let depends = kernel.inputs().any(|v| moved.contains(&v.buffer));
        if !stays[i] && (writes || depends) {
            moved.extend(&kernel.outputs);
        }
    }
    let all = std::mem::take(&mut kernels.kernels);
    let is_moved = |i: usize, first: &BufferId| i <= last && moved.contains(first);
    let (mut early, mut late, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (i, kernel) in all.into_iter().enumerate() {
        match kernel.outputs.first() {
            Some(first) if is_moved(i, first) => late.push(kernel),
            _ if i <= last => early.push(kernel),
            _ => rest.push(kernel),
        }
    }
    kernels.kernels = early.into_iter().chain(late).chain(rest).collect();
}

#[cfg(test)]
mod tests {
    use crate::build::Builder;
    use crate::fuse::fuse;
    use crate::graph::Type;
    use crate::plan::{Allocation, plan};
    use crate::types::DType;

    /// A check that comes late would keep rows from being updated in place.
    #[test]
    fn rows_are_written_in_place_after_a_check() {
        let b = Builder::new("step");
        let table = b.read("table", &Type::new(DType::F32, &[64, 4]));
        let indices = b.input("indices", &Type::new(DType::I64, &[8]));
        let rows = b.input("rows", &Type::new(DType::F32, &[8, 4]));
        let count = b.input("count", &Type::scalar(DType::I64));
        b.write("table", table.put_rows(indices, rows, count));
        let x = b.input("x", &Type::new(DType::F32, &[16]));
        b.result("check/loss", x.exp().sum(&[0]).check_finite("loss"));
        let program = plan(fuse(&b.finish(), true));
        let (_, view) = &program.kernels.writes[0];
        let at = program.allocations[view.buffer.index()];
        assert!(matches!(at, Allocation::State(0)), "{program}");
        let names: Vec<String> = program.kernels.kernels.iter().map(|k| k.name()).collect();
        assert_eq!(names[1..], ["call check_finite", "call put_rows"]);
    }
}
