//! Random specs that need more memory than there is: every command ends with an error that says so, and none with a signal, a panic or a
//! hang.
//!
//! A few run with all tests; `.ci/memory COUNT [SEED]` runs more, and specs close to the limit, which may fit.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use crate::support::{Folder, err};

/// The seconds after which a command counts as hanging.
const TIMEOUT_SECONDS: u64 = 20;

/// Choices from a seed (splitmix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` up to `high`.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.within(0, all.len() as u64) as usize]
    }
}

/// A spec, and what is demanded of commands that it is given to.
struct Case {
    text: String,
    /// Its need is far above the limit: what runs it must fail.
    must_fail: bool,
    /// The limit of the address space, in KiB.
    limit: u64,
}

/// The stages of a data set that keeps more records than fit: many small ones, or large ones.
fn kept_data(choices: &mut Choices) -> String {
    let large = "map z = broadcast_to(expand_dims(x, axis: 0), [200_000]);";
    let map = choices.one_of(&["", large]);
    let stages = choices.one_of(&[
        "repeat; batch 1_000_000_000;",
        "repeat; shuffle (buffer: 2_000_000_000); batch 2;",
        "epochs 1_000_000_000; cache; shuffle (buffer: 2_000_000_000); batch 2;",
    ]);
    format!("{map} {stages}")
}

/// A model in which some tensor has about `elements` elements: from `t`, a vector, to `out`, another.
fn body(choices: &mut Choices, elements: u64) -> String {
    let root = (elements as f64).sqrt() as u64 + 1;
    let narrow = choices.within(1, 200);
    let rest = elements / narrow + 1;
    let column = "let column = expand_dims(t, axis: 1);";
    match choices.within(0, 11) {
        0 => format!(
            "{column} let out = (column |> dense({root}) |> dense({root}) |> dense(1))[_, 0];"
        ),
        1 => format!("{column} let out = (column |> dense({elements}) |> dense(1))[_, 0];"),
        2 => format!(
            "let out = cast(sum(embedding(cast(x, i64), {rest}, {narrow}), axis: 1), dtype_of(t));"
        ),
        3 => format!(
            "let image = broadcast_to(reshape(t, [batch, 1, 1, 1]), [batch, {root}, {root}, 1]);
             let out = mean(conv2d(image, {narrow}), axis: [1, 2, 3]);"
        ),
        4 => format!(
            "let xs = broadcast_to(reshape(t, [batch, 1, 1]), [batch, {rest}, 2]);
             let out = sum(lstm(xs, {narrow}), axis: 1);"
        ),
        5 => format!(
            "let wide = broadcast_to(expand_dims(t, axis: 1), [batch, {elements}]);
             param w: f32 = 1.0;
             let out = sum(cumsum(wide * cast(w, dtype_of(t)), axis: 1), axis: 1);"
        ),
        6 => format!(
            "let words = broadcast_to(reshape(t, [batch, 1, 1]), [batch, {root}, 4]);
             let out = mean(attention(words, 2), axis: [1, 2]);"
        ),
        7 => format!(
            "param w: f32[{root}, {root}] = {};
             let out = t * cast(mean(w @ w), dtype_of(t));",
            choices.one_of(&[
                "zeros()",
                "glorot_uniform()",
                "orthogonal()",
                "truncated_normal(0.1)"
            ])
        ),
        8 => format!(
            "param w: f32 = 1.0;
             let hot = one_hot(cast(x, i64), {elements});
             let (top, _at) = top_k(hot * w, k: 2);
             let out = cast(sum(top, axis: 1), dtype_of(t));"
        ),
        9 => format!(
            "let xs = broadcast_to(expand_dims(t, axis: 0), [{elements}, batch]);
             param w: f32 = 1.0;
             let (last, all) = scan row in xs, total = t {{
                 let next = tanh(total * cast(w, dtype_of(t)) + row);
                 yield next;
                 next
             }};
             let out = last + mean(all, axis: 0);"
        ),
        _ => format!(
            "param w: f32[{rest}, {narrow}] = ones();
             state seen: f32[{rest}, {narrow}] = zeros();
             seen <- seen + w;
             let out = t * cast(sum(w), dtype_of(t));"
        ),
    }
}

/// What does not fit.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The model, by far.
    Model,
    /// The records that the input pipeline keeps.
    Data,
    /// Maybe nothing: the model is close to the limit, and does little work for its memory.
    Close,
}

/// The case of a seed.
fn case(seed: u64, kind: Kind) -> Case {
    let mut choices = Choices(seed);
    let close = kind == Kind::Close;
    let limit = match kind {
        // Filling it takes time.
        Kind::Data => 1 << 20,
        Kind::Close => choices.within(1 << 20, 2 << 20),
        Kind::Model => choices.within(1 << 20, 4 << 20),
    };
    let stages = match kind {
        Kind::Data => kept_data(&mut choices),
        Kind::Model | Kind::Close => "repeat; batch 2;".to_owned(),
    };
    // More than 2^40 elements are refused when the spec is checked.
    let bits = match choices.within(0, 8) {
        0 => choices.within(40, 64),
        _ => choices.within(33, 40),
    };
    let elements = match kind {
        Kind::Close => choices.within(limit * 1024 / 64, limit * 1024 / 4),
        Kind::Data => 4,
        Kind::Model => choices.within(1 << (bits - 1), 1 << bits),
    };
    let dtype = match close {
        true => "f32",
        false => choices.one_of(&["f32", "f32", "f64", "bf16", "f16"]),
    };
    let body = match close {
        true => match choices.within(0, 2) {
            0 => format!(
                "let out = sum(embedding(cast(x, i64), {}, 8), axis: 1);",
                elements / 8
            ),
            _ => format!("param w: f32[{elements}] = zeros(); let out = t * mean(w * w);"),
        },
        false => body(&mut choices, elements),
    };
    let optimizer = choices.one_of(&[
        "gradient_descent(0.1)",
        "adam(0.1, epsilon: 1e-4)",
        "momentum(0.1, 0.9)",
        "adagrad(0.1)",
        "rmsprop(0.1)",
        "lamb(0.1)",
    ]);
    let more = choices.one_of(&[
        "",
        "",
        "accumulate 2;",
        "ema (decay: 0.9);",
        "clip global_norm(1.0);",
    ]);
    let map = match choices.within(0, 8) {
        0 if kind == Kind::Model => format!(
            "map z = cumsum(broadcast_to(expand_dims(x, axis: 0), [{elements}]), axis: 0); drop z;"
        ),
        _ => String::new(),
    };
    let text = format!(
        "spec big;
data points {{ source csv(\"points.csv\"); feature x: f32; feature y: f32; {map} {stages} }}
model (x: f32[batch], y: f32[batch]) {{
    let t = cast(x, {dtype});
    {body}
    loss mean(square(cast(out, f32) - y));
}}
train {{ data points; optimizer {optimizer}; {more} steps 1; }}
hooks {{ checkpoint none; }}
"
    );
    Case {
        text,
        must_fail: !close,
        limit,
    }
}

/// Runs a command on a spec with little memory.
fn run(folder: &Folder, arguments: &str, limit: u64) -> Output {
    let limited = format!("ulimit -v {limit}; exec timeout {TIMEOUT_SECONDS} \"$0\" {arguments}");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_trainspec")]);
    command.current_dir(folder.path("")).env("NO_COLOR", "1");
    command.output().unwrap()
}

/// What is wrong with how the commands end on a case.
fn faults(folder: &Folder, name: &str, case: &Case, kind: Kind) -> Vec<String> {
    let file = format!("{name}.trainspec");
    folder.write(&file, &case.text);
    // What only looks at a spec needs no memory; the interpreter takes long for what may fit, and reads the same data.
    let mut commands = vec![("check", false), ("run", case.must_fail)];
    if kind != Kind::Data {
        commands.push(("emit --stage plan", false));
        commands.push(("run --dry-run", case.must_fail));
        commands.push(("bench --steps 1", false));
    }
    if kind == Kind::Model {
        commands.push(("run --interpret", case.must_fail));
        commands.push(("gradcheck --elements 1", false));
    }
    let mut found = Vec::new();
    for (command, must_fail) in commands {
        let output = run(folder, &format!("{command} {file}"), case.limit);
        let message = err(&output);
        let fault = match output.status.code() {
            Some(0) if must_fail => "succeeds, and needs more than there is",
            Some(0) => continue,
            Some(1 | 2) if message.contains("error[size-overflow]") => continue,
            Some(1 | 2) => "fails without saying that something is too large",
            Some(124) => "hangs",
            Some(101) => "panics",
            _ => "is killed",
        };
        let end: Vec<&str> = message.lines().rev().take(4).collect();
        found.push(format!("{command}: {fault} ({}): {end:?}", output.status));
    }
    found
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn specs_that_need_too_much_memory_are_refused() {
    let count = number("TRAINSPEC_MEMORY_COUNT");
    let seed = number("TRAINSPEC_MEMORY_SEED").unwrap_or(1);
    let folder = Folder::new();
    folder.write("points.csv", "1,2\n0,4\n".repeat(10_000));
    let next = std::sync::atomic::AtomicU64::new(0);
    let all = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (folder, next, all) = (&folder, &next, &all);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if i >= count.unwrap_or(12) {
                        return;
                    }
                    // Some take seconds: those that may fit, and data that is read until it does not.
                    let kind = match i % 32 {
                        0 => Kind::Data,
                        1..8 if count.is_some() => Kind::Close,
                        _ => Kind::Model,
                    };
                    let case = case(seed.wrapping_add(i), kind);
                    let found = faults(folder, &format!("case{thread}"), &case, kind);
                    if !found.is_empty() {
                        let report = format!(
                            "case {i} of seed {seed}, {} KiB:\n{}\n{}",
                            case.limit,
                            case.text,
                            found.join("\n")
                        );
                        println!("{report}\n");
                        all.lock().unwrap().push(report);
                    }
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    assert!(all.is_empty(), "{} cases:\n{}", all.len(), all.join("\n\n"));
}

/// Batches and windows that are much larger than their records: the limit is compared before they are allocated.
#[test]
fn large_batches_are_refused_before_they_are_allocated() {
    let folder = Folder::new();
    folder.write("points.csv", "1,2\n0,4\n".repeat(500));
    let fill = "map y = fill([1_000_000], x);";
    for stages in [
        format!("{fill} repeat; batch 128;"),
        format!("{fill} repeat; window (size: 128, shift: 1); batch 1;"),
        format!("{fill} repeat; shuffle (buffer: 200); batch 2;"),
        "repeat; batch 128; map z = fill([128, 1_000_000], x[0]); map y = z; map u = 2.0 * z;"
            .to_owned(),
    ] {
        let text = format!(
            "spec big; data points {{ source csv(\"points.csv\"); feature x: f32; feature y: f32; {stages} }}"
        );
        folder.write("big.trainspec", text);
        let output = run(&folder, "data big.trainspec", 500_000);
        let message = err(&output);
        assert_eq!(output.status.code(), Some(2), "{stages}: {message}");
        assert!(
            message.contains("error[size-overflow]"),
            "{stages}: {message}"
        );
    }
    // Small records beside large ones are read in small blocks.
    let text = "spec pair; data a { source csv(\"points.csv\"); feature x: f32; feature y: f32; }
        data b { source csv(\"points.csv\"); feature u: f32; feature v: f32; map v = fill([1_000_000], u); }
        data c { source zip(a, b); batch 4; }";
    folder.write("pair.trainspec", text);
    let output = run(&folder, "data pair.trainspec c --limit 3", 500_000);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}
