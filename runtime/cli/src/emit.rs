//! `trainspec emit`: a stage of the compilation as text.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use trainspec::SpecFolder;
use trainspec_compiler::source::Sources;
use trainspec_compiler::{Compilation, EmitOptions, Fetch, FetchSet, ProgramKind, Stage};

use crate::output::{diagnostics, print_raw};
use crate::{BAD_INPUT, FINE, Format, files};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// The stage
    #[arg(long)]
    stage: StageName,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The size of a named dimension that the training data does not fix
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = files::name_and_size)]
    dims: Vec<(String, i64)>,
    /// The program to show, where it is not the training step: initial, micro-batch, merge, gradients, apply, evaluate or predict
    #[arg(long, value_name = "KIND")]
    program: Option<ProgramKind>,
    /// A result that is fetched, instead of those that a run fetches: loss/NAME, metric/NAME, output/NAME, let/NAME, schedule/NAME or
    /// gradient/LOSS/VARIABLE
    #[arg(long, value_name = "NAME")]
    fetch: Vec<Fetch>,
    /// Disable an optimization pass
    #[arg(long = "disable-pass", value_name = "NAME", value_parser = files::pass_name)]
    disabled: Vec<String>,
}

/// A stage as an argument.
#[derive(Debug, Clone, Copy)]
struct StageName(Stage);

impl ValueEnum for StageName {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                StageName(Stage::Ast),
                StageName(Stage::Typed),
                StageName(Stage::Graph),
                StageName(Stage::Grad),
                StageName(Stage::Step),
                StageName(Stage::Fused),
                StageName(Stage::Kernels),
                StageName(Stage::Plan),
                StageName(Stage::Clif),
                StageName(Stage::Asm),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.doc()))
    }
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let path = &arguments.file;
    let text = match files::read(path) {
        Ok(text) => text,
        Err(diagnostic) => {
            diagnostics(&Sources::default(), &[diagnostic], Format::Text);
            return BAD_INPUT;
        }
    };
    let loader = SpecFolder::of(path);
    let name = path.display().to_string();
    let emit_options = EmitOptions {
        dims: arguments.dims.iter().cloned().collect(),
        pipeline: files::pipeline(&arguments.disabled),
        program: arguments.program,
        fetches: match arguments.fetch.as_slice() {
            [] => None,
            fetches => Some(FetchSet::Only(fetches.iter().cloned().collect())),
        },
        ..EmitOptions::default()
    };
    let options = files::options(&arguments.set);
    let stage = arguments.stage.0;
    if !arguments.dims.is_empty() {
        let compilation = Compilation::check(&name, &text, &loader, &options);
        let spec = compilation.spec.as_ref();
        // What is wrong with the spec itself is reported below.
        let unknown = spec.and_then(|spec| files::known_dimensions(spec, &arguments.dims).err());
        if let Some(unknown) = unknown {
            diagnostics(&compilation.sources, &[unknown], Format::Text);
            return BAD_INPUT;
        }
    }
    match stage.emit(&name, &text, &loader, &options, &emit_options) {
        Ok(text) => {
            print_raw(&text);
            FINE
        }
        Err(compilation) => {
            diagnostics(&compilation.sources, &compilation.diagnostics, Format::Text);
            BAD_INPUT
        }
    }
}
