//! Text to typed spec: parsing, checking and formatting of the Trainspec language.

pub mod ast;
pub mod builtins;
pub mod check;
pub mod diag;
pub mod dump;
pub mod fmt;
pub mod lower;
pub mod source;
pub mod syntax;
#[cfg(feature = "tokens")]
pub mod tokens;
pub mod typed;
