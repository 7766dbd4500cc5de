//! Memory limits: what a run needs against what the process may still allocate.
//!
//! A failed allocation aborts the process, so the sizes that a spec asks for are compared before anything is allocated, and what grows
//! with the data while it grows ([`Growth`]).

use std::path::{Path, PathBuf};

use trainspec_compiler::ir::graph::{Graph, Type};
use trainspec_compiler::ir::plan::{Allocation, Program};
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{Tensor, interp};

use crate::{Cause, Error};

/// How many of the largest buffers an error names.
const NAMED_BUFFERS: usize = 3;

/// The least need that is compared: below it reading the limits takes longer than the allocation.
const MIN_COMPARED_BYTES: u64 = 1 << 20;

/// The part of the address space that is left to code, threads and small allocations.
const RESERVED_BYTES: u64 = 64 << 20;

/// The growth after which [`Growth`] compares with the limits again; what is smaller may double first.
const GROWTH_BYTES: u64 = 32 << 20;

const SMALLER_MODEL: &str = "make the model or its batch smaller";

/// A buffer that is about to be allocated: what it is called, and its bytes.
pub type Buffer = (String, u64);

/// A tensor as a buffer.
pub fn tensor(name: &str, ty: &Type) -> Buffer {
    (format!("`{name}` ({ty})"), ty.bytes())
}

/// The bytes that this process can still allocate; `None` where the system tells no limit.
pub fn available() -> Option<u64> {
    Limit::lowest().map(|limit| limit.bytes)
}

/// Fails where the buffers of `what` need more memory than there is, with their sizes.
pub fn ensure(what: &str, buffers: Vec<Buffer>) -> Result<(), Error> {
    ensure_data(what, buffers, SMALLER_MODEL)
}

/// As [`ensure`], with what to do about it.
pub(crate) fn ensure_data(
    what: &str,
    mut buffers: Vec<Buffer>,
    help: &'static str,
) -> Result<(), Error> {
    let needed = buffers
        .iter()
        .fold(0_u64, |all, (_, bytes)| all.saturating_add(*bytes));
    if needed < MIN_COMPARED_BYTES {
        return Ok(());
    }
    let Some(limit) = Limit::lowest().filter(|limit| needed > limit.bytes) else {
        return Ok(());
    };
    buffers.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let largest = buffers.into_iter().take(NAMED_BUFFERS);
    Err(Cause::OutOfMemory {
        what: what.to_owned(),
        needed,
        available: limit.bytes,
        limit: limit.what,
        largest: largest.collect(),
        help,
    }
    .into())
}

/// The buffers of a planned program: the temporaries in its arena, those of the bodies of its scans, new values of state that
/// wait in a staging buffer, and its results.
pub(crate) fn program_buffers(program: &Program) -> Vec<Buffer> {
    let kernels = &program.kernels;
    let buffers = kernels.buffers.iter().zip(&program.allocations);
    let temporaries = buffers.filter(|(_, at)| matches!(at, Allocation::Arena(_)));
    let temporaries = temporaries.map(|(buffer, _)| tensor("temporary", &buffer.ty));
    let mut named = capped(temporaries.collect(), program.arena as u64);
    named.push(("the bodies of scans".to_owned(), program.scan_bytes()));
    named.extend(kernels.writes.iter().filter_map(|(state, value)| {
        let ty = program.staged(*state, value)?;
        Some(tensor(&kernels.state[state.index()].name, &ty))
    }));
    named.extend(kernels.results.iter().map(|(name, view)| {
        let ty = &kernels.buffers[view.buffer.index()].ty;
        tensor(name, &ty.with_shape(&view.shape))
    }));
    named
}

/// The bytes of the results of a planned program.
pub(crate) fn result_bytes(program: &Program) -> u64 {
    let kernels = &program.kernels;
    let results = kernels.results.iter().map(|(_, view)| {
        let ty = &kernels.buffers[view.buffer.index()].ty;
        ty.with_shape(&view.shape).bytes()
    });
    results.fold(0, u64::saturating_add)
}

/// The buffers of a graph that is interpreted: its values at their peak, and copies of its inputs and state.
pub(crate) fn interpreted_buffers(graph: &Graph) -> Vec<Buffer> {
    let values = graph.nodes.iter().flat_map(|node| &node.results);
    let values = values.map(|v| tensor("value", graph.ty(*v))).collect();
    let mut named = capped(values, interp::peak_bytes(graph));
    let inputs = graph.inputs().map(|(name, v)| tensor(name, graph.ty(v)));
    named.extend(
        inputs.chain(
            graph
                .state
                .iter()
                .map(|state| tensor(&state.name, &state.ty)),
        ),
    );
    named
}

/// The largest buffers, cut where they add up to `total`: buffers share memory, so their sum says nothing.
fn capped(mut buffers: Vec<Buffer>, total: u64) -> Vec<Buffer> {
    buffers.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let mut rest = total;
    for (_, bytes) in &mut buffers {
        *bytes = (*bytes).min(rest);
        rest -= *bytes;
    }
    buffers.push(("other temporaries".to_owned(), rest));
    buffers
}

/// Memory that grows with the data: compared with the limits whenever it has doubled, or grown by [`GROWTH_BYTES`].
#[derive(Debug)]
pub(crate) struct Growth {
    /// What grows.
    what: &'static str,
    /// What to do where it grows too large.
    help: &'static str,
    /// How many copies of all of it are made when it is complete.
    copies: u64,
    bytes: u64,
    /// The bytes up to which the limits allow it.
    allowed: u64,
}

impl Growth {
    pub(crate) fn new(what: &'static str, copies: u64, help: &'static str) -> Growth {
        Growth {
            what,
            help,
            copies,
            bytes: 0,
            allowed: 0,
        }
    }

    /// Adds bytes that are about to be kept; fails where there is no memory for more.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.allowed || self.bytes < MIN_COMPARED_BYTES {
            return Ok(());
        }
        // What is small is not refused for what it could become.
        let step = self.bytes.min(GROWTH_BYTES);
        self.allowed = self.bytes.saturating_add(step);
        let copies = self.allowed.saturating_mul(self.copies);
        let growth = step.saturating_add(copies);
        let Some(limit) = Limit::lowest().filter(|limit| growth > limit.bytes) else {
            return Ok(());
        };
        Err(Cause::OutOfMemory {
            what: self.what.to_owned(),
            needed: self.allowed.saturating_add(copies),
            available: limit.bytes.saturating_add(self.bytes),
            limit: limit.what,
            largest: Vec::new(),
            help: self.help,
        }
        .into())
    }

    /// Removes bytes.
    pub(crate) fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Starts over, with nothing kept.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
    }
}

/// The bytes of the elements of a tensor.
pub(crate) fn tensor_bytes(tensor: &Tensor) -> u64 {
    let elements = tensor.ty().bytes();
    match tensor.data() {
        Data::String(values) => values
            .iter()
            .fold(elements, |all, text| all.saturating_add(text.len() as u64)),
        _ => elements,
    }
}

/// A limit of what can still be allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    what: &'static str,
}

impl Limit {
    /// The lowest limit of this process; `None` where the system tells none.
    fn lowest() -> Option<Limit> {
        let available = memory_available(&read("/proc/meminfo")?).map(|bytes| Limit {
            bytes,
            what: "the memory that is free",
        });
        let address_space =
            limit_of(&read("/proc/self/limits")?, "Max address space").map(|most| {
                let used = kibibytes(&read("/proc/self/status").unwrap_or_default(), "VmSize:");
                let used = used.unwrap_or(0).saturating_add(RESERVED_BYTES);
                Limit {
                    bytes: most.saturating_sub(used),
                    what: "the limit of the address space (`ulimit -v`)",
                }
            });
        let limits = available.into_iter().chain(address_space).chain(cgroup());
        limits.min_by_key(|limit| limit.bytes)
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The bytes of a line `NAME   123 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

/// What `/proc/meminfo` says can be allocated: available memory and free swap.
fn memory_available(meminfo: &str) -> Option<u64> {
    let swap = kibibytes(meminfo, "SwapFree:").unwrap_or(0);
    kibibytes(meminfo, "MemAvailable:")?.checked_add(swap)
}

/// The soft limit of that name in `/proc/self/limits`, in bytes; `None` where there is none.
fn limit_of(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The lowest limit of the control groups (version 2) that this process is in.
fn cgroup() -> Option<Limit> {
    let groups = read("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let folder: PathBuf = root.join(own);
    let limits = folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    let left = limits.filter_map(|folder| {
        let number = |name: &str| read(folder.join(name))?.trim().parse::<u64>().ok();
        Some(number("memory.max")?.saturating_sub(number("memory.current")?))
    });
    left.min().map(|bytes| Limit {
        bytes,
        what: "the limit of the control group",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max address space         2147483648           unlimited            bytes     \n\
                      Max data size             unlimited            unlimited            bytes     \n";
        assert_eq!(limit_of(limits, "Max address space"), Some(2 << 30));
        assert_eq!(limit_of(limits, "Max data size"), None);
        let meminfo = "MemTotal:       1000 kB\nMemAvailable:    300 kB\nSwapFree:        20 kB\n";
        assert_eq!(memory_available(meminfo), Some(320 << 10));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_largest_buffers() {
        let buffers = vec![
            ("`small`".to_owned(), 4),
            ("`kernel`".to_owned(), u64::MAX / 2),
        ];
        let error = ensure("the state", buffers).unwrap_err().diagnostic();
        assert!(
            error.message.contains("the state needs"),
            "{}",
            error.message
        );
        assert!(format!("{error:?}").contains("`kernel`"));
        assert!(ensure("the state", vec![("`small`".to_owned(), 4)]).is_ok());
    }

    #[test]
    fn what_grows_with_the_data_is_refused_before_it_does_not_fit() {
        // More copies than there is memory for.
        let mut growth = Growth::new("a batch", 1 << 50, "take a smaller batch");
        let error = growth.add(1 << 20).unwrap_err().diagnostic();
        assert!(error.message.starts_with("a batch needs"), "{error:?}");
        assert_eq!(error.help, ["take a smaller batch"]);
        let mut growth = Growth::new("a batch", 1, "take a smaller batch");
        assert!(growth.add(1 << 20).is_ok());
    }
}
