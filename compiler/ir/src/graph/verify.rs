//! The graph verifier: every invariant of the IR.

use std::collections::HashSet;
use std::fmt;

use crate::graph::{Graph, Node, NodeKind, PrimCall, Scan, Type};
use crate::types::DType;

/// An invariant that a graph violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyError {
    /// The index of the node among the nodes of the graph, where it is a node's.
    pub node: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "node {node}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for VerifyError {}

/// Verifies a graph. The invariants:
///
/// 1. Each value is defined by just one node (SSA), and each node uses only values of nodes before it.
/// 2. The elements of a value are numbers or bools, never strings.
/// 3. Inputs, constants and reads have no operands and one result; inputs have names of their own.
/// 4. A constant has the type of its value; a read has the type of its state.
/// 5. A primitive has the attributes that it declares, and its results have the types that its type inference gives.
/// 6. A scan has the operands and results that its body takes and gives; a body keeps all these invariants, its inputs come
///    first and in order, and it has no state.
/// 7. State variables have different names. A write gives a value of the variable's type, and each variable is written at most once.
/// 8. Results are values of the graph.
pub fn verify(graph: &Graph) -> Result<(), VerifyError> {
    let mut defined = vec![false; graph.types.len()];
    let mut names = HashSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let error = |message: String| VerifyError {
            node: Some(index),
            message,
        };
        for operand in &node.operands {
            if !defined.get(operand.index()).copied().unwrap_or(false) {
                return Err(error(format!(
                    "%{} is used before it is defined",
                    operand.0
                )));
            }
        }
        for result in &node.results {
            match defined.get_mut(result.index()) {
                None => return Err(error(format!("%{} has no type", result.0))),
                Some(true) => return Err(error(format!("%{} is defined twice", result.0))),
                Some(defined) => *defined = true,
            }
            if graph.ty(*result).dtype == DType::String {
                return Err(error(format!(
                    "%{} is a string, which is not computed with",
                    result.0
                )));
            }
        }
        if let NodeKind::Input(name) = &node.kind
            && !names.insert(name)
        {
            return Err(error(format!("there are two inputs `{name}`")));
        }
        check(graph, node).map_err(error)?;
    }
    check_outputs(graph, &defined).map_err(|message| VerifyError {
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
            let types = (prim.infer)(&call).map_err(|error| format!("`{}`: {error}", prim.name))?;
            match types.iter().eq(results.iter().copied()) {
                true => Ok(()),
                false => Err(format!(
                    "`{}` gives {}, not {}",
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
    verify(&scan.body).map_err(|b| format!("in the loop body: {b}"))?;
    if !scan.body.state.is_empty() || !scan.body.writes.is_empty() {
        return Err("a loop body has no state".to_owned());
    }
    let (invariant, over) = operands.split_at(scan.captures + scan.carries);
    let mut inputs: Vec<Type> = invariant.iter().map(|ty| (*ty).clone()).collect();
    for ty in over {
        if ty.shape.first() != Some(&scan.length) {
            return Err(format!(
                "{ty} cannot be scanned in {} iterations",
                scan.length
            ));
        }
        inputs.push(ty.with_shape(&ty.shape[1..]));
    }
    inputs.push(Type::scalar(DType::I64));
    let is_input = |n: &Node| matches!(n.kind, NodeKind::Input(_));
    if !scan.body.nodes.iter().take(inputs.len()).all(is_input)
        || scan.body.inputs().count() != inputs.len()
    {
        return Err(format!(
            "a loop body must begin with its {} inputs",
            inputs.len()
        ));
    }
    let found: Vec<&Type> = scan.body.inputs().map(|(_, v)| scan.body.ty(v)).collect();
    if !found.iter().copied().eq(&inputs) {
        return Err(format!(
            "the loop body takes {}, but is given {}",
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
        return Err("the carried values of a loop must keep their types".to_owned());
    }
    types[scan.carries..]
        .iter_mut()
        .for_each(|ty| ty.shape.insert(0, scan.length));
    match types.iter().eq(results.iter().copied()) {
        true => Ok(()),
        false => Err(format!(
            "the loop gives {}, not {}",
            list(types.iter()),
            list(results.iter().copied())
        )),
    }
}

/// Rules 7 and 8.
fn check_outputs(graph: &Graph, defined: &[bool]) -> Result<(), String> {
    let exists = |v: crate::graph::ValueId| defined.get(v.index()).copied().unwrap_or(false);
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
                "`{}` is given a value that is never defined",
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
        Some((name, _)) => Err(format!("the result `{name}` is never defined")),
        None => Ok(()),
    }
}

fn list<'a>(types: impl Iterator<Item = &'a Type>) -> String {
    types.map(|t| t.to_string()).collect::<Vec<_>>().join(", ")
}
