//! `Optimizer` and `ExponentialMovingAverage` on graphs built in Rust.

use std::collections::BTreeMap;

use trainspec::train::{ExponentialMovingAverage, Minimize, Optimizer, Variable};
use trainspec_compiler::ir::autodiff::Cotangent;
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

/// Between `compute_gradients` and `apply_gradients` a gradient is an ordinary value.
#[test]
fn gradients_are_computed_changed_and_applied() {
    let optimizer = Optimizer::new("gradient_descent(0.5)").unwrap();
    let b = Builder::new("step");
    let ty = Type::new(DType::F32, &[2]);
    let (w, other) = (Variable::new(&b, "w", &ty), Variable::new(&b, "other", &ty));
    let loss = (w.value * w.value).sum(&[0]);
    let mut pairs = optimizer.compute_gradients(loss, &[w, other]).unwrap();
    let Some(Cotangent::Dense(gradient)) = pairs[0].0 else {
        panic!("a loss that depends on a variable has a gradient");
    };
    assert!(pairs[1].0.is_none());
    pairs[0].0 = Some(Cotangent::Dense(gradient * 0.25));
    optimizer.apply_gradients(&b, &pairs).unwrap();
    let value = || Tensor::new(&[2], vec![4.0_f32, -8.0]);
    let state = BTreeMap::from([
        ("w".to_owned(), value()),
        ("other".to_owned(), value()),
        ("global_step".to_owned(), Tensor::scalar(0_i64)),
    ]);
    let state = run(&b.finish(), state, 1);
    // w - 0.5 * 0.25 * 2 w.
    assert_eq!(state["w"].to_f64s(), [3.0, -6.0]);
    assert_eq!(state["global_step"].to_i64s(), [1]);
    assert_eq!(state["other"].to_f64s(), [4.0, -8.0]);
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
    assert_eq!(optimizer.get_slot_names().unwrap(), ["m"]);
    assert_eq!(optimizer.get_slot(&w, "m").as_deref(), Some("a/b/Half"));
    assert_eq!(optimizer.get_slot(&w, "v"), None);
}

#[test]
fn slots_are_those_of_the_variable() {
    let b = Builder::new("step");
    let vector = Variable::new(&b, "v", &Type::new(DType::F32, &[3]));
    let matrix = Variable::new(&b, "m", &Type::new(DType::F32, &[3, 2]));
    let optimizer = Optimizer::new("adafactor()").unwrap();
    assert_eq!(
        optimizer.get_slot(&vector, "v").as_deref(),
        Some("v/Adafactor")
    );
    assert_eq!(optimizer.get_slot(&vector, "rows"), None);
    let all = optimizer.get_slot_names().unwrap();
    assert_eq!(all, ["columns", "rows", "v"]);
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
    ema.apply(&b, std::slice::from_ref(&w), 0.75, None).unwrap();
    let early = ExponentialMovingAverage::new("early");
    let updates = b.scalar(DType::F32, 2.0);
    early
        .apply(&b, std::slice::from_ref(&w), 0.75, Some(updates))
        .unwrap();
    assert_eq!(ema.average_name("w"), "w/ExponentialMovingAverage");
    assert_eq!(early.average_name("w"), "w/early");
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

#[test]
fn slots_are_called_as_tensorflow_calls_them() {
    for (call, names) in [
        ("gradient_descent(0.1)", &[][..]),
        ("adam(0.1)", &["m", "v"]),
        ("momentum(0.1, momentum: 0.9)", &["momentum"]),
        ("rmsprop(0.1)", &["momentum", "rms"]),
        ("rmsprop(0.1, centered: true)", &["mg", "momentum", "rms"]),
        ("adagrad(0.1)", &["accumulator"]),
        ("adadelta(0.1)", &["accum", "accum_update"]),
        ("ftrl(0.1)", &["accum", "linear"]),
        (
            "adagrad_da(0.1)",
            &["gradient_accumulator", "gradient_squared_accumulator"],
        ),
        ("proximal_adagrad(0.1)", &["accumulator"]),
    ] {
        let optimizer = Optimizer::new(call).unwrap_or_else(|e| panic!("{call}: {e}"));
        assert_eq!(optimizer.get_slot_names().unwrap(), names, "{call}");
    }
    let b = Builder::new("step");
    let w = Variable::new(&b, "w", &Type::new(DType::F32, &[2]));
    let optimizer = Optimizer::new("rmsprop(0.1)").unwrap();
    let slot = optimizer.get_slot(&w, "momentum");
    assert_eq!(slot.as_deref(), Some("w/RMSProp_1"));
    // The name in the definition is its own affair.
    assert_eq!(optimizer.get_slot(&w, "accumulation"), None);
}

#[test]
fn a_name_is_that_of_the_slots_too() {
    let b = Builder::new("step");
    let w = Variable::new(&b, "w", &Type::new(DType::F32, &[2]));
    let optimizer = Optimizer::new("adam(0.1, name: \"Mine\")").unwrap();
    assert_eq!(optimizer.get_name(), "Mine");
    assert_eq!(optimizer.get_slot(&w, "m").as_deref(), Some("w/Mine"));
    assert_eq!(optimizer.get_slot(&w, "v").as_deref(), Some("w/Mine_1"));
    // As in TensorFlow, scalars are not called after the optimizer.
    let initial = optimizer.initial(std::slice::from_ref(&w)).unwrap();
    assert!(initial.contains_key("beta1_power"), "{initial:?}");
    // A slot with a key of its own keeps it.
    let own = "optimizer decaying(rate) { slot m as \"Half\" = zeros; m <- 0.5 * m + grad; param <- param - rate * m; }";
    let optimizer = Optimizer::with_definitions("decaying(0.1, name: \"Mine\")", own).unwrap();
    assert_eq!(optimizer.get_slot(&w, "m").as_deref(), Some("w/Half"));
    for wrong in ["\"a/b\"", "\"\"", "\"#x\"", "1"] {
        assert!(
            Optimizer::new(&format!("adam(0.1, name: {wrong})")).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn what_tensorflow_needs_for_races_and_devices_changes_nothing() {
    let graph = |more: &str| {
        let b = Builder::new("step");
        let w = Variable::new(&b, "w", &Type::new(DType::F32, &[2]));
        let optimizer = Optimizer::new(&format!("adam(0.1{more})")).unwrap();
        let loss = (w.value * w.value).sum(&[0]);
        optimizer.minimize(loss, &[w]).unwrap();
        b.finish().to_string()
    };
    let plain = graph("");
    for more in [
        "use_locking: true",
        "use_locking: false",
        "colocate_gradients_with_ops: true",
        "gate: none",
        "gate: op",
        "gate: graph",
        "aggregate: add_n",
        "aggregate: tree",
    ] {
        assert_eq!(graph(&format!(", {more}")), plain, "{more}");
    }
    for wrong in ["use_locking: 1", "gate: 1", "aggregate: best"] {
        assert!(
            Optimizer::new(&format!("adam(0.1, {wrong})")).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn without_a_list_all_trained_variables_are_minimized() {
    let b = Builder::new("step");
    let ty = Type::new(DType::F32, &[2]);
    let [w, _unused] = ["w", "unused"].map(|name| Variable::new(&b, name, &ty));
    let count = Variable::new(&b, "count", &Type::new(DType::I64, &[]));
    let fixed = Variable::untrained(&b, "fixed", &ty);
    assert!(b.written(&count.name).is_none());
    let names = Variable::trainable(&b).into_iter().map(|v| v.name);
    assert_eq!(names.collect::<Vec<_>>(), ["w", "unused"]);
    let optimizer = Optimizer::new("gradient_descent(1.0)").unwrap();
    let loss = (w.value * fixed.value).sum(&[0]);
    optimizer.minimize_trainable(loss).unwrap();
    assert!(b.written("w").is_some());
    assert!(b.written("unused").is_none() && b.written("fixed").is_none());
    let empty = Builder::new("step");
    let loss = empty.scalar(DType::F32, 1.0);
    let error = optimizer.minimize_trainable(loss).unwrap_err();
    assert!(error.to_string().contains("no variables to optimize"));
}

#[test]
fn averages_twice_or_of_integers_are_errors() {
    let b = Builder::new("step");
    let w = Variable::new(&b, "w", &Type::new(DType::F32, &[2]));
    let n = Variable::new(&b, "n", &Type::new(DType::I64, &[]));
    let ema = ExponentialMovingAverage::default();
    let apply = |list: &[Variable<'_>]| ema.apply(&b, list, 0.5, None);
    let error = apply(&[w.clone(), n.clone()]).unwrap_err().to_string();
    assert_eq!(
        error,
        "`n` is i64, and averages are of floating-point numbers"
    );
    // A failure adds nothing.
    assert!(b.written("w/ExponentialMovingAverage").is_none());
    assert!(apply(&[w.clone(), w.clone()]).is_err());
    apply(std::slice::from_ref(&w)).unwrap();
    let error = apply(std::slice::from_ref(&w)).unwrap_err().to_string();
    assert_eq!(
        error,
        "`w` has its average `ExponentialMovingAverage` already"
    );
    // Another name is another average.
    ExponentialMovingAverage::new("slow")
        .apply(&b, &[w], 0.9, None)
        .unwrap();
}

#[test]
fn averages_of_values_begin_at_zero_and_are_corrected() {
    let step = |zero_debias: bool| {
        let b = Builder::new("step");
        let x = b.input("x", &Type::new(DType::F64, &[]));
        let ema = ExponentialMovingAverage::default();
        ema.apply_to_values(&b, &[("x", x)], 0.75, None, zero_debias)
            .unwrap();
        b.finish()
    };
    let average = "x/ExponentialMovingAverage";
    for zero_debias in [false, true] {
        let graph = step(zero_debias);
        let mut values: Vec<f64> = vec![0.0; graph.state.len()];
        let mut biased = 0.0;
        for (n, x) in [8.0, 4.0, 12.0].into_iter().enumerate() {
            let inputs = BTreeMap::from([("x".to_owned(), Tensor::scalar(x))]);
            let state: Vec<Tensor> = values.iter().map(|v| Tensor::scalar(*v)).collect();
            for (index, value) in interp::run(&graph, &inputs, &state).unwrap().writes {
                values[index] = value.to_f64s()[0];
            }
            biased = 0.75 * biased + 0.25 * x;
            let expected = match zero_debias {
                true => biased / (1.0 - 0.75_f64.powi(n as i32 + 1)),
                false => biased,
            };
            let index = graph.state.iter().position(|s| s.name == average).unwrap();
            assert!((values[index] - expected).abs() < 1e-12, "{values:?}");
        }
    }
}

#[test]
fn without_a_list_trained_and_averaged_variables_take_their_averages() {
    let text = "
        spec line;
        model (x: f32[batch]) {
            param a: f32 = ones();
            param b: f32 = ones();
            state n: f32 = zeros();
            loss mean(a * b * x) + n;
        }
        train { optimizer momentum(0.1, momentum: 0.9); ema (decay: 0.9); ema (decay: 0.5, name: \"fast\"); }
    ";
    let spec = crate::support::spec(text);
    for name in ["ExponentialMovingAverage", "fast"] {
        let other = match name {
            "fast" => "ExponentialMovingAverage",
            _ => "fast",
        };
        let restored = ExponentialMovingAverage::new(name)
            .variables_to_restore_of(&spec)
            .unwrap();
        let mut expected: BTreeMap<String, String> = ["a", "b"]
            .map(|v| (format!("{v}/{name}"), v.to_owned()))
            .into();
        // Slots, the step and the averages of another name keep theirs.
        let same = ["a/Momentum", "b/Momentum", "n", "global_step"].map(str::to_owned);
        let others = ["a", "b"].map(|v| format!("{v}/{other}"));
        expected.extend(same.into_iter().chain(others).map(|n| (n.clone(), n)));
        assert_eq!(restored, expected);
    }
}
