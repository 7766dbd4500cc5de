//! How the time of a check grows with the length of a spec. Reports, asserts nothing.

use std::fmt::Write;
use std::time::{Duration, Instant};

use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options};

/// A spec of so many statements: layers, arithmetic, calls of the library.
fn spec(statements: usize) -> String {
    let mut text = String::from("spec long, edition 1;\n\nmodel (x: f32[batch, 8]) {\n    let h0 = x;\n");
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

fn best_of(n: usize, text: &str) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..n {
        let start = Instant::now();
        let compilation = Compilation::check("long", text, &NoFiles, &Options::default());
        best = best.min(start.elapsed());
        assert!(compilation.diagnostics.is_empty(), "{:?}", compilation.diagnostics.first());
    }
    best
}

fn main() {
    let (short, long) = (spec(2_000), spec(20_000));
    let (mut a, mut b) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        a = a.min(best_of(3, &short));
        b = b.min(best_of(1, &long));
    }
    println!("check    2,000 statements: {:8.2} ms", a.as_secs_f64() * 1e3);
    println!("check   20,000 statements: {:8.2} ms", b.as_secs_f64() * 1e3);
    println!("ratio 20,000 : 2,000     : {:8.2} (linear is 10)", b.as_secs_f64() / a.as_secs_f64());
}
