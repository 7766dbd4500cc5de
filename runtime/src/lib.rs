//! The runtime: data pipelines, the training loop, hooks and evaluations of a checked spec.
//!
//! ```
//! use std::sync::Arc;
//! use trainspec::env::{Env, System};
//! use trainspec::{Event, Options, check, train};
//!
//! let text = r#"
//!     spec missing;
//!     data points { source csv("no-such-file.csv"); feature x: f32; feature y: f32; batch 4; }
//!     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
//!     train { data points; optimizer gradient_descent(0.1); }
//! "#;
//! let spec = check("missing", text)?;
//! let env: Arc<dyn Env> = Arc::new(System::default());
//! let ended = train(&spec, &Options::default(), &env, &mut |_: &Event| {});
//! assert!(ended.unwrap_err().to_string().contains("no-such-file.csv"));
//! # Ok::<(), trainspec::Error>(())
//! ```

mod coordinator;
pub mod data;
mod data_watch;
mod default_hooks;
mod dry_run;
pub mod env;
mod error;
pub mod graph;
pub mod hooks;
mod lru;
mod machine;
pub mod memory;
pub mod monitored;
pub mod program;
pub mod registry;
mod run_folder;
pub mod saver;
pub mod session;
mod spec;
mod spec_hooks;
mod state;
mod stop;
pub mod summary;
pub mod supervisor;
pub mod train;
pub mod trainer;
mod warm_start;

pub use coordinator::{Coordinator, Looper, LooperThread, STOP_GRACE_PERIOD, Thread};
pub use dry_run::{DryRun, dry_run};
pub use error::{Cause, Code, DataError, Error, Origin, Position, SourceLocation};
pub use graph::Graph;
pub use monitored::MonitoredSession;
pub use program::{Engine, FeedDict, Fetched, InputElement, InputView};
pub use session::{End, Event, Observer, Options, Session};
pub use spec::{CheckError, SpecFolder, check, check_file, read_spec};
pub use state::State;
pub use stop::StopToken;
pub use trainer::train;
pub use trainspec_compiler::ir::{DType, Tensor};
pub use trainspec_compiler::typed::Spec;
