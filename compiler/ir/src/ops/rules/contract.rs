//! Tensor contraction over labelled dimensions, as a batched matrix product: the lowering of `einsum` and `tensordot`.

use crate::build::{Lowering, Value};
use crate::ops::op::RuleError;
use crate::ops::rules::shapes::elements;
use crate::types::TensorType;

/// A tensor with a label for each dimension, all different.
#[derive(Debug, Clone)]
pub(in crate::ops) struct Labelled<'g, L> {
    pub(in crate::ops) value: Value<'g>,
    pub(in crate::ops) labels: Vec<L>,
}

impl<'g, L: Copy + PartialEq> Labelled<'g, L> {
    pub(in crate::ops) fn has(&self, label: &L) -> bool {
        self.labels.contains(label)
    }

    /// Summed over all labels that are not kept.
    pub(in crate::ops) fn summed(&self, kept: impl Fn(&L) -> bool) -> Labelled<'g, L> {
        let (kept, summed): (Vec<usize>, Vec<usize>) =
            (0..self.labels.len()).partition(|i| kept(&self.labels[*i]));
        Labelled {
            value: match summed.is_empty() {
                true => self.value,
                false => self.value.sum(&summed),
            },
            labels: kept.iter().map(|i| self.labels[*i]).collect(),
        }
    }

    /// Transposed to the order of the labels, which are all it has.
    pub(in crate::ops) fn arranged(&self, labels: &[L]) -> Value<'g> {
        let axis = |label: &L| {
            let axis = self.labels.iter().position(|l| l == label);
            axis.expect("an arrangement has the labels of the tensor")
        };
        let order: Vec<usize> = labels.iter().map(axis).collect();
        self.value.transpose(&order)
    }

    fn sizes(&self, labels: &[L]) -> Vec<usize> {
        let shape = self.value.shape();
        let of = |label: &L| {
            self.labels
                .iter()
                .position(|l| l == label)
                .map(|i| shape[i])
        };
        labels.iter().filter_map(of).collect()
    }
}

/// The product of two tensors, summed over all labels that are not kept. Its labels are those of both, then those of `a`,
/// then those of `b`.
pub(in crate::ops) fn contract<'g, L: Copy + PartialEq>(
    a: &Labelled<'g, L>,
    b: &Labelled<'g, L>,
    kept: impl Fn(&L) -> bool,
) -> Result<Labelled<'g, L>, RuleError> {
    let a = a.summed(|l| kept(l) || b.has(l));
    let b = b.summed(|l| kept(l) || a.has(l));
    let (shared, left): (Vec<L>, Vec<L>) = a.labels.iter().partition(|l| b.has(l));
    let (batch, inner): (Vec<L>, Vec<L>) = shared.iter().partition(|l| kept(l));
    let right: Vec<L> = b.labels.iter().filter(|l| !a.has(l)).copied().collect();

    let [batches, rows, columns] = [a.sizes(&batch), a.sizes(&left), b.sizes(&right)];
    let shape = [&batches[..], &rows, &columns].concat();
    elements(&shape).map_err(|_| RuleError::overflow())?;
    let value = if inner.is_empty() {
        let ones = vec![1; columns.len()];
        let x = a.arranged(&[&batch[..], &left].concat());
        let x = x.reshape(&[&batches[..], &rows, &ones].concat());
        let ones = vec![1; rows.len()];
        let y = b.arranged(&[&batch[..], &right].concat());
        let y = y.reshape(&[&batches[..], &ones, &columns].concat());
        x * y
    } else {
        let inners: usize = a.sizes(&inner).iter().product();
        let (m, n) = (rows.iter().product(), columns.iter().product());
        let front: Vec<usize> = match batch.is_empty() {
            true => Vec::new(),
            false => vec![batches.iter().product()],
        };
        let matrix = |t: &Labelled<'g, L>, outer: &[L], outers: usize, inner_last: bool| {
            // A matrix product takes each operand transposed or not, so two of the layouts need no transpose.
            let other = match inner_last {
                true => [&batch[..], &inner, outer].concat(),
                false => [&batch[..], outer, &inner].concat(),
            };
            let transposed = t.labels == other;
            let value = match (transposed, inner_last) {
                (true, _) => t.value,
                (false, true) => t.arranged(&[&batch[..], outer, &inner].concat()),
                (false, false) => t.arranged(&[&batch[..], &inner, outer].concat()),
            };
            let sizes = if transposed == inner_last {
                [inners, outers]
            } else {
                [outers, inners]
            };
            (value.reshape(&[&front[..], &sizes].concat()), transposed)
        };
        let (x, transpose_x) = matrix(&a, &left, m, true);
        let (y, transpose_y) = matrix(&b, &right, n, false);
        x.matmul_with(y, transpose_x, transpose_y)
    };
    Ok(Labelled {
        value: value.reshape(&shape),
        labels: [batch, left, right].concat(),
    })
}

/// A tensor with 0 in place of all elements past the counts.
///
/// The VJP of one factor is a sum over the other's dimensions. So factors are zeroed, and the product too: cotangents of
/// elements past a count are then 0.
pub(in crate::ops) fn zero_past_counts<'g>(
    l: &Lowering<'g, '_>,
    value: Value<'g>,
    ty: &TensorType,
) -> Value<'g> {
    l.mask(value, &ty.shape.0, &value.axes(), 0.0)
}
