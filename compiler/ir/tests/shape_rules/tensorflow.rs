//! TensorFlow's own results: `shapes.tsv` lists operation, case, types of the results, and the arguments.

use trainspec_ir::ops::TABLE;
use trainspec_ir::{Dim, TensorType};

use crate::support::calls::{infer, list, tensor};

const CASES: &str = include_str!("shapes.tsv");

/// Operations without a TensorFlow case.
const WITHOUT_CASES: [&str; 8] = [
    "assert_in_range",
    "count",
    "is_nan",
    "orthogonalize",
    "random_normal",
    "random_uniform",
    "stop_gradient",
    "truncated_normal",
];

#[test]
fn results_have_the_types_that_tensorflow_gives() {
    for line in CASES.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [op, case, expected, args @ ..] = fields.as_slice() else {
            panic!("too few fields: {line}");
        };
        let expected: Vec<TensorType> = list(expected, ';').into_iter().map(tensor).collect();
        let found = infer(op, args).unwrap_or_else(|e| panic!("{case}: {e:?}"));
        assert_eq!(found.len(), expected.len(), "{case}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.dtype, expected.dtype, "{case}");
            assert_eq!(
                found.rank(),
                expected.rank(),
                "{case}: {found} for {expected}"
            );
            for (f, e) in found.shape.0.iter().zip(&expected.shape.0) {
                assert!(holds(f, e), "{case}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn every_operation_of_tensorflow_has_a_case() {
    for op in TABLE {
        let covered = CASES.lines().any(|l| l.split('\t').next() == Some(op.name));
        assert_ne!(covered, WITHOUT_CASES.contains(&op.name), "{}", op.name);
    }
}

/// A counted dimension must have capacity for TensorFlow's size in this case; any other must be equal.
fn holds(found: &Dim, expected: &Dim) -> bool {
    match found.count {
        None => found == expected,
        Some(_) => found.size.value() >= expected.size.value(),
    }
}
