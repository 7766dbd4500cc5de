//! The runtime: data pipelines, the training loop, hooks and evaluations of a checked spec.
//!
//! ```
//! use std::sync::Arc;
//! use trainspec::env::{Env, System};
//! use trainspec::session::{Event, Options};
//! use trainspec::trainer::train;
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
//! let env: Arc<dyn Env> = Arc::new(System::default());
//! let ended = train(&spec, &Options::default(), &env, &mut |_: &Event| {});
//! assert!(ended.unwrap_err().to_string().contains("no-such-file.csv"));
//! ```

mod coordinator;
pub mod data;
mod dry_run;
pub mod env;
mod error;
pub mod hooks;
mod lru;
pub mod memory;
pub mod monitored;
pub mod program;
mod run_folder;
pub mod saver;
pub mod session;
mod state;
mod stop;
pub mod train;
pub mod trainer;

pub use coordinator::{Coordinator, LooperThread, STOP_GRACE_PERIOD, Thread};
pub use dry_run::{DryRun, dry_run};
pub use error::{Cause, Code, DataError, Error, Position, SourceLocation};
pub use monitored::MonitoredSession;
pub use session::Session;
pub use state::State;
pub use stop::StopToken;
pub use trainspec_compiler::ir::Tensor;
