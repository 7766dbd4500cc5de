//! Every case of `misc.json` is compared by some test: none is passed over.

use trainspec_testing::folders::oracle;

use crate::saver::cases;
use crate::{hooks, monitored};

/// The kinds all of whose cases one test here goes through, which fails for one that it does not know.
const COMPARED_HERE: [&str; 9] = [
    "timer",
    "hook_schedule",
    "hook_error",
    "coordinator",
    "saver_keep",
    "manager_keep",
    "warm_start",
    "warm_start_names",
    "init_from_checkpoint",
];

/// The kinds that `oracle_helpers_do_what_tensorflow_does` of `trainspec-formats` goes through.
const COMPARED_BY_FORMATS: [&str; 5] = [
    "generate_checkpoint_state_proto",
    "update_checkpoint_state",
    "checkpoint_helpers",
    "load_variable",
    "list_variables",
];

#[test]
fn oracle_misc_has_no_case_without_a_test() {
    let path = oracle().join("misc.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    for case in json["cases"].as_array().unwrap() {
        let kind = case["kind"].as_str().unwrap();
        let tests = COMPARED_HERE.iter().chain(&COMPARED_BY_FORMATS);
        let tests = tests.filter(|known| **known == kind).count();
        let tests = tests + usize::from(kind == "hooks");
        assert_eq!(tests, 1, "no test compares {case}");
    }
    for case in cases("hooks") {
        let name = case["name"].as_str().unwrap();
        let own = hooks::OWN_TESTS.iter().chain(&monitored::OWN_TESTS);
        let own = own.filter(|(known, _)| *known == name).count();
        let tests = own + usize::from(monitored::scenario(name).is_some());
        assert_eq!(tests, 1, "no test compares {name}");
    }
}
