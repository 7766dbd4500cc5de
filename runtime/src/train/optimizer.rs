//! Optimizers on graphs that are built in Rust.

use std::collections::BTreeMap;

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::autodiff::{Cotangent, Request};
use trainspec_compiler::ir::build::{Builder, Value};
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::interp;
use trainspec_compiler::lower::{self, Binding, Context, SEED};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::{Slot, Spec};
use trainspec_compiler::{Compilation, Options};

use crate::SessionError;

/// A variable of a graph: state that is trained.
#[derive(Debug, Clone)]
pub struct Variable<'g> {
    /// Its name, as checkpoints have it.
    pub name: String,
    /// Its value before the step.
    pub value: Value<'g>,
}

impl<'g> Variable<'g> {
    /// A variable of that name and type.
    pub fn new(b: &'g Builder, name: &str, ty: &Type) -> Variable<'g> {
        Variable {
            name: name.to_owned(),
            value: b.read(name, ty),
        }
    }
}

/// A gradient, where the loss depends on the variable, and the variable.
pub type GradientAndVariable<'g> = (Option<Cotangent<'g>>, Variable<'g>);

/// An optimizer of the library, or of one's own, for graphs that are built in Rust.
///
/// It is set as in `train`. What [`Optimizer::minimize`] does in one go can be done in three, with gradients processed in
/// between:
///
/// ```
/// use trainspec::train::{Optimizer, Variable};
/// use trainspec_compiler::ir::autodiff::Cotangent;
/// use trainspec_compiler::ir::build::Builder;
/// use trainspec_compiler::ir::graph::Type;
/// use trainspec_compiler::ir::DType;
///
/// let optimizer = Optimizer::new("momentum(0.1, momentum: 0.9)")?;
/// let b = Builder::new("step");
/// let w = Variable::new(&b, "w", &Type::new(DType::F32, &[3]));
/// let x = b.input("x", &Type::new(DType::F32, &[3]));
/// let loss = ((w.value - x) * (w.value - x)).sum(&[0]);
///
/// let gradients = optimizer.compute_gradients(loss, &[w])?;
/// let capped = gradients.into_iter().map(|(gradient, variable)| {
///     let gradient = gradient.map(|g| g.dense().minimum(b.scalar(DType::F32, 1.0)));
///     (gradient.map(Cotangent::Dense), variable)
/// });
/// optimizer.apply_gradients(&b, &capped.collect::<Vec<_>>())?;
///
/// assert_eq!(optimizer.get_name(), "Momentum");
/// assert_eq!(optimizer.get_slot("w", "accumulation").unwrap(), "w/Momentum");
/// assert_eq!(b.finish().writes.len(), 3); // w, its slot, global_step
/// # Ok::<(), trainspec::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Optimizer {
    call: String,
    definitions: String,
    name: String,
    slots: Vec<Slot>,
}

impl Optimizer {
    /// An optimizer of the library with its arguments: `adam(learning_rate: 1e-3)`.
    pub fn new(call: &str) -> Result<Optimizer, SessionError> {
        Optimizer::with_definitions(call, "")
    }

    /// The same with definitions of one's own, which are items of the language.
    pub fn with_definitions(call: &str, definitions: &str) -> Result<Optimizer, SessionError> {
        let mut optimizer = Optimizer {
            call: call.to_owned(),
            definitions: definitions.to_owned(),
            name: String::new(),
            slots: Vec::new(),
        };
        // Checked with some variable, so that what is wrong is told at once.
        let some = Type::new(trainspec_compiler::ir::DType::F32, &[2]);
        let spec = optimizer.spec(&[("variable".to_owned(), some)])?;
        let group = &spec.train.as_ref().expect("it was checked").groups[0];
        optimizer.name = group.alias.clone();
        optimizer.slots = group.updates[0].slots.clone();
        Ok(optimizer)
    }

    /// The name that TensorFlow knows it by, or its own: `Adam`.
    pub fn get_name(&self) -> &str {
        &self.name
    }

    /// What its slots are called in its definition.
    pub fn get_slot_names(&self) -> Vec<String> {
        self.slots.iter().map(|slot| slot.name.clone()).collect()
    }

    /// The name of the state that a slot of a variable is, as checkpoints have it.
    pub fn get_slot(&self, variable: &str, slot: &str) -> Option<String> {
        let found = self.slots.iter().find(|s| s.name == slot)?;
        let (_, key) = found.variable.split_once('/')?;
        Some(format!("{variable}/{key}"))
    }

    /// The gradient of a loss with respect to each variable; `None` where it does not depend on it.
    pub fn compute_gradients<'g>(
        &self,
        loss: Value<'g>,
        var_list: &[Variable<'g>],
    ) -> Result<Vec<GradientAndVariable<'g>>, SessionError> {
        self.compute_gradients_with(loss, var_list, None)
    }

    /// The same for a loss whose own gradient is given (`grad_loss`), of the type of the loss.
    pub fn compute_gradients_with<'g>(
        &self,
        loss: Value<'g>,
        var_list: &[Variable<'g>],
        grad_loss: Option<Value<'g>>,
    ) -> Result<Vec<GradientAndVariable<'g>>, SessionError> {
        if var_list.is_empty() {
            return Err(refused("there are no variables to optimize"));
        }
        let request = Request {
            ys: vec![loss],
            xs: var_list.iter().map(|v| v.value).collect(),
            seeds: vec![grad_loss],
            stops: Vec::new(),
        };
        let slopes = loss.builder().differentiate(&request);
        Ok(slopes.into_iter().zip(var_list.iter().cloned()).collect())
    }

    /// Lets a step write new values of the variables that have gradients, of their slots and of what the optimizer keeps for all, and
    /// count the step in `global_step`.
    pub fn apply_gradients<'g>(
        &self,
        b: &'g Builder,
        grads_and_vars: &[GradientAndVariable<'g>],
    ) -> Result<(), SessionError> {
        if grads_and_vars.is_empty() {
            return Err(refused("there are no variables to optimize"));
        }
        if grads_and_vars
            .iter()
            .all(|(gradient, _)| gradient.is_none())
        {
            let names: Vec<&str> = grads_and_vars
                .iter()
                .map(|(_, v)| v.name.as_str())
                .collect();
            let message = format!("there is no gradient for any of `{}`", names.join("`, `"));
            return Err(refused(&message));
        }
        let variables = typed(grads_and_vars.iter().map(|(_, v)| v));
        let spec = self.spec(&variables)?;
        let binding = Binding::new();
        let gradients: Vec<Option<Cotangent<'g>>> =
            grads_and_vars.iter().map(|(g, _)| *g).collect();
        lower::apply_gradients(&Context::new(&spec, &binding), b, &gradients)?;
        Ok(())
    }

    /// [`Optimizer::compute_gradients`] and [`Optimizer::apply_gradients`].
    pub fn minimize<'g>(
        &self,
        loss: Value<'g>,
        var_list: &[Variable<'g>],
    ) -> Result<(), SessionError> {
        let gradients = self.compute_gradients(loss, var_list)?;
        self.apply_gradients(loss.builder(), &gradients)
    }

    /// The first values of all that the optimizer keeps for these variables, `global_step` among them.
    pub fn initial(
        &self,
        variables: &[Variable<'_>],
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        let variables = typed(variables.iter());
        let spec = self.spec(&variables)?;
        let binding = Binding::new();
        let graph = lower::initial(&Context::new(&spec, &binding))?;
        let seed = BTreeMap::from([(SEED.to_owned(), Tensor::scalar(0_i64))]);
        let values = interp::run(&graph, &seed, &[])?.results;
        let names = graph.results.into_iter().map(|(name, _)| name);
        let own = |(name, _): &(String, Tensor)| !variables.iter().any(|(v, _)| v == name);
        Ok(names.zip(values).filter(own).collect())
    }

    /// A spec with nothing but these variables and the optimizer.
    fn spec(&self, variables: &[(String, Type)]) -> Result<Spec, SessionError> {
        // Names of checkpoints may not be names of the language, so they are put in their place afterwards.
        let params = variables.iter().enumerate();
        let params: String = params
            .map(|(i, (_, ty))| format!("param v{i}: {ty} = zeros(); "))
            .collect();
        let terms = (0..variables.len()).map(|i| format!("sum(cast(v{i}, f32))"));
        let loss = terms.collect::<Vec<_>>().join(" + ");
        let text = format!(
            "spec apply;\n{}\nmodel () {{ {params}loss {loss}; }}\ntrain {{ optimizer {}; steps 1; }}\n",
            self.definitions, self.call
        );
        let compilation = Compilation::check("optimizer", &text, &NoFiles, &Options::default());
        let mut errors = compilation
            .diagnostics
            .into_iter()
            .filter(Diagnostic::is_error);
        let Some(mut spec) = compilation.spec else {
            let error = errors.next().map(|e| e.message).unwrap_or_default();
            return Err(refused(&error));
        };
        for (variable, (name, _)) in spec.variables.iter_mut().zip(variables) {
            variable.name.clone_from(name);
        }
        let groups = spec.train.iter_mut().flat_map(|t| &mut t.groups);
        for update in groups.flat_map(|g| &mut g.updates) {
            let name = &variables[update.variable.0 as usize].0;
            for slot in &mut update.slots {
                if let Some((_, key)) = slot.variable.split_once('/') {
                    slot.variable = format!("{name}/{key}");
                }
            }
        }
        Ok(spec)
    }
}

fn typed<'a, 'g: 'a>(variables: impl Iterator<Item = &'a Variable<'g>>) -> Vec<(String, Type)> {
    variables.map(|v| (v.name.clone(), v.value.ty())).collect()
}

fn refused(message: &str) -> SessionError {
    Diagnostic::without_place(Code::BadValue, message).into()
}
