//! A program that runs: one interface, whether it is interpreted or compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::{self, Graph, Type};
use trainspec_compiler::ir::{interp, passes};

use crate::{SessionError, State};

/// Values by name: what goes into a program.
pub type Inputs = BTreeMap<String, Tensor>;

/// What a run of a program gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fetched(pub BTreeMap<String, Tensor>);

impl Fetched {
    /// The result of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }
}

/// A program that runs over a state.
pub trait Executable: Debug {
    /// What it takes.
    fn inputs(&self) -> &[(String, Type)];

    /// The state that it reads or writes.
    fn state(&self) -> &[graph::State];

    /// Runs once: all state that it writes has its new value afterwards, or, after an error, its old one. Inputs that it
    /// does not take are left alone.
    fn run(&mut self, inputs: &Inputs, state: &mut State) -> Result<Fetched, SessionError>;
}

/// A program for a graph, with only some of its results.
pub fn prepare(
    mut graph: Graph,
    wanted: &dyn Fn(&str) -> bool,
    disabled: &BTreeSet<String>,
) -> Box<dyn Executable> {
    graph.results.retain(|(name, _)| wanted(name));
    Box::new(Interpreted::new(passes::run(graph, disabled)))
}

/// A graph that is interpreted.
#[derive(Debug)]
pub struct Interpreted {
    graph: Graph,
    inputs: Vec<(String, Type)>,
}

impl Interpreted {
    /// A program for a graph.
    pub fn new(graph: Graph) -> Interpreted {
        let inputs = graph
            .inputs()
            .map(|(name, value)| (name.to_owned(), graph.ty(value).clone()))
            .collect();
        Interpreted { graph, inputs }
    }
}

impl Executable for Interpreted {
    fn inputs(&self) -> &[(String, Type)] {
        &self.inputs
    }

    fn state(&self) -> &[graph::State] {
        &self.graph.state
    }

    fn run(&mut self, inputs: &Inputs, state: &mut State) -> Result<Fetched, SessionError> {
        let place = |piece: &graph::State| {
            state
                .place(&piece.name)
                .unwrap_or_else(|| panic!("the state has no `{}`", piece.name))
        };
        let places: Vec<usize> = self.graph.state.iter().map(place).collect();
        let before: Vec<Tensor> = places.iter().map(|i| state.values()[*i].clone()).collect();
        let outcome = interp::run(&self.graph, inputs, &before)?;
        for (piece, value) in outcome.writes {
            state.set(places[piece], value);
        }
        let names = self.graph.results.iter().map(|(name, _)| name.clone());
        Ok(Fetched(names.zip(outcome.results).collect()))
    }
}
