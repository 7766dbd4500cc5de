//! Programs that `train!` refuses: what the Rust compiler prints, at which token.
//!
//! Each program of `tests/macro_errors` is compiled by rustc against the `trainspec` that these tests were built with, and its errors are
//! compared with the `.stderr` beside it (`BLESS=1` rewrites them). Texts of the compiler change from version to version: with another one
//! than they were written with, a program must still be refused, with the same errors of the spec.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use trainspec_tests::root;

/// The compiler whose texts are expected.
const COMPILER: &str = "rustc 1.95.";

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// The folder of the libraries that these tests were built with.
fn libraries() -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    executable.parent().unwrap().to_owned()
}

/// Compiles a program against a library, without making code.
fn compile(program: &Path, library: &Path) -> Output {
    let out = tempfolder();
    let compiled = rustc()
        .current_dir(root().join("tests/macro_errors"))
        .env("CARGO_MANIFEST_DIR", root().join("tests/macro_errors"))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata"])
        .args(["--color=never", "--error-format=human"])
        .arg("--out-dir")
        .arg(&out)
        .arg("-L")
        .arg(format!("dependency={}", libraries().display()))
        .arg("--extern")
        .arg(format!("trainspec={}", library.display()))
        .arg(program)
        .output();
    std::fs::remove_dir_all(out).unwrap();
    compiled.unwrap()
}

fn tempfolder() -> PathBuf {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let mut count = COUNT.lock().unwrap();
    *count += 1;
    let folder = format!("trainspec-macro-errors-{}-{count}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The library with the macro: the newest one that compiles a program which uses it.
fn library() -> PathBuf {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libtrainspec-") && name.ends_with(".rlib")
    };
    let files = std::fs::read_dir(libraries()).unwrap();
    let mut found: Vec<PathBuf> = (files.map(|file| file.unwrap().path()))
        .filter(is_library)
        .collect();
    found.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    let folder = tempfolder();
    let program = folder.join("accepted.rs");
    let text = "trainspec::train! { spec s; model (x: f32[batch]) { output y = x; } } fn main() {}";
    std::fs::write(&program, text).unwrap();
    let found = found.into_iter().rev();
    let found = found.map(|path| (compile(&program, &path), path));
    let mut refused = String::new();
    for (output, path) in found {
        if output.status.success() {
            std::fs::remove_dir_all(folder).unwrap();
            return path;
        }
        refused = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("no library has the macro: {refused}");
}

/// The files that the compiler says a program depends on.
fn dependencies(program: &Path, library: &Path) -> String {
    let out = tempfolder();
    let mut command = rustc();
    command
        .env("CARGO_MANIFEST_DIR", program.parent().unwrap())
        .args(["--edition=2021", "--crate-type=bin", "--emit=dep-info"])
        .arg("--out-dir")
        .arg(&out)
        .arg("-L")
        .arg(format!("dependency={}", libraries().display()))
        .arg("--extern")
        .arg(format!("trainspec={}", library.display()))
        .arg(program);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let file = program.with_extension("d");
    let text = std::fs::read_to_string(out.join(file.file_name().unwrap())).unwrap();
    std::fs::remove_dir_all(out).unwrap();
    text
}

#[test]
fn a_program_depends_on_every_file_of_its_specs() {
    let folder = tempfolder();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    std::fs::create_dir(folder.join("specs")).unwrap();
    write(
        "specs/deep.trainspec",
        "fn twice(x: T[..]) where T: float { x + x }",
    );
    write(
        "specs/blocks.trainspec",
        "use \"deep.trainspec\"; fn four_times(x: T[..]) where T: float { twice(twice(x)) }",
    );
    write(
        "specs/line.trainspec",
        "spec line; use \"blocks.trainspec\"; model (x: f32[batch]) { output y = four_times(x); }",
    );
    write(
        "program.rs",
        "trainspec::train!(file: \"specs/line.trainspec\");
         trainspec::train! {
             spec inside;
             use \"specs/blocks.trainspec\";
             model (x: f32[batch]) { output y = four_times(x); }
         }
         fn main() {}",
    );
    let found = dependencies(&folder.join("program.rs"), &library());
    for name in ["line", "blocks", "deep"] {
        let path = format!("specs/{name}.trainspec");
        assert!(found.contains(&path), "{path} is not tracked: {found}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The errors of the spec, without what the compiler adds.
fn spec_errors(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_start);
    lines
        .filter(|line| line.starts_with("error: error[") || line.contains(": warning["))
        .collect()
}

#[test]
fn refused_programs_say_why_at_the_token() {
    let version = rustc().arg("--version").output().unwrap();
    let exact = String::from_utf8_lossy(&version.stdout).starts_with(COMPILER);
    let library = library();
    let base = root().canonicalize().unwrap();
    let folder = root().join("tests/macro_errors");
    let files = std::fs::read_dir(&folder).unwrap();
    let mut programs: Vec<PathBuf> = (files.map(|file| file.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    programs.sort();
    assert!(programs.len() >= 70);
    let mut wrong = Vec::new();
    for program in programs {
        let name = program.file_name().unwrap();
        let output = compile(Path::new(name), &library);
        let name = name.to_string_lossy();
        if output.status.success() {
            wrong.push(format!("{name} is accepted"));
            continue;
        }
        let found = String::from_utf8(output.stderr).unwrap();
        let found = found.replace(&*base.to_string_lossy(), "$ROOT");
        let errors = found.lines().filter(|line| line.starts_with("error"));
        // The last line counts them.
        if name.starts_with("module_in_use_") && errors.count() != 2 {
            wrong.push(format!("{name}: one mistake has several errors:\n{found}"));
        }
        let stored = program.with_extension("stderr");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&stored, &found).unwrap();
            continue;
        }
        let expected = std::fs::read_to_string(&stored).unwrap_or_default();
        let same = match exact {
            true => found == expected,
            false => spec_errors(&found) == spec_errors(&expected),
        };
        if !same {
            wrong.push(format!("{name} (BLESS=1 rewrites it):\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
