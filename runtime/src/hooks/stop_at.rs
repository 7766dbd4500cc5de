//! `stop_at`: ends a run at a step (`tf.train.StopAtStepHook`).

use trainspec_compiler::typed::{Constant, Setting};

/// The last steps that a `stop_at` hook allows. A run starts at step 0, so `last_step` and `num_steps` bound the same counter.
pub(super) fn bounds(setting: &Setting) -> impl Iterator<Item = u64> {
    ["last_step", "num_steps"].into_iter().filter_map(|name| {
        let Some(Constant::Int(n)) = setting.get(name) else {
            return None;
        };
        n.value().map(|n| n.max(0) as u64)
    })
}
