//! The reference data of `tests/oracle`: what TensorFlow computes, case by case, run through the compiler and the
//! interpreter.
//!
//! A case says which operation it is about, with which arguments and inputs, and what TensorFlow made of it. [`calls`]
//! turns it into a call of the language by rules that know no single case, so that other cases of the same form run too:
//! `ORACLE_DIR` names another folder of them.
//!
//! Nothing is left out in silence: an operation, an argument, a field or a dtype that is not known is a failure, and all
//! failures of a file are reported together.

pub mod averages;
pub mod calls;
pub mod clipping;
pub mod compare;
pub mod fields;
pub mod gradient;
pub mod gradients;
pub mod model;
pub mod ops;
pub mod optimizers;
pub mod report;
pub mod run;
pub mod schedules;
pub mod tensors;
pub mod training;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;

use crate::oracle::fields::Fields;
use crate::oracle::report::{Findings, Report};

pub use trainspec_testing::folders::{oracle as folder, own_oracle as own_folder};

/// What runs the graphs of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The interpreter.
    Interpreted,
    /// Machine code.
    Compiled,
}

/// The cases of a file.
///
/// # Panics
///
/// When the file cannot be read or has another form.
pub fn cases(path: &Path) -> Vec<Json> {
    read(path).unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()))
}

fn read(path: &Path) -> Result<Vec<Json>, String> {
    let text = std::fs::read(path).map_err(|e| e.to_string())?;
    let mut json: Json = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    let fields = Fields::of(&json)?;
    if fields.need("format")? != &Json::from(1) {
        return Err("`format` is not 1".to_owned());
    }
    fields.list("cases")?;
    fields.done("a field")?;
    match json["cases"].take() {
        Json::Array(cases) => Ok(cases),
        _ => unreachable!("it is a list"),
    }
}

/// Runs all cases of a file and reports all failures; cases are counted by what `field` says.
///
/// # Panics
///
/// When one of them fails, or there are none.
pub fn run_cases(path: &Path, field: &str, run: impl Fn(&Json) -> Result<Findings, String>) {
    let mut report = Report::default();
    for case in &cases(path) {
        let text = |field: &str| case[field].as_str().unwrap_or("?").to_owned();
        report.case(&text(field), &text("name"), || run(case));
    }
    report.finish(&path.display().to_string());
}

/// Fails unless the cases of a file in the project's own folder have exactly these values of a field.
pub fn assert_values(file: &str, field: &str, expected: &[&str]) {
    let cases = cases(&own_folder().join(file));
    let found: BTreeSet<&str> = cases
        .iter()
        .filter_map(|case| case[field].as_str())
        .collect();
    assert_eq!(
        found,
        expected.iter().copied().collect(),
        "`{field}` of {file}"
    );
}
