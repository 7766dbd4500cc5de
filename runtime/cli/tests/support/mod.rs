//! The command, what it prints, and runs of it in a folder.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test includes it and uses a part"
)]

#[cfg(unix)]
pub mod terminal;

use std::process::{Command, Output, Stdio};

pub use trainspec_testing::folders::{Folder, root};

/// The command, without input.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainspec"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the command.
pub fn trainspec(arguments: &[&str]) -> Output {
    command(arguments).env("NO_COLOR", "1").output().unwrap()
}

/// Its exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Its standard output.
pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its standard error.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the command in a folder.
pub trait RunCommand {
    /// Runs it there.
    fn run(&self, arguments: &[&str]) -> Output;
}

impl RunCommand for Folder {
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = command(arguments);
        let command = command.current_dir(&self.0).env_remove("NO_COLOR");
        command.output().unwrap()
    }
}
