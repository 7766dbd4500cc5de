//! The memory that a training takes: the bytes of its state, and of the arena of its step.
//!
//! In: a checked spec. Out: bytes, from the types of the state and the plan of the step. Leaves alone: machine code, which is not made.

use std::sync::Arc;

use crate::ir::graph::State;
use crate::lower::{Binding, ProgramKind};
use crate::pipeline::{self, PipelineOptions};
use crate::trainable::Trainable;
use crate::typed::Spec;

/// The memory of a training, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Variables, slots and averages, and whatever else outlives a step.
    pub state: u64,
    /// The arena of a step: its temporaries at their peak. With `accumulate` also that of a micro-batch, whose program is another; the
    /// partial sums of gradients are state. `None` where the sizes of named dimensions are not known, or nothing is trained.
    pub step: Option<u64>,
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
        Some(Footprint {
            state: state_bytes(&trainable.state().ok()?),
            step: step_bytes(spec, &trainable, given),
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

fn step_bytes(spec: &Spec, trainable: &Trainable, given: &Binding) -> Option<u64> {
    let train = spec.train.as_ref()?;
    let dims = pipeline::dimensions(spec, given).ok()?;
    let arena = |kind| {
        let graph = pipeline::lower(trainable, kind, &dims).ok()?.graph;
        let program =
            pipeline::planned(graph, &trainable.fetches(kind), &PipelineOptions::default());
        Some(program.arena as u64)
    };
    let step = arena(ProgramKind::Step)?;
    match train.accumulate {
        1 => Some(step),
        _ => Some(step.saturating_add(arena(ProgramKind::MicroBatch)?)),
    }
}
