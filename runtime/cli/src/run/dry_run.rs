//! What a dry run found: sizes, memory and FLOPs, where the run begins, its hooks and schedules.

use serde_json::{Map, Value, json};
use trainspec::DryRun;
use trainspec_compiler::readable_bytes;
use trainspec_compiler::typed::Spec;

use super::events_json::{data_size_json, warm_started_json};
use super::plan::{self, Given};
use super::printer::warm_started_text;
use super::readings::{number, real_json};
use crate::Format;
use crate::columns::{scaled, short_number};
use crate::output::{note, print};

/// Prints what a dry run found.
pub(super) fn show(spec: &Spec, given: &Given, sizes: &DryRun, format: Format) {
    match format {
        Format::Text => text(spec, given, sizes),
        Format::Json => print(to_json(sizes)),
    }
}

fn text(spec: &Spec, given: &Given, sizes: &DryRun) {
    print(plan::model_line(&sizes.spec, sizes.parameters, sizes.seed));
    print(plan::data_line(&sizes.data));
    print(plan::train_line(spec, given));
    print(plan::writes_line(spec, given));
    let free = sizes.available_bytes;
    let free = free.map_or(String::new(), |bytes| {
        format!("; {} are free", readable_bytes(bytes))
    });
    print(format_args!(
        "memory: state {}, step {}, batch {}{free}",
        readable_bytes(sizes.state_bytes),
        readable_bytes(sizes.step_bytes),
        readable_bytes(sizes.batch_bytes)
    ));
    if let Some(count) = spec.train.as_ref().map(|t| t.accumulate).filter(|n| *n > 1) {
        print(format_args!(
            "accumulate {count}: {} of the memory, for partial sums, the program of micro-batches, and {} more batches",
            readable_bytes(sizes.accumulate_bytes),
            count - 1
        ));
    }
    if let Some(flops) = sizes.step_flops {
        print(format_args!("compute: {}FLOP a step", scaled(flops as f64)));
    }
    match (&sizes.resumes, &sizes.warm_start) {
        (Some(path), _) if sizes.is_finished => print(format_args!(
            "begins: has finished with {}; a larger `steps` continues it, `--fresh` starts over",
            path.display()
        )),
        (Some(path), _) => print(format_args!("begins: goes on from {}", path.display())),
        (None, Some(plan)) => print(format_args!("begins: {}", warm_started_text(plan))),
        (None, None) => print("begins: at step 0, with initial values"),
    }
    for hook in &sizes.hooks {
        print(format_args!("hook {hook}"));
    }
    for hook in &spec.hooks_off {
        print(format_args!("hook {} none", hook.word()));
    }
    for (name, values) in &sizes.schedules {
        let ends = values.first().zip(values.last());
        let ends =
            ends.map(|(first, last)| format!("{} to {}", number(*first), short_number(*last)));
        print(format_args!(
            "schedule {name}: {}  {}",
            sparkline(values),
            ends.unwrap_or_default()
        ));
    }
    for text in &sizes.notes {
        note(format_args!("note: {text}"));
    }
    print(match sizes.is_finished {
        true => "there is nothing left to train; this was a dry run",
        false => "the training can begin; this was a dry run",
    });
}

fn to_json(sizes: &DryRun) -> Value {
    let schedules = sizes.schedules.iter().map(|(name, values)| {
        let values: Vec<Value> = values.iter().map(|x| real_json(*x)).collect();
        (name.clone(), json!(values))
    });
    let hooks: Vec<String> = sizes.hooks.iter().map(ToString::to_string).collect();
    json!({
        "event": "dry_run",
        "spec": sizes.spec,
        "parameters": sizes.parameters,
        "seed": sizes.seed,
        "data": sizes.data.iter().map(data_size_json).collect::<Vec<_>>(),
        "state_bytes": sizes.state_bytes,
        "step_bytes": sizes.step_bytes,
        "batch_bytes": sizes.batch_bytes,
        "accumulate_bytes": sizes.accumulate_bytes,
        "available_bytes": sizes.available_bytes,
        "step_flops": sizes.step_flops,
        "resumes": sizes.resumes,
        "finished": sizes.is_finished,
        "notes": sizes.notes,
        "warm_start": sizes.warm_start.as_ref().map(warm_started_json),
        "hooks": hooks,
        "schedules": schedules.collect::<Map<_, _>>(),
    })
}

/// A curve in one line of blocks of eight heights.
fn sparkline(values: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let finite = || values.iter().copied().filter(|x| x.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    let block = |x: &f64| match (x.is_finite(), high > low) {
        (false, _) => ' ',
        (true, false) => BLOCKS[3],
        (true, true) => BLOCKS[((x - low) / (high - low) * 7.0).round() as usize],
    };
    values.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_a_block_for_each_value() {
        assert_eq!(sparkline(&[0.0, 1.0, 0.5, f64::NAN]), "▁█▅ ");
        assert_eq!(sparkline(&[2.0, 2.0]), "▄▄");
        assert_eq!(sparkline(&[]), "");
    }
}
