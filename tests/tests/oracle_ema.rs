//! Moving averages against TensorFlow's: the cases of `tests/oracle/ema.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use trainspec_tests::oracle::averages::run_file;
use trainspec_tests::oracle::{Engine, assert_values, cases, folder, own_folder};

#[test]
fn oracle_ema_interpreted() {
    run_file(&folder().join("ema.json"), Engine::Interpreted);
}

#[test]
fn oracle_ema_compiled() {
    run_file(&folder().join("ema.json"), Engine::Compiled);
}

/// `ExponentialMovingAverage` has cases of every method and argument.
#[test]
fn oracle_ema_has_every_method_and_argument() {
    assert_values("ema.json", "kind", &["apply", "variables_to_restore"]);
    let cases = cases(&own_folder().join("ema.json"));
    let has = |found: &dyn Fn(&serde_json::Value) -> bool| cases.iter().any(found);
    assert!(has(&|case| case["num_updates"].is_array()));
    assert!(has(&|case| case["args"]["zero_debias"] == true));
    // The results of `average_name`.
    assert!(has(
        &|case| !case["expected"]["average_name_results"].is_null()
    ));
    // The results of `average`.
    assert!(has(&|case| !case["expected"]["average_names"].is_null()));
}
