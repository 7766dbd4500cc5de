//! `trainspec completions`: shell completion scripts.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::output::print_raw;
use crate::{Cli, FINE};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "trainspec",
        &mut script,
    );
    print_raw(&String::from_utf8_lossy(&script));
    FINE
}
