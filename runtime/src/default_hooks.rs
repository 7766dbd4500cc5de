//! Hooks that the options of a run add to those of its spec, or change.
//!
//! In: a spec and the options. Out: the spec as it is run. Leaves alone: data, model and `train`, so it is the same training.

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::Span;
use trainspec_compiler::typed::{CheckpointFormat, Hook, HookKind, Interval, Spec};

use crate::session::Options;

/// The spec with a `checkpoint` hook where the options give a folder and it has none, and with the interval that they give.
pub(crate) fn with_default_hooks(spec: &Arc<Spec>, options: &Options) -> Arc<Spec> {
    let saves = |hook: &Hook| matches!(hook.kind, HookKind::Checkpoint { .. });
    let added = match &options.dir {
        Some(dir) if !spec.hooks.iter().any(saves) => Some(checkpoint(dir)),
        _ => None,
    };
    if added.is_none() && options.save_every.is_none() {
        return spec.clone();
    }
    let mut spec = Spec::clone(spec);
    spec.hooks.extend(added);
    for hook in &mut spec.hooks {
        if let (HookKind::Checkpoint { every, .. }, Some(steps)) =
            (&mut hook.kind, options.save_every)
        {
            *every = Interval::Steps(i64::try_from(steps).unwrap_or(i64::MAX));
        }
    }
    Arc::new(spec)
}

/// A `checkpoint` hook with its defaults.
fn checkpoint(dir: &Path) -> Hook {
    Hook {
        kind: HookKind::Checkpoint {
            dir: dir.to_string_lossy().into_owned(),
            every: Interval::Seconds(600.0),
            keep: 5,
            keep_every: None,
            basename: "model.ckpt".to_owned(),
            format: CheckpointFormat::Bundle,
            vars: Vec::new(),
            best: None,
        },
        span: Span::default(),
    }
}
