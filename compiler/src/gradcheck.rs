//! Gradient check: reverse-mode gradients against central finite differences, for the user's own loss
//! (`tf.test.compute_gradient_error`).
//!
//! The model is lowered in f64 with small named dimensions and fed with seeded synthetic inputs. Its parameters are perturbed, since
//! initial values (zero biases) are not generic. Random draws are keyed by seed and step, so dropout masks stay the same under
//! perturbation; what `stop_gradient` holds back stays as it is without one.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic};
use crate::ir::graph::Graph;
use crate::ir::interp::{self, RunError};
use crate::ir::passes::{Frozen, freeze};
use crate::ir::philox::Key;
use crate::ir::{DType, Tensor};
use crate::lower::{self, Binding, Context, GLOBAL_STEP, SEED};
use crate::lower::{Fetch, FetchSet, ProgramKind};
use crate::pipeline::{self, PipelineOptions};
use crate::readable_bytes;
use crate::synthetic::{self, inputs, uniform};
use crate::typed::Spec;

/// The options of a gradient check.
#[derive(Debug, Clone)]
pub struct GradcheckOptions {
    /// The sizes of named dimensions; those that are not given are 3.
    pub dims: Binding,
    /// The most elements of each parameter that are compared.
    pub elements: usize,
    /// The seed of inputs, of random draws, and of the sampled elements.
    pub seed: i64,
    /// The bytes that may be allocated; `None` where nothing bounds them.
    pub memory: Option<u64>,
}

impl Default for GradcheckOptions {
    fn default() -> GradcheckOptions {
        GradcheckOptions {
            dims: Binding::new(),
            elements: 8,
            seed: 0,
            memory: None,
        }
    }
}

/// The result for one loss and one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct GradcheckResult {
    /// The loss.
    pub loss: String,
    /// The parameter.
    pub parameter: String,
    /// Its type in the spec.
    pub ty: String,
    /// The number of elements compared.
    pub compared: usize,
    /// The number of elements next to a kink, where the one-sided derivatives differ and the gradient is a subgradient.
    pub kinks: usize,
    /// The number of elements that differ.
    pub wrong: usize,
    /// The largest relative error, to the larger of gradient and central difference.
    pub worst: f64,
    /// The element with the largest error: its index, the gradient, the central difference.
    pub at: Option<(Vec<usize>, f64, f64)>,
    /// Whether the loss depends on the parameter at all.
    pub connected: bool,
}

/// Why gradients could not be checked.
#[derive(Debug, Clone, PartialEq)]
pub enum GradcheckError {
    /// The spec cannot be lowered.
    Spec(Box<Diagnostic>),
    /// The model cannot be run on the synthetic inputs.
    Run(RunError),
}

impl From<Diagnostic> for GradcheckError {
    fn from(diagnostic: Diagnostic) -> GradcheckError {
        GradcheckError::Spec(Box::new(diagnostic))
    }
}

impl From<RunError> for GradcheckError {
    fn from(error: RunError) -> GradcheckError {
        GradcheckError::Run(error)
    }
}

/// The relative tolerance between gradient and central difference: far above the truncation and rounding errors of a central difference
/// in f64, far below the error of a wrong gradient rule.
const RELATIVE_TOLERANCE: f64 = 1e-5;

/// Checks the gradients of all losses with respect to the parameters that are trained with them; empty where there is no loss or
/// no parameter. Fails where the spec cannot be lowered, or the model fails on the synthetic inputs.
pub fn gradcheck(
    spec: &Spec,
    options: &GradcheckOptions,
) -> Result<Vec<GradcheckResult>, GradcheckError> {
    let mut dims = options.dims.clone();
    for name in lower::dimension_names(spec) {
        dims.entry(name).or_insert(3);
    }
    let cx = Context {
        spec,
        binding: &dims,
        widen: true,
    };
    let pairs = lower::trained(spec);
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let compile = PipelineOptions::default();
    let lowered = lower::program_graph(&cx, ProgramKind::Gradients)?.graph;
    let mut losses = lowered.clone();
    losses.writes.clear();
    let names: Vec<String> = pairs
        .iter()
        .map(|(loss, _)| Fetch::Loss(loss.clone()).to_string())
        .collect();
    losses.results.retain(|(name, _)| names.contains(name));
    let Frozen { observed, frozen } = freeze(&losses);
    let gradients = pipeline::simplify(lowered, &FetchSet::All, &compile);
    let losses = pipeline::simplify(frozen, &FetchSet::All, &compile);
    ensure_memory(&cx, &[&gradients, &observed, &losses], options)?;
    let mut inputs = inputs(spec, &gradients, options.seed);
    let state = perturbed_state(&cx, &gradients, options.seed)?;
    let results = interp::run(&gradients, &inputs, &state)?.results;
    let results = NamedResults::new(&gradients, results);
    let stopped = interp::run(&observed, &inputs, &state)?.results;
    let stopped = observed.results.iter().map(|(name, _)| name).zip(stopped);
    let stopped = stopped.filter(|(name, _)| losses.inputs().any(|(n, _)| n == *name));
    inputs.extend(stopped.map(|(name, value)| (name.clone(), value)));
    let mut checked = Vec::new();
    for (loss, variable) in pairs {
        let name = &spec.variables[variable.0 as usize].name;
        let ty = spec.variables[variable.0 as usize].ty.to_string();
        let mut result = GradcheckResult {
            loss: loss.clone(),
            parameter: name.clone(),
            ty,
            compared: 0,
            kinks: 0,
            wrong: 0,
            worst: 0.0,
            at: None,
            connected: true,
        };
        match (results.gradient(&loss, name), losses.find_state(name)) {
            (Some(gradient), Some(variable)) => {
                let variable = variable.index();
                let mut probe = Probe {
                    graph: &losses,
                    inputs: &inputs,
                    state: state.clone(),
                    loss: Fetch::Loss(loss.clone()).to_string(),
                };
                for element in sampled_elements(gradient.to_f64s().len(), options, name) {
                    probe.compare(&mut result, variable, element, &gradient)?;
                }
            }
            _ => result.connected = false,
        }
        checked.push(result);
    }
    Ok(checked)
}

/// Fails where the interpreter needs more memory than there is.
fn ensure_memory(
    cx: &Context<'_>,
    graphs: &[&Graph],
    options: &GradcheckOptions,
) -> Result<(), Diagnostic> {
    let Some(available) = options.memory else {
        return Ok(());
    };
    let initial = lower::initial(cx)?;
    let types = initial.results.iter().map(|(_, v)| initial.ty(*v));
    let state = types.fold(0_u64, |all, ty| all.saturating_add(ty.bytes()));
    let graph_inputs = graphs[0].inputs().map(|(_, v)| graphs[0].ty(v));
    let fed = graph_inputs.fold(0_u64, |all, ty| {
        all.saturating_add(synthetic::peak_bytes(ty))
    });
    let peaks = graphs.iter().copied().chain([&initial]);
    let peak = peaks.map(interp::peak_bytes).max().unwrap_or(0);
    // The state, a copy of it that is perturbed, and one variable in it as it was; the gradients, and their elements as f64.
    let held = state.saturating_mul(6).saturating_add(fed);
    let needed = peak.saturating_add(held);
    match needed > available {
        false => Ok(()),
        true => {
            let message = format!(
                "the gradient check needs {} of memory, and there are {}",
                readable_bytes(needed),
                readable_bytes(available)
            );
            Err(Diagnostic::without_span(Code::SizeOverflow, message)
                .help("make the model smaller: `--set NAME=VALUE` overrides a constant, `--dim NAME=SIZE` a named dimension"))
        }
    }
}

/// Values of the results of a graph, by name.
struct NamedResults<'a>(BTreeMap<&'a str, Tensor>);

impl<'a> NamedResults<'a> {
    fn new(graph: &'a Graph, results: Vec<Tensor>) -> NamedResults<'a> {
        NamedResults(
            graph
                .results
                .iter()
                .map(|(n, _)| n.as_str())
                .zip(results)
                .collect(),
        )
    }

    /// The dense gradient of a loss with respect to a variable.
    fn gradient(&self, loss: &str, variable: &str) -> Option<Tensor> {
        let fetch = Fetch::Gradient {
            loss: loss.to_owned(),
            variable: variable.to_owned(),
        };
        self.0.get(fetch.to_string().as_str()).cloned()
    }
}

/// A loss as a function of one parameter.
struct Probe<'a> {
    graph: &'a Graph,
    inputs: &'a BTreeMap<String, Tensor>,
    state: Vec<Tensor>,
    loss: String,
}

impl Probe<'_> {
    /// The loss with one element of a variable set to `x`.
    fn loss(&mut self, variable: usize, element: usize, x: f64) -> Result<f64, RunError> {
        let original = self.state[variable].clone();
        let mut values = original.to_f64s();
        values[element] = x;
        self.state[variable] = Tensor::new(original.shape(), values);
        let outcome = interp::run(self.graph, self.inputs, &self.state);
        self.state[variable] = original;
        let index = self.graph.results.iter().position(|(n, _)| *n == self.loss);
        Ok(outcome?.results[index.expect("the loss is a result")]
            .to_f64s()
            .iter()
            .sum())
    }

    /// Compares one element of a gradient with central differences of several steps, and adds the outcome to `result`.
    fn compare(
        &mut self,
        result: &mut GradcheckResult,
        variable: usize,
        element: usize,
        gradient: &Tensor,
    ) -> Result<(), RunError> {
        let x = self.state[variable].to_f64s()[element];
        let analytic = gradient.to_f64s()[element];
        let here = self.loss(variable, element, x)?;
        result.compared += 1;
        let mut best: Option<(f64, f64, f64)> = None;
        let mut is_kink = false;
        // A smaller step gets closer to a kink than the first one, a larger one has less noise.
        for scale in [1.0, 0.1, 10.0, 0.01] {
            // The cube root of the machine epsilon, where truncation and rounding errors balance.
            let h = 6e-6 * scale * x.abs().max(1.0);
            let (above, below) = (
                self.loss(variable, element, x + h)?,
                self.loss(variable, element, x - h)?,
            );
            let central = (above - below) / (2.0 * h);
            // A few ULP of the loss, as rounding error of the difference.
            let noise = 1e-15 * here.abs().max(above.abs()) / h;
            let difference = (central - analytic).abs();
            let size = central.abs().max(analytic.abs()).max(1e-4);
            let (relative, beyond) = (difference / size, (difference - noise).max(0.0) / size);
            if beyond <= RELATIVE_TOLERANCE {
                best = Some((relative, beyond, central));
                is_kink = false;
                break;
            }
            if best.is_none_or(|(old, _, _)| relative < old) || relative.is_nan() {
                best = Some((relative, beyond, central));
            }
            // The gradient at a kink may be any value between the one-sided derivatives.
            let (right, left) = ((above - here) / h, (here - below) / h);
            let (low, high) = (right.min(left), right.max(left));
            let apart = high - low > 1e-3 * high.abs().max(low.abs());
            is_kink |= apart && analytic >= low - noise && analytic <= high + noise;
        }
        let (relative, beyond, central) = best.expect("at least one step was tried");
        if is_kink {
            result.kinks += 1;
            result.compared -= 1;
            return Ok(());
        }
        if beyond > RELATIVE_TOLERANCE || beyond.is_nan() {
            result.wrong += 1;
        }
        if result.at.is_none() || relative > result.worst || relative.is_nan() {
            result.worst = relative;
            result.at = Some((multi_index(gradient.shape(), element), analytic, central));
        }
        Ok(())
    }
}

/// The multi-index of an element, row-major (`numpy.unravel_index`).
fn multi_index(shape: &[usize], element: usize) -> Vec<usize> {
    let mut rest = element;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|n| {
            let i = rest % n;
            rest /= n;
            i
        })
        .collect();
    index.reverse();
    index
}

/// The elements of a parameter that are compared: all, or a seeded random sample without replacement.
fn sampled_elements(n: usize, options: &GradcheckOptions, name: &str) -> Vec<usize> {
    if n <= options.elements {
        return (0..n).collect();
    }
    let key = Key::new(options.seed, &format!("gradcheck/{name}"));
    let mut sample: Vec<usize> = Vec::new();
    let mut block = 0;
    while sample.len() < options.elements {
        for word in key.block(block) {
            let element = word as usize % n;
            if sample.len() < options.elements && !sample.contains(&element) {
                sample.push(element);
            }
        }
        block += 1;
    }
    sample.sort_unstable();
    sample
}

/// The initial state, perturbed by up to 0.1.
fn perturbed_state(
    cx: &Context<'_>,
    graph: &Graph,
    seed: i64,
) -> Result<Vec<Tensor>, GradcheckError> {
    let initial = lower::initial(cx)?;
    let inputs = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(seed))]);
    let values = NamedResults::new(&initial, interp::run(&initial, &inputs, &[])?.results);
    let mut state = Vec::new();
    for variable in &graph.state {
        let Some(value) = values.0.get(variable.name.as_str()) else {
            let message = format!("`{}` has no initial value", variable.name);
            return Err(Diagnostic::without_span(Code::MissingItem, message).into());
        };
        let perturbed = match variable.ty.dtype.is_float() && variable.name != GLOBAL_STEP {
            true => {
                let noise = uniform(
                    seed,
                    &format!("state/{}", variable.name),
                    variable.ty.elements(),
                );
                let values = value
                    .to_f64s()
                    .into_iter()
                    .zip(noise)
                    .map(|(x, u)| x + 0.2 * (u - 0.5));
                Tensor::from_f64s(&variable.ty, values)
            }
            false => value.clone(),
        };
        debug_assert!(variable.ty.dtype != DType::F32, "all floats are widened");
        state.push(perturbed);
    }
    Ok(state)
}
