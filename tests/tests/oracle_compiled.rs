//! The reference cases again, through machine code: fused loops, routines, threads. Nothing is left to the interpreter.

use trainspec_tests::files_below;
use trainspec_tests::oracle::{Engine, clipping, folder, gradients, ops};

#[test]
fn oracle_compiled_operations() {
    for path in files_below(&folder(), "json") {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("ops_") {
            ops::run_file(&path, Engine::Compiled);
        }
    }
}

#[test]
fn oracle_compiled_gradients() {
    gradients::run_file(&folder().join("gradients.json"), Engine::Compiled);
}

#[test]
fn oracle_compiled_clipping() {
    clipping::run_file(&folder().join("clipping.json"), Engine::Compiled);
}
