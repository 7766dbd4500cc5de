//! End-to-end tests of the command: its output and its exit codes.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::support::{Folder, RunCommand, code, command, err, out};

/// Runs the command with an input.
fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

const GOOD: &str = "spec good, edition 1;\n\nconst N = 3;\n\nmodel (x: f32[batch, 4]) {\n    output y = dense(x, N);\n}\n";
const BAD: &str = "spec bad;\nmodel (x: f32[batch, 4], y: f32[batch, 3]) {\n    loss mean(x - y);\n    output z = nothing;\n}\n";

#[test]
fn check_says_that_all_is_well() {
    let folder = Folder::new();
    folder.write("good.trainspec", GOOD);
    let output = folder.run(&["check", "good.trainspec"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).starts_with("1 spec checked, no errors"));
    assert_eq!(err(&output), "");
}

#[test]
fn check_says_how_much_memory_state_and_step_take() {
    let folder = Folder::new();
    let spec = |data: &str| {
        format!(
            r#"spec small;
            data points {{ source csv("points.csv"); feature x: f32[4]; batch 8; }}
            model (x: f32[batch, 4]) {{ loss mean(square(dense(x, 2))); }}
            train {{ {data} optimizer adam(); steps 1; }}"#
        )
    };
    folder.write("fed.trainspec", spec("data points;"));
    folder.write("open.trainspec", spec(""));
    // Kernel and bias with two slots each, two powers, and the step.
    let state = 3 * 4 * (4 * 2 + 2) + 2 * 4 + 8;
    let output = folder.run(&["check", "fed.trainspec"]);
    let text = out(&output);
    let line = text.lines().nth(1).unwrap_or_default();
    let begin = format!("fed.trainspec: state {state} bytes, a step ");
    assert!(line.starts_with(&begin), "{text}");
    let output = folder.run(&[
        "check",
        "--format",
        "json",
        "fed.trainspec",
        "open.trainspec",
    ]);
    let text = out(&output);
    let summary = text.lines().last().unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    let memory = &summary["memory"];
    assert_eq!(memory[0]["spec"], "fed.trainspec");
    assert_eq!(memory[0]["state_bytes"], state);
    assert_eq!(memory[1]["state_bytes"], state);
    // The batch of 8 rows of 2 is somewhere.
    assert!(
        memory[0]["step_bytes"].as_u64().unwrap() >= 8 * 2 * 4,
        "{text}"
    );
    // Nothing says how large a batch is.
    assert_eq!(memory[1]["step_bytes"], serde_json::Value::Null);
}

#[test]
fn check_reports_every_error_and_exits_with_2() {
    let folder = Folder::new();
    folder.write("bad.trainspec", BAD);
    let output = folder.run(&["check", "bad.trainspec"]);
    assert_eq!(code(&output), 2);
    let text = err(&output);
    assert!(text.contains("error[shape-mismatch]"), "{text}");
    assert!(text.contains("error[unknown-name]"), "{text}");
    assert!(text.contains("bad.trainspec:3:15"), "{text}");
    assert!(
        text.contains("1 spec checked: 2 errors, 0 warnings"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "colour in a pipe: {text:?}");
}

#[test]
fn check_without_arguments_looks_in_the_folder() {
    let folder = Folder::new();
    let output = folder.run(&["check"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("there is no .trainspec file"));
    folder.write("a.trainspec", GOOD);
    folder.write("b.trainspec", GOOD);
    let output = folder.run(&["check"]);
    assert!(
        out(&output).starts_with("2 specs checked"),
        "{}",
        err(&output)
    );
}

#[test]
fn check_reads_standard_input() {
    let output = run_with_input(&["check", "-"], GOOD.as_bytes());
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn json_is_one_object_a_line() {
    let folder = Folder::new();
    folder.write("bad.trainspec", BAD);
    let output = folder.run(&["check", "--format", "json", "bad.trainspec"]);
    assert_eq!(code(&output), 2);
    let lines: Vec<serde_json::Value> = out(&output)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["code"], "shape-mismatch");
    assert_eq!(lines[0]["location"]["line"], 3);
    assert_eq!(lines[0]["location"]["column"], 15);
    assert_eq!(lines[2]["errors"], 2);
    assert_eq!(err(&output), "");
}

#[test]
fn set_overrides_a_constant() {
    let folder = Folder::new();
    folder.write("good.trainspec", GOOD);
    let output = folder.run(&["emit", "--stage", "typed", "--set", "N=7", "good.trainspec"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("dense/kernel: f32[4, 7]"));
    let output = folder.run(&["check", "--set", "M=7", "good.trainspec"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("error[bad-override]"));
    assert_eq!(
        code(&folder.run(&["check", "--set", "N", "good.trainspec"])),
        2
    );
}

#[test]
fn warnings_can_be_denied() {
    let folder = Folder::new();
    folder.write(
        "odd.trainspec",
        "spec odd;\nconst UNUSED = 1;\nmodel (x: f32[batch]) {\n    output y = x;\n}\n",
    );
    let output = folder.run(&["check", "odd.trainspec"]);
    assert_eq!(code(&output), 0);
    assert!(err(&output).contains("warning[unused]"));
    assert_eq!(
        code(&folder.run(&["check", "--deny-warnings", "odd.trainspec"])),
        2
    );
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let folder = Folder::new();
    let output = folder.run(&["check", "missing.trainspec"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("cannot read `missing.trainspec`"));
    folder.write("binary.trainspec", [b's', 0xff, b'x']);
    let output = folder.run(&["check", "binary.trainspec"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("error[not-utf8]"));
    folder.write("huge.trainspec", vec![b' '; 9 << 20]);
    let output = folder.run(&["check", "huge.trainspec"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("error[text-too-long]"));
}

#[test]
fn use_reads_files_below_the_spec_and_no_others() {
    let folder = Folder::new();
    folder.write(
        "lib/layers.trainspec",
        "block twice(x: T[.., n]) where T: float { x |> dense(n) |> dense(n) }\n",
    );
    let spec = |path: &str| {
        format!(
            "spec main;\nuse \"{path}\";\nmodel (x: f32[batch, 4]) {{\n    output y = twice(x);\n}}\n"
        )
    };
    folder.write("main.trainspec", spec("lib/layers.trainspec"));
    let output = folder.run(&["check", "main.trainspec"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    folder.write("sub/main.trainspec", spec("../lib/layers.trainspec"));
    let output = folder.run(&["check", "sub/main.trainspec"]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("outside the folder of the spec"),
        "{}",
        err(&output)
    );
    folder.write("lost.trainspec", spec("nowhere.trainspec"));
    let output = folder.run(&["check", "lost.trainspec"]);
    assert!(err(&output).contains("error[use-failed]"));
}

#[test]
fn fmt_rewrites_files_and_check_only_reports() {
    let folder = Folder::new();
    let path = folder.write(
        "odd.trainspec",
        "spec odd ;const   N=1;\r\n// kept\nmodel(x:f32[batch]){output y=x*N;}",
    );
    let output = folder.run(&["fmt", "--check", "odd.trainspec"]);
    assert_eq!(code(&output), 1);
    assert_eq!(out(&output), "would reformat odd.trainspec\n");
    assert_eq!(code(&folder.run(&["fmt", "odd.trainspec"])), 0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("const N = 1;") && text.contains("// kept") && !text.contains('\r'),
        "{text}"
    );
    assert_eq!(code(&folder.run(&["fmt", "--check", "odd.trainspec"])), 0);
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
    assert_eq!(code(&folder.run(&["check", "odd.trainspec"])), 0);
}

#[test]
fn fmt_leaves_a_broken_file_alone() {
    let folder = Folder::new();
    let path = folder.write("broken.trainspec", "spec broken; const = ;");
    let output = folder.run(&["fmt", "broken.trainspec"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("error[syntax]"));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "spec broken; const = ;"
    );
}

#[test]
fn fmt_of_standard_input_goes_to_standard_output() {
    let output = run_with_input(&["fmt", "-"], b"spec a;const N=1;");
    assert_eq!(out(&output), "spec a;\n\nconst N = 1;\n");
}

#[test]
fn explain_prints_a_paragraph_and_knows_its_codes() {
    let folder = Folder::new();
    let output = folder.run(&["explain", "error[shape-mismatch]"]);
    assert_eq!(code(&output), 0);
    assert!(out(&output).starts_with("error[shape-mismatch]\n\n"));
    let output = folder.run(&["explain", "shape-mismach"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("did you mean `shape-mismatch`?"));
    assert!(out(&folder.run(&["explain"])).lines().count() > 50);
}

#[test]
fn completions_help_and_version_are_there() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = folder.run(&["completions", shell]);
        assert!(
            code(&output) == 0 && out(&output).contains("trainspec"),
            "{shell}"
        );
    }
    assert!(out(&folder.run(&["--version"])).starts_with("trainspec "));
    let help = out(&folder.run(&["--help"]));
    for command in ["check", "fmt", "emit", "explain", "completions"] {
        assert!(help.contains(command), "{help}");
    }
    assert_eq!(code(&folder.run(&["no-such-command"])), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = Folder::new();
    folder.write("good.trainspec", GOOD);
    let binary = env!("CARGO_BIN_EXE_trainspec");
    let script = format!(
        "'{binary}' emit --stage ast good.trainspec | head -n 1 > /dev/null; echo \"${{PIPESTATUS[0]}}\""
    );
    let output = Command::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert_eq!(out(&output).trim(), "0", "{}", err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
}
