//! Clipping and its gradients against TensorFlow's: the cases of `tests/oracle/clipping.json`, or of the folder that
//! `ORACLE_DIR` names.

use trainspec_tests::oracle::clipping::run_file;
use trainspec_tests::oracle::{Engine, folder};

#[test]
fn oracle_clipping() {
    run_file(&folder().join("clipping.json"), Engine::Interpreted);
}
