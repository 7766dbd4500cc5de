//! The layers of a model: the calls of blocks and functions that it consists of, with their shapes and parameters.
//!
//! In: a checked spec. Out: its layers in the order in which they are called, and variables that belong to none. Leaves alone: what only
//! losses and metrics need and has no variables.

use std::collections::BTreeSet;

use crate::dataflow::Dataflow;
use crate::ir::{Span, TensorType};
use crate::typed::{Call, Role, Spec, ValueId, VarId};

/// A layer: a call of a block, or of a function that an output or a later block depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The variable scope of a block, such as `encoder/dense`; the name of a function.
    pub name: String,
    /// The name of the definition, such as `dense`.
    pub definition: String,
    /// The number of layers around it.
    pub depth: usize,
    /// The types of its tensor arguments.
    pub inputs: Vec<TensorType>,
    /// The types of its results.
    pub outputs: Vec<TensorType>,
    /// Its parameters, and how many of them are trained.
    pub parameters: Parameters,
    /// Whether all its variables belong to an earlier layer, which it shares them with.
    pub shared: bool,
}

/// A variable that the model declares itself, outside of layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnVariable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// Its parameters.
    pub parameters: Parameters,
}

/// Numbers of elements of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parameters {
    /// Of parameters that the training changes.
    pub trained: u64,
    /// Of parameters that are frozen, or that no optimizer has.
    pub frozen: u64,
    /// Of `state`, such as moving averages.
    pub state: u64,
}

impl Parameters {
    /// All of them.
    pub fn all(self) -> u64 {
        self.trained
            .saturating_add(self.frozen)
            .saturating_add(self.state)
    }

    fn of<'v>(
        spec: &Spec,
        trained: &BTreeSet<VarId>,
        variables: impl IntoIterator<Item = &'v VarId>,
    ) -> Parameters {
        let mut sums = Parameters::default();
        for id in variables {
            let variable = &spec.variables[id.0 as usize];
            let elements = variable.ty.shape.elements().and_then(|n| n.value());
            let elements = u64::try_from(elements.unwrap_or(0)).unwrap_or(0);
            let sum = match variable.role {
                Role::State => &mut sums.state,
                Role::Param if spec.train.is_none() || trained.contains(id) => &mut sums.trained,
                Role::Param => &mut sums.frozen,
            };
            *sum = sum.saturating_add(elements);
        }
        sums
    }
}

/// The layers of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// The layers, in the order in which their calls begin; those inside of others follow them.
    pub layers: Vec<Layer>,
    /// The variables of the model itself, and of layers that are not shown.
    pub own: Vec<OwnVariable>,
    /// All parameters.
    pub total: Parameters,
}

impl Layers {
    /// The layers of a spec, with `levels` levels of them; `None` where it has no model.
    ///
    /// ```
    /// use trainspec_compiler::{Compilation, Layers, source::NoFiles};
    ///
    /// let text = "spec a; model (x: f32[batch, 4]) { output y = x |> dense(8) |> relu |> dense(2); }";
    /// let spec = Compilation::check("a", text, &NoFiles, &Default::default()).spec.unwrap();
    /// let layers = Layers::of(&spec, 1).unwrap();
    /// let names: Vec<&str> = layers.layers.iter().map(|layer| layer.name.as_str()).collect();
    /// assert_eq!(names, ["dense", "relu", "dense_1"]);
    /// assert_eq!(layers.layers[2].outputs[0].to_string(), "f32[batch, 2]");
    /// assert_eq!(layers.total.all(), (4 * 8 + 8) + (8 * 2 + 2));
    /// ```
    pub fn of(spec: &Spec, levels: usize) -> Option<Layers> {
        let mode = &spec.model.as_ref()?.train;
        let program = &mode.program;
        let flow = Dataflow::new(program);
        let groups = spec.train.iter().flat_map(|train| &train.groups);
        let updates = groups.flat_map(|group| &group.updates);
        let trained: BTreeSet<VarId> = updates.map(|update| update.variable).collect();
        let with_variables = |call: &&Call| flow.variables(&call.values).next().is_some();
        let results = mode.outputs.iter().map(|(_, value)| *value);
        let blocks = program.calls.iter().filter(with_variables);
        let roots = results.chain(blocks.flat_map(|call| call.outputs.iter().copied()));
        let needed = flow.ancestors(roots);
        let mut layers = Vec::new();
        let mut known: BTreeSet<VarId> = BTreeSet::new();
        let mut around: Vec<Span> = Vec::new();
        for call in program.calls.iter().filter(|call| call.depth < levels) {
            around.truncate(call.depth);
            // What the library calls has the span of the user's call.
            let is_library = around.last() == Some(&call.span);
            around.push(call.span);
            if is_library && call.scope.is_none() {
                continue;
            }
            let own: BTreeSet<VarId> = flow.variables(&call.values).collect();
            let made = |id: &ValueId| needed[id.0 as usize] && call.values.contains(&id.0);
            if own.is_empty() && !call.outputs.iter().any(made) {
                continue;
            }
            let types = |values: &[ValueId]| {
                let types = values.iter().map(|id| &program.values[id.0 as usize]);
                types.map(|ty| TensorType::clone(ty)).collect()
            };
            // Layers inside of a layer have some of its variables.
            let shared = !own.is_empty() && own.is_subset(&known) && !is_inside(&layers, call);
            layers.push(Layer {
                name: call.scope.clone().unwrap_or(call.definition.clone()),
                definition: call.definition.clone(),
                depth: call.depth,
                inputs: types(&call.inputs),
                outputs: types(&call.outputs),
                parameters: Parameters::of(spec, &trained, &own),
                shared,
            });
            known.extend(own);
        }
        let all = (0..spec.variables.len()).map(|i| VarId(i as u32));
        let own = all.clone().filter(|id| !known.contains(id)).map(|id| {
            let variable = &spec.variables[id.0 as usize];
            OwnVariable {
                name: variable.name.clone(),
                ty: variable.ty.clone(),
                parameters: Parameters::of(spec, &trained, [&id]),
            }
        });
        Some(Layers {
            own: own.collect(),
            layers,
            total: Parameters::of(spec, &trained, &all.collect::<Vec<_>>()),
        })
    }
}

/// Whether a call is made inside of the last layer of the level above, for the first time.
fn is_inside(layers: &[Layer], call: &Call) -> bool {
    let around = layers.iter().rev().find(|layer| layer.depth < call.depth);
    around.is_some_and(|layer| !layer.shared)
}
