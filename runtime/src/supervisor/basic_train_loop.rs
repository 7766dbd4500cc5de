//! `basic_train_loop` (`tf.train.basic_train_loop`): runs a step function until the supervisor stops, and starts over where it was preempted.

use crate::supervisor::{SharedSession, Supervisor};
use crate::{Code, Error};

/// Calls a function with the session until a stop is requested. Where it fails with [`Code::Aborted`], a new session is prepared, from the
/// newest checkpoint, and the loop goes on.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::InputView;
/// use trainspec::supervisor::{Supervisor, SupervisorOptions, basic_train_loop};
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// let mut supervisor = Supervisor::new(Graph::new(&spec), SupervisorOptions::default())?;
/// let coordinator = supervisor.coordinator().clone();
/// let feeds = [("x", InputView::new(&[1], &[1.0_f32]))];
/// basic_train_loop(&mut supervisor, |session| {
///     session.run("train_op", &feeds)?;
///     if session.lock().global_step() == 3 {
///         coordinator.request_stop(None)?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn basic_train_loop(
    supervisor: &mut Supervisor,
    mut train_step_fn: impl FnMut(&SharedSession) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let ran = supervisor.managed_session(|supervisor, session| {
            while !supervisor.should_stop() {
                train_step_fn(session)?;
            }
            Ok(())
        });
        match ran {
            Err(error) if error.code() == Code::Aborted => {}
            ended => return ended,
        }
    }
}
