//! Gradients against central differences, for the user's own loss.
//!
//! The model is lowered in f64 with small named dimensions, fed with seeded synthetic inputs, and its parameters are moved a
//! little off their initial values, where biases are zero and nothing is typical. Random draws are keyed by seed and step,
//! so masks stay the same while a parameter is moved.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic};
use crate::ir::graph::Graph;
use crate::ir::interp::{self, RunError};
use crate::ir::passes;
use crate::ir::philox::Key;
use crate::ir::{DType, Tensor};
use crate::lower::{self, Binding, Context, GLOBAL_STEP, SEED};
use crate::synthetic::{inputs, uniform};
use crate::typed::Spec;

/// How gradients are checked.
#[derive(Debug, Clone)]
pub struct Gradcheck {
    /// The sizes of named dimensions; those that are not given are 3.
    pub dims: Binding,
    /// How many elements of each parameter are moved at the most.
    pub elements: usize,
    /// The seed of inputs, of draws, and of the choice of elements.
    pub seed: i64,
}

impl Default for Gradcheck {
    fn default() -> Gradcheck {
        Gradcheck {
            dims: Binding::new(),
            elements: 8,
            seed: 0,
        }
    }
}

/// What was found for one loss and one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The loss.
    pub loss: String,
    /// The parameter.
    pub parameter: String,
    /// Its type in the spec.
    pub ty: String,
    /// How many elements were compared.
    pub compared: usize,
    /// How many elements were next to a kink, where the slopes to both sides differ and the gradient is one of the slopes between.
    pub kinks: usize,
    /// How many elements differ.
    pub wrong: usize,
    /// The largest difference, relative to the larger of the two slopes.
    pub worst: f64,
    /// The element with the largest difference: its position, the gradient, the central difference.
    pub at: Option<(Vec<usize>, f64, f64)>,
    /// Whether the loss depends on the parameter at all.
    pub connected: bool,
}

/// Why gradients could not be checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// The spec cannot be lowered.
    Spec(Box<Diagnostic>),
    /// The model cannot be run on the synthetic inputs.
    Run(RunError),
}

impl From<Diagnostic> for Trouble {
    fn from(diagnostic: Diagnostic) -> Trouble {
        Trouble::Spec(Box::new(diagnostic))
    }
}

impl From<RunError> for Trouble {
    fn from(error: RunError) -> Trouble {
        Trouble::Run(error)
    }
}

/// Gradients and differences agree within this, relative to the larger of the two: the error of a central difference in f64.
const CLOSE: f64 = 1e-5;

/// Checks the gradients of all losses with respect to the parameters that are trained with them; nothing where there is no loss
/// or no parameter.
pub fn gradcheck(spec: &Spec, choices: &Gradcheck) -> Result<Vec<Checked>, Trouble> {
    let mut dims = choices.dims.clone();
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
    let slopes = lower::gradients(&cx)?;
    let slopes = passes::run(slopes, &Default::default());
    let losses = passes::run(only_losses(slopes.clone()), &Default::default());
    let inputs = inputs(spec, &slopes, choices.seed);
    let state = state(&cx, &slopes, choices.seed)?;
    let found = Found::new(&slopes, interp::run(&slopes, &inputs, &state)?.results);
    let mut checked = Vec::new();
    for (loss, variable) in pairs {
        let name = &spec.variables[variable.0 as usize].name;
        let ty = spec.variables[variable.0 as usize].ty.to_string();
        let mut one = Checked {
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
        match (found.gradient(&loss, name), losses.find_state(name)) {
            (Some(gradient), Some(place)) => {
                let place = place.index();
                let mut probe = Probe {
                    graph: &losses,
                    inputs: &inputs,
                    state: state.clone(),
                    loss: format!("loss/{loss}"),
                };
                for element in chosen(gradient.to_f64s().len(), choices, name) {
                    probe.compare(&mut one, place, element, &gradient)?;
                }
            }
            _ => one.connected = false,
        }
        checked.push(one);
    }
    Ok(checked)
}

/// The graph with its losses as the only results.
fn only_losses(mut graph: Graph) -> Graph {
    graph.results.retain(|(name, _)| name.starts_with("loss/"));
    graph.writes.clear();
    graph
}

/// Values of the results of a graph, by name.
struct Found<'a>(BTreeMap<&'a str, Tensor>);

impl<'a> Found<'a> {
    fn new(graph: &'a Graph, results: Vec<Tensor>) -> Found<'a> {
        Found(
            graph
                .results
                .iter()
                .map(|(n, _)| n.as_str())
                .zip(results)
                .collect(),
        )
    }

    /// The whole gradient.
    fn gradient(&self, loss: &str, variable: &str) -> Option<Tensor> {
        self.0
            .get(format!("gradient/{loss}/{variable}").as_str())
            .cloned()
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
    /// The loss with one element at another value.
    fn loss(&mut self, place: usize, element: usize, x: f64) -> Result<f64, RunError> {
        let original = self.state[place].clone();
        let mut values = original.to_f64s();
        values[element] = x;
        self.state[place] = Tensor::new(original.shape(), values);
        let outcome = interp::run(self.graph, self.inputs, &self.state);
        self.state[place] = original;
        let index = self.graph.results.iter().position(|(n, _)| *n == self.loss);
        Ok(outcome?.results[index.expect("the loss is a result")]
            .to_f64s()
            .iter()
            .sum())
    }

    fn compare(
        &mut self,
        one: &mut Checked,
        place: usize,
        element: usize,
        gradient: &Tensor,
    ) -> Result<(), RunError> {
        let x = self.state[place].to_f64s()[element];
        let slope = gradient.to_f64s()[element];
        let here = self.loss(place, element, x)?;
        one.compared += 1;
        let mut best: Option<(f64, f64, f64)> = None;
        let mut between = false;
        // A smaller step gets closer to a kink than the first one, a larger one has less noise.
        for scale in [1.0, 0.1, 10.0, 0.01] {
            let h = 6e-6 * scale * x.abs().max(1.0);
            let (above, below) = (
                self.loss(place, element, x + h)?,
                self.loss(place, element, x - h)?,
            );
            let central = (above - below) / (2.0 * h);
            let noise = 1e-15 * here.abs().max(above.abs()) / h;
            let difference = (central - slope).abs();
            let size = central.abs().max(slope.abs()).max(1e-4);
            let (relative, beyond) = (difference / size, (difference - noise).max(0.0) / size);
            if best.is_none_or(|(old, _, _)| relative < old) || relative.is_nan() {
                best = Some((relative, beyond, central));
            }
            if beyond <= CLOSE {
                between = false;
                break;
            }
            let (right, left) = ((above - here) / h, (here - below) / h);
            let (low, high) = (right.min(left), right.max(left));
            let apart = high - low > 1e-3 * high.abs().max(low.abs());
            between |= apart && slope >= low - noise && slope <= high + noise;
        }
        let (relative, beyond, central) = best.expect("at least one step was tried");
        if between {
            one.kinks += 1;
            one.compared -= 1;
            return Ok(());
        }
        if beyond > CLOSE || beyond.is_nan() {
            one.wrong += 1;
        }
        if one.at.is_none() || relative > one.worst || relative.is_nan() {
            one.worst = relative;
            one.at = Some((position(gradient.shape(), element), slope, central));
        }
        Ok(())
    }
}

fn position(shape: &[usize], element: usize) -> Vec<usize> {
    let mut rest = element;
    let mut place: Vec<usize> = shape
        .iter()
        .rev()
        .map(|n| {
            let i = rest % n;
            rest /= n;
            i
        })
        .collect();
    place.reverse();
    place
}

/// Which elements of a parameter are moved: all, or some of them drawn from the seed.
fn chosen(n: usize, choices: &Gradcheck, name: &str) -> Vec<usize> {
    if n <= choices.elements {
        return (0..n).collect();
    }
    let key = Key::new(choices.seed, &format!("gradcheck/{name}"));
    let mut places: Vec<usize> = Vec::new();
    let mut block = 0;
    while places.len() < choices.elements {
        for word in key.block(block) {
            let place = word as usize % n;
            if places.len() < choices.elements && !places.contains(&place) {
                places.push(place);
            }
        }
        block += 1;
    }
    places.sort_unstable();
    places
}

/// The initial state, moved a little.
fn state(cx: &Context<'_>, graph: &Graph, seed: i64) -> Result<Vec<Tensor>, Trouble> {
    let initial = lower::initial(cx)?;
    let inputs = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(seed))]);
    let values = Found::new(&initial, interp::run(&initial, &inputs, &[])?.results);
    let mut state = Vec::new();
    for piece in &graph.state {
        let Some(value) = values.0.get(piece.name.as_str()) else {
            let message = format!("`{}` has no initial value", piece.name);
            return Err(Diagnostic::without_span(Code::MissingItem, message).into());
        };
        let moved = match piece.ty.dtype.is_float() && piece.name != GLOBAL_STEP {
            true => {
                let noise = uniform(seed, &format!("state/{}", piece.name), piece.ty.elements());
                let values = value
                    .to_f64s()
                    .into_iter()
                    .zip(noise)
                    .map(|(x, u)| x + 0.2 * (u - 0.5));
                Tensor::from_f64s(&piece.ty, values)
            }
            false => value.clone(),
        };
        debug_assert!(piece.ty.dtype != DType::F32, "all floats are widened");
        state.push(moved);
    }
    Ok(state)
}
