//! The reference data of `tests/oracle`, and folders for tests to write in.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test includes it and uses a part"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value as Json;

pub mod messages;
pub mod sha256;
pub mod tensors;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder of the cases that are run: the one that `ORACLE_DIR` names, seen from the root of the repository, or our own.
pub fn oracle() -> PathBuf {
    match std::env::var_os("ORACLE_DIR") {
        Some(named) => root().join(named),
        None => root().join("tests/oracle"),
    }
}

/// A JSON file of it.
pub fn json(path: impl AsRef<Path>) -> Json {
    let path = oracle().join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The bytes of a string of hexadecimal digits.
pub fn bytes(hex: &Json) -> Vec<u8> {
    let hex = hex.as_str().expect("hexadecimal digits").as_bytes();
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// The peak resident memory of this process so far, in MiB (Linux only).
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number") >> 10
}

/// A folder of its own that is removed in the end.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    pub fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trainspec-formats-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
