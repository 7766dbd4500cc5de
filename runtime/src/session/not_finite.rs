//! The explanation of a failed check for finite values: the step is interpreted again up to the checked value.
//!
//! In: the error, and the batch that it came with; the state is that of before the step. Out: the error with the first value that is not
//! finite. Leaves alone: errors of other kinds, and graphs that the interpreter has no memory for.

use std::collections::BTreeMap;

use trainspec_compiler::ir::graph::Graph;
use trainspec_compiler::ir::interp::{FirstNotFinite, FlawSource, FlawedRows};
use trainspec_compiler::ir::{DType, Tensor, interp};
use trainspec_compiler::lower::SEED;
use trainspec_compiler::{Fetch, ProgramKind};

use crate::error::Origin;
use crate::program::FeedDict;
use crate::session::Session;
use crate::{Cause, Error, memory};

impl Session {
    /// Adds to the error of a failed check where the value comes from; other errors stay as they are.
    pub(super) fn explain(
        &mut self,
        mut error: Error,
        kind: ProgramKind,
        batch: &dyn FeedDict,
        micro_batch: usize,
    ) -> Error {
        if let Cause::NotFinite { name, origin, .. } = &mut error.cause {
            let found = self.first_not_finite(name, kind, batch);
            *origin = found.map(|(first, row)| {
                Box::new(Origin {
                    first,
                    micro_batch,
                    row,
                    record: None,
                })
            });
        }
        error
    }

    /// The first value that is not finite on the way to a checked one, and the row of the batch that causes it; `None` where the
    /// interpreter does not find it.
    fn first_not_finite(
        &mut self,
        name: &str,
        kind: ProgramKind,
        batch: &dyn FeedDict,
    ) -> Option<(FirstNotFinite, Option<usize>)> {
        let model = self.spec.model.as_ref()?;
        let sizes = self.step_binding.bind(model, batch).ok()?;
        let graph = self.steps.lower(kind, sizes).ok()?;
        let check = Fetch::Check(name.to_owned()).to_string();
        let graph = interp::checked_part(graph, &check)?;
        memory::ensure("the explanation", memory::interpreted_buffers(&graph)).ok()?;
        let mut inputs: BTreeMap<String, Tensor> = BTreeMap::new();
        for (name, _) in graph.inputs() {
            let value = match name {
                SEED => self.seed.clone(),
                name => batch.feed(name)?.to_tensor(),
            };
            inputs.insert(name.to_owned(), value);
        }
        let state = graph.state.iter();
        let state = state.map(|variable| self.state.get(&variable.name).cloned());
        let state: Vec<Tensor> = state.collect::<Option<Vec<_>>>()?;
        let first = interp::first_not_finite(&graph, &inputs, &state).ok()??;
        let row = causing_row(&graph, inputs, &state, &first);
        Some((first, row))
    }
}

/// The row of the batch that causes a value: that of an input, or the first of a few whose replacement by another makes the checked value
/// finite.
fn causing_row(
    graph: &Graph,
    mut inputs: BTreeMap<String, Tensor>,
    state: &[Tensor],
    first: &FirstNotFinite,
) -> Option<usize> {
    match &first.source {
        FlawSource::Input(_) => return first.flaw.element.first().copied(),
        FlawSource::State(_) | FlawSource::Constant => return None,
        FlawSource::Operation(_) => {}
    }
    let rows = first.flaw.rows.as_ref()?;
    if 2 * rows.flawed.len() >= rows.size {
        return None;
    }
    let in_rows = |input: &&mut Tensor| input.shape().first() == Some(&rows.size);
    for input in inputs.values_mut().filter(in_rows) {
        *input = with_finite_row(input, rows);
    }
    match interp::first_not_finite(graph, &inputs, state) {
        Ok(None) => rows.flawed.first().copied(),
        Ok(Some(_)) | Err(_) => None,
    }
}

/// A tensor with its finite row in the place of those that are flawed.
fn with_finite_row(tensor: &Tensor, rows: &FlawedRows) -> Tensor {
    let ty = tensor.ty();
    match tensor.dtype() {
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => {
            Tensor::from_f64s(&ty, replaced(tensor.to_f64s(), rows))
        }
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => {
            Tensor::from_i64s(&ty, replaced(tensor.to_i64s(), rows))
        }
        DType::Bool => Tensor::new(&ty.shape, replaced(tensor.to_bools(), rows)),
        DType::String => tensor.clone(),
    }
}

fn replaced<T: Copy>(mut elements: Vec<T>, rows: &FlawedRows) -> Vec<T> {
    let size = elements.len() / rows.size;
    let finite = rows.finite * size..(rows.finite + 1) * size;
    for row in &rows.flawed {
        elements.copy_within(finite.clone(), row * size);
    }
    elements
}
