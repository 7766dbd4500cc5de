//! `stop_at`: ends a run at a step (`tf.train.StopAtStepHook`).

use trainspec_compiler::typed::StopAt;

/// The last step that a `stop_at` hook allows. A run starts at step 0, so `last_step` and `num_steps` bound the same counter.
pub(super) fn last_step(bound: StopAt) -> u64 {
    match bound {
        StopAt::LastStep(n) | StopAt::NumSteps(n) => n,
    }
}
