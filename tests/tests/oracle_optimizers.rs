//! Optimizers against TensorFlow's: the cases of `tests/oracle/optimizers.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use trainspec_tests::oracle::optimizers::run_file;
use trainspec_tests::oracle::{Engine, folder};

#[test]
fn oracle_optimizers_interpreted() {
    run_file(&folder().join("optimizers.json"), Engine::Interpreted);
}

#[test]
fn oracle_optimizers_compiled() {
    run_file(&folder().join("optimizers.json"), Engine::Compiled);
}
