//! The loop nest of a fused kernel (map): its iteration space, split into tasks of rows, and calls of the code for them.

use std::mem::MaybeUninit;

use trainspec_ir::kernel::{InstOp, Map};

use crate::exec::code::{Entry, Wide};
use crate::exec::pool::Pool;
use crate::translate::{Space, Strides};
use crate::wide::{MAX_ACCESSES, ROW_BUFFER_BYTES};

/// The loop nest of a map: its dimensions, and the strides of each access, in bytes.
#[derive(Debug, Clone)]
pub(super) struct LoopNest {
    outer: Vec<usize>,
    inner: usize,
    flat: bool,
    moves: Vec<Strides>,
    /// How many rows, or elements where rows are single elements, there are.
    pub(super) rows: usize,
    /// How many of them are one task.
    rows_per_task: usize,
}

impl LoopNest {
    pub(super) fn of(map: &Map) -> LoopNest {
        let space = Space::of(map);
        let mut bytes = vec![1; map.loads.len() + map.stores.len()];
        for inst in &map.body {
            if let InstOp::Load(load) = inst.op {
                bytes[load] = inst.dtype.bytes();
            }
        }
        for (s, store) in map.stores.iter().enumerate() {
            bytes[map.loads.len() + s] = map.body[store.register].dtype.bytes();
        }
        let (rows, rows_per_task, flat) = (
            space.rows(map),
            space.rows_per_task(map),
            space.is_flat(map),
        );
        let scaled = |(m, bytes): (Strides, usize)| Strides {
            outer: m.outer.iter().map(|s| s * bytes).collect(),
            middle: m.middle.iter().map(|s| s * bytes).collect(),
            inner: m.inner * bytes,
        };
        let all = space.loads.into_iter().chain(space.stores);
        LoopNest {
            outer: space.outer,
            inner: space.inner,
            flat,
            moves: all.zip(bytes).map(scaled).collect(),
            rows,
            rows_per_task,
        }
    }

    /// Runs all rows in tasks, on the threads of a pool (parallel for).
    pub(super) fn run_tasks(&self, pool: &Pool, rows: &(dyn Fn(usize, usize) + Sync)) {
        pool.run(self.task_count(), &|task| {
            let (from, to) = self.rows_of(task);
            rows(from, to);
        });
    }

    /// How many tasks there are.
    pub(super) fn task_count(&self) -> usize {
        self.rows.div_ceil(self.rows_per_task)
    }

    /// The rows of a task: the first, and the one after the last.
    pub(super) fn rows_of(&self, task: usize) -> (usize, usize) {
        let (from, to) = (task * self.rows_per_task, (task + 1) * self.rows_per_task);
        (from, to.min(self.rows))
    }

    /// Runs the rows `from..to`.
    ///
    /// # Safety
    ///
    /// `entry` is the function of the map that this is the loop nest of, `table` has the first element of each of its accesses, and nobody else
    /// reads or writes what it stores for these rows.
    pub(super) unsafe fn run(&self, entry: Entry, table: &[*mut u8], from: usize, to: usize) {
        match entry {
            // SAFETY: the caller's promise.
            Entry::Plain(run) => unsafe { run(table.as_ptr(), from as i64, to as i64) },
            Entry::Wide {
                run,
                uses_row_buffer: false,
            } => {
                // SAFETY: the caller's promise; the function has no buffer of rows.
                unsafe { self.run_wide(run, table, std::ptr::null_mut(), from, to) }
            }
            Entry::Wide {
                run,
                uses_row_buffer: true,
            } => {
                #[repr(align(64))]
                struct Rows([MaybeUninit<u8>; ROW_BUFFER_BYTES]);
                let mut rows = Rows([MaybeUninit::uninit(); ROW_BUFFER_BYTES]);
                // SAFETY: the caller's promise; the buffer has the size that the function was compiled for.
                unsafe { self.run_wide(run, table, rows.0.as_mut_ptr().cast(), from, to) }
            }
        }
    }

    /// Runs 256-bit code: one call for all rows along the innermost outer dimension.
    ///
    /// # Safety
    ///
    /// As for [`LoopNest::run`].
    unsafe fn run_wide(
        &self,
        run: Wide,
        table: &[*mut u8],
        row_buffer: *mut u8,
        from: usize,
        to: usize,
    ) {
        let mut pointers = [std::ptr::null_mut(); MAX_ACCESSES];
        pointers[table.len()] = row_buffer;
        if self.flat {
            for (i, (first, moves)) in table.iter().zip(&self.moves).enumerate() {
                // SAFETY: element `from` is one of the loop's.
                pointers[i] = unsafe { first.add(from * moves.inner) };
            }
            // SAFETY: the function runs over the elements `from..to`.
            unsafe { run(pointers.as_mut_ptr(), 1, (to - from) as i64) };
            return;
        }
        let last = self.outer.last().copied().unwrap_or(1);
        let mut row = from;
        while row < to {
            let count = (last - row % last).min(to - row);
            for (i, (first, moves)) in table.iter().zip(&self.moves).enumerate() {
                let (mut rest, mut offset) = (row, 0);
                for (size, step) in self.outer.iter().zip(&moves.outer).rev() {
                    offset += rest % size * step;
                    rest /= size;
                }
                // SAFETY: the row is one of the loop's.
                pointers[i] = unsafe { first.add(offset) };
            }
            // SAFETY: the function runs over `count` rows from this one on, all in the last of the outer dimensions.
            unsafe { run(pointers.as_mut_ptr(), count as i64, self.inner as i64) };
            row += count;
        }
    }
}
