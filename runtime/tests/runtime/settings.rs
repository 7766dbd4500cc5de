//! Settings of `train`: gradient clipping, moving averages, gradient accumulation, loss scaling, sparse updates.

use trainspec::session::{End, Event, Options};
use trainspec::train::ExponentialMovingAverage;
use trainspec::{Cause, State};

use crate::support::{MemoryEnv, run};

/// y = 2 x + 1 at eight points.
const LINE: &[u8] = b"0,1\n1,3\n2,5\n3,7\n-1,-1\n-2,-3\n0.5,2\n1.5,4\n";
/// The second line is not finite.
const INFINITE: &[u8] = b"1,3\ninf,5\n3,7\n-1,-1\n";
/// Row indices of a table, some of them duplicated.
const INDICES: &[u8] = b"1,1\n1,3\n4,2\n0,1\n4,4\n4,2\n";

fn spec(file: &str, batch: usize, train: &str) -> String {
    format!(
        "spec line;
         data d {{ source csv(\"{file}\"); feature x: f32; feature y: f32; repeat; batch {batch}; }}
         model (x: f32[batch], y: f32[batch]) {{
             param a: f32 = zeros();
             param b: f32 = zeros();
             let guess = a * x + b;
             loss mean(square(guess - y));
         }}
         train {{ data d; {train} }}"
    )
}

fn trained(text: &str) -> (State, Vec<Event>) {
    let env = MemoryEnv::new(&[
        ("line.csv", LINE),
        ("infinite.csv", INFINITE),
        ("indices.csv", INDICES),
    ]);
    let (state, events) = run(&env, text, &Options::default());
    (state.unwrap_or_else(|e| panic!("{e}\n{text}")), events)
}

fn number(state: &State, name: &str) -> f64 {
    let value = state.get(name).unwrap_or_else(|| panic!("no `{name}`"));
    value.to_f64s()[0]
}

fn assert_near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} is not {b}");
}

#[test]
fn two_micro_batches_of_four_update_as_one_batch_of_eight() {
    let optimizer = "optimizer momentum(0.05, momentum: 0.9); clip global_norm(2.0); steps 10;";
    let (full, _) = trained(&spec("line.csv", 8, optimizer));
    let (accumulated, events) =
        trained(&spec("line.csv", 4, &format!("{optimizer} accumulate 2;")));
    for name in ["a", "b", "a/Momentum", "b/Momentum"] {
        assert_near(number(&accumulated, name), number(&full, name));
    }
    assert_eq!((accumulated.step(), full.step()), (10, 10));
    let Some(Event::Ended {
        step, why, losses, ..
    }) = events.last()
    else {
        panic!("{events:?}");
    };
    assert_eq!((*step, why), (10, &End::Steps));
    // The reported loss is the mean over the micro-batches of the update.
    let reported = losses[0].1;
    let (_, events) = trained(&spec("line.csv", 8, optimizer));
    let Some(Event::Ended { losses, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_near(reported, losses[0].1);
}

#[test]
fn micro_batches_of_one_update_draw_different_numbers() {
    let text = |accumulate: &str| {
        format!(
            "spec noise;
             data d {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; repeat; batch 8; }}
             model (x: f32[batch], y: f32[batch]) {{
                 param a: f32 = zeros();
                 loss a * random_normal([]) + 0.0 * mean(x + y);
             }}
             train {{ data d; optimizer gradient_descent(1.0); steps 1; {accumulate} }}"
        )
    };
    let (one, _) = trained(&text(""));
    let (two, _) = trained(&text("accumulate 2;"));
    let (again, _) = trained(&text("accumulate 2;"));
    assert_ne!(number(&one, "a"), number(&two, "a"));
    assert_eq!(number(&two, "a"), number(&again, "a"));
}

#[test]
fn a_fixed_loss_scale_changes_nothing_but_overflow() {
    let optimizer = "optimizer gradient_descent(0.05); steps 5;";
    let (plain, _) = trained(&spec("line.csv", 8, optimizer));
    // A power of two, so that nothing is rounded.
    let scaled = format!("{optimizer} loss_scale fixed(1_024);");
    let (scaled, _) = trained(&spec("line.csv", 8, &scaled));
    assert_eq!(number(&plain, "a"), number(&scaled, "a"));
}

#[test]
fn a_step_that_overflows_is_skipped() {
    let train = "optimizer adam(0.1); ema (decay: 0.5); steps 3;
                 loss_scale dynamic(initial: 1_024, growth_steps: 2, multiplier: 2.0);";
    let (state, events) = trained(&spec("infinite.csv", 1, train));
    // The second batch is skipped: the loss scale of 1024 is halved, and grows again after two finite ones.
    assert_eq!(state.step(), 3);
    assert_eq!(number(&state, "current_loss_scale"), 1024.0);
    assert!(number(&state, "a").is_finite());
    let Some(Event::Ended { step, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(*step, 3);
    // Equal to a training without the second batch.
    let three = MemoryEnv::new(&[("line.csv", b"1,3\n3,7\n-1,-1\n")]);
    let train = "optimizer adam(0.1); ema (decay: 0.5); steps 3;";
    let (other, _) = run(&three, &spec("line.csv", 1, train), &Options::default());
    let other = other.unwrap();
    for name in ["a", "b/Adam_1", "a/ExponentialMovingAverage", "beta1_power"] {
        assert_eq!(number(&state, name), number(&other, name), "{name}");
    }
}

#[test]
fn gradients_that_are_never_finite_end_a_training() {
    let env = MemoryEnv::new(&[("line.csv", b"1,inf\n")]);
    let train = "optimizer gradient_descent(0.1); steps 3; loss_scale dynamic();";
    let (state, _) = run(&env, &spec("line.csv", 1, train), &Options::default());
    let diagnostic = state.unwrap_err().diagnostic();
    let expected = "the gradients were not finite 256 times in a row";
    assert!(diagnostic.message.starts_with(expected), "{diagnostic:?}");
    assert!(!diagnostic.help[0].contains("nan"), "{diagnostic:?}");
}

#[test]
fn a_nan_loss_stops_a_training_whose_step_is_skipped() {
    let train = "optimizer gradient_descent(0.1); steps 3; loss_scale dynamic();";
    let text = spec("line.csv", 1, train) + " hooks { nan (loss, fail: false); }";
    // 0 times infinity.
    let env = MemoryEnv::new(&[("line.csv", b"inf,1\n")]);
    let (ended, events) = run(&env, &text, &Options::default());
    ended.unwrap();
    let Some(Event::Ended { step, why, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!((*step, why), (0, &End::NotFinite("loss".to_owned())));
}

#[test]
fn gradients_that_are_never_finite_end_the_training() {
    let env = MemoryEnv::new(&[("line.csv", b"inf,1\n")]);
    let train = "optimizer gradient_descent(0.1); steps 3; loss_scale dynamic();";
    let (ended, _) = run(&env, &spec("line.csv", 1, train), &Options::default());
    let error = ended.unwrap_err();
    assert!(matches!(error.cause, Cause::NotFinite { .. }), "{error}");
}

#[test]
fn a_clip_is_for_its_variables_alone() {
    let train = |clip: &str| format!("optimizer gradient_descent(0.1); {clip} steps 1;");
    let (plain, _) = trained(&spec("line.csv", 8, &train("")));
    let (clipped, _) = trained(&spec(
        "line.csv",
        8,
        &train("clip value(-0.5, 0.5) for \"b\";"),
    ));
    assert_eq!(number(&plain, "a"), number(&clipped, "a"));
    assert_near(number(&clipped, "b"), 0.05);
    assert!(number(&plain, "b") > 0.05);
}

#[test]
fn averages_have_names_and_follow_values_too() {
    let train = "optimizer gradient_descent(0.1); steps 2;
                 ema (decay: 0.9); ema (decay: 0.5, name: \"fast\") for \"a\";
                 ema (decay: 0.5, tensors: loss, zero_debias: true);";
    let (state, _) = trained(&spec("line.csv", 8, train));
    let slow = ExponentialMovingAverage::default();
    let fast = ExponentialMovingAverage::new("fast");
    assert!(fast.average(&state, "b").is_none());
    let of = |ema: &ExponentialMovingAverage| ema.average(&state, "a").unwrap().to_f64s()[0];
    let a = number(&state, "a");
    assert!(of(&slow).abs() < of(&fast).abs() && of(&fast).abs() < a.abs());
    assert_eq!(
        number(&state, "loss/ExponentialMovingAverage/local_step"),
        2.0
    );
}

fn table(optimizer: &str, more: &str) -> State {
    table_of("f32", "", optimizer, more)
}

fn table_of(dtype: &str, items: &str, optimizer: &str, more: &str) -> State {
    let text = format!(
        "spec table;
         data d {{ source csv(\"indices.csv\"); feature at: i64; feature y: f32; batch 3; }}
         {items}
         model (at: i64[batch] in 0..6, y: f32[batch]) {{
             param w: {dtype}[6, 2] = constant(1.0);
             loss sum(sum(cast(gather(w, at), f32), axis: 1) * y);
         }}
         train {{ data d; optimizer {optimizer}; {more} }}"
    );
    trained(&text).0
}

/// The first column of the table.
fn column(state: &State) -> Vec<f64> {
    let w = state.get("w").unwrap().to_f64s();
    w.chunks(2).map(|row| row[0]).collect()
}

#[test]
fn a_lazy_update_leaves_rows_alone_that_were_not_read() {
    // Adam decays the moments of all rows: a row that was read in the first step alone moves in the second too.
    let (all, lazy) = (
        column(&table("adam(0.1)", "")),
        column(&table("adam(0.1, lazy: true)", "")),
    );
    // Rows 1 and 4 are read in the first step, 0 and 4 in the second.
    assert!(all[1] < lazy[1], "{all:?} {lazy:?}");
    assert_near(lazy[1], 0.9);
    let by_place = table("adam(0.1, 0.9, 0.999, 1e-8, true)", "");
    assert_eq!(column(&by_place), lazy);
    assert_eq!((all[2], lazy[2]), (1.0, 1.0));
    assert_eq!(all[4], lazy[4]);
    // Plain momentum is lazy by default.
    let (lazy, all) = (
        column(&table("momentum(0.1, momentum: 0.9)", "")),
        column(&table("momentum(0.1, momentum: 0.9, lazy: false)", "")),
    );
    assert_near(lazy[1], 1.0 - 0.1 * 4.0);
    assert_near(all[1], 1.0 - 0.1 * 4.0 - 0.1 * 0.9 * 4.0);
    // It holds for every element type.
    let short = column(&table_of("bf16", "", "momentum(0.1, momentum: 0.9)", ""));
    assert!((short[1] - lazy[1]).abs() < 0.01, "{short:?} {lazy:?}");
}

/// The first column of the table after two steps of an optimizer of one's own.
fn updated_by(dtype: &str, body: &str) -> Vec<f64> {
    let items = format!("optimizer own(rate = 0.1) {{ {body} }}");
    column(&table_of(dtype, &items, "own()", ""))
}

#[test]
fn a_dense_operand_is_combined_with_all_rows() {
    // Row 1 has a gradient of 4 in the first step; the dense factor there is 2.
    let counted =
        "let index = cast(reshape(range(12), [6, 2]), f32); param <- param - rate * grad * index;";
    let rows = updated_by("f32", counted);
    assert_near(rows[1], 1.0 - 0.1 * 4.0 * 2.0);
    assert_eq!(rows[0], 1.0);
    let noisy = "param <- param - rate * grad * (1 + random_uniform(shape_of(param)));";
    let rows = updated_by("f32", noisy);
    assert!(rows[1] < 1.0 - 0.1 * 4.0);
    assert_eq!(rows[2], 1.0);
}

#[test]
fn one_number_fills_the_rows_that_were_read() {
    let plain = updated_by("f32", "param <- param - rate * grad;");
    let filled = "param <- param - rate * fill(shape_of(param), 1.0) * grad;";
    assert_eq!(updated_by("f32", filled), plain);
    let reset = "slot m = zeros; param <- param - rate * (grad + m); m <- 0.0;";
    assert_eq!(updated_by("f32", reset), plain);
    let written = updated_by("f32", "param <- 0.5;");
    assert_eq!(written, [0.5, 0.5, 1.0, 1.0, 0.5, 1.0]);
}

#[test]
fn the_norm_of_rows_is_taken_as_they_come() {
    // The rows of the first step are 1, 3 (both at 1) and 2 (at 4), each twice: their norm is sqrt(28), that of the sums sqrt(40).
    let state = table("gradient_descent(1.0)", "clip global_norm(1.0); steps 1;");
    let w = state.get("w").unwrap().to_f64s();
    assert_near(w[2], 1.0 - 4.0 / 28.0_f64.sqrt());
    assert_near(w[8], 1.0 - 2.0 / 28.0_f64.sqrt());
}

/// Two numbers of which only the first has a gradient, after some steps.
fn half_used(dtype: &str, optimizer: &str) -> Vec<f64> {
    let text = format!(
        "spec half;
         data d {{ source csv(\"line.csv\"); feature x: f32; feature y: f32; batch 4; }}
         model (x: f32[batch], y: f32[batch]) {{
             param w: {dtype}[2] = 0.5;
             loss mean(square(cast(w[0], f32) * x - y)) + 0.0 * cast(sum(w), f32);
         }}
         train {{ data d; optimizer {optimizer}; }}"
    );
    trained(&text).0.get("w").unwrap().to_f64s()
}

#[test]
fn bias_correction_holds_in_16_bit_floats_too() {
    for name in ["adam", "adamax", "adamw", "lamb", "nadam", "radam", "yogi"] {
        let (long, short) = (
            half_used("f32", &format!("{name}(0.1)")),
            half_used("bf16", &format!("{name}(0.1)")),
        );
        for (a, b) in long.iter().zip(&short) {
            assert!((a - b).abs() < 0.02, "{name}: {long:?} {short:?}");
        }
    }
}

#[test]
fn ftrl_without_a_gradient_gives_zero() {
    // So it is in TensorFlow where the accumulator begins with 0 too: nothing is divided by it.
    let w = half_used("f32", "ftrl(0.1, initial_accumulator_value: 0.0)");
    assert!(w[0].is_finite());
    assert_eq!(w[1], 0.0);
}

#[test]
fn averages_replace_their_own_variables_alone() {
    // The average of the value `w` is called as that of the variable `w` would be.
    let text = "spec shadow;
        data d { source csv(\"line.csv\"); feature x: f32; feature y: f32; batch 4; }
        model (x: f32[batch], y: f32[batch]) {
            param b: f32 = 0.0;
            param w: f32[3] = 0.1;
            let w = sum(w);
            loss mean(square(w * x + b - y));
            metric sum_of_w = w;
        }
        train {
            data d; optimizer gradient_descent(0.01);
            ema (decay: 0.9) for \"b\"; ema (decay: 0.9, tensors: [w]);
        }
        eval { data d; with ema; }";
    let (state, _) = trained(text);
    assert!(state.get("w/ExponentialMovingAverage").is_some());
}

#[test]
fn a_scalar_may_be_for_some_variables() {
    let items = "optimizer own(rate = 0.1) {
        if rank(param) == 2 { scalar q = 1.0 then 0.5 * q; param <- param - rate * q * grad; }
        else { param <- param - rate * grad; }
    }";
    let text = |first: &str| {
        format!(
            "spec some;
             data d {{ source csv(\"indices.csv\"); feature at: i64; feature y: f32; batch 3; }}
             {items}
             model (at: i64[batch] in 0..6, y: f32[batch]) {{
                 {first}
                 param w: f32[6, 2] = constant(1.0);
                 loss sum(sum(gather(w, at), axis: 1) * y);
             }}
             train {{ data d; optimizer own(); }}"
        )
    };
    let (alone, _) = trained(&text(""));
    let (after, _) = trained(&text("param a: f32 = 0.0;").replace("loss ", "loss a + "));
    assert_eq!(column(&alone), column(&after));
    assert_eq!(number(&after, "q"), 0.25);
}

#[test]
fn integers_are_rates_too() {
    let train = "schedule lr = piecewise_constant([1], [1, 0]); optimizer gradient_descent(0.01 * lr); steps 3;";
    let (integer, _) = trained(&spec("line.csv", 2, train));
    let float = train.replace("[1, 0]", "[1.0, 0.0]");
    let (float, _) = trained(&spec("line.csv", 2, &float));
    assert_eq!(number(&integer, "a"), number(&float, "a"));
}
