//! Gradients, dense or sparse (`IndexedSlices`): as results of a graph, as the reference data has them, and how both compare.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trainspec_ir::Tensor;
use trainspec_ir::autodiff::Cotangent;
use trainspec_ir::build::Builder;

use crate::oracle::compare::{Tolerance, same};
use crate::oracle::fields::{Fields, shortened};
use crate::oracle::report::Findings;
use crate::oracle::tensors::{sizes, tensor};

/// A sparse gradient, as TensorFlow's `IndexedSlices`, and its dense form.
#[derive(Debug, Clone)]
pub struct IndexedSlices {
    /// The row indices, a vector.
    pub indices: Tensor,
    /// A row for each index.
    pub rows: Tensor,
    /// The dense form; rows of a repeated index are summed.
    pub dense: Tensor,
}

/// A gradient.
#[derive(Debug, Clone)]
pub enum Gradient {
    /// A value for each element.
    Dense(Tensor),
    /// Zero but for some rows.
    Sparse(IndexedSlices),
}

/// A gradient as a case has it: a tensor, or rows with their indices.
pub fn read(json: &Json) -> Result<Gradient, String> {
    let fields = Fields::of(json)?;
    let Some(indices) = fields.get("indices") else {
        return tensor(json).map(Gradient::Dense);
    };
    let rows = IndexedSlices {
        indices: tensor(indices)?,
        rows: tensor(fields.need("values")?)?,
        dense: tensor(fields.need("dense")?)?,
    };
    let shape = sizes(fields.need("dense_shape")?)?;
    fields.done("a field of a sparse gradient")?;
    match shape == rows.dense.shape() {
        true => Ok(Gradient::Sparse(rows)),
        false => Err(format!(
            "`dense_shape` {shape:?} of {}",
            shortened(&json["dense"])
        )),
    }
}

/// Makes gradients results of a graph.
pub fn publish(b: &Builder, gradients: &[Option<Cotangent<'_>>]) {
    for (i, gradient) in gradients.iter().enumerate() {
        let Some(gradient) = gradient else { continue };
        b.result(&format!("dense {i}"), gradient.dense());
        if let Cotangent::Sparse(rows) = gradient {
            b.result(&format!("indices {i}"), rows.indices);
            b.result(&format!("rows {i}"), rows.rows);
            if let Some(count) = rows.count {
                b.result(&format!("count {i}"), count);
            }
        }
    }
}

/// The gradient of input `i` among the results of a run.
pub fn find(results: &BTreeMap<String, Tensor>, i: usize) -> Option<Gradient> {
    let dense = results.get(&format!("dense {i}"))?.clone();
    Some(match results.get(&format!("indices {i}")) {
        Some(indices) => {
            let rows = &results[&format!("rows {i}")];
            let count = results.get(&format!("count {i}"));
            let count = count.map_or(rows.shape()[0], |c| c.to_i64s()[0] as usize);
            Gradient::Sparse(IndexedSlices {
                indices: first(indices, count),
                rows: first(rows, count),
                dense,
            })
        }
        None => Gradient::Dense(dense),
    })
}

/// The first rows of a tensor.
fn first(tensor: &Tensor, rows: usize) -> Tensor {
    let mut ty = tensor.ty();
    ty.shape[0] = rows;
    let n = ty.elements();
    match ty.dtype.is_float() {
        true => Tensor::from_f64s(&ty, tensor.to_f64s().into_iter().take(n)),
        false => Tensor::from_i64s(&ty, tensor.to_i64s().into_iter().take(n)),
    }
}

/// Adds to the findings how a gradient differs from the expected one.
pub fn compare(
    findings: &mut Findings,
    what: &str,
    expected: &Option<Gradient>,
    found: &Option<Gradient>,
    tolerance: Tolerance,
) {
    match same_gradient(expected, found, tolerance) {
        Ok(true) => {}
        Ok(false) => {
            let note = format!("{what}: the same rows in another list");
            findings.notes.push(note);
        }
        Err(wrong) => findings.wrong.push(format!("{what} {wrong}")),
    }
}

/// Says how two gradients differ.
///
/// A sparse gradient must stay sparse. Its dense form and its set of indices must be the same; `Ok` says whether the list of indices and
/// rows is the same too, or another one of the same sum (repeated indices summed or not, in another order).
fn same_gradient(
    expected: &Option<Gradient>,
    found: &Option<Gradient>,
    tolerance: Tolerance,
) -> Result<bool, String> {
    match (expected, found) {
        (None, None) => Ok(true),
        (None, Some(_)) => Err("is there, expected none".to_owned()),
        (Some(_), None) => Err("is none, expected one".to_owned()),
        (Some(Gradient::Dense(e)), Some(Gradient::Dense(f))) => {
            same(e, f, tolerance).map(|()| true)
        }
        (Some(Gradient::Dense(e)), Some(Gradient::Sparse(f))) => {
            same(e, &f.dense, tolerance)?;
            Err("is sparse, expected dense".to_owned())
        }
        (Some(Gradient::Sparse(e)), Some(Gradient::Dense(f))) => {
            same(&e.dense, f, tolerance)?;
            Err("is dense (of the right sum), expected sparse".to_owned())
        }
        (Some(Gradient::Sparse(e)), Some(Gradient::Sparse(f))) => same_rows(e, f, tolerance),
    }
}

fn same_rows(
    expected: &IndexedSlices,
    found: &IndexedSlices,
    tolerance: Tolerance,
) -> Result<bool, String> {
    same(&expected.dense, &found.dense, tolerance).map_err(|e| format!("in dense form {e}"))?;
    let (e, f) = (expected.indices.to_i64s(), found.indices.to_i64s());
    if e == f {
        same(&expected.rows, &found.rows, tolerance).map_err(|e| format!("by rows {e}"))?;
        return Ok(true);
    }
    let (e, f) = (summed(&e, &expected.rows), summed(&f, &found.rows));
    if !e.keys().eq(f.keys()) {
        let positions = |sums: &BTreeMap<i64, Vec<f64>>| sums.keys().copied().collect::<Vec<_>>();
        let (e, f) = (positions(&e), positions(&f));
        return Err(format!("has the rows {f:?}, expected {e:?}"));
    }
    for ((position, e), f) in e.iter().zip(f.values()) {
        let both = [e, f].map(|row| Tensor::new(&[row.len()], row.clone()));
        same(&both[0], &both[1], tolerance)
            .map_err(|wrong| format!("by row {position} {wrong}"))?;
    }
    Ok(false)
}

/// The sum of the rows of each index.
fn summed(indices: &[i64], rows: &Tensor) -> BTreeMap<i64, Vec<f64>> {
    let values = rows.to_f64s();
    let width = values.len().checked_div(indices.len()).unwrap_or(0);
    let mut sums: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (i, index) in indices.iter().enumerate() {
        let sum = sums.entry(*index).or_insert_with(|| vec![0.0; width]);
        let row = &values[i * width..(i + 1) * width];
        sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
    }
    sums
}
