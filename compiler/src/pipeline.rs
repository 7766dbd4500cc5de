//! The compiler pipeline on one page: lower, simplify, fuse, plan, compile.
//!
//! Each stage is a function of one input and one output. `emit`, `bench`, `gradcheck`, sessions and the maps of a data set all go
//! through here, with an explicit fetch set, so that what `emit` shows is what runs.
//!
//! `Trainable → Graph → (passes) → Graph → Kernels → Program → CompiledProgram`

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::codegen::exec::CompiledProgram;
use crate::codegen::{self, CompileError};
use crate::diag::{Code, Diagnostic};
use crate::ir::graph::Graph;
use crate::ir::kernel::Kernels;
use crate::ir::plan::Program;
use crate::ir::{fuse, passes, plan};
use crate::lower::{self, Binding, FetchSet, Lowered, ProgramKind};
use crate::trainable::Trainable;
use crate::typed::Spec;

/// How the pipeline compiles.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// The passes that are not run, by name.
    pub disabled_passes: BTreeSet<String>,
    /// Whether elementwise operations and reductions are fused into loops.
    pub fusion: bool,
    /// The machine that code is made for.
    pub codegen: codegen::Options,
}

impl Default for PipelineOptions {
    fn default() -> PipelineOptions {
        PipelineOptions {
            disabled_passes: BTreeSet::new(),
            fusion: true,
            codegen: codegen::Options::default(),
        }
    }
}

/// Stage 1: a program of a trainable as a graph, with all results that can be fetched.
pub fn lower(
    trainable: &Trainable,
    kind: ProgramKind,
    dims: &Binding,
) -> Result<Lowered, Diagnostic> {
    trainable.lower(kind, dims)
}

/// Fails where a program does not give what is to be fetched.
pub fn check_fetches(
    graph: &Graph,
    kind: ProgramKind,
    fetches: &FetchSet,
) -> Result<(), Diagnostic> {
    let FetchSet::Only(fetches) = fetches else {
        return Ok(());
    };
    let names: Vec<&str> = graph
        .results
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut requested = fetches.iter().map(|fetch| fetch.to_string());
    match requested.find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let message = format!("the program `{kind}` has no result `{name}`");
            Err(Diagnostic::without_span(Code::UnknownName, message)
                .help(format!("it has {}", names.join(", "))))
        }
    }
}

/// Stage 2: the graph restricted to a fetch set and simplified by all passes.
pub fn simplify(mut graph: Graph, fetches: &FetchSet, options: &PipelineOptions) -> Graph {
    fetches.restrict(&mut graph);
    passes::run(graph, &options.disabled_passes)
}

/// Stage 3: the simplified graph as fused kernels.
pub fn fuse(graph: &Graph, options: &PipelineOptions) -> Kernels {
    fuse::fuse(graph, options.fusion)
}

/// Stage 4: kernels with their order and the memory of each buffer.
pub fn plan(kernels: Kernels) -> Program {
    plan::plan(kernels)
}

/// Stage 5: the planned program as machine code, which any number of runners can share.
pub fn compile(
    program: Program,
    options: &PipelineOptions,
) -> Result<Arc<CompiledProgram>, CompileError> {
    CompiledProgram::compile(program, &options.codegen)
}

/// Stages 2 to 4: a graph as the program that runs.
pub fn planned(graph: Graph, fetches: &FetchSet, options: &PipelineOptions) -> Program {
    plan(fuse(&simplify(graph, fetches, options), options))
}

/// The sizes of all named dimensions of a spec: those that are given, else those of its training data.
pub fn dimensions(spec: &Spec, given: &Binding) -> Result<Binding, Diagnostic> {
    let data = spec.train.as_ref().and_then(|t| t.data.as_deref());
    let mut dims = data.map_or_else(Binding::new, |data| lower::dimensions_of_data(spec, data));
    dims.extend(given.iter().map(|(name, size)| (name.clone(), *size)));
    let unknown = lower::dimension_names(spec);
    match unknown.into_iter().find(|name| !dims.contains_key(name)) {
        None => Ok(dims),
        Some(name) => {
            let message = format!("the size of `{name}` is not known, and a graph needs it");
            Err(Diagnostic::without_span(Code::UnknownSize, message)
                .help(format!("give it: `--dim {name}=32`")))
        }
    }
}
