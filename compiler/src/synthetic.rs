//! Synthetic inputs: seeded random feeds (Philox) for benchmarks and gradient checks.

use std::collections::BTreeMap;

use crate::codegen::exec::copy_on_huge_pages;
use crate::ir::graph::{Graph, Type};
use crate::ir::philox::Key;
use crate::ir::{CountName, DType, Tensor};
use crate::lower::SEED;
use crate::typed::{Feature, Spec};

/// Uniform numbers in (0, 1), keyed by a seed and a name.
pub(crate) fn uniform(seed: i64, name: &str, n: usize) -> Vec<f64> {
    /// Philox blocks per call.
    const BLOCKS: usize = 8;
    let key = Key::new(seed, name);
    let mut numbers = Vec::with_capacity(n.next_multiple_of(BLOCKS));
    for first in (0..n).step_by(BLOCKS) {
        let [words, ..] = key.blocks::<BLOCKS>(first as u64);
        numbers.extend(words.map(|word| (word as f64 + 0.5) / 4294967296.0));
    }
    numbers.truncate(n);
    numbers
}

/// The most bytes that a synthetic value of that type takes while it is made: uniform numbers in f64, a tensor, and its copy on huge
/// pages, which stays.
pub fn peak_bytes(ty: &Type) -> u64 {
    let uniform = ty.with_dtype(DType::F64).bytes();
    uniform.saturating_add(ty.bytes().saturating_mul(2))
}

/// Synthetic values for all inputs of the graph.
pub fn inputs(spec: &Spec, graph: &Graph, seed: i64) -> BTreeMap<String, Tensor> {
    let features: Vec<&Feature> = spec.model.iter().flat_map(|m| &m.inputs).collect();
    let mut inputs = BTreeMap::new();
    for (name, value) in graph.inputs() {
        let ty = graph.ty(value);
        let tensor = if name == SEED {
            Tensor::scalar(seed)
        } else if let Some(CountName { of: input, .. }) = CountName::parse(name) {
            // Half of the capacity, so that there is padding.
            let capacity = graph
                .inputs()
                .find(|(n, _)| *n == input)
                .map_or(1, |(_, v)| graph.ty(v).shape.first().copied().unwrap_or(1));
            Tensor::scalar(capacity.div_ceil(2) as i64)
        } else {
            let feature = features.iter().find(|f| f.name == name);
            copy_on_huge_pages(&synthetic(
                ty,
                feature.and_then(|f| f.bounds),
                &uniform(seed, &format!("input/{name}"), ty.elements()),
            ))
        };
        inputs.insert(name.to_owned(), tensor);
    }
    inputs
}

/// Floats between 0 and 1; integers within their bounds, or 0 and 1; bools.
fn synthetic(ty: &Type, bounds: Option<(i64, i64)>, uniform: &[f64]) -> Tensor {
    let (low, high) = bounds.unwrap_or((0, 2));
    match ty.dtype.is_float() {
        true => Tensor::from_f64s(ty, uniform.iter().copied()),
        false => Tensor::from_i64s(
            ty,
            uniform
                .iter()
                .map(|u| low + (u * (high - low) as f64) as i64),
        ),
    }
}
