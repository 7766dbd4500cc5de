//! A model made for one case: its text, its graph, its run.
//!
//! In: the inputs, statements and expressions for the outputs. Out: the outputs, cut to their run-time counts, and the
//! gradients of the inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_codegen::Options as CodeOptions;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, InputView};
use trainspec_compiler::typed::{Spec, ValueId};
use trainspec_frontend::lower::{self, Binding, Context};
use trainspec_ir::autodiff::{Cotangent, Request};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type, verify};
use trainspec_ir::plan::plan;
use trainspec_ir::tensor::Data;
use trainspec_ir::{Tensor, interp, passes};

use crate::oracle::Engine;
use crate::oracle::gradient::{self, Gradient};
use crate::oracle::run::checked;

/// A model whose inputs are `x0`, `x1`, ….
#[derive(Debug, Clone)]
pub struct Model {
    /// The values of the inputs.
    pub inputs: Vec<Tensor>,
    /// Statements.
    pub body: String,
    /// An expression for each output.
    pub outputs: Vec<String>,
}

/// The outputs and gradients of a run.
#[derive(Debug)]
pub struct ModelOutputs {
    /// The outputs.
    pub outputs: Vec<Tensor>,
    /// The gradient of each input, where it was requested and there is one.
    pub gradients: Vec<Option<Gradient>>,
}

impl Model {
    /// A model of one call with this many results.
    pub fn calling(inputs: Vec<Tensor>, call: &str, results: usize) -> Model {
        let outputs: Vec<String> = (0..results).map(|i| format!("y{i}")).collect();
        let pattern = match outputs.as_slice() {
            [one] => one.clone(),
            several => format!("({})", several.join(", ")),
        };
        Model {
            inputs,
            body: format!("let {pattern} = {call};"),
            outputs,
        }
    }

    /// The text of the spec.
    pub fn text(&self) -> String {
        let inputs: Vec<String> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, tensor)| format!("x{i}: {}", tensor.ty()))
            .collect();
        let mut text = format!(
            "spec oracle;\nmodel ({}) {{\n    {}\n",
            inputs.join(", "),
            self.body
        );
        for (i, output) in self.outputs.iter().enumerate() {
            text += &format!("    output o{i} = {output};\n");
        }
        text + "}\n"
    }

    /// Checks the text; the errors where there are some.
    pub fn check(&self) -> Result<Spec, String> {
        checked(&self.text())
    }

    /// Runs it. With weights, one for each output or `None`, also the gradients of Σ output · weight.
    pub fn run(
        &self,
        weights: Option<&[Option<Tensor>]>,
        engine: Engine,
    ) -> Result<ModelOutputs, String> {
        let spec = self.check()?;
        let axes = counted_axes(&spec);
        let b = Builder::resume(graph_of(&spec)?);
        let output = |i| {
            b.with_graph(|graph| graph.result(&name(i)))
                .map(|id| b.value(id))
        };
        let outputs: Vec<Value<'_>> = (0..self.outputs.len())
            .map(|i| output(i).ok_or_else(|| format!("`{}` is not in the graph", name(i))))
            .collect::<Result<_, _>>()?;
        let gradients = match weights {
            Some(weights) => self.differentiate(&b, &outputs, weights)?,
            None => vec![None; self.inputs.len()],
        };
        gradient::publish(&b, &gradients);
        let graph = b.finish();
        let results = run_graph(&graph, &self.named_inputs(), engine)?;
        let mut outputs = Vec::new();
        for i in 0..self.outputs.len() {
            let padded = results[&name(i)].clone();
            outputs.push(match axes.get(&i) {
                Some(axis) => {
                    let count = results[&format!("{}#count", name(i))].to_i64s()[0] as usize;
                    narrowed(&padded, *axis, count)?
                }
                None => padded,
            });
        }
        Ok(ModelOutputs {
            outputs,
            gradients: (0..self.inputs.len())
                .map(|i| gradient::find(&results, i))
                .collect(),
        })
    }

    fn named_inputs(&self) -> BTreeMap<String, Tensor> {
        let named = |(i, tensor): (usize, &Tensor)| (format!("x{i}"), tensor.clone());
        self.inputs.iter().enumerate().map(named).collect()
    }

    /// The gradients of the inputs that are floats and used.
    fn differentiate<'g>(
        &self,
        b: &'g Builder,
        outputs: &[Value<'g>],
        weights: &[Option<Tensor>],
    ) -> Result<Vec<Option<Cotangent<'g>>>, String> {
        let mut request = Request::default();
        for (output, weight) in outputs.iter().zip(weights) {
            let Some(weight) = weight else { continue };
            request.ys.push(*output);
            let seed = widened(weight, &output.ty())?;
            request.seeds.push(Some(b.constant(seed)));
        }
        let inputs: BTreeMap<String, Value<'g>> = b
            .with_graph(|graph| {
                graph
                    .inputs()
                    .map(|(name, id)| (name.to_owned(), id))
                    .collect::<Vec<_>>()
            })
            .into_iter()
            .map(|(name, id)| (name, b.value(id)))
            .collect();
        let differentiable: Vec<(usize, Value<'g>)> = (0..self.inputs.len())
            .filter_map(|i| Some((i, *inputs.get(&format!("x{i}"))?)))
            .filter(|(_, x)| x.dtype().is_float())
            .collect();
        request.xs = differentiable.iter().map(|(_, x)| *x).collect();
        let mut gradients = vec![None; self.inputs.len()];
        for ((i, _), gradient) in differentiable.iter().zip(b.differentiate(&request)) {
            gradients[*i] = gradient;
        }
        Ok(gradients)
    }
}

/// The result that is an output.
fn name(output: usize) -> String {
    format!("output/o{output}")
}

/// Runs a graph without state; its results by name.
pub fn run_graph(
    graph: &Graph,
    inputs: &BTreeMap<String, Tensor>,
    engine: Engine,
) -> Result<BTreeMap<String, Tensor>, String> {
    verify(graph).map_err(|broken| format!("the graph is broken: {broken}"))?;
    match engine {
        Engine::Interpreted => {
            let outcome =
                interp::run(graph, inputs, &[]).map_err(|e| format!("the run fails: {e}"))?;
            let names = graph.results.iter().map(|(name, _)| name.clone());
            Ok(names.zip(outcome.results).collect())
        }
        Engine::Compiled => {
            let graph = passes::run(graph.clone(), &Default::default());
            let pool = Arc::new(Pool::exactly(2));
            let compiled =
                CompiledProgram::compile(plan(fuse(&graph, true)), &CodeOptions::default())
                    .map_err(|e| format!("it cannot be compiled: {e}"))?;
            let mut executable = Executable::new(compiled, pool);
            let feeds: Vec<InputView<'_>> = executable
                .inputs()
                .iter()
                .map(|(name, _)| {
                    let tensor = inputs.get(name).ok_or(format!("no input `{name}`"))?;
                    Ok(InputView::from(tensor))
                })
                .collect::<Result<_, String>>()?;
            let results = executable.run(&feeds, &mut [], &[]);
            Ok(results
                .map_err(|e| format!("the run fails: {e}"))?
                .into_iter()
                .collect())
        }
    }
}

/// The outputs with a run-time count, and which dimension has it.
fn counted_axes(spec: &Spec) -> BTreeMap<usize, usize> {
    let Some(model) = &spec.model else {
        return BTreeMap::new();
    };
    let axis = |(i, (_, id)): (usize, &(String, ValueId))| {
        let ty = &model.eval.program.values[id.0 as usize];
        let axis = ty.shape.0.iter().position(|dim| dim.count.is_some())?;
        Some((i, axis))
    };
    model
        .eval
        .outputs
        .iter()
        .enumerate()
        .filter_map(axis)
        .collect()
}

/// The first `count` along an axis.
fn narrowed(tensor: &Tensor, axis: usize, count: usize) -> Result<Tensor, String> {
    let mut shape = tensor.shape().to_vec();
    if count > shape[axis] {
        return Err(format!(
            "the count {count} is above the capacity of {}",
            shape[axis]
        ));
    }
    shape[axis] = count;
    let offsets = offsets(&shape, tensor.shape());
    fn picked<T: Clone>(values: &[T], offsets: &[usize]) -> Vec<T> {
        offsets.iter().map(|i| values[*i].clone()).collect()
    }
    macro_rules! pick {
        ($($variant:ident),*) => {
            match tensor.data() {
                $(Data::$variant(values) => Data::$variant(picked(values, &offsets)),)*
            }
        };
    }
    let data = pick!(F16, Bf16, F32, F64, I8, I16, I32, I64, U8, Bool, String);
    Ok(Tensor::of(&shape, data))
}

/// A tensor of floats zero-padded to a type of larger dimensions.
fn widened(tensor: &Tensor, ty: &Type) -> Result<Tensor, String> {
    let fits = tensor.shape().len() == ty.rank()
        && tensor
            .shape()
            .iter()
            .zip(&ty.shape)
            .all(|(n, capacity)| n <= capacity);
    if !fits {
        return Err(format!("weights of {} for {ty}", tensor.ty()));
    }
    let mut values = vec![0.0; ty.elements()];
    for (offset, x) in offsets(tensor.shape(), &ty.shape)
        .iter()
        .zip(tensor.to_f64s())
    {
        values[*offset] = x;
    }
    Ok(Tensor::from_f64s(ty, values))
}

/// The flat offsets of the elements of a shape within a larger one.
fn offsets(shape: &[usize], capacity: &[usize]) -> Vec<usize> {
    let mut offsets = vec![0];
    for (n, capacity) in shape.iter().zip(capacity) {
        offsets = offsets
            .iter()
            .flat_map(|offset| (0..*n).map(move |i| offset * capacity + i))
            .collect();
    }
    offsets
}

/// The graph of the model in evaluation. Output `o0` is the result `output/o0`, its run-time count `output/o0#count`.
fn graph_of(spec: &Spec) -> Result<Graph, String> {
    let binding = Binding::new();
    lower::model(&Context::new(spec, &binding), false)
        .map_err(|wrong| format!("no graph: {}", wrong.message))
}
