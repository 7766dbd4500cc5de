//! The front end of the Trainspec language: parser, type checker, typed spec, lowering to the graph IR, formatter and
//! diagnostics.

pub mod ast;
pub mod builtins;
pub mod check;
pub mod declarations;
pub mod diag;
pub mod dump;
pub mod fmt;
pub mod identity;
pub mod interface;
pub mod lower;
pub mod source;
pub mod syntax;
#[cfg(feature = "tokens")]
pub mod tokens;
pub mod typed;
