//! The table of all primitives: the instruction set of graphs.
//!
//! A primitive stands in the file of the operation of its name, or in one of its own where the language has no such
//! operation.

use crate::graph::{Attr, Prim};

pub(crate) use crate::ops::abs::PRIM as ABS;
pub(crate) use crate::ops::acos::PRIM as ACOS;
pub(crate) use crate::ops::acosh::PRIM as ACOSH;
pub(crate) use crate::ops::add::PRIM as ADD;
pub(crate) use crate::ops::argmax::PRIM as ARGMAX;
pub(crate) use crate::ops::argmin::PRIM as ARGMIN;
pub(crate) use crate::ops::argsort::PRIM as ARGSORT;
pub(crate) use crate::ops::asin::PRIM as ASIN;
pub(crate) use crate::ops::asinh::PRIM as ASINH;
pub(crate) use crate::ops::atan::PRIM as ATAN;
pub(crate) use crate::ops::atan2::PRIM as ATAN2;
pub(crate) use crate::ops::atanh::PRIM as ATANH;
pub(crate) use crate::ops::bounded::PRIM as BOUNDED;
pub(crate) use crate::ops::broadcast_to::PRIM as BROADCAST;
pub(crate) use crate::ops::cast::PRIM as CAST;
pub(crate) use crate::ops::ceil::PRIM as CEIL;
pub(crate) use crate::ops::check_finite::PRIM as CHECK_FINITE;
pub(crate) use crate::ops::compact::PRIM as COMPACT;
pub(crate) use crate::ops::concat::PRIM as CONCAT;
pub(crate) use crate::ops::conv2d::PRIM as CONV2D;
pub(crate) use crate::ops::conv2d_filter_grad::PRIM as CONV2D_FILTER_GRAD;
pub(crate) use crate::ops::conv2d_input_grad::PRIM as CONV2D_INPUT_GRAD;
pub(crate) use crate::ops::cos::PRIM as COS;
pub(crate) use crate::ops::cosh::PRIM as COSH;
pub(crate) use crate::ops::cumsum::PRIM as CUMSUM;
pub(crate) use crate::ops::digamma::PRIM as DIGAMMA;
pub(crate) use crate::ops::divide::PRIM as DIVIDE;
pub(crate) use crate::ops::equal::PRIM as EQUAL;
pub(crate) use crate::ops::erf::PRIM as ERF;
pub(crate) use crate::ops::erfc::PRIM as ERFC;
pub(crate) use crate::ops::erfinv::PRIM as ERFINV;
pub(crate) use crate::ops::exp::PRIM as EXP;
pub(crate) use crate::ops::expm1::PRIM as EXPM1;
pub(crate) use crate::ops::floor::PRIM as FLOOR;
pub(crate) use crate::ops::floordiv::PRIM as FLOORDIV;
pub(crate) use crate::ops::floormod::PRIM as FLOORMOD;
pub(crate) use crate::ops::fold_key::PRIM as FOLD_KEY;
pub(crate) use crate::ops::greater::PRIM as GREATER;
pub(crate) use crate::ops::greater_equal::PRIM as GREATER_EQUAL;
pub(crate) use crate::ops::iota::PRIM as IOTA;
pub(crate) use crate::ops::is_finite::PRIM as IS_FINITE;
pub(crate) use crate::ops::is_nan::PRIM as IS_NAN;
pub(crate) use crate::ops::less::PRIM as LESS;
pub(crate) use crate::ops::less_equal::PRIM as LESS_EQUAL;
pub(crate) use crate::ops::lgamma::PRIM as LGAMMA;
pub(crate) use crate::ops::log::PRIM as LOG;
pub(crate) use crate::ops::log1p::PRIM as LOG1P;
pub(crate) use crate::ops::logical_and::PRIM as LOGICAL_AND;
pub(crate) use crate::ops::logical_not::PRIM as LOGICAL_NOT;
pub(crate) use crate::ops::logical_or::PRIM as LOGICAL_OR;
pub(crate) use crate::ops::matmul::PRIM as MATMUL;
pub(crate) use crate::ops::max_pool2d::PRIM as MAX_POOL2D;
pub(crate) use crate::ops::max_pool2d_grad::PRIM as MAX_POOL2D_GRAD;
pub(crate) use crate::ops::max_pool2d_pick::PRIM as MAX_POOL2D_PICK;
pub(crate) use crate::ops::maximum::PRIM as MAXIMUM;
pub(crate) use crate::ops::minimum::PRIM as MINIMUM;
pub(crate) use crate::ops::multiply::PRIM as MULTIPLY;
pub(crate) use crate::ops::negative::PRIM as NEGATIVE;
pub(crate) use crate::ops::not_equal::PRIM as NOT_EQUAL;
pub(crate) use crate::ops::orthogonalize::PRIM as ORTHOGONALIZE;
pub(crate) use crate::ops::pad::PRIM as PAD;
pub(crate) use crate::ops::polygamma::PRIM as POLYGAMMA;
pub(crate) use crate::ops::pow::PRIM as POW;
pub(crate) use crate::ops::put_rows::PRIM as PUT_ROWS;
pub(crate) use crate::ops::random_key::PRIM as RANDOM_KEY;
pub(crate) use crate::ops::random_uniform::PRIM as RANDOM_UNIFORM;
pub(crate) use crate::ops::reduce_all::PRIM as REDUCE_ALL;
pub(crate) use crate::ops::reduce_any::PRIM as REDUCE_ANY;
pub(crate) use crate::ops::reduce_max::PRIM as REDUCE_MAX;
pub(crate) use crate::ops::reduce_min::PRIM as REDUCE_MIN;
pub(crate) use crate::ops::reduce_prod::PRIM as REDUCE_PROD;
pub(crate) use crate::ops::reduce_sum::PRIM as REDUCE_SUM;
pub(crate) use crate::ops::reshape::PRIM as RESHAPE;
pub(crate) use crate::ops::reverse::PRIM as REVERSE;
pub(crate) use crate::ops::round::PRIM as ROUND;
pub(crate) use crate::ops::rsqrt::PRIM as RSQRT;
pub(crate) use crate::ops::scatter_add::PRIM as SCATTER_ADD;
pub(crate) use crate::ops::scatter_set::PRIM as SCATTER_SET;
pub(crate) use crate::ops::sigmoid::PRIM as SIGMOID;
pub(crate) use crate::ops::sign::PRIM as SIGN;
pub(crate) use crate::ops::sin::PRIM as SIN;
pub(crate) use crate::ops::sinh::PRIM as SINH;
pub(crate) use crate::ops::slice::PRIM as SLICE;
pub(crate) use crate::ops::softplus::PRIM as SOFTPLUS;
pub(crate) use crate::ops::sqrt::PRIM as SQRT;
pub(crate) use crate::ops::stop_gradient::PRIM as STOP_GRADIENT;
pub(crate) use crate::ops::straight_through::PRIM as STRAIGHT_THROUGH;
pub(crate) use crate::ops::subtract::PRIM as SUBTRACT;
pub(crate) use crate::ops::sum_pool2d::PRIM as SUM_POOL2D;
pub(crate) use crate::ops::sum_pool2d_grad::PRIM as SUM_POOL2D_GRAD;
pub(crate) use crate::ops::sum_rows::PRIM as SUM_ROWS;
pub(crate) use crate::ops::take::PRIM as TAKE;
pub(crate) use crate::ops::tan::PRIM as TAN;
pub(crate) use crate::ops::tanh::PRIM as TANH;
pub(crate) use crate::ops::transpose::PRIM as TRANSPOSE;
pub(crate) use crate::ops::truncatediv::PRIM as TRUNCATEDIV;
pub(crate) use crate::ops::truncatemod::PRIM as TRUNCATEMOD;
pub(crate) use crate::ops::unique::PRIM as UNIQUE;
pub(crate) use crate::ops::unsorted_segment_max::PRIM as UNSORTED_SEGMENT_MAX;
pub(crate) use crate::ops::unsorted_segment_min::PRIM as UNSORTED_SEGMENT_MIN;
pub(crate) use crate::ops::unsorted_segment_prod::PRIM as UNSORTED_SEGMENT_PROD;
pub(crate) use crate::ops::r#where::PRIM as SELECT;

/// All primitives, by name in alphabetical order.
pub static PRIMS: &[&Prim] = &[
    &ABS,
    &ACOS,
    &ACOSH,
    &ADD,
    &ARGMAX,
    &ARGMIN,
    &ARGSORT,
    &ASIN,
    &ASINH,
    &ATAN,
    &ATAN2,
    &ATANH,
    &BOUNDED,
    &BROADCAST,
    &CAST,
    &CEIL,
    &CHECK_FINITE,
    &COMPACT,
    &CONCAT,
    &CONV2D,
    &CONV2D_FILTER_GRAD,
    &CONV2D_INPUT_GRAD,
    &COS,
    &COSH,
    &CUMSUM,
    &DIGAMMA,
    &DIVIDE,
    &EQUAL,
    &ERF,
    &ERFC,
    &ERFINV,
    &EXP,
    &EXPM1,
    &FLOOR,
    &FLOORDIV,
    &FLOORMOD,
    &FOLD_KEY,
    &GREATER,
    &GREATER_EQUAL,
    &IOTA,
    &IS_FINITE,
    &IS_NAN,
    &LESS,
    &LESS_EQUAL,
    &LGAMMA,
    &LOG,
    &LOG1P,
    &LOGICAL_AND,
    &LOGICAL_NOT,
    &LOGICAL_OR,
    &MATMUL,
    &MAX_POOL2D,
    &MAX_POOL2D_GRAD,
    &MAX_POOL2D_PICK,
    &MAXIMUM,
    &MINIMUM,
    &MULTIPLY,
    &NEGATIVE,
    &NOT_EQUAL,
    &ORTHOGONALIZE,
    &PAD,
    &POLYGAMMA,
    &POW,
    &PUT_ROWS,
    &RANDOM_KEY,
    &RANDOM_UNIFORM,
    &REDUCE_ALL,
    &REDUCE_ANY,
    &REDUCE_MAX,
    &REDUCE_MIN,
    &REDUCE_PROD,
    &REDUCE_SUM,
    &RESHAPE,
    &REVERSE,
    &ROUND,
    &RSQRT,
    &SCATTER_ADD,
    &SCATTER_SET,
    &SELECT,
    &SIGMOID,
    &SIGN,
    &SIN,
    &SINH,
    &SLICE,
    &SOFTPLUS,
    &SQRT,
    &STOP_GRADIENT,
    &STRAIGHT_THROUGH,
    &SUBTRACT,
    &SUM_POOL2D,
    &SUM_POOL2D_GRAD,
    &SUM_ROWS,
    &TAKE,
    &TAN,
    &TANH,
    &TRANSPOSE,
    &TRUNCATEDIV,
    &TRUNCATEMOD,
    &UNIQUE,
    &UNSORTED_SEGMENT_MAX,
    &UNSORTED_SEGMENT_MIN,
    &UNSORTED_SEGMENT_PROD,
];

/// Whether a node concatenates tensors along their leading dimension.
pub(crate) fn is_row_concat(prim: &Prim, attrs: &[Attr]) -> bool {
    *prim == CONCAT && attrs == [Attr::Size(0)]
}

/// The primitive of that name.
pub fn find_prim(name: &str) -> Option<&'static Prim> {
    let index = PRIMS.binary_search_by_key(&name, |p| p.name).ok()?;
    Some(PRIMS[index])
}
