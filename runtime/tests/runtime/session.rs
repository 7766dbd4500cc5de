//! End-to-end trainings: when they end, which events they report, and bitwise reproducibility from the seed.

use trainspec::State;
use trainspec::session::{End, Event, Options, Reading};
use trainspec_compiler::ir::Tensor;

use crate::support::{MemoryEnv, check_errors, check_warnings, numbers, run};
use trainspec_compiler::PipelineOptions;

/// y = 2 x + 1 at eight points.
const LINE: &[u8] = b"0,1\n1,3\n2,5\n3,7\n-1,-1\n-2,-3\n0.5,2\n1.5,4\n";

fn line(data: &str, train: &str, rest: &str) -> String {
    format!(
        "spec line;
         data d {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; {data} }}
         model (x: f32[batch], y: f32[batch]) {{
             param a: f32 = zeros();
             param b: f32 = zeros();
             let guess = a * x + b;
             loss mean(square(guess - y));
             metric error = abs(guess - y);
             metric close = abs(guess - y) < 0.5;
         }}
         train {{ data d; optimizer gradient_descent(0.1); {train} }}
         {rest}"
    )
}

fn env() -> MemoryEnv {
    MemoryEnv::new(&[("line.csv", LINE)])
}

/// Trains; gives the state and the events.
fn trained(text: &str) -> (State, Vec<Event>) {
    let (state, events) = run(&env(), text, &Options::default());
    (state.unwrap_or_else(|e| panic!("{e}\n{text}")), events)
}

fn refused(text: &str) -> String {
    let (state, _) = run(&env(), text, &Options::default());
    state.unwrap_err().to_string()
}

fn end(events: &[Event]) -> (u64, End) {
    match events.last() {
        Some(Event::Ended { step, why, .. }) => (*step, why.clone()),
        other => panic!("{other:?}"),
    }
}

fn number(state: &State, name: &str) -> f64 {
    state.get(name).unwrap().to_f64s()[0]
}

fn logged(events: &[Event]) -> Vec<u64> {
    let step = |e: &Event| match e {
        Event::Step { step, .. } => Some(*step),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

fn evaluated(events: &[Event]) -> Vec<u64> {
    let step = |e: &Event| match e {
        Event::Evaluated { step, .. } => Some(*step),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

#[test]
fn linear_regression_converges() {
    let (state, events) = trained(&line("repeat; batch 8;", "steps 200;", ""));
    assert!((number(&state, "a") - 2.0).abs() < 1e-3, "{state:?}");
    assert!((number(&state, "b") - 1.0).abs() < 1e-3, "{state:?}");
    assert_eq!(state.step(), 200);
    assert_eq!(end(&events), (200, End::Steps));
    assert_eq!(logged(&events), [100, 200]);
}

#[test]
fn the_first_updates_are_those_of_gradient_descent() {
    // Two records: x = 0, 1 and y = 1, 3. The gradients at zero are -3 and -4.
    let (state, events) = trained(&line("take 2; batch 2;", "", ""));
    assert_eq!(state.get("a"), Some(&Tensor::scalar(0.1_f32 * 3.0)));
    assert_eq!(state.get("b"), Some(&Tensor::scalar(0.4_f32)));
    assert_eq!(end(&events), (1, End::Data));
    let Some(Event::Step { values, .. }) = events.iter().find(|e| matches!(e, Event::Step { .. }))
    else {
        panic!("{events:?}")
    };
    assert_eq!(values[0], ("loss".to_owned(), Reading::Number(5.0)));
    let Reading::Mean(error) = &values[1].1 else {
        panic!("{values:?}")
    };
    assert_eq!((error.sum, error.count), (4.0, 2.0));
}

#[test]
fn a_training_ends_with_its_steps_its_epochs_or_its_data() {
    for (data, train, expected) in [
        ("batch 3;", "", (2, End::Data)),
        ("epochs 3; batch 3;", "", (8, End::Data)),
        ("batch 3; epochs 3;", "", (6, End::Data)),
        ("batch 3;", "steps 5;", (2, End::Data)),
        ("repeat; batch 3;", "steps 5;", (5, End::Steps)),
        ("batch 3;", "epochs 4;", (8, End::Epochs)),
        (
            "batch (size: 3, remainder: keep);",
            "epochs 2;",
            (6, End::Epochs),
        ),
        // 24 records make 8 full batches; with batches that cross, the third begins in the first pass.
        ("repeat; batch 3;", "epochs 1;", (3, End::Epochs)),
        ("repeat; batch 3;", "epochs 3;", (8, End::Epochs)),
        ("repeat; batch 4;", "epochs 2;", (4, End::Epochs)),
        ("epochs 2; batch 4;", "epochs 3;", (6, End::Epochs)),
    ] {
        let (_, events) = trained(&line(data, train, ""));
        assert_eq!(end(&events), expected, "{data} {train}");
    }
    let options = Options {
        steps: Some(3),
        ..Options::default()
    };
    let text = line("repeat; batch 3;", "steps 5;", "");
    let (_, events) = run(&env(), &text, &options);
    assert_eq!(end(&events), (3, End::Steps));
    let options = Options {
        steps: Some(0),
        ..Options::default()
    };
    let text = line("batch 3;", "", "eval { data d; }");
    let (_, events) = run(&env(), &text, &options);
    assert_eq!(end(&events), (0, End::Steps));
    assert_eq!(evaluated(&events), [0]);
    let (_, events) = trained(&line(
        "repeat; batch 3;",
        "steps 5;",
        "hooks { stop_at (last_step: 2); }",
    ));
    assert_eq!(end(&events), (2, End::Steps));
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let text = "spec bits;
        data d { source csv(\"n.csv\"); feature x: f32; shuffle 100; repeat; batch 4; map x = x / 50.0 - 1.0; }
        model (x: f32[batch]) {
            let h = expand_dims(x, axis: 1) |> dense(8) |> tanh |> dropout(0.3) |> dense(1);
            loss mean(square(h[_, 0] - sin(3.0 * x)));
        }
        train { data d; optimizer adam(0.01); steps 30; seed 4; }";
    let bits = |seed: Option<i64>| {
        let env = MemoryEnv::new(&[("n.csv", &numbers(100))]);
        let options = Options {
            seed,
            ..Options::default()
        };
        let state = run(&env, text, &options).0.unwrap();
        let all: Vec<Vec<u64>> = state
            .values()
            .iter()
            .map(|t| t.to_f64s().into_iter().map(f64::to_bits).collect())
            .collect();
        (state.names().to_vec(), all)
    };
    let (names, first) = bits(None);
    assert_eq!(bits(None), (names.clone(), first.clone()));
    assert_eq!(bits(Some(4)).1, first);
    assert_ne!(bits(Some(5)).1, first);
    assert_eq!(names.first().map(String::as_str), Some("dense/kernel"));
    assert_eq!(names.last().map(String::as_str), Some("global_step"));
}

#[test]
fn a_disabled_pass_changes_nothing() {
    let text = line("repeat; batch 8;", "steps 20;", "");
    let (plain, _) = trained(&text);
    let passes = trainspec_compiler::ir::passes::PASSES;
    let options = Options {
        pipeline: PipelineOptions {
            disabled_passes: passes.iter().map(|p| p.name.to_owned()).collect(),
            ..PipelineOptions::default()
        },
        ..Options::default()
    };
    let (state, _) = run(&env(), &text, &options);
    assert_eq!(state.unwrap(), plain);
}

#[test]
fn metrics_of_an_evaluation_weigh_every_record_equally() {
    // With all parameters at zero the guess is 0 and the errors are |y|: 1 3 5 7 1 3 2 4.
    let eval = |batch: &str| {
        let text = line(
            "repeat; batch 8;",
            "steps 1;",
            &format!(
                "data e {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; {batch} }}
                 eval {{ data e; metrics [error, close, loss]; }}"
            ),
        );
        // Nothing is learned, so that the numbers are known.
        let text = text.replace("gradient_descent(0.1)", "gradient_descent(0.0)");
        let (_, events) = trained(&text);
        let found = events.iter().find_map(|e| match e {
            Event::Evaluated { metrics, .. } => Some(metrics.clone()),
            _ => None,
        });
        found.unwrap()
    };
    for size in [1, 3, 5, 8, 20] {
        let found = eval(&format!("batch (size: {size}, remainder: keep);"));
        let names: Vec<&str> = found.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["error", "close", "loss"]);
        assert_eq!(
            (found[0].1.sum, found[0].1.count),
            (26.0, 8.0),
            "batches of {size}"
        );
        assert_eq!((found[1].1.sum, found[1].1.is_bool), (0.0, true));
        assert!(
            (found[2].1.value() - 114.0 / 8.0).abs() < 1e-5,
            "batches of {size}"
        );
    }
    // What `drop` drops is not evaluated.
    assert_eq!(eval("batch (size: 5, remainder: drop);")[0].1.count, 5.0);
}

#[test]
fn padding_past_a_count_is_no_part_of_a_metric() {
    let env = MemoryEnv::new(&[("n.csv", b"1\n1\n4\n2\n2\n2\n")]);
    let text = "spec counted;
        data d { source csv(\"n.csv\"); feature x: i64; batch 3; }
        model (x: i64[batch]) {
            param a: f32 = zeros();
            let (values, _which) = unique(x);
            loss mean(square(cast(x, f32) - a));
            metric value = values;
            metric different = count(values);
        }
        train { data d; optimizer gradient_descent(0.1); }
        eval { data d; }
        hooks { log ([value, different], every: 1 steps); }";
    let (state, events) = run(&env, text, &Options::default());
    state.unwrap();
    let means: Vec<(f64, f64)> = events
        .iter()
        .filter_map(|e| match e {
            Event::Step { values, .. } => Some(&values[0].1),
            _ => None,
        })
        .map(|reading| match reading {
            Reading::Mean(mean) => (mean.sum, mean.count),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(means, [(5.0, 2.0), (2.0, 1.0)]);
    let Some(Event::Evaluated { metrics, .. }) =
        events.iter().find(|e| matches!(e, Event::Evaluated { .. }))
    else {
        panic!("{events:?}")
    };
    assert_eq!((metrics[0].1.sum, metrics[0].1.count), (7.0, 3.0));
    assert_eq!((metrics[1].1.sum, metrics[1].1.count), (3.0, 2.0));
}

#[test]
fn evaluations_run_at_their_interval_and_at_the_end() {
    let eval = |settings: &str, train: &str| {
        let rest = format!("eval {{ data d; {settings} }}");
        // One pass has four batches.
        let text = line("batch 2;", train, &rest);
        evaluated(&trained(&text).1)
    };
    assert_eq!(eval("every 2 steps;", "epochs 2;"), [2, 4, 6, 8]);
    assert_eq!(eval("every 3 steps;", "epochs 2;"), [3, 6, 8]);
    assert_eq!(eval("every 1 epochs;", "epochs 3;"), [4, 8, 12]);
    assert_eq!(eval("", "epochs 2;"), [8]);
    assert_eq!(
        eval("every 2 steps; start_after 5 steps;", "epochs 2;"),
        [6, 8]
    );
    assert_eq!(
        eval("every 1 steps; start_after 2 epochs;", "epochs 3;"),
        [8, 9, 10, 11, 12]
    );
    let text = line(
        "repeat; batch 2;",
        "steps 1;",
        "eval some { data d; steps 3; metrics [error]; }",
    );
    let (_, events) = trained(&text);
    let Some(Event::Evaluated { name, metrics, .. }) =
        events.iter().find(|e| matches!(e, Event::Evaluated { .. }))
    else {
        panic!("{events:?}")
    };
    assert_eq!((name.as_deref(), metrics[0].1.count), (Some("some"), 6.0));
}

#[test]
fn values_are_shown_when_the_log_hook_says() {
    let steps = |hooks: &str| {
        let text = line(
            "repeat; batch 2;",
            "steps 7;",
            &format!("hooks {{ {hooks} }}"),
        );
        logged(&trained(&text).1)
    };
    assert_eq!(steps("log (loss, every: 3 steps);"), [3, 6]);
    assert_eq!(
        steps("log (loss, every: 3 steps, at_end: true);"),
        [3, 6, 7]
    );
    assert_eq!(steps("log (loss);"), [0_u64; 0]);
    assert_eq!(steps("log (loss, every: 1 epochs);"), [4]);
    assert_eq!(steps(""), [7]);
    assert_eq!(
        steps("log (loss, every: 3 steps); log ([error, loss], every: 2 steps);"),
        [2, 3, 4, 6]
    );
    // The fake clock advances a second per reading.
    assert_eq!(steps("log (loss, every: 2 s);"), [2, 4, 6]);
    let text = line(
        "repeat; batch 2;",
        "steps 1; schedule rate = 0.5 * exponential_decay(1.0, decay_steps: 1, decay_rate: 0.5);",
        "hooks { log ([step, rate, guess, x, close], every: 1 steps); }",
    );
    let (_, events) = trained(&text);
    let Some(Event::Step { values, .. }) = events.iter().find(|e| matches!(e, Event::Step { .. }))
    else {
        panic!("{events:?}")
    };
    let names: Vec<&str> = values.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["step", "rate", "guess", "x", "close"]);
    assert_eq!(values[0].1, Reading::Tensor(Tensor::scalar(1_i64)));
    assert_eq!(values[1].1, Reading::Number(0.5));
    assert_eq!(
        values[3].1,
        Reading::Tensor(Tensor::new(&[2], vec![0.0_f32, 1.0]))
    );
}

#[test]
fn what_cannot_be_run_is_refused_before_the_first_step() {
    for (text, message) in [
        (
            line("repeat; batch 2;", "", ""),
            "the training never ends: `d` repeats indefinitely",
        ),
        (
            line("batch 9;", "", ""),
            "the data set `d` gives nothing to train on: its 8 records do not fill a batch of 9 (of line.csv)",
        ),
        (
            line("batch 2;", "", "").replace("train { data d;", "train {"),
            "`train` has no data, so a program must feed it",
        ),
        (
            "spec a; model (x: f32[n]) { output y = x; }".to_owned(),
            "the spec has no `train`",
        ),
    ] {
        assert_eq!(refused(&text), message);
    }
}

#[test]
fn what_can_never_be_run_is_refused_by_check() {
    for (text, message) in [
        (
            line("repeat; batch 2;", "steps 1;", "eval { data d; }"),
            "the evaluation on `d` never ends: it repeats indefinitely",
        ),
        (
            line("feature s: string; batch 2;", "", "")
                .replace("(x: f32[batch]", "(s: string[batch], x: f32[batch]"),
            "a model takes no strings, and `s` is `string[batch]`",
        ),
    ] {
        assert_eq!(check_errors(&text), [message]);
    }
}

#[test]
fn a_training_without_an_end_needs_one_from_outside() {
    let endless = line("repeat; batch 2;", "", "");
    let options = Options {
        steps: Some(3),
        ..Options::default()
    };
    let (state, _) = run(&env(), &endless, &options);
    assert_eq!(state.unwrap().step(), 3);
    let stopped = line("repeat; batch 2;", "", "hooks { stop_at (num_steps: 2); }");
    assert_eq!(trained(&stopped).0.step(), 2);
    for (text, warned) in [
        (&endless, true),
        (&stopped, false),
        (&line("repeat; take 4; batch 2;", "", ""), false),
        (&line("repeat; batch 2;", "epochs 2;", ""), false),
        (
            &line("repeat; batch 2;", "", "hooks { hook \"mine\"; }"),
            false,
        ),
    ] {
        let warning = "the training does not end by itself: `d` repeats indefinitely";
        assert_eq!(check_warnings(text).iter().any(|w| w == warning), warned);
    }
}

#[test]
fn inputs_out_of_bounds_point_at_the_model() {
    let env = MemoryEnv::new(&[("n.csv", b"0\n1\n2\n")]);
    let text = "spec bounds;
        data d { source csv(\"n.csv\"); feature x: i64; batch 1; }
        model (x: i64[batch] in 0..2) { param a: f32 = zeros(); loss mean(square(a - cast(x, f32))); }
        train { data d; optimizer gradient_descent(0.1); }";
    let (outcome, _) = run(&env, text, &Options::default());
    let error = outcome.unwrap_err();
    assert_eq!(error.step, Some(3));
    let diagnostic = error.diagnostic();
    let span = diagnostic.span.expect("it has a span");
    assert!(
        text[span.range()].starts_with('x'),
        "{}",
        &text[span.range()]
    );
    assert!(
        diagnostic.message.contains('2') && diagnostic.message.contains("`x`"),
        "{diagnostic:?}"
    );
}

#[test]
fn a_bad_record_is_reported_with_the_step_that_needs_it() {
    let env = MemoryEnv::new(&[("line.csv", b"0,1\n1,3\nx,5\n")]);
    let hooks = "hooks { log (loss, every: 1 steps); }";
    let (outcome, events) = run(&env, &line("batch 1;", "", hooks), &Options::default());
    assert_eq!(logged(&events), [1, 2], "the steps before it are reported");
    let error = outcome.unwrap_err();
    assert_eq!(
        error.to_string(),
        "line.csv:3: column `x`: `x` is no f32 (in step 3)"
    );
}

#[test]
fn data_sets_report_their_sizes() {
    let text = line(
        "split (part: train, holdout: 0.25); epochs 2; batch 2;",
        "",
        "data e { source csv(\"line.csv\"); feature x: f32; feature y: f32; filter x > 0.0; batch 2; } eval { data e; }",
    );
    let (_, events) = trained(&text);
    let Some(Event::Started {
        spec,
        parameters,
        data,
        seed,
    }) = events.first()
    else {
        panic!("{events:?}")
    };
    assert_eq!((spec.as_str(), *parameters, *seed), ("line", 2, 0));
    let sizes: Vec<(&str, Option<u64>, Option<u64>)> = data
        .iter()
        .map(|d| (d.name.as_str(), d.records, d.batch))
        .collect();
    assert_eq!(sizes, [("d", Some(6), Some(2)), ("e", None, Some(2))]);
}

#[test]
fn an_evaluation_keeps_a_short_last_batch() {
    let counted = |batch: &str, model: &str| {
        let rest = format!(
            "data e {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; {batch} }}
             eval {{ data e; metrics [close]; }}"
        );
        let text = line("batch 4;", "", &rest).replace("f32[batch]", model);
        let (_, events) = trained(&text);
        let count = |e: &Event| match e {
            Event::Evaluated { metrics, .. } => Some(metrics[0].1.count),
            _ => None,
        };
        events.iter().find_map(count).unwrap()
    };
    assert_eq!(counted("batch 3;", "f32[batch]"), 8.0);
    assert_eq!(
        counted("batch (size: 3, remainder: drop);", "f32[batch]"),
        6.0
    );
    // The model takes full batches only.
    assert_eq!(counted("take 6; batch 4;", "f32[4]"), 4.0);
}

#[test]
fn a_training_that_ends_within_an_update_says_so_and_evaluates() {
    let text = line("take 5; batch 1;", "accumulate 2;", "eval { data d; }");
    let (state, events) = trained(&text);
    assert_eq!((state.step(), end(&events)), (2, (2, End::Data)));
    let note = "1 of the 2 micro-batches that `accumulate` asks for were there";
    let is_note = |e: &Event| matches!(e, Event::Note(text) if text.contains(note));
    assert!(events.iter().any(is_note), "{events:?}");
    assert_eq!(evaluated(&events), [2]);
    // An epoch that ends within an update does not take batches of the next one.
    let text = line("take 5; batch 1;", "accumulate 2; epochs 1;", "");
    assert_eq!(end(&trained(&text).1), (2, End::Epochs));
}

#[test]
fn data_that_ends_before_the_steps_is_noted() {
    let (_, events) = trained(&line("batch 2;", "steps 10;", ""));
    let note = "the data ended after 4 of 10 steps: `repeat;` in the data set `d` starts it over";
    assert!(events.contains(&Event::Note(note.to_owned())), "{events:?}");
}

#[test]
fn data_of_an_evaluation_is_opened_before_the_first_step() {
    let rest = "data e { source csv(\"gone.csv\"); feature x: f32; feature y: f32; batch 2; }
                eval { data e; every 1000 steps; }";
    let (outcome, events) = run(&env(), &line("batch 2;", "", rest), &Options::default());
    assert!(outcome.unwrap_err().to_string().contains("gone.csv"));
    assert!(logged(&events).is_empty());
}

#[test]
fn files_of_another_kind_are_named() {
    let csv = |name: &str, bytes: &[u8], options: &str| {
        let env = MemoryEnv::new(&[(name, bytes)]);
        let text =
            line("batch 2;", "", "").replace("\"line.csv\"", &format!("\"{name}\"{options}"));
        let (outcome, _) = run(&env, &text, &Options::default());
        let error = outcome.unwrap_err().diagnostic();
        format!("{} {}", error.message, error.help.join(" "))
    };
    let records = csv("d", b"\x05\0\0\0\0\0\0\0abcd", "");
    assert!(records.contains("source tfrecord("), "{records}");
    let semicolons = csv("d", b"x;y\n1;2\n", ", header: true");
    assert!(semicolons.contains("delimiter: \";\""), "{semicolons}");
    let semicolons = csv("d", b"1;2\n3;4\n", "");
    assert!(semicolons.contains("delimiter: \";\""), "{semicolons}");
    let wide = csv("d", b"1,2,3\n", "");
    assert!(
        wide.contains("there are 3 fields, but the features take 2"),
        "{wide}"
    );
    let missing = csv("d", b"1,NA\n", "");
    assert!(missing.contains("missing: [\"NA\"]"), "{missing}");
    let env = MemoryEnv::new(&[("d", b"x,y\n1.5,2.5\n3,4\n")]);
    let text = line("batch 2;", "", "").replace("csv(\"line.csv\")", "tfrecord(\"d\")");
    let error = run(&env, &text, &Options::default()).0.unwrap_err();
    assert!(
        error.diagnostic().help.join(" ").contains("source csv("),
        "{error}"
    );
}

#[test]
fn variables_are_logged_after_the_step() {
    let text = line(
        "batch 8;",
        "steps 1;",
        "hooks { log ([\"*\", loss], every: 1 step); }",
    );
    let (state, events) = trained(&text);
    let Some(Event::Step { values, .. }) = events.iter().find(|e| matches!(e, Event::Step { .. }))
    else {
        panic!("{events:?}")
    };
    let names: Vec<&str> = values.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["a", "b", "loss"]);
    assert_eq!(values[0].1, Reading::Number(number(&state, "a")));
}

#[test]
fn values_are_shown_without_their_padding() {
    let rest = "hooks { log ([large], every: 1 step); }";
    let text = line("batch 8;", "steps 1;", rest).replace(
        "let guess",
        "let large = boolean_mask(x, x > 1.0); let guess",
    );
    let (_, events) = trained(&text);
    let Some(Event::Step { values, .. }) = events.iter().find(|e| matches!(e, Event::Step { .. }))
    else {
        panic!("{events:?}")
    };
    let expected = Tensor::new(&[3], vec![2.0_f32, 3.0, 1.5]);
    assert_eq!(values[0].1, Reading::Tensor(expected));
}

#[test]
fn an_evaluation_that_has_no_records_is_refused_before_the_first_step() {
    let eval = |stages: &str| {
        let set = format!(
            "data e {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; {stages} }} eval {{ data e; }}"
        );
        let text = line("repeat; batch 2;", "steps 3;", &set);
        let (state, events) = run(&env(), &text, &Options::default());
        assert!(
            !events
                .iter()
                .any(|e| matches!(e, Event::Progress(_) | Event::Step { .. }))
        );
        state.unwrap_err().to_string()
    };
    let message = "the data set `e` gives nothing to evaluate on: ";
    assert_eq!(
        eval("filter x > 100.0; batch 2;"),
        format!("{message}`filter` keeps none of its 8 records (of line.csv)")
    );
    assert_eq!(
        eval("skip 9; batch 2;"),
        format!("{message}`skip` keeps none of its 8 records (of line.csv)")
    );
    assert_eq!(
        eval("batch (size: 9, remainder: drop);"),
        format!("{message}its 8 records do not fill a batch of 9 (of line.csv)")
    );
}
