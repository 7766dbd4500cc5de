//! The interface of a spec: the names and types that a program which embeds it is compiled against.
//!
//! In: a typed spec, perhaps one with errors. Out: its inputs, losses, metrics, outputs and variables. The macro generates a module from
//! it; a session that sets constants compares its own with that of the module.

use std::fmt;

use trainspec_ir::{Span, TensorType};

use crate::typed::{Mode, Spec, ValueId};

/// A name of an interface with its type.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name in the spec; of a variable the one that checkpoints have.
    pub name: String,
    /// The type.
    pub ty: TensorType,
    /// The range of an input's integers, where it has one: start inclusive, end exclusive.
    pub bounds: Option<(i64, i64)>,
    /// The span of its declaration, where the typed spec has it.
    pub span: Option<Span>,
}

/// The interface of a spec.
///
/// ```
/// use trainspec_frontend::check::check;
/// use trainspec_frontend::interface::Interface;
/// use trainspec_frontend::source::{NoFiles, Sources};
///
/// let text = "spec tiny; model (x: f32[batch, 2], y: f32[batch]) {
///     let guess = squeeze(dense(x, 1), -1);
///     loss mean(square(guess - y));
///     output prediction = guess;
/// }";
/// let mut sources = Sources::default();
/// let root = sources.add("tiny", text);
/// let spec = check(&mut sources, root, &NoFiles, &Default::default()).spec.unwrap();
/// let interface = Interface::of(&spec);
/// assert_eq!(interface.inputs.len(), 2);
/// assert_eq!(interface.prediction_inputs, ["x"]);
/// assert!(interface.to_string().contains("output prediction: f32[batch]"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Interface {
    /// The inputs of the model.
    pub inputs: Vec<Member>,
    /// The names of the inputs that the outputs depend on, in the order of the inputs.
    pub prediction_inputs: Vec<String>,
    /// The losses.
    pub losses: Vec<Member>,
    /// The metrics.
    pub metrics: Vec<Member>,
    /// The outputs.
    pub outputs: Vec<Member>,
    /// The variables.
    pub variables: Vec<Member>,
}

impl Interface {
    /// The interface of a spec.
    pub fn of(spec: &Spec) -> Interface {
        let variables = spec.variables.iter().map(|variable| Member {
            name: variable.name.clone(),
            ty: variable.ty.clone(),
            bounds: None,
            span: Some(variable.span),
        });
        let variables = variables.collect();
        let Some(model) = &spec.model else {
            return Interface {
                variables,
                ..Interface::default()
            };
        };
        let members = |mode: &Mode, list: &[(String, ValueId)]| {
            let member = |(name, value): &(String, ValueId)| Member {
                name: name.clone(),
                ty: TensorType::clone(&mode.program.values[value.0 as usize]),
                bounds: None,
                span: None,
            };
            list.iter().map(member).collect::<Vec<_>>()
        };
        let outputs = model.eval.outputs.iter().map(|(_, value)| *value);
        let needed = model.eval.program.inputs_of(outputs);
        let inputs = model.inputs.iter();
        Interface {
            prediction_inputs: (inputs.clone().map(|input| input.name.clone()))
                .filter(|name| needed.contains(name))
                .collect(),
            inputs: inputs
                .map(|input| Member {
                    name: input.name.clone(),
                    ty: input.ty.clone(),
                    bounds: input.bounds,
                    span: Some(input.span),
                })
                .collect(),
            losses: members(&model.train, &model.train.losses),
            metrics: members(&model.train, &model.train.metrics),
            outputs: members(&model.eval, &model.eval.outputs),
            variables,
        }
    }

    /// The first line in which another interface, as text, differs: both lines, or `None` where it does not.
    pub fn difference(&self, other: &str) -> Option<(String, String)> {
        let text = self.to_string();
        let (mut own, mut others) = (text.lines(), other.lines());
        loop {
            match (own.next(), others.next()) {
                (None, None) => return None,
                (a, b) if a == b => {}
                (a, b) => {
                    let shown = |line: Option<&str>| line.unwrap_or("nothing").to_owned();
                    return Some((shown(a), shown(b)));
                }
            }
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = [
            ("input", &self.inputs),
            ("loss", &self.losses),
            ("metric", &self.metrics),
            ("output", &self.outputs),
            ("variable", &self.variables),
        ];
        for (kind, members) in groups {
            for member in members {
                writeln!(f, "{kind} {}: {}", member.name, member.ty)?;
            }
        }
        writeln!(f, "predict ({})", self.prediction_inputs.join(", "))
    }
}
