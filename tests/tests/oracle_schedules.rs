//! Schedules against TensorFlow's: the cases of `tests/oracle/schedules.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use trainspec_tests::oracle::schedules::{run_file, same_bits};
use trainspec_tests::oracle::{Engine, assert_values, folder, own_folder};

#[test]
fn oracle_schedules_interpreted() {
    run_file(&folder().join("schedules.json"), Engine::Interpreted);
}

#[test]
fn oracle_schedules_compiled() {
    run_file(&folder().join("schedules.json"), Engine::Compiled);
}

/// Every schedule of `tf.train` has cases; `piecewise_constant_decay` is another name of `piecewise_constant`.
#[test]
fn oracle_schedules_are_those_of_tf_train() {
    let functions = [
        "exponential_decay",
        "natural_exp_decay",
        "inverse_time_decay",
        "polynomial_decay",
        "cosine_decay",
        "cosine_decay_restarts",
        "linear_cosine_decay",
        "noisy_linear_cosine_decay",
        "piecewise_constant",
    ];
    assert_values("schedules.json", "kind", &functions);
}

/// The difference of the two rates is taken in f32. Interpreted only: the last place of a power is the engine's own.
#[test]
fn polynomial_decay_has_the_bits_of_tensorflow() {
    let path = own_folder().join("schedules.json");
    same_bits(&path, "polynomial_decay", Engine::Interpreted);
}
