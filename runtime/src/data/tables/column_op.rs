//! Operations on columns: functions of strings, and those with a table, over the values of a feature for many records.
//!
//! In: columns, the first dimension of each being the records, and the table where there is one. Out: a column. Leaves alone: where columns
//! come from, and the padding after a run-time count, which is not looked up.

use std::borrow::Cow;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::typed::ColumnOpKind;

use crate::DataError;
use crate::data::tables::split_string::{characters, words};
use crate::data::tables::{Table, concatenated, fingerprint64};

/// The key of crossed features, as in TensorFlow, where none is given.
const CROSS_KEY: u64 = 0xDECAFCAFFE;

/// An operand of an operation on columns.
#[derive(Debug, Clone, Copy)]
pub enum ColumnArg<'a> {
    /// The values of a feature.
    Column(&'a Tensor),
    /// One string for all elements.
    Str(&'a str),
}

/// The columns that an operation gives.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnResult {
    /// The values.
    pub values: Tensor,
    /// The lengths that the operation has decided, one for each record.
    pub counts: Option<Tensor>,
}

/// An operation that fails at an element of its column.
#[derive(Debug)]
pub struct ElementError {
    /// The index of the element.
    pub element: usize,
    /// What is wrong with it.
    pub error: DataError,
}

/// Evaluates an operation on columns of `rows` records. Elements that `used` says are padding are not looked at; their result is 0, false or
/// the empty string. `capacity` is the length of the results of `bytes`, `characters` and `words`.
///
/// # Panics
///
/// Where the operands have not the types that the checker asks for, or the table is not that of the operation.
pub fn evaluate(
    kind: &ColumnOpKind,
    args: &[ColumnArg<'_>],
    table: Option<&Table>,
    rows: usize,
    capacity: usize,
    used: Option<&[bool]>,
) -> Result<ColumnResult, ElementError> {
    let column = args.iter().find_map(|arg| match arg {
        ColumnArg::Column(tensor) => Some(*tensor),
        ColumnArg::Str(_) => None,
    });
    let rows_only = [rows];
    let shape: &[usize] = column.map_or(&rows_only, Tensor::shape);
    let elements = shape.iter().product();
    let is_used = |i: usize| used.is_none_or(|used| used[i]);
    let all = (0..elements).map(|i| is_used(i).then_some(i));
    let text = |arg: usize, i: usize| string(args[arg], i);
    let key = |arg: usize, i: usize| key(args[arg], i);
    let bools = |test: &dyn Fn(usize) -> bool| {
        let values = all.clone().map(|i| i.is_some_and(test));
        Data::Bool(values.collect())
    };
    let ids = |id: &dyn Fn(usize) -> u64| {
        let values = all.clone().map(|i| i.map_or(0, id) as i64);
        Data::I64(values.collect())
    };
    let data = match kind {
        ColumnOpKind::Copy => match args[0] {
            ColumnArg::Column(tensor) => tensor.data().clone(),
            ColumnArg::Str(text) => Data::String(vec![text.as_bytes().to_vec(); rows]),
        },
        ColumnOpKind::Equal => bools(&|i| text(0, i) == text(1, i)),
        ColumnOpKind::NotEqual => bools(&|i| text(0, i) != text(1, i)),
        ColumnOpKind::IsMissing => bools(&|i| text(0, i).is_empty()),
        ColumnOpKind::Select => {
            let chosen = all.map(|i| {
                let arg = |i: usize| if bool_at(args[0], i) { 1 } else { 2 };
                i.map_or(Vec::new(), |i| text(arg(i), i).to_vec())
            });
            Data::String(chosen.collect())
        }
        ColumnOpKind::HashBucket { buckets } => ids(&|i| fingerprint64(&key(0, i)) % buckets),
        ColumnOpKind::Crossed { buckets } => ids(&|i| {
            let parts = args.iter().map(|arg| part(*arg, i));
            parts.fold(CROSS_KEY, concatenated) % buckets
        }),
        ColumnOpKind::Vocabulary(settings) => {
            let Some(Table::Vocabulary(vocabulary)) = table else {
                panic!("`{}` is a vocabulary", settings.table);
            };
            let mut found = Vec::with_capacity(elements);
            for i in all {
                let Some(i) = i else {
                    found.push(0);
                    continue;
                };
                let word = key(0, i);
                match vocabulary.id(&word) {
                    Some(id) => found.push(id as i64),
                    None => {
                        let error = unknown_word(&settings.table, &word);
                        return Err(ElementError { element: i, error });
                    }
                }
            }
            Data::I64(found)
        }
        ColumnOpKind::Standardize { table: name, .. } => {
            let (Some(Table::Moments(moments)), Some(column)) = (table, column) else {
                panic!("`{name}` is a table of moments");
            };
            let mut numbers = column.to_f64s();
            if let Some(inner) = elements.checked_div(rows).filter(|n| *n > 0) {
                let records = numbers.chunks_exact_mut(inner);
                records.for_each(|record| moments.standardize(record));
            }
            let values = Tensor::from_f64s(&column.ty(), numbers);
            return Ok(ColumnResult {
                values,
                counts: None,
            });
        }
        ColumnOpKind::Bytes => {
            let mut bytes = vec![0; rows * capacity];
            let mut counts = Vec::with_capacity(rows);
            for (i, row) in (0..rows).zip(bytes.chunks_exact_mut(capacity)) {
                let text = text(0, i);
                let n = text.len().min(capacity);
                row[..n].copy_from_slice(&text[..n]);
                counts.push(n as i64);
            }
            return Ok(split(rows, capacity, Data::U8(bytes), counts));
        }
        ColumnOpKind::Characters | ColumnOpKind::Words => {
            let mut parts = Vec::with_capacity(rows * capacity);
            let mut counts = Vec::with_capacity(rows);
            for i in 0..rows {
                match kind {
                    ColumnOpKind::Words => parts.extend(words(text(0, i)).take(capacity)),
                    _ => parts.extend(characters(text(0, i)).take(capacity)),
                }
                counts.push((parts.len() - i * capacity) as i64);
                parts.resize((i + 1) * capacity, Vec::new());
            }
            return Ok(split(rows, capacity, Data::String(parts), counts));
        }
    };
    Ok(ColumnResult {
        values: Tensor::of(shape, data),
        counts: None,
    })
}

fn split(rows: usize, capacity: usize, data: Data, counts: Vec<i64>) -> ColumnResult {
    ColumnResult {
        values: Tensor::of(&[rows, capacity], data),
        counts: Some(Tensor::new(&[rows], counts)),
    }
}

fn unknown_word(table: &str, word: &[u8]) -> DataError {
    let shown = String::from_utf8_lossy(word);
    let message = format!("the vocabulary `{table}` has no word {shown:?}");
    DataError::new(message).help("`oov: 1` gives such words an id of their own")
}

/// An element of a column of strings.
fn string(arg: ColumnArg<'_>, i: usize) -> &[u8] {
    match arg {
        ColumnArg::Str(text) => text.as_bytes(),
        ColumnArg::Column(tensor) => match tensor.data() {
            Data::String(texts) => &texts[i],
            other => panic!("a column of {} has no strings", other.dtype()),
        },
    }
}

fn bool_at(arg: ColumnArg<'_>, i: usize) -> bool {
    match arg {
        ColumnArg::Column(tensor) => tensor.values::<bool>().is_some_and(|values| values[i]),
        ColumnArg::Str(_) => false,
    }
}

/// An integer of a column; `None` for a string.
fn integer(arg: ColumnArg<'_>, i: usize) -> Option<i64> {
    let ColumnArg::Column(tensor) = arg else {
        return None;
    };
    match tensor.data() {
        Data::I8(values) => Some(values[i].into()),
        Data::I16(values) => Some(values[i].into()),
        Data::I32(values) => Some(values[i].into()),
        Data::I64(values) => Some(values[i]),
        Data::U8(values) => Some(values[i].into()),
        _ => None,
    }
}

/// What an element is looked up by: a string, or the decimal digits of an integer.
pub(super) fn key(arg: ColumnArg<'_>, i: usize) -> Cow<'_, [u8]> {
    match integer(arg, i) {
        Some(n) => Cow::Owned(n.to_string().into_bytes()),
        None => Cow::Borrowed(string(arg, i)),
    }
}

/// The part of an element in a cross: the fingerprint of a string, or an integer.
fn part(arg: ColumnArg<'_>, i: usize) -> u64 {
    match integer(arg, i) {
        Some(n) => n as u64,
        None => fingerprint64(string(arg, i)),
    }
}
