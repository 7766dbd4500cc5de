//! Gradient processing: loss scaling, clipping; and exponential moving averages after the update.

use trainspec_ir::autodiff::{Cotangent, IndexedSlices};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::Type;
use trainspec_ir::{DType, Span, TensorType};

use crate::diag::Diagnostic;
use crate::lower::program::{self, Values};
use crate::lower::step::{self, Gradients};
use crate::lower::{Context, GOOD_STEPS, LOSS_SCALE};
use crate::typed::{Averaged, Clip, Input, LossScale, Train, ValueId};

/// Writes state, unless the step is skipped because of non-finite gradients.
pub(super) struct Writer<'g> {
    pub(super) b: &'g Builder,
    /// Whether all gradients are finite, a bool; `None` where that is not checked.
    pub(super) finite: Option<Value<'g>>,
}

impl<'g> Writer<'g> {
    /// Assigns state.
    pub(super) fn write(&self, name: &str, new: Value<'g>) {
        let old = || self.b.read(name, &new.ty());
        let new = match self.finite {
            Some(finite) => finite.broadcast(&new.shape()).select(new, old()),
            None => new,
        };
        self.b.write(name, new);
    }

    /// Assigns some rows of state (scatter update).
    pub(super) fn write_rows(
        &self,
        name: &str,
        old: Value<'g>,
        at: &IndexedSlices<'g>,
        new: Value<'g>,
    ) {
        let count = at.count.expect("summed rows have a count");
        let count = match self.finite {
            Some(finite) => finite.select(count, self.b.int(DType::I64, 0)),
            None => count,
        };
        self.b.write(name, old.put_rows(at.indices, new, count));
    }
}

/// Maps the values of a gradient: all of a dense one, the rows of a sparse one.
fn map_values<'g>(
    gradient: Cotangent<'g>,
    f: impl FnOnce(Value<'g>) -> Value<'g>,
) -> Cotangent<'g> {
    match gradient {
        Cotangent::Dense(dense) => Cotangent::Dense(f(dense)),
        Cotangent::Sparse(rows) => Cotangent::Sparse(IndexedSlices {
            rows: f(rows.rows),
            ..rows
        }),
    }
}

/// The loss scale, a scalar; `None` where the spec scales no loss.
pub(super) fn loss_scale<'g>(cx: &Context<'_>, b: &'g Builder, train: &Train) -> Option<Value<'g>> {
    let dtype = cx.dtype(DType::F32);
    Some(match train.loss_scale? {
        LossScale::Fixed(scale) => b.scalar(dtype, scale),
        LossScale::Dynamic { .. } => b.read(LOSS_SCALE, &Type::scalar(dtype)),
    })
}

/// A gradient divided by the loss scale.
pub(super) fn unscale<'g>(gradient: Cotangent<'g>, scale: Value<'g>) -> Cotangent<'g> {
    map_values(gradient, |g| g / scale.cast(g.dtype()))
}

/// Whether all elements of all gradients are finite.
pub(super) fn all_finite<'g>(b: &'g Builder, all: &Gradients<'_, 'g>) -> Value<'g> {
    let mut finite = b.constant(trainspec_ir::Tensor::scalar(true));
    for (_, _, gradient) in all {
        let numbers = match gradient {
            Cotangent::Dense(dense) => *dense,
            Cotangent::Sparse(rows) => rows.masked().rows,
        };
        finite = finite.logical_and(numbers.is_finite().all(&numbers.axes()));
    }
    finite
}

/// Clips gradients, in the order of the clips.
pub(super) fn clip<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    train: &Train,
    rates: &Values<'g>,
    all: &mut Gradients<'_, 'g>,
) -> Result<(), Diagnostic> {
    for clip in &train.clips {
        let positions: Vec<Option<usize>> = clip
            .variables
            .iter()
            .map(|v| all.iter().position(|(_, update, _)| update.variable == *v))
            .collect();
        // The operands of the clip; a variable without a gradient has none.
        let mut operands = Vec::new();
        for position in &positions {
            operands.push(position.map(|i| {
                all[i].2 = prepared(clip, all[i].2);
                match all[i].2 {
                    Cotangent::Dense(dense) => dense,
                    Cotangent::Sparse(rows) => rows.rows,
                }
            }));
        }
        let mut inputs = |input: &Input, ty: &TensorType, span: Span| match input {
            Input::Rate(rate) => Ok(rates.get(*rate)),
            Input::ClippedGrad(i) => {
                let ty = Type::of(ty).expect("it is bound");
                Ok(operands[*i].unwrap_or_else(|| b.full(&ty, 0.0)))
            }
            _ => Err(step::unknown_input(input, span)),
        };
        let values = program::lower(cx, b, &clip.program, &mut inputs)?;
        for (position, value) in positions.iter().zip(&clip.values) {
            if let Some(i) = position {
                all[*i].2 = map_values(all[*i].2, |_| values.get(*value));
            }
        }
    }
    Ok(())
}

/// A gradient in the form that a clip takes: the rows of a sparse one, or a dense one.
fn prepared<'g>(clip: &Clip, gradient: Cotangent<'g>) -> Cotangent<'g> {
    match gradient {
        Cotangent::Sparse(rows) if clip.by_rows => Cotangent::Sparse(rows.masked()),
        gradient => Cotangent::Dense(gradient.dense()),
    }
}

/// Updates the exponential moving averages; `value` gives the averaged values of the model.
pub(super) fn average<'g>(
    cx: &Context<'_>,
    writer: &Writer<'g>,
    train: &Train,
    rates: &Values<'g>,
    value: &dyn Fn(&str, ValueId) -> Value<'g>,
) -> Result<(), Diagnostic> {
    let b = writer.b;
    for average in &train.averages {
        let now = match &average.source {
            Averaged::Variable(var) => match b.written(step::name_of(cx, *var)) {
                Some(new) => new,
                None => program::read(cx, b, *var)?,
            },
            Averaged::Value(name, id) => value(name, *id),
        };
        let mut inputs = |input: &Input, ty: &TensorType, span: Span| {
            let state = |source: &str| average.state.iter().find(|s| s.source == source);
            match input {
                Input::Rate(rate) => Ok(rates.get(*rate)),
                Input::Averaged => Ok(now),
                Input::AverageState(source) => match state(source) {
                    Some(state) => Ok(b.read(&state.name, &Type::of(ty).expect("it is bound"))),
                    None => Err(step::unknown_input(input, span)),
                },
                _ => Err(step::unknown_input(input, span)),
            }
        };
        let values = program::lower(cx, b, &average.program, &mut inputs)?;
        for (state, value) in average.state.iter().zip(&average.values) {
            writer.write(&state.name, values.get(*value));
        }
    }
    Ok(())
}

/// Dynamic loss scaling (TensorFlow's `DynamicLossScale`): divides the scale by `multiplier` after a non-finite gradient, but not
/// below 1; multiplies it after `growth_steps` finite ones in a row.
pub(super) fn next_scale<'g>(writer: &Writer<'g>, train: &Train, scale: Option<Value<'g>>) {
    let (
        Some(LossScale::Dynamic {
            growth_steps,
            multiplier,
            ..
        }),
        Some(scale),
        Some(finite),
    ) = (train.loss_scale, scale, writer.finite)
    else {
        return;
    };
    let b = writer.b;
    let zero = b.int(DType::I64, 0);
    let good = b.read(GOOD_STEPS, &Type::scalar(DType::I64)) + b.int(DType::I64, 1);
    let grows = good.greater_equal(b.int(DType::I64, growth_steps));
    let larger = scale * multiplier;
    let grown = grows.logical_and(larger.is_finite()).select(larger, scale);
    let smaller = (scale / multiplier).maximum(scale.like(1.0));
    b.write(LOSS_SCALE, finite.select(grown, smaller));
    let counted = grows.select(zero, good);
    b.write(GOOD_STEPS, finite.select(counted, zero));
}
