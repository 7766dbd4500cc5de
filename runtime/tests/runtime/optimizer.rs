//! `Optimizer` and `ExponentialMovingAverage` on graphs built in Rust.

use std::collections::BTreeMap;

use trainspec::train::{ExponentialMovingAverage, Minimize, Optimizer, Variable};
use trainspec_compiler::ir::build::Builder;
use trainspec_compiler::ir::graph::{Graph, Type};
use trainspec_compiler::ir::{DType, Tensor, interp};

/// Runs a graph several times; gives the state by name.
fn run(
    graph: &Graph,
    mut state: BTreeMap<String, Tensor>,
    steps: usize,
) -> BTreeMap<String, Tensor> {
    for _ in 0..steps {
        let before: Vec<Tensor> = graph.state.iter().map(|s| state[&s.name].clone()).collect();
        let outcome = interp::run(graph, &BTreeMap::new(), &before).unwrap();
        for (variable, value) in outcome.writes {
            state.insert(graph.state[variable].name.clone(), value);
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
    let own = "optimizer decaying(rate) as \"Decaying\" { slot m as \"Half\" = zeros; m <- 0.5 * m + grad; param <- param - rate * m; }";
    let optimizer = Optimizer::with_definitions("decaying(0.1)", own).unwrap();
    assert_eq!(optimizer.get_name(), "Decaying");
    let b = Builder::new("step");
    let w = Variable::new(&b, "a/b", &Type::new(DType::F32, &[2]));
    assert_eq!(optimizer.get_slot_names(&w).unwrap(), ["m"]);
    assert_eq!(optimizer.get_slot(&w, "m").as_deref(), Some("a/b/Half"));
    assert_eq!(optimizer.get_slot(&w, "v"), None);
}

#[test]
fn slots_are_those_of_the_variable() {
    let b = Builder::new("step");
    let vector = Variable::new(&b, "v", &Type::new(DType::F32, &[3]));
    let matrix = Variable::new(&b, "m", &Type::new(DType::F32, &[3, 2]));
    let optimizer = Optimizer::new("adafactor()").unwrap();
    assert_eq!(optimizer.get_slot_names(&vector).unwrap(), ["v"]);
    let both = optimizer.get_slot_names(&matrix).unwrap();
    assert_eq!(both, ["rows", "columns"]);
    let columns = optimizer.get_slot(&matrix, "columns");
    assert_eq!(columns.as_deref(), Some("m/Adafactor_1"));
    // A definition may be for matrices alone.
    let own = "optimizer transposed(rate) { param <- param - rate * transpose(transpose(grad, [1, 0]), [1, 0]); }";
    let optimizer = Optimizer::with_definitions("transposed(0.1)", own).unwrap();
    let loss = matrix.value.sum(&[0, 1]);
    optimizer.minimize(loss, &[matrix]).unwrap();
    let loss = vector.value.sum(&[0]);
    assert!(optimizer.minimize(loss, &[vector]).is_err());
}

#[test]
fn a_second_optimizer_keeps_its_own_scalars() {
    let b = Builder::new("step");
    let (v, w) = (
        Variable::new(&b, "v", &Type::new(DType::F32, &[])),
        Variable::new(&b, "w", &Type::new(DType::F32, &[])),
    );
    let loss = v.value * w.value;
    let first = Optimizer::new("adam(0.1, beta1: 0.5)").unwrap();
    let alone = Optimizer::new("adam(0.1, beta1: 0.25)").unwrap();
    first.minimize(loss, std::slice::from_ref(&v)).unwrap();
    let shared = alone.minimize(loss, std::slice::from_ref(&w)).unwrap_err();
    assert!(
        shared
            .to_string()
            .contains("`beta1_power` is kept by another")
    );
    let second = alone.beside(&first);
    let how = Minimize {
        grad_loss: Some(b.scalar(DType::F32, 2.0)),
        counts: false,
    };
    second
        .minimize_with(loss, std::slice::from_ref(&w), how)
        .unwrap();
    let mut state = first.initial(&[v]).unwrap();
    state.extend(second.initial(&[w]).unwrap());
    state.insert("v".to_owned(), Tensor::scalar(1.0_f32));
    state.insert("w".to_owned(), Tensor::scalar(1.0_f32));
    let state = run(&b.finish(), state, 1);
    assert_eq!(state["beta1_power"].to_f64s(), [0.25]);
    assert_eq!(state["beta1_power_1"].to_f64s(), [0.0625]);
    // The gradient of the second is twice as large: (1 - beta1) 2 v.
    assert_eq!(state["w/Adam"].to_f64s(), [1.5]);
    assert_eq!(state["global_step"].to_i64s(), [1]);
}

#[test]
fn a_variable_cannot_be_called_as_what_an_optimizer_keeps() {
    let b = Builder::new("step");
    let w = Variable::new(&b, "beta1_power", &Type::new(DType::F32, &[]));
    let refused = Optimizer::new("adam()")
        .unwrap()
        .minimize(w.value, std::slice::from_ref(&w));
    let message = refused.unwrap_err().to_string();
    assert_eq!(message, "two states would be called `beta1_power`");
}

#[test]
fn what_cannot_be_optimized_is_refused() {
    let message = |result: Result<(), trainspec::Error>| result.unwrap_err().to_string();
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

#[test]
fn averages_follow_what_a_step_has_written() {
    let b = Builder::new("step");
    let w = Variable::new(&b, "w", &Type::new(DType::F32, &[2]));
    let loss = w.value.sum(&[0]);
    let optimizer = Optimizer::new("gradient_descent(1.0)").unwrap();
    optimizer.minimize(loss, std::slice::from_ref(&w)).unwrap();
    let ema = ExponentialMovingAverage::default();
    ema.apply(&b, std::slice::from_ref(&w), 0.75, None);
    let early = ExponentialMovingAverage::new("early");
    let updates = b.scalar(DType::F32, 2.0);
    early.apply(&b, std::slice::from_ref(&w), 0.75, Some(updates));
    let mut state = optimizer.initial(std::slice::from_ref(&w)).unwrap();
    for name in ["w", "w/ExponentialMovingAverage", "w/early"] {
        state.insert(name.to_owned(), Tensor::new(&[2], vec![4.0_f32, 0.0]));
    }
    let state = run(&b.finish(), state, 1);
    // The gradient is 1 everywhere, and (1 + 2) / (10 + 2) is a quarter.
    assert_eq!(state["w"].to_f64s(), [3.0, -1.0]);
    assert_eq!(state["w/ExponentialMovingAverage"].to_f64s(), [3.75, -0.25]);
    assert_eq!(state["w/early"].to_f64s(), [3.25, -0.75]);
}
