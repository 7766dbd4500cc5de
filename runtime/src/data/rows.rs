//! Rows of columns: a column is a tensor whose first dimension is the records.

use std::ops::Range;

use trainspec_compiler::codegen::exec::vec_on_huge_pages;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};

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

pub(crate) use each_data;

/// Evaluates `body` with the values of two [`Data`] of one element type.
macro_rules! each_pair {
    ($a:expr, $b:expr, $x:ident, $y:ident => $body:expr) => {
        match ($a, $b) {
            (Data::F16($x), Data::F16($y)) => $body,
            (Data::Bf16($x), Data::Bf16($y)) => $body,
            (Data::F32($x), Data::F32($y)) => $body,
            (Data::F64($x), Data::F64($y)) => $body,
            (Data::I8($x), Data::I8($y)) => $body,
            (Data::I16($x), Data::I16($y)) => $body,
            (Data::I32($x), Data::I32($y)) => $body,
            (Data::I64($x), Data::I64($y)) => $body,
            (Data::U8($x), Data::U8($y)) => $body,
            (Data::Bool($x), Data::Bool($y)) => $body,
            (Data::String($x), Data::String($y)) => $body,
            (a, b) => panic!(
                "a feature has one element type, not {} and {}",
                a.dtype(),
                b.dtype()
            ),
        }
    };
}

const _: [DType; 11] = DType::ALL; // another element type needs a line in each

/// The number of elements of a row.
fn stride(row: &[usize]) -> usize {
    row.iter().product()
}

fn stacked(rows: usize, row: &[usize]) -> Vec<usize> {
    [&[rows], row].concat()
}

/// The rows of a column with those indices.
pub(super) fn gather(column: &Tensor, rows: &[usize]) -> Tensor {
    let row = &column.shape()[1..];
    let n = stride(row);
    let data = each_data!(column.data(), values => gathered(values, n, rows.iter().copied()));
    Tensor::of(&stacked(rows.len(), row), data)
}

fn gathered<T: Clone>(
    values: &[T],
    stride: usize,
    rows: impl ExactSizeIterator<Item = usize>,
) -> Vec<T> {
    if stride == 1 {
        return rows.map(|row| values[row].clone()).collect();
    }
    let mut all = vec_on_huge_pages(rows.len() * stride);
    for row in rows {
        all.extend_from_slice(&values[row * stride..][..stride]);
    }
    all
}

/// A column that grows row by row.
#[derive(Debug)]
pub(super) struct Column {
    row: Vec<usize>,
    rows: usize,
    data: Data,
}

impl Column {
    /// An empty column of a tensor's rows, with memory for `capacity` of them.
    pub(super) fn like(column: &Tensor, capacity: usize) -> Column {
        let row = column.shape()[1..].to_vec();
        let elements = capacity * stride(&row);
        let data = each_data!(column.data(), values => empty_like(values, elements));
        Column { row, rows: 0, data }
    }

    /// An empty column of the same rows.
    pub(super) fn empty(&self, capacity: usize) -> Column {
        let elements = capacity * stride(&self.row);
        let data = each_data!(&self.data, values => empty_like(values, elements));
        let row = self.row.clone();
        Column { row, rows: 0, data }
    }

    /// Appends a row of another column.
    pub(super) fn extend_from(&mut self, from: &Column, row: usize) {
        let n = stride(&self.row);
        self.rows += 1;
        each_pair!(&mut self.data, &from.data, to, from => to.extend_from_slice(&from[row * n..][..n]));
    }

    /// Appends the rows of a range.
    pub(super) fn extend(&mut self, from: &Tensor, range: Range<usize>) {
        let n = self.stride_of(from);
        self.rows += range.len();
        let elements = range.start * n..range.end * n;
        each_pair!(&mut self.data, from.data(), to, from => to.extend_from_slice(&from[elements]));
    }

    /// Replaces rows by the first ones of a tensor.
    pub(super) fn put(&mut self, slots: &[u32], from: &Tensor) {
        let n = self.stride_of(from);
        each_pair!(&mut self.data, from.data(), to, from => {
            for (row, slot) in slots.iter().enumerate() {
                to[*slot as usize * n..][..n].clone_from_slice(&from[row * n..][..n]);
            }
        });
    }

    fn stride_of(&self, from: &Tensor) -> usize {
        assert_eq!(from.shape()[1..], self.row, "records have one shape");
        stride(&self.row)
    }

    /// Windows of a number of rows each, stacked, from their first rows.
    pub(super) fn windows(
        &self,
        starts: impl ExactSizeIterator<Item = usize>,
        size: usize,
    ) -> Tensor {
        let n = stride(&self.row);
        let shape = [&[starts.len(), size], &self.row[..]].concat();
        let data = each_data!(&self.data, values => {
            let mut all = vec_on_huge_pages(starts.len() * size * n);
            starts.for_each(|start| all.extend_from_slice(&values[start * n..][..size * n]));
            all
        });
        Tensor::of(&shape, data)
    }

    /// Removes the first rows.
    pub(super) fn remove_first(&mut self, rows: usize) {
        let elements = rows * stride(&self.row);
        self.rows -= rows;
        let data = std::mem::replace(&mut self.data, Data::Bool(Vec::new()));
        self.data = each_data!(data, values => without_first(values, elements));
    }

    /// Reserves memory for a number of rows, and for no more.
    pub(super) fn reserve(&mut self, rows: usize) {
        let more = rows.saturating_sub(self.rows) * stride(&self.row);
        let data = std::mem::replace(&mut self.data, Data::Bool(Vec::new()));
        self.data = each_data!(data, values => with_room(values, more));
    }

    /// The rows of a range.
    pub(super) fn slice(&self, range: Range<usize>) -> Tensor {
        let n = stride(&self.row);
        let elements = range.start * n..range.end * n;
        let data = each_data!(&self.data, values => values[elements].to_vec());
        Tensor::of(&stacked(range.len(), &self.row), data)
    }

    /// The rows with those indices.
    pub(super) fn gather(&self, rows: &[u32]) -> Tensor {
        let n = stride(&self.row);
        let indices = rows.iter().map(|row| *row as usize);
        let data = each_data!(&self.data, values => gathered(values, n, indices));
        Tensor::of(&stacked(rows.len(), &self.row), data)
    }

    /// All rows.
    pub(super) fn into_tensor(self) -> Tensor {
        Tensor::of(&stacked(self.rows, &self.row), self.data)
    }
}

fn without_first<T>(mut values: Vec<T>, count: usize) -> Vec<T> {
    values.drain(..count);
    values
}

fn with_room<T>(mut values: Vec<T>, more: usize) -> Vec<T> {
    values.reserve_exact(more);
    values
}

fn empty_like<T>(_: &[T], capacity: usize) -> Vec<T> {
    vec_on_huge_pages(capacity)
}

/// Stacks tensors of one type along a new first dimension (`tf.stack`).
///
/// # Panics
///
/// When there is none, or the types differ.
pub(crate) fn stack(tensors: &[&Tensor]) -> Tensor {
    let first = tensors[0];
    let shape = stacked(tensors.len(), first.shape());
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
