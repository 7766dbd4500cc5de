//! Runs of training against TensorFlow's: the cases of `tests/oracle/training.json`, or of the folder that `ORACLE_DIR`
//! names, interpreted and compiled.

use trainspec_tests::oracle::training::run_file;
use trainspec_tests::oracle::{Engine, folder};

#[test]
fn oracle_training_interpreted() {
    run_file(&folder().join("training.json"), Engine::Interpreted);
}

#[test]
fn oracle_training_compiled() {
    run_file(&folder().join("training.json"), Engine::Compiled);
}
