//! Gradients and Hessians of small graphs against TensorFlow's: the cases of `tests/oracle/gradients.json`, or of the folder
//! that `ORACLE_DIR` names.

use trainspec_tests::oracle::{Engine, folder};
use trainspec_tests::oracle::gradients::run_file;

#[test]
fn oracle_gradients() {
    run_file(&folder().join("gradients.json"), Engine::Interpreted);
}
