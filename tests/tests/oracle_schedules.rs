//! Schedules against TensorFlow's: the cases of `tests/oracle/schedules.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use trainspec_tests::oracle::schedules::{run_file, same_bits};
use trainspec_tests::oracle::{Engine, folder, own_folder};

#[test]
fn oracle_schedules_interpreted() {
    run_file(&folder().join("schedules.json"), Engine::Interpreted);
}

#[test]
fn oracle_schedules_compiled() {
    run_file(&folder().join("schedules.json"), Engine::Compiled);
}

/// The difference of the two rates is taken in f32. Interpreted only: the last place of a power is the engine's own.
#[test]
fn polynomial_decay_has_the_bits_of_tensorflow() {
    let path = own_folder().join("schedules.json");
    same_bits(&path, "polynomial_decay", Engine::Interpreted);
}
