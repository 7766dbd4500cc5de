//! Gradients and Hessians of small graphs against TensorFlow's: the cases of `tests/oracle/gradients.json`, or of the folder
//! that `ORACLE_DIR` names.

use trainspec_tests::oracle::gradients::run_file;
use trainspec_tests::oracle::{Engine, assert_values, cases, folder, own_folder};

#[test]
fn oracle_gradients() {
    run_file(&folder().join("gradients.json"), Engine::Interpreted);
}

#[test]
fn oracle_gradients_have_every_function_and_argument() {
    assert_values("gradients.json", "kind", &["gradients", "hessians"]);
    let cases = cases(&own_folder().join("gradients.json"));
    for argument in ["grad_ys", "stop_gradients", "unconnected_gradients"] {
        let given = |case: &serde_json::Value| !case[argument].is_null();
        assert!(cases.iter().any(given), "no case with `{argument}`");
    }
    let text = serde_json::to_string(&cases).unwrap();
    assert!(
        text.contains("\"stop_gradient\""),
        "no case with the operation"
    );
}
