//! Test fixtures: graphs of one operation, gradient checks, and calls written as text.

pub(crate) mod calls;
pub(crate) mod gradcheck;
pub(crate) mod graphs;
