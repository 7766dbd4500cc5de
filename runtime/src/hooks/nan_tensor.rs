//! `NanTensorHook` (`tf.train.NanTensorHook`): stops or fails a run whose fetched value is NaN. Infinities pass, as in TensorFlow; the `nan`
//! hook of a spec stops on them, too.

use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::Target;
use crate::{Code, Error, Graph};

/// The error of a NaN loss (`tf.train.NanLossDuringTrainingError`), found with [`std::error::Error::source`].
///
/// ```
/// use trainspec::hooks::NanLossDuringTrainingError;
///
/// assert_eq!(NanLossDuringTrainingError.to_string(), "NaN loss during training.");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NanLossDuringTrainingError;

impl std::fmt::Display for NanLossDuringTrainingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NaN loss during training.")
    }
}

impl std::error::Error for NanLossDuringTrainingError {}

/// Watches a value for NaN.
///
/// ```
/// use trainspec::hooks::NanTensorHook;
///
/// let fails = NanTensorHook::new("loss");
/// let stops = NanTensorHook::new("loss").fail_on_nan_loss(false);
/// # let _ = (fails, stops);
/// ```
#[derive(Debug, Clone)]
pub struct NanTensorHook {
    name: String,
    target: Option<Target>,
    fail: bool,
}

impl NanTensorHook {
    /// Fails where a value, by the name of its fetch, is NaN.
    pub fn new(loss_tensor: impl Into<String>) -> NanTensorHook {
        NanTensorHook {
            name: loss_tensor.into(),
            target: None,
            fail: true,
        }
    }

    /// Whether a NaN is an error, and not just the end of the run.
    pub fn fail_on_nan_loss(mut self, fail: bool) -> NanTensorHook {
        self.fail = fail;
        self
    }
}

impl SessionRunHook for NanTensorHook {
    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        let target = graph.target(&self.name)?;
        graph.declare([&target])?;
        self.target = Some(target);
        Ok(())
    }

    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        Ok(self.target.clone().map(|t| SessionRunArgs::fetch([t])))
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let is_float = |value: &&trainspec_compiler::ir::Tensor| value.dtype().is_float();
        let value = values.get(0).filter(is_float);
        if value.is_some_and(|value| value.to_f64s().iter().any(|x| x.is_nan())) {
            if self.fail {
                let error = Error::other(NanLossDuringTrainingError);
                return Err(error.with_code(Code::FailedPrecondition));
            }
            context.request_stop();
        }
        Ok(())
    }
}
