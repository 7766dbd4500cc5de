//! A step of training that is run again and again, interpreted or compiled.
//!
//! In: the text of a spec, and values for some of its state. Out: the results of each step, and the state by name in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_codegen::Options as CodeOptions;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable, InputView};
use trainspec_compiler::diag::{Diagnostic, Style, render};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{Compilation, Options};
use trainspec_frontend::lower::{self, Binding, Context, SEED};
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, State};
use trainspec_ir::plan::plan;
use trainspec_ir::{Tensor, interp, passes};

use crate::oracle::Engine;

/// Checks a text; the errors where there are some.
pub fn checked(text: &str) -> Result<Spec, String> {
    let found = Compilation::check("run.trainspec", text, &NoFiles, &Options::default());
    let errors: Vec<String> = found
        .diagnostics
        .iter()
        .filter(|d| d.is_error())
        .map(|d| render(&found.sources, d, Style::Plain))
        .collect();
    match found.spec {
        Some(spec) if errors.is_empty() => Ok(Arc::unwrap_or_clone(spec)),
        _ => Err(format!("{text}{}", errors.join("\n"))),
    }
}

/// A run of training: its step and its state.
pub struct Run {
    program: Program,
    names: Vec<String>,
    state: Vec<Tensor>,
}

impl Run {
    /// Begins a run of a spec without named dimensions. `wide` computes in f64 what the spec has in other floats; `start`
    /// replaces initial values.
    pub fn new(
        spec: &Spec,
        wide: bool,
        start: BTreeMap<String, Tensor>,
        engine: Engine,
    ) -> Result<Run, String> {
        let failed_lowering = |wrong: Diagnostic| format!("no graph: {}", wrong.message);
        let binding = Binding::new();
        let cx = Context {
            widen: wide,
            ..Context::new(spec, &binding)
        };
        let step = lower::step(&cx).map_err(failed_lowering)?;
        let initial = lower::initial(&cx).map_err(failed_lowering)?;
        let values = interp::run(&initial, &seed(), &[]).map_err(|e| e.to_string())?;
        let names = initial.results.iter().map(|(name, _)| name.clone());
        let mut values: BTreeMap<String, Tensor> = names.zip(values.results).collect();
        values.extend(start);
        let program = Program::new(step.graph, engine)?;
        let names: Vec<String> = program.state().iter().map(|s| s.name.clone()).collect();
        let state = names
            .iter()
            .map(|name| values.remove(name).ok_or(format!("no `{name}`")))
            .collect::<Result<_, _>>()?;
        Ok(Run {
            program,
            names,
            state,
        })
    }

    /// The names of the state: variables, slots, scalars of optimizers and `global_step`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// A part of the state.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        let index = self.names.iter().position(|n| n == name)?;
        Some(&self.state[index])
    }

    /// Changes a part of the state.
    pub fn set(&mut self, name: &str, value: Tensor) -> Result<(), String> {
        let index = self.names.iter().position(|n| n == name);
        self.state[index.ok_or(format!("no `{name}`"))?] = value;
        Ok(())
    }

    /// Runs one step with these inputs and a seed of 0; its results by name.
    pub fn step(
        &mut self,
        mut inputs: BTreeMap<String, Tensor>,
    ) -> Result<BTreeMap<String, Tensor>, String> {
        inputs.extend(seed());
        self.program.run(&inputs, &mut self.state)
    }
}

fn seed() -> BTreeMap<String, Tensor> {
    BTreeMap::from([(SEED.to_owned(), Tensor::scalar(0_i64))])
}

/// What a step is run by.
enum Program {
    Interpreted(Graph),
    Compiled(Box<Executable>),
}

impl Program {
    fn new(graph: Graph, engine: Engine) -> Result<Program, String> {
        Ok(match engine {
            Engine::Interpreted => Program::Interpreted(graph),
            Engine::Compiled => {
                let graph = passes::run(graph, &Default::default());
                let pool = Arc::new(Pool::exactly(2));
                let compiled =
                    CompiledProgram::compile(plan(fuse(&graph, true)), &CodeOptions::default())
                        .map_err(|e| format!("it cannot be compiled: {e}"))?;
                Program::Compiled(Box::new(Executable::new(compiled, pool)))
            }
        })
    }

    fn state(&self) -> &[State] {
        match self {
            Program::Interpreted(graph) => &graph.state,
            Program::Compiled(program) => program.state(),
        }
    }

    fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        state: &mut [Tensor],
    ) -> Result<BTreeMap<String, Tensor>, String> {
        let failed = |e: interp::RunError| format!("the run fails: {e}");
        match self {
            Program::Interpreted(graph) => {
                let outcome = interp::run(graph, inputs, state).map_err(failed)?;
                for (index, value) in outcome.writes {
                    state[index] = value;
                }
                let names = graph.results.iter().map(|(name, _)| name.clone());
                Ok(names.zip(outcome.results).collect())
            }
            Program::Compiled(program) => {
                let feeds: Vec<InputView<'_>> = program
                    .inputs()
                    .iter()
                    .map(|(name, _)| {
                        let tensor = inputs.get(name).ok_or(format!("no input `{name}`"))?;
                        Ok(InputView::from(tensor))
                    })
                    .collect::<Result<_, String>>()?;
                let indices: Vec<usize> = (0..state.len()).collect();
                let results = program.run(&feeds, state, &indices).map_err(failed)?;
                Ok(results.into_iter().collect())
            }
        }
    }
}
