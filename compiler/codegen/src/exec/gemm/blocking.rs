//! GEMM cache blocking and parallelisation: blocks of MC rows, KC terms and NC columns, shared out to the threads of a pool.
//!
//! The k dimension is blocked by at most [`KC`]. All threads pack the operands that are packed, and then share out blocks of the product
//! ([`Gemm::run_blocks`]); where all blocks have the same rows, each task packs columns of its own instead ([`Gemm::run_columns`]).
//! Few rows and columns but a long k are computed by split-K: partial products of slices of k, added in order
//! ([`Gemm::run_split_k`]).

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};

use super::microkernel::{self, MAX_MR, Tile, mr, nr};
use super::pack::{self, MatrixPtr, padded, row_panels};
use super::{Epilogue, GemmFloat, Matrix, Product, gemv, in_bounds};
use crate::cpu::Cpu;
use crate::exec::pool::Pool;
use crate::library::BufferPool;

/// The most terms of a block: KC rows of a packed panel of the right operand stay in the L1 cache.
pub const KC: usize = 320;

/// The most rows of a task: MC rows of KC terms stay in the L2 cache.
const MC: usize = 128;

/// The least rows of a task, where there are as many.
const MIN_TASK_ROWS: usize = 12;

/// The least rows of a product that are split into tasks; where there are fewer, only columns are.
const MIN_SPLIT_ROWS: usize = 48;

/// The least multiply-adds of a task, and the most tasks that are made only so that all threads have some.
const MIN_TASK_FMAS: usize = 1 << 16;
const MAX_TASKS: usize = 8;

/// The most tasks that the columns are split into.
const MAX_COLUMN_TASKS: usize = MAX_TASKS;

/// The most elements of the right operand that are packed at a time: k rows of NC columns.
const MAX_PACKED_B_ELEMENTS: usize = 1 << 22;

/// The most elements of an operand that needs no packing, because it stays in the L1 cache.
const MAX_UNPACKED_ELEMENTS: usize = 1 << 12;

/// Split-K: the least terms of a slice of k, the most slices, and the most register tiles of a product that is split so.
const SPLIT_K_MIN_TERMS: usize = 2048;
const SPLIT_K_MAX_SLICES: usize = 8;
const SPLIT_K_MAX_TILES: usize = 64;

/// Split-K of aᵀ b, where both operands have a contiguous row for each term, as in the gradient of a weight: the least k, the terms of a
/// slice, and the most elements of the product. A thread then reads entire rows of both, most often those that it wrote itself.
const SPLIT_K_AT_B_MIN_K: usize = 1024;
const SPLIT_K_AT_B_TERMS: usize = 256;
const SPLIT_K_AT_B_MAX_ELEMENTS: usize = 1 << 17;

/// A GEMM whose sizes were checked: y = a b, or y += a b, with m rows, n columns and k terms.
pub(super) struct Gemm<'a, T> {
    pub(super) cpu: Cpu,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) y: *mut T,
    pub(super) row_stride: usize,
    pub(super) accumulate: bool,
    pub(super) a: MatrixPtr<T>,
    pub(super) b: MatrixPtr<T>,
    _slices: PhantomData<(&'a mut [T], &'a [T])>,
}

// SAFETY: tasks read `a` and `b` and only write the blocks of `y` that are theirs.
unsafe impl<T: GemmFloat> Sync for Gemm<'_, T> {}

/// A pointer that tasks share.
#[derive(Clone, Copy)]
pub(super) struct SharedPtr<T>(pub(super) *mut T);

// SAFETY: tasks only write ranges of their own, and read what was written before they began.
unsafe impl<T: Send> Sync for SharedPtr<T> {}

impl<T> SharedPtr<T> {
    pub(super) fn pointer(&self) -> *mut T {
        self.0
    }
}

/// Where the macrokernel reads an operand.
#[derive(Clone, Copy)]
enum Operand<T> {
    /// In the matrix, with its strides.
    Unpacked,
    /// In panels packed from the rows or columns, and the terms, of the block.
    Packed(*const T),
}

impl<'a, T: GemmFloat> Gemm<'a, T> {
    pub(super) fn new(
        cpu: Cpu,
        y: Product<'a, T>,
        a: Matrix<'a, T>,
        b: Matrix<'a, T>,
    ) -> Gemm<'a, T> {
        let ((m, k), (l, n)) = (a.size, b.size);
        assert_eq!(k, l, "the inner sizes of a product");
        a.check();
        b.check();
        // Rows that overlap would be written by two tasks.
        let disjoint = m <= 1 || y.row_stride >= n;
        let fits = disjoint && in_bounds(y.data.len(), (m, n), (y.row_stride, 1));
        assert!(fits, "a product lies in its slice");
        Gemm::unchecked(cpu, y, a, b)
    }

    /// A GEMM whose slices are not checked, to compute sizes only.
    pub(super) fn unchecked(
        cpu: Cpu,
        y: Product<'a, T>,
        a: Matrix<'a, T>,
        b: Matrix<'a, T>,
    ) -> Gemm<'a, T> {
        let source = |x: Matrix<'a, T>| MatrixPtr {
            data: x.data.as_ptr(),
            strides: x.strides,
        };
        Gemm {
            cpu,
            m: a.size.0,
            n: b.size.1,
            k: a.size.1,
            y: y.data.as_mut_ptr(),
            row_stride: y.row_stride,
            accumulate: y.accumulate,
            a: source(a),
            b: source(b),
            _slices: PhantomData,
        }
    }

    /// Computes the product; without a pool on this thread.
    pub(super) fn run(
        &self,
        pool: Option<&Pool>,
        buffers: &BufferPool<T>,
        epilogue: Option<Epilogue<'_>>,
    ) {
        if self.is_empty() {
            return self.run_empty(epilogue);
        }
        let done = || {
            if let Some(epilogue) = epilogue {
                epilogue(0..self.m);
            }
        };
        // SAFETY: `new` has checked that all elements are there, and `y` is borrowed for as long as `self` lives, which has one run.
        unsafe {
            if self.m == 1 || self.n == 1 {
                gemv::run(self, pool, epilogue);
            } else if self.k_slices() > 1 {
                self.run_split_k(pool, buffers, epilogue);
            } else if let Some(pool) = pool.filter(|_| self.tasks() > 1 && self.is_one_row_block())
            {
                self.run_columns(pool, buffers);
                self.run_epilogue(pool, epilogue);
            } else if let Some(pool) = pool.filter(|_| self.tasks() > 1) {
                self.run_blocks(pool, buffers, epilogue);
            } else {
                buffers.with_or_empty(self.workspace_len(), |own| {
                    self.run_serial(own.as_mut_ptr())
                });
                done();
            }
        }
    }

    /// Computes a product without elements or terms.
    fn run_empty(&self, epilogue: Option<Epilogue<'_>>) {
        if !self.accumulate {
            self.fill_zero();
        }
        if let Some(epilogue) = epilogue.filter(|_| self.m > 0) {
            epilogue(0..self.m);
        }
    }

    /// Whether there are no elements, or no terms.
    fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.k == 0
    }

    /// How many elements of workspace a run on one thread takes.
    pub(super) fn workspace_len(&self) -> usize {
        if self.m <= 1 || self.n <= 1 {
            return 0;
        }
        let rows = self.serial_workspace_len();
        match self.k_slices() {
            1 => rows,
            slices => rows + (slices * self.m * self.n).next_multiple_of(64),
        }
    }

    /// Makes all elements 0.
    fn fill_zero(&self) {
        for i in 0..self.m {
            // SAFETY: the rows lie in `y`, which is borrowed for as long as `self` lives, and do not overlap.
            let row =
                unsafe { std::slice::from_raw_parts_mut(self.y.add(i * self.row_stride), self.n) };
            row.fill(T::ZERO);
        }
    }

    /// How many multiply-adds the product takes.
    fn fmas(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// How many tasks the work is enough for.
    fn tasks(&self) -> usize {
        (self.fmas() / MIN_TASK_FMAS).clamp(1, MAX_TASKS)
    }

    /// Into how many slices split-K splits k; 1 without it.
    fn k_slices(&self) -> usize {
        let is_at_b = self.a.strides.0 == 1 && self.a.strides.1 != 1 && self.b.strides.1 == 1;
        if is_at_b && self.k >= SPLIT_K_AT_B_MIN_K && self.m * self.n <= SPLIT_K_AT_B_MAX_ELEMENTS {
            return (self.k / SPLIT_K_AT_B_TERMS).min(SPLIT_K_MAX_SLICES);
        }
        let tiles = self.m.div_ceil(mr(self.cpu)) * self.n.div_ceil(nr::<T>(self.cpu));
        match tiles <= SPLIT_K_MAX_TILES {
            true => (self.k / SPLIT_K_MIN_TERMS).clamp(1, SPLIT_K_MAX_SLICES),
            false => 1,
        }
    }

    /// How many terms a block has: at most [`KC`], in blocks of nearly equal size.
    fn kc(&self) -> usize {
        self.k.div_ceil(self.k.div_ceil(KC).max(1))
    }

    /// Whether the right operand is packed: where its columns are not contiguous, or it is large and read often.
    fn packs_right(&self) -> bool {
        self.b.strides.1 != 1
            || (self.m > 2 * mr(self.cpu) && self.k * self.n > MAX_UNPACKED_ELEMENTS)
    }

    /// Whether the left operand is packed: where its terms are not contiguous, and it is large and read often.
    fn packs_left(&self) -> bool {
        self.a.strides.1 != 1
            && self.n > 2 * nr::<T>(self.cpu)
            && self.m * self.k > MAX_UNPACKED_ELEMENTS
    }

    /// NC: how many columns of the right operand are packed at a time.
    fn nc(&self) -> usize {
        match self.packs_right() {
            true => {
                let max = (MAX_PACKED_B_ELEMENTS / self.k.max(1)).max(1);
                match self.n <= max {
                    true => self.n,
                    false => (max / nr::<T>(self.cpu)).max(1) * nr::<T>(self.cpu),
                }
            }
            false => self.n,
        }
    }

    /// Elements of the packed NC columns of the right operand, and of the rows of the left one that are packed at a time.
    fn packed_lens(&self, rows: usize) -> (usize, usize) {
        let right = match self.packs_right() {
            true => self.k * padded::<T>(self.nc()),
            false => 0,
        };
        let left = match self.packs_left() {
            true => rows * self.kc(),
            false => 0,
        };
        (right, left)
    }

    /// The elements of workspace of [`Gemm::run_serial`].
    fn serial_workspace_len(&self) -> usize {
        let (right, left) = self.packed_lens(even_split(self.m, MC));
        right + left
    }

    /// The rows and columns of a task's block. There are enough blocks for all threads where the work suffices, but a block has many rows,
    /// so that it reads the right operand seldom.
    fn block_size(&self, columns: usize) -> (usize, usize) {
        let (tasks, panels) = (self.tasks(), columns.div_ceil(nr::<T>(self.cpu)));
        let min_down = self.m.div_ceil(MC);
        // Rows are packed once where no two blocks share them.
        let across = match self.packs_left() && self.m / MIN_TASK_ROWS >= 2 * tasks {
            true => 1,
            false => (tasks / min_down).clamp(1, panels.div_ceil(2).min(MAX_COLUMN_TASKS)),
        };
        let down = min_down
            .max((tasks / across).min(self.m / MIN_TASK_ROWS))
            .max(1);
        // A multiple of four divides evenly among two and four threads.
        let down = match down * across > 2 && across % 4 != 0 {
            true => down.next_multiple_of(4),
            false => down,
        };
        (
            self.m.div_ceil(down).max(1),
            panels.div_ceil(across) * nr::<T>(self.cpu),
        )
    }

    /// Whether all blocks would have the same rows, so that no two of them read the same columns.
    fn is_one_row_block(&self) -> bool {
        self.m < MIN_SPLIT_ROWS
            || (self.n > nr::<T>(self.cpu) && self.block_size(self.n).0 >= self.m)
    }

    /// Shares out the epilogue, where all rows are finished at once.
    fn run_epilogue(&self, pool: &Pool, epilogue: Option<Epilogue<'_>>) {
        /// The least elements of a task.
        const MIN_TASK_ELEMENTS: usize = 1 << 12;
        if let Some(epilogue) = epilogue {
            let size = (MIN_TASK_ELEMENTS / self.n).max(1);
            pool.run(self.m.div_ceil(size), &|i| {
                epilogue(i * size..self.m.min((i + 1) * size));
            });
        }
    }

    /// Shares out blocks of the product: for each NC columns, packs them, then runs a task for each block of rows and columns.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y`.
    unsafe fn run_blocks(
        &self,
        pool: &Pool,
        buffers: &BufferPool<T>,
        epilogue: Option<Epilogue<'_>>,
    ) {
        let nc = self.nc();
        let (block_rows, block_columns) = self.block_size(nc);
        let (row_blocks, kc) = (self.m.div_ceil(block_rows), self.kc());
        let k_blocks = self.k.div_ceil(kc);
        // Where several blocks have the same rows, those are packed before; else each task packs its own.
        let (right, each) = self.packed_lens(block_rows);
        let before = (block_columns < nc).then_some(each);
        let left = before.map_or(0, |each| row_blocks * k_blocks * each);
        buffers.with_or_empty(right + left, |buffer| {
            // Only now, because the buffer just taken could have been one of those.
            if each > 0 && before.is_none() {
                buffers.prepare(pool.threads(), each);
            }
            let (right, rows) = buffer.split_at_mut(right);
            let packs_rows = !rows.is_empty();
            let (right, left) = (SharedPtr(right.as_mut_ptr()), SharedPtr(rows.as_mut_ptr()));
            if packs_rows {
                pool.run(row_blocks * k_blocks, &|i| {
                    let (row_block, k_block) = (i / k_blocks, i % k_blocks);
                    let rows = row_block * block_rows..self.m.min((row_block + 1) * block_rows);
                    let terms = k_block * kc..self.k.min((k_block + 1) * kc);
                    // SAFETY: each task has `each` elements of its own for its rows and terms.
                    unsafe {
                        pack::pack_a(self.cpu, self.a, rows, terms, left.pointer().add(i * each))
                    };
                });
            }
            for first in (0..self.n).step_by(nc) {
                let columns = first..self.n.min(first + nc);
                if self.packs_right() {
                    // SAFETY: `right` has the size of all terms of NC columns.
                    unsafe { self.pack_right(Some(pool), columns.clone(), &right) };
                }
                let column_blocks = columns.len().div_ceil(block_columns);
                let last = columns.end == self.n;
                // How many blocks of each range of rows are done, where there are several. There are at most `MAX_TASKS` ranges then
                // (`block_size`).
                let finished: [AtomicUsize; 2 * MAX_TASKS] = Default::default();
                let finishes = |row_block: usize| {
                    column_blocks == 1
                        || finished[row_block].fetch_add(1, AcqRel) + 1 == column_blocks
                };
                pool.run(row_blocks * column_blocks, &|i| {
                    let (row_block, start) = (i / column_blocks, i % column_blocks * block_columns);
                    let rows = row_block * block_rows..self.m.min((row_block + 1) * block_rows);
                    let end = columns.len().min(start + block_columns);
                    let work = |to: *mut T| {
                        // SAFETY: the blocks do not overlap; the columns are packed, and the rows too or `to` is large enough for them.
                        unsafe {
                            let own = start..end;
                            self.run_block(rows.clone(), &columns, own, &right, before, to);
                        }
                    };
                    match before {
                        Some(each) => {
                            // SAFETY: the blocks of these rows lie one after another.
                            work(unsafe { left.pointer().add(row_block * k_blocks * each) })
                        }
                        None => buffers.with_or_empty(each, |own| work(own.as_mut_ptr())),
                    }
                    if let Some(epilogue) = epilogue.filter(|_| last && finishes(row_block)) {
                        epilogue(rows);
                    }
                });
            }
        });
    }

    /// Packs columns of the right operand, one KC block after another.
    ///
    /// # Safety
    ///
    /// The columns are there; `to` has the packed size of all their terms, and nothing else uses it.
    unsafe fn pack_right(&self, pool: Option<&Pool>, columns: Range<usize>, to: &SharedPtr<T>) {
        /// How many panels a task packs.
        const PANELS_PER_TASK: usize = 8;
        let (k, n, terms) = (self.k, columns.len(), self.kc());
        let group = PANELS_PER_TASK * nr::<T>(self.cpu);
        let (blocks, groups) = (k.div_ceil(terms), n.div_ceil(group));
        let task = |i: usize| {
            let (block, first) = (i / groups, i % groups * group);
            let terms = block * terms..k.min((block + 1) * terms);
            let own = columns.start + first..columns.end.min(columns.start + first + group);
            // SAFETY: blocks before this one have taken `terms.start` rows of all columns, and panels before this one the columns
            // before `first`, which are full panels.
            unsafe {
                let at = terms.start * padded::<T>(n) + first * terms.len();
                pack::pack_b(self.cpu, self.b, terms, own, to.pointer().add(at));
            }
        };
        match pool {
            // Enough for two tasks, an element counted as eight multiply-adds.
            Some(pool) if k * n >= 2 * MIN_TASK_FMAS / 8 => pool.run(blocks * groups, &task),
            _ => (0..blocks * groups).for_each(task),
        }
    }

    /// Computes the rows by the columns `own` of those packed in `right`, if the right operand is packed: loops over the KC blocks, and
    /// packs the rows of each unless they are packed already, in which case the KC blocks lie `packed` elements apart in `left`.
    ///
    /// # Safety
    ///
    /// The product has the rows and columns, and nothing else uses them. `own` begins at a panel. If the left operand is packed, `left`
    /// has all KC blocks of the rows, or the size of one.
    unsafe fn run_block(
        &self,
        rows: Range<usize>,
        columns: &Range<usize>,
        own: Range<usize>,
        right: &SharedPtr<T>,
        packed: Option<usize>,
        left: *mut T,
    ) {
        let (kc, b_stride) = (self.kc(), padded::<T>(columns.len()));
        for (block, first) in (0..self.k).step_by(kc).enumerate() {
            let terms = first..self.k.min(first + kc);
            // SAFETY: blocks of terms are packed one after another, and in each of them panels; the rest is the caller's promise.
            unsafe {
                let right = match self.packs_right() {
                    true => {
                        let at = first * b_stride + own.start * terms.len();
                        Operand::Packed(right.pointer().add(at).cast_const())
                    }
                    false => Operand::Unpacked,
                };
                let left = match (self.packs_left(), packed) {
                    (true, Some(each)) => Operand::Packed(left.add(block * each).cast_const()),
                    (true, None) => {
                        pack::pack_a(self.cpu, self.a, rows.clone(), terms.clone(), left);
                        Operand::Packed(left.cast_const())
                    }
                    (false, _) => Operand::Unpacked,
                };
                let columns = columns.start + own.start..columns.start + own.end;
                self.macrokernel(rows.clone(), columns, terms, left, right);
            }
        }
    }

    /// Shares out columns: each task packs its own, one KC block at a time, and computes all rows of them.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y`.
    unsafe fn run_columns(&self, pool: &Pool, buffers: &BufferPool<T>) {
        let (packs_left, packs_right, kc) = (self.packs_left(), self.packs_right(), self.kc());
        let left = if packs_left { self.m * self.k } else { 0 };
        // Columns of a task: those that the work is enough for, and not more than fit the L2 cache. A multiple of four tasks divides
        // evenly among two and four threads.
        let units = self.n.div_ceil(nr::<T>(self.cpu));
        let tasks = self.tasks().min(units).max(units.div_ceil(MC / T::WIDTH));
        let tasks = if tasks > 2 {
            tasks.next_multiple_of(4)
        } else {
            tasks
        };
        let size = units.div_ceil(tasks) * nr::<T>(self.cpu);
        let right = if packs_right { kc * size } else { 0 };
        buffers.with_or_empty(left, |packed| {
            let packed = SharedPtr(packed.as_mut_ptr());
            if packs_left {
                pool.run(self.k.div_ceil(kc), &|i| {
                    let terms = i * kc..self.k.min((i + 1) * kc);
                    // SAFETY: blocks of terms are packed one after another, and `packed` has the size of all of them.
                    unsafe {
                        let to = packed.pointer().add(self.m * terms.start);
                        pack::pack_a(self.cpu, self.a, 0..self.m, terms, to);
                    }
                });
            }
            if right > 0 {
                buffers.prepare(pool.threads(), right);
            }
            pool.run(self.n.div_ceil(size), &|i| {
                let columns = i * size..self.n.min((i + 1) * size);
                buffers.with_or_empty(right, |own| {
                    for first in (0..self.k).step_by(kc) {
                        let terms = first..self.k.min(first + kc);
                        // SAFETY: the tasks have different columns, and buffers of their own for a block of them.
                        unsafe {
                            let left = match packs_left {
                                true => Operand::Packed(
                                    packed.pointer().add(self.m * first).cast_const(),
                                ),
                                false => Operand::Unpacked,
                            };
                            let right = match packs_right {
                                true => {
                                    let to = own.as_mut_ptr();
                                    pack::pack_b(
                                        self.cpu,
                                        self.b,
                                        terms.clone(),
                                        columns.clone(),
                                        to,
                                    );
                                    Operand::Packed(to.cast_const())
                                }
                                false => Operand::Unpacked,
                            };
                            self.macrokernel(0..self.m, columns.clone(), terms, left, right);
                        }
                    }
                });
            });
        });
    }

    /// Split-K: computes partial products of slices of k, then adds them in order (deterministic two-level reduction).
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y`.
    unsafe fn run_split_k(
        &self,
        pool: Option<&Pool>,
        buffers: &BufferPool<T>,
        epilogue: Option<Epilogue<'_>>,
    ) {
        let (slices, size) = (self.k_slices(), self.m * self.n);
        let share = self.k.div_ceil(slices);
        let slices = self.k.div_ceil(share);
        let partial = (slices * size).next_multiple_of(64);
        let slice = |i: usize, to: *mut T| {
            let terms = i * share..self.k.min((i + 1) * share);
            // SAFETY: the terms are there.
            let (a, b) = unsafe { (self.a.at(0, terms.start), self.b.at(terms.start, 0)) };
            Gemm {
                cpu: self.cpu,
                m: self.m,
                n: self.n,
                k: terms.len(),
                y: to,
                row_stride: self.n,
                accumulate: false,
                a: MatrixPtr { data: a, ..self.a },
                b: MatrixPtr { data: b, ..self.b },
                _slices: PhantomData,
            }
        };
        // The first slice is the longest.
        let each = slice(0, std::ptr::null_mut()).serial_workspace_len();
        let rest = if pool.is_some() { 0 } else { each };
        buffers.with(partial + rest, |buffer| {
            let (sums, own) = buffer.split_at_mut(partial);
            let (start, own) = (SharedPtr(sums.as_mut_ptr()), SharedPtr(own.as_mut_ptr()));
            let task = |i: usize, to: *mut T| {
                // SAFETY: each slice has a range of `sums` of its own, and `to` has the workspace that it takes.
                unsafe { slice(i, start.pointer().add(i * size)).run_serial(to) };
            };
            match pool {
                Some(pool) => {
                    buffers.prepare(pool.threads(), each);
                    pool.run(slices, &|i| {
                        buffers.with_or_empty(each, |own| task(i, own.as_mut_ptr()))
                    });
                }
                None => (0..slices).for_each(|i| task(i, own.pointer())),
            }
            let sum = |rows: Range<usize>| {
                // SAFETY: all slices are done, and each row is reduced once.
                let reduce = |i: usize| unsafe { self.reduce_row(i, &start, slices) };
                rows.clone().for_each(reduce);
                if let Some(epilogue) = epilogue {
                    epilogue(rows);
                }
            };
            // An addition counts as four multiply-adds.
            let size = (MIN_TASK_FMAS / 4 / (slices * self.n)).max(1);
            match pool {
                Some(pool) => pool.run(self.m.div_ceil(size), &|i| {
                    sum(i * size..self.m.min((i + 1) * size));
                }),
                None => sum(0..self.m),
            }
        });
    }

    /// Adds up a row of the partial products, which lie one after another.
    ///
    /// # Safety
    ///
    /// The partial products are there, and nothing else uses this row of them, or of the product.
    unsafe fn reduce_row(&self, i: usize, partials: &SharedPtr<T>, count: usize) {
        let row = |slice: usize| {
            // SAFETY: each partial product has all rows.
            unsafe {
                let first = partials.pointer().add((slice * self.m + i) * self.n);
                std::slice::from_raw_parts_mut(first, self.n)
            }
        };
        let sums = row(0);
        for slice in 1..count {
            for (sum, x) in sums.iter_mut().zip(&*row(slice)) {
                *sum = sum.plus(*x);
            }
        }
        // SAFETY: the row is one of `y`.
        let y = unsafe { std::slice::from_raw_parts_mut(self.y.add(i * self.row_stride), self.n) };
        match self.accumulate {
            true => y.iter_mut().zip(sums).for_each(|(y, x)| *y = y.plus(*x)),
            false => y.copy_from_slice(sums),
        }
    }

    /// Computes the product on this thread with the workspace that is given.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y` or `to`, which has as many elements as `serial_workspace_len` says.
    unsafe fn run_serial(&self, to: *mut T) {
        let (nc, mc) = (self.nc(), even_split(self.m, MC));
        let (right, _) = self.packed_lens(mc);
        let shared = SharedPtr(to);
        for first in (0..self.n).step_by(nc) {
            let columns = first..self.n.min(first + nc);
            // SAFETY: the caller's promise: the first `right` elements are for columns, the rest for rows.
            unsafe {
                if right > 0 {
                    self.pack_right(None, columns.clone(), &shared);
                }
                for first in (0..self.m).step_by(mc) {
                    let rows = first..self.m.min(first + mc);
                    let own = 0..columns.len();
                    self.run_block(rows, &columns, own, &shared, None, to.add(right));
                }
            }
        }
    }

    /// The GEMM macrokernel: adds some terms of some rows and columns, one register tile after another.
    ///
    /// # Safety
    ///
    /// The product has them, and nothing else uses them; packed operands are packed for exactly these.
    unsafe fn macrokernel(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        terms: Range<usize>,
        left: Operand<T>,
        right: Operand<T>,
    ) {
        let (n, k) = (columns.len(), terms.len());
        let mut tile = Tile {
            a: [std::ptr::null(); MAX_MR],
            a_stride: 0,
            run_offsets: &[0],
            run_len: k,
            b: std::ptr::null(),
            b_stride: 0,
            y: [std::ptr::null_mut(); MAX_MR],
            columns: 0,
            accumulate: self.accumulate || terms.start > 0,
        };
        for first in (0..n).step_by(nr::<T>(self.cpu)) {
            tile.columns = nr::<T>(self.cpu).min(n - first);
            let is_padded = matches!(right, Operand::Packed(_));
            // SAFETY: the panel begins at its first column times the terms, or is read from the matrix, whose columns are contiguous
            // then.
            (tile.b, tile.b_stride) = unsafe {
                match right {
                    Operand::Packed(b) => (b.add(first * k), padded::<T>(tile.columns)),
                    Operand::Unpacked => (
                        self.b.at(terms.start, columns.start + first),
                        self.b.strides.0,
                    ),
                }
            };
            for own in row_panels(self.cpu, rows.len()) {
                // SAFETY: the rows and columns are there, and pointers for rows that the panel does not have are not used.
                unsafe {
                    let (mut a, row_stride) = match left {
                        Operand::Packed(a) => {
                            tile.a_stride = own.len();
                            (a.add(own.start * k), 1)
                        }
                        Operand::Unpacked => {
                            tile.a_stride = self.a.strides.1;
                            let a = self.a.at(rows.start + own.start, terms.start);
                            (a, self.a.strides.0)
                        }
                    };
                    let row = rows.start + own.start;
                    let mut y = self.y.add(row * self.row_stride + columns.start + first);
                    for i in 0..own.len() {
                        (tile.a[i], tile.y[i]) = (a, y);
                        a = a.wrapping_add(row_stride);
                        y = y.wrapping_add(self.row_stride);
                    }
                    microkernel::compute(self.cpu, own.len(), is_padded, &tile);
                }
            }
        }
    }
}

/// The block size that splits `length` into the fewest blocks of at most `max` elements, all of nearly the same size.
fn even_split(length: usize, max: usize) -> usize {
    length.div_ceil(length.div_ceil(max).max(1)).max(1)
}
