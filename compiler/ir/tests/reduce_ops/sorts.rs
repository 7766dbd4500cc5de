//! sort, argsort and top_k.

use trainspec_ir::build::{Builder, Value};
use trainspec_ir::{DType, Tensor};

use crate::support::gradcheck;
use crate::support::graphs::{Feed, call, calls, f64s, int, weighted_gradient, word};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn ordered<'g>(op: &str, x: Value<'g>, axis: i64, direction: &str) -> Value<'g> {
    let named = [
        ("x", x.into()),
        ("axis", int(axis)),
        ("direction", word(direction)),
    ];
    call(x.builder(), op, &named)
}

#[test]
fn sorting_is_stable_and_nan_comes_last() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[7], &[2.0, NAN, -INF, 2.0, 0.0, NAN, -0.0]));
    let up = ordered("argsort", x, -1, "ascending");
    assert_eq!(up.dtype(), DType::I32);
    assert_eq!(feed.f64s(&b, up), [2.0, 4.0, 6.0, 0.0, 3.0, 1.0, 5.0]);
    let down = ordered("argsort", x, 0, "descending");
    assert_eq!(feed.f64s(&b, down), [0.0, 3.0, 4.0, 6.0, 2.0, 1.0, 5.0]);
    let sorted = feed.f64s(&b, ordered("sort", x, 0, "descending"));
    assert_eq!(sorted[..5], [2.0, 2.0, 0.0, 0.0, -INF]);
    assert!(sorted[5].is_nan() && sorted[6].is_nan());
    let ints = feed.input(&b, Tensor::new(&[4], vec![3_u8, 255, 0, 3]));
    let up = ordered("argsort", ints, 0, "ascending");
    assert_eq!(feed.f64s(&b, up), [2.0, 0.0, 3.0, 1.0]);
    let down = ordered("sort", ints, 0, "descending");
    assert_eq!(feed.f64s(&b, down), [255.0, 3.0, 3.0, 0.0]);
}

#[test]
fn lanes_are_sorted_along_any_axis() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2, 3], &[3.0, 1.0, 2.0, 0.0, 5.0, 1.0]));
    let rows = ordered("sort", x, 1, "ascending");
    assert_eq!(feed.f64s(&b, rows), [1.0, 2.0, 3.0, 0.0, 1.0, 5.0]);
    let columns = ordered("sort", x, 0, "ascending");
    assert_eq!(feed.f64s(&b, columns), [0.0, 1.0, 1.0, 3.0, 5.0, 2.0]);
    let grad = weighted_gradient(&b, columns, x);
    assert_eq!(feed.f64s(&b, grad), [4.0, 2.0, 6.0, 1.0, 5.0, 3.0]);
    gradcheck::check(&f64s(&[2, 2], &[3.0, 1.0, 2.0, 4.0]), |x| {
        ordered("sort", x.square(), 0, "descending")
    });
    for shape in [[0, 3], [3, 0]] {
        let none = feed.input(&b, f64s(&shape, &[]));
        for axis in [0, 1] {
            let y = ordered("sort", none, axis, "ascending");
            assert_eq!((feed.f64s(&b, y), y.shape()), (vec![], shape.to_vec()));
        }
    }
}

#[test]
fn top_k_is_in_descending_order() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2, 4], &[1.0, 3.0, 3.0, 2.0, NAN, 1.0, 5.0, 4.0]));
    let top = |k: i64| calls(&b, "top_k", &[("input", x.into()), ("k", int(k))]);
    let [values, positions] = top(2)[..] else {
        panic!("two results");
    };
    assert_eq!(feed.f64s(&b, values), [3.0, 3.0, 5.0, 4.0]);
    assert_eq!(feed.f64s(&b, positions), [1.0, 2.0, 2.0, 3.0]);
    assert_eq!(positions.dtype(), DType::I32);
    let grad = weighted_gradient(&b, values, x);
    assert_eq!(
        feed.f64s(&b, grad),
        [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0]
    );
    assert_eq!(top(0)[0].shape(), [2, 0]);
    assert_eq!(feed.f64s(&b, top(0)[0]), [0.0; 0]);
    assert_eq!(feed.f64s(&b, top(4)[1])[7], 0.0);
}
