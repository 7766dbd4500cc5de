//! Optimizers against TensorFlow's: the cases of `tests/oracle/optimizers.json`, or of the folder that `ORACLE_DIR` names,
//! interpreted and compiled.

use std::collections::BTreeMap;

use trainspec_ir::Tensor;
use trainspec_tests::oracle::optimizers::{run_file, same_bits_of_slot};
use trainspec_tests::oracle::run::{Run, checked};
use trainspec_tests::oracle::tensors::tensors;
use trainspec_tests::oracle::{Engine, assert_values, cases, folder, own_folder};

#[test]
fn oracle_optimizers_interpreted() {
    run_file(&folder().join("optimizers.json"), Engine::Interpreted);
}

#[test]
fn oracle_optimizers_compiled() {
    run_file(&folder().join("optimizers.json"), Engine::Compiled);
}

/// Every optimizer of `tf.train` has cases, whose `op` is the name of the class without its ending.
#[test]
fn oracle_optimizers_are_those_of_tf_train() {
    let classes = [
        "GradientDescentOptimizer",
        "MomentumOptimizer",
        "AdamOptimizer",
        "AdagradOptimizer",
        "AdagradDAOptimizer",
        "AdadeltaOptimizer",
        "RMSPropOptimizer",
        "FtrlOptimizer",
        "ProximalGradientDescentOptimizer",
        "ProximalAdagradOptimizer",
    ];
    let names = classes.map(|class| class.strip_suffix("Optimizer").unwrap());
    assert_values("optimizers.json", "op", &names);
}

/// Without an epsilon Adam's first step is the rate, whatever the gradient: TensorFlow's is, up to the last place.
#[test]
fn first_step_of_adam_is_the_rate_to_the_last_place() {
    let cases = cases(&own_folder().join("optimizers.json"));
    let case = cases.iter().find(|c| c["name"] == "adam_tight_dense_0");
    let case = case.expect("a case without an epsilon");
    assert_eq!(case["args"]["learning_rate"], 0.1);
    assert_eq!(case["args"]["epsilon"], 0.0);
    let after = tensors(&case["expected"]["variables"]).expect("tensors");
    let first_row = 6;
    let moves: Vec<f32> = after["w"].to_f64s()[..first_row]
        .iter()
        .map(|x| x.abs() as f32)
        .collect();
    let least = moves.iter().copied().fold(f32::INFINITY, f32::min);
    let most = moves.iter().copied().fold(0.0, f32::max);
    assert!(most.to_bits() - least.to_bits() <= 2, "{moves:?}");

    let text = "spec run;
model (x: f32) { param w: f32 = 0.0; loss w * x; }
train { optimizer adam(0.1, epsilon: 0.0); steps 1; }
";
    for engine in [Engine::Interpreted, Engine::Compiled] {
        for gradient in [1.0_f32, -1.0, 0.443] {
            let spec = checked(text).expect("a spec");
            let mut run = Run::new(&spec, false, BTreeMap::new(), engine).expect("a run");
            let fed = BTreeMap::from([("x".to_owned(), Tensor::scalar(gradient))]);
            run.step(fed).expect("a step");
            let w = run.get("w").expect("the variable").to_f64s()[0] as f32;
            let moved = -w * gradient.signum();
            assert!(
                (least..=most).contains(&moved),
                "{engine:?}: {moved} for a gradient of {gradient}, TensorFlow moves by {moves:?}"
            );
        }
    }
}

/// `1 - decay` is of the dtype of the variable, so that the mean of squares has TensorFlow's bits.
#[test]
fn mean_square_of_rmsprop_has_the_bits_of_tensorflow() {
    let path = own_folder().join("optimizers.json");
    for engine in [Engine::Interpreted, Engine::Compiled] {
        same_bits_of_slot(&path, "RMSProp", "rms", engine);
    }
}
