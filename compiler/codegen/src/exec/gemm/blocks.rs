//! A product cut into blocks: for threads, and for the caches of each of them.
//!
//! The terms come in blocks of at most [`TERMS`]. All threads pack the factors that are packed, and then share out parts of the
//! product; where all parts have the same rows, each packs columns of its own instead. Few rows and columns but many terms are cut
//! into pieces of terms, whose products are added one after another.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};

use super::pack::{self, Source, padded, panels, width};
use super::tile::{self, MOST, Tile};
use super::{Epilogue, Factor, Matrix, Product, foreign, inside, lanes, vector};
use crate::exec::pool::Pool;
use crate::library::BufferPool;

/// The most terms of a block: so many lines of a panel of the right factor stay in the first cache.
const TERMS: usize = 320;

/// The most rows of a task: with the terms of a block they stay in the second cache.
const TALL: usize = 128;

/// The least rows of a task, where there are as many.
const FLAT: usize = 12;

/// The least rows that are shared out; where there are fewer, only columns are.
const FEW: usize = 48;

/// The least products of numbers in a task, and the most tasks that are made only so that all threads have some.
const LEAST: usize = 1 << 16;
const TASKS: usize = 8;

/// The most parts that the columns are cut into.
const PARTS: usize = TASKS;

/// The most elements of the right factor that are packed at a time.
const PACKED: usize = 1 << 22;

/// Pieces of terms: the least terms of one, the most pieces, and the most tiles of a product that is cut so.
const DEEP: usize = 2048;
const PIECES: usize = 8;
const SMALL: usize = 64;

/// The same where both factors have a line for each term, as in the gradient of a weight: the least terms, the terms of a piece, and the
/// most elements of the product. A thread then reads whole lines of both, most often those that it made itself.
const LONG: usize = 1024;
const PIECE: usize = 256;
const SHORT: usize = 1 << 17;

/// A product whose sizes were checked.
pub(super) struct Whole<'a, T> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) y: *mut T,
    pub(super) row: usize,
    pub(super) add: bool,
    pub(super) a: Source<T>,
    pub(super) b: Source<T>,
    _slices: PhantomData<(&'a mut [T], &'a [T])>,
}

// SAFETY: tasks read `a` and `b` and only write the parts of `y` that are theirs.
unsafe impl<T: Factor> Sync for Whole<'_, T> {}

/// A pointer that tasks share.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) *mut T);

// SAFETY: tasks only write parts of their own, and read what was written before they began.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn pointer(&self) -> *mut T {
        self.0
    }
}

/// Where a factor is read from.
#[derive(Clone, Copy)]
enum Place<T> {
    /// From the matrix.
    AsIs,
    /// From what was packed of the rows or columns, and the terms, at hand.
    Packed(*const T),
}

impl<'a, T: Factor> Whole<'a, T> {
    pub(super) fn new(y: Product<'a, T>, a: Matrix<'a, T>, b: Matrix<'a, T>) -> Whole<'a, T> {
        let ((m, k), (l, n)) = (a.size, b.size);
        assert_eq!(k, l, "the inner sizes of a product");
        a.check();
        b.check();
        // Rows that overlap would be written by two tasks.
        let apart = m <= 1 || y.row >= n;
        let fits = apart && inside(y.data.len(), (m, n), (y.row, 1));
        assert!(fits, "a product lies in its slice");
        Whole::unchecked(y, a, b)
    }

    /// The same without a look at the slices, to ask for sizes.
    pub(super) fn unchecked(y: Product<'a, T>, a: Matrix<'a, T>, b: Matrix<'a, T>) -> Whole<'a, T> {
        let source = |x: Matrix<'a, T>| Source {
            data: x.data.as_ptr(),
            steps: x.steps,
        };
        Whole {
            m: a.size.0,
            n: b.size.1,
            k: a.size.1,
            y: y.data.as_mut_ptr(),
            row: y.row,
            add: y.add,
            a: source(a),
            b: source(b),
            _slices: PhantomData,
        }
    }

    /// Computes the product; without a pool on this thread.
    pub(super) fn run(
        &self,
        pool: Option<&Pool>,
        room: &BufferPool<T>,
        epilogue: Option<Epilogue<'_>>,
    ) {
        if self.is_empty() || !lanes::present() {
            return self.run_by_crate(pool, epilogue);
        }
        let done = || {
            if let Some(epilogue) = epilogue {
                epilogue(0..self.m);
            }
        };
        // SAFETY: `new` has checked that all elements are there, and `y` is borrowed for as long as `self` lives, which has one run; the
        // machine has vectors.
        unsafe {
            if self.m == 1 || self.n == 1 {
                vector::run(self, pool, epilogue);
            } else if self.pieces() > 1 {
                self.by_terms(pool, room, epilogue);
            } else if let Some(pool) = pool.filter(|_| self.tasks() > 1 && self.is_flat()) {
                self.by_columns(pool, room);
                self.finish(pool, epilogue);
            } else if let Some(pool) = pool.filter(|_| self.tasks() > 1) {
                self.by_parts(pool, room, epilogue);
            } else {
                room.with_or_empty(self.room(), |own| self.alone(own.as_mut_ptr()));
                done();
            }
        }
    }

    /// The same on any machine.
    pub(super) fn run_by_crate(&self, pool: Option<&Pool>, epilogue: Option<Epilogue<'_>>) {
        if !self.is_empty() {
            // SAFETY: as in `run`.
            return unsafe { foreign::run(self, pool, epilogue) };
        }
        if !self.add {
            self.clear();
        }
        if let Some(epilogue) = epilogue.filter(|_| self.m > 0) {
            epilogue(0..self.m);
        }
    }

    /// Whether there are no elements, or no terms.
    fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.k == 0
    }

    /// How many elements of room a run on one thread takes.
    pub(super) fn room(&self) -> usize {
        if self.m <= 1 || self.n <= 1 || !lanes::present() {
            return 0;
        }
        let rows = self.alone_room();
        match self.pieces() {
            1 => rows,
            pieces => rows + (pieces * self.m * self.n).next_multiple_of(64),
        }
    }

    /// Makes all elements 0.
    fn clear(&self) {
        for i in 0..self.m {
            // SAFETY: the rows lie in `y`, which is borrowed for as long as `self` lives, and do not overlap.
            let row = unsafe { std::slice::from_raw_parts_mut(self.y.add(i * self.row), self.n) };
            row.fill(T::ZERO);
        }
    }

    fn work(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// How many tasks the work is enough for.
    fn tasks(&self) -> usize {
        (self.work() / LEAST).clamp(1, TASKS)
    }

    /// How many pieces of terms there are.
    fn pieces(&self) -> usize {
        let beside = self.a.steps.0 == 1 && self.a.steps.1 != 1 && self.b.steps.1 == 1;
        if beside && self.k >= LONG && self.m * self.n <= SHORT {
            return (self.k / PIECE).min(PIECES);
        }
        let tiles = self.m.div_ceil(tile::rows()) * self.n.div_ceil(width::<T>());
        match tiles <= SMALL {
            true => (self.k / DEEP).clamp(1, PIECES),
            false => 1,
        }
    }

    /// How many terms a block has.
    fn terms(&self) -> usize {
        self.k.div_ceil(self.k.div_ceil(TERMS).max(1))
    }

    /// Whether the right factor is packed: where its columns do not lie beside each other, or it is large and read often.
    fn packs_right(&self) -> bool {
        self.b.steps.1 != 1 || (self.m > 2 * tile::rows() && self.k * self.n > PLAIN)
    }

    /// Whether the left factor is packed: where its terms are far apart, and it is large and read often.
    fn packs_left(&self) -> bool {
        self.a.steps.1 != 1 && self.n > 2 * width::<T>() && self.m * self.k > PLAIN
    }

    /// How many columns of the right factor are packed at a time.
    fn slab(&self) -> usize {
        match self.packs_right() {
            true => {
                let most = (PACKED / self.k.max(1)).max(1);
                match self.n <= most {
                    true => self.n,
                    false => (most / width::<T>()).max(1) * width::<T>(),
                }
            }
            false => self.n,
        }
    }

    /// Elements of room for the packed part of the right factor, and for rows of the left one that are packed at a time.
    fn rooms(&self, rows: usize) -> (usize, usize) {
        let right = match self.packs_right() {
            true => self.k * padded::<T>(self.slab()),
            false => 0,
        };
        let left = match self.packs_left() {
            true => rows * self.terms(),
            false => 0,
        };
        (right, left)
    }

    fn alone_room(&self) -> usize {
        let (right, left) = self.rooms(even(self.m, TALL));
        right + left
    }

    /// The rows and columns of a part. There are enough parts for all threads where the work is, but a part has many rows, so that it
    /// reads the right factor seldom.
    fn parts(&self, columns: usize) -> (usize, usize) {
        let (wanted, panels) = (self.tasks(), columns.div_ceil(width::<T>()));
        let tall = self.m.div_ceil(TALL);
        // Rows that are packed are packed once where no two parts share them.
        let across = match self.packs_left() && self.m / FLAT >= 2 * wanted {
            true => 1,
            false => (wanted / tall).clamp(1, panels.div_ceil(2).min(PARTS)),
        };
        let down = tall.max((wanted / across).min(self.m / FLAT)).max(1);
        // Shares for two and four threads.
        let down = match down * across > 2 && across % 4 != 0 {
            true => down.next_multiple_of(4),
            false => down,
        };
        (
            self.m.div_ceil(down).max(1),
            panels.div_ceil(across) * width::<T>(),
        )
    }

    /// Whether all parts would have the same rows, so that no two of them read the same columns.
    fn is_flat(&self) -> bool {
        self.m < FEW || (self.n > width::<T>() && self.parts(self.n).0 >= self.m)
    }

    /// Shares out what is done with rows, where they are all finished at once.
    fn finish(&self, pool: &Pool, epilogue: Option<Epilogue<'_>>) {
        /// The least elements of a task.
        const SOME: usize = 1 << 12;
        if let Some(epilogue) = epilogue {
            let size = (SOME / self.n).max(1);
            pool.run(self.m.div_ceil(size), &|i| {
                epilogue(i * size..self.m.min((i + 1) * size));
            });
        }
    }

    /// Shares out parts of the product.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y`.
    unsafe fn by_parts(&self, pool: &Pool, room: &BufferPool<T>, epilogue: Option<Epilogue<'_>>) {
        let slab = self.slab();
        let (size, across) = self.parts(slab);
        let (down, terms) = (self.m.div_ceil(size), self.terms());
        let blocks = self.k.div_ceil(terms);
        // Where several parts have the same rows, those are packed before; else each part packs its own.
        let (right, each) = self.rooms(size);
        let before = (across < slab).then_some(each);
        let left = before.map_or(0, |each| down * blocks * each);
        room.with_or_empty(right + left, |buffer| {
            // Only now, because the buffer just lent could have been one of those.
            if each > 0 && before.is_none() {
                room.prepare(pool.threads(), each);
            }
            let (right, rows) = buffer.split_at_mut(right);
            let packs_rows = !rows.is_empty();
            let (right, left) = (Shared(right.as_mut_ptr()), Shared(rows.as_mut_ptr()));
            if packs_rows {
                pool.run(down * blocks, &|i| {
                    let rows = i / blocks * size..self.m.min((i / blocks + 1) * size);
                    let terms = i % blocks * terms..self.k.min((i % blocks + 1) * terms);
                    // SAFETY: each task has room of its own for its rows and terms.
                    unsafe { pack::left(self.a, rows, terms, left.pointer().add(i * each)) };
                });
            }
            for first in (0..self.n).step_by(slab) {
                let columns = first..self.n.min(first + slab);
                if self.packs_right() {
                    // SAFETY: there is room for all terms and the columns of the slab.
                    unsafe { self.pack_right(Some(pool), columns.clone(), &right) };
                }
                let count = columns.len().div_ceil(across);
                let last = columns.end == self.n;
                // How many parts of some rows are done, where they have several.
                let finished: [AtomicUsize; 2 * TASKS] = Default::default();
                let finishes =
                    |rows: usize| count == 1 || finished[rows].fetch_add(1, AcqRel) + 1 == count;
                pool.run(down * count, &|i| {
                    let (down, part) = (i / count, i % count * across);
                    let rows = down * size..self.m.min((down + 1) * size);
                    let end = columns.len().min(part + across);
                    let work = |to: *mut T| {
                        // SAFETY: the parts do not overlap; the columns are packed, and the rows too or there is room for them.
                        unsafe {
                            let own = part..end;
                            self.part(rows.clone(), &columns, own, &right, before, to);
                        }
                    };
                    match before {
                        // SAFETY: the blocks of these rows lie one after another.
                        Some(each) => work(unsafe { left.pointer().add(down * blocks * each) }),
                        None => room.with_or_empty(each, |own| work(own.as_mut_ptr())),
                    }
                    if let Some(epilogue) = epilogue.filter(|_| last && finishes(down)) {
                        epilogue(rows);
                    }
                });
            }
        });
    }

    /// Packs columns of the right factor, block of terms after block of terms.
    ///
    /// # Safety
    ///
    /// The columns are there; `to` has room for all terms of them, and nothing else uses it.
    unsafe fn pack_right(&self, pool: Option<&Pool>, columns: Range<usize>, to: &Shared<T>) {
        /// How many panels a task packs.
        const SIDE: usize = 8;
        let (k, n, terms) = (self.k, columns.len(), self.terms());
        let group = SIDE * width::<T>();
        let (blocks, groups) = (k.div_ceil(terms), n.div_ceil(group));
        let task = |i: usize| {
            let (block, first) = (i / groups, i % groups * group);
            let terms = block * terms..k.min((block + 1) * terms);
            let own = columns.start + first..columns.end.min(columns.start + first + group);
            // SAFETY: blocks before this one have taken `terms.start` lines of all columns, and panels before this one the columns
            // before `first`, which are whole panels.
            unsafe {
                let at = terms.start * padded::<T>(n) + first * terms.len();
                pack::right(self.b, terms, own, to.pointer().add(at));
            }
        };
        match pool {
            Some(pool) if k * n >= 2 * LEAST / 8 => pool.run(blocks * groups, &task),
            _ => (0..blocks * groups).for_each(task),
        }
    }

    /// Computes some rows of a part of the columns that are packed in `right`, if the right factor is. The blocks of the rows lie
    /// `packed` elements apart in `left` if they are there already.
    ///
    /// # Safety
    ///
    /// The product has the rows and columns, and nothing else uses them. `own` begins at a panel. If the left factor is packed, `left` has
    /// all blocks of the rows, or room for one.
    unsafe fn part(
        &self,
        rows: Range<usize>,
        columns: &Range<usize>,
        own: Range<usize>,
        right: &Shared<T>,
        packed: Option<usize>,
        left: *mut T,
    ) {
        let (step, lines) = (self.terms(), padded::<T>(columns.len()));
        for (block, first) in (0..self.k).step_by(step).enumerate() {
            let terms = first..self.k.min(first + step);
            // SAFETY: blocks of terms are packed one after another, and in each of them panels; the rest is the caller's promise.
            unsafe {
                let right = match self.packs_right() {
                    true => {
                        let at = first * lines + own.start * terms.len();
                        Place::Packed(right.pointer().add(at).cast_const())
                    }
                    false => Place::AsIs,
                };
                let left = match (self.packs_left(), packed) {
                    (true, Some(each)) => Place::Packed(left.add(block * each).cast_const()),
                    (true, None) => {
                        pack::left(self.a, rows.clone(), terms.clone(), left);
                        Place::Packed(left.cast_const())
                    }
                    (false, _) => Place::AsIs,
                };
                let columns = columns.start + own.start..columns.start + own.end;
                self.block(rows.clone(), columns, terms, left, right);
            }
        }
    }

    /// Shares out columns.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y`.
    unsafe fn by_columns(&self, pool: &Pool, room: &BufferPool<T>) {
        let (packs_left, packs_right, step) = (self.packs_left(), self.packs_right(), self.terms());
        let left = if packs_left { self.m * self.k } else { 0 };
        // Columns of a task: those that the work is enough for, and not more than fit the second cache.
        let units = self.n.div_ceil(width::<T>());
        let tasks = self.tasks().min(units).max(units.div_ceil(TALL / T::WIDTH));
        let tasks = if tasks > 2 {
            tasks.next_multiple_of(4)
        } else {
            tasks
        };
        let size = units.div_ceil(tasks) * width::<T>();
        let right = if packs_right { step * size } else { 0 };
        room.with_or_empty(left, |packed| {
            let packed = Shared(packed.as_mut_ptr());
            if packs_left {
                pool.run(self.k.div_ceil(step), &|i| {
                    let terms = i * step..self.k.min((i + 1) * step);
                    // SAFETY: blocks of terms are packed one after another, and there is room for all of them.
                    unsafe {
                        let to = packed.pointer().add(self.m * terms.start);
                        pack::left(self.a, 0..self.m, terms, to);
                    }
                });
            }
            if right > 0 {
                room.prepare(pool.threads(), right);
            }
            pool.run(self.n.div_ceil(size), &|i| {
                let columns = i * size..self.n.min((i + 1) * size);
                room.with_or_empty(right, |own| {
                    for first in (0..self.k).step_by(step) {
                        let terms = first..self.k.min(first + step);
                        // SAFETY: the tasks have different columns, and buffers of their own for a block of them.
                        unsafe {
                            let left = match packs_left {
                                true => {
                                    Place::Packed(packed.pointer().add(self.m * first).cast_const())
                                }
                                false => Place::AsIs,
                            };
                            let right = match packs_right {
                                true => {
                                    let to = own.as_mut_ptr();
                                    pack::right(self.b, terms.clone(), columns.clone(), to);
                                    Place::Packed(to.cast_const())
                                }
                                false => Place::AsIs,
                            };
                            self.block(0..self.m, columns.clone(), terms, left, right);
                        }
                    }
                });
            });
        });
    }

    /// Cuts the terms into pieces.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y`.
    unsafe fn by_terms(
        &self,
        pool: Option<&Pool>,
        room: &BufferPool<T>,
        epilogue: Option<Epilogue<'_>>,
    ) {
        let (pieces, size) = (self.pieces(), self.m * self.n);
        let share = self.k.div_ceil(pieces);
        let pieces = self.k.div_ceil(share);
        let partial = (pieces * size).next_multiple_of(64);
        let piece = |i: usize, to: *mut T| {
            let terms = i * share..self.k.min((i + 1) * share);
            // SAFETY: the terms are there.
            let (a, b) = unsafe { (self.a.at(0, terms.start), self.b.at(terms.start, 0)) };
            Whole {
                m: self.m,
                n: self.n,
                k: terms.len(),
                y: to,
                row: self.n,
                add: false,
                a: Source { data: a, ..self.a },
                b: Source { data: b, ..self.b },
                _slices: PhantomData,
            }
        };
        // The first piece is the longest.
        let each = piece(0, std::ptr::null_mut()).alone_room();
        let rest = if pool.is_some() { 0 } else { each };
        room.with(partial + rest, |buffer| {
            let (sums, own) = buffer.split_at_mut(partial);
            let (start, own) = (Shared(sums.as_mut_ptr()), Shared(own.as_mut_ptr()));
            let task = |i: usize, to: *mut T| {
                // SAFETY: each piece has a part of `sums` of its own, and `to` has the room that it takes.
                unsafe { piece(i, start.pointer().add(i * size)).alone(to) };
            };
            match pool {
                Some(pool) => {
                    room.prepare(pool.threads(), each);
                    pool.run(pieces, &|i| {
                        room.with_or_empty(each, |own| task(i, own.as_mut_ptr()))
                    });
                }
                None => (0..pieces).for_each(|i| task(i, own.pointer())),
            }
            let sum = |rows: Range<usize>| {
                // SAFETY: all pieces are done, and each row is added up once.
                let add_up = |i: usize| unsafe { self.add_up(i, &start, pieces) };
                rows.clone().for_each(add_up);
                if let Some(epilogue) = epilogue {
                    epilogue(rows);
                }
            };
            let some = (LEAST / 4 / (pieces * self.n)).max(1);
            match pool {
                Some(pool) => pool.run(self.m.div_ceil(some), &|i| {
                    sum(i * some..self.m.min((i + 1) * some));
                }),
                None => sum(0..self.m),
            }
        });
    }

    /// Adds up a row of the products of pieces, which lie one after another.
    ///
    /// # Safety
    ///
    /// The pieces are there, and nothing else uses this row of them, or of the product.
    unsafe fn add_up(&self, i: usize, pieces: &Shared<T>, count: usize) {
        let row = |piece: usize| {
            // SAFETY: each piece has all rows.
            unsafe {
                let first = pieces.pointer().add((piece * self.m + i) * self.n);
                std::slice::from_raw_parts_mut(first, self.n)
            }
        };
        let sums = row(0);
        for piece in 1..count {
            for (sum, x) in sums.iter_mut().zip(&*row(piece)) {
                *sum = sum.plus(*x);
            }
        }
        // SAFETY: the row is one of `y`.
        let y = unsafe { std::slice::from_raw_parts_mut(self.y.add(i * self.row), self.n) };
        match self.add {
            true => y.iter_mut().zip(sums).for_each(|(y, x)| *y = y.plus(*x)),
            false => y.copy_from_slice(sums),
        }
    }

    /// Computes all rows with the room that is given.
    ///
    /// # Safety
    ///
    /// Nothing else uses the elements of `y` or `to`, which has as many elements as `alone_room` says.
    unsafe fn alone(&self, to: *mut T) {
        let (slab, size) = (self.slab(), even(self.m, TALL));
        let (right, _) = self.rooms(size);
        let shared = Shared(to);
        for first in (0..self.n).step_by(slab) {
            let columns = first..self.n.min(first + slab);
            // SAFETY: the caller's promise: the first part is for columns, the second for rows.
            unsafe {
                if right > 0 {
                    self.pack_right(None, columns.clone(), &shared);
                }
                for first in (0..self.m).step_by(size) {
                    let rows = first..self.m.min(first + size);
                    let own = 0..columns.len();
                    self.part(rows, &columns, own, &shared, None, to.add(right));
                }
            }
        }
    }

    /// Computes the terms of some rows and columns, tile by tile.
    ///
    /// # Safety
    ///
    /// The product has them, and nothing else uses them; what is packed is packed for just these.
    unsafe fn block(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        terms: Range<usize>,
        left: Place<T>,
        right: Place<T>,
    ) {
        let (n, k) = (columns.len(), terms.len());
        let mut tile = Tile {
            a: [std::ptr::null(); MOST],
            step: 0,
            runs: &[0],
            run: k,
            b: std::ptr::null(),
            line: 0,
            y: [std::ptr::null_mut(); MOST],
            columns: 0,
            add: self.add || terms.start > 0,
        };
        for first in (0..n).step_by(width::<T>()) {
            tile.columns = width::<T>().min(n - first);
            let whole = matches!(right, Place::Packed(_));
            // SAFETY: the panel begins at its first column times the terms, or is read from the matrix, whose columns lie beside each
            // other then.
            (tile.b, tile.line) = unsafe {
                match right {
                    Place::Packed(b) => (b.add(first * k), padded::<T>(tile.columns)),
                    Place::AsIs => (
                        self.b.at(terms.start, columns.start + first),
                        self.b.steps.0,
                    ),
                }
            };
            for own in panels(rows.len()) {
                // SAFETY: the rows and columns are there, and pointers for rows that the panel does not have are not used.
                unsafe {
                    let (mut a, apart) = match left {
                        Place::Packed(a) => {
                            tile.step = own.len();
                            (a.add(own.start * k), 1)
                        }
                        Place::AsIs => {
                            tile.step = self.a.steps.1;
                            let a = self.a.at(rows.start + own.start, terms.start);
                            (a, self.a.steps.0)
                        }
                    };
                    let row = rows.start + own.start;
                    let mut y = self.y.add(row * self.row + columns.start + first);
                    for i in 0..own.len() {
                        (tile.a[i], tile.y[i]) = (a, y);
                        a = a.wrapping_add(apart);
                        y = y.wrapping_add(self.row);
                    }
                    tile::compute(own.len(), whole, &tile);
                }
            }
        }
    }
}

/// Elements that need no packing, because they stay in the first cache.
const PLAIN: usize = 1 << 12;

/// The size of parts of nearly equal size of at most `most`.
fn even(length: usize, most: usize) -> usize {
    length.div_ceil(length.div_ceil(most).max(1)).max(1)
}
