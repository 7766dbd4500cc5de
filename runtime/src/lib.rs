//! The runtime: data pipelines, the training loop, hooks and evaluations of a checked spec.
//!
//! ```
//! use trainspec::env::System;
//! use trainspec::session::{Event, Options, train};
//! use trainspec_compiler::{Compilation, source::NoFiles};
//!
//! let text = r#"
//!     spec missing;
//!     data points { source csv("no-such-file.csv"); feature x: f32; feature y: f32; batch 4; }
//!     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
//!     train { data points; optimizer gradient_descent(0.1); }
//! "#;
//! let compilation = Compilation::check("missing", text, &NoFiles, &Default::default());
//! let spec = compilation.spec.expect("it is a good spec");
//! let ended = train(&spec, &Options::default(), &System::default(), &mut |_: &Event| {});
//! assert!(ended.unwrap_err().to_string().contains("no-such-file.csv"));
//! ```

pub mod data;
pub mod env;
mod error;
mod hooks;
mod lru;
pub mod memory;
pub mod program;
pub mod session;
mod state;
pub mod train;

pub use error::{Cause, Code, DataError, Error, Position, SourceLocation};
pub use state::State;
