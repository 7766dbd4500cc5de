//! The events of a run as JSON, one object each.

use serde_json::{Value, json};
use trainspec::saver::RestorePlan;
use trainspec::session::{DataSize, Event};
use trainspec_compiler::diag::to_json;
use trainspec_compiler::source::Sources;

use super::readings::{mean_json, reading_json, real_json};

/// An event as an object; `None` for one that only a terminal shows.
pub(crate) fn event_json(sources: &Sources, event: &Event) -> Option<Value> {
    let object = match event {
        Event::Started {
            spec,
            parameters,
            data,
            seed,
        } => {
            let data: Vec<Value> = data.iter().map(data_size_json).collect();
            json!({ "event": "start", "spec": spec, "parameters": parameters, "seed": seed, "data": data })
        }
        Event::Warning(warning) => {
            serde_json::from_str(&to_json(sources, warning)).unwrap_or_default()
        }
        Event::Progress(_) => return None,
        Event::Note(message) => json!({ "event": "note", "message": message }),
        Event::Specialised(new) => json!({
            "event": "compiled",
            "program": if new.training { "step" } else { "evaluation" },
            "sizes": new.sizes,
            "bytes": new.bytes,
        }),
        Event::Step {
            step,
            values,
            seconds,
        } => {
            let values = values.iter().map(|(n, r)| (n.clone(), reading_json(r)));
            let values: serde_json::Map<String, Value> = values.collect();
            json!({ "event": "step", "step": step, "values": values, "seconds": seconds })
        }
        Event::Evaluated {
            name,
            data,
            step,
            metrics,
        } => {
            let metrics = metrics
                .iter()
                .map(|(n, mean)| (n.clone(), mean_json(*mean)));
            let metrics: serde_json::Map<String, Value> = metrics.collect();
            json!({ "event": "eval", "name": name, "data": data, "step": step, "metrics": metrics })
        }
        Event::WarmStarted(plan) => warm_started_json(plan),
        Event::Rereading { records } => json!({ "event": "rereading", "records": records }),
        Event::Resumed { step, path, reread } => json!({
            "event": "resume",
            "step": step,
            "path": path.display().to_string(),
            "reread": reread,
        }),
        Event::Final { step, values } => {
            let values = values.iter().map(|(n, r)| (n.clone(), reading_json(r)));
            let values: serde_json::Map<String, Value> = values.collect();
            json!({ "event": "final", "step": step, "values": values })
        }
        Event::Saved { step, path } => json!({
            "event": "checkpoint",
            "step": step,
            "path": path.display().to_string(),
        }),
        Event::Ended {
            step,
            why,
            losses,
            seconds,
            ..
        } => {
            let losses = losses.iter().map(|(n, x)| (n.clone(), real_json(*x)));
            let losses: serde_json::Map<String, Value> = losses.collect();
            json!({ "event": "end", "step": step, "why": why.name(), "losses": losses, "seconds": seconds })
        }
    };
    Some(object)
}

pub(super) fn warm_started_json(plan: &RestorePlan) -> Value {
    let restored = plan.restored.iter();
    let restored = restored.map(|one| json!({ "variable": one.variable, "key": one.key }));
    json!({
        "event": "warm_start",
        "path": plan.path,
        "restored": restored.collect::<Vec<_>>(),
        "left_over": plan.left_over,
        "notes": plan.notes,
    })
}

pub(super) fn data_size_json(size: &DataSize) -> Value {
    json!({ "name": size.name, "records": size.records, "batch": size.batch })
}
