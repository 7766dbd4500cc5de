//! The compiler facade: source text in, any stage of the compilation out.
//!
//! It opens no file: the caller passes the source text and a [`source::Loader`] for the files that `use` names.
//!
//! ```
//! use trainspec_compiler::{Compilation, Options, source::NoFiles};
//!
//! let text = "spec tiny; model (x: f32[batch, 2]) { output y = dense(x, 1); }";
//! let compilation = Compilation::check("tiny.trainspec", text, &NoFiles, &Options::default());
//! assert!(!compilation.failed());
//! assert_eq!(compilation.spec.unwrap().variables.len(), 2);
//! ```

pub mod ast_constants;
mod dataflow;
mod diagram;
mod emit;
mod footprint;
pub mod gradcheck;
mod layers;
pub mod pipeline;
pub mod synthetic;
mod trainable;

pub use diagram::{Diagram, DiagramEdge, DiagramGroup, DiagramNode, DiagramNodeKind, GroupMembers};
pub use emit::{EmitOptions, Stage};
pub use footprint::{Footprint, StateSizes, readable_bytes, state_bytes};
pub use layers::{Layer, Layers, OwnVariable, Parameters};
pub use pipeline::PipelineOptions;
pub use trainable::Trainable;
pub use trainspec_codegen as codegen;
pub use trainspec_frontend::builtins::{SETTINGS, SettingKind, SettingParam, SettingSignature};
pub use trainspec_frontend::check::{MAX_REPORTED, Options};
pub use trainspec_frontend::identity::Identity;
pub use trainspec_frontend::interface::Interface;
pub use trainspec_frontend::lower::{Binding, Fetch, FetchSet, ProgramKind};
pub use trainspec_frontend::{check, diag, dump, fmt, lower, source, syntax, typed};
pub use trainspec_ir as ir;

use std::sync::Arc;

use diag::Diagnostic;
use source::{Loader, Sources};

/// The outcome of checking one spec.
#[derive(Debug)]
pub struct Compilation {
    /// All source files involved; diagnostics point into them.
    pub sources: Sources,
    /// Errors and warnings, in the order of their spans.
    pub diagnostics: Vec<Diagnostic>,
    /// The typed spec, where there are no errors.
    pub spec: Option<Arc<typed::Spec>>,
}

impl Compilation {
    /// Parses and checks a source text.
    pub fn check(name: &str, text: &str, loader: &dyn Loader, options: &Options) -> Compilation {
        let mut sources = Sources::default();
        let root = sources.add(name, text);
        let checked = trainspec_frontend::check::check(&mut sources, root, loader, options);
        Compilation {
            sources,
            diagnostics: checked.diagnostics,
            spec: checked.spec.map(Arc::new),
        }
    }

    /// Whether the spec cannot be used.
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
