//! The table of all operations.

use crate::ops::op::Op;
use crate::ops::{
    abs, acos, acosh, add, add_n, argmax, argmin, argsort, asin, asinh, atan, atan2, atanh,
    avg_pool2d, boolean_mask, bounded, broadcast_to, cast, ceil, concat, conv2d, conv2d_transpose,
    cos, cosh, count, cumprod, cumsum, depthwise_conv2d, diag_part, digamma, divide,
    dynamic_partition, dynamic_stitch, einsum, equal, erf, erfc, exp, expand_dims, expm1,
    fake_quant_with_min_max_args, fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_per_channel, fill, floor, floordiv, floormod, gather, gather_nd,
    greater, greater_equal, identity, is_finite, is_nan, less, less_equal, lgamma, log, log1p,
    logical_and, logical_not, logical_or, matmul, max_pool2d, maximum, minimum, multiply, negative,
    not_equal, orthogonalize, pad, pow, random_normal, random_uniform, range, reduce_all,
    reduce_any, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum, reshape, reverse,
    reverse_sequence, round, rsqrt, scatter_nd, segment_max, segment_mean, segment_min,
    segment_prod, segment_sum, sigmoid, sign, sin, sinh, slice, softplus, sort, split, sqrt,
    squeeze, stack, stop_gradient, strided_slice, subtract, tan, tanh, tensor_scatter_nd_add,
    tensor_scatter_nd_update, tensordot, tile, top_k, transpose, truncated_normal, truncatediv,
    truncatemod, unique, unsorted_segment_max, unsorted_segment_min, unsorted_segment_prod,
    unsorted_segment_sum, unstack, r#where,
};

/// All operations, by name in alphabetical order.
pub static TABLE: &[&Op] = &[
    &abs::OP,
    &acos::OP,
    &acosh::OP,
    &add::OP,
    &add_n::OP,
    &argmax::OP,
    &argmin::OP,
    &argsort::OP,
    &asin::OP,
    &asinh::OP,
    &bounded::OP,
    &atan::OP,
    &atan2::OP,
    &atanh::OP,
    &avg_pool2d::OP,
    &boolean_mask::OP,
    &broadcast_to::OP,
    &cast::OP,
    &ceil::OP,
    &concat::OP,
    &conv2d::OP,
    &conv2d_transpose::OP,
    &cos::OP,
    &cosh::OP,
    &count::OP,
    &cumprod::OP,
    &cumsum::OP,
    &depthwise_conv2d::OP,
    &diag_part::OP,
    &digamma::OP,
    &divide::OP,
    &dynamic_partition::OP,
    &dynamic_stitch::OP,
    &einsum::OP,
    &equal::OP,
    &erf::OP,
    &erfc::OP,
    &exp::OP,
    &expand_dims::OP,
    &expm1::OP,
    &fake_quant_with_min_max_args::OP,
    &fake_quant_with_min_max_vars::OP,
    &fake_quant_with_min_max_vars_per_channel::OP,
    &fill::OP,
    &floor::OP,
    &floordiv::OP,
    &floormod::OP,
    &gather::OP,
    &gather_nd::OP,
    &greater::OP,
    &greater_equal::OP,
    &identity::OP,
    &is_finite::OP,
    &is_nan::OP,
    &less::OP,
    &less_equal::OP,
    &lgamma::OP,
    &log::OP,
    &log1p::OP,
    &logical_and::OP,
    &logical_not::OP,
    &logical_or::OP,
    &matmul::OP,
    &max_pool2d::OP,
    &maximum::OP,
    &minimum::OP,
    &multiply::OP,
    &negative::OP,
    &not_equal::OP,
    &orthogonalize::OP,
    &pad::OP,
    &pow::OP,
    &random_normal::OP,
    &random_uniform::OP,
    &range::OP,
    &reduce_all::OP,
    &reduce_any::OP,
    &reduce_max::OP,
    &reduce_mean::OP,
    &reduce_min::OP,
    &reduce_prod::OP,
    &reduce_sum::OP,
    &reshape::OP,
    &reverse::OP,
    &reverse_sequence::OP,
    &round::OP,
    &rsqrt::OP,
    &scatter_nd::OP,
    &segment_max::OP,
    &segment_mean::OP,
    &segment_min::OP,
    &segment_prod::OP,
    &segment_sum::OP,
    &sigmoid::OP,
    &sign::OP,
    &sin::OP,
    &sinh::OP,
    &slice::OP,
    &softplus::OP,
    &sort::OP,
    &split::OP,
    &sqrt::OP,
    &squeeze::OP,
    &stack::OP,
    &stop_gradient::OP,
    &strided_slice::OP,
    &subtract::OP,
    &tan::OP,
    &tanh::OP,
    &tensor_scatter_nd_add::OP,
    &tensor_scatter_nd_update::OP,
    &tensordot::OP,
    &tile::OP,
    &top_k::OP,
    &transpose::OP,
    &truncated_normal::OP,
    &truncatediv::OP,
    &truncatemod::OP,
    &unique::OP,
    &unsorted_segment_max::OP,
    &unsorted_segment_min::OP,
    &unsorted_segment_prod::OP,
    &unsorted_segment_sum::OP,
    &unstack::OP,
    &r#where::OP,
];

/// The operation of that name or alias.
pub fn find(name: &str) -> Option<&'static Op> {
    if let Ok(index) = TABLE.binary_search_by(|op| op.name.cmp(name)) {
        return Some(TABLE[index]);
    }
    TABLE.iter().copied().find(|op| op.aliases.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::op::{Arg, Kind};

    #[test]
    fn names_are_sorted_and_unique() {
        let names: Vec<_> = TABLE.iter().map(|op| op.name).collect();
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn no_alias_hides_a_name() {
        for op in TABLE {
            for alias in op.aliases {
                let found = TABLE
                    .iter()
                    .filter(|o| o.name == *alias || o.aliases.contains(alias))
                    .count();
                assert_eq!(found, 1, "{alias}");
            }
        }
    }

    #[test]
    fn defaults_are_of_their_parameters_kind() {
        for op in TABLE {
            for param in op.params {
                let fits = match (param.kind, param.default_arg()) {
                    (_, None | Some(Arg::Absent))
                    | (Kind::Int | Kind::Number, Some(Arg::Int(_)))
                    | (Kind::Float | Kind::Number, Some(Arg::Float(_)))
                    | (Kind::Ints, Some(Arg::Ints(_)))
                    | (Kind::Bool, Some(Arg::Bool(_)))
                    | (Kind::DType, Some(Arg::DType(_))) => true,
                    (Kind::Word(words), Some(Arg::Word(word))) => words.contains(&word.as_str()),
                    _ => false,
                };
                assert!(fits, "{} {}", op.name, param.name);
            }
        }
    }

    #[test]
    fn no_parameter_is_named_twice_or_required_after_an_optional_one() {
        for op in TABLE {
            for (i, param) in op.params.iter().enumerate() {
                let before = &op.params[..i];
                assert!(
                    !before.iter().any(|p| p.name == param.name),
                    "{} {}",
                    op.name,
                    param.name
                );
                let required = param.default_arg().is_none();
                let optional_before = before.iter().any(|p| p.default_arg().is_some());
                assert!(!(required && optional_before), "{} {}", op.name, param.name);
            }
        }
    }
}
