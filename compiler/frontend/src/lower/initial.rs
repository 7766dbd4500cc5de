//! The initial state: initializers of variables, slots, scalars and averages.

use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Span, TensorType};

use crate::diag::{Code, Diagnostic};
use crate::lower::program::{self, Values};
use crate::lower::{
    Context, GLOBAL_STEP, GOOD_STEPS, LOSS_SCALE, MICRO_STEP, SEED, accumulator_names,
};
use crate::typed::{Averaged, Input, LossScale, Program, Train, ValueId};

/// A graph whose results are the initial values of all state, by name: variables, slots, scalars of optimizers, averages and
/// `global_step`.
///
/// Random numbers are keyed by the seed and the site alone, so a spec and a seed give the same values everywhere.
pub fn initial(cx: &Context<'_>) -> Result<Graph, Diagnostic> {
    let b = Builder::new("initial");
    b.randomness(b.input(SEED, &Type::scalar(DType::I64)), &[]);
    for variable in &cx.spec.variables {
        let value = one(cx, &b, &variable.init.program, variable.init.value)?;
        b.result(&variable.name, value);
    }
    // `step` is that of the first step.
    b.define_read(GLOBAL_STEP, b.int(DType::I64, 0));
    let mut none = |input: &Input, _: &TensorType, span| Err(unknown(input, span));
    let rates = match &cx.spec.train {
        Some(train) => program::lower(cx, &b, &train.rates, &mut none)?,
        None => Values::default(),
    };
    for group in cx.spec.train.iter().flat_map(|t| &t.groups) {
        for update in &group.updates {
            let variable = &cx.spec.variables[update.variable.0 as usize].name;
            for slot in &update.slots {
                let value = one(cx, &b, &slot.init.program, slot.init.value)?;
                b.result(&slot.state_name(variable), value);
            }
        }
        for scalar in &group.scalars {
            let known: Vec<(String, Value<'_>)> = group
                .scalars
                .iter()
                .map_while(|s| {
                    let first = if s.name == scalar.name {
                        None
                    } else {
                        b.find_result(&s.name)
                    };
                    first.map(|value| (s.source.clone(), value))
                })
                .collect();
            b.result(&scalar.name, start(cx, &b, scalar, &known, &rates)?);
        }
    }
    if let Some(train) = &cx.spec.train {
        of_training(cx, &b, train)?;
    }
    b.result(GLOBAL_STEP, b.int(DType::I64, 0));
    Ok(b.finish())
}

/// The state of training besides slots and scalars.
fn of_training(cx: &Context<'_>, b: &Builder, train: &Train) -> Result<(), Diagnostic> {
    for average in &train.averages {
        for state in &average.state {
            let initial = match &average.source {
                Averaged::Variable(var) => b.find_result(&cx.spec.variables[var.0 as usize].name),
                Averaged::Value(..) => None,
            };
            let zeros = || Ok(b.full(&cx.static_type(&state.ty, average.span)?, 0.0));
            b.result(&state.name, initial.map_or_else(zeros, Ok)?);
        }
    }
    if train.accumulate > 1 {
        for update in train.groups.iter().flat_map(|g| &g.updates) {
            let variable = &cx.spec.variables[update.variable.0 as usize];
            let ty = cx.static_type(&variable.ty, variable.span)?;
            for name in accumulator_names(train, &variable.name) {
                b.result(&name, b.full(&ty, 0.0));
            }
        }
        b.result(MICRO_STEP, b.int(DType::I64, 0));
    }
    if let Some(LossScale::Dynamic { initial, .. }) = train.loss_scale {
        b.result(LOSS_SCALE, b.scalar(cx.dtype(DType::F32), initial));
        b.result(GOOD_STEPS, b.int(DType::I64, 0));
    }
    Ok(())
}

fn one<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    program: &Program,
    value: ValueId,
) -> Result<Value<'g>, Diagnostic> {
    let mut none = |input: &Input, _: &TensorType, span| Err(unknown(input, span));
    Ok(program::lower(cx, b, program, &mut none)?.get(value))
}

/// The first value of a scalar, which may use those before it, and the rates of the first step.
fn start<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    scalar: &crate::typed::Scalar,
    known: &[(String, Value<'g>)],
    rates: &Values<'g>,
) -> Result<Value<'g>, Diagnostic> {
    let mut inputs = |input: &Input, ty: &TensorType, span: Span| match input {
        Input::Rate(rate) => Ok(rates.get(*rate)),
        Input::Scalar(name) => match known.iter().find(|(n, _)| n == name) {
            Some((_, value)) => Ok(*value),
            None if *name == scalar.source => Ok(b.full(&Type::of(ty).expect("it is bound"), 0.0)),
            None => Err(unknown(input, span)),
        },
        _ => Err(unknown(input, span)),
    };
    Ok(program::lower(cx, b, &scalar.program, &mut inputs)?.get(scalar.start))
}

fn unknown(input: &Input, span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::UnknownName,
        span,
        format!("`{input}` has no value before the first step"),
    )
}
