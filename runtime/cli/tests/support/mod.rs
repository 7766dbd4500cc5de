//! The command, what it prints, and folders for tests to write in.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test includes it and uses a part"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

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

/// A temporary folder, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    pub fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trainspec-cli-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A path in it, as it is typed.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The names of its entries, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Runs the command in the folder.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = command(arguments);
        let command = command.current_dir(&self.0).env_remove("NO_COLOR");
        command.output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
