//! Clipping and its gradients against TensorFlow's: the cases of `tests/oracle/clipping.json`, or of the folder that
//! `ORACLE_DIR` names.

use trainspec_tests::oracle::clipping::run_file;
use trainspec_tests::oracle::{Engine, assert_values, folder};

#[test]
fn oracle_clipping() {
    run_file(&folder().join("clipping.json"), Engine::Interpreted);
}

/// Every function of `tf.train` that clips has cases, and those that go with them.
#[test]
fn oracle_clipping_has_every_function() {
    let functions = [
        "clip_by_value",
        "clip_by_norm",
        "clip_by_average_norm",
        "clip_by_global_norm",
        "global_norm",
        "zero_fraction",
    ];
    assert_values("clipping.json", "op", &functions);
}
