//! The report of a benchmark, as text and as JSON: throughput, roofline limits, and time per kernel.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use trainspec::internals::program::Kernel;
use trainspec_compiler::codegen::simd::limits::Limits;
use trainspec_compiler::ir::Span;
use trainspec_compiler::ir::plan::Cost;
use trainspec_compiler::source::Sources;

use super::Windows;
use crate::columns::scaled;

/// The profile of a step, in seconds.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    /// The time of each kernel.
    pub(super) kernels: Vec<f64>,
    /// The time of a step outside its kernels.
    pub(super) overhead: f64,
}

impl Profile {
    fn step(&self) -> f64 {
        self.kernels.iter().sum::<f64>() + self.overhead
    }
}

/// The measurements of a benchmark.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) name: &'a str,
    pub(super) sources: &'a Sources,
    pub(super) threads: usize,
    pub(super) windows: Windows,
    pub(super) compile: Duration,
    pub(super) bytes: usize,
    pub(super) kernels: Vec<Kernel>,
    pub(super) profile: Option<Profile>,
    pub(super) limits: Option<Limits>,
    /// The hash of the state after a given number of steps.
    pub(super) digest: Option<u64>,
}

/// A row of the table: equivalent kernels, added up.
struct Row<'a> {
    kernel: &'a Kernel,
    calls: usize,
    seconds: f64,
    cost: Cost,
    compile: Duration,
}

/// The most rows of the table.
const MAX_ROWS: usize = 24;

impl Report<'_> {
    /// The report as text.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let Windows { count, steps, rate } = self.windows;
        let (name, threads) = (self.name, counted(self.threads, "thread"));
        let step = time(1.0 / rate);
        let best = match count {
            1 => format!("over {}", counted(steps as usize, "step")),
            n => format!("the best of {n} windows, {steps} steps in all"),
        };
        let _ = writeln!(
            out,
            "{name}: {rate:.1} steps/s, {step} a step on {threads}; {best}"
        );
        let own: Duration = self.kernels.iter().map(|k| k.compile).sum();
        let loops = self.kernels.iter().filter(|k| !k.compile.is_zero()).count();
        let _ = writeln!(
            out,
            "compiled in {:.1} ms, {:.1} ms of it machine code for {}; {} besides inputs and state",
            milliseconds(self.compile),
            milliseconds(own),
            counted(loops, "loop"),
            size(self.bytes as f64),
        );
        let cost = self.cost();
        let _ = writeln!(
            out,
            "a step moves {} for {}FLOP: {:.1} GB/s, {:.1} GFLOP/s",
            size(cost.bytes() as f64),
            scaled(cost.flops as f64),
            cost.bytes() as f64 * rate / 1e9,
            cost.flops as f64 * rate / 1e9,
        );
        if let Some(limits) = &self.limits {
            let _ = writeln!(
                out,
                "the machine, measured: {:.1} GFLOP/s; memory {:.1} GB/s read, {:.1} copied, {:.1} changed in place",
                limits.flops / 1e9,
                limits.read / 1e9,
                limits.copy / 1e9,
                limits.update / 1e9,
            );
        }
        if let Some(profile) = &self.profile {
            self.table(&mut out, profile);
        }
        if let Some(digest) = self.digest {
            let _ = writeln!(out, "the hash of the state is {digest:016x}");
        }
        out
    }

    /// The table of kernels by time, the slowest first.
    fn table(&self, out: &mut String, profile: &Profile) {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for (kernel, seconds) in self.kernels.iter().zip(&profile.kernels) {
            let row = rows
                .iter_mut()
                .find(|row| are_equivalent(row.kernel, kernel));
            match row {
                Some(row) => {
                    row.calls += 1;
                    row.seconds += seconds;
                    row.cost += kernel.cost;
                    row.compile += kernel.compile;
                }
                None => rows.push(Row {
                    kernel,
                    calls: 1,
                    seconds: *seconds,
                    cost: kernel.cost,
                    compile: kernel.compile,
                }),
            }
        }
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let _ = writeln!(
            out,
            "\n   us/step  share  calls    GB/s  GFLOP/s  of limit  compile ms  kernel"
        );
        for row in rows.iter().take(MAX_ROWS) {
            let Row {
                kernel,
                calls,
                seconds,
                cost,
                compile,
            } = row;
            let per_second = |n: u64| n as f64 / seconds.max(1e-12) / 1e9;
            let limit = self.limit(*cost, *seconds);
            let limit = limit.map_or_else(|| "-".to_owned(), |l| format!("{:.0}%", 100.0 * l));
            let _ = writeln!(
                out,
                "{:10.2} {:5.1}% {calls:6} {:7.1} {:8.1} {limit:>9} {:11.2}  {}",
                seconds * 1e6,
                100.0 * seconds / profile.step(),
                per_second(cost.bytes()),
                per_second(cost.flops),
                milliseconds(*compile),
                self.described(kernel, *calls),
            );
        }
        let rest: f64 = rows.iter().skip(MAX_ROWS).map(|row| row.seconds).sum();
        let mut line = |seconds: f64, label: String| {
            let share = 100.0 * seconds / profile.step();
            let _ = writeln!(out, "{:10.2} {share:5.1}% {label}", seconds * 1e6);
        };
        if rows.len() > MAX_ROWS {
            line(rest, format!("       {} others", rows.len() - MAX_ROWS));
        }
        let overhead = "       besides kernels: checks, results, clocks";
        line(profile.overhead, overhead.to_owned());
    }

    /// The fraction of the roofline limit that was reached; above 1 where data was in a cache.
    fn limit(&self, cost: Cost, seconds: f64) -> Option<f64> {
        let limits = self.limits.as_ref()?;
        Some(limits.seconds(cost.bytes(), cost.flops) / seconds.max(1e-12))
    }

    /// A kernel in one line: its name, operations, outputs and source location.
    fn described(&self, kernel: &Kernel, calls: usize) -> String {
        let mut text = kernel.name.clone();
        if !kernel.operations.is_empty() {
            let shown = kernel.operations.iter().take(5).copied();
            let more = if kernel.operations.len() > 5 {
                ", ..."
            } else {
                ""
            };
            let _ = write!(text, " {}{more}", shown.collect::<Vec<_>>().join(", "));
        }
        let outputs: Vec<String> = kernel
            .outputs
            .iter()
            .map(|(ty, state)| match state {
                Some(name) if calls == 1 => format!("{name} {ty}"),
                _ => ty.to_string(),
            })
            .collect();
        let _ = write!(text, " -> {}", outputs.join(", "));
        if let Some(location) = self.location(kernel.span) {
            let _ = write!(text, "  ({location})");
        }
        text
    }

    /// File and line of the expression that a kernel comes from.
    fn location(&self, span: Span) -> Option<String> {
        if span.start == span.end {
            return None;
        }
        let source = self.sources.get(span.file);
        let (line, _) = self.sources.line_column(span.file, span.start as usize);
        let file = source.name.rsplit('/').next().unwrap_or(&source.name);
        Some(format!("{file}:{line}"))
    }

    /// The bytes and FLOPs of a step.
    fn cost(&self) -> Cost {
        let each = self.kernels.iter().map(|k| k.cost);
        each.fold(Cost::default(), |a, b| a + b)
    }

    /// The report as one JSON object.
    pub(super) fn json(&self) -> Value {
        let cost = self.cost();
        let seconds = |i: usize| {
            let profile = self.profile.as_ref();
            profile.and_then(|p| p.kernels.get(i)).copied()
        };
        let kernel = |(i, kernel): (usize, &Kernel)| {
            let outputs = kernel
                .outputs
                .iter()
                .map(|(ty, state)| json!({ "type": ty.to_string(), "state": state }));
            json!({
                "name": kernel.name,
                "operations": kernel.operations,
                "outputs": outputs.collect::<Vec<_>>(),
                "location": self.location(kernel.span),
                "bytes_read": kernel.cost.read,
                "bytes_written": kernel.cost.written,
                "flops": kernel.cost.flops,
                "compile_ms": milliseconds(kernel.compile),
                "seconds": seconds(i),
                "of_limit": seconds(i).and_then(|s| self.limit(kernel.cost, s)),
            })
        };
        let limits = self.limits.as_ref().map(|l| {
            json!({
                "flops_per_second": l.flops,
                "read_bytes_per_second": l.read,
                "copy_bytes_per_second": l.copy,
                "update_bytes_per_second": l.update,
            })
        });
        json!({
            "spec": self.name,
            "steps_per_second": self.windows.rate,
            "steps": self.windows.steps,
            "windows": self.windows.count,
            "threads": self.threads,
            "compile_ms": milliseconds(self.compile),
            "peak_bytes": self.bytes,
            "bytes_moved": cost.bytes(),
            "state_hash": self.digest.map(|digest| format!("{digest:016x}")),
            "flops": cost.flops,
            "limits": limits,
            "profiled_step_seconds": self.profile.as_ref().map(Profile::step),
            "kernels": self.kernels.iter().enumerate().map(kernel).collect::<Vec<_>>(),
        })
    }
}

/// Whether two kernels run equal operations on tensors of equal types, from one expression.
fn are_equivalent(a: &Kernel, b: &Kernel) -> bool {
    let types = |kernel: &Kernel| {
        kernel
            .outputs
            .iter()
            .map(|(ty, _)| ty.clone())
            .collect::<Vec<_>>()
    };
    (&a.name, &a.operations, a.cost, a.span) == (&b.name, &b.operations, b.cost, b.span)
        && types(a) == types(b)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

/// A number with an SI prefix.
fn size(bytes: f64) -> String {
    format!("{}B", scaled(bytes)).replace("kB", "KB")
}

fn counted(n: usize, what: &str) -> String {
    crate::output::count(n, what)
}
