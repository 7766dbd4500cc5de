//! Data sets that take their records from another data set.

use trainspec::internals::data::Pipeline;

use crate::support::{MemoryEnv, context, ints, numbers, spec};

/// The integers that a data set of a spec gives, while training or in an evaluation.
fn all(text: &str, name: &str, training: bool) -> Vec<i64> {
    let env = MemoryEnv::new(&[("n.csv", &numbers(6)), ("other.csv", b"70\n80\n")]);
    let spec = spec(text);
    let mut cx = context(&env, &spec, 0);
    cx.training = training;
    let set = spec.data.iter().find(|set| set.name == name).unwrap();
    let mut pipeline = Pipeline::open(&cx, set).unwrap();
    let mut elements = Vec::new();
    while let Some(element) = pipeline.next().unwrap() {
        elements.push(element);
    }
    ints(&elements, "x")
}

const SPEC: &str = "spec test;
    data last { source middle(\"other.csv\"); take 1; }
    data middle { source raw; map x = x * 10; }
    data raw { source csv(\"n.csv\"); feature x: i64; map x = if training { x + 1 } else { x }; skip 1; }";

#[test]
fn a_derived_set_goes_on_after_the_stages_of_the_other_one() {
    assert_eq!(all(SPEC, "raw", true), [2, 3, 4, 5, 6]);
    assert_eq!(all(SPEC, "middle", true), [20, 30, 40, 50, 60]);
    assert_eq!(all(SPEC, "middle", false), [10, 20, 30, 40, 50]);
}

#[test]
fn a_derived_set_reads_other_files_in_the_same_way() {
    assert_eq!(all(SPEC, "last", true), [810]);
    assert_eq!(all(SPEC, "last", false), [800]);
}
