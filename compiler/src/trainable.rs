//! A trainable: what the compiler pipeline starts from, whatever it was made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diag::{Code, Diagnostic};
use crate::ir::graph::{Graph, State, Type};
use crate::lower::{self, Binding, Context, FetchSet, Lowered, ProgramKind};
use crate::typed::Spec;

/// Something that can be trained: the graphs of its programs, and the names and types of its state. Nodes of a graph carry the spans
/// they came from.
///
/// ```
/// use trainspec_compiler::ir::build::Builder;
/// use trainspec_compiler::ir::graph::Type;
/// use trainspec_compiler::ir::DType;
/// use trainspec_compiler::{ProgramKind, Trainable};
///
/// let b = Builder::new("step");
/// let w = b.read("w", &Type::new(DType::F32, &[3]));
/// b.write("w", w * 0.5);
/// let trainable = Trainable::from_graphs([(ProgramKind::Step, b.finish())]);
/// assert_eq!(trainable.state().unwrap()[0].name, "w");
/// ```
#[derive(Debug, Clone)]
pub enum Trainable {
    /// A checked spec; its graphs depend on the sizes of its named dimensions.
    Spec(Arc<Spec>),
    /// Graphs that were built in Rust.
    Graphs(Arc<BTreeMap<ProgramKind, Graph>>),
}

impl From<Arc<Spec>> for Trainable {
    fn from(spec: Arc<Spec>) -> Trainable {
        Trainable::Spec(spec)
    }
}

impl Trainable {
    /// A trainable of graphs that were built in Rust.
    pub fn from_graphs(graphs: impl IntoIterator<Item = (ProgramKind, Graph)>) -> Trainable {
        Trainable::Graphs(Arc::new(graphs.into_iter().collect()))
    }

    /// The graph of a program with these sizes of named dimensions.
    pub fn lower(&self, kind: ProgramKind, dims: &Binding) -> Result<Lowered, Diagnostic> {
        match self {
            Trainable::Spec(spec) => lower::program_graph(&Context::new(spec, dims), kind),
            Trainable::Graphs(graphs) => match graphs.get(&kind) {
                Some(graph) => Ok(graph.clone().into()),
                None => {
                    let message = format!("there is no graph for the program `{kind}`");
                    Err(Diagnostic::without_span(Code::MissingItem, message))
                }
            },
        }
    }

    /// What a run fetches from a program.
    pub fn fetches(&self, kind: ProgramKind) -> FetchSet {
        match self {
            Trainable::Spec(spec) => kind.fetches(spec),
            Trainable::Graphs(_) => FetchSet::All,
        }
    }

    /// The names and types of all state, in the order in which it is kept.
    pub fn state(&self) -> Result<Vec<State>, Diagnostic> {
        match self {
            Trainable::Spec(_) => {
                let initial = self.lower(ProgramKind::Initial, &Binding::new())?.graph;
                let state = |(name, value): &(String, _)| State {
                    name: name.clone(),
                    ty: Type::clone(initial.ty(*value)),
                };
                Ok(initial.results.iter().map(state).collect())
            }
            Trainable::Graphs(graphs) => {
                let mut all: Vec<State> = Vec::new();
                for state in graphs.values().flat_map(|graph| &graph.state) {
                    if !all.contains(state) {
                        all.push(state.clone());
                    }
                }
                Ok(all)
            }
        }
    }
}
