//! Normalization and biases.

use super::request::{Kind, OpRequest, applied, named, x};
use super::windows::Layout;
use super::{Row, by};

pub(super) const ROWS: &[Row] = &[
    by("bias_add", bias_add),
    by("batch_normalization", batch_normalization),
    by("fused_batch_norm", fused_batch_norm),
];

fn bias_add(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(2)?;
    let layout = Layout::of(request)?;
    let rank = request.shape(0).len();
    let call = applied(
        "bias_add",
        [layout.with_channels_last(x(0), rank), x(1)],
        [],
    );
    Ok(layout.as_it_was(call, rank))
}

/// Offset and scale may be missing.
fn batch_normalization(request: &OpRequest<'_>) -> Result<String, String> {
    const INPUTS: [&str; 5] = ["x", "mean", "variance", "offset?", "scale?"];
    let indices = request.indices(&INPUTS)?;
    let mut given = Vec::new();
    for (name, index) in INPUTS.iter().zip(indices) {
        given.extend(index.map(|index| named(name.trim_end_matches('?'), x(index))));
    }
    given.extend(request.arguments(&[("variance_epsilon", Kind::Number)])?);
    Ok(applied("batch_normalization", given, []))
}

/// Only the first result where only one is expected.
fn fused_batch_norm(request: &OpRequest<'_>) -> Result<String, String> {
    const INPUTS: [&str; 5] = ["x", "scale", "offset", "mean?", "variance?"];
    let layout = Layout::of(request)?;
    let rank = request.inputs.first().map_or(0, |x| x.value.shape().len());
    let mut given = Vec::new();
    for (name, index) in INPUTS.iter().zip(request.indices(&INPUTS)?) {
        let Some(index) = index else { continue };
        let value = match *name {
            "x" => layout.with_channels_last(x(index), rank),
            _ => x(index),
        };
        given.push(named(name.trim_end_matches('?'), value));
    }
    given.extend(request.arguments(&[
        ("epsilon", Kind::Number),
        ("is_training", Kind::Bool),
        ("exponential_avg_factor", Kind::Number),
    ])?);
    let call = applied("fused_batch_norm", given, []);
    match (request.outputs.len(), layout) {
        (1, _) => Ok(layout.as_it_was(format!("{call}[0]"), rank)),
        (3, Layout::Last) => Ok(call),
        (3, Layout::First) => {
            Err("`data_format` with channels first and three results is not known".to_owned())
        }
        (n, _) => Err(format!("has {n} outputs")),
    }
}
