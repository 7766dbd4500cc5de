//! `batch`: consecutive records stacked along a new first dimension (`Dataset.batch`, `padded_batch`).

use std::collections::BTreeMap;

use trainspec_compiler::codegen::exec::vec_on_huge_pages;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Span, Tensor};
use trainspec_compiler::typed::{self, CountedFeature, Remainder};

use crate::data::{Element, Position, Records, Stage, count_names};
use crate::memory::Growth;
use crate::{DataError, Error};

/// Consecutive records as batches.
pub(super) struct Batch {
    inner: Box<dyn Stage>,
    settings: typed::Batch,
    remainder: Remainder,
    size: usize,
    span: Span,
}

impl Batch {
    pub(super) fn new(
        inner: Box<dyn Stage>,
        settings: typed::Batch,
        remainder: Remainder,
        span: Span,
    ) -> Batch {
        Batch {
            inner,
            size: usize::try_from(settings.size).unwrap_or(usize::MAX),
            settings,
            remainder,
            span,
        }
    }

    fn join(&self, mut rows: Vec<Element>) -> Result<Element, Error> {
        let mut values = BTreeMap::new();
        for CountedFeature { name, axes } in &self.settings.counted {
            let counts = count_names(name, axes.len());
            if self.settings.pad {
                rows.iter_mut()
                    .for_each(|row| pad(row, name, axes, &counts));
                continue;
            }
            for count in &counts {
                let first = rows[0].values.get(count);
                if let Some(other) = rows.iter().find(|row| row.values.get(count) != first) {
                    let lengths = [&rows[0], other].map(|row| length(row, count));
                    let message = format!(
                        "records of one batch have `{name}` of different lengths: {} and {}",
                        lengths[0], lengths[1]
                    );
                    let error = DataError::new(message)
                        .at(self.span)
                        .help("`pad: true` fills them up to the capacity");
                    return Err(error.into());
                }
                values.extend(rows[0].values.remove(count).map(|v| (count.clone(), v)));
            }
        }
        let names: Vec<String> = rows[0].values.keys().cloned().collect();
        for name in names {
            let column: Vec<&Tensor> = rows.iter().map(|row| &row.values[&name]).collect();
            values.insert(name, stack(&column));
        }
        Ok(Element {
            values,
            rows: Some(rows.len()),
            pass: rows.iter().map(|row| row.pass).min().unwrap_or(0),
            row_locations: rows.iter().map_while(|row| row.location.clone()).collect(),
            location: rows.swap_remove(0).location,
        })
    }
}

impl Stage for Batch {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        let mut rows = Vec::new();
        // The records, and the tensors that they are stacked into.
        let mut growth = Growth::new("a batch", 1, "make the batch smaller");
        while rows.len() < self.size {
            match self.inner.next()? {
                Some(row) => {
                    growth.add(&row)?;
                    rows.push(row);
                }
                None => break,
            }
        }
        match (rows.len(), self.remainder) {
            (0, _) => Ok(None),
            (n, Remainder::Drop) if n < self.size => Ok(None),
            (n, Remainder::Error) if n < self.size => {
                let message = format!("the last batch has {n} records, and not {}", self.size);
                let error = DataError::new(message)
                    .at(self.span)
                    .help("`remainder: drop` leaves it out, `remainder: keep` takes it as it is");
                Err(error.into())
            }
            (_, Remainder::Drop | Remainder::Keep | Remainder::Error) => self.join(rows).map(Some),
        }
    }

    fn restart(&mut self) {
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.inner.seek(at)
    }
}

fn length(row: &Element, count: &str) -> i64 {
    row.values.get(count).map_or(0, |n| n.to_i64s()[0])
}

/// Pads a feature: zeros past its counts, which are removed.
fn pad(row: &mut Element, name: &str, axes: &[usize], counts: &[String]) {
    let used: Vec<i64> = counts.iter().map(|c| length(row, c)).collect();
    counts.iter().for_each(|c| drop(row.values.remove(c)));
    let Some(tensor) = row.values.get_mut(name) else {
        return;
    };
    let shape = tensor.shape().to_vec();
    let inside = |element: usize| {
        axes.iter().zip(&used).all(|(axis, used)| {
            let stride: usize = shape[axis + 1..].iter().product();
            ((element / stride) % shape[*axis]) < *used as usize
        })
    };
    *tensor = mask(tensor, &inside);
}

/// Evaluates `body` with the values of a [`Data`] of any element type, into a `Data` of that type.
macro_rules! each_data {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            Data::F16($values) => Data::F16($body),
            Data::Bf16($values) => Data::Bf16($body),
            Data::F32($values) => Data::F32($body),
            Data::F64($values) => Data::F64($body),
            Data::I8($values) => Data::I8($body),
            Data::I16($values) => Data::I16($body),
            Data::I32($values) => Data::I32($body),
            Data::I64($values) => Data::I64($body),
            Data::U8($values) => Data::U8($body),
            Data::Bool($values) => Data::Bool($body),
            Data::String($values) => Data::String($body),
        }
    };
}

/// The elements at `inside` positions, and zeros elsewhere.
fn mask(tensor: &Tensor, inside: &dyn Fn(usize) -> bool) -> Tensor {
    let data = each_data!(tensor.data(), values => {
        let masked = |(i, x): (usize, &_)| if inside(i) { Clone::clone(x) } else { Default::default() };
        values.iter().enumerate().map(masked).collect()
    });
    Tensor::of(tensor.shape(), data)
}

/// Stacks tensors of one type along a new first dimension (`tf.stack`).
///
/// # Panics
///
/// When there is none, or the types differ.
pub(super) fn stack(tensors: &[&Tensor]) -> Tensor {
    let first = tensors[0];
    let shape: Vec<usize> = [tensors.len()]
        .iter()
        .chain(first.shape())
        .copied()
        .collect();
    let data = each_data!(first.data(), values => {
        let mut all = vec_on_huge_pages(values.len() * tensors.len());
        for tensor in tensors {
            assert_eq!(tensor.shape(), first.shape(), "records have one shape");
            let own = tensor.values().expect("records have one element type");
            assert_same_type(values, own);
            all.extend_from_slice(own);
        }
        all
    });
    Tensor::of(&shape, data)
}

/// Unifies the element types of two slices.
fn assert_same_type<T>(_: &[T], _: &[T]) {}

const _: [DType; 11] = DType::ALL; // another element type needs a line in `each_data`
