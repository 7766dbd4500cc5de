//! End-to-end tests of `trainspec gradcheck`, `bench` and the later stages of `emit`.

use std::path::PathBuf;

use crate::support::{err, out, root, trainspec};

fn examples() -> PathBuf {
    root().join("examples")
}

fn spec(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!(
        "trainspec-gradcheck-{name}-{}.trainspec",
        std::process::id()
    ));
    std::fs::write(&path, text).unwrap();
    path
}

/// CI checks more elements of each, compiled for speed.
#[test]
fn the_gradients_of_every_example_are_right() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(examples())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "trainspec"))
        .collect();
    files.sort();
    assert!(files.len() >= 15);
    let mut arguments = vec!["gradcheck", "--elements", "1", "--dim", "batch=2"];
    arguments.extend(files.iter().map(|f| f.to_str().unwrap()));
    let output = trainspec(&arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        out(&output),
        err(&output)
    );
    let passed = out(&output)
        .matches("gradients agree with central differences")
        .count();
    let without = err(&output).matches("nothing to check").count();
    assert_eq!(passed + without, files.len(), "{}", out(&output));
}

#[test]
fn a_wrong_gradient_is_shown_with_both_numbers() {
    // Rounding to levels has a straight-through gradient, which finite differences do not see inside a loop.
    let path = spec(
        "wrong",
        "spec wrong; model (x: f32[batch]) { param w: f32[2] = ones(); loss sum(scan v in w { fake_quant_with_min_max_args(v, min: -3.0, max: 3.0) }) + mean(x); }",
    );
    let output = trainspec(&["gradcheck", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out(&output).contains("2 WRONG: at [0] the gradient is 1e0, the central difference 0e0"),
        "{}",
        out(&output)
    );
    assert!(out(&output).ends_with("2 of 2 gradients differ from central differences\n"));
    let json = trainspec(&["gradcheck", "--format", "json", path.to_str().unwrap()]);
    let line: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(line["wrong"], 2);
    assert_eq!(line["at"]["gradient"], 1.0);
}

#[test]
fn a_parameter_that_the_loss_does_not_depend_on_is_named() {
    let path = spec(
        "lost",
        "spec lost; model (x: f32[batch]) { param w: f32 = ones(); param v: f32 = ones(); loss mean(x) * w; output y = v; }",
    );
    let output = trainspec(&["gradcheck", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        out(&output).contains("the loss does not depend on it"),
        "{}",
        out(&output)
    );
}

#[test]
fn inputs_out_of_bounds_are_reported_with_their_span() {
    let path = spec(
        "index",
        "spec index; model (i: i64[batch] in 5..9) { param w: f32[3] = ones(); loss sum(gather(w, i)); }",
    );
    let output = trainspec(&["gradcheck", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("is out of range 0..3"),
        "{}",
        err(&output)
    );
    assert!(err(&output).contains("^^^^^^^^^^^^"), "{}", err(&output));
}

#[test]
fn stages_after_the_check_need_sizes() {
    let path = spec(
        "stages",
        "spec stages; model (x: f32[batch, 2]) { loss mean(square(dense(x, 1) * 1.0)); } train { optimizer adam(0.1); steps 1; }",
    );
    let path = path.to_str().unwrap();
    let output = trainspec(&["emit", "--stage", "grad", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("give it: `--dim batch=32`"),
        "{}",
        err(&output)
    );
    for stage in ["graph", "grad", "step"] {
        let output = trainspec(&["emit", "--stage", stage, "--dim", "batch=4", path]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(
            out(&output).contains("matmul(%0, %1) : f32[4, 1]") || out(&output).contains("matmul("),
            "{}",
            out(&output)
        );
    }
    let with = out(&trainspec(&[
        "emit", "--stage", "grad", "--dim", "batch=4", path,
    ]));
    let without = out(&trainspec(&[
        "emit",
        "--stage",
        "grad",
        "--dim",
        "batch=4",
        "--disable-pass",
        "simplify-algebra",
        path,
    ]));
    assert!(with.lines().count() < without.lines().count());
    let unknown = trainspec(&[
        "emit",
        "--stage",
        "grad",
        "--disable-pass",
        "no-such-pass",
        path,
    ]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        err(&unknown).contains("simplify-algebra"),
        "{}",
        err(&unknown)
    );
}

#[test]
fn bench_runs_a_number_of_steps_and_reports_what_it_measured() {
    let path = spec(
        "bench",
        "spec tiny; model (x: f32[batch, 2]) { loss mean(square(dense(x, 1))); } train { optimizer adam(0.1); steps 1; }",
    );
    let path = path.to_str().unwrap();
    let output = trainspec(&[
        "bench", path, "--dim", "batch=4", "--steps", "5", "--format", "json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let line: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(line["steps"], 5);
    assert!(line["steps_per_second"].as_f64().unwrap() > 0.0);
    assert!(line["compile_ms"].is_number() && line["peak_bytes"].is_number());
    let kernels = line["kernels"].as_array().unwrap();
    assert!(kernels.iter().any(|k| k["name"] == "call matmul"));
    assert!(kernels.iter().all(|k| k["seconds"].is_null()));
    let moved = |k: &serde_json::Value| {
        k["bytes_read"].as_u64().unwrap() + k["bytes_written"].as_u64().unwrap()
    };
    assert_eq!(line["bytes_moved"], kernels.iter().map(moved).sum::<u64>());
    // The hash is that of the bits, whatever the number of threads.
    let hash = line["state_hash"].as_str().unwrap().to_owned();
    let hashed = |steps: &str, threads: &str| {
        let dims = ["--dim", "batch=4", "--threads", threads];
        let output = trainspec(&[&["bench", path, "--steps", steps][..], &dims].concat());
        out(&output).lines().last().unwrap().to_owned()
    };
    let says = format!("the hash of the state is {hash}");
    assert_eq!([hashed("5", "1"), hashed("5", "2")], [says.clone(), says]);
    assert!(!hashed("6", "1").ends_with(&hash));
    let unknown = trainspec(&["bench", path, "--steps", "5"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        err(&unknown).contains("--dim batch=32"),
        "{}",
        err(&unknown)
    );
}

#[test]
fn bench_reports_the_time_of_each_kernel() {
    let path = spec(
        "profile",
        "spec tiny; model (x: f32[64, 32]) { loss mean(square(tanh(dense(x, 16)))); } train { optimizer adam(0.1); steps 1; }",
    );
    let path = path.to_str().unwrap();
    let text = out(&trainspec(&["bench", path, "--seconds", "0.05"]));
    for part in [
        "steps/s",
        "GFLOP/s",
        "of limit",
        "call matmul",
        "besides kernels",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = trainspec(&["bench", path, "--seconds", "0.05", "--format", "json"]);
    let line: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert!(line["limits"]["flops_per_second"].as_f64().unwrap() > 0.0);
    for kernel in line["kernels"].as_array().unwrap() {
        assert!(kernel["seconds"].as_f64().unwrap() >= 0.0, "{kernel}");
        assert!(kernel["of_limit"].is_number(), "{kernel}");
        assert!(kernel["outputs"][0]["type"].is_string(), "{kernel}");
        assert!(kernel["location"].is_string() || kernel["location"].is_null());
        assert!(kernel.get("location").is_some(), "{kernel}");
    }
}

#[test]
fn machine_code_can_be_read() {
    let path = spec(
        "asm",
        "spec tiny; model (x: f32[4]) { param w: f32[4] = ones(); loss sum(w * x); } train { optimizer adam(0.1); steps 1; }",
    );
    let path = path.to_str().unwrap();
    for (stage, part) in [
        ("fused", "// the step ends"),
        ("clif", "function"),
        ("asm", "ret"),
    ] {
        let output = trainspec(&["emit", "--stage", stage, path]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(out(&output).contains(part), "{stage}: {}", out(&output));
    }
}

#[test]
fn gradients_beside_stop_gradient_are_right() {
    let path = spec(
        "stopped",
        "spec stopped;
         model (x: f32[batch, 4], y: f32[batch]) {
             let h = dense(x, 8, activation: tanh);
             let scaled = h / stop_gradient(norm(h));
             let quantized = fake_quant_with_min_max_args(scaled, min: -1.0, max: 1.0);
             loss mean(square(dense(scaled + quantized, 1)[_, 0] - y)) + mean(h * stop_gradient(h));
         }
         train { optimizer adam(1e-3); }",
    );
    let output = trainspec(&["gradcheck", path.to_str().unwrap()]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        out(&output),
        err(&output)
    );
}
