//! Products of labelled tensors, summed over labels: what `einsum` and `tensordot` become.

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
        let (kept, gone): (Vec<usize>, Vec<usize>) =
            (0..self.labels.len()).partition(|i| kept(&self.labels[*i]));
        Labelled {
            value: match gone.is_empty() {
                true => self.value,
                false => self.value.sum(&gone),
            },
            labels: kept.iter().map(|i| self.labels[*i]).collect(),
        }
    }

    /// With its dimensions in the order of the labels, which are all it has.
    pub(in crate::ops) fn arranged(&self, labels: &[L]) -> Value<'g> {
        let place = |label: &L| {
            let place = self.labels.iter().position(|l| l == label);
            place.expect("an arrangement has the labels of the tensor")
        };
        let order: Vec<usize> = labels.iter().map(place).collect();
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
            // A product of matrices takes each of them in either order, so one of two needs no moving.
            let other = match inner_last {
                true => [&batch[..], &inner, outer].concat(),
                false => [&batch[..], outer, &inner].concat(),
            };
            let turned = t.labels == other;
            let value = match (turned, inner_last) {
                (true, _) => t.value,
                (false, true) => t.arranged(&[&batch[..], outer, &inner].concat()),
                (false, false) => t.arranged(&[&batch[..], &inner, outer].concat()),
            };
            let sizes = if turned == inner_last {
                [inners, outers]
            } else {
                [outers, inners]
            };
            (value.reshape(&[&front[..], &sizes].concat()), turned)
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

/// A tensor with 0 in place of all that stands behind counts.
///
/// The gradient of one factor is a sum over the other's dimensions. So factors are zeroed, and the product too: what would
/// flow back from behind a count is then 0.
pub(in crate::ops) fn zeroed<'g>(
    l: &Lowering<'g, '_>,
    value: Value<'g>,
    ty: &TensorType,
) -> Value<'g> {
    l.mask(value, &ty.shape.0, &value.axes(), 0.0)
}
