//! Operations and their gradients against TensorFlow's values: the cases of `tests/oracle/ops_*.json`, or of the folder
//! that `ORACLE_DIR` names.

use trainspec_tests::files_below;
use trainspec_tests::oracle::ops::run_file;
use trainspec_tests::oracle::{Engine, folder};

const FILES: [&str; 4] = [
    "ops_elementwise.json",
    "ops_reduce_loss.json",
    "ops_nn.json",
    "ops_array.json",
];

#[test]
fn oracle_elementwise() {
    run_file(&folder().join(FILES[0]), Engine::Interpreted);
}

#[test]
fn oracle_reduce_loss() {
    run_file(&folder().join(FILES[1]), Engine::Interpreted);
}

#[test]
fn oracle_nn() {
    run_file(&folder().join(FILES[2]), Engine::Interpreted);
}

#[test]
fn oracle_array() {
    run_file(&folder().join(FILES[3]), Engine::Interpreted);
}

#[test]
fn oracle_other_files_of_operations() {
    for path in files_below(&folder(), "json") {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("ops_") && !FILES.contains(&&*name) {
            run_file(&path, Engine::Interpreted);
        }
    }
}
