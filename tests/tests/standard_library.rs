//! The standard library as specs use it: every definition in calls of its own, with the types and names that TensorFlow
//! gives.
//!
//! The operations are those of the cases that TensorFlow was asked about, in `tests/oracle/ops_*.json`. Their values are
//! compared elsewhere; here it is the types.
//!
//! Tables are strings, a row on each line. In them `T` stands for each floating-point dtype in turn.

use std::collections::BTreeSet;
use std::path::PathBuf;

use trainspec_compiler::diag::{Code, Diagnostic, Style, render};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::{self, Mode, Spec};
use trainspec_compiler::{Compilation, Options};
use trainspec_ir::{DType, TensorType, ops};
use trainspec_tests::files_below;
use trainspec_tests::oracle;
use trainspec_tests::oracle::calls::{Call, Precision};

fn check(text: &str) -> Compilation {
    Compilation::check("t.trainspec", text, &NoFiles, &Options::default())
}

fn errors(compilation: &Compilation) -> Vec<&Diagnostic> {
    let all = compilation.diagnostics.iter();
    all.filter(|d| d.is_error()).collect()
}

/// The typed spec, or what is wrong with the text.
fn spec(text: &str) -> Result<Spec, String> {
    let found = check(text);
    let drawn: Vec<String> = errors(&found)
        .iter()
        .map(|d| render(&found.sources, d, Style::Plain))
        .collect();
    if drawn.is_empty() {
        found
            .spec
            .map(std::sync::Arc::unwrap_or_clone)
            .ok_or_else(|| format!("no spec:\n{text}"))
    } else {
        Err(format!("{text}\n{}", drawn.join("\n\n")))
    }
}

fn checked(text: &str) -> Spec {
    spec(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The lines of a table that say something.
fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().map(str::trim).filter(|row| !row.is_empty())
}

/// The parts of a row of a table.
fn parts<const N: usize>(row: &str) -> [&str; N] {
    let parts: Vec<&str> = row.split(" -> ").map(str::trim).collect();
    parts
        .try_into()
        .unwrap_or_else(|_| panic!("`{row}` does not have {N} parts"))
}

/// A text with a dtype instead of the word `T`.
fn with_dtype(text: &str, dtype: DType) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut made = String::new();
    let mut rest = text.chars().peekable();
    let mut before = None;
    while let Some(c) = rest.next() {
        if c == 'T' && !is_word(before) && !is_word(rest.peek().copied()) {
            made += dtype.name();
        } else {
            made.push(c);
        }
        before = Some(c);
    }
    made
}

const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// The names of the definitions of one kind.
fn definitions(kind: &str) -> BTreeSet<&'static str> {
    trainspec_std::FILES
        .iter()
        .flat_map(|file| trainspec_std::definitions(file.text))
        .filter(|&(k, _)| k == kind)
        .map(|(_, name)| name)
        .collect()
}

/// The names that a text calls.
fn called(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (end, _) in text.match_indices('(') {
        let head = &text[..end];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = head.trim_end_matches(is_part).len();
        if start < end {
            found.insert(&head[start..]);
        }
    }
    found
}

/// The types of the outputs in one mode.
fn outputs(mode: &Mode) -> Vec<&TensorType> {
    let ids = mode.outputs.iter().map(|(_, id)| id.0 as usize);
    ids.map(|id| &*mode.program.values[id]).collect()
}

/// A model of one call that gives `count` outputs.
fn calling(inputs: &str, call: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("a{i}")).collect();
    let pattern = match names.as_slice() {
        [name] => name.clone(),
        names => format!("({})", names.join(", ")),
    };
    let outputs: String = (0..count)
        .map(|i| format!("    output o{i} = a{i};\n"))
        .collect();
    format!("spec t;\nmodel ({inputs}) {{\n    let {pattern} = {call};\n{outputs}}}\n")
}

/// Checks a call in both modes; says what is not as expected.
fn verify_call(inputs: &str, call: &str, expected: &str) -> Result<(), String> {
    let expected: Vec<&str> = expected.split("; ").collect();
    let spec = spec(&calling(inputs, call, expected.len()))?;
    let model = spec.model.as_ref().expect("the text has a model");
    for mode in [&model.train, &model.eval] {
        let found = outputs(mode);
        if found.len() != expected.len() || !found.iter().zip(&expected).all(|(f, e)| fits(f, e)) {
            let found: Vec<String> = found.iter().map(|ty| ty.to_string()).collect();
            let (found, expected) = (found.join("; "), expected.join("; "));
            return Err(format!(
                "`{call}` of ({inputs}) is {found}, expected {expected}"
            ));
        }
    }
    Ok(())
}

/// Whether a type is the one written, a capacity being one of any size up to it.
fn fits(found: &TensorType, expected: &str) -> bool {
    let (dtype, shape) = expected.split_once('[').unwrap_or((expected, "]"));
    let sizes: Vec<&str> = shape
        .trim_end_matches(']')
        .split(", ")
        .filter(|size| !size.is_empty())
        .collect();
    let fits_size = |(dim, size): (&trainspec_ir::Dim, &&str)| match &dim.count {
        None => dim.size.to_string() == **size,
        Some(_) => dim.size.value() >= size.parse().ok(),
    };
    found.dtype.name() == dtype
        && found.rank() == sizes.len()
        && found.shape.0.iter().zip(&sizes).all(fits_size)
}

fn assert_none(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} fail:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

// ---- TensorFlow's operations ----

/// The operations of the cases; those of more than one operation are called `composite` there.
const OPERATIONS: &str = "
    abs absolute_difference acos acosh add add_n argmax argmin argsort asin asinh atan atan2 atanh avg_pool2d
    batch_normalization bias_add boolean_mask broadcast_to cast ceil clip_by_value concat conv1d conv2d
    conv2d_transpose cos cosh cosine_distance cumprod cumsum depthwise_conv2d diag_part digamma divide divide_no_nan
    dynamic_partition dynamic_stitch einsum elu embedding_lookup embedding_lookup_sparse equal erf erfc exp
    expand_dims expm1 fill floor floordiv floormod fused_batch_norm gather gather_nd gelu_exact gelu_tanh greater
    greater_equal hinge_loss huber_loss identity in_top_k is_finite l2_loss l2_normalize leaky_relu less less_equal
    lgamma linspace log log1p log_loss log_sigmoid log_softmax logical_and logical_not logical_or logical_xor matmul
    matrix_band_part max_pool2d maximum mean_pairwise_squared_error mean_squared_error minimum moments multiply
    multiply_no_nan negative not_equal one_hot pad pow range reciprocal reduce_all reduce_any reduce_euclidean_norm
    reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_std reduce_sum reduce_variance relu relu6
    reshape reverse reverse_sequence rint round rsqrt scatter_nd segment_max segment_mean segment_min segment_prod
    segment_sum selu separable_conv2d sequence_mask sigmoid sigmoid_cross_entropy sigmoid_cross_entropy_with_logits
    sign silu sin sinh slice softmax softmax_cross_entropy softmax_cross_entropy_with_logits
    softmax_cross_entropy_with_logits_v1 softplus softsign sort space_to_depth sparse_softmax_cross_entropy
    sparse_softmax_cross_entropy_with_logits sparse_tensor_dense_matmul sparse_to_dense split sqrt square
    squared_difference squeeze stack strided_slice subtract tan tanh tensor_scatter_nd_add tensor_scatter_nd_update
    tensordot tile top_k transpose truncatediv truncatemod unique unsorted_segment_max unsorted_segment_mean
    unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum unstack
    weighted_cross_entropy_with_logits where where_v1 xlogy
";

/// A case, as a call and types.
struct Case {
    name: String,
    operation: String,
    call: Call,
    inputs: String,
    outputs: Vec<String>,
}

fn cases() -> Vec<Case> {
    let files = files_below(&oracle::own_folder(), "json");
    let of_operations = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("ops_")
    };
    let case = |json: &serde_json::Value| {
        let case = oracle::ops::Case::read(json).unwrap_or_else(|e| panic!("{json}: {e}"));
        let inputs: Vec<String> = case
            .inputs
            .iter()
            .enumerate()
            .map(|(i, input)| format!("x{i}: {}", input.value.ty()))
            .collect();
        Case {
            call: case.call().unwrap_or_else(|e| panic!("{}: {e}", case.name)),
            inputs: inputs.join(", "),
            outputs: case.outputs.iter().map(|t| t.ty().to_string()).collect(),
            name: case.name,
            operation: case.op,
        }
    };
    let files = files.iter().filter(of_operations);
    let cases = files.flat_map(|path| oracle::cases(path));
    cases.map(|json| case(&json)).collect()
}

#[test]
fn every_operation_of_the_oracle_has_its_name() {
    let names: Vec<&str> = OPERATIONS.split_whitespace().collect();
    assert!(names.is_sorted());
    let functions = definitions("fn");
    for name in &names {
        let known = ops::find(name).is_some() || functions.contains(name);
        assert!(known, "`{name}` is neither an operation nor a function");
    }
    let listed: BTreeSet<&str> = names.into_iter().collect();
    let cases = cases();
    let mut used: BTreeSet<&str> = cases.iter().map(|case| &*case.operation).collect();
    used.remove("composite");
    assert_eq!(listed, used);
}

#[test]
fn every_call_of_the_oracle_has_tensorflows_types() {
    let cases = cases();
    let (mut failures, mut wider) = (Vec::new(), 0);
    for case in &cases {
        // Some losses are f32 in TensorFlow whatever they are given. Here they keep the dtype of their operands.
        let narrowed = case.call.precision == Precision::Single;
        let outputs: Vec<String> = case
            .outputs
            .iter()
            .map(|ty| match narrowed {
                true => ty.replace("f32", "f64"),
                false => ty.clone(),
            })
            .collect();
        wider += usize::from(outputs != case.outputs);
        if let Err(error) = verify_call(&case.inputs, &case.call.text, &outputs.join("; ")) {
            failures.push(format!("{}: {error}", case.name));
        }
    }
    println!(
        "{} cases, {wider} of them in f64 where TensorFlow has f32",
        cases.len()
    );
    assert_none(&failures);
    assert_eq!((cases.len(), wider), (505, 12));
}

/// In TensorFlow it gives positions, as many as are true.
#[test]
fn where_of_a_condition_alone_is_refused() {
    let found = check(&calling("x0: bool[2, 3]", "where(x0)", 1));
    assert_eq!(errors(&found)[0].code, Code::MissingArgument);
}

#[test]
fn every_call_of_the_oracle_calls_its_operation() {
    let alone = |case: &&Case| case.operation != "composite" && case.name != "where_indices";
    for case in cases().iter().filter(alone) {
        let called = called(&case.call.text);
        let named = called.iter().any(|name| name.starts_with(&case.operation));
        assert!(named, "{}: {}", case.name, case.call.text);
    }
}

// ---- Functions ----

/// What the functions below are called with.
const INPUTS: &str = "x: T[2, 3], y: T[2, 3], s: T, v: T[3], c: bool[2], labels: i64[2], q: T[2, 4, 6], \
    image: T[2, 4, 6, 8]";

/// Calls of functions that the oracle does not know, and of options that it leaves out, with the types of their results.
const FUNCTIONS: &str = "
    gelu(x) -> T[2, 3]
    gelu(x, approximate: true) -> T[2, 3]
    mish(x) -> T[2, 3]
    silu(x, beta: 1.5) -> T[2, 3]
    hard_sigmoid(x) -> T[2, 3]
    softmax(q, axis: 1) -> T[2, 4, 6]
    below_maximum(x, axis: 0) -> T[2, 3]
    activated(x) -> T[2, 3]
    activated(x, activation: relu) -> T[2, 3]
    depth_to_space(image, block_size: 2) -> T[2, 8, 12, 2]
    space_to_depth(image, 2) -> T[2, 2, 3, 32]
    matrix_band_part(q, -1, 1) -> T[2, 4, 6]
    linspace(s, s, 1) -> T[1]
    linspace(s, 1.0, 5) -> T[5]
    one_hot(labels, 3, axis: 0, dtype: T) -> T[3, 2]
    positions(3) -> i64[3]
    positions(3, T) -> T[3]
    segment_sizes(labels, 4, T) -> T[4]
    with_trailing_ones(v, 3) -> T[3, 1, 1]
    sum(q, axis: inner_axes(q)) -> T[2]
    zeros_like(x) -> T[2, 3]
    zeros_like(c) -> bool[2]
    ones_like(c) -> bool[2]
    ones_like(labels) -> i64[2]
    global_norm([x, none, v]) -> T
    clip_by_global_norm([x, v], 1.0)[0][1] -> T[3]
    clip_by_global_norm([x, v], 1.0, use_norm: s)[1] -> T
    clip_by_norm(x, 1.0) -> T[2, 3]
    clip_by_norm(x, s, axes: [1]) -> T[2, 3]
    clip_by_average_norm(x, 1.0) -> T[2, 3]
    clip_by_value(x, v, 2.0) -> T[2, 3]
    moving_average(x, x, 0.9) -> T[2, 3]
    early_decay(0.9, s) -> T
    debiased_average(x, 0.9, s) -> T[2, 3]
    where(is_negative(s), x, -x) -> T[2, 3]
    scaled_dot_product_attention(q, q, q, causal: true, dropout_rate: 0.1) -> T[2, 4, 6]
    causal_mask(2, 3) -> bool[2, 3]
    split_heads(q, 2) -> T[2, 2, 4, 3]
    merge_heads(image) -> T[2, 6, 32]
    position_encoding(5, 6) -> f32[5, 6]
    batch_normalization(x, v, v) -> T[2, 3]
    fused_batch_norm(x, v, v) -> T[2, 3]; T[3]; T[3]
    dropout(x) -> T[2, 3]
    dropout(x, rate: s) -> T[2, 3]
    flatten(image) -> T[2, 192]
    flatten(labels) -> i64[2, 1]
    time_major(q) -> T[4, 2, 6]
    max_pool(image) -> T[2, 2, 3, 8]
    avg_pool(image, [3, 2], stride: 1, padding: \"same\") -> T[2, 4, 6, 8]
    global_avg_pool(image) -> T[2, 8]
    global_max_pool(image) -> T[2, 8]
    standardized(x, v, v, 1e-3) -> T[2, 3]
    kl_divergence(x, y) -> T[2]
    log_poisson_loss(x, y) -> T[2, 3]
    l1_loss(x) -> T
    compute_weighted_loss(x) -> T
    present(s, x) -> T[2, 3]
    x * pi() -> T[2, 3]
    where(x > 0, x, nan()) -> T[2, 3]
    minimum(x, infinity()) -> T[2, 3]
    xdivy(x, v) -> T[2, 3]
    or_else(none, x) -> T[2, 3]
    soft_threshold(x, 0.5) -> T[2, 3]
    accuracy(labels, labels) -> bool[2]
    binary_accuracy(x, y) -> bool[2, 3]
    sparse_categorical_accuracy(labels, x) -> bool[2]
    categorical_accuracy(x, y) -> bool[2]
    top_k_accuracy(labels, x, 2) -> bool[2]
    mean_absolute_error(x, y) -> T[2, 3]
    mean_relative_error(x, y, v) -> T[2, 3]
    percentage_below(x, 0.5) -> bool[2, 3]
    mean_cosine_distance(x, y) -> T[2]
    with_bounded_rms(x, 1.0) -> T[2, 3]
    per_coordinate_rate(x, -0.5) -> T[2, 3]
    per_coordinate_rate(x, -0.25) -> T[2, 3]
    corrected(x, 0.9) -> T[2, 3]
    bias_correction(x) -> T[2, 3]
    proximal(x, 0.1, 0.2, 0.3) -> T[2, 3]
    norm(x) -> T
    norm(x, axes: 1, keepdims: true) -> T[2, 1]
    root_mean_square(x) -> T
    zero_fraction(labels) -> f32
    draw_scaled([2, 3], 2, 3, T, 1.0, \"fan_out\", \"untruncated_normal\") -> T[2, 3]
    half_cosine(x) -> T[2, 3]
    decay_periods(x, 2, true) -> T[2, 3]
    linear_cosine(x, 10, 0.5, 0.0, 0.1, 0.0) -> T[2, 3]
    checked_rate(x) -> T[2, 3]
    checked_steps(x) -> T[2, 3]
    completed(x, 10) -> T[2, 3]
    embedding_lookup_partitioned([x, y], labels, \"div\") -> T[2, 3]
    sparse_to_dense(stack([labels, labels], axis: 1), labels, [3, 3], -1) -> i64[3, 3]
    bucketize(x, [18, 30, 50]) -> i64[2, 3]
    multi_hot(stack([labels, labels]), 5) -> f32[2, 5]
    multi_hot(labels, 5, dtype: T) -> T[5]
    fill(outer_sizes(image, 3), s) -> T[2]
    random_index(3, [2, 5]) -> i64[2, 5]
    random_beta([2, 5], 0.5) -> f32[2, 5]
    random_crop(image, 2, 3) -> T[2, 2, 3, 8]
    random_crop(q, 1, 4) -> T[1, 4, 6]
    random_flip_left_right(image) -> T[2, 4, 6, 8]
    random_flip_up_down(q) -> T[2, 4, 6]
    randomly_reversed(q, -2) -> T[2, 4, 6]
    random_brightness(image, 0.2) -> T[2, 4, 6, 8]
    random_contrast(q, 0.5, 1.5) -> T[2, 4, 6]
    cutout(image, 3, value: 1.0) -> T[2, 4, 6, 8]
    within_cut(labels, 4, 2) -> bool[2, 4]
    mixup(image, x) -> T[2, 4, 6, 8]; T[2, 3]
    mixup(v, v, alpha: 1) -> T[3]; T[3]
    mixed(image, labels, cast(x[_, 0], f32)) -> T[2, 4, 6, 8]
";

#[test]
fn functions_have_their_types_in_all_dtypes() {
    let mut failures = Vec::new();
    let mut count = 0;
    for row in rows(FUNCTIONS) {
        let [call, expected] = parts(row);
        for dtype in FLOATS {
            let text = |part| with_dtype(part, dtype);
            failures.extend(verify_call(&text(INPUTS), &text(call), &text(expected)).err());
            count += 1;
        }
    }
    println!("{count} calls");
    assert_none(&failures);
}

#[test]
fn every_function_is_called() {
    let calls: String = cases().into_iter().map(|case| case.call.text).collect();
    let mut names = called(&calls);
    names.extend(called(FUNCTIONS));
    names.extend(called(LOSSES));
    let left: Vec<&str> = definitions("fn")
        .into_iter()
        .filter(|name| !names.contains(name))
        .collect();
    assert!(left.is_empty(), "never called: {left:?}");
}

// ---- Losses ----

/// Losses with a reduction, and the type of what is reduced.
const LOSSES: &str = "
    mean_squared_error(x, y, weights: v -> T[2, 3]
    absolute_difference(x, y, weights: s -> T[2, 3]
    huber_loss(x, y, delta: 0.5 -> T[2, 3]
    log_loss(x, y -> T[2, 3]
    hinge_loss(x, y -> T[2, 3]
    cosine_distance(x, y, axis: 1 -> T[2, 1]
    sigmoid_cross_entropy(x, y, label_smoothing: 0.1 -> T[2, 3]
    softmax_cross_entropy(x, y, label_smoothing: 0.1 -> T[2]
    sparse_softmax_cross_entropy(labels, x -> T[2]
    compute_weighted_loss(x, v -> T[2, 3]
";

const REDUCTIONS: [&str; 6] = [
    "none",
    "sum",
    "mean",
    "sum_over_batch_size",
    "sum_by_nonzero_weights",
    "sum_over_nonzero_weights",
];

#[test]
fn every_loss_takes_every_reduction() {
    let mut failures = Vec::new();
    for row in rows(LOSSES) {
        let [call, unreduced] = parts(row);
        for (dtype, reduction) in FLOATS
            .into_iter()
            .flat_map(|t| REDUCTIONS.map(|word| (t, word)))
        {
            let call = format!("{call}, reduction: \"{reduction}\")");
            let expected = if reduction == "none" { unreduced } else { "T" };
            let text = |part| with_dtype(part, dtype);
            failures.extend(verify_call(&text(INPUTS), &text(&call), &text(expected)).err());
        }
    }
    assert_none(&failures);
    let reduced: BTreeSet<&str> = trainspec_std::FILES
        .iter()
        .filter(|file| file.path.starts_with("losses/"))
        .flat_map(|file| {
            file.text
                .split("\nfn ")
                .skip(usize::from(!file.text.starts_with("fn ")))
        })
        .filter(|text| text.contains("const reduction"))
        .filter_map(|text| text.split_once('(').map(|(name, _)| name))
        .collect();
    assert_eq!(called(LOSSES), reduced);
}

// ---- Optimizers ----

/// Calls of optimizers, with the slots of a variable and the scalars of a group as checkpoints name them. Those of
/// `tf.compat.v1.train` are called as there. Adafactor keeps two slots for a matrix.
const OPTIMIZERS: &str = "
    gradient_descent(0.1) -> - -> -
    momentum(0.1, 0.9) -> Momentum -> -
    momentum(0.1, 0.9, use_nesterov: true) -> Momentum -> -
    adam() -> Adam Adam_1 -> beta1_power beta2_power
    adagrad(0.1) -> Adagrad -> -
    adagrad_da(0.1) -> AdagradDA AdagradDA_1 -> -
    adadelta() -> Adadelta Adadelta_1 -> -
    rmsprop(0.01) -> RMSProp RMSProp_1 -> -
    rmsprop(0.01, centered: true) -> RMSProp RMSProp_1 RMSProp_2 -> -
    ftrl(0.1) -> Ftrl Ftrl_1 -> -
    ftrl(0.1, learning_rate_power: -0.25) -> Ftrl Ftrl_1 -> -
    proximal_gradient_descent(0.1) -> - -> -
    proximal_adagrad(0.1) -> ProximalAdagrad -> -
    adafactor() -> Adafactor -> -
    adafactor(0.1, scale_parameter: false) -> Adafactor -> -
    adamax() -> Adamax Adamax_1 -> beta1_power
    adamw() -> AdamW AdamW_1 -> beta1_power beta2_power
    lamb() -> LAMB LAMB_1 -> beta1_power beta2_power
    lion() -> Lion -> -
    nadam() -> Nadam Nadam_1 -> beta1_power beta2_power
    radam() -> RAdam RAdam_1 -> beta1_power beta2_power
    sgdw(0.1) -> SGDW -> -
    sgdw(0.1, use_nesterov: true) -> SGDW -> -
    yogi() -> Yogi Yogi_1 -> beta1_power beta2_power
";

/// A model with parameters of several ranks, in f32 and f64.
const PARAMETERS: &str = "
spec t;
model (x: f32) {
    param a0: f32 = 0.1;
    param a1: f32[3] = 0.1;
    param a2: f32[2, 3] = 0.1;
    param a4: f32[2, 1, 3, 2] = 0.1;
    param b0: f64 = 0.1;
    param b1: f64[3] = 0.1;
    param b2: f64[2, 3] = 0.1;
    param b4: f64[2, 1, 3, 2] = 0.1;
    let narrow = sum(square(a0)) + sum(square(a1)) + sum(square(a2)) + sum(square(a4));
    let wide = sum(square(b0)) + sum(square(b1)) + sum(square(b2)) + sum(square(b4));
    loss x * (narrow + cast(wide, f32));
}
";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .filter(|word| *word != "-")
        .collect()
}

#[test]
fn every_optimizer_trains_parameters_of_all_ranks() {
    for row in rows(OPTIMIZERS) {
        let [call, slots, scalars] = parts(row);
        let spec = checked(&format!(
            "{PARAMETERS}train {{ optimizer {call}; steps 1; }}\n"
        ));
        let group = &spec.train.as_ref().expect("the text has a train").groups[0];
        let found: Vec<&str> = group.scalars.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(found, words(scalars), "{call}");
        assert_eq!(group.updates.len(), 8, "{call}");
        for update in &group.updates {
            let variable = &spec.variables[update.variable.0 as usize];
            let factored = call.starts_with("adafactor") && variable.ty.rank() == 2;
            let slots = words(if factored {
                "Adafactor Adafactor_1"
            } else {
                slots
            });
            let expected: Vec<String> = slots
                .iter()
                .map(|slot| format!("{}/{slot}", variable.name))
                .collect();
            let found: Vec<String> = update
                .slots
                .iter()
                .map(|s| s.state_name(&variable.name))
                .collect();
            assert_eq!(found, expected, "{call}");
            for slot in &update.slots {
                assert_eq!(
                    slot.ty.dtype,
                    variable.ty.dtype,
                    "{call}: {}",
                    slot.state_name(&variable.name)
                );
                assert!(
                    factored || slot.ty == variable.ty,
                    "{call}: {}",
                    slot.state_name(&variable.name)
                );
            }
            let (_, written) = update
                .writes
                .iter()
                .find(|(name, _)| name == "param")
                .unwrap();
            let written = &*update.program.values[written.0 as usize];
            assert_eq!(written, &variable.ty, "{call}: {}", variable.name);
        }
    }
    assert_eq!(called(OPTIMIZERS), definitions("optimizer"));
}

#[test]
fn every_optimizer_takes_a_schedule_as_its_rate() {
    for row in rows(OPTIMIZERS) {
        let [call, _, _] = parts(row);
        let (name, rest) = call.split_once('(').unwrap();
        let others = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let others = others.trim_start_matches([',', ' ']);
        let call = format!("{name}(cosine_decay(0.1, 100), {others}");
        let call = call.replace(", )", ")");
        checked(&format!(
            "{PARAMETERS}train {{ optimizer {call}; steps 1; }}\n"
        ));
    }
}

// ---- Schedules ----

const SCHEDULES: &str = "
    cosine_decay(0.1, 100)
    cosine_decay(0.1, 100, alpha: 0.1)
    cosine_decay_restarts(0.1, 100)
    cosine_decay_restarts(0.1, 100, t_mul: 1.0, m_mul: 0.9)
    exponential_decay(0.1, 100, 0.96)
    exponential_decay(0.1, 100, 0.96, staircase: true)
    natural_exp_decay(0.1, 100, 0.5)
    natural_exp_decay(0.1, 100, 0.5, staircase: true)
    inverse_time_decay(0.1, 100, 0.5)
    inverse_time_decay(0.1, 100, 0.5, staircase: true)
    linear_cosine_decay(0.1, 100)
    noisy_linear_cosine_decay(0.1, 100)
    one_cycle(0.1, 100)
    piecewise_constant([10, 20], [0.3, 0.2, 0.1])
    piecewise_constant([], [0.1])
    piecewise_constant([0.5, 1.5], [0.3, 0.2, 0.1], x: step / 100)
    piecewise_constant_decay([10], [0.2, 0.1])
    polynomial_decay(0.1, 100)
    polynomial_decay(0.1, 100, power: 0.5, cycle: true)
    warmup(0.1, 10)
    warmup(cosine_decay(0.1, 100), warmup_steps: 10)
    inverse_sqrt_decay(0.1, 10)
";

#[test]
fn every_schedule_is_a_rate() {
    let scalar = TensorType::scalar(DType::F32);
    for call in rows(SCHEDULES) {
        let spec = checked(&format!(
            "{PARAMETERS}train {{
    schedule  lr = {call};
    optimizer gradient_descent(lr);
    optimizer adam(learning_rate: {call}) for \"b*\";
    steps     1;
}}
"
        ));
        let train = spec.train.as_ref().expect("the text has a train");
        let (name, value) = &train.schedules[0];
        let ty = &*train.rates.values[value.0 as usize];
        assert_eq!((name.as_str(), ty), ("lr", &scalar), "{call}");
    }
    assert_eq!(called(SCHEDULES), definitions("schedule"));
}

// ---- Initializers ----

const INITIALIZERS: &str = "
    zeros()
    ones()
    constant(0.5)
    uniform()
    uniform(-0.1, 0.1)
    normal(stddev: 0.1)
    truncated_normal(mean: 1.0)
    orthogonal()
    orthogonal(gain: 2.0)
    variance_scaling()
    variance_scaling(2.0, mode: \"fan_out\", distribution: \"untruncated_normal\")
    variance_scaling(mode: \"fan_avg\", distribution: \"uniform\")
    glorot_uniform()
    glorot_normal()
    he_uniform()
    he_normal()
    lecun_uniform()
    lecun_normal()
";

#[test]
fn every_initializer_begins_variables_of_all_ranks() {
    let shapes = ["[6]", "[3, 2]", "[2, 3]", "[3, 2, 4, 5]"];
    for call in rows(INITIALIZERS) {
        let mut variables = String::new();
        for (i, shape) in shapes.iter().enumerate() {
            for dtype in FLOATS {
                variables += &format!("    param v{i}_{dtype}: {dtype}{shape} = {call};\n");
            }
        }
        let spec = checked(&format!(
            "spec t;\nmodel (x: f32) {{\n{variables}    output y = x;\n}}\n"
        ));
        assert_eq!(spec.variables.len(), FLOATS.len() * shapes.len(), "{call}");
        for variable in &spec.variables {
            let init = &variable.init;
            let ty = &*init.program.values[init.value.0 as usize];
            assert_eq!(ty.dtype, variable.ty.dtype, "{call}: {}", variable.name);
            let fills = ty.rank() == 0 || ty == &variable.ty;
            assert!(fills, "{call}: {} begins as {ty}", variable.name);
        }
    }
    assert_eq!(called(INITIALIZERS), definitions("init"));
}

// ---- Layers ----

/// Calls of blocks, the types of their results, and their variables as TensorFlow names them.
const BLOCKS: &str = "
    attention(q, 2) -> T[2, 4, 6] -> attention/query/kernel: T[6, 6]; attention/query/bias: T[6]; \
        attention/key/kernel: T[6, 6]; attention/key/bias: T[6]; attention/value/kernel: T[6, 6]; \
        attention/value/bias: T[6]; attention/projection/kernel: T[6, 6]; attention/projection/bias: T[6]
    attention(q, 2, memory: q, causal: true, width: 4, use_bias: false, dropout_rate: 0.1) -> T[2, 4, 6] -> \
        attention/query/kernel: T[6, 4]; attention/key/kernel: T[6, 4]; attention/value/kernel: T[6, 4]; \
        attention/projection/kernel: T[4, 6]
    batch_norm(image) -> T[2, 4, 6, 8] -> batch_normalization/gamma: T[8]; batch_normalization/beta: T[8]; \
        batch_normalization/moving_mean: T[8]; batch_normalization/moving_variance: T[8]
    conv1d(q, 5) -> T[2, 2, 5] -> conv1d/kernel: T[3, 6, 5]; conv1d/bias: T[5]
    conv2d(image, 5, size: 2, padding: \"same\", stride: 2) -> T[2, 2, 3, 5] -> conv2d/kernel: T[2, 2, 8, 5]; \
        conv2d/bias: T[5]
    conv2d_transpose(image, 5, stride: 2) -> T[2, 9, 13, 5] -> conv2d_transpose/kernel: T[3, 3, 5, 8]; \
        conv2d_transpose/bias: T[5]
    conv2d_transpose(image, 5, stride: 2, padding: \"same\", use_bias: false) -> T[2, 8, 12, 5] -> \
        conv2d_transpose/kernel: T[3, 3, 5, 8]
    dense(x, 5, activation: relu) -> T[2, 5] -> dense/kernel: T[3, 5]; dense/bias: T[5]
    dense(q, 5, use_bias: false, kernel_init: orthogonal()) -> T[2, 4, 5] -> dense/kernel: T[6, 5]
    dense(dense(x, 4), 5) -> T[2, 5] -> dense/kernel: T[3, 4]; dense/bias: T[4]; dense_1/kernel: T[4, 5]; \
        dense_1/bias: T[5]
    depthwise_conv2d(image, multiplier: 2) -> T[2, 2, 4, 16] -> \
        depthwise_conv2d/depthwise_kernel: T[3, 3, 8, 2]; depthwise_conv2d/bias: T[16]
    embedding(labels, 10, 5, dtype: T) -> T[2, 5] -> embedding/embeddings: T[10, 5]
    gru(q, 5) -> T[2, 5] -> rnn/gru_cell/gates/kernel: T[11, 10]; rnn/gru_cell/gates/bias: T[10]; \
        rnn/gru_cell/candidate/kernel: T[11, 5]; rnn/gru_cell/candidate/bias: T[5]
    gru(q, 5, return_sequences: true) -> T[2, 4, 5] -> rnn/gru_cell/gates/kernel: T[11, 10]; \
        rnn/gru_cell/gates/bias: T[10]; rnn/gru_cell/candidate/kernel: T[11, 5]; rnn/gru_cell/candidate/bias: T[5]
    gru_cell(x, y) -> T[2, 3] -> gru_cell/gates/kernel: T[6, 6]; gru_cell/gates/bias: T[6]; \
        gru_cell/candidate/kernel: T[6, 3]; gru_cell/candidate/bias: T[3]
    layer_norm(q) -> T[2, 4, 6] -> layer_normalization/gamma: T[6]; layer_normalization/beta: T[6]
    lstm(q, 5) -> T[2, 5] -> rnn/basic_lstm_cell/kernel: T[11, 20]; rnn/basic_lstm_cell/bias: T[20]
    lstm(q, 5, return_sequences: true) -> T[2, 4, 5] -> rnn/basic_lstm_cell/kernel: T[11, 20]; \
        rnn/basic_lstm_cell/bias: T[20]
    lstm_cell(x, y, y) -> T[2, 3]; T[2, 3] -> basic_lstm_cell/kernel: T[6, 12]; basic_lstm_cell/bias: T[12]
    rms_norm(x) -> T[2, 3] -> rms_normalization/gamma: T[3]
    separable_conv2d(image, 5, multiplier: 2) -> T[2, 2, 4, 5] -> \
        separable_conv2d/depthwise_kernel: T[3, 3, 8, 2]; separable_conv2d/pointwise_kernel: T[1, 1, 16, 5]; \
        separable_conv2d/bias: T[5]
";

#[test]
fn every_block_has_tensorflows_variables_in_both_modes() {
    let mut failures = Vec::new();
    for row in rows(BLOCKS) {
        for dtype in FLOATS {
            let row = with_dtype(row, dtype);
            let inputs = with_dtype(INPUTS, dtype);
            let [call, expected, variables] = parts(&row);
            failures.extend(verify_call(&inputs, call, expected).err());
            let count = expected.split("; ").count();
            let Ok(spec) = spec(&calling(&inputs, call, count)) else {
                continue;
            };
            let found: Vec<String> = spec
                .variables
                .iter()
                .map(|v| format!("{}: {}", v.name, v.ty))
                .collect();
            let found = found.join("; ");
            if found != variables {
                failures.push(format!("`{call}` has {found}, expected {variables}"));
            }
        }
    }
    assert_none(&failures);
    let left: Vec<&str> = definitions("block")
        .into_iter()
        .filter(|block| !rows(BLOCKS).any(|row| row.starts_with(&format!("{block}("))))
        .collect();
    assert!(left.is_empty(), "never called: {left:?}");
}

#[test]
fn dropout_and_batch_norm_differ_between_the_modes() {
    for call in ["dropout(x)", "batch_norm(x)"] {
        let spec = checked(&calling("x: f32[2, 3]", call, 1));
        let model = spec.model.unwrap();
        let (train, eval) = (&model.train.program.nodes, &model.eval.program.nodes);
        assert!(train.len() > eval.len(), "{call}");
    }
}

// ---- Mistakes ----

/// Calls with a word or a number that means nothing, and what is said of it.
const MISTAKES: &str = "
    mean_squared_error(x, y, reduction: \"average\") -> `reduction` is
    sparse_softmax_cross_entropy(labels, x, reduction: \"SUM\") -> `reduction` is
    embedding_lookup_partitioned([x, y], labels, \"modulo\") -> `partition_strategy` is
    embedding_lookup_sparse(x, stack([labels, labels], 1), labels, combiner: \"max\", dense_shape: [2, 2]) -> \
        `combiner` is
    draw_scaled([2], 2, 2, T, 1.0, \"fan\", \"uniform\") -> `mode` is
    draw_scaled([2], 2, 2, T, 1.0, \"fan_in\", \"normal\") -> `distribution` is
    dense(x, 4, kernel_init: variance_scaling(mode: \"fan\")) -> `mode` is
    dense(x, 4, kernel_init: variance_scaling(distribution: \"flat\")) -> `distribution` is
    fused_batch_norm(x, v, v, is_training: false) -> `mean` and `variance` must be given
    fused_batch_norm(x, v, v, mean: v) -> `mean` and `variance` are given together
    attention(q, 4) -> the width is not a multiple
    position_encoding(4, 3) -> `width` must be even
    linspace(s, s, 0) -> `num` must be at least 1
    space_to_depth(image, 4) -> height and width must be multiples
    depth_to_space(image, 4) -> the number of channels must be a multiple
";

/// Optimizers and schedules with a word or a number that means nothing, and what is said of it.
const SETTING_MISTAKES: &str = "
    gradient_descent(piecewise_constant([10, 20], [0.2, 0.1])) -> `values` has one element more
    gradient_descent(piecewise_constant_decay([10], [0.2])) -> `values` has one element more
    adagrad(0.1, initial_accumulator_value: 0.0) -> `initial_accumulator_value` must be positive
    adagrad_da(0.1, initial_gradient_squared_accumulator_value: 0) -> \
        `initial_gradient_squared_accumulator_value` must be positive
    proximal_adagrad(0.1, initial_accumulator_value: -1.0) -> `initial_accumulator_value` must be positive
    ftrl(0.1, initial_accumulator_value: -0.1) -> `initial_accumulator_value` must not be negative
    ftrl(0.1, learning_rate_power: 0.1) -> `learning_rate_power` must not be positive
    ftrl(0.1, l1_regularization_strength: -1.0) -> a regularization strength must not be negative
    ftrl(0.1, l2_regularization_strength: -1.0) -> a regularization strength must not be negative
    ftrl(0.1, l2_shrinkage_regularization_strength: -1.0) -> a regularization strength must not be negative
";

/// Says what is reported of a text with one mistake instead of that message.
fn verify_mistake(text: &str, message: &str) -> Result<(), String> {
    let found = check(text);
    let reported = errors(&found);
    let here = |d: &&Diagnostic| {
        let file = d
            .span
            .map(|span| found.sources.get(span.file).name.as_str());
        file == Some("t.trainspec") && d.code == Code::BadValue && d.message.starts_with(message)
    };
    if reported.len() == 1 && reported.iter().all(here) {
        return Ok(());
    }
    let drawn: Vec<String> = reported
        .iter()
        .map(|d| render(&found.sources, d, Style::Plain))
        .collect();
    Err(format!(
        "expected one error at the call, `{message}`:\n{text}\n{}",
        drawn.join("\n\n")
    ))
}

#[test]
fn a_word_that_means_nothing_is_reported_at_the_call() {
    let mut failures = Vec::new();
    for row in rows(MISTAKES) {
        let [call, message] = parts(row);
        let text =
            format!("spec t;\nmodel ({INPUTS}) {{\n    let y = {call};\n    output o = x;\n}}\n");
        failures.extend(verify_mistake(&with_dtype(&text, DType::F32), message).err());
    }
    for row in rows(SETTING_MISTAKES) {
        let [call, message] = parts(row);
        let text = format!("{PARAMETERS}train {{ optimizer {call}; steps 1; }}\n");
        failures.extend(verify_mistake(&text, message).err());
    }
    assert_none(&failures);
}

// ---- Names ----

/// Items and statements that take names which the library uses inside.
const OWN_ITEMS: &str = "
const T = 5;
const n = 3;
const scale = 2.0;
const units = 7;
const axis = 9;
const shape = [1, 2];
const fan_in = 1;
const pi = 3;
fn square(x) = x + 1000;
fn sum(x) = 17;
fn mean(x) = \"no number\";
fn moments(x) = x;
fn activated(x) = none;
fn rsqrt(x) = none;
fn or_else(x) = x;
fn completed(x) = x;
fn proximal(x) = x;
fn corrected(x) = x;
fn bias_correction(x) = x;
fn root_mean_square(x) = x;
fn draw_scaled(x) = x;
init zeros() = 3;
";

const OWN_LETS: &str = "
    let mean = 1;
    let variance = 2;
    let n = 3;
    let square = 4;
    let reduction = \"sum\";
    let weights = 5;
    let scale = 6;
    let maximum = 7;
";

/// What uses much of the library, between the items and the statements of a user.
fn crowded(items: &str, lets: &str) -> Spec {
    checked(&format!(
        "spec t;
{items}
model (x: f32[batch, 6, 8], label: i64[batch]) {{
{lets}
    let h = x |> attention(2) |> layer_norm |> batch_norm |> dropout(0.1);
    let r = lstm(h, 4) + gru(h, 4);
    let e = embedding(label, 10, 4, embeddings_init: variance_scaling());
    let logits = r + e |> dense(10, kernel_init: orthogonal(), activation: gelu);
    loss sparse_softmax_cross_entropy(label, logits) + l2_loss(logits) + huber_loss(r, e);
    metric hits = top_k_accuracy(label, logits, 3);
    output probabilities = softmax(logits);
}}
train {{
    optimizer adam(warmup(cosine_decay(0.1, 100), 10));
    optimizer lamb() for \"attention/**\";
    optimizer adafactor() for \"rnn/**\";
    optimizer ftrl(0.1) for \"dense/**\";
    optimizer proximal_adagrad(0.1) for \"embedding/**\";
    clip      global_norm(1.0);
    steps     10;
}}
"
    ))
}

/// A spec without its constants and spans.
fn described(spec: &Spec) -> String {
    let mut text: String = typed::print(spec)
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("const "))
        .map(|line| format!("{line}\n"))
        .collect();
    for variable in &spec.variables {
        text += &format!("{} begins with\n", variable.name);
        for node in &variable.init.program.nodes {
            text += &format!("{:?}\n", node.kind);
        }
    }
    text
}

#[test]
fn names_of_a_user_do_not_disturb_the_library() {
    let (plain, own) = (crowded("", ""), crowded(OWN_ITEMS, OWN_LETS));
    assert_eq!(described(&plain), described(&own));
}
