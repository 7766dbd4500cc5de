//! Values that are cheaper to compute again than to store.
//!
//! In: kernels. Out: the same, where a loop no longer stores what its readers make of other things that they read, by one cheap operation.
//! A gradient reads most of what the pass forward made, and much of that is a sum or a product of two values, of which it reads both.

use crate::fuse::elementwise::is_cheap;
use crate::graph::Prim;
use crate::kernel::{BufferId, Inst, InstOp, Kernel, KernelKind, Kernels, Map, Origin, View};
use crate::types::DType;

/// Loops do not grow beyond this.
const MOST: usize = 160;

/// Takes stores out of loops where that makes less traffic.
pub(super) fn recompute(kernels: &mut Kernels) {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); kernels.buffers.len()];
    for (place, kernel) in kernels.kernels.iter().enumerate() {
        for view in kernel.inputs() {
            let own = &mut readers[view.buffer.index()];
            if own.last() != Some(&place) {
                own.push(place);
            }
        }
    }
    let results = kernels.results.iter().map(|(_, view)| view);
    let writes = kernels.writes.iter().map(|(_, view)| view);
    let mut kept = vec![false; kernels.buffers.len()];
    results
        .chain(writes)
        .for_each(|view| kept[view.buffer.index()] = true);
    for place in 0..kernels.kernels.len() {
        let stores = map_of(&kernels.kernels[place]).map_or(0, |map| map.stores.len());
        // The last first: what is made of other things that are stored goes before them.
        for store in (0..stores).rev() {
            let kernel = &kernels.kernels[place];
            let made = first_store(kernel) + store;
            let buffer = kernel.outputs[made];
            let readers_of = &readers[buffer.index()];
            if kept[buffer.index()] || readers_of.is_empty() {
                continue;
            }
            let Some(recipe) = Recipe::of(kernels, kernel, store) else {
                continue;
            };
            let Some(own) = recipe.fits(kernels, buffer, readers_of) else {
                continue;
            };
            for (reader, views) in readers_of.clone().into_iter().zip(own) {
                for view in &views {
                    let others = &mut readers[view.buffer.index()];
                    if !others.contains(&reader) {
                        others.push(reader);
                    }
                }
                let map = map_of_mut(&mut kernels.kernels[reader]).expect("its readers are loops");
                recipe.put(map, buffer, &views);
            }
            let kernel = &mut kernels.kernels[place];
            kernel.outputs.remove(made);
            let map = map_of_mut(kernel).expect("it has stores");
            map.stores.remove(store);
            tidy(map);
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

/// Where the buffers of a loop's stores begin among those that its kernel makes.
fn first_store(kernel: &Kernel) -> usize {
    match &kernel.kind {
        KernelKind::Map(_) | KernelKind::Scan { .. } => 0,
        KernelKind::Call { .. } => 1,
    }
}

/// How a value is made once more.
struct Recipe {
    prim: &'static Prim,
    dtype: DType,
    from: Vec<From>,
    /// The shape of the loop that makes it.
    shape: Vec<usize>,
}

/// What a value is made of.
enum From {
    /// A number.
    Known(Inst),
    /// What is stored or read anyway, as the loop that makes the value sees it.
    View(View, DType),
}

impl Recipe {
    /// How the value of a store is made again, where that is cheap. A loop keeps one store at least.
    fn of(kernels: &Kernels, kernel: &Kernel, store: usize) -> Option<Recipe> {
        let map = map_of(kernel)?;
        let own = map.stores[store];
        let (prim, operands) = match &map.body[own.register].op {
            InstOp::Prim(prim, operands) if is_cheap(prim) => (*prim, operands),
            _ => return None,
        };
        if own.row || map.stores.len() < 2 {
            return None;
        }
        let from = |register: &usize| {
            let inst = &map.body[*register];
            let stored = map.stores.iter().position(|s| s.register == *register);
            if let Some(at) = stored {
                let mut shape = map.shape.clone();
                if map.stores[at].row {
                    shape[map.shape.len() - map.folded..].fill(1);
                }
                let buffer = kernel.outputs[first_store(kernel) + at];
                let view = View::whole(buffer, &shape).broadcast(&map.shape);
                return Some(From::View(view, inst.dtype));
            }
            match &inst.op {
                InstOp::Const(_) | InstOp::Int(_) => Some(From::Known(inst.clone())),
                InstOp::Load(load) => {
                    let view = &map.loads[*load];
                    match &kernels.buffers[view.buffer.index()].origin {
                        Origin::Input(_) | Origin::Const(_) => {
                            Some(From::View(view.clone(), inst.dtype))
                        }
                        // State may be written before the reader comes, and what was made would have to stay for it.
                        Origin::State(_) | Origin::Temp => None,
                    }
                }
                InstOp::Prim(..) | InstOp::Reduce(..) => None,
            }
        };
        let from = operands.iter().map(from).collect::<Option<Vec<From>>>()?;
        Some(Recipe {
            prim,
            dtype: map.body[own.register].dtype,
            from,
            shape: map.shape.clone(),
        })
    }

    /// What each reader of the value would read in its place, if all are loops that can and it is not more than they read now.
    fn fits(
        &self,
        kernels: &Kernels,
        buffer: BufferId,
        readers: &[usize],
    ) -> Option<Vec<Vec<View>>> {
        let size: usize = self.shape.iter().product();
        let is_whole =
            |view: &View| view.offset == 0 && view.is_contiguous() && view.elements() == size;
        let (mut more, mut all) = (0, Vec::new());
        for reader in readers {
            let kernel = &kernels.kernels[*reader];
            let map = map_of(kernel).filter(|map| map.body.len() < MOST)?;
            let by_routine = match &kernel.kind {
                KernelKind::Call { operands, .. } => {
                    operands.iter().any(|view| view.buffer == buffer)
                }
                KernelKind::Map(_) | KernelKind::Scan { .. } => false,
            };
            let mut reads = map.loads.iter().filter(|view| view.buffer == buffer);
            if by_routine || !reads.all(is_whole) {
                return None;
            }
            let mut views: Vec<View> = Vec::new();
            for from in &self.from {
                let From::View(view, _) = from else { continue };
                views.push(match is_whole(view) {
                    true => view.reshaped(&map.shape)?,
                    false if map.shape == self.shape => view.clone(),
                    false => return None,
                });
            }
            let is_new = |(i, view): &(usize, &View)| {
                !view.is_spread() && !map.loads.contains(view) && !views[..*i].contains(view)
            };
            more += views.iter().enumerate().filter(is_new).count();
            all.push(views);
        }
        (more <= readers.len()).then_some(all)
    }

    /// Makes the value in a loop that read it.
    fn put(&self, map: &mut Map, buffer: BufferId, views: &[View]) {
        let load = |view: &View| {
            let known = map.loads.iter().position(|own| own == view);
            known.unwrap_or_else(|| {
                map.loads.push(view.clone());
                map.loads.len() - 1
            })
        };
        let loads: Vec<usize> = views.iter().map(load).collect();
        let (mut body, mut places) = (Vec::new(), Vec::new());
        let mut push = |op: InstOp, dtype: DType| {
            body.push(Inst { op, dtype });
            body.len() - 1
        };
        for inst in std::mem::take(&mut map.body) {
            let place = match inst.op {
                InstOp::Load(load) if map.loads[load].buffer == buffer => {
                    let mut loads = loads.iter();
                    let make = |from: &From| match from {
                        From::Known(inst) => push(inst.op.clone(), inst.dtype),
                        From::View(_, dtype) => {
                            let load = loads.next().expect("there is one for each view");
                            push(InstOp::Load(*load), *dtype)
                        }
                    };
                    let operands = self.from.iter().map(make).collect();
                    push(InstOp::Prim(self.prim, operands), self.dtype)
                }
                op => push(renamed(op, &places), inst.dtype),
            };
            places.push(place);
        }
        map.body = body;
        for store in &mut map.stores {
            store.register = places[store.register];
        }
        tidy(map);
    }
}

/// The same on the registers that those it reads became.
fn renamed(op: InstOp, places: &[usize]) -> InstOp {
    match op {
        InstOp::Prim(prim, operands) => {
            InstOp::Prim(prim, operands.iter().map(|o| places[*o]).collect())
        }
        InstOp::Reduce(how, register) => InstOp::Reduce(how, places[register]),
        InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => op,
    }
}

/// Drops what a loop computes and reads for nothing, and reads in twice.
fn tidy(map: &mut Map) {
    let mut wanted = vec![false; map.body.len()];
    for store in &map.stores {
        wanted[store.register] = true;
    }
    for (i, inst) in map.body.iter().enumerate().rev() {
        match &inst.op {
            _ if !wanted[i] => {}
            InstOp::Prim(_, operands) => operands.iter().for_each(|o| wanted[*o] = true),
            InstOp::Reduce(_, register) => wanted[*register] = true,
            InstOp::Load(_) | InstOp::Const(_) | InstOp::Int(_) => {}
        }
    }
    // The load and the register that each load became.
    let mut known: Vec<Option<(usize, usize)>> = vec![None; map.loads.len()];
    let (mut loads, mut body, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (inst, wanted) in std::mem::take(&mut map.body).into_iter().zip(wanted) {
        let op = match inst.op {
            _ if !wanted => {
                places.push(usize::MAX);
                continue;
            }
            InstOp::Load(load) => {
                if let Some((_, register)) = known[load] {
                    places.push(register);
                    continue;
                }
                known[load] = Some((loads.len(), body.len()));
                loads.push(map.loads[load].clone());
                InstOp::Load(loads.len() - 1)
            }
            op => renamed(op, &places),
        };
        places.push(body.len());
        body.push(Inst {
            op,
            dtype: inst.dtype,
        });
    }
    map.loads = loads;
    map.body = body;
    for store in &mut map.stores {
        store.register = places[store.register];
    }
}
