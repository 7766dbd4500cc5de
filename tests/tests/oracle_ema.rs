//! Moving averages against TensorFlow's: the cases of `tests/oracle/ema.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use trainspec_tests::oracle::averages::run_file;
use trainspec_tests::oracle::{Engine, folder};

#[test]
fn oracle_ema_interpreted() {
    run_file(&folder().join("ema.json"), Engine::Interpreted);
}

#[test]
fn oracle_ema_compiled() {
    run_file(&folder().join("ema.json"), Engine::Compiled);
}
