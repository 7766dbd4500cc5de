//! Type inference (shape rules), lowering and VJPs that several operations share, by notion.

pub(super) mod along;
pub(super) mod arrays;
mod axes;
mod broadcast;
mod checks;
pub(super) mod contract;
pub(super) mod convolution;
mod elementwise;
pub(super) mod extrema;
pub(super) mod fake_quant;
mod indexing;
pub(super) mod normal_sampling;
pub(super) mod order;
pub(super) mod pools;
pub(super) mod positions;
pub(super) mod primitive;
pub(super) mod products;
pub(super) mod quantize;
mod random;
mod reduce;
mod segment;
pub(super) mod segment_reduction;
pub(super) mod shapes;
pub(super) mod sliding_window;
mod window;

pub(super) use axes::{axes, axis, insertion_axis};
pub(super) use broadcast::{broadcast, broadcast_xy, broadcast_xy_bool};
pub(super) use checks::{
    MAX_OUTPUT_TENSORS, at_least, dimensions, dims, exact_dim, exact_rank, exact_sizes, fits,
    known_negative, length, min_rank, prefix, same_dim,
};
pub(super) use elementwise::{
    X_ANY, X_BOOL, X_FLOAT, X_NUMBER, XY_ANY, XY_BOOL, XY_FLOAT, XY_NUMBER, like_x, like_x_bool,
};
pub(super) use indexing::{index_depth, scattered, scattered_into_tensor};
pub(super) use random::{NORMAL, normal, random_scalar, random_shape};
pub(super) use reduce::{
    ARG_REDUCE, REDUCE_BOOL, REDUCE_FLOAT, REDUCE_NUMBER, SCAN, SORT, arg_reduce, reduce_input,
    scan, sort,
};
pub(super) use segment::{
    SEGMENT_FLOAT, SEGMENT_NUMBER, UNSORTED_SEGMENT, segment, unsorted_segment,
};
pub(super) use window::{POOL_FLOAT, POOL_NUMBER, Window, pool};
