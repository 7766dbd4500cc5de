//! The reference data of `tests/oracle`.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test includes it and uses a part"
)]

use std::path::Path;

use serde_json::Value as Json;

pub use trainspec_testing::folders::{Folder, oracle, root};

pub mod messages;
pub mod records;
pub mod sha256;
pub mod tensors;

/// A JSON file of the reference data.
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

/// The environment variable of a child process with limited memory.
const LIMITED_MEMORY_VARIABLE: &str = "TRAINSPEC_LIMITED_MEMORY";

/// Runs a test of this executable in a child process whose address space has that many MiB; in the child process, and there alone,
/// calls `inside`.
pub fn limited(test: &str, mib: u64, environment: &[(&str, String)], inside: impl FnOnce()) {
    if std::env::var_os(LIMITED_MEMORY_VARIABLE).is_some() {
        return inside();
    }
    if test.is_empty() {
        return;
    }
    let child = std::process::Command::new("sh")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\""])
        .arg((mib << 10).to_string())
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(LIMITED_MEMORY_VARIABLE, "1")
        // The text of a backtrace takes more memory than there is.
        .env("RUST_BACKTRACE", "0")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()
        .expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&child.stdout), text(&child.stderr));
    assert!(child.status.success(), "{}\n{out}{error}", child.status);
    assert!(out.contains("1 passed"), "{out}");
}
