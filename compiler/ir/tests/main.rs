//! Operations, shape rules, gradients, passes, costs and the textual form of graphs.
//!
//! One executable, because linking takes longer than running.

mod array_ops;
mod hostile_prims;
mod plan_costs;
mod random_graphs;
mod random_ops;
mod reduce_ops;
mod shape_rules;
mod support;
mod text_form;
mod window_ops;
