//! Lowering of the typed spec to the graph IR: symbolic dimensions are bound to sizes, and operations become primitives.
//!
//! In: a typed spec and the sizes of its named dimensions. Out: a graph for one of its programs: the model in a mode, the
//! training step, the initial state, a stage of the data. `grad` and the gradients of losses are lowered here too, by
//! reverse-mode automatic differentiation of the graph.

mod dimensions;
mod fetch;
mod initial;
mod kind;
mod program;
mod scan;
mod state_name;
mod step;

pub use dimensions::{dimension_names, dimensions_of_data};
pub use fetch::{Component, Fetch, FetchSet, ResultName};
pub use initial::initial;
pub use kind::{Lowered, ProgramKind, program_graph};
pub use state_name::{GLOBAL_STEP, GOOD_STEPS, LOSS_SCALE, MICRO_STEP, SEED, StateName};
pub(crate) use step::lazy_errors;
pub use step::{
    accumulator_names, apply, apply_gradients, gradients, merge, micro_batch, step, trained,
};

use std::collections::BTreeMap;

use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{CountName, DType, Size, Span, TensorType};

use crate::diag::{Code, Diagnostic};
use crate::typed::{Feature, Input, Mode, Model, Program, Spec, ValueId};

/// The sizes of symbolic dimensions.
pub type Binding = BTreeMap<String, i64>;

/// The context of lowering.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The spec.
    pub spec: &'a Spec,
    /// The sizes of its symbolic dimensions.
    pub binding: &'a Binding,
    /// Whether all floats become f64, for gradient checking.
    pub widen: bool,
}

impl<'a> Context<'a> {
    /// A context without widening.
    pub fn new(spec: &'a Spec, binding: &'a Binding) -> Context<'a> {
        Context {
            spec,
            binding,
            widen: false,
        }
    }

    /// A dtype, widened where requested.
    fn dtype(&self, dtype: DType) -> DType {
        if self.widen && dtype.is_float() {
            DType::F64
        } else {
            dtype
        }
    }

    /// A symbolic size bound to a number.
    fn size(&self, size: &Size, span: Span) -> Result<i64, Diagnostic> {
        if let Some(known) = size.value() {
            return Ok(known);
        }
        let bound = size.substitute(&|name| self.binding.get(name).map(|n| Size::fixed(*n)));
        let Some(bound) = bound else {
            let message = format!("the size `{size}` cannot be computed with these dimensions");
            return Err(Diagnostic::new(Code::SizeOverflow, span, message));
        };
        bound.value().ok_or_else(|| {
            let names: Vec<String> = bound.names().iter().map(|n| format!("`{n}`")).collect();
            Diagnostic::new(
                Code::UnknownSize,
                span,
                format!("the size of {} is not known", names.join(", ")),
            )
        })
    }

    /// A type with its dimensions bound; run-time counts stay.
    fn bind(&self, ty: &TensorType, span: Span) -> Result<TensorType, Diagnostic> {
        let mut bound = ty.clone();
        bound.dtype = self.dtype(ty.dtype);
        for dim in &mut bound.shape.0 {
            let size = self.size(&dim.size, span)?;
            if size < 0 {
                let message = format!("the size `{}` becomes {size}", dim.size);
                return Err(Diagnostic::new(Code::NegativeSize, span, message));
            }
            dim.size = Size::fixed(size);
        }
        match bound.shape.fits() {
            true => Ok(bound),
            false => Err(Diagnostic::new(
                Code::SizeOverflow,
                span,
                format!("`{bound}` has more elements than a tensor may have (2^40)"),
            )),
        }
    }

    /// A bound type as a type of the graph.
    fn static_type(&self, ty: &TensorType, span: Span) -> Result<Type, Diagnostic> {
        Ok(Type::of(&self.bind(ty, span)?).expect("its dimensions are bound"))
    }
}

/// The model in one mode: its losses, metrics, outputs and `let`s are the results, by kind and name (`loss/loss`,
/// `metric/accuracy`, `output/y`, `let/h`); a result with a run-time count has another result beside it, `output/y#count`.
///
/// In training its writes of state are those of blocks; parameters stay.
pub fn model(cx: &Context<'_>, training: bool) -> Result<Graph, Diagnostic> {
    let model = the_model(cx)?;
    let mode = if training { &model.train } else { &model.eval };
    let b = Builder::new(if training { "train" } else { "eval" });
    let values = mode_values(cx, &b, model, mode)?;
    results(&b, mode, &values);
    Ok(b.finish())
}

/// A program that maps features to one value, such as a stage of a data set.
pub fn map(cx: &Context<'_>, program: &Program, value: ValueId) -> Result<Graph, Diagnostic> {
    let b = Builder::new("map");
    let mut inputs =
        |input: &Input, ty: &TensorType, _| Ok(b.counted_input(&input.to_string(), ty));
    let values = program::lower(cx, &b, program, &mut inputs)?;
    publish(&b, "value", values.get(value));
    Ok(b.finish())
}

fn the_model<'a>(cx: &Context<'a>) -> Result<&'a Model, Diagnostic> {
    let missing = || Diagnostic::without_span(Code::MissingItem, "the spec has no `model`");
    cx.spec.model.as_ref().ok_or_else(missing)
}

/// The values of the model in one mode.
fn mode_values<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    model: &Model,
    mode: &Mode,
) -> Result<program::Values<'g>, Diagnostic> {
    let mut inputs = |input: &Input, ty: &TensorType, span| {
        let name = input.to_string();
        let value = b.counted_input(&name, ty);
        Ok(bounded(
            value,
            model.inputs.iter().find(|f| f.name == name),
            span,
        ))
    };
    program::lower(cx, b, &mode.program, &mut inputs)
}

/// An input that is checked where its declaration has bounds.
fn bounded<'g>(value: Value<'g>, feature: Option<&Feature>, _span: Span) -> Value<'g> {
    match feature.and_then(|f| f.bounds.map(|bounds| (f, bounds))) {
        Some((feature, (low, high))) => {
            let checked = value.bounded(low, high, &feature.name);
            value.builder().same_counts(value, checked);
            checked
        }
        None => value,
    }
}

/// Names the results that can be fetched.
fn results(b: &Builder, mode: &Mode, values: &program::Values<'_>) {
    let publish_all = |named: &[(String, ValueId)], fetch: fn(String) -> Fetch| {
        for (name, value) in named {
            publish(b, &fetch(name.clone()).to_string(), values.get(*value));
        }
    };
    publish_all(&mode.losses, Fetch::Loss);
    publish_all(&mode.metrics, Fetch::Metric);
    publish_all(&mode.outputs, Fetch::Output);
    publish_all(&mode.lets, Fetch::Let);
}

/// Names a value, and its counts.
fn publish<'g>(b: &'g Builder, name: &str, value: Value<'g>) {
    b.result(name, value);
    let counts: Vec<Value<'g>> = b.counts_of(value).into_iter().flatten().flatten().collect();
    for (count, name) in counts.iter().zip(CountName::all(name, counts.len())) {
        b.result(&name.to_string(), *count);
    }
}
