//! The global step of a graph (`tf.train.get_global_step` and its siblings): which variable counts the updates.

use trainspec_compiler::Trainable;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::lower::GLOBAL_STEP;

use crate::session::Session;
use crate::{Code, Error, Graph};

/// The value of a step variable (`tf.train.global_step`).
///
/// ```
/// use trainspec::session::{Options, Session};
/// use trainspec::train::global_step;
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// let session = Session::new(&spec, &Options::default())?;
/// assert_eq!(global_step(&session, "global_step")?, 0);
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn global_step(session: &Session, name: &str) -> Result<i64, Error> {
    let value = session.state().get(without_output(name)).ok_or_else(|| {
        let message = format!("there is no variable `{name}`");
        Error::new(Code::NotFound, message)
    })?;
    assert_integer(name, value)?;
    Ok(value.to_i64s()[0])
}

/// The name of the variable that counts the updates: the one in the collection, else `global_step`; `None` where there is neither: a spec
/// without `train` updates nothing.
///
/// Fails where it is no integer, or the collection has several.
///
/// ```
/// use trainspec::Graph;
/// use trainspec::train::get_global_step;
///
/// let text = "spec s; model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); } train { optimizer gradient_descent(0.1); }";
/// let spec = trainspec::check("s", text)?;
/// assert_eq!(get_global_step(&Graph::new(&spec))?.as_deref(), Some("global_step"));
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn get_global_step(graph: &Graph) -> Result<Option<String>, Error> {
    let name = match graph.collections().global_step.as_slice() {
        [] if graph.spec().train.is_none() => return Ok(None),
        [] => GLOBAL_STEP,
        [one] => without_output(one),
        many => {
            let message = format!(
                "there are several global steps in the collection: {}",
                many.join(", ")
            );
            return Err(Error::new(Code::FailedPrecondition, message));
        }
    };
    assert_global_step(graph, name)?;
    Ok(Some(name.to_owned()))
}

/// Makes the global step of a graph. A spec with `train` has one, and a second is an error, as in TensorFlow.
pub fn create_global_step(graph: &mut Graph) -> Result<String, Error> {
    if let Some(name) = get_global_step(graph)? {
        let message = format!("`{name}` already exists");
        return Err(Error::new(Code::AlreadyExists, message));
    }
    let message = "a spec without `train` updates nothing, so it has no global step";
    let help = "say how it is trained: `train { optimizer adam(1e-3); }`";
    Err(Error::new(Code::FailedPrecondition, message).help(help))
}

/// The global step of a graph, which is made where there is none.
pub fn get_or_create_global_step(graph: &mut Graph) -> Result<String, Error> {
    match get_global_step(graph)? {
        Some(name) => Ok(name),
        None => create_global_step(graph),
    }
}

/// Fails unless a variable can count updates: it is a scalar of an integer type.
pub fn assert_global_step(graph: &Graph, name: &str) -> Result<(), Error> {
    let state = Trainable::from(graph.spec().clone()).state()?;
    let found = state
        .iter()
        .find(|one| one.name == without_output(name))
        .ok_or_else(|| {
            let message = format!("the global step `{name}` is no variable");
            Error::new(Code::InvalidArgument, message)
        })?;
    assert_integer(name, &Tensor::zeros(&found.ty))
}

fn assert_integer(name: &str, value: &Tensor) -> Result<(), Error> {
    let ty = value.ty();
    let message = match (value.dtype().is_int(), value.shape().is_empty()) {
        (true, true) => return Ok(()),
        (false, _) => format!("the global step `{name}` has the type {ty}, which is no integer"),
        (true, false) => format!("the global step `{name}` has the type {ty}, which is no scalar"),
    };
    Err(Error::new(Code::InvalidArgument, message))
}

/// A name as TensorFlow's tensors have it: without the output.
fn without_output(name: &str) -> &str {
    name.strip_suffix(":0").unwrap_or(name)
}
