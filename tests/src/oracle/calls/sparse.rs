//! Embeddings and sparse tensors, which are given as indices and values.

use super::request::{Kind, OpRequest, applied, ints, named, x};
use super::{Row, by, same};

pub(super) const ROWS: &[Row] = &[
    by("embedding_lookup", embedding_lookup),
    by("embedding_lookup_sparse", embedding_lookup_sparse),
    by("sparse_tensor_dense_matmul", sparse_tensor_dense_matmul),
    same(
        "sparse_to_dense",
        2,
        &[
            ("dense_shape", Kind::Ints),
            ("default_value", Kind::Number),
            ("validate_indices", Kind::Ignored),
        ],
    ),
];

/// The last input are the ids; more than one before them are the partitions of a table.
fn embedding_lookup(request: &OpRequest<'_>) -> Result<String, String> {
    let parts = match request.inputs.len() {
        0 | 1 => return Err("a table and ids are needed".to_owned()),
        n => n - 1,
    };
    let strategy = request.arguments(&[("partition_strategy", Kind::Word)])?;
    let call = match parts {
        1 => applied("embedding_lookup", [x(0), x(1)], []),
        _ => {
            let table = format!("[{}]", request.all()[..parts].join(", "));
            applied("embedding_lookup_partitioned", [table, x(parts)], strategy)
        }
    };
    let Some(bound) = request.argument("max_norm", Kind::Number)? else {
        return Ok(call);
    };
    let ids = request.shape(parts).len();
    let rank = ids + request.shape(0).len() - 1;
    let axes = named("axes", ints(ids..rank));
    Ok(applied("clip_by_norm", [call, bound], [axes]))
}

fn embedding_lookup_sparse(request: &OpRequest<'_>) -> Result<String, String> {
    const INPUTS: [&str; 4] = ["params", "sp_indices", "sp_ids", "sp_weights?"];
    let mut given = Vec::new();
    for (name, index) in INPUTS.iter().zip(request.indices(&INPUTS)?) {
        given.extend(index.map(|index| named(name.trim_end_matches('?'), x(index))));
    }
    given.extend(request.arguments(&[
        ("combiner", Kind::Word),
        ("dense_shape", Kind::Ints),
        // One table has no partitions.
        ("partition_strategy", Kind::Ignored),
    ])?);
    Ok(applied("embedding_lookup_sparse", given, []))
}

/// The adjoint of a sparse matrix has its indices transposed.
fn sparse_tensor_dense_matmul(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(3)?;
    let mut shape = request
        .ints("dense_shape")?
        .ok_or("`dense_shape` is not given")?;
    let mut operands = [x(0), x(1), x(2)];
    if request.boolean("adjoint_a")? {
        shape.reverse();
        operands[0] = "reverse(x0, axis: [1])".to_owned();
    }
    if request.boolean("adjoint_b")? {
        operands[2] = "transpose(x2)".to_owned();
    }
    let shape = named("dense_shape", ints(shape));
    Ok(applied("sparse_tensor_dense_matmul", operands, [shape]))
}
