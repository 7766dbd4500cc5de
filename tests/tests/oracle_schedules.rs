//! Schedules against TensorFlow's: the cases of `tests/oracle/schedules.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use trainspec_tests::oracle::schedules::run_file;
use trainspec_tests::oracle::{Engine, folder};

#[test]
fn oracle_schedules_interpreted() {
    run_file(&folder().join("schedules.json"), Engine::Interpreted);
}

#[test]
fn oracle_schedules_compiled() {
    run_file(&folder().join("schedules.json"), Engine::Compiled);
}
