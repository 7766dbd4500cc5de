//! The gradient of a loop is a loop in the other direction.
//!
//! The backward round carries what flows into the carried values and the sums of what flows into the captures. What it needs
//! of the forward round is yielded by the forward loop, which is extended for that, so memory grows with the number of
//! rounds and nothing is computed twice.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::autodiff::{Cotangent, Request, dependent};
use crate::build::{Builder, Loop, Round, Value, body_inputs};
use crate::graph::{Graph, Node, NodeKind, Scan, Type, ValueId};

/// What flows to the operands of the loop at `place`.
pub(super) fn pull<'g>(
    b: &'g Builder,
    place: usize,
    node: &Node,
    dys: &[Option<Value<'g>>],
    wants: &[bool],
) -> Vec<Option<Cotangent<'g>>> {
    let NodeKind::Scan(scan) = &node.kind else {
        unreachable!("only loops are sent here");
    };
    let wanted = wanted(scan, wants);
    let (yields, forward) = (
        scan.body.results.len() - scan.carries,
        scan.body.nodes.len(),
    );
    let flowing: Vec<usize> = (0..yields)
        .filter(|j| dys[scan.carries + j].is_some())
        .collect();

    // The forward round and, behind it, its gradient.
    let round = Builder::resume(scan.body.clone());
    let slopes = slopes(&round, scan, &wanted, &flowing);
    let both = round.into_graph();
    let needs = Needs::find(scan, &both, forward, &slopes);

    let mut stacked = Vec::new();
    let mut body = both.clone();
    body.nodes.truncate(forward);
    for value in &needs.kept {
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
    let mut new = b.extend_scan(place, body.renumbered()).into_iter();
    let kept = stacked.into_iter().map(|s| {
        s.or_else(|| new.next())
            .expect("each kept value is yielded")
    });

    let operand = |i: usize| b.value(node.operands[i]);
    let first_element = scan.captures + scan.carries;
    let elements = needs.elements.iter().map(|i| operand(first_element + i));
    let flows = flowing
        .iter()
        .map(|j| dys[scan.carries + j].expect("these flow"));
    let zeros = |i: &usize| b.full(&operand(*i).ty(), 0.0);
    let last = wanted
        .carries
        .iter()
        .map(|i| dys[*i].unwrap_or_else(|| zeros(&(scan.captures + i))));
    let walk = Loop {
        length: scan.length,
        reverse: !scan.reverse,
        captures: needs.captures.iter().map(|i| operand(*i)).collect(),
        starts: last.chain(wanted.captures.iter().map(zeros)).collect(),
        over: elements.chain(kept).chain(flows).collect(),
    };
    let body = backward_round(&both, forward, &needs, &slopes, &walk);
    let (finals, yielded) = b.scan_graph(walk, body);

    let mut pulled = vec![None; wants.len()];
    for (i, value) in wanted.carries.iter().zip(&finals) {
        pulled[scan.captures + i] = Some(Cotangent::Dense(*value));
    }
    for (i, value) in wanted.captures.iter().zip(&finals[wanted.carries.len()..]) {
        pulled[*i] = Some(Cotangent::Dense(*value));
    }
    for (i, value) in wanted.elements.iter().zip(yielded) {
        pulled[first_element + i] = Some(Cotangent::Dense(value));
    }
    pulled
}

/// The inputs of a round to which something flows back, by their places among those of their kind.
struct Wanted {
    captures: Vec<usize>,
    carries: Vec<usize>,
    elements: Vec<usize>,
}

/// Those that were asked for, and all carried values that depend on them in some round.
fn wanted(scan: &Scan, wants: &[bool]) -> Wanted {
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    let (first_carry, first_element) = (scan.captures, scan.captures + scan.carries);
    let mut active = wants.to_vec();
    loop {
        let xs = (0..wants.len()).filter(|i| active[*i]).map(|i| inputs[i]);
        let (depends, _) = dependent(&scan.body, 0..scan.body.nodes.len(), xs, &HashSet::new());
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
    Wanted {
        captures: (0..first_carry).filter(|i| active[*i]).collect(),
        carries: (0..scan.carries)
            .filter(|i| active[first_carry + i])
            .collect(),
        elements: (0..wants.len() - first_element)
            .filter(|i| active[first_element + i])
            .collect(),
    }
}

/// The gradient of one round, as values behind the forward round.
struct Slopes {
    /// What flows into the next carried values, then into the yielded ones: inputs.
    seeds: Vec<ValueId>,
    /// What flows to the carried values.
    carries: Vec<ValueId>,
    /// What flows to the captures.
    captures: Vec<ValueId>,
    /// What flows to the elements.
    elements: Vec<ValueId>,
}

fn slopes(round: &Builder, scan: &Scan, wanted: &Wanted, flowing: &[usize]) -> Slopes {
    let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
    let results: Vec<ValueId> = scan.body.results.iter().map(|(_, v)| *v).collect();
    let ys: Vec<Value<'_>> = wanted
        .carries
        .iter()
        .copied()
        .chain(flowing.iter().map(|j| scan.carries + j))
        .map(|i| round.value(results[i]))
        .collect();
    let seeds: Vec<Value<'_>> = ys
        .iter()
        .enumerate()
        .map(|(i, y)| round.input(&format!("seed {i}"), &y.ty()))
        .collect();
    let first_element = scan.captures + scan.carries;
    let carries = wanted.carries.iter().map(|i| scan.captures + i);
    let elements = wanted.elements.iter().map(|i| first_element + i);
    let places = carries
        .chain(wanted.captures.iter().copied())
        .chain(elements);
    let xs: Vec<Value<'_>> = places.map(|i| round.value(inputs[i])).collect();
    let seeded = seeds.iter().map(|s| Some(*s)).collect();
    let found = round.differentiate(&Request {
        ys,
        xs: xs.clone(),
        seeds: seeded,
        stops: Vec::new(),
    });
    let whole = |(x, found): (&Value<'_>, Option<Cotangent<'_>>)| match found {
        Some(cotangent) => cotangent.dense().id(),
        None => round.full(&x.ty(), 0.0).id(),
    };
    let mut found: Vec<ValueId> = xs.iter().zip(found).map(whole).collect();
    let elements = found.split_off(wanted.carries.len() + wanted.captures.len());
    let captures = found.split_off(wanted.carries.len());
    Slopes {
        seeds: seeds.iter().map(|s| s.id()).collect(),
        carries: found,
        captures,
        elements,
    }
}

/// What the gradient of a round needs of the forward round.
struct Needs {
    /// Captures, by their place.
    captures: Vec<usize>,
    /// Elements, by their place.
    elements: Vec<usize>,
    /// Values that the forward loop must yield.
    kept: Vec<ValueId>,
    /// Nodes that depend on nothing, which are made again.
    again: Vec<usize>,
    /// The inputs of the round.
    inputs: Vec<ValueId>,
    /// The place of the first element among them.
    first_element: usize,
}

impl Needs {
    fn find(scan: &Scan, both: &Graph, forward: usize, slopes: &Slopes) -> Needs {
        let inputs: Vec<ValueId> = scan.body.inputs().map(|(_, v)| v).collect();
        let mut maker = HashMap::new();
        let mut constant = vec![false; forward];
        for (place, node) in both.nodes[..forward].iter().enumerate() {
            let known = |v: &ValueId| constant[maker[v]];
            constant[place] = !matches!(node.kind, NodeKind::Input(_) | NodeKind::Scan(_))
                && node.operands.iter().all(known);
            node.results.iter().for_each(|v| {
                maker.insert(*v, place);
            });
        }
        let ends = slopes
            .carries
            .iter()
            .chain(&slopes.captures)
            .chain(&slopes.elements);
        let operands = both.nodes[forward..].iter().flat_map(|n| &n.operands);
        let used: BTreeSet<ValueId> = operands
            .chain(ends)
            .filter(|v| maker.contains_key(v))
            .copied()
            .collect();
        let first_element = scan.captures + scan.carries;
        let (captures, elements, kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut needs = Needs {
            captures,
            elements,
            kept,
            again: Vec::new(),
            inputs,
            first_element,
        };
        let mut again = BTreeSet::new();
        let position = needs.inputs.len() - 1;
        for value in used {
            match needs.inputs.iter().position(|v| *v == value) {
                Some(i) if i < scan.captures => needs.captures.push(i),
                Some(i) if i < first_element => needs.kept.push(value),
                Some(i) if i < position => needs.elements.push(i - first_element),
                Some(_) => {}
                None if constant[maker[&value]] => {
                    again_with(both, &maker, maker[&value], &mut again)
                }
                None => needs.kept.push(value),
            }
        }
        needs.again = again.into_iter().collect();
        needs
    }
}

/// A node that depends on nothing, and what it is made of.
fn again_with(
    both: &Graph,
    maker: &HashMap<ValueId, usize>,
    place: usize,
    again: &mut BTreeSet<usize>,
) {
    let mut open = vec![place];
    while let Some(place) = open.pop() {
        if again.insert(place) {
            open.extend(both.nodes[place].operands.iter().map(|v| maker[v]));
        }
    }
}

/// The round of the backward loop.
fn backward_round(
    both: &Graph,
    forward: usize,
    needs: &Needs,
    slopes: &Slopes,
    walk: &Loop<'_>,
) -> Graph {
    let body = Builder::new("");
    let types = |values: &[Value<'_>]| values.iter().map(|v| v.ty()).collect::<Vec<Type>>();
    let element = |ty: Type| ty.with_shape(&ty.shape[1..]);
    let elements: Vec<Type> = types(&walk.over).into_iter().map(element).collect();
    let round = body_inputs(
        &body,
        &types(&walk.captures),
        &types(&walk.starts),
        &elements,
    );
    let Round {
        captures,
        carries,
        elements,
        position,
    } = round;
    let mut map: HashMap<ValueId, Value<'_>> = HashMap::new();
    let last = needs.inputs.len() - 1;
    map.insert(needs.inputs[last], position);
    for (i, value) in needs.captures.iter().zip(&captures) {
        map.insert(needs.inputs[*i], *value);
    }
    let (taken, rest) = elements.split_at(needs.elements.len());
    let (kept, flows) = rest.split_at(needs.kept.len());
    for (i, value) in needs.elements.iter().zip(taken) {
        map.insert(needs.inputs[needs.first_element + i], *value);
    }
    for (id, value) in needs.kept.iter().zip(kept) {
        map.insert(*id, *value);
    }
    let (flowing_carries, sums) = carries.split_at(slopes.carries.len());
    for (id, value) in slopes.seeds.iter().zip(flowing_carries.iter().chain(flows)) {
        map.insert(*id, *value);
    }
    for place in needs.again.iter().copied().chain(forward..both.nodes.len()) {
        let node = &both.nodes[place];
        if matches!(node.kind, NodeKind::Input(_)) {
            continue;
        }
        let operands: Vec<Value<'_>> = node.operands.iter().map(|v| map[v]).collect();
        let types = node.results.iter().map(|v| both.ty(*v).clone()).collect();
        let results = body.copy(node, &operands, types);
        map.extend(node.results.iter().copied().zip(results));
    }
    let flows = slopes.carries.iter().map(|id| map[id]);
    let sums = sums
        .iter()
        .zip(&slopes.captures)
        .map(|(sum, id)| *sum + map[id]);
    for (i, next) in flows.chain(sums).enumerate() {
        body.result(&format!("next {i}"), next);
    }
    for (i, id) in slopes.elements.iter().enumerate() {
        body.result(&format!("yield {i}"), map[id]);
    }
    body.finish()
}
