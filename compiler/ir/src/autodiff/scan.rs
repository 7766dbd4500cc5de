//! The VJP of a scan: a scan in the other direction (backpropagation through time).
//!
//! The backward body carries the cotangents of the carried values and the sums of those of the captures. Its residuals (what it
//! needs of the forward body) are yielded by the forward loop, which is extended for that, so memory grows with the number of
//! iterations and nothing but constants is computed twice (no gradient checkpointing).

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::autodiff::{Cotangent, Request, active_nodes};
use crate::build::{Builder, Iteration, Loop, Value, body_inputs};
use crate::graph::{Graph, Node, NodeKind, Scan, Type, ValueId};

/// The cotangents of the operands of the loop that is node `index`.
pub(super) fn vjp<'g>(
    b: &'g Builder,
    index: usize,
    node: &Node,
    dys: &[Option<Value<'g>>],
    needs_grad: &[bool],
) -> Vec<Option<Cotangent<'g>>> {
    let NodeKind::Scan(scan) = &node.kind else {
        unreachable!("only loops are sent here");
    };
    let active = active_inputs(scan, needs_grad);
    let (yields, forward) = (
        scan.body.results.len() - scan.carries,
        scan.body.nodes.len(),
    );
    let with_cotangent: Vec<usize> = (0..yields)
        .filter(|j| dys[scan.carries + j].is_some())
        .collect();

    // The forward body and, after it, its VJP.
    let joint = Builder::resume(scan.body.clone());
    let body_vjp = body_vjp(&joint, scan, &active, &with_cotangent);
    let joint = joint.into_graph();
    let residuals = Residuals::find(scan, &joint, forward, &body_vjp);

    let mut stacked = Vec::new();
    let mut body = joint.clone();
    body.nodes.truncate(forward);
    for value in &residuals.yielded {
        match scan.body.results[scan.carries..]
            .iter()
            .position(|(_, v)| v == value)
        {
            Some(j) => stacked.push(Some(b.value(node.results[scan.carries + j]))),
            None => {
                let name = format!("yield {}", body.results.len() - scan.carries);
                body.results.push((name, *value));
                stacked.push(None);
            }
        }
    }
    let mut new = b.extend_scan(index, body.renumbered()).into_iter();
    let saved = stacked
        .into_iter()
        .map(|s| s.or_else(|| new.next()).expect("each residual is yielded"));

    let operand = |i: usize| b.value(node.operands[i]);
    let first_element = scan.captures + scan.carries;
    let elements = residuals
        .elements
        .iter()
        .map(|i| operand(first_element + i));
    let seeds = with_cotangent
        .iter()
        .map(|j| dys[scan.carries + j].expect("these have a cotangent"));
    let zeros = |i: &usize| b.full(&operand(*i).ty(), 0.0);
    let last = active
        .carries
        .iter()
        .map(|i| dys[*i].unwrap_or_else(|| zeros(&(scan.captures + i))));
    let spec = Loop {
        length: scan.length,
        reverse: !scan.reverse,
        captures: residuals.captures.iter().map(|i| operand(*i)).collect(),
        starts: last.chain(active.captures.iter().map(zeros)).collect(),
        over: elements.chain(saved).chain(seeds).collect(),
    };
    let body = backward_body(&joint, forward, &residuals, &body_vjp, &spec);
    let (finals, yielded) = b.scan_graph(spec, body);

    let mut cotangents = vec![None; needs_grad.len()];
    for (i, value) in active.carries.iter().zip(&finals) {
        cotangents[scan.captures + i] = Some(Cotangent::Dense(*value));
    }
    for (i, value) in active.captures.iter().zip(&finals[active.carries.len()..]) {
        cotangents[*i] = Some(Cotangent::Dense(*value));
    }
    for (i, value) in active.elements.iter().zip(yielded) {
        cotangents[first_element + i] = Some(Cotangent::Dense(value));
    }
    cotangents
}

/// The inputs of the body that have a cotangent, by their index among those of their kind.
struct ActiveInputs {
    captures: Vec<usize>,
    carries: Vec<usize>,
    elements: Vec<usize>,
}

/// The inputs that need a gradient, and all carried values that depend on them in some iteration (a fixed point).
fn active_inputs(scan: &Scan, needs_grad: &[bool]) -> ActiveInputs {
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    let (first_carry, first_element) = (scan.captures, scan.captures + scan.carries);
    let mut active = needs_grad.to_vec();
    loop {
        let xs = (0..needs_grad.len())
            .filter(|i| active[*i])
            .map(|i| inputs[i]);
        let (depends, _) = active_nodes(&scan.body, 0..scan.body.nodes.len(), xs, &HashSet::new());
        let nexts = scan
            .body
            .results
            .iter()
            .take(scan.carries)
            .map(|(_, v)| depends[v.index()]);
        let grown = nexts
            .enumerate()
            .filter(|(i, depends)| *depends && !active[first_carry + i]);
        let grown: Vec<usize> = grown.map(|(i, _)| first_carry + i).collect();
        if grown.is_empty() {
            break;
        }
        grown.into_iter().for_each(|i| active[i] = true);
    }
    ActiveInputs {
        captures: (0..first_carry).filter(|i| active[*i]).collect(),
        carries: (0..scan.carries)
            .filter(|i| active[first_carry + i])
            .collect(),
        elements: (0..needs_grad.len() - first_element)
            .filter(|i| active[first_element + i])
            .collect(),
    }
}

/// The VJP of one iteration, as values that follow the forward body.
struct BodyVjp {
    /// The cotangents of the next carried values, then of the yielded ones: inputs.
    seeds: Vec<ValueId>,
    /// The cotangents of the carried values.
    carries: Vec<ValueId>,
    /// The cotangents of the captures.
    captures: Vec<ValueId>,
    /// The cotangents of the elements.
    elements: Vec<ValueId>,
}

/// Appends the VJP of one iteration to the forward body in `joint`.
fn body_vjp(
    joint: &Builder,
    scan: &Scan,
    active: &ActiveInputs,
    with_cotangent: &[usize],
) -> BodyVjp {
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    let results: Vec<ValueId> = scan.body.results.iter().map(|(_, v)| *v).collect();
    let ys: Vec<Value<'_>> = active
        .carries
        .iter()
        .copied()
        .chain(with_cotangent.iter().map(|j| scan.carries + j))
        .map(|i| joint.value(results[i]))
        .collect();
    let seeds: Vec<Value<'_>> = ys
        .iter()
        .enumerate()
        .map(|(i, y)| joint.input(&format!("seed {i}"), &y.ty()))
        .collect();
    let first_element = scan.captures + scan.carries;
    let carries = active.carries.iter().map(|i| scan.captures + i);
    let elements = active.elements.iter().map(|i| first_element + i);
    let indices = carries
        .chain(active.captures.iter().copied())
        .chain(elements);
    let xs: Vec<Value<'_>> = indices.map(|i| joint.value(inputs[i])).collect();
    let seeded = seeds.iter().map(|s| Some(*s)).collect();
    let gradients = joint.differentiate(&Request {
        ys,
        xs: xs.clone(),
        seeds: seeded,
        stop_gradients: Vec::new(),
    });
    let dense = |(x, gradient): (&Value<'_>, Option<Cotangent<'_>>)| match gradient {
        Some(cotangent) => cotangent.dense().id(),
        None => joint.full(&x.ty(), 0.0).id(),
    };
    let mut carries: Vec<ValueId> = xs.iter().zip(gradients).map(dense).collect();
    let elements = carries.split_off(active.carries.len() + active.captures.len());
    let captures = carries.split_off(active.carries.len());
    BodyVjp {
        seeds: seeds.iter().map(|s| s.id()).collect(),
        carries,
        captures,
        elements,
    }
}

/// The residuals: what the backward body needs of the forward body.
struct Residuals {
    /// Captures, by their index.
    captures: Vec<usize>,
    /// Elements, by their index.
    elements: Vec<usize>,
    /// Values that the forward loop must yield.
    yielded: Vec<ValueId>,
    /// Constant nodes, which are rematerialized.
    rematerialized: Vec<usize>,
    /// The inputs of the body.
    inputs: Vec<ValueId>,
    /// The index of the first element among them.
    first_element: usize,
}

impl Residuals {
    /// The values before node `forward` of the joint graph that the nodes from there on use, by how they are provided.
    fn find(scan: &Scan, joint: &Graph, forward: usize, body_vjp: &BodyVjp) -> Residuals {
        let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
        let mut def = HashMap::new();
        let mut constant = vec![false; forward];
        for (index, node) in joint.nodes[..forward].iter().enumerate() {
            let known = |v: &ValueId| constant[def[v]];
            constant[index] = !matches!(node.kind, NodeKind::Input(_) | NodeKind::Scan(_))
                && node.operands.iter().all(known);
            node.results.iter().for_each(|v| {
                def.insert(*v, index);
            });
        }
        let outputs = body_vjp
            .carries
            .iter()
            .chain(&body_vjp.captures)
            .chain(&body_vjp.elements);
        let operands = joint.nodes[forward..].iter().flat_map(|n| &n.operands);
        let used: BTreeSet<ValueId> = operands
            .chain(outputs)
            .filter(|v| def.contains_key(v))
            .copied()
            .collect();
        let first_element = scan.captures + scan.carries;
        let mut residuals = Residuals {
            captures: Vec::new(),
            elements: Vec::new(),
            yielded: Vec::new(),
            rematerialized: Vec::new(),
            inputs,
            first_element,
        };
        let mut rematerialized = BTreeSet::new();
        let position = residuals.inputs.len() - 1;
        for value in used {
            match residuals.inputs.iter().position(|v| *v == value) {
                Some(i) if i < scan.captures => residuals.captures.push(i),
                Some(i) if i < first_element => residuals.yielded.push(value),
                Some(i) if i < position => residuals.elements.push(i - first_element),
                Some(_) => {}
                None if constant[def[&value]] => {
                    backward_slice(joint, &def, def[&value], &mut rematerialized)
                }
                None => residuals.yielded.push(value),
            }
        }
        residuals.rematerialized = rematerialized.into_iter().collect();
        residuals
    }
}

/// The backward slice of a node: the node and all that it depends on.
fn backward_slice(
    joint: &Graph,
    def: &HashMap<ValueId, usize>,
    root: usize,
    slice: &mut BTreeSet<usize>,
) {
    let mut worklist = vec![root];
    while let Some(index) = worklist.pop() {
        if slice.insert(index) {
            worklist.extend(joint.nodes[index].operands.iter().map(|v| def[v]));
        }
    }
}

/// The body of the backward loop: the VJP of the joint graph, with the residuals and the cotangents as inputs.
fn backward_body(
    joint: &Graph,
    forward: usize,
    residuals: &Residuals,
    body_vjp: &BodyVjp,
    spec: &Loop<'_>,
) -> Graph {
    let body = Builder::new("");
    let types = |values: &[Value<'_>]| values.iter().map(|v| v.ty()).collect::<Vec<Type>>();
    let element = |ty: Type| ty.with_shape(&ty.shape[1..]);
    let elements: Vec<Type> = types(&spec.over).into_iter().map(element).collect();
    let iteration = body_inputs(
        &body,
        &types(&spec.captures),
        &types(&spec.starts),
        &elements,
    );
    let Iteration {
        captures,
        carries,
        elements,
        position,
    } = iteration;
    let mut map: HashMap<ValueId, Value<'_>> = HashMap::new();
    let last = residuals.inputs.len() - 1;
    map.insert(residuals.inputs[last], position);
    for (i, value) in residuals.captures.iter().zip(&captures) {
        map.insert(residuals.inputs[*i], *value);
    }
    let (forward_elements, rest) = elements.split_at(residuals.elements.len());
    let (saved, yield_cotangents) = rest.split_at(residuals.yielded.len());
    for (i, value) in residuals.elements.iter().zip(forward_elements) {
        map.insert(residuals.inputs[residuals.first_element + i], *value);
    }
    for (id, value) in residuals.yielded.iter().zip(saved) {
        map.insert(*id, *value);
    }
    let (carry_cotangents, sums) = carries.split_at(body_vjp.carries.len());
    let cotangents = carry_cotangents.iter().chain(yield_cotangents);
    for (id, value) in body_vjp.seeds.iter().zip(cotangents) {
        map.insert(*id, *value);
    }
    let vjp_nodes = forward..joint.nodes.len();
    for index in residuals.rematerialized.iter().copied().chain(vjp_nodes) {
        let node = &joint.nodes[index];
        if matches!(node.kind, NodeKind::Input(_)) {
            continue;
        }
        let operands: Vec<Value<'_>> = node.operands.iter().map(|v| map[v]).collect();
        let types = node.results.iter().map(|v| joint.ty(*v).clone()).collect();
        let results = body.copy(node, &operands, types);
        map.extend(node.results.iter().copied().zip(results));
    }
    let nexts = body_vjp.carries.iter().map(|id| map[id]);
    let sums = sums
        .iter()
        .zip(&body_vjp.captures)
        .map(|(sum, id)| *sum + map[id]);
    for (i, next) in nexts.chain(sums).enumerate() {
        body.result(&format!("next {i}"), next);
    }
    for (i, id) in body_vjp.elements.iter().enumerate() {
        body.result(&format!("yield {i}"), map[id]);
    }
    body.finish()
}
