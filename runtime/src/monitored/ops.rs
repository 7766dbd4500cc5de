//! Operations of a program's own around the start of a session: initialization and readiness. TensorFlow's are nodes of a graph; here each is
//! a closure over the session, or the name of a fetch.

use std::fmt;
use std::sync::Arc;

use crate::program::FeedDict;
use crate::session::Session;
use crate::{Code, Error};

/// Changes a session before its first run: `init_op`, `local_init_op`.
///
/// ```
/// use trainspec::monitored::InitOp;
/// use trainspec::session::Session;
///
/// let initializer = InitOp::initializer();
/// let own = InitOp::new(|session: &mut Session| session.initialize());
/// # let _ = (initializer, own);
/// ```
#[derive(Clone)]
pub struct InitOp(Arc<InitFunction>);

type InitFunction = dyn Fn(&mut Session, &dyn FeedDict) -> Result<(), Error> + Send + Sync;

impl InitOp {
    /// A closure over the session.
    pub fn new(op: impl Fn(&mut Session) -> Result<(), Error> + Send + Sync + 'static) -> InitOp {
        InitOp(Arc::new(move |session, _| op(session)))
    }

    /// Runs a fetch by its name, with what it is fed (`init_feed_dict`).
    pub fn fetch(name: impl Into<String>) -> InitOp {
        let name = name.into();
        InitOp(Arc::new(move |session, feeds| {
            session.run(name.as_str(), feeds).map(drop)
        }))
    }

    /// Assigns the initial values (`global_variables_initializer`).
    pub fn initializer() -> InitOp {
        InitOp::new(Session::initialize)
    }

    /// Does nothing: what `local_init_op` is by default. A spec has no local variables, and those of queues are initialized with each session.
    pub fn no_op() -> InitOp {
        InitOp::new(|_| Ok(()))
    }

    /// Runs it.
    pub fn run(&self, session: &mut Session, feeds: &dyn FeedDict) -> Result<(), Error> {
        (self.0)(session, feeds)
    }

    /// Whether both are one operation.
    pub fn is(&self, other: &InitOp) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for InitOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitOp")
    }
}

/// Says what is not ready in a session: `ready_op`, `ready_for_local_init_op`. A session is ready where nothing is named.
///
/// ```
/// use trainspec::monitored::ReadyOp;
///
/// let all_variables = ReadyOp::report_uninitialized();
/// let never = ReadyOp::new(|_| Ok(vec!["the vocabulary".to_owned()]));
/// # let _ = (all_variables, never);
/// ```
#[derive(Clone)]
pub struct ReadyOp(Arc<ReadyFunction>);

type ReadyFunction = dyn Fn(&mut Session) -> Result<Vec<String>, Error> + Send + Sync;

impl ReadyOp {
    /// A closure that names what is not ready.
    pub fn new(
        op: impl Fn(&mut Session) -> Result<Vec<String>, Error> + Send + Sync + 'static,
    ) -> ReadyOp {
        ReadyOp(Arc::new(op))
    }

    /// Names the variables without values (`report_uninitialized_variables`).
    pub fn report_uninitialized() -> ReadyOp {
        ReadyOp::new(|session| {
            let names = session.state().uninitialized_names().into_iter();
            Ok(names.map(str::to_owned).collect())
        })
    }

    /// Why the session is not ready; `None` where it is. A failed precondition is a reason, too.
    pub(crate) fn reason(&self, session: &mut Session) -> Result<Option<String>, Error> {
        match (self.0)(session) {
            Ok(names) if names.is_empty() => Ok(None),
            Ok(names) => Ok(Some(format!(
                "variables not initialized: {}",
                names.join(", ")
            ))),
            Err(error) if error.code() == Code::FailedPrecondition => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for ReadyOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadyOp")
    }
}
