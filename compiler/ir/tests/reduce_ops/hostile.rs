//! Rules of primitives on operands and attributes of all kinds: they refuse, and never panic.

use trainspec_ir::DType;
use trainspec_ir::graph::{Attr, AttrKind, PrimCall, Type};
use trainspec_ir::ops::find_prim;

const PRIMS: [&str; 20] = [
    "argmax",
    "argmin",
    "argsort",
    "cumsum",
    "erfinv",
    "fold_key",
    "matmul",
    "orthogonalize",
    "polygamma",
    "random_key",
    "random_uniform",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "unsorted_segment_max",
    "unsorted_segment_min",
    "unsorted_segment_prod",
];

fn types() -> Vec<Type> {
    let shapes: [&[usize]; 12] = [
        &[],
        &[0],
        &[3],
        &[2, 3],
        &[3, 2],
        &[0, 3],
        &[3, 0],
        &[2, 2, 2],
        &[1 << 30, 0],
        &[0, 1 << 30],
        &[0, usize::MAX, usize::MAX],
        &[1 << 20, 1 << 20],
    ];
    let dtypes = [
        DType::F32,
        DType::I64,
        DType::U8,
        DType::Bool,
        DType::String,
    ];
    let each = |dtype: DType| shapes.map(|shape| Type::new(dtype, shape));
    dtypes.into_iter().flat_map(each).collect()
}

fn attrs(kind: AttrKind) -> Vec<Attr> {
    match kind {
        AttrKind::Int => vec![Attr::Int(0), Attr::Int(i64::MIN), Attr::Int(i64::MAX)],
        AttrKind::Size => [0, 1, 2, 101, 1 << 30, usize::MAX].map(Attr::Size).to_vec(),
        AttrKind::Sizes => vec![
            Attr::Sizes(vec![]),
            Attr::Sizes(vec![0]),
            Attr::Sizes(vec![1, 0]),
            Attr::Sizes(vec![0, 1]),
            Attr::Sizes(vec![0, 0]),
            Attr::Sizes(vec![usize::MAX]),
            Attr::Sizes(vec![usize::MAX, usize::MAX, 0]),
        ],
        AttrKind::Pairs => vec![Attr::Pairs(vec![]), Attr::Pairs(vec![(1, usize::MAX)])],
        AttrKind::Flag => vec![Attr::Flag(false), Attr::Flag(true)],
        AttrKind::DType => DType::ALL.map(Attr::DType).to_vec(),
        AttrKind::Text => vec![Attr::Text(String::new())],
    }
}

/// All lists with one of each set.
fn choices<T: Clone>(sets: &[Vec<T>]) -> Vec<Vec<T>> {
    sets.iter().fold(vec![vec![]], |lists, set| {
        let longer = |list: &Vec<T>| {
            let list = list.clone();
            set.iter().map(move |x| [&list[..], &[x.clone()]].concat())
        };
        lists.iter().flat_map(longer).collect()
    })
}

#[test]
fn rules_answer_to_anything() {
    let types = types();
    for name in PRIMS {
        let prim = find_prim(name).unwrap_or_else(|| panic!("no primitive `{name}`"));
        let sets: Vec<Vec<Attr>> = prim.attrs.iter().map(|(_, kind)| attrs(*kind)).collect();
        let mut accepted = 0;
        for attrs in choices(&sets) {
            for operands in 0..=2 {
                for operands in choices(&vec![types.clone(); operands]) {
                    let operands: Vec<&Type> = operands.iter().collect();
                    let call = PrimCall {
                        prim,
                        operands: &operands,
                        attrs: &attrs,
                    };
                    let Ok(results) = (prim.infer)(&call) else {
                        continue;
                    };
                    accepted += 1;
                    for result in results {
                        let sizes = result.shape.iter().filter(|n| **n != 0);
                        let product = sizes.fold(1_u128, |p, n| p.saturating_mul(*n as u128));
                        let known = operands.contains(&&result)
                            || operands.iter().any(|t| t.shape == result.shape);
                        assert!(known || product <= 1 << 40, "`{name}` makes {result}");
                    }
                }
            }
        }
        assert!(accepted > 0, "`{name}` accepts nothing");
    }
}
