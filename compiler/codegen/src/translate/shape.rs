//! The dimensions that a loop really has.

use trainspec_ir::kernel::Map;

/// A loop's dimensions after neighbours were made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The dimensions of rows.
    pub outer: Vec<usize>,
    /// The dimensions that are folded, but the last.
    pub middle: Vec<usize>,
    /// The last dimension.
    pub inner: usize,
    /// How each load moves.
    pub loads: Vec<Moves>,
    /// How each store moves.
    pub stores: Vec<Moves>,
}

/// How far an access moves from one place to the next along each dimension, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moves {
    /// Along the dimensions of rows.
    pub outer: Vec<usize>,
    /// Along the folded ones.
    pub middle: Vec<usize>,
    /// Along the last.
    pub inner: usize,
}

impl Space {
    /// The space of a loop.
    pub fn of(map: &Map) -> Space {
        let rank = map.shape.len();
        let mut strides: Vec<Vec<usize>> = map.loads.iter().map(|v| v.strides.clone()).collect();
        let border = rank - map.reduced_dims;
        let (every, rows) = (row_major(&map.shape), row_major(&map.shape[..border]));
        strides.extend(map.stores.iter().map(|store| match store.row {
            true => [&rows[..], &vec![0; map.reduced_dims]].concat(),
            false => every.clone(),
        }));
        let (mut outer, mut moves) = merged(&map.shape, &strides, 0..border);
        let (mut middle, mut folded) = merged(&map.shape, &strides, border..rank);
        // The last dimension: that of what is folded, or of the rows.
        let (last, lasts) = if map.reduced_dims == 0 {
            (&mut outer, &mut moves)
        } else {
            (&mut middle, &mut folded)
        };
        let inner = last.pop();
        let inners: Vec<usize> = lasts.iter_mut().map(|m| m.pop().unwrap_or(0)).collect();
        let of = |i: usize| Moves {
            outer: moves[i].clone(),
            middle: folded[i].clone(),
            inner: inners[i],
        };
        let mut all: Vec<Moves> = (0..strides.len()).map(of).collect();
        let stores = all.split_off(map.loads.len());
        Space {
            outer,
            middle,
            inner: inner.unwrap_or(1),
            loads: all,
            stores,
        }
    }

    /// Whether the rows of the loop are single elements, of which ranges are done.
    pub fn is_flat(&self, map: &Map) -> bool {
        self.outer.is_empty() && map.reduced_dims == 0
    }

    /// How many rows there are; a loop of one dimension has one for each element.
    pub fn rows(&self, map: &Map) -> usize {
        match self.is_flat(map) {
            true => self.inner,
            false => self.outer.iter().product(),
        }
    }

    /// How many rows are one task: a rule of sizes alone, so that results do not depend on threads.
    pub fn rows_per_task(&self, map: &Map) -> usize {
        const ELEMENTS: usize = 8192;
        // Of much there are fewer and longer ones: each begins with streams that the machine does not know yet.
        const MOST: usize = 1 << 16;
        const TASKS: usize = 64;
        match self.is_flat(map) {
            true => {
                let all: usize = map.shape.iter().product();
                (all / TASKS).clamp(ELEMENTS, MOST).next_multiple_of(64)
            }
            false => {
                (ELEMENTS / (self.inner * self.middle.iter().product::<usize>()).max(1)).max(1)
            }
        }
    }
}

fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1];
    }
    strides
}

/// Some dimensions of a loop, neighbours made one where every access walks them in one go, and the moves of each access.
fn merged(
    shape: &[usize],
    strides: &[Vec<usize>],
    range: std::ops::Range<usize>,
) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut moves: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
    for i in range.filter(|i| shape[*i] != 1) {
        let together = !sizes.is_empty()
            && (0..strides.len()).all(|a| moves[a].last() == Some(&(strides[a][i] * shape[i])));
        match sizes.last_mut().filter(|_| together) {
            Some(size) => {
                *size *= shape[i];
                moves
                    .iter_mut()
                    .zip(strides)
                    .for_each(|(m, s)| *m.last_mut().expect("there is one") = s[i]);
            }
            None => {
                sizes.push(shape[i]);
                moves
                    .iter_mut()
                    .zip(strides)
                    .for_each(|(m, s)| m.push(s[i]));
            }
        }
    }
    (sizes, moves)
}
