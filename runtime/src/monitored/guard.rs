//! Calls of hooks and of what a program registers, whose panics are errors that name them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::hooks::SessionRunHook;
use crate::{Code, Error};

/// Calls a function of a hook. A panic is an error of the run: the session is closed as after every other error, and its threads are
/// joined.
pub(super) fn call<T>(
    hook: &mut dyn SessionRunHook,
    function: &str,
    call: impl FnOnce(&mut dyn SessionRunHook) -> Result<T, Error>,
) -> Result<T, Error> {
    let called = catch_unwind(AssertUnwindSafe(|| call(hook)));
    called.unwrap_or_else(|payload| {
        // What names the hook may be what is broken.
        let name = catch_unwind(AssertUnwindSafe(|| hook.name()));
        let name = name.unwrap_or_else(|_| "?".to_owned());
        Err(panicked("hook", &name, function, &*payload))
    })
}

/// Calls what a program registered under a name.
pub(crate) fn guarded<T>(
    what: &str,
    name: &str,
    function: &str,
    call: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let called = catch_unwind(AssertUnwindSafe(call));
    called.unwrap_or_else(|payload| Err(panicked(what, name, function, &*payload)))
}

fn panicked(what: &str, name: &str, function: &str, payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = match text {
        Some(text) => format!("the {what} `{name}` panicked in `{function}`: {text}"),
        None => format!("the {what} `{name}` panicked in `{function}`"),
    };
    Error::new(Code::Internal, message).help(format!(
        "what was saved before is intact; a {what} reports a failure by returning an error"
    ))
}
