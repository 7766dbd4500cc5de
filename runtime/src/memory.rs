//! Memory limits: what a run needs against what the process may still allocate.
//!
//! A failed allocation aborts the process, so the sizes that a spec asks for are compared before anything is allocated.

use std::path::{Path, PathBuf};

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::plan::{Allocation, Program};

use crate::{Cause, Error};

/// How many of the largest buffers an error names.
const NAMED_BUFFERS: usize = 3;

/// A buffer that is about to be allocated: what it is called, and its bytes.
pub(crate) type Buffer = (String, u64);

/// A tensor as a buffer.
pub(crate) fn tensor(name: &str, ty: &Type) -> Buffer {
    let elements = ty
        .shape
        .iter()
        .fold(1_u64, |all, n| all.saturating_mul(*n as u64));
    let bytes = elements.saturating_mul(ty.dtype.bytes() as u64);
    (format!("`{name}` ({ty})"), bytes)
}

/// Fails where the buffers of `what` need more memory than there is, with their sizes.
pub(crate) fn ensure(what: &str, mut buffers: Vec<Buffer>) -> Result<(), Error> {
    let needed = buffers
        .iter()
        .fold(0_u64, |all, (_, bytes)| all.saturating_add(*bytes));
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
    }
    .into())
}

/// Fails where the arena of a planned program does not fit.
pub(crate) fn ensure_arena(what: &str, program: &Program) -> Result<(), Error> {
    let buffers = program.kernels.buffers.iter().zip(&program.allocations);
    let temporaries = buffers.filter(|(_, at)| matches!(at, Allocation::Arena(_)));
    let mut named: Vec<Buffer> = temporaries
        .map(|(buffer, _)| tensor("temporary", &buffer.ty))
        .collect();
    named.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    // Buffers share memory, so their sum says nothing.
    let mut rest = program.arena as u64;
    for (_, bytes) in &mut named {
        *bytes = (*bytes).min(rest);
        rest -= *bytes;
    }
    ensure(what, named)
}

/// Bytes for people: `1.5 GiB`.
pub(crate) fn readable(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{size:.1} {}", UNITS[unit]),
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
                Limit {
                    bytes: most.saturating_sub(used.unwrap_or(0)),
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
    fn sizes_are_readable() {
        assert_eq!(readable(800), "800 bytes");
        assert_eq!(readable(4 << 40), "4.0 TiB");
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
}
