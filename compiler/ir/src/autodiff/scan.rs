//! placeholder
use crate::autodiff::Cotangent;
use crate::build::{Builder, Value};
use crate::graph::Node;
pub(super) fn pull<'g>(
    _b: &'g Builder,
    _place: usize,
    _node: &Node,
    _dys: &[Option<Value<'g>>],
    _wants: &[bool],
) -> Vec<Option<Cotangent<'g>>> {
    todo!()
}
