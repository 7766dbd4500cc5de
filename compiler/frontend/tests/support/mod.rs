//! Specs for tests: those of the repository, and random ones.

pub(crate) mod generate;
pub(crate) mod specs;
pub(crate) mod write;
