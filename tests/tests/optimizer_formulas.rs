//! The optimizers beyond TensorFlow's against plain loops in f64, each written from its paper.
//!
//! Every case runs twelve steps on variables of rank 1 and 2 with given gradients, interpreted and compiled, in f64 and in f32;
//! after each step the variables and the slots, found by the names that checkpoints have, are compared.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_frontend::lower::GLOBAL_STEP;
use trainspec_ir::graph::Type;
use trainspec_ir::{DType, Tensor};
use trainspec_tests::oracle::Engine;
use trainspec_tests::oracle::compare::{Tolerance, same};
use trainspec_tests::oracle::run::{Run, checked};

const STEPS: i32 = 12;

/// What rounding in f64 may leave.
const TOLERANCE_F64: Tolerance = Tolerance {
    relative: 1e-10,
    absolute: 1e-12,
};

/// What rounding in f32 may leave after twelve steps.
const TOLERANCE_F32: Tolerance = Tolerance {
    relative: 5e-5,
    absolute: 2e-6,
};

/// A variable, row by row.
struct Variable {
    shape: Vec<usize>,
    x: Vec<f64>,
    /// What the paper keeps for it.
    state: Vec<Vec<f64>>,
}

/// One step on a variable: its gradient, and the number of the step, counting from 1. The slots after it, as checkpoints
/// have them.
type Rule = Box<dyn Fn(&mut Variable, &[f64], i32) -> Vec<Vec<f64>>>;

impl Variable {
    /// This many values of the shape of the variable that the paper starts at 0.
    fn zeros_at_first(&mut self, count: usize, t: i32) {
        if t == 1 {
            self.state = vec![vec![0.0; self.x.len()]; count];
        }
    }
}

fn root_mean_square(x: &[f64]) -> f64 {
    (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Loshchilov and Hutter, "Decoupled weight decay regularization" (2017), algorithm 2, with alpha = 1: the rate is the
/// multiplier eta, so that it acts on both terms.
fn adamw(eta: f64, beta1: f64, beta2: f64, epsilon: f64, lambda: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(2, t);
        for (i, g) in g.iter().enumerate() {
            v.state[0][i] = beta1 * v.state[0][i] + (1.0 - beta1) * g;
            v.state[1][i] = beta2 * v.state[1][i] + (1.0 - beta2) * g.powi(2);
            let first = v.state[0][i] / (1.0 - beta1.powi(t));
            let second = v.state[1][i] / (1.0 - beta2.powi(t));
            v.x[i] -= eta * (first / (second.sqrt() + epsilon) + lambda * v.x[i]);
        }
        v.state.clone()
    })
}

/// Dozat, "Incorporating Nesterov momentum into Adam" (2016), algorithm 2 with a constant mu; n is corrected as in Adam.
fn nadam(alpha: f64, mu: f64, nu: f64, epsilon: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(2, t);
        for (i, g) in g.iter().enumerate() {
            let corrected_gradient = g / (1.0 - mu.powi(t));
            v.state[0][i] = mu * v.state[0][i] + (1.0 - mu) * g;
            let corrected_moment = v.state[0][i] / (1.0 - mu.powi(t + 1));
            v.state[1][i] = nu * v.state[1][i] + (1.0 - nu) * g * g;
            let n = v.state[1][i] / (1.0 - nu.powi(t));
            let ahead = (1.0 - mu) * corrected_gradient + mu * corrected_moment;
            v.x[i] -= alpha * ahead / (n.sqrt() + epsilon);
        }
        v.state.clone()
    })
}

/// Liu et al., "On the variance of the adaptive learning rate and beyond" (2019), algorithm 2; the paper has no epsilon.
fn radam(alpha: f64, beta1: f64, beta2: f64, epsilon: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(2, t);
        let rho_limit = 2.0 / (1.0 - beta2) - 1.0;
        let rho = rho_limit - 2.0 * f64::from(t) * beta2.powi(t) / (1.0 - beta2.powi(t));
        for (i, g) in g.iter().enumerate() {
            v.state[0][i] = beta1 * v.state[0][i] + (1.0 - beta1) * g;
            v.state[1][i] = beta2 * v.state[1][i] + (1.0 - beta2) * g * g;
            let corrected = v.state[0][i] / (1.0 - beta1.powi(t));
            v.x[i] -= alpha
                * if rho > 4.0 {
                    let spread = (v.state[1][i] / (1.0 - beta2.powi(t))).sqrt();
                    let above = (rho - 4.0) * (rho - 2.0) * rho_limit;
                    let below = (rho_limit - 4.0) * (rho_limit - 2.0) * rho;
                    (above / below).sqrt() * corrected / (spread + epsilon)
                } else {
                    corrected
                };
        }
        v.state.clone()
    })
}

/// You et al., "Large batch optimization for deep learning" (2019), algorithm 2, with phi(z) = z. As in the authors' program,
/// the ratio is 1 where a norm is 0.
fn lamb(eta: f64, beta1: f64, beta2: f64, epsilon: f64, lambda: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(2, t);
        let mut step = Vec::new();
        for (i, g) in g.iter().enumerate() {
            v.state[0][i] = beta1 * v.state[0][i] + (1.0 - beta1) * g;
            v.state[1][i] = beta2 * v.state[1][i] + (1.0 - beta2) * g * g;
            let first = v.state[0][i] / (1.0 - beta1.powi(t));
            let second = v.state[1][i] / (1.0 - beta2.powi(t));
            step.push(first / (second.sqrt() + epsilon) + lambda * v.x[i]);
        }
        let (size, reach) = (norm(&v.x), norm(&step));
        let ratio = match size > 0.0 && reach > 0.0 {
            true => size / reach,
            false => 1.0,
        };
        for (x, step) in v.x.iter_mut().zip(&step) {
            *x -= eta * ratio * step;
        }
        v.state.clone()
    })
}

/// Chen et al., "Symbolic discovery of optimization algorithms" (2023), algorithm 2.
fn lion(eta: f64, beta1: f64, beta2: f64, lambda: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(1, t);
        for (i, g) in g.iter().enumerate() {
            let update = beta1 * v.state[0][i] + (1.0 - beta1) * g;
            let sign = f64::from(i8::from(update > 0.0) - i8::from(update < 0.0));
            v.x[i] -= eta * (sign + lambda * v.x[i]);
            v.state[0][i] = beta2 * v.state[0][i] + (1.0 - beta2) * g;
        }
        v.state.clone()
    })
}

/// The hyper-parameters of Adafactor.
#[derive(Clone, Copy)]
struct Factored {
    /// A step size relative to the parameter, as its algorithm 6 has it where none is given.
    rho: Option<f64>,
    decay: f64,
    epsilon1: f64,
    epsilon2: f64,
    threshold: f64,
    scaled: bool,
}

/// Shazeer and Stern, "Adafactor" (2018): algorithm 4 for matrices, 5 for vectors. The paper sums over rows and columns;
/// checkpoints have the means.
fn adafactor(h: Factored) -> Rule {
    Box::new(move |v, g, t| {
        let beta2 = 1.0 - f64::from(t).powf(-h.decay);
        let rho = h.rho.unwrap_or((1.0 / f64::from(t).sqrt()).min(1e-2));
        let alpha = match h.scaled {
            true => root_mean_square(&v.x).max(h.epsilon2) * rho,
            false => rho,
        };
        let squares: Vec<f64> = g.iter().map(|g| g * g + h.epsilon1).collect();
        let mut slots = Vec::new();
        let second: Vec<f64> = match v.shape[..] {
            [n, m] => {
                if t == 1 {
                    v.state = vec![vec![0.0; n], vec![0.0; m]];
                }
                for i in 0..n {
                    let sum: f64 = (0..m).map(|j| squares[i * m + j]).sum();
                    v.state[0][i] = beta2 * v.state[0][i] + (1.0 - beta2) * sum;
                }
                for j in 0..m {
                    let sum: f64 = (0..n).map(|i| squares[i * m + j]).sum();
                    v.state[1][j] = beta2 * v.state[1][j] + (1.0 - beta2) * sum;
                }
                slots.push(v.state[0].iter().map(|r| r / m as f64).collect());
                slots.push(v.state[1].iter().map(|c| c / n as f64).collect());
                let all: f64 = v.state[0].iter().sum();
                let estimate = |k: usize| v.state[0][k / m] * v.state[1][k % m] / all;
                (0..n * m).map(estimate).collect()
            }
            _ => {
                v.zeros_at_first(1, t);
                for (state, square) in v.state[0].iter_mut().zip(&squares) {
                    *state = beta2 * *state + (1.0 - beta2) * square;
                }
                slots.push(v.state[0].clone());
                v.state[0].clone()
            }
        };
        let update: Vec<f64> = g.iter().zip(&second).map(|(g, v)| g / v.sqrt()).collect();
        let clipping = (root_mean_square(&update) / h.threshold).max(1.0);
        for (x, update) in v.x.iter_mut().zip(&update) {
            *x -= alpha * update / clipping;
        }
        slots
    })
}

/// Kingma and Ba, "Adam" (2014), algorithm 2; the paper has no epsilon.
fn adamax(alpha: f64, beta1: f64, beta2: f64, epsilon: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(2, t);
        for (i, g) in g.iter().enumerate() {
            v.state[0][i] = beta1 * v.state[0][i] + (1.0 - beta1) * g;
            v.state[1][i] = (beta2 * v.state[1][i]).max(g.abs());
            v.x[i] -= alpha / (1.0 - beta1.powi(t)) * v.state[0][i] / (v.state[1][i] + epsilon);
        }
        v.state.clone()
    })
}

/// Zaheer et al., "Adaptive methods for nonconvex optimization" (2018), algorithm 2, with Adam's correction as the sequence
/// of rates that it leaves open, and v beginning at a small number, as in the program for TensorFlow Addons.
fn yogi(alpha: f64, beta1: f64, beta2: f64, epsilon: f64, first: f64) -> Rule {
    Box::new(move |v, g, t| {
        if t == 1 {
            v.state = vec![vec![0.0; g.len()], vec![first; g.len()]];
        }
        let eta = alpha * (1.0 - beta2.powi(t)).sqrt() / (1.0 - beta1.powi(t));
        for (i, g) in g.iter().enumerate() {
            let square = g * g;
            v.state[0][i] = beta1 * v.state[0][i] + (1.0 - beta1) * g;
            let old = v.state[1][i];
            if old > square {
                v.state[1][i] = old - (1.0 - beta2) * square;
            } else if old < square {
                v.state[1][i] = old + (1.0 - beta2) * square;
            }
            v.x[i] -= eta * v.state[0][i] / (v.state[1][i].sqrt() + epsilon);
        }
        v.state.clone()
    })
}

/// Loshchilov and Hutter (2017), algorithm 1, with alpha = 1 and a constant eta: the momentum then is eta times the slot.
fn sgdw(eta: f64, beta1: f64, lambda: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(1, t);
        for (i, g) in g.iter().enumerate() {
            v.state[0][i] = beta1 * v.state[0][i] + eta * g;
            v.x[i] = v.x[i] - v.state[0][i] - eta * lambda * v.x[i];
        }
        vec![v.state[0].iter().map(|m| m / eta).collect()]
    })
}

/// SGDW with the momentum of Sutskever et al., "On the importance of initialization and momentum" (2013), equations 3 and
/// 4: the variable is the point theta + mu v ahead, where the gradient is taken.
fn sgdw_nesterov(eta: f64, mu: f64, lambda: f64) -> Rule {
    Box::new(move |v, g, t| {
        v.zeros_at_first(1, t);
        for (i, g) in g.iter().enumerate() {
            let old = v.state[0][i];
            let theta = v.x[i] - mu * old;
            let new = mu * old - eta * g;
            v.state[0][i] = new;
            v.x[i] = theta + new + mu * new - eta * lambda * v.x[i];
        }
        vec![v.state[0].iter().map(|v| -v / eta).collect()]
    })
}

/// An optimizer as a spec sets it, the keys of its slots for a vector and for a matrix, its scalars, and what it must do.
struct Case {
    call: &'static str,
    slots: [&'static [&'static str]; 2],
    scalars: &'static [&'static str],
    rule: Rule,
}

fn case(
    call: &'static str,
    slots: &'static [&'static str],
    scalars: &'static [&'static str],
    rule: Rule,
) -> Case {
    Case {
        call,
        slots: [slots, slots],
        scalars,
        rule,
    }
}

const POWERS: &[&str] = &["beta1_power", "beta2_power"];

fn cases() -> Vec<Case> {
    let factored = |call, h| Case {
        call,
        slots: [&["Adafactor"], &["Adafactor", "Adafactor_1"]],
        scalars: &[],
        rule: adafactor(h),
    };
    let usual = Factored {
        rho: None,
        decay: 0.8,
        epsilon1: 1e-30,
        epsilon2: 1e-3,
        threshold: 1.0,
        scaled: true,
    };
    let unusual = Factored {
        rho: Some(0.05),
        decay: 0.6,
        epsilon1: 1e-3,
        epsilon2: 0.5,
        threshold: 0.7,
        scaled: true,
    };
    vec![
        case(
            "adamw()",
            &["AdamW", "AdamW_1"],
            POWERS,
            adamw(0.001, 0.9, 0.999, 1e-8, 0.01),
        ),
        case(
            "adamw(0.02, beta1: 0.8, beta2: 0.95, epsilon: 1e-3, weight_decay: 0.1)",
            &["AdamW", "AdamW_1"],
            POWERS,
            adamw(0.02, 0.8, 0.95, 1e-3, 0.1),
        ),
        case(
            "nadam()",
            &["Nadam", "Nadam_1"],
            POWERS,
            nadam(0.001, 0.9, 0.999, 1e-8),
        ),
        case(
            "nadam(0.02, beta1: 0.7, beta2: 0.9, epsilon: 1e-4)",
            &["Nadam", "Nadam_1"],
            POWERS,
            nadam(0.02, 0.7, 0.9, 1e-4),
        ),
        case(
            "radam()",
            &["RAdam", "RAdam_1"],
            POWERS,
            radam(0.001, 0.9, 0.999, 1e-8),
        ),
        case(
            "radam(0.02, beta1: 0.8, beta2: 0.9, epsilon: 1e-4)",
            &["RAdam", "RAdam_1"],
            POWERS,
            radam(0.02, 0.8, 0.9, 1e-4),
        ),
        // The averages are never long enough to be rectified.
        case(
            "radam(0.02, beta2: 0.5)",
            &["RAdam", "RAdam_1"],
            POWERS,
            radam(0.02, 0.9, 0.5, 1e-8),
        ),
        // Very long averages, which f32 alone would not tell from too short ones.
        case(
            "radam(0.02, beta2: 0.9999)",
            &["RAdam", "RAdam_1"],
            POWERS,
            radam(0.02, 0.9, 0.9999, 1e-8),
        ),
        case(
            "lamb()",
            &["LAMB", "LAMB_1"],
            POWERS,
            lamb(0.001, 0.9, 0.999, 1e-6, 0.01),
        ),
        case(
            "lamb(0.02, beta1: 0.8, beta2: 0.9, epsilon: 1e-3, weight_decay: 0.0)",
            &["LAMB", "LAMB_1"],
            POWERS,
            lamb(0.02, 0.8, 0.9, 1e-3, 0.0),
        ),
        case("lion()", &["Lion"], &[], lion(1e-4, 0.9, 0.99, 0.0)),
        case(
            "lion(0.01, beta1: 0.8, beta2: 0.95, weight_decay: 0.2)",
            &["Lion"],
            &[],
            lion(0.01, 0.8, 0.95, 0.2),
        ),
        factored("adafactor()", usual),
        factored(
            "adafactor(0.05)",
            Factored {
                rho: Some(0.05),
                ..usual
            },
        ),
        factored(
            "adafactor(0.05, decay_rate: 0.6, epsilon1: 1e-3, epsilon2: 0.5, clip_threshold: 0.7)",
            unusual,
        ),
        factored(
            "adafactor(decay_rate: 0.5, scale_parameter: false)",
            Factored {
                decay: 0.5,
                scaled: false,
                ..usual
            },
        ),
        case(
            "adamax()",
            &["Adamax", "Adamax_1"],
            &POWERS[..1],
            adamax(0.001, 0.9, 0.999, 1e-8),
        ),
        case(
            "adamax(0.02, beta1: 0.8, beta2: 0.7, epsilon: 0.0)",
            &["Adamax", "Adamax_1"],
            &POWERS[..1],
            adamax(0.02, 0.8, 0.7, 0.0),
        ),
        case(
            "yogi()",
            &["Yogi", "Yogi_1"],
            POWERS,
            yogi(0.01, 0.9, 0.999, 1e-3, 1e-6),
        ),
        case(
            "yogi(0.02, beta1: 0.8, beta2: 0.9, epsilon: 1e-2, initial_accumulator_value: 0.1)",
            &["Yogi", "Yogi_1"],
            POWERS,
            yogi(0.02, 0.8, 0.9, 1e-2, 0.1),
        ),
        case("sgdw(0.1)", &["SGDW"], &[], sgdw(0.1, 0.9, 1e-4)),
        case(
            "sgdw(0.05, momentum: 0.5, weight_decay: 0.1)",
            &["SGDW"],
            &[],
            sgdw(0.05, 0.5, 0.1),
        ),
        case(
            "sgdw(0.05, momentum: 0.8, weight_decay: 0.1, use_nesterov: true)",
            &["SGDW"],
            &[],
            sgdw_nesterov(0.05, 0.8, 0.1),
        ),
    ]
}

/// The gradients of a loss that is the product of variables and inputs are the inputs. `z` begins at 0.
const MODEL: &str = "spec run;
model (of_w: f32[5], of_k: f32[3, 4], of_z: f32[3]) {
    param w: f32[5] = 0.0;
    param k: f32[3, 4] = 0.0;
    param z: f32[3] = 0.0;
    loss sum(w * of_w) + sum(k * of_k) + sum(z * of_z);
}
";
const VARIABLES: [(&str, &[usize]); 3] = [("w", &[5]), ("k", &[3, 4]), ("z", &[3])];

/// Numbers of both signs that f32 has exactly, the same for the same key.
fn numbers(key: usize, shape: &[usize], scale: f64) -> Vec<f64> {
    let one = |i: usize| {
        let wave = (1.3 * (key * 31 + i * 7 + 1) as f64).sin();
        (wave * scale * 1024.0).round() / 1024.0
    };
    (0..shape.iter().product()).map(one).collect()
}

fn gradient(variable: usize, shape: &[usize], t: i32) -> Vec<f64> {
    let mut gradient = numbers(100 * variable + t as usize, shape, 1.5);
    if t % 4 == 3 {
        gradient[1] = 0.0;
    }
    gradient
}

fn verify(case: &Case, engine: Engine, dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    let tensor =
        |shape: &[usize], x: &[f64]| Tensor::from_f64s(&Type::new(dtype, shape), x.to_vec());
    let mut variables: Vec<Variable> = VARIABLES
        .iter()
        .enumerate()
        .map(|(i, (name, shape))| Variable {
            shape: shape.to_vec(),
            x: numbers(i, shape, if *name == "z" { 0.0 } else { 1.0 }),
            state: Vec::new(),
        })
        .collect();
    let start = VARIABLES.iter().zip(&variables);
    let start = start.map(|((name, shape), v)| ((*name).to_owned(), tensor(shape, &v.x)));
    let spec = checked(&format!(
        "{MODEL}train {{ optimizer {}; steps 1; }}\n",
        case.call
    ))?;
    let mut run = Run::new(&spec, dtype == DType::F64, start.collect(), engine)?;

    let slots = |shape: &[usize]| case.slots[shape.len() - 1];
    let names: BTreeSet<String> = run.names().iter().cloned().collect();
    let mut expected: BTreeSet<String> = case.scalars.iter().map(|s| (*s).to_owned()).collect();
    expected.insert(GLOBAL_STEP.to_owned());
    for (name, shape) in VARIABLES {
        expected.insert(name.to_owned());
        expected.extend(slots(shape).iter().map(|slot| format!("{name}/{slot}")));
    }
    if names != expected {
        return Err(format!("the state is {names:?}, expected {expected:?}"));
    }

    for t in 1..=STEPS {
        let inputs: BTreeMap<String, Tensor> = VARIABLES
            .iter()
            .enumerate()
            .map(|(i, (name, shape))| (format!("of_{name}"), tensor(shape, &gradient(i, shape, t))))
            .collect();
        run.step(inputs)?;
        for (i, (name, shape)) in VARIABLES.iter().enumerate() {
            let v = &mut variables[i];
            let state = (case.rule)(v, &gradient(i, shape, t), t);
            let compare = |name: String, shape: &[usize], expected: &[f64]| {
                let found = run.get(&name).ok_or(format!("no `{name}`"))?;
                same(&tensor(shape, expected), found, tolerance)
                    .map_err(|why| format!("`{name}` after step {t}: {why}"))
            };
            compare((*name).to_owned(), shape, &v.x)?;
            assert_eq!(state.len(), slots(shape).len());
            for (slot, state) in slots(shape).iter().zip(&state) {
                let shape = match state.len() == v.x.len() {
                    true => shape.to_vec(),
                    false => vec![state.len()],
                };
                compare(format!("{name}/{slot}"), &shape, state)?;
            }
        }
    }
    Ok(())
}

fn verify_all(engine: Engine, dtype: DType, tolerance: Tolerance) {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|case| {
            let why = verify(case, engine, dtype, tolerance).err()?;
            Some(format!("{}: {why}", case.call))
        })
        .collect();
    assert!(wrong.is_empty(), "in {dtype}:\n{}", wrong.join("\n"));
}

#[test]
fn formulas_hold_interpreted() {
    verify_all(Engine::Interpreted, DType::F64, TOLERANCE_F64);
    verify_all(Engine::Interpreted, DType::F32, TOLERANCE_F32);
}

#[test]
fn formulas_hold_compiled() {
    verify_all(Engine::Compiled, DType::F64, TOLERANCE_F64);
    verify_all(Engine::Compiled, DType::F32, TOLERANCE_F32);
}

#[test]
fn every_optimizer_beyond_tensorflow_has_a_formula() {
    let named = cases();
    let named = named.iter().map(|c| c.call.split('(').next().unwrap());
    let beyond = [
        "adafactor",
        "adamax",
        "adamw",
        "lamb",
        "lion",
        "nadam",
        "radam",
        "sgdw",
        "yogi",
    ];
    assert_eq!(named.collect::<BTreeSet<_>>(), beyond.into());
}
