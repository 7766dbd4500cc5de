//! Textual dumps of the compilation stages, by name.

use std::collections::BTreeSet;

use crate::codegen::listing::{Form, Target, listing};
use crate::diag::{Code, Diagnostic};
use crate::ir::fuse::fuse;
use crate::ir::kernel::{Groups, Kernels};
use crate::ir::plan::plan;
use crate::ir::{graph::Graph, passes};
use crate::lower::{self, Binding, Context};
use crate::source::{Loader, Sources};
use crate::typed::Spec;
use crate::{Compilation, Options, dump, syntax, typed};

/// A stage of the compilation that has a textual form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The abstract syntax tree (AST), with the location of every node.
    Ast,
    /// The typed spec.
    Typed,
    /// The model as a graph of primitives.
    Graph,
    /// The model with the gradients of its losses, simplified.
    Grad,
    /// The training step: gradients and updates, simplified.
    Step,
    /// The step as fusion groups.
    Fused,
    /// The step as kernels: the loops of the fusion groups.
    Kernels,
    /// The kernels with the buffer allocation.
    Plan,
    /// The loops as Cranelift IR (CLIF).
    Clif,
    /// The loops as assembly.
    Asm,
}

/// The options of the stages after the typed spec.
#[derive(Debug, Clone, Default)]
pub struct EmitOptions {
    /// The sizes of named dimensions that the training data does not fix.
    pub dims: Binding,
    /// The passes that are not run.
    pub disabled: BTreeSet<String>,
    /// Whether the model is lowered in evaluation mode, not in training mode.
    pub eval: bool,
    /// The target machine of `clif` and `asm`.
    pub target: Target,
}

impl Stage {
    /// All stages, in the order in which they follow each other.
    pub const ALL: [Stage; 10] = [
        Stage::Ast,
        Stage::Typed,
        Stage::Graph,
        Stage::Grad,
        Stage::Step,
        Stage::Fused,
        Stage::Kernels,
        Stage::Plan,
        Stage::Clif,
        Stage::Asm,
    ];

    /// The name, as `emit --stage NAME` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Ast => "ast",
            Stage::Typed => "typed",
            Stage::Graph => "graph",
            Stage::Grad => "grad",
            Stage::Step => "step",
            Stage::Fused => "fused",
            Stage::Kernels => "kernels",
            Stage::Plan => "plan",
            Stage::Clif => "clif",
            Stage::Asm => "asm",
        }
    }

    /// A description of the stage, in one sentence.
    pub fn doc(self) -> &'static str {
        match self {
            Stage::Ast => "the abstract syntax tree, with the location of every node",
            Stage::Typed => {
                "the typed spec: every dimension, dtype, variable and random site resolved"
            }
            Stage::Graph => "the model as a graph of primitive operations",
            Stage::Grad => "the model with the gradients of its losses, simplified",
            Stage::Step => "the training step: gradients and updates, simplified",
            Stage::Fused => "the step as fusion groups: what was fused, and why a group ended",
            Stage::Kernels => "the step as kernels: the loops of the fusion groups",
            Stage::Plan => {
                "the kernels with the buffer allocation, the bytes they move and their FLOPs"
            }
            Stage::Clif => "the loops as Cranelift IR",
            Stage::Asm => "the loops as assembly",
        }
    }

    /// The textual form of this stage; `Err` holds the diagnostics of a spec that fails before it.
    ///
    /// ```
    /// use trainspec_compiler::{EmitOptions, Options, Stage, source::NoFiles};
    ///
    /// let (options, emit_options) = (Options::default(), EmitOptions::default());
    /// let text = Stage::Typed.emit("a", "spec a; const N = 1 + 1;", &NoFiles, &options, &emit_options);
    /// assert!(text.unwrap().contains("const N = 2"));
    /// ```
    pub fn emit(
        self,
        name: &str,
        text: &str,
        loader: &dyn Loader,
        options: &Options,
        emit_options: &EmitOptions,
    ) -> Result<String, Box<Compilation>> {
        if self == Stage::Ast {
            let mut sources = Sources::default();
            let root = sources.add(name, text);
            let (parsed, diagnostics) = syntax::parse(root, text);
            return match diagnostics.is_empty() {
                true => Ok(dump::dump(&parsed.file)),
                false => Err(Box::new(Compilation {
                    sources,
                    diagnostics,
                    spec: None,
                })),
            };
        }
        let mut compilation = Compilation::check(name, text, loader, options);
        let Some(spec) = &compilation.spec else {
            return Err(Box::new(compilation));
        };
        let text = match self {
            Stage::Ast | Stage::Typed => Ok(typed::print(spec)),
            Stage::Graph | Stage::Grad | Stage::Step => self
                .graph(spec, emit_options)
                .map(|graph| graph.to_string()),
            Stage::Fused | Stage::Kernels | Stage::Plan | Stage::Clif | Stage::Asm => self
                .graph(spec, emit_options)
                .and_then(|graph| self.kernels(fuse(&graph, true), emit_options)),
        };
        text.map_err(|diagnostic| {
            compilation.diagnostics.push(diagnostic);
            Box::new(compilation)
        })
    }

    /// The textual form of a stage after the graph.
    fn kernels(self, kernels: Kernels, emit_options: &EmitOptions) -> Result<String, Diagnostic> {
        let listed = |form| {
            // A listing fails only for an unsupported target.
            listing(&kernels, form, emit_options.target)
                .map_err(|e| Diagnostic::without_span(Code::UnknownSetting, e.to_string()))
        };
        match self {
            Stage::Fused => Ok(Groups(&kernels).to_string()),
            Stage::Plan => Ok(plan(kernels).to_string()),
            Stage::Clif => listed(Form::Clif),
            Stage::Asm => listed(Form::Asm),
            Stage::Ast
            | Stage::Typed
            | Stage::Graph
            | Stage::Grad
            | Stage::Step
            | Stage::Kernels => Ok(kernels.to_string()),
        }
    }

    /// The graph of this stage, with the dimensions bound by the training data and the options.
    fn graph(self, spec: &Spec, emit_options: &EmitOptions) -> Result<Graph, Diagnostic> {
        let data = spec.train.as_ref().and_then(|t| t.data.as_deref());
        let mut dims = data.map_or_else(Binding::new, |data| lower::dimensions_of_data(spec, data));
        dims.extend(
            emit_options
                .dims
                .iter()
                .map(|(name, size)| (name.clone(), *size)),
        );
        if let Some(name) = lower::dimension_names(spec)
            .into_iter()
            .find(|n| !dims.contains_key(n))
        {
            let message = format!("the size of `{name}` is not known, and a graph needs it");
            return Err(Diagnostic::without_span(Code::UnknownSize, message)
                .help(format!("give it: `--dim {name}=32`")));
        }
        let cx = Context::new(spec, &dims);
        match self {
            Stage::Ast | Stage::Typed | Stage::Graph => lower::model(&cx, !emit_options.eval),
            Stage::Grad => Ok(passes::run(lower::gradients(&cx)?, &emit_options.disabled)),
            Stage::Step
            | Stage::Fused
            | Stage::Kernels
            | Stage::Plan
            | Stage::Clif
            | Stage::Asm => Ok(passes::run(lower::step(&cx)?.graph, &emit_options.disabled)),
        }
    }
}
