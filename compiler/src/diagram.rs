//! The model as a diagram: a node for each input, layer, operation and result, and the tensors between them.
//!
//! In: a checked spec. Out: nodes and edges, with blocks and functions collapsed into one node each. Leaves alone: constants, what nothing
//! depends on, and how a diagram is written.

use std::collections::{BTreeMap, BTreeSet};

use crate::dataflow::{Dataflow, operands};
use crate::ir::TensorType;
use crate::typed::{Call, NodeKind, Program, Spec, ValueId, VarId};

/// A diagram of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagram {
    /// The nodes, in the order in which the model computes them.
    pub nodes: Vec<DiagramNode>,
    /// The tensors between nodes.
    pub edges: Vec<DiagramEdge>,
    /// The layers that are drawn around nodes, where more than one level is shown; each after the one around it.
    pub groups: Vec<DiagramGroup>,
}

/// A node of a diagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagramNode {
    /// What it is.
    pub kind: DiagramNodeKind,
    /// Its name: of an input, the scope of a block, a function, an operation, a result.
    pub name: String,
    /// The definition of a block, where the name is not that; else empty.
    pub definition: String,
    /// The number of elements of its variables.
    pub parameters: u64,
    /// The group that it is in, by its index.
    pub group: Option<usize>,
}

/// The kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagramNodeKind {
    /// An input of the model.
    Input,
    /// A variable that the model declares itself.
    Variable,
    /// A block.
    Block,
    /// A function.
    Function,
    /// An operation.
    Operation,
    /// A loss.
    Loss,
    /// A metric.
    Metric,
    /// An output.
    Output,
}

/// A tensor that a node gives to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagramEdge {
    /// The node that computes it.
    pub from: usize,
    /// The node that reads it.
    pub to: usize,
    /// Its type.
    pub ty: TensorType,
}

/// A layer that is drawn around the nodes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagramGroup {
    /// The scope of a block, or the name of a function.
    pub name: String,
    /// The group around it.
    pub group: Option<usize>,
}

/// What lies in a group directly, by index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupMembers {
    /// The nodes.
    pub nodes: Vec<usize>,
    /// The groups.
    pub groups: Vec<usize>,
}

impl Diagram {
    /// The members of each group; those of `None` lie in no group.
    ///
    /// ```
    /// use trainspec_compiler::Diagram;
    ///
    /// assert!(Diagram::default().members().is_empty());
    /// ```
    pub fn members(&self) -> BTreeMap<Option<usize>, GroupMembers> {
        let mut members: BTreeMap<Option<usize>, GroupMembers> = BTreeMap::new();
        for (i, node) in self.nodes.iter().enumerate() {
            members.entry(node.group).or_default().nodes.push(i);
        }
        for (i, group) in self.groups.iter().enumerate() {
            members.entry(group.group).or_default().groups.push(i);
        }
        members
    }

    /// The diagram of a model while it is trained, with `levels` levels of layers; `None` where the spec has no model.
    ///
    /// ```
    /// use trainspec_compiler::{Compilation, Diagram, source::NoFiles};
    ///
    /// let text = "spec a; model (x: f32[batch, 4]) { output y = x |> dense(8) |> relu; }";
    /// let spec = Compilation::check("a", text, &NoFiles, &Default::default()).spec.unwrap();
    /// let diagram = Diagram::of(&spec, 1).unwrap();
    /// let names: Vec<&str> = diagram.nodes.iter().map(|node| node.name.as_str()).collect();
    /// assert_eq!(names, ["x", "dense", "relu", "y"]);
    /// assert_eq!(diagram.edges[1].ty.to_string(), "f32[batch, 8]");
    /// ```
    pub fn of(spec: &Spec, levels: usize) -> Option<Diagram> {
        let mode = &spec.model.as_ref()?.train;
        let program = &mode.program;
        let flow = Dataflow::new(program);
        let results = [
            (DiagramNodeKind::Loss, &mode.losses),
            (DiagramNodeKind::Metric, &mode.metrics),
            (DiagramNodeKind::Output, &mode.outputs),
        ];
        let all = results.iter().flat_map(|(_, named)| named.iter());
        let needed = flow.ancestors(all.map(|(_, value)| *value));
        let mut drawing = Drawing {
            spec,
            program,
            flow,
            levels: levels.max(1),
            diagram: Diagram::default(),
            next_call: 0,
            open_calls: Vec::new(),
            calls: BTreeMap::new(),
            groups: BTreeMap::new(),
            values: BTreeMap::new(),
            drawn: BTreeSet::new(),
        };
        for node in &program.nodes {
            if node.results.iter().any(|id| needed[id.0 as usize]) {
                drawing.node(node);
            }
        }
        for (kind, named) in results {
            for (name, value) in named {
                let to = drawing.push(kind, name.clone(), None);
                drawing.edge(*value, to);
            }
        }
        Some(drawing.diagram)
    }
}

/// A diagram under construction.
struct Drawing<'s> {
    spec: &'s Spec,
    program: &'s Program,
    flow: Dataflow<'s>,
    levels: usize,
    diagram: Diagram,
    /// The first call that begins after the last value.
    next_call: usize,
    /// The calls that the last value was made in.
    open_calls: Vec<usize>,
    /// The node of each collapsed call.
    calls: BTreeMap<usize, usize>,
    /// The group of each call that is drawn open.
    groups: BTreeMap<usize, usize>,
    /// The node of each value.
    values: BTreeMap<ValueId, usize>,
    /// Edges that are there.
    drawn: BTreeSet<(usize, usize, String)>,
}

impl Drawing<'_> {
    fn node(&mut self, node: &crate::typed::Node) {
        // Constants say nothing, and writes are no part of the data flow.
        if matches!(node.kind, NodeKind::Const(_) | NodeKind::Write(..)) {
            return;
        }
        let around = self.calls_around(node.results.first);
        let collapsed = around.iter().find(|i| self.is_collapsed(**i)).copied();
        let open = around.iter().take_while(|i| Some(**i) != collapsed);
        let group = open.fold(None, |outer, i| Some(self.group(*i, outer)));
        let index = match collapsed {
            Some(call) => self.call(call, group),
            None => {
                let (kind, name) = match &node.kind {
                    NodeKind::Input(input) => (DiagramNodeKind::Input, input.to_string()),
                    NodeKind::Read(id) => {
                        let name = self.spec.variables[id.0 as usize].name.clone();
                        (DiagramNodeKind::Variable, name)
                    }
                    NodeKind::Step => (DiagramNodeKind::Input, "step".to_owned()),
                    NodeKind::Op { op, .. } => (DiagramNodeKind::Operation, op.name.to_owned()),
                    NodeKind::Scan(_) => (DiagramNodeKind::Operation, "scan".to_owned()),
                    NodeKind::Grad { .. } => (DiagramNodeKind::Operation, "grad".to_owned()),
                    NodeKind::Hessian { .. } => (DiagramNodeKind::Operation, "hessian".to_owned()),
                    NodeKind::Const(_) | NodeKind::Write(..) => return,
                };
                let index = self.push(kind, name, group);
                if let NodeKind::Read(id) = &node.kind {
                    self.diagram.nodes[index].parameters = self.parameters([*id]);
                }
                index
            }
        };
        for value in node.results.iter() {
            self.values.insert(value, index);
        }
        for value in operands(node) {
            self.edge(value, index);
        }
    }

    /// The calls that made a value, the outermost first. Values are asked for in order.
    fn calls_around(&mut self, value: ValueId) -> Vec<usize> {
        let calls = &self.program.calls;
        while let Some(call) = calls.get(self.next_call)
            && call.values.start <= value.0
        {
            self.open_calls.push(self.next_call);
            self.next_call += 1;
        }
        self.open_calls.retain(|i| calls[*i].values.end > value.0);
        self.open_calls.clone()
    }

    /// Whether a call is one node: what is in it is too deep, or there is no block in it.
    fn is_collapsed(&self, index: usize) -> bool {
        if self.calls.contains_key(&index) || self.groups.contains_key(&index) {
            return self.calls.contains_key(&index);
        }
        let call = &self.program.calls[index];
        let inside = self.program.calls[index + 1..].iter();
        let mut inside = inside.take_while(|inner| inner.depth > call.depth);
        call.depth + 1 >= self.levels || !inside.any(|inner| inner.scope.is_some())
    }

    fn group(&mut self, call: usize, outer: Option<usize>) -> usize {
        if let Some(group) = self.groups.get(&call) {
            return *group;
        }
        self.diagram.groups.push(DiagramGroup {
            name: name_of(&self.program.calls[call]),
            group: outer,
        });
        let group = self.diagram.groups.len() - 1;
        self.groups.insert(call, group);
        group
    }

    /// The node of a collapsed call.
    fn call(&mut self, index: usize, group: Option<usize>) -> usize {
        if let Some(node) = self.calls.get(&index) {
            return *node;
        }
        let call = &self.program.calls[index];
        let kind = match call.scope {
            Some(_) => DiagramNodeKind::Block,
            None => DiagramNodeKind::Function,
        };
        let variables: BTreeSet<VarId> = self.flow.variables(&call.values).collect();
        let node = self.push(kind, name_of(call), group);
        let shown = &mut self.diagram.nodes[node];
        if shown.name != call.definition {
            shown.definition.clone_from(&call.definition);
        }
        self.diagram.nodes[node].parameters = self.parameters(variables);
        self.calls.insert(index, node);
        node
    }

    fn parameters(&self, variables: impl IntoIterator<Item = VarId>) -> u64 {
        let types = variables
            .into_iter()
            .map(|id| &self.spec.variables[id.0 as usize].ty);
        let sizes = types.filter_map(|ty| ty.shape.elements()?.value());
        sizes.map(|n| u64::try_from(n).unwrap_or(0)).sum()
    }

    fn push(&mut self, kind: DiagramNodeKind, name: String, group: Option<usize>) -> usize {
        self.diagram.nodes.push(DiagramNode {
            kind,
            name,
            definition: String::new(),
            parameters: 0,
            group,
        });
        self.diagram.nodes.len() - 1
    }

    /// An edge for a value, unless it stays within a node, or the two have one of its type already.
    fn edge(&mut self, value: ValueId, to: usize) {
        let Some(from) = self.values.get(&value).copied() else {
            return;
        };
        let ty = &self.program.values[value.0 as usize];
        if from != to && self.drawn.insert((from, to, ty.to_string())) {
            self.diagram.edges.push(DiagramEdge {
                from,
                to,
                ty: TensorType::clone(ty),
            });
        }
    }
}

fn name_of(call: &Call) -> String {
    call.scope
        .clone()
        .unwrap_or_else(|| call.definition.clone())
}
