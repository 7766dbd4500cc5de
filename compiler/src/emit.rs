//! Textual dumps of the compilation stages, by name.

use std::sync::Arc;

use crate::codegen::listing::{Form, Target, listing};
use crate::diag::{Code, Diagnostic};
use crate::ir::graph::Graph;
use crate::ir::kernel::{Groups, Kernels};
use crate::lower::{self, Binding, Context, FetchSet, ProgramKind};
use crate::pipeline::{self, PipelineOptions};
use crate::source::{Loader, Sources};
use crate::trainable::Trainable;
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
    /// Passes and fusion.
    pub pipeline: PipelineOptions,
    /// The program that is shown, where it is not the one that the stage shows by itself.
    pub program: Option<ProgramKind>,
    /// What is fetched from it, where that is not what a run fetches.
    pub fetches: Option<FetchSet>,
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
            Stage::Fused | Stage::Kernels | Stage::Plan | Stage::Clif | Stage::Asm => {
                self.graph(spec, emit_options).and_then(|graph| {
                    let kernels = pipeline::fuse(&graph, &emit_options.pipeline);
                    self.kernels(kernels, emit_options)
                })
            }
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
            Stage::Plan => Ok(pipeline::plan(kernels).to_string()),
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

    /// The graph of this stage, with the dimensions that the training data and the options give.
    fn graph(self, spec: &Arc<Spec>, options: &EmitOptions) -> Result<Graph, Diagnostic> {
        let dims = pipeline::dimensions(spec, &options.dims)?;
        let trainable = Trainable::from(spec.clone());
        let kind = match (self, options.program) {
            (Stage::Ast | Stage::Typed | Stage::Graph, None) => {
                return lower::model(&Context::new(spec, &dims), true);
            }
            (_, Some(kind)) => kind,
            (Stage::Grad, None) => ProgramKind::Gradients,
            (_, None) => ProgramKind::Step,
        };
        let graph = pipeline::lower(&trainable, kind, &dims)?.graph;
        if self == Stage::Graph {
            return Ok(graph);
        }
        let fetches = match &options.fetches {
            Some(fetches) => {
                pipeline::check_fetches(&graph, kind, fetches)?;
                fetches.clone()
            }
            None => trainable.fetches(kind),
        };
        Ok(pipeline::simplify(graph, &fetches, &options.pipeline))
    }
}
