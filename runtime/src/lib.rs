//! The runtime: data pipelines, the training loop, hooks and evaluations of a checked spec.
//!
//! ```
//! use trainspec::{Event, Options, check, train};
//!
//! let text = r#"
//!     spec missing;
//!     data points { source csv("no-such-file.csv"); feature x: f32; feature y: f32; batch 4; }
//!     model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
//!     train { data points; optimizer gradient_descent(0.1); }
//! "#;
//! let spec = check("missing", text)?;
//! let ended = train(&spec, &Options::default(), &mut |_: &Event| {});
//! assert!(ended.unwrap_err().to_string().contains("no-such-file.csv"));
//! # Ok::<(), trainspec::Error>(())
//! ```

mod coordinator;
pub mod curves;
mod data;
mod data_report;
mod data_watch;
mod default_hooks;
mod dry_run;
pub mod env;
mod error;
mod evaluate;
mod export;
pub mod graph;
pub mod hooks;
mod lru;
mod machine;
mod macro_support;
mod memory;
pub mod monitored;
pub mod predict;
mod program;
pub mod queue;
pub mod registry;
mod run_description;
mod run_folder;
pub mod runs;
pub mod saver;
mod schedule_curves;
mod self_test;
pub mod session;
mod session_builder;
mod spec;
mod spec_hooks;
mod state;
mod stop;
pub mod summary;
pub mod supervisor;
pub mod train;
mod trainer;
mod training_tables;
mod unoptimised;
mod warm_start;

/// The arrays that feeds are views of.
pub use ndarray;

pub use coordinator::{Coordinator, Looper, LooperThread, STOP_GRACE_PERIOD, Thread};
pub use data::{LeftOut, Vocabulary};
pub use data_report::{DataReport, FeatureReport, data_report};
pub use default_hooks::{with_default_hooks, writable_default_hooks};
pub use dry_run::{DryRun, dry_run};
pub use error::{Cause, Code, DataError, Error, Origin, Position, SourceLocation};
pub use evaluate::{CheckpointChoice, EXPORTED_MODEL, evaluate, find_checkpoint};
pub use export::{Exported, export};
pub use graph::Graph;
pub use monitored::MonitoredSession;
pub use predict::Predictor;
pub use program::{Engine, FeedDict, Fetched, InputElement, InputView};
pub use session::{End, Event, Observer, Options, Session};
pub use session_builder::SessionBuilder;
pub use spec::{CheckError, SpecFolder, check, check_file, read_spec};
pub use state::State;
pub use stop::StopToken;
pub use trainer::train;
pub use trainspec_compiler::ir::{DType, Tensor};
pub use trainspec_compiler::typed::Spec;

/// What the command and the tests use and nobody else should: it may change with every version.
#[doc(hidden)]
pub mod internals {
    /// The input pipeline.
    pub mod data {
        pub use crate::data::{
            Batch, Block, DataContext, Element, FileTable, Input, Pipeline, Position, Records,
            Stage, tables,
        };
    }

    /// Memory limits.
    pub mod memory {
        pub use crate::memory::{Buffer, available, ensure, tensor};
    }

    /// Machine code against the interpreter.
    pub mod self_test {
        pub use crate::self_test::{SelfTest, self_test};
    }

    /// Programs without a session.
    pub mod program {
        pub use crate::program::{Executable, Feeds, Kernel, prepare};
    }
}

/// What the code that `train!` generates uses, and nobody else should.
#[doc(hidden)]
pub mod __private {
    pub use crate::macro_support::{Values, variable};
    pub use crate::session_builder::EmbeddedSpec;
    pub use half;
    pub use ndarray;
    #[cfg(feature = "macros")]
    pub use trainspec_macros::train;
}

/// Compiles a spec into a module: typed feeds and fetches, a session with a builder, parameters and constants.
///
/// The spec stands between the braces, or in a file: `train!(file: "digits.trainspec")`, relative to the Rust file or to the folder of
/// the crate. It is checked by `cargo build`, and its errors are errors of the compiler at the offending token.
///
/// ```
/// use ndarray::array;
///
/// trainspec::train! {
///     spec line;
///
///     const RATE = 0.1;
///
///     model (x: f32[batch], y: f32[batch]) {
///         param a: f32 = zeros();
///         output guess = a * x;
///         loss mean(square(guess - y));
///     }
///
///     train { optimizer gradient_descent(RATE); }
/// }
///
/// let mut session = line::Session::builder().seed(7).build()?;
/// let (x, y) = (array![1.0_f32, 2.0], array![2.0_f32, 4.0]);
/// let out = session.step(&line::Feeds { x: x.view(), y: y.view() })?;
/// assert_eq!(out.loss, 10.0);
/// let predicted = session.predict(&line::Inputs { x: x.view() })?;
/// assert_eq!(predicted.guess, array![1.0, 2.0]);
/// assert_eq!(session.params().a, ndarray::arr0(1.0));
/// assert_eq!(line::RATE, 0.1);
/// # Ok::<(), trainspec::Error>(())
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! train {
    ($($tokens:tt)*) => {
        $crate::__private::train! { $crate; $($tokens)* }
    };
}
