//! The dimensions that a loop really has.

use trainspec_ir::kernel::Map;

/// A loop's dimensions after neighbours were made one, and how far each access moves along them, in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The dimensions but the last.
    pub outer: Vec<usize>,
    /// The last dimension.
    pub inner: usize,
    /// For each load: its strides along the outer dimensions and along the inner one.
    pub loads: Vec<(Vec<usize>, usize)>,
    /// The same for each store.
    pub stores: Vec<(Vec<usize>, usize)>,
}

impl Space {
    /// The space of a loop.
    pub fn of(map: &Map) -> Space {
        let mut strides: Vec<Vec<usize>> = map.loads.iter().map(|v| v.strides.clone()).collect();
        let mut row = vec![1; map.shape.len()];
        for i in (0..map.shape.len().saturating_sub(1)).rev() {
            row[i] = row[i + 1] * map.shape[i + 1];
        }
        strides.extend(map.stores.iter().map(|_| row.clone()));
        let mut shape: Vec<usize> = Vec::new();
        let mut moves: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
        for (i, size) in map.shape.iter().enumerate() {
            if *size == 1 {
                continue;
            }
            let together = !shape.is_empty()
                && (0..strides.len()).all(|a| moves[a].last() == Some(&(strides[a][i] * size)));
            if together {
                *shape.last_mut().expect("there is one") *= size;
                moves
                    .iter_mut()
                    .zip(&strides)
                    .for_each(|(m, s)| *m.last_mut().expect("there is one") = s[i]);
            } else {
                shape.push(*size);
                moves
                    .iter_mut()
                    .zip(&strides)
                    .for_each(|(m, s)| m.push(s[i]));
            }
        }
        let inner = shape.pop().unwrap_or(1);
        let split = |mut m: Vec<usize>| {
            let last = if m.len() > shape.len() { m.pop() } else { None };
            (m, last.unwrap_or(0))
        };
        let mut all: Vec<(Vec<usize>, usize)> = moves.into_iter().map(split).collect();
        let stores = all.split_off(map.loads.len());
        Space {
            outer: shape,
            inner,
            loads: all,
            stores,
        }
    }

    /// How many rows there are; a loop of one dimension has one for each element.
    pub fn rows(&self) -> usize {
        match self.outer.is_empty() {
            true => self.inner,
            false => self.outer.iter().product(),
        }
    }

    /// How many rows are one task: a rule of sizes alone, so that results do not depend on threads.
    pub fn rows_per_task(&self) -> usize {
        const ELEMENTS: usize = 8192;
        match self.outer.is_empty() {
            true => ELEMENTS,
            false => (ELEMENTS / self.inner.max(1)).max(1),
        }
    }
}
