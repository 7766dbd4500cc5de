//! Shapes, indexing, sorts, segments.

use trainspec_ir::DType;

use super::request::{Kind, OpRequest, applied, cast, ints, named, x};
use super::{Row, by, listed, same};

const AXIS: &[(&str, Kind)] = &[("axis", Kind::Int)];
const SCAN: &[(&str, Kind)] = &[
    ("axis", Kind::Int),
    ("exclusive", Kind::Bool),
    ("reverse", Kind::Bool),
];
const SORT: &[(&str, Kind)] = &[
    ("axis", Kind::Int),
    ("direction", Kind::Word),
    // Sorting is stable here whether it is requested or not.
    ("stable", Kind::Ignored),
];
const SEGMENTS: &[(&str, Kind)] = &[("num_segments", Kind::Int)];

pub(super) const ROWS: &[Row] = &[
    listed("concat", AXIS),
    listed("stack", AXIS),
    same("unstack", 1, &[("axis", Kind::Int), ("num", Kind::Ignored)]),
    same(
        "split",
        1,
        &[
            ("num_or_size_splits", Kind::Ints),
            ("axis", Kind::Int),
            ("num", Kind::Ignored),
        ],
    ),
    same("slice", 1, &[("begin", Kind::Ints), ("size", Kind::Ints)]),
    same(
        "strided_slice",
        1,
        &[
            ("begin", Kind::Ints),
            ("end", Kind::Ints),
            ("strides", Kind::Ints),
            ("begin_mask", Kind::Int),
            ("end_mask", Kind::Int),
            ("ellipsis_mask", Kind::Int),
            ("new_axis_mask", Kind::Int),
            ("shrink_axis_mask", Kind::Int),
            // A list of Python.
            ("python", Kind::Ignored),
        ],
    ),
    same("transpose", 1, &[("perm", Kind::Ints)]),
    same("reshape", 1, &[("shape", Kind::Ints)]),
    same("expand_dims", 1, AXIS),
    same("squeeze", 1, &[("axis", Kind::Ints)]),
    same("tile", 1, &[("multiples", Kind::Ints)]),
    same("broadcast_to", 1, &[("shape", Kind::Ints)]),
    same(
        "pad",
        1,
        &[
            ("paddings", Kind::Pairs),
            ("mode", Kind::Word),
            ("constant_values", Kind::Number),
        ],
    ),
    same("reverse", 1, &[("axis", Kind::Ints)]),
    same(
        "reverse_sequence",
        2,
        &[("seq_axis", Kind::Int), ("batch_axis", Kind::Int)],
    ),
    same("cumsum", 1, SCAN),
    same("cumprod", 1, SCAN),
    by("one_hot", one_hot),
    by("range", range),
    same("linspace", 2, &[("num", Kind::Int)]),
    by("fill", fill),
    same("top_k", 1, &[("k", Kind::Int), ("sorted", Kind::Bool)]),
    same("in_top_k", 2, &[("k", Kind::Int)]),
    same("sort", 1, SORT),
    same("argsort", 1, SORT),
    same("segment_max", 2, &[]),
    same("segment_mean", 2, &[]),
    same("segment_min", 2, &[]),
    same("segment_prod", 2, &[]),
    same("segment_sum", 2, &[]),
    same("unsorted_segment_max", 2, SEGMENTS),
    same("unsorted_segment_mean", 2, SEGMENTS),
    same("unsorted_segment_min", 2, SEGMENTS),
    same("unsorted_segment_prod", 2, SEGMENTS),
    same("unsorted_segment_sqrt_n", 2, SEGMENTS),
    same("unsorted_segment_sum", 2, SEGMENTS),
    same(
        "gather",
        2,
        &[("axis", Kind::Int), ("batch_dims", Kind::Int)],
    ),
    same("gather_nd", 2, &[("batch_dims", Kind::Int)]),
    same("scatter_nd", 2, &[("shape", Kind::Ints)]),
    same("tensor_scatter_nd_add", 3, &[]),
    same("tensor_scatter_nd_update", 3, &[]),
    same("boolean_mask", 2, AXIS),
    same("dynamic_partition", 2, &[("num_partitions", Kind::Int)]),
    by("dynamic_stitch", dynamic_stitch),
    by("unique", unique),
    by("sequence_mask", sequence_mask),
    same("diag_part", 1, &[]),
    same(
        "matrix_band_part",
        1,
        &[("num_lower", Kind::Int), ("num_upper", Kind::Int)],
    ),
    by("space_to_depth", block),
    by("depth_to_space", block),
];

/// Without `dtype` the values decide, which TensorFlow was given as tensors: the output says.
fn one_hot(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    let natural = request.outputs.first().copied().unwrap_or(DType::F32);
    let dtype = request.dtype_arg("dtype")?.unwrap_or(natural);
    let mut given = request.arguments(&[
        ("depth", Kind::Int),
        ("on_value", Kind::Number),
        ("off_value", Kind::Number),
        ("axis", Kind::Int),
    ])?;
    if dtype != DType::F32 {
        given.push(named("dtype", dtype));
    }
    Ok(applied("one_hot", [x(0)], given))
}

/// The numbers are known: they decide the shape.
fn range(request: &OpRequest<'_>) -> Result<String, String> {
    if request.inputs.is_empty() || request.inputs.len() > 3 {
        return Err(format!("has {} inputs", request.inputs.len()));
    }
    let numbers = (0..request.inputs.len())
        .map(|i| request.known(i))
        .collect::<Result<Vec<String>, _>>()?;
    let dtype = request.dtype_arg("dtype")?.unwrap_or(request.dtype(0));
    Ok(applied("range", numbers, [named("dtype", dtype)]))
}

fn fill(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    let dims = request.ints("dims")?.ok_or("`dims` is not given")?;
    Ok(applied("fill", [ints(dims), x(0)], []))
}

/// Inputs are `indices0`, …, then `data0`, ….
fn dynamic_stitch(request: &OpRequest<'_>) -> Result<String, String> {
    let list = |prefix: &str| {
        let indices =
            (0..request.inputs.len()).filter(|i| request.inputs[*i].name.starts_with(prefix));
        indices.map(x).collect::<Vec<String>>()
    };
    let (indices, data) = (list("indices"), list("data"));
    if indices.len() != data.len() || indices.len() + data.len() != request.inputs.len() {
        return Err("as many `indices` as `data` are needed, and nothing else".to_owned());
    }
    Ok(applied("dynamic_stitch", [ints(indices), ints(data)], []))
}

/// The indices are i32 unless `out_idx` says otherwise.
fn unique(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    match request.dtype_arg("out_idx")?.unwrap_or(DType::I32) {
        DType::I32 => Ok("unique(x0)".to_owned()),
        to => Ok(format!("(unique(x0)[0], cast(unique(x0)[1], {to}))")),
    }
}

/// Without `maxlen` it is the largest length, which must be known.
fn sequence_mask(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    let largest = || request.inputs[0].value.to_i64s().into_iter().max();
    let maxlen = request.int("maxlen")?.or_else(largest).unwrap_or(0);
    let call = applied("sequence_mask", [x(0)], [named("maxlen", maxlen)]);
    let to = request.dtype_arg("dtype")?.unwrap_or(DType::Bool);
    Ok(cast(call, DType::Bool, to))
}

fn block(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(1)?;
    let layout = super::windows::Layout::of(request)?;
    let size = request.arguments(&[("block_size", Kind::Int)])?;
    let call = applied(request.op, [layout.with_channels_last(x(0), 4)], size);
    Ok(layout.as_it_was(call, 4))
}
