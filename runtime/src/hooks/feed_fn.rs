//! `FeedFnHook` (`tf.train.FeedFnHook`): feeds every run what a function gives.

use trainspec_compiler::ir::Tensor;

use crate::Error;
use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook};

/// Gives the feeds of a run, by name. It takes no argument.
///
/// ```
/// use trainspec::Tensor;
/// use trainspec::hooks::FeedFn;
///
/// let mut feed_fn: FeedFn = Box::new(|| Ok(vec![("scale".to_owned(), Tensor::scalar(2.0_f32))]));
/// assert_eq!(feed_fn()?[0].0, "scale");
/// # Ok::<(), trainspec::Error>(())
/// ```
pub type FeedFn = Box<dyn FnMut() -> Result<Vec<(String, Tensor)>, Error> + Send>;

/// Feeds every run what a function gives. What the caller or another hook feeds already is an error of the run.
///
/// ```
/// use trainspec::hooks::FeedFnHook;
/// use trainspec::monitored::{InitialSession, MonitoredSession};
/// use trainspec::InputView;
/// use trainspec::{Graph, Tensor};
///
/// let text = "
///     spec line;
///     model (x: f32[batch], scale: f32) { param a: f32 = ones(); loss mean(a * scale * x); }
///     train { optimizer gradient_descent(0.0); }
/// ";
/// let spec = trainspec::check("line", text)?;
/// let mut scale = 0.0_f32;
/// let hook = FeedFnHook::new(move || {
///     scale += 1.0;
///     Ok(vec![("scale".to_owned(), Tensor::scalar(scale))])
/// });
/// let creator = Box::new(InitialSession::default());
/// let mut session = MonitoredSession::new(Graph::new(&spec), creator, vec![Box::new(hook)])?;
/// let x = [("x", InputView::new(&[2], &[1.0_f32, 3.0]))];
/// assert_eq!(session.run("loss", &x)?.unwrap().to_f64s(), [2.0]);
/// assert_eq!(session.run("loss", &x)?.unwrap().to_f64s(), [4.0]);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub struct FeedFnHook {
    feed_fn: FeedFn,
}

impl FeedFnHook {
    /// Feeds what the function gives before each run.
    pub fn new(
        feed_fn: impl FnMut() -> Result<Vec<(String, Tensor)>, Error> + Send + 'static,
    ) -> FeedFnHook {
        FeedFnHook {
            feed_fn: Box::new(feed_fn),
        }
    }
}

impl std::fmt::Debug for FeedFnHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeedFnHook").finish_non_exhaustive()
    }
}

impl SessionRunHook for FeedFnHook {
    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        Ok(Some(SessionRunArgs {
            feeds: (self.feed_fn)()?,
            ..SessionRunArgs::default()
        }))
    }
}
