//! The memory that a training takes: the bytes of its state, and of the arena of its step.
//!
//! In: a checked spec. Out: bytes, from the types of the state and the plan of the step. Leaves alone: machine code, which is not made.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ir::graph::State;
use crate::ir::plan::Cost;
use crate::lower::{Binding, ProgramKind};
use crate::pipeline::{self, PipelineOptions};
use crate::trainable::Trainable;
use crate::typed::{Spec, VarId};

/// The memory of a training, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Variables, slots and averages, and whatever else outlives a step.
    pub state: u64,
    /// The arenas of a step: its temporaries at their peak, and those of the bodies of its loops. With `accumulate` also that of a micro-batch, whose program is another; the
    /// partial sums of gradients are state. `None` where the sizes of named dimensions are not known, or nothing is trained.
    pub step: Option<u64>,
    /// The floating-point operations of a step, with all its micro-batches: a multiply-add counts two, an exponential one.
    pub flops: Option<u64>,
}

/// The bytes of a state by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateSizes {
    /// The variables of the model.
    pub variables: u64,
    /// The slots of optimizers.
    pub slots: u64,
    /// Exponential moving averages.
    pub averages: u64,
    /// The partial sums of gradients of `accumulate`.
    pub accumulators: u64,
    /// The step, the scalars of optimizers, a loss scale.
    pub scalars: u64,
}

impl StateSizes {
    /// The bytes of a spec's state; `None` where its initial values cannot be lowered.
    ///
    /// ```
    /// use trainspec_compiler::{Compilation, StateSizes, source::NoFiles};
    ///
    /// let text = "spec a; model (x: f32[batch, 4]) { loss mean(dense(x, 2)); } train { optimizer adam(); steps 1; }";
    /// let spec = Compilation::check("a", text, &NoFiles, &Default::default()).spec.unwrap();
    /// let sizes = StateSizes::of(&spec).unwrap();
    /// assert_eq!((sizes.variables, sizes.slots, sizes.scalars), (4 * 10, 2 * 4 * 10, 2 * 4 + 8));
    /// ```
    pub fn of(spec: &Arc<Spec>) -> Option<StateSizes> {
        let state = Trainable::from(spec.clone()).state().ok()?;
        let variables: BTreeSet<&str> = spec.variables.iter().map(|v| v.name.as_str()).collect();
        let name = |id: VarId| spec.variables[id.0 as usize].name.as_str();
        let (mut slots, mut averages) = (BTreeSet::new(), BTreeSet::new());
        if let Some(train) = &spec.train {
            for update in train.groups.iter().flat_map(|group| &group.updates) {
                let own = update.slots.iter();
                slots.extend(own.map(|slot| slot.state_name(name(update.variable))));
            }
            let kept = train.averages.iter().flat_map(|average| &average.state);
            averages.extend(kept.map(|state| state.name.clone()));
        }
        let mut sizes = StateSizes::default();
        for state in state {
            let sum = match state.name.as_str() {
                name if variables.contains(name) => &mut sizes.variables,
                name if slots.contains(name) => &mut sizes.slots,
                name if averages.contains(name) => &mut sizes.averages,
                name if name.starts_with("#accumulated/") => &mut sizes.accumulators,
                _ => &mut sizes.scalars,
            };
            *sum = sum.saturating_add(state.ty.bytes());
        }
        Some(sizes)
    }
}

impl Footprint {
    /// The memory of a spec with these sizes of named dimensions, besides those that its training data fixes; `None` where its initial
    /// values cannot be lowered.
    ///
    /// ```
    /// use trainspec_compiler::{Compilation, Footprint, source::NoFiles};
    ///
    /// let text = "spec a; model (x: f32[batch, 4]) { loss mean(dense(x, 2)); } train { optimizer adam(); steps 1; }";
    /// let spec = Compilation::check("a", text, &NoFiles, &Default::default()).spec.unwrap();
    /// let footprint = Footprint::of(&spec, &Default::default()).unwrap();
    /// // Kernel and bias with two slots each, the powers of two decay rates, and the step.
    /// assert_eq!(footprint.state, 3 * 4 * (4 * 2 + 2) + 2 * 4 + 8);
    /// assert_eq!(footprint.step, None);
    /// ```
    pub fn of(spec: &Arc<Spec>, given: &Binding) -> Option<Footprint> {
        let trainable = Trainable::from(spec.clone());
        let step = step_cost(spec, &trainable, given);
        Some(Footprint {
            state: state_bytes(&trainable.state().ok()?),
            step: step.map(|(bytes, _)| bytes),
            flops: step.map(|(_, flops)| flops),
        })
    }
}

/// The bytes of a state.
pub fn state_bytes(state: &[State]) -> u64 {
    let types = state.iter().map(|state| &state.ty);
    types.fold(0, |all, ty| all.saturating_add(ty.bytes()))
}

/// Bytes for people: `1.5 GiB`.
///
/// ```
/// use trainspec_compiler::readable_bytes;
///
/// assert_eq!(readable_bytes(800), "800 bytes");
/// assert_eq!(readable_bytes(4 << 40), "4.0 TiB");
/// ```
pub fn readable_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{size:.1} {}", UNITS[unit]),
    }
}

/// The bytes of the arenas of a step, and its FLOPs.
fn step_cost(spec: &Spec, trainable: &Trainable, given: &Binding) -> Option<(u64, u64)> {
    let train = spec.train.as_ref()?;
    let dims = pipeline::dimensions(spec, given).ok()?;
    let cost = |kind| {
        let graph = pipeline::lower(trainable, kind, &dims).ok()?.graph;
        let program =
            pipeline::planned(graph, &trainable.fetches(kind), &PipelineOptions::default());
        let bytes = (program.arena as u64).saturating_add(program.scan_bytes());
        Some((bytes, Cost::of_all(&program.kernels).flops))
    };
    let (bytes, flops) = cost(ProgramKind::Step)?;
    match u64::try_from(train.accumulate).unwrap_or(1) {
        0 | 1 => Some((bytes, flops)),
        n => {
            // The last micro-batch is part of the step.
            let (part, part_flops) = cost(ProgramKind::MicroBatch)?;
            let flops = flops.saturating_add(part_flops.saturating_mul(n - 1));
            Some((bytes.saturating_add(part), flops))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compilation;
    use crate::source::NoFiles;

    #[test]
    fn a_step_takes_what_its_compiled_program_takes_also_in_loops() {
        for body in [
            "loss mean(square(dense(x, 7)));",
            "param weights: f32[5, 5] = ones();
             let last = scan part in transpose(x, [1, 0, 2]), h = fill([16, 5], 0.0) { tanh(h @ weights + part) };
             loss mean(square(last));",
        ] {
            let text = format!(
                "spec a; model (x: f32[16, 9, 5]) {{ {body} }} train {{ optimizer adam(); steps 1; }}"
            );
            let checked = Compilation::check("a", &text, &NoFiles, &Default::default());
            let spec = checked.spec.expect("a good spec");
            let footprint = Footprint::of(&spec, &Binding::new()).expect("it is lowered");
            let trainable = Trainable::from(spec.clone());
            let kind = ProgramKind::Step;
            let graph = pipeline::lower(&trainable, kind, &Binding::new()).expect("it lowers");
            let fetches = trainable.fetches(kind);
            let program = pipeline::planned(graph.graph, &fetches, &PipelineOptions::default());
            let compiled = pipeline::compile(program, &PipelineOptions::default());
            let compiled = compiled.expect("it compiles");
            assert_eq!(footprint.step, Some(compiled.bytes() as u64), "{body}");
        }
    }
}
