//! Every example runs to its end.

use std::process::Command;

fn run(program: &str) -> String {
    let output = Command::new(program).output().expect("the example starts");
    let (out, err) = (output.stdout, output.stderr);
    let error = String::from_utf8_lossy(&err);
    assert!(output.status.success(), "{program}: {error}");
    String::from_utf8(out).expect("it prints UTF-8")
}

#[test]
fn linear_regression_finds_the_line() {
    let printed = run(env!("CARGO_BIN_EXE_linear_regression"));
    assert!(printed.contains("y = 2.000 x + -1.000"), "{printed}");
}

#[test]
fn digits_are_recognized() {
    let printed = run(env!("CARGO_BIN_EXE_digits"));
    assert!(printed.contains("500 steps, 128 hidden units"), "{printed}");
}

#[test]
fn clicks_are_learned_online() {
    let printed = run(env!("CARGO_BIN_EXE_online_ftrl"));
    assert!(printed.contains("weights are exactly 0"), "{printed}");
}

#[test]
fn an_optimizer_of_ones_own_learns() {
    run(env!("CARGO_BIN_EXE_custom_optimizer"));
}

#[test]
fn a_hook_of_ones_own_stops_a_run() {
    let printed = run(env!("CARGO_BIN_EXE_custom_hook"));
    assert!(printed.starts_with("settled after"), "{printed}");
}

#[test]
fn a_layer_of_tensorflow_gets_a_new_head() {
    let printed = run(env!("CARGO_BIN_EXE_fine_tuning"));
    assert!(printed.contains("4.617"), "{printed}");
}

#[test]
fn a_service_answers_while_it_learns() {
    let printed = run(env!("CARGO_BIN_EXE_service"));
    assert!(
        printed.contains("after 200 steps: 8.00 at 6, 2.00 at 18"),
        "{printed}"
    );
    assert!(printed.ends_with("4 questions answered\n"), "{printed}");
}
