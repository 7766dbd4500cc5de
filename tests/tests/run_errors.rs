//! What goes wrong only when a program runs points at the expression it comes from.

use std::collections::BTreeMap;

use trainspec_compiler::ir::{Tensor, interp, passes};
use trainspec_compiler::lower::{self, Binding, Context};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};

/// Runs the model of a spec; the message of its error and the text of the expression that is to blame.
fn failure(model: &str, inputs: &[(&str, Tensor)]) -> (String, String) {
    let text = format!("spec s; {model}");
    let compilation = Compilation::check("s", &text, &NoFiles, &Options::default());
    let spec = compilation
        .spec
        .unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    let binding = Binding::from([("n".to_owned(), 3)]);
    let graph = lower::model(&Context::new(&spec, &binding), true).unwrap();
    let inputs: BTreeMap<String, Tensor> = inputs
        .iter()
        .map(|(name, t)| ((*name).to_owned(), t.clone()))
        .collect();
    let error = interp::run(&graph, &inputs, &[]).unwrap_err();
    // Passes keep the span, and do not hide the error.
    let simple = passes::run(graph, &Default::default());
    assert_eq!(interp::run(&simple, &inputs, &[]).unwrap_err(), error);
    (error.message, text[error.span.range()].to_owned())
}

fn floats(n: usize) -> Tensor {
    Tensor::new(&[n], vec![1.0_f32; n])
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::new(&[values.len()], values.to_vec())
}

#[test]
fn an_index_out_of_range() {
    let (message, location) = failure(
        "model (x: f32[n], i: i64[2]) { output y = gather(x, i) + 1.0; }",
        &[("x", floats(3)), ("i", ints(&[0, 7]))],
    );
    assert_eq!(message, "index 7 is out of range 0..3");
    assert_eq!(location, "gather(x, i)");
}

#[test]
fn an_index_out_of_range_inside_a_library_function() {
    let (message, location) = failure(
        "model (x: f32[n], i: i64[2]) { output y = embedding_lookup(x, i); }",
        &[("x", floats(3)), ("i", ints(&[-1, 1]))],
    );
    assert_eq!(message, "index -1 is out of range 0..3");
    assert_eq!(location, "embedding_lookup(x, i)");
}

#[test]
fn an_index_out_of_range_inside_a_loop() {
    let (message, location) = failure(
        "model (x: f32[n], i: i64[2]) { output y = scan k in i, h = fill([], 0.0) { h + x[k] }; }",
        &[("x", floats(3)), ("i", ints(&[2, 3]))],
    );
    assert_eq!(message, "index 3 is out of range 0..3");
    assert_eq!(location, "x[k]");
}

#[test]
fn an_input_outside_its_bounds() {
    let (message, location) = failure(
        "model (label: i64[2] in 0..10) { output y = label + 1; }",
        &[("label", ints(&[3, 10]))],
    );
    assert_eq!(message, "`label`: 10 is not in 0..10");
    assert_eq!(location, "label");
}

#[test]
fn a_division_of_integers_by_zero() {
    let (message, location) = failure(
        "model (a: i64[2], b: i64[2]) { output y = floordiv(a, b); }",
        &[("a", ints(&[1, 1])), ("b", ints(&[1, 0]))],
    );
    assert_eq!(message, "`floordiv` of 1 and 0 has no answer in integers");
    assert_eq!(location, "floordiv(a, b)");
}

#[test]
fn a_wrong_or_missing_input() {
    let model = "model (x: f32[n]) { output y = x; }";
    let (message, _) = failure(model, &[("x", floats(4))]);
    assert_eq!(message, "input `x` must be f32[3], but is f32[4]");
    let (message, _) = failure(model, &[]);
    assert_eq!(message, "input `x` is missing");
}

#[test]
fn a_tensor_that_no_machine_holds() {
    let (message, location) = failure(
        "model (x: f32[3]) { output y = sum(broadcast_to(x, [1_000_000, 100_000, 3])); }",
        &[("x", floats(3))],
    );
    assert_eq!(
        message,
        "a tensor of f32[1000000, 100000, 3] is too large for the interpreter (2^31 elements)"
    );
    assert_eq!(location, "broadcast_to(x, [1_000_000, 100_000, 3])");
}
