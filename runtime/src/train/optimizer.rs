//! Optimizers for graphs built in Rust (`tf.train.Optimizer`): `compute_gradients`, `apply_gradients`, `minimize`, slots.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_compiler::check;
use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::ir::autodiff::{Cotangent, Request};
use trainspec_compiler::ir::build::{Builder, Value};
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::interp;
use trainspec_compiler::ir::{DType, Tensor, TensorType};
use trainspec_compiler::lower::{self, Binding, Context, GLOBAL_STEP, SEED};
use trainspec_compiler::typed::{Group, Spec};

use crate::Error;

/// A variable of a graph: state that is trained.
///
/// ```
/// use trainspec::DType;
/// use trainspec::train::Variable;
/// use trainspec::train::Builder;
/// use trainspec::train::Type;
///
/// let b = Builder::new("step");
/// let w = Variable::new(&b, "layer/w", &Type::new(DType::F32, &[2]));
/// assert_eq!(w.name, "layer/w");
/// ```
#[derive(Debug, Clone)]
pub struct Variable<'g> {
    /// Its name, as checkpoints have it.
    pub name: String,
    /// Its value before the step.
    pub value: Value<'g>,
}

impl<'g> Variable<'g> {
    /// A variable of that name and type: a read of state in the graph under construction, which is trained unless it is not floating-point.
    pub fn new(b: &'g Builder, name: &str, ty: &Type) -> Variable<'g> {
        let variable = Variable::untrained(b, name, ty);
        if ty.dtype.is_float() {
            b.add_trainable(name, variable.value);
        }
        variable
    }

    /// A variable that [`Optimizer::minimize_trainable`] leaves alone (`trainable=False`).
    pub fn untrained(b: &'g Builder, name: &str, ty: &Type) -> Variable<'g> {
        Variable {
            name: name.to_owned(),
            value: b.read(name, ty),
        }
    }

    /// The variables of a graph that are trained, in the order of their declaration (`tf.trainable_variables`).
    pub fn trainable(b: &'g Builder) -> Vec<Variable<'g>> {
        let all = b.trainable().into_iter();
        all.map(|(name, value)| Variable { name, value }).collect()
    }
}

/// A variable and the gradient of the loss with respect to it; `None` where the loss does not depend on it.
///
/// ```
/// use trainspec::DType;
/// use trainspec::train::{Builder, GradientAndVariable, Optimizer, Type, Variable};
///
/// let b = Builder::new("step");
/// let w = Variable::new(&b, "w", &Type::new(DType::F32, &[]));
/// let unused = Variable::new(&b, "unused", &Type::new(DType::F32, &[]));
/// let optimizer = Optimizer::new("gradient_descent(0.1)")?;
/// let gradients: Vec<GradientAndVariable<'_>> = optimizer.compute_gradients(w.value * w.value, &[w, unused])?;
/// assert!(gradients[0].0.is_some() && gradients[1].0.is_none());
/// # Ok::<(), trainspec::Error>(())
/// ```
pub type GradientAndVariable<'g> = (Option<Cotangent<'g>>, Variable<'g>);

/// An optimizer of the library, or of one's own, for graphs that are built in Rust.
///
/// It is written as in `train`. [`Optimizer::minimize`] can be split in its two steps, with gradients processed in between:
///
/// ```
/// use trainspec::train::{Optimizer, Variable};
/// use trainspec::train::Cotangent;
/// use trainspec::train::Builder;
/// use trainspec::train::Type;
/// use trainspec::DType;
///
/// let optimizer = Optimizer::new("momentum(0.1, momentum: 0.9)")?;
/// let b = Builder::new("step");
/// let w = Variable::new(&b, "w", &Type::new(DType::F32, &[3]));
/// let x = b.input("x", &Type::new(DType::F32, &[3]));
/// let loss = ((w.value - x) * (w.value - x)).sum(&[0]);
///
/// let gradients = optimizer.compute_gradients(loss, &[w.clone()])?;
/// let capped = gradients.into_iter().map(|(gradient, variable)| {
///     let gradient = gradient.map(|g| g.dense().minimum(b.scalar(DType::F32, 1.0)));
///     (gradient.map(Cotangent::Dense), variable)
/// });
/// optimizer.apply_gradients(&b, &capped.collect::<Vec<_>>())?;
///
/// assert_eq!(optimizer.get_name(), "Momentum");
/// assert_eq!(optimizer.get_slot_names()?, ["momentum"]);
/// assert_eq!(optimizer.get_slot(&w, "momentum").unwrap(), "w/Momentum");
/// assert_eq!(b.finish().writes.len(), 3); // w, its slot, global_step
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Optimizer {
    call: String,
    definitions: String,
    name: String,
    /// The names of scalars of other optimizers of the graph.
    reserved: BTreeSet<String>,
}

/// The options of [`Optimizer::minimize_with`].
///
/// ```
/// use trainspec::train::Minimize;
///
/// // The optimizer that runs second does not count the step again.
/// let second = Minimize { counts: false, ..Minimize::default() };
/// assert!(second.grad_loss.is_none());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Minimize<'g> {
    /// The cotangent of the loss, of its type; 1 where it is left out.
    pub grad_loss: Option<Value<'g>>,
    /// Whether `global_step` is incremented.
    pub counts: bool,
}

impl Default for Minimize<'_> {
    fn default() -> Self {
        Minimize {
            grad_loss: None,
            counts: true,
        }
    }
}

impl Optimizer {
    /// An optimizer of the library with its arguments: `adam(learning_rate: 1e-3)`. Fails where the call has an error.
    pub fn new(call: &str) -> Result<Optimizer, Error> {
        Optimizer::with_definitions(call, "")
    }

    /// An optimizer from `definitions` of one's own, which are items of the language. Fails where they or the call have an error.
    pub fn with_definitions(call: &str, definitions: &str) -> Result<Optimizer, Error> {
        let mut optimizer = Optimizer {
            call: call.to_owned(),
            definitions: definitions.to_owned(),
            name: String::new(),
            reserved: BTreeSet::new(),
        };
        // Checked with variables of several ranks, so that errors are reported at once; a definition may be for one rank alone.
        let mut first_error = None;
        for sample in optimizer.samples() {
            match sample {
                Ok(spec) => {
                    optimizer.name.clone_from(&group_of(&spec).alias);
                    return Ok(optimizer);
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.expect("there are samples"))
    }

    /// This optimizer beside another one of the same graph: scalars that both would keep under one name, such as `beta1_power`, are
    /// numbered, as those of a second TensorFlow optimizer are.
    pub fn beside(mut self, other: &Optimizer) -> Optimizer {
        self.reserved.extend(other.reserved.iter().cloned());
        for spec in other.samples().into_iter().flatten() {
            let names = group_of(&spec).scalars.iter().map(|s| s.name.clone());
            self.reserved.extend(names);
        }
        self
    }

    /// The name that TensorFlow knows it by, or its own: `Adam`.
    pub fn get_name(&self) -> &str {
        &self.name
    }

    /// The names of its slots, as TensorFlow calls them: `m` and `v` of `Adam`. Sorted, and where they depend on the rank of a variable,
    /// those of all ranks.
    ///
    /// ```
    /// use trainspec::train::Optimizer;
    ///
    /// assert_eq!(Optimizer::new("adam(0.1)")?.get_slot_names()?, ["m", "v"]);
    /// assert_eq!(Optimizer::new("rmsprop(0.1, centered: true)")?.get_slot_names()?, ["mg", "momentum", "rms"]);
    /// assert!(Optimizer::new("gradient_descent(0.1)")?.get_slot_names()?.is_empty());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn get_slot_names(&self) -> Result<Vec<String>, Error> {
        let mut names = BTreeSet::new();
        for spec in self.samples().into_iter().flatten() {
            let slots = &group_of(&spec).updates[0].slots;
            names.extend(slots.iter().map(|slot| slot.called.clone()));
        }
        Ok(names.into_iter().collect())
    }

    /// The name of the state that a slot of a variable is, as checkpoints have it; `None` where there is no such slot.
    pub fn get_slot(&self, variable: &Variable<'_>, slot: &str) -> Option<String> {
        let spec = self.spec(&typed([variable].into_iter())).ok()?;
        let slots = &group_of(&spec).updates[0].slots;
        let slot = slots.iter().find(|s| s.called == slot)?;
        Some(slot.state_name(&variable.name))
    }

    /// The gradient of a loss with respect to each variable; `None` where the loss does not depend on it. Fails without variables.
    pub fn compute_gradients<'g>(
        &self,
        loss: Value<'g>,
        var_list: &[Variable<'g>],
    ) -> Result<Vec<GradientAndVariable<'g>>, Error> {
        self.compute_gradients_with(loss, var_list, None)
    }

    /// [`Optimizer::compute_gradients`] with the cotangent of the loss (`grad_loss`), of the type of the loss.
    pub fn compute_gradients_with<'g>(
        &self,
        loss: Value<'g>,
        var_list: &[Variable<'g>],
        grad_loss: Option<Value<'g>>,
    ) -> Result<Vec<GradientAndVariable<'g>>, Error> {
        if var_list.is_empty() {
            return Err(refused("there are no variables to optimize"));
        }
        let request = Request {
            ys: vec![loss],
            xs: var_list.iter().map(|v| v.value).collect(),
            seeds: vec![grad_loss],
            stop_gradients: Vec::new(),
        };
        let gradients = loss.builder().differentiate(&request);
        Ok(gradients
            .into_iter()
            .zip(var_list.iter().cloned())
            .collect())
    }

    /// Adds the updates of the variables that have gradients, of their slots, of the optimizer's scalars and of `global_step` to a
    /// step. Fails where no variable has a gradient, or where another optimizer of the step has a scalar of the same name
    /// ([`Optimizer::beside`]).
    pub fn apply_gradients<'g>(
        &self,
        b: &'g Builder,
        grads_and_vars: &[GradientAndVariable<'g>],
    ) -> Result<(), Error> {
        self.apply_gradients_with(b, grads_and_vars, true)
    }

    /// [`Optimizer::apply_gradients`], where `counts` says whether `global_step` is incremented.
    pub fn apply_gradients_with<'g>(
        &self,
        b: &'g Builder,
        grads_and_vars: &[GradientAndVariable<'g>],
        counts: bool,
    ) -> Result<(), Error> {
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
        let mut scalars = group_of(&spec).scalars.iter();
        if let Some(shared) = scalars.find(|s| b.written(&s.name).is_some()) {
            let message = format!(
                "`{}` is kept by another optimizer of this step; set this one `beside` it",
                shared.name
            );
            return Err(refused(&message));
        }
        let binding = Binding::new();
        let gradients: Vec<Option<Cotangent<'g>>> =
            grads_and_vars.iter().map(|(g, _)| *g).collect();
        lower::apply_gradients(&Context::new(&spec, &binding), b, &gradients, counts)?;
        Ok(())
    }

    /// [`Optimizer::compute_gradients`] and [`Optimizer::apply_gradients`].
    pub fn minimize<'g>(&self, loss: Value<'g>, var_list: &[Variable<'g>]) -> Result<(), Error> {
        self.minimize_with(loss, var_list, Minimize::default())
    }

    /// [`Optimizer::minimize`] over all variables of the graph that are trained, as TensorFlow does where no `var_list` is given. Those
    /// that the loss does not depend on stay as they are.
    ///
    /// ```
    /// use trainspec::train::{Optimizer, Variable};
    /// use trainspec::DType;
    /// use trainspec::train::Builder;
    /// use trainspec::train::Type;
    ///
    /// let b = Builder::new("step");
    /// let ty = Type::new(DType::F32, &[3]);
    /// let w = Variable::new(&b, "w", &ty);
    /// let mean = Variable::untrained(&b, "mean", &ty);
    /// let loss = (w.value * mean.value).sum(&[0]);
    /// Optimizer::new("gradient_descent(0.1)")?.minimize_trainable(loss)?;
    /// assert!(b.written("w").is_some() && b.written("mean").is_none());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn minimize_trainable(&self, loss: Value<'_>) -> Result<(), Error> {
        self.minimize(loss, &Variable::trainable(loss.builder()))
    }

    /// [`Optimizer::minimize`] with the options of [`Minimize`].
    pub fn minimize_with<'g>(
        &self,
        loss: Value<'g>,
        var_list: &[Variable<'g>],
        options: Minimize<'g>,
    ) -> Result<(), Error> {
        let gradients = self.compute_gradients_with(loss, var_list, options.grad_loss)?;
        self.apply_gradients_with(loss.builder(), &gradients, options.counts)
    }

    /// The initial values of the slots and scalars for these variables, and of `global_step`.
    pub fn initial(&self, variables: &[Variable<'_>]) -> Result<BTreeMap<String, Tensor>, Error> {
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

    /// Specs with one variable each, of different ranks; an error where the definition is not for that rank.
    fn samples(&self) -> Vec<Result<Spec, Error>> {
        let shapes: [&[usize]; 4] = [&[2], &[2, 3], &[], &[2, 2, 2]];
        let sample = |shape: &[usize]| {
            let ty = Type::new(DType::F32, shape);
            self.spec(&[("variable".to_owned(), ty)])
        };
        shapes.map(sample).into()
    }

    /// A spec with only these variables and the optimizer.
    fn spec(&self, variables: &[(String, Type)]) -> Result<Spec, Error> {
        let symbolic = |(name, ty): &(String, Type)| (name.clone(), ty.tensor_type());
        let variables: Vec<(String, TensorType)> = variables.iter().map(symbolic).collect();
        let spec = check::optimizer(&self.call, &self.definitions, &variables, &self.reserved);
        let spec = spec.map_err(|errors| {
            let first = errors.into_iter().next();
            refused(&first.map(|error| error.message).unwrap_or_default())
        })?;
        match shared_name(&spec) {
            Some(name) => Err(refused(&format!("two states would be called `{name}`"))),
            None => Ok(spec),
        }
    }
}

/// A name that two state variables would have.
fn shared_name(spec: &Spec) -> Option<String> {
    let group = group_of(spec);
    let variables = spec.variables.iter().map(|v| v.name.clone());
    let slots = group.updates.iter().flat_map(|update| {
        let variable = &spec.variables[update.variable.0 as usize].name;
        update.slots.iter().map(|slot| slot.state_name(variable))
    });
    let scalars = group.scalars.iter().map(|s| s.name.clone());
    let mut seen = BTreeSet::from([GLOBAL_STEP.to_owned()]);
    let mut all = variables.chain(slots).chain(scalars);
    all.find(|name| !seen.insert(name.clone()))
}

/// The only group of a spec of one optimizer.
fn group_of(spec: &Spec) -> &Group {
    &spec.train.as_ref().expect("it was checked").groups[0]
}

/// The names and types of variables.
fn typed<'a, 'g: 'a>(variables: impl Iterator<Item = &'a Variable<'g>>) -> Vec<(String, Type)> {
    variables.map(|v| (v.name.clone(), v.value.ty())).collect()
}

/// An error without a span: there is no source text.
fn refused(message: &str) -> Error {
    Diagnostic::without_span(Code::BadValue, message).into()
}
