//! Random calls of a primitive, most of which its type inference refuses.

use trainspec_ir::DType;
use trainspec_ir::graph::{Attr, AttrKind, Prim, Type};

use crate::xorshift::XorShift;

/// Up to three operands, most often of one shape and element type, and attributes of the right kinds. All sizes are of `sizes`.
pub fn random_call(draw: &mut XorShift, prim: &Prim, sizes: &[usize]) -> (Vec<Type>, Vec<Attr>) {
    let several = |draw: &mut XorShift, limit: usize| -> Vec<usize> {
        (0..draw.index(limit)).map(|_| draw.pick(sizes)).collect()
    };
    let (common, kind) = (several(draw, 5), draw.pick(&DType::ALL));
    let mut types = Vec::new();
    for _ in 0..draw.index(4) {
        let shape = match draw.index(8) {
            0 => several(draw, 5),
            1 => several(draw, 3),
            2 | 3 => Vec::new(),
            _ => common.clone(),
        };
        let dtype = match draw.index(3) {
            0 => draw.pick(&[DType::I32, DType::I64, DType::Bool, DType::F32]),
            _ => kind,
        };
        types.push(Type::new(dtype, &shape));
    }
    let attrs = prim.attrs.iter().map(|(_, kind)| match kind {
        AttrKind::Int => Attr::Int(draw.pick(&[0, 1, -1, 5, i64::MIN, i64::MAX])),
        AttrKind::Size => Attr::Size(draw.pick(sizes)),
        AttrKind::Sizes => Attr::Sizes(match draw.index(4) {
            0 => common.iter().map(|_| draw.pick(sizes)).collect(),
            1 => (0..common.len()).rev().collect(),
            2 => (0..common.len()).filter(|_| draw.index(2) == 0).collect(),
            _ => several(draw, 5),
        }),
        AttrKind::Pairs => {
            let n = draw.pick(&[0, 1, 2, 2, 2, 3]);
            Attr::Pairs(
                (0..n)
                    .map(|_| (draw.pick(sizes), draw.pick(sizes)))
                    .collect(),
            )
        }
        AttrKind::Flag => Attr::Flag(draw.index(2) == 0),
        AttrKind::DType => Attr::DType(draw.pick(&DType::ALL)),
        AttrKind::String => Attr::String("what".to_owned()),
    });
    let attrs = attrs.collect();
    (types, attrs)
}
