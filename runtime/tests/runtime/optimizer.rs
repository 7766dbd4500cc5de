//! Optimizers on graphs that are built in Rust.

use std::collections::BTreeMap;

use trainspec::train::{Optimizer, Variable};
use trainspec_compiler::ir::build::Builder;
use trainspec_compiler::ir::graph::{Graph, Type};
use trainspec_compiler::ir::{DType, Tensor, interp};

/// Runs a graph some times; gives the state by name.
fn run(
    graph: &Graph,
    mut state: BTreeMap<String, Tensor>,
    steps: usize,
) -> BTreeMap<String, Tensor> {
    for _ in 0..steps {
        let before: Vec<Tensor> = graph.state.iter().map(|s| state[&s.name].clone()).collect();
        let outcome = interp::run(graph, &BTreeMap::new(), &before).unwrap();
        for (place, value) in outcome.writes {
            state.insert(graph.state[place].name.clone(), value);
        }
    }
    state
}

#[test]
fn momentum_follows_its_formula() {
    let optimizer = Optimizer::new("momentum(0.1, momentum: 0.5)").unwrap();
    let b = Builder::new("step");
    let w = Variable::new(&b, "layer/w", &Type::new(DType::F32, &[2]));
    let loss = (w.value * w.value).sum(&[0]);
    optimizer.minimize(loss, std::slice::from_ref(&w)).unwrap();
    let mut state = optimizer.initial(&[w]).unwrap();
    assert_eq!(
        state.keys().map(String::as_str).collect::<Vec<_>>(),
        ["global_step", "layer/w/Momentum"]
    );
    state.insert("layer/w".to_owned(), Tensor::new(&[2], vec![1.0_f32, -2.0]));
    let state = run(&b.finish(), state, 3);
    for (found, first) in state["layer/w"].to_f64s().into_iter().zip([1.0, -2.0]) {
        let (mut w, mut a) = (first, 0.0);
        for _ in 0..3 {
            a = 0.5 * a + 2.0 * w;
            w -= 0.1 * a;
        }
        assert!((found - w).abs() < 1e-6, "{found} is not {w}");
    }
    assert_eq!(state["global_step"].to_i64s(), [3]);
}

#[test]
fn rows_that_were_not_read_stay() {
    let optimizer = Optimizer::new("gradient_descent(1.0)").unwrap();
    let b = Builder::new("step");
    let w = Variable::new(&b, "w", &Type::new(DType::F32, &[4, 2]));
    let at = b.ints([1, 3, 1]);
    let loss = w.value.take_rows(at).sum(&[0, 1]);
    optimizer.minimize(loss, &[w]).unwrap();
    let graph = b.finish();
    assert!(graph.to_string().contains("put_rows"), "{graph}");
    let state = BTreeMap::from([
        (
            "w".to_owned(),
            Tensor::zeros(&Type::new(DType::F32, &[4, 2])),
        ),
        ("global_step".to_owned(), Tensor::scalar(0_i64)),
    ]);
    let state = run(&graph, state, 1);
    assert_eq!(
        state["w"].to_f64s(),
        [0.0, 0.0, -2.0, -2.0, 0.0, 0.0, -1.0, -1.0]
    );
}

#[test]
fn a_definition_of_ones_own_has_names_too() {
    let own = "optimizer halves(rate) as \"Halves\" { slot m as \"Half\" = zeros; m <- 0.5 * m + grad; param <- param - rate * m; }";
    let optimizer = Optimizer::with_definitions("halves(0.1)", own).unwrap();
    assert_eq!(optimizer.get_name(), "Halves");
    assert_eq!(optimizer.get_slot_names(), ["m"]);
    assert_eq!(optimizer.get_slot("a/b", "m").as_deref(), Some("a/b/Half"));
    assert_eq!(optimizer.get_slot("a/b", "v"), None);
}

#[test]
fn what_cannot_be_optimized_is_refused() {
    let message = |result: Result<(), trainspec::SessionError>| result.unwrap_err().to_string();
    let wrong = Optimizer::new("adam(-1.0)").map(drop);
    assert!(message(wrong).contains("must not be negative"));
    let unknown = Optimizer::new("adem(0.1)").map(drop);
    assert!(message(unknown).contains("there is no optimizer `adem`"));
    let optimizer = Optimizer::new("adam()").unwrap();
    let b = Builder::new("step");
    let w = Variable::new(&b, "w", &Type::new(DType::F32, &[2]));
    let loss = b.scalar(DType::F32, 1.0);
    assert!(message(optimizer.minimize(loss, &[])).contains("no variables to optimize"));
    assert!(message(optimizer.minimize(loss, &[w])).contains("no gradient for any of `w`"));
}
