//! The iteration space of a fused loop: dimension collapsing, strides and task size.

use trainspec_ir::kernel::Map;

/// The iteration space of a loop after adjacent dimensions were collapsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The outer dimensions: those of rows.
    pub outer: Vec<usize>,
    /// The reduced dimensions except the last.
    pub middle: Vec<usize>,
    /// The innermost dimension.
    pub inner: usize,
    /// The strides of each load.
    pub loads: Vec<Strides>,
    /// The strides of each store.
    pub stores: Vec<Strides>,
}

/// The strides of an access along each dimension, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Strides {
    /// Along the outer dimensions.
    pub outer: Vec<usize>,
    /// Along the reduced dimensions except the last.
    pub middle: Vec<usize>,
    /// Along the innermost dimension.
    pub inner: usize,
}

impl Space {
    /// The iteration space of a loop.
    pub fn of(map: &Map) -> Space {
        let rank = map.shape.len();
        let mut strides: Vec<Vec<usize>> = map.loads.iter().map(|v| v.strides.clone()).collect();
        let border = rank - map.reduced_dims;
        let (every, rows) = (row_major(&map.shape), row_major(&map.shape[..border]));
        strides.extend(map.stores.iter().map(|store| match store.row {
            true => [&rows[..], &vec![0; map.reduced_dims]].concat(),
            false => every.clone(),
        }));
        let (mut outer, mut outer_strides) = collapsed(&map.shape, &strides, 0..border);
        let (mut middle, mut reduced_strides) = collapsed(&map.shape, &strides, border..rank);
        // The innermost dimension: the last reduced one, or the last of the rows.
        let (last, lasts) = if map.reduced_dims == 0 {
            (&mut outer, &mut outer_strides)
        } else {
            (&mut middle, &mut reduced_strides)
        };
        let inner = last.pop();
        let inners: Vec<usize> = lasts.iter_mut().map(|m| m.pop().unwrap_or(0)).collect();
        let of = |i: usize| Strides {
            outer: outer_strides[i].clone(),
            middle: reduced_strides[i].clone(),
            inner: inners[i],
        };
        let mut all: Vec<Strides> = (0..strides.len()).map(of).collect();
        let stores = all.split_off(map.loads.len());
        Space {
            outer,
            middle,
            inner: inner.unwrap_or(1),
            loads: all,
            stores,
        }
    }

    /// Whether the loop has one dimension and no reduction: its rows are single elements.
    pub fn is_flat(&self, map: &Map) -> bool {
        self.outer.is_empty() && map.reduced_dims == 0
    }

    /// The number of rows; a flat loop has one for each element.
    pub fn rows(&self, map: &Map) -> usize {
        match self.is_flat(map) {
            true => self.inner,
            false => self.outer.iter().product(),
        }
    }

    /// The number of rows of a task. Depends on sizes alone, so that results do not depend on the number of threads.
    pub fn rows_per_task(&self, map: &Map) -> usize {
        const MIN_TASK_ELEMENTS: usize = 8192;
        // Large loops have longer tasks: the hardware prefetcher has to detect the streams of each task.
        const MAX_TASK_ELEMENTS: usize = 1 << 16;
        const TARGET_TASKS: usize = 64;
        match self.is_flat(map) {
            true => {
                let all: usize = map.shape.iter().product();
                (all / TARGET_TASKS)
                    .clamp(MIN_TASK_ELEMENTS, MAX_TASK_ELEMENTS)
                    .next_multiple_of(64)
            }
            false => (MIN_TASK_ELEMENTS
                / (self.inner * self.middle.iter().product::<usize>()).max(1))
            .max(1),
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

/// Dimensions `range` of a loop, adjacent ones collapsed where they are contiguous in every access, and the strides of each access.
fn collapsed(
    shape: &[usize],
    strides: &[Vec<usize>],
    range: std::ops::Range<usize>,
) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut collapsed: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
    for i in range.filter(|i| shape[*i] != 1) {
        let contiguous = !sizes.is_empty()
            && (0..strides.len()).all(|a| collapsed[a].last() == Some(&(strides[a][i] * shape[i])));
        match sizes.last_mut().filter(|_| contiguous) {
            Some(size) => {
                *size *= shape[i];
                collapsed
                    .iter_mut()
                    .zip(strides)
                    .for_each(|(m, s)| *m.last_mut().expect("there is one") = s[i]);
            }
            None => {
                sizes.push(shape[i]);
                collapsed
                    .iter_mut()
                    .zip(strides)
                    .for_each(|(m, s)| m.push(s[i]));
            }
        }
    }
    (sizes, collapsed)
}
