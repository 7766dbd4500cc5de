//! Timelines: the trace of a run in Chrome's trace event format, and as TensorFlow's `StepStats`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value as Json, json};
use trainspec_formats::proto;

use crate::session::{RunMetadata, TracedKernel, TracedProgram};

/// Writes the trace of a run as JSON that `chrome://tracing` and Perfetto show (`timeline.Timeline`).
///
/// ```
/// use trainspec::session::{RunMetadata, Timeline};
///
/// let timeline = Timeline { show_memory: true, ..Timeline::default() };
/// let text = timeline.chrome_trace(&RunMetadata::default());
/// let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
/// assert!(trace["traceEvents"].as_array().unwrap().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// Whether arrows lead from the kernels that produce a tensor to those that consume it.
    pub show_dataflow: bool,
    /// Whether a counter shows the bytes of the arena that hold values.
    pub show_memory: bool,
}

impl Default for Timeline {
    /// With data flow, without memory, as in TensorFlow.
    fn default() -> Timeline {
        Timeline {
            show_dataflow: true,
            show_memory: false,
        }
    }
}

impl Timeline {
    /// The trace events of a run, one a line. Times are microseconds since the run began.
    pub fn chrome_trace(&self, metadata: &RunMetadata) -> String {
        let mut events = Vec::new();
        for (pid, program) in metadata.trace.iter().enumerate() {
            self.program(pid, program, metadata.trace.len(), &mut events);
        }
        let lines: Vec<String> = events.iter().map(Json::to_string).collect();
        match lines.is_empty() {
            true => "{\"traceEvents\": []}\n".to_owned(),
            false => format!("{{\"traceEvents\": [\n{}\n]}}\n", lines.join(",\n")),
        }
    }

    fn program(&self, pid: usize, program: &TracedProgram, count: usize, events: &mut Vec<Json>) {
        let name = match count {
            1 => "step".to_owned(),
            _ => format!("micro-batch {}", pid + 1),
        };
        events.push(named("process_name", pid, 0, &name));
        if program.kernels.is_empty() {
            events.push(json!({
                "ph": "X", "cat": "Op", "name": "interpreter", "pid": pid, "tid": 0,
                "ts": micros(program.start), "dur": micros(program.duration), "args": {},
            }));
            return;
        }
        let threads: BTreeSet<usize> = program.spans.iter().map(|span| span.thread).collect();
        for thread in threads {
            events.push(named("thread_name", pid, thread, &thread_name(thread)));
        }
        for span in &program.spans {
            let kernel = &program.kernels[span.kernel];
            events.push(json!({
                "ph": "X", "cat": "Op", "name": kernel.name, "pid": pid, "tid": span.thread,
                "ts": micros(span.start), "dur": micros(span.duration),
                "args": arguments(span.kernel, kernel),
            }));
        }
        if self.show_dataflow {
            flows(pid, program, events);
        }
        if self.show_memory {
            for (kernel, start, _, _) in extents(program) {
                events.push(json!({
                    "ph": "C", "cat": "Memory", "name": "arena", "pid": pid, "tid": 0,
                    "ts": micros(start), "args": { "live bytes": program.kernels[kernel].live_bytes },
                }));
            }
            events.push(json!({
                "ph": "C", "cat": "Memory", "name": "arena", "pid": pid, "tid": 0,
                "ts": micros(program.start + program.duration), "args": { "live bytes": 0 },
            }));
        }
    }
}

/// An arrow from the end of each producer to the start of each consumer.
fn flows(pid: usize, program: &TracedProgram, events: &mut Vec<Json>) {
    let extents: BTreeMap<usize, _> = (extents(program).into_iter())
        .map(|(kernel, start, end, thread)| (kernel, (start, end, thread)))
        .collect();
    let mut id = 0;
    for (consumer, kernel) in program.kernels.iter().enumerate() {
        for producer in &kernel.producers {
            let (Some((_, end, from)), Some((start, _, to))) =
                (extents.get(producer), extents.get(&consumer))
            else {
                continue;
            };
            let name = &program.kernels[*producer].name;
            events.push(json!({
                "ph": "s", "cat": "DataFlow", "name": name, "id": id, "pid": pid, "tid": from, "ts": micros(*end),
            }));
            events.push(json!({
                "ph": "f", "bp": "e", "cat": "DataFlow", "name": name, "id": id, "pid": pid, "tid": to, "ts": micros(*start),
            }));
            id += 1;
        }
    }
}

/// Of each kernel that ran: its first start, its last end, and the thread that began it; sorted by start.
fn extents(program: &TracedProgram) -> Vec<(usize, Duration, Duration, usize)> {
    let mut extents: Vec<(usize, Duration, Duration, usize)> = Vec::new();
    for span in &program.spans {
        let end = span.start + span.duration;
        match extents.iter_mut().find(|(k, ..)| *k == span.kernel) {
            Some((_, _, last, _)) => *last = end.max(*last),
            None => extents.push((span.kernel, span.start, end, span.thread)),
        }
    }
    extents
}

fn arguments(index: usize, kernel: &TracedKernel) -> Json {
    let outputs = kernel.outputs.iter().map(|(ty, state)| match state {
        Some(name) => format!("{ty} in `{name}`"),
        None => ty.to_string(),
    });
    json!({
        "kernel": index,
        "op": kernel.operations.join(", "),
        "outputs": outputs.collect::<Vec<_>>(),
        "inputs": kernel.producers,
    })
}

fn named(what: &str, pid: usize, thread: usize, name: &str) -> Json {
    json!({ "ph": "M", "name": what, "pid": pid, "tid": thread, "args": { "name": name } })
}

fn thread_name(thread: usize) -> String {
    match thread {
        0 => "main".to_owned(),
        n => format!("worker {n}"),
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// The trace as the message that event files hold. `began` is the time of the run since the epoch.
pub(crate) fn run_metadata(metadata: &RunMetadata, began: Duration) -> proto::RunMetadata {
    let dev_stats = metadata.trace.iter().map(|program| {
        let node_stats = program.spans.iter().map(|span| {
            let kernel = &program.kernels[span.kernel];
            let start = (began + span.start).as_nanos() as i64;
            let length = span.duration.as_nanos() as i64;
            proto::NodeExecStats {
                node_name: kernel.name.clone(),
                timeline_label: format!("{} = {}", kernel.name, kernel.operations.join(", ")),
                thread_id: span.thread as u32,
                all_start_micros: start / 1000,
                op_end_rel_micros: length / 1000,
                all_end_rel_micros: length / 1000,
                all_start_nanos: start,
                op_end_rel_nanos: length,
                all_end_rel_nanos: length,
                ..Default::default()
            }
        });
        let threads: BTreeSet<usize> = program.spans.iter().map(|span| span.thread).collect();
        proto::DeviceStepStats {
            device: "/job:localhost/replica:0/task:0/device:CPU:0".to_owned(),
            node_stats: node_stats.collect(),
            thread_names: threads
                .into_iter()
                .map(|thread| (thread as u32, thread_name(thread)))
                .collect(),
        }
    });
    proto::RunMetadata {
        step_stats: Some(proto::StepStats {
            dev_stats: dev_stats.collect(),
        }),
        ..Default::default()
    }
}
