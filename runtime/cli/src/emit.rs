//! `trainspec emit`

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use trainspec_compiler::Stage;
use trainspec_compiler::source::Sources;

use crate::output::{diagnostics, print_raw};
use crate::{BAD_INPUT, FINE, Format, files};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The spec; `-` is standard input
    file: PathBuf,
    /// Which stage
    #[arg(long)]
    stage: StageName,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
}

/// A stage as an argument.
#[derive(Debug, Clone, Copy)]
struct StageName(Stage);

impl ValueEnum for StageName {
    fn value_variants<'a>() -> &'a [Self] {
        const { &[StageName(Stage::Ast), StageName(Stage::Typed)] }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Stage::Ast => "the syntax tree, with the place of every node",
            Stage::Typed => {
                "the typed spec: every dimension, dtype, variable and random site resolved"
            }
        };
        Some(PossibleValue::new(self.0.name()).help(help))
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
    let loader = files::Disk::beside(path);
    let name = path.display().to_string();
    match arguments
        .stage
        .0
        .emit(&name, &text, &loader, &files::options(&arguments.set))
    {
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
