//! Rematerialization: values that are cheaper to recompute in their consumers than to store.
//!
//! In: kernels. Out: the same, where a loop no longer stores a value that its consumers can recompute, by one cheap operation, from other
//! values that they load. A gradient reads most of what the forward pass computed, and much of that is a sum or a product of two values, of
//! which it reads both.

use crate::fuse::elementwise::is_cheap;
use crate::graph::Prim;
use crate::kernel::{BufferId, Inst, InstOp, Kernel, KernelKind, Kernels, Map, Origin, View};
use crate::types::DType;

/// The maximal number of instructions of a loop that rematerializes values.
const MAX_LOOP_INSTRUCTIONS: usize = 160;

/// Removes stores from loops where rematerialization reduces memory traffic.
pub(super) fn rematerialize(kernels: &mut Kernels) {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); kernels.buffers.len()];
    for (index, kernel) in kernels.kernels.iter().enumerate() {
        for view in kernel.inputs() {
            let own = &mut readers[view.buffer.index()];
            if own.last() != Some(&index) {
                own.push(index);
            }
        }
    }
    let results = kernels.results.iter().map(|(_, view)| view);
    let writes = kernels.writes.iter().map(|(_, view)| view);
    let mut live_out = vec![false; kernels.buffers.len()];
    results
        .chain(writes)
        .for_each(|view| live_out[view.buffer.index()] = true);
    for index in 0..kernels.kernels.len() {
        let stores = map_of(&kernels.kernels[index]).map_or(0, |map| map.stores.len());
        // In reverse: a value that is recomputed from other stored values goes before them.
        for store in (0..stores).rev() {
            let kernel = &kernels.kernels[index];
            let output = first_store(kernel) + store;
            let buffer = kernel.outputs[output];
            let readers_of = &readers[buffer.index()];
            if live_out[buffer.index()] || readers_of.is_empty() {
                continue;
            }
            let Some(rematerialization) = Rematerialization::of(kernels, kernel, store) else {
                continue;
            };
            let Some(sources) = rematerialization.sources_for(kernels, buffer, readers_of) else {
                continue;
            };
            for (reader, views) in readers_of.clone().into_iter().zip(sources) {
                for view in &views {
                    let others = &mut readers[view.buffer.index()];
                    if !others.contains(&reader) {
                        others.push(reader);
                    }
                }
                let map = map_of_mut(&mut kernels.kernels[reader]).expect("its readers are loops");
                rematerialization.inline_into(map, buffer, &views);
            }
            let kernel = &mut kernels.kernels[index];
            kernel.outputs.remove(output);
            let map = map_of_mut(kernel).expect("it has stores");
            map.stores.remove(store);
            eliminate_dead_code(map);
        }
    }
}

fn map_of(kernel: &Kernel) -> Option<&Map> {
    match &kernel.kind {
        KernelKind::Map(map) => Some(map),
        KernelKind::Call { epilogue, .. } => epilogue.as_deref(),
        KernelKind::Scan { .. } => None,
    }
}

fn map_of_mut(kernel: &mut Kernel) -> Option<&mut Map> {
    match &mut kernel.kind {
        KernelKind::Map(map) => Some(map),
        KernelKind::Call { epilogue, .. } => epilogue.as_deref_mut(),
        KernelKind::Scan { .. } => None,
    }
}

/// The index of the first store of a loop among the outputs of its kernel.
fn first_store(kernel: &Kernel) -> usize {
    match &kernel.kind {
        KernelKind::Map(_) | KernelKind::Scan { .. } => 0,
        KernelKind::Call { .. } => 1,
    }
}

/// How a value is recomputed: one operation on sources.
struct Rematerialization {
    prim: &'static Prim,
    dtype: DType,
    sources: Vec<Source>,
    /// The shape of the loop that computes the value.
    shape: Vec<usize>,
}

/// An operand of a rematerialized value.
enum Source {
    /// A constant.
    Const(Inst),
    /// A value in memory, as the loop that computes the rematerialized value views it.
    View(View, DType),
}

impl Rematerialization {
    /// The rematerialization of a stored value, where it is cheap. A loop keeps at least one store.
    fn of(kernels: &Kernels, kernel: &Kernel, store: usize) -> Option<Rematerialization> {
        let map = map_of(kernel)?;
        let own = map.stores[store];
        let (prim, operands) = match &map.body[own.register].op {
            InstOp::Prim(prim, operands) if is_cheap(prim) => (*prim, operands),
            _ => return None,
        };
        if own.row || map.stores.len() < 2 {
            return None;
        }
        let source = |register: &usize| {
            let inst = &map.body[*register];
            let stored = map.stores.iter().position(|s| s.register == *register);
            if let Some(at) = stored {
                let mut shape = map.shape.clone();
                if map.stores[at].row {
                    shape[map.shape.len() - map.reduced_dims..].fill(1);
                }
                let buffer = kernel.outputs[first_store(kernel) + at];
                let view = View::contiguous(buffer, &shape).broadcast(&map.shape);
                return Some(Source::View(view, inst.dtype));
            }
            match &inst.op {
                InstOp::Const(_) | InstOp::Int(_) => Some(Source::Const(inst.clone())),
                InstOp::Load(load) => {
                    let view = &map.loads[*load];
                    match &kernels.buffers[view.buffer.index()].origin {
                        Origin::Input(_) | Origin::Const(_) => {
                            Some(Source::View(view.clone(), inst.dtype))
                        }
                        // State may be written before the consumer runs, and a temporary's live range would grow.
                        Origin::State(_) | Origin::Temp => None,
                    }
                }
                InstOp::Prim(..) | InstOp::Reduce(..) => None,
            }
        };
        let sources = operands
            .iter()
            .map(source)
            .collect::<Option<Vec<Source>>>()?;
        Some(Rematerialization {
            prim,
            dtype: map.body[own.register].dtype,
            sources,
            shape: map.shape.clone(),
        })
    }

    /// What each consumer of the value would load in its stead, if all are loops that can and the loads do not grow.
    fn sources_for(
        &self,
        kernels: &Kernels,
        buffer: BufferId,
        readers: &[usize],
    ) -> Option<Vec<Vec<View>>> {
        let size: usize = self.shape.iter().product();
        let is_entire =
            |view: &View| view.offset == 0 && view.is_contiguous() && view.elements() == size;
        let (mut new_loads, mut all) = (0, Vec::new());
        for reader in readers {
            let kernel = &kernels.kernels[*reader];
            let map = map_of(kernel).filter(|map| map.body.len() < MAX_LOOP_INSTRUCTIONS)?;
            let by_call = match &kernel.kind {
                KernelKind::Call { operands, .. } => {
                    operands.iter().any(|view| view.buffer == buffer)
                }
                KernelKind::Map(_) | KernelKind::Scan { .. } => false,
            };
            let mut reads = map.loads.iter().filter(|view| view.buffer == buffer);
            if by_call || !reads.all(is_entire) {
                return None;
            }
            let mut views: Vec<View> = Vec::new();
            for source in &self.sources {
                let Source::View(view, _) = source else {
                    continue;
                };
                views.push(match is_entire(view) {
                    true => view.reshaped(&map.shape)?,
                    false if map.shape == self.shape => view.clone(),
                    false => return None,
                });
            }
            let is_new = |(i, view): &(usize, &View)| {
                !view.is_broadcast() && !map.loads.contains(view) && !views[..*i].contains(view)
            };
            new_loads += views.iter().enumerate().filter(is_new).count();
            all.push(views);
        }
        (new_loads <= readers.len()).then_some(all)
    }

    /// Replaces the load of the value in a consumer by its computation.
    fn inline_into(&self, map: &mut Map, buffer: BufferId, views: &[View]) {
        let load = |view: &View| {
            let loaded = map.loads.iter().position(|own| own == view);
            loaded.unwrap_or_else(|| {
                map.loads.push(view.clone());
                map.loads.len() - 1
            })
        };
        let loads: Vec<usize> = views.iter().map(load).collect();
        let (mut body, mut renaming) = (Vec::new(), Vec::new());
        let mut push = |op: InstOp, dtype: DType| {
            body.push(Inst { op, dtype });
            body.len() - 1
        };
        for inst in std::mem::take(&mut map.body) {
            let register = match inst.op {
                InstOp::Load(load) if map.loads[load].buffer == buffer => {
                    let mut loads = loads.iter();
                    let emit = |source: &Source| match source {
                        Source::Const(inst) => push(inst.op.clone(), inst.dtype),
                        Source::View(_, dtype) => {
                            let load = loads.next().expect("there is one for each view");
                            push(InstOp::Load(*load), *dtype)
                        }
                    };
                    let operands = self.sources.iter().map(emit).collect();
                    push(InstOp::Prim(self.prim, operands), self.dtype)
                }
                op => push(renamed(op, &renaming), inst.dtype),
            };
            renaming.push(register);
        }
        map.body = body;
        for store in &mut map.stores {
            store.register = renaming[store.register];
        }
        eliminate_dead_code(map);
    }
}

/// An operation with its registers renamed.
fn renamed(op: InstOp, renaming: &[usize]) -> InstOp {
    match op {
        InstOp::Prim(prim, operands) => {
            InstOp::Prim(prim, operands.iter().map(|o| renaming[*o]).collect())
        }
        InstOp::Reduce(combine, register) => InstOp::Reduce(combine, renaming[register]),
        InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => op,
    }
}

/// Dead-code elimination in a loop, with common loads merged.
fn eliminate_dead_code(map: &mut Map) {
    let mut live = vec![false; map.body.len()];
    for store in &map.stores {
        live[store.register] = true;
    }
    for (i, inst) in map.body.iter().enumerate().rev() {
        match &inst.op {
            _ if !live[i] => {}
            InstOp::Prim(_, operands) => operands.iter().for_each(|o| live[*o] = true),
            InstOp::Reduce(_, register) => live[*register] = true,
            InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => {}
        }
    }
    // The new load and register of each load.
    let mut merged: Vec<Option<(usize, usize)>> = vec![None; map.loads.len()];
    let (mut loads, mut body, mut renaming) = (Vec::new(), Vec::new(), Vec::new());
    for (inst, live) in std::mem::take(&mut map.body).into_iter().zip(live) {
        let op = match inst.op {
            _ if !live => {
                renaming.push(usize::MAX);
                continue;
            }
            InstOp::Load(load) => {
                if let Some((_, register)) = merged[load] {
                    renaming.push(register);
                    continue;
                }
                merged[load] = Some((loads.len(), body.len()));
                loads.push(map.loads[load].clone());
                InstOp::Load(loads.len() - 1)
            }
            op => renamed(op, &renaming),
        };
        renaming.push(body.len());
        body.push(Inst {
            op,
            dtype: inst.dtype,
        });
    }
    map.loads = loads;
    map.body = body;
    for store in &mut map.stores {
        store.register = renaming[store.register];
    }
}
