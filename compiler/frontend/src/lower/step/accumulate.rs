//! Gradient accumulation: the gradients of the micro-batches of a step, summed by a balanced binary tree over their index.
//!
//! The tree of [lo, hi) splits at lo + the largest power of two below hi - lo. Its sums are those of a binary counter: a stack of partial
//! sums, where micro-batch i is merged as often as the lowest bits of i are 1, and the rest with the last micro-batch. Positions in the
//! stack are names of state, 0 for the top; whoever runs the programs moves the tensors from name to name.

use trainspec_ir::DType;
use trainspec_ir::autodiff::Cotangent;
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};

use crate::diag::Diagnostic;
use crate::lower::step::{self, Gradients};
use crate::lower::{Context, MICRO_STEP, StateName};
use crate::typed::Train;

/// The names of the partial sums of a variable's gradient, the top of the stack first: as many as there may be at once.
pub fn accumulator_names(train: &Train, variable: &str) -> Vec<String> {
    let depth = match train.accumulate {
        ..=1 => 0,
        count => count.ilog2() as usize,
    };
    let name = |position| StateName::Accumulator { variable, position }.to_string();
    (0..depth).map(name).collect()
}

/// The number of micro-batches of this step before this one, an i64.
pub(super) fn micro_step(b: &Builder) -> Value<'_> {
    b.read(MICRO_STEP, &Type::scalar(DType::I64))
}

/// Any micro-batch but the last: an even one begins a partial sum, which is the top of the stack; an odd one is added to it.
pub(super) fn add<'g>(cx: &Context<'_>, b: &'g Builder, train: &Train, all: &Gradients<'_, 'g>) {
    let half = micro_step(b).cast(DType::F64) * 0.5;
    let is_odd = half.floor().not_equal(half);
    for (_, update, gradient) in all {
        let name = accumulator_names(train, step::name_of(cx, update.variable)).swap_remove(0);
        let current = gradient.dense();
        let sum = b.read(&name, &current.ty()) + current;
        let is_odd = is_odd.broadcast(&current.shape());
        b.write(&name, is_odd.select(sum, current));
    }
    b.write(MICRO_STEP, micro_step(b) + b.int(DType::I64, 1));
}

/// The last micro-batch: its gradients become the means over all.
pub(super) fn mean<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    train: &Train,
    all: &mut Gradients<'_, 'g>,
) {
    let partial_sums = (train.accumulate - 1).count_ones() as usize;
    for (_, update, gradient) in all {
        let names = accumulator_names(train, step::name_of(cx, update.variable));
        let mut sum = gradient.dense();
        for name in &names[..partial_sums] {
            sum = b.read(name, &sum.ty()) + sum;
        }
        *gradient = Cotangent::Dense(sum / train.accumulate as f64);
    }
    b.write(MICRO_STEP, b.int(DType::I64, 0));
}

/// Merges the two partial sums at the top of the stack, into the lower one; `None` where there is never more than one.
pub fn merge(cx: &Context<'_>) -> Result<Option<Graph>, Diagnostic> {
    let train = step::the_train(cx)?;
    let b = Builder::new("merge");
    for update in train.groups.iter().flat_map(|g| &g.updates) {
        let variable = &cx.spec.variables[update.variable.0 as usize];
        let names = accumulator_names(train, &variable.name);
        let [newer, older, ..] = names.as_slice() else {
            return Ok(None);
        };
        let ty = cx.static_type(&variable.ty, variable.span)?;
        b.write(older, b.read(older, &ty) + b.read(newer, &ty));
    }
    Ok(Some(b.finish()))
}
