//! Every rule that a graph keeps.

use std::collections::HashSet;
use std::fmt;

use crate::graph::{Graph, Node, NodeKind, PrimCall, Scan, Type};
use crate::types::DType;

/// A rule that a graph breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The place of the node among the nodes of the graph, where it is one.
    pub node: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "node {node}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Broken {}

/// Checks a graph. The rules:
///
/// 1. Each value is made by just one node, and each node uses only values of nodes before it.
/// 2. The elements of a value are numbers or truths, never strings.
/// 3. Inputs, constants and reads have no operands and one result; inputs have names of their own.
/// 4. A constant has the type of its value; a read has the type of its state.
/// 5. A primitive has the attributes that it declares, and its results have the types that its rule gives.
/// 6. A loop has the operands and results that its round asks for and gives; a round keeps all these rules, its inputs come
///    first and in order, and it has no state.
/// 7. State has names of its own. A write gives a value of the state's type, and each piece of state is written once at the most.
/// 8. Results are values of the graph.
pub fn verify(graph: &Graph) -> Result<(), Broken> {
    let mut made = vec![false; graph.types.len()];
    let mut names = HashSet::new();
    for (place, node) in graph.nodes.iter().enumerate() {
        let broken = |message: String| Broken {
            node: Some(place),
            message,
        };
        for operand in &node.operands {
            if !made.get(operand.index()).copied().unwrap_or(false) {
                return Err(broken(format!("%{} is used before it is made", operand.0)));
            }
        }
        for result in &node.results {
            match made.get_mut(result.index()) {
                None => return Err(broken(format!("%{} has no type", result.0))),
                Some(true) => return Err(broken(format!("%{} is made twice", result.0))),
                Some(made) => *made = true,
            }
            if graph.ty(*result).dtype == DType::String {
                return Err(broken(format!(
                    "%{} is a string, which is not computed with",
                    result.0
                )));
            }
        }
        if let NodeKind::Input(name) = &node.kind
            && !names.insert(name)
        {
            return Err(broken(format!("there are two inputs `{name}`")));
        }
        check(graph, node).map_err(broken)?;
    }
    ends(graph, &made).map_err(|message| Broken {
        node: None,
        message,
    })
}

/// Rules 3 to 6.
fn check(graph: &Graph, node: &Node) -> Result<(), String> {
    let results: Vec<&Type> = node.results.iter().map(|v| graph.ty(*v)).collect();
    let operands: Vec<&Type> = node.operands.iter().map(|v| graph.ty(*v)).collect();
    let leaf = |ty: Option<&Type>| {
        if !operands.is_empty() || results.len() != 1 {
            return Err("an input, a constant or a read has no operands and one result".to_owned());
        }
        match ty.filter(|ty| **ty != *results[0]) {
            Some(ty) => Err(format!("the value is {ty}, but the result {}", results[0])),
            None => Ok(()),
        }
    };
    match &node.kind {
        NodeKind::Input(_) => leaf(None),
        NodeKind::Const(tensor) => leaf(Some(&tensor.ty())),
        NodeKind::Read(state) => match graph.state.get(state.index()) {
            Some(state) => leaf(Some(&state.ty)),
            None => Err(format!("there is no state {}", state.0)),
        },
        NodeKind::Prim(prim, attrs) => {
            let kinds = attrs.iter().map(|a| a.kind());
            if !kinds.eq(prim.attrs.iter().map(|(_, kind)| *kind)) {
                return Err(format!("`{}` has other attributes: {attrs:?}", prim.name));
            }
            let call = PrimCall {
                prim,
                operands: &operands,
                attrs,
            };
            let types = (prim.infer)(&call).map_err(|wrong| format!("`{}`: {wrong}", prim.name))?;
            match types.iter().eq(results.iter().copied()) {
                true => Ok(()),
                false => Err(format!(
                    "`{}` makes {}, not {}",
                    prim.name,
                    list(types.iter()),
                    list(results.into_iter())
                )),
            }
        }
        NodeKind::Scan(scan) => check_scan(scan, &operands, &results),
    }
}

fn check_scan(scan: &Scan, operands: &[&Type], results: &[&Type]) -> Result<(), String> {
    if scan.captures + scan.carries > operands.len() {
        return Err("a loop has fewer operands than captures and carried values".to_owned());
    }
    verify(&scan.body).map_err(|b| format!("in the round: {b}"))?;
    if !scan.body.state.is_empty() || !scan.body.writes.is_empty() {
        return Err("a round has no state".to_owned());
    }
    let (same, over) = operands.split_at(scan.captures + scan.carries);
    let mut inputs: Vec<Type> = same.iter().map(|ty| (*ty).clone()).collect();
    for ty in over {
        if ty.shape.first() != Some(&scan.length) {
            return Err(format!("{ty} cannot be walked in {} rounds", scan.length));
        }
        inputs.push(ty.with_shape(&ty.shape[1..]));
    }
    inputs.push(Type::scalar(DType::I64));
    let is_input = |n: &Node| matches!(n.kind, NodeKind::Input(_));
    if !scan.body.nodes.iter().take(inputs.len()).all(is_input)
        || scan.body.inputs().count() != inputs.len()
    {
        return Err(format!(
            "a round must begin with its {} inputs",
            inputs.len()
        ));
    }
    let found: Vec<&Type> = scan.body.inputs().map(|(_, v)| scan.body.ty(v)).collect();
    if !found.iter().copied().eq(&inputs) {
        return Err(format!(
            "the round takes {}, but is given {}",
            list(found.into_iter()),
            list(inputs.iter())
        ));
    }
    let mut types: Vec<Type> = scan
        .body
        .results
        .iter()
        .map(|(_, v)| scan.body.ty(*v).clone())
        .collect();
    if types.len() < scan.carries
        || !types
            .iter()
            .zip(&operands[scan.captures..])
            .take(scan.carries)
            .all(|(a, b)| a == *b)
    {
        return Err("a round must carry on what it was given".to_owned());
    }
    types[scan.carries..]
        .iter_mut()
        .for_each(|ty| ty.shape.insert(0, scan.length));
    match types.iter().eq(results.iter().copied()) {
        true => Ok(()),
        false => Err(format!(
            "the loop makes {}, not {}",
            list(types.iter()),
            list(results.iter().copied())
        )),
    }
}

/// Rules 7 and 8.
fn ends(graph: &Graph, made: &[bool]) -> Result<(), String> {
    let exists = |v: crate::graph::ValueId| made.get(v.index()).copied().unwrap_or(false);
    let mut names = HashSet::new();
    if let Some(twice) = graph.state.iter().find(|s| !names.insert(&s.name)) {
        return Err(format!("there are two pieces of state `{}`", twice.name));
    }
    let mut written = HashSet::new();
    for write in &graph.writes {
        let Some(state) = graph.state.get(write.state.index()) else {
            return Err(format!("there is no state {}", write.state.0));
        };
        if !exists(write.value) {
            return Err(format!(
                "`{}` is given a value that is never made",
                state.name
            ));
        }
        if *graph.ty(write.value) != state.ty {
            return Err(format!(
                "`{}` is {}, but is given {}",
                state.name,
                state.ty,
                graph.ty(write.value)
            ));
        }
        if !written.insert(write.state) {
            return Err(format!("`{}` is written twice", state.name));
        }
    }
    match graph.results.iter().find(|(_, v)| !exists(*v)) {
        Some((name, _)) => Err(format!("the result `{name}` is never made")),
        None => Ok(()),
    }
}

fn list<'a>(types: impl Iterator<Item = &'a Type>) -> String {
    types.map(|t| t.to_string()).collect::<Vec<_>>().join(", ")
}
