//! How the time of a check grows with the length of a spec. Reports, asserts nothing.

use std::fmt::Write;
use std::time::{Duration, Instant};

use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options, syntax};
use trainspec_ir::FileId;

/// A spec of N statements: layers, arithmetic, calls of the library.
fn spec(statements: usize) -> String {
    let mut text =
        String::from("spec long, edition 1;\n\nmodel (x: f32[batch, 8]) {\n    let h0 = x;\n");
    for i in 0..statements {
        let line = match i % 4 {
            0 => format!("let h{} = relu(h{i}) + 0.5 * h{i};", i + 1),
            1 => format!("let h{} = tanh(h{i} * 2.0 - 1.0);", i + 1),
            2 => format!("let h{} = h{i} / (1.0 + abs(h{i}));", i + 1),
            _ => format!("let h{} = where(h{i} > 0.0, h{i}, exp(h{i}) - 1.0);", i + 1),
        };
        let _ = writeln!(text, "    {line}");
    }
    let _ = writeln!(text, "    loss mean(h{statements});\n}}");
    text
}

fn parse(text: &str) {
    let (_, errors) = syntax::parse(FileId(0), text);
    assert!(errors.is_empty());
}

fn check(text: &str) {
    let compilation = Compilation::check("long", text, &NoFiles, &Options::default());
    assert!(
        compilation.diagnostics.is_empty(),
        "{:?}",
        compilation.diagnostics.first()
    );
}

/// The two specs in turn, so that a busy machine disturbs both; the best of each.
fn compare(name: &str, run: fn(&str), short: &str, long: &str) {
    let time = |text: &str| {
        let start = Instant::now();
        run(text);
        start.elapsed()
    };
    let (mut a, mut b) = (Duration::MAX, Duration::MAX);
    for _ in 0..7 {
        a = a.min(time(short));
        b = b.min(time(long));
    }
    let milliseconds = |d: Duration| d.as_secs_f64() * 1e3;
    println!(
        "{name}  2,000 statements {:7.2} ms   20,000 statements {:7.2} ms   ratio {:5.2} (linear is 10)",
        milliseconds(a),
        milliseconds(b),
        milliseconds(b) / milliseconds(a)
    );
}

fn main() {
    let (short, long) = (spec(2_000), spec(20_000));
    compare("parse", parse, &short, &long);
    compare("check", check, &short, &long);
}
