//! Sums by a balanced binary tree over the index of their terms, in the order of a binary counter.
//!
//! The tree of [lo, hi) splits at lo + the largest power of two below hi - lo, whatever computes its parts: several micro-batches in one
//! process give the bits of one each in several.

/// How often a partial sum is merged into the one before it, once the term of that index was added: as the bits of a counter carry.
pub(super) fn merges_after(index: usize) -> usize {
    index.trailing_ones() as usize
}

/// A stack of partial sums over 2^n terms each, the largest first.
#[derive(Debug)]
pub(super) struct TreeSum<T> {
    terms: usize,
    partial_sums: Vec<T>,
}

impl<T> Default for TreeSum<T> {
    fn default() -> TreeSum<T> {
        TreeSum {
            terms: 0,
            partial_sums: Vec::new(),
        }
    }
}

impl<T> TreeSum<T> {
    /// Adds the next term; `merge` adds its second operand to the first.
    pub(super) fn push(&mut self, term: T, merge: impl Fn(&mut T, T)) {
        self.partial_sums.push(term);
        for _ in 0..merges_after(self.terms) {
            self.merge_top(&merge);
        }
        self.terms += 1;
    }

    /// The sum and the number of its terms; `None` where there are no terms. It starts over.
    pub(super) fn finish(&mut self, merge: impl Fn(&mut T, T)) -> Option<(T, usize)> {
        while self.partial_sums.len() > 1 {
            self.merge_top(&merge);
        }
        let terms = std::mem::take(&mut self.terms);
        Some((self.partial_sums.pop()?, terms))
    }

    /// Starts over.
    pub(super) fn clear(&mut self) {
        self.terms = 0;
        self.partial_sums.clear();
    }

    fn merge_top(&mut self, merge: &impl Fn(&mut T, T)) {
        if let Some(newer) = self.partial_sums.pop()
            && let Some(older) = self.partial_sums.last_mut()
        {
            merge(older, newer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as it is defined, with its brackets.
    fn tree(lo: usize, hi: usize) -> String {
        match hi - lo {
            1 => lo.to_string(),
            n => {
                let below = (1..n).rev().find(|m| m.is_power_of_two());
                let middle = lo + below.expect("1 is one");
                format!("({} {})", tree(lo, middle), tree(middle, hi))
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_tree() {
        let mut sum = TreeSum::default();
        let merge = |a: &mut String, b: String| *a = format!("({a} {b})");
        for count in 1..=33 {
            (0..count).for_each(|i: usize| sum.push(i.to_string(), merge));
            assert_eq!(sum.finish(merge), Some((tree(0, count), count)));
        }
        assert_eq!(sum.finish(merge), None);
    }
}
