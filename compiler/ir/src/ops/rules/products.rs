//! Running products, which are exact where an element is 0: nothing is divided.

use crate::build::{Loop, Value};

/// The product of the elements up to each one along an axis; `exclusive` leaves out the element itself.
pub(in crate::ops) fn running<'g>(
    x: Value<'g>,
    axis: usize,
    exclusive: bool,
    reverse: bool,
) -> Value<'g> {
    let over = x.move_axis(axis, 0);
    let shape = over.shape();
    let one = x.builder().full(&over.ty().with_shape(&shape[1..]), 1.0);
    let walk = Loop {
        length: shape[0],
        reverse,
        captures: Vec::new(),
        starts: vec![one],
        over: vec![over],
    };
    let (_, products) = x.builder().scan(walk, |round| {
        let before = round.carries[0];
        let after = before * round.elements[0];
        (vec![after], vec![if exclusive { before } else { after }])
    });
    products[0].move_axis(0, axis)
}

/// For each element the product of all others over the axes.
pub(in crate::ops) fn of_others<'g>(x: Value<'g>, axes: &[usize]) -> Value<'g> {
    let shape = x.shape();
    let kept = (0..shape.len()).filter(|i| !axes.contains(i));
    let order: Vec<usize> = axes.iter().copied().chain(kept).collect();
    let moved: Vec<usize> = order.iter().map(|i| shape[*i]).collect();
    let mut flat = moved[axes.len()..].to_vec();
    flat.insert(0, moved[..axes.len()].iter().product());
    let line = x.transpose(&order).reshape(&flat);
    let others = running(line, 0, true, false) * running(line, 0, true, true);
    let mut back = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        back[*from] = to;
    }
    others.reshape(&moved).transpose(&back)
}
