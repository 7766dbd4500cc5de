//! The workspace of a run: the memory that a compiled program needs beside inputs, state and constants. Each thread that runs a program at the
//! same time has its own.

use trainspec_ir::graph::Type;

use crate::exec::compiled_program::CompiledProgram;
use crate::exec::memory::Arena;
use crate::exec::scan::Carries;
use crate::exec::trace::Profile;
use crate::library::Slice;

/// The memory of one runner of a [`CompiledProgram`].
#[derive(Debug)]
pub(super) struct Workspace {
    /// Where it is shared with other programs, it is here during a run.
    pub(super) arena: Arena,
    /// The base address of each buffer, during and right after a run.
    pub(super) bases: Pointers,
    /// The addresses of the accesses of a kernel or wave, during its run.
    pub(super) table: Pointers,
    /// The argument lists of routines, which are empty outside of a call.
    pub(super) arguments: Arguments<'static>,
    /// The carried values of each scan, and the workspace of its body.
    pub(super) scans: Vec<Carries>,
    /// What is measured.
    pub(super) profile: Profile,
}

impl Workspace {
    /// A workspace for a program, with an arena.
    pub(super) fn new(compiled: &CompiledProgram, arena: Arena) -> Workspace {
        Workspace {
            arena,
            bases: Pointers::default(),
            table: Pointers::default(),
            arguments: Arguments::default(),
            scans: compiled.scans().map(Carries::new).collect(),
            profile: Profile::Off,
        }
    }
}

/// The argument lists of a routine.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    pub(super) types: Vec<&'a Type>,
    pub(super) results: Vec<&'a Type>,
    pub(super) operands: Vec<Slice<'a>>,
}

impl Arguments<'_> {
    /// The emptied lists for another lifetime, with their capacity.
    pub(super) fn recycled<'b>(self) -> Arguments<'b> {
        fn empty<A, B>(mut list: Vec<A>) -> Vec<B> {
            list.clear();
            // In place, without an allocation, because the two have the same layout.
            list.into_iter()
                .map(|_| unreachable!("it is empty"))
                .collect()
        }
        Arguments {
            types: empty(self.types),
            results: empty(self.results),
            operands: empty(self.operands),
        }
    }
}

/// Addresses that are valid during a run only.
#[derive(Debug, Default)]
pub(super) struct Pointers(pub(super) Vec<*mut u8>);

// SAFETY: outside of a run the addresses are not used, and a run borrows what they point at, exclusively where it writes.
unsafe impl Send for Pointers {}
// SAFETY: nothing is done with the addresses through a shared reference.
unsafe impl Sync for Pointers {}
