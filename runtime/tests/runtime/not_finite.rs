//! Losses that are not finite: the step fails before it writes state, and the error names the first value that is not finite.

use trainspec::Engine;
use trainspec::session::{End, Event, Options};
use trainspec::{Cause, Error, State};
use trainspec_compiler::diag::Diagnostic;

use crate::support::{MemoryEnv, run};

/// y = 2 x + 1 at eight points.
const LINE: &[u8] = b"0,1\n1,3\n2,5\n3,7\n-1,-1\n-2,-3\n0.5,2\n1.5,4\n";

/// A line with the loss, the settings of its data and `train`, and whatever else.
fn line(loss: &str, data: &str, train: &str, rest: &str) -> String {
    format!(
        "spec line;
         data d {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; {data} }}
         model (x: f32[batch], y: f32[batch]) {{
             param a: f32 = zeros();
             param b: f32 = zeros();
             let guess = a * x + b;
             loss {loss};
         }}
         train {{ data d; {train} }}
         {rest}"
    )
}

const SQUARE: &str = "mean(square(guess - y))";

fn env(lines: &[u8]) -> MemoryEnv {
    MemoryEnv::new(&[("line.csv", lines)])
}

fn failed(lines: &[u8], text: &str) -> Error {
    let (outcome, _) = run(&env(lines), text, &Options::default());
    let error = outcome.expect_err(text);
    // The interpreter says the same.
    let options = Options {
        engine: Engine::Interpreted,
        ..Options::default()
    };
    let (interpreted, _) = run(&env(lines), text, &options);
    let interpreted = interpreted.unwrap_err();
    let (found, expected) = (error.diagnostic(), interpreted.diagnostic());
    assert_eq!(found.message, expected.message);
    assert_eq!((found.span, &found.help), (expected.span, &expected.help));
    assert_eq!(found.notes, expected.notes);
    // Operands differ by the rounding of the steps before.
    let words = |label: &str| label.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    assert_eq!(words(&found.label), words(&expected.label));
    error
}

/// The error of a training, and the source text that it points at.
fn described<'t>(lines: &[u8], text: &'t str) -> (Diagnostic, &'t str) {
    let diagnostic = failed(lines, text).diagnostic();
    let span = diagnostic.span.expect("it has a span");
    (diagnostic, &text[span.range()])
}

fn bits(state: &State) -> Vec<u64> {
    let values = state.values().iter().flat_map(|value| value.to_f64s());
    values.map(f64::to_bits).collect()
}

#[test]
fn a_loss_that_overflows_ends_the_run_with_the_state_of_the_step_before() {
    let diverging = |steps: u64, hooks: &str| {
        let train = format!("optimizer gradient_descent(100.0); steps {steps};");
        line(SQUARE, "repeat; batch 8;", &train, hooks)
    };
    let text = diverging(5000, "");
    let error = failed(LINE, &text);
    let Cause::NotFinite { name, value, .. } = &error.cause else {
        panic!("{error:?}")
    };
    assert_eq!((name.as_str(), *value), ("loss", f64::INFINITY));
    let step = error.step.unwrap();
    assert!(step > 1);
    assert_eq!(
        error.to_string(),
        format!("`loss` is infinite in step {step}")
    );
    assert!(!error.is_bad_input());
    let (diagnostic, at) = described(LINE, &text);
    assert_eq!(at, "square(guess - y)");
    assert!(diagnostic.label.contains("`multiply` of"), "{diagnostic:?}");
    assert!(diagnostic.help[0].starts_with("f32 ends at 3.4e38"));
    assert!(diagnostic.help[0].contains("a smaller learning rate"));
    assert!(
        diagnostic.notes[0]
            .message
            .starts_with("the state is that of before the step")
    );
    // With `fail: false` the run ends without an error, says why, and its state is that of before the step.
    let text = diverging(5000, "hooks { nan (loss, fail: false); }");
    let (ended, events) = run(&env(LINE), &text, &Options::default());
    let ended = ended.unwrap();
    let Some(Event::Ended {
        step: last, why, ..
    }) = events.last()
    else {
        panic!("{events:?}")
    };
    assert_eq!((*last, why), (step - 1, &End::NotFinite("loss".to_owned())));
    let said = |event: &Event| matches!(event, Event::Note(note) if note.contains("is infinite"));
    assert!(events.iter().any(said), "{events:?}");
    let (straight, _) = run(&env(LINE), &diverging(step - 1, ""), &Options::default());
    assert_eq!(bits(&ended), bits(&straight.unwrap()));
}

#[test]
fn an_input_that_is_not_finite_is_named_with_its_record() {
    let text = line(SQUARE, "batch 2;", "optimizer gradient_descent(0.1);", "");
    let (diagnostic, _) = described(b"0,1\n1,3\n2,5\nnan,3\n", &text);
    assert_eq!(diagnostic.message, "`loss` is not a number in step 2");
    let label = "the first value that is not finite: the input `x` is not a number at [1]";
    assert_eq!(&*diagnostic.label, label);
    assert!(diagnostic.help[0].contains("look at the data of `x`"));
    assert_eq!(
        diagnostic.notes[0].message,
        "caused by the record at line.csv:4"
    );
}

#[test]
fn an_operation_outside_its_domain_is_named_with_its_operands_and_the_record() {
    let train = "optimizer gradient_descent(0.1);";
    let text = line("mean(log(x) * guess)", "batch 4;", train, "");
    let (diagnostic, at) = described(b"1,1\n1,3\n-2,5\n4,3\n", &text);
    assert_eq!(at, "log(x)");
    let label = "the first value that is not finite: `log` of -2 is not a number at [2]";
    assert_eq!(&*diagnostic.label, label);
    assert!(diagnostic.help[0].starts_with("`log` takes positive numbers"));
    assert!(!format!("{diagnostic:?}").contains("learning rate"));
    assert_eq!(
        diagnostic.notes[0].message,
        "caused by the record at line.csv:3"
    );
    // A division by 0 whatever the record is.
    let text = line("mean((x + 1.0) / a) + b", "batch 4;", train, "");
    let (diagnostic, at) = described(LINE, &text);
    assert_eq!(at, "(x + 1.0) / a");
    assert!(diagnostic.label.contains("`divide` of 1 and 0"));
    assert!(diagnostic.help[0].starts_with("`divide_no_nan(x, y)`"));
    assert!(!format!("{diagnostic:?}").contains("caused by"));
}

#[test]
fn a_flaw_that_leads_to_no_loss_is_no_cause() {
    let loss = "mean(where(x > 0.0, log(x), 0.0) * guess + 1.0 / (y - 5.0))";
    let train = "optimizer gradient_descent(0.1);";
    let text = line(loss, "batch 4;", train, "");
    let (diagnostic, at) = described(b"-1,1\n1,3\n-2,5\n4,3\n", &text);
    assert_eq!(at, "1.0 / (y - 5.0)");
    assert_eq!(
        diagnostic.notes[0].message,
        "caused by the record at line.csv:3"
    );
}

#[test]
fn a_micro_batch_that_is_not_finite_changes_nothing() {
    let text = |hooks: &str, steps: u64| {
        let train = format!("optimizer momentum(0.1, momentum: 0.9); accumulate 3; steps {steps};");
        let data = "batch 1; repeat;";
        let text = line("mean(square(bn - y))", data, &train, hooks);
        // Statistics that every micro-batch moves.
        text.replace(
            "let guess = a * x + b;",
            "let bn = a * (expand_dims(x, axis: 1) |> batch_norm)[_, 0] + b;",
        )
    };
    let lines = b"0,1\n1,3\n2,5\n3,7\nnan,-1\n-2,-3\n";
    let (diagnostic, _) = described(lines, &text("", 5));
    assert_eq!(diagnostic.message, "`loss` is not a number in step 2");
    assert_eq!(
        diagnostic.notes[0].message,
        "caused by the record at line.csv:5"
    );
    let hooks = "hooks { nan (loss, fail: false); }";
    let (ended, _) = run(&env(lines), &text(hooks, 5), &Options::default());
    let (straight, _) = run(&env(lines), &text("", 1), &Options::default());
    assert_eq!(bits(&ended.unwrap()), bits(&straight.unwrap()));
}

#[test]
fn the_value_of_a_nan_hook_is_checked() {
    let train = "optimizer gradient_descent(0.1);";
    let text = line(SQUARE, "batch 4;", train, "hooks { nan (guess); }");
    let text = text.replace("a * x + b", "a * x + b + maximum(1.0 / x, 0.0)");
    let text = text.replace(SQUARE, "mean(square(minimum(guess, 1.0) - y))");
    let (diagnostic, at) = described(LINE, &text);
    assert_eq!(diagnostic.message, "`guess` is infinite in step 1");
    assert_eq!(at, "1.0 / x");
    assert_eq!(
        diagnostic.notes[0].message,
        "caused by the record at line.csv:1"
    );
    // The loss is finite, so without the hook the training goes on.
    let (ended, _) = run(
        &env(LINE),
        &text.replace("nan (guess);", ""),
        &Options::default(),
    );
    assert!(ended.is_ok());
}
