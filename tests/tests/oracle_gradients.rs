//! Gradients and Hessians of small graphs against TensorFlow's: the cases of `tests/oracle/gradients.json`, or of the folder
//! that `ORACLE_DIR` names.

use trainspec_tests::oracle::gradients::run_file;
use trainspec_tests::oracle::{Engine, folder};

#[test]
fn oracle_gradients() {
    run_file(&folder().join("gradients.json"), Engine::Interpreted);
}
