//! The macro depends on the front end only: whoever builds it does not build the code generator for the build machine, too. The command
//! does without the macro: whoever builds it does not build the front end twice.

use std::process::Command;

use trainspec_tests::root;

/// The packages that a package of the workspace is built of.
fn tree(package: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--locked", "-p", package])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(
        names.iter().any(|name| name == "trainspec-frontend"),
        "{tree}"
    );
    names
}

#[test]
fn the_command_is_built_without_the_macro() {
    let names = tree("trainspec-cli");
    assert!(
        !names.iter().any(|name| name == "trainspec-macros"),
        "{names:?}"
    );
}

#[test]
fn the_macro_depends_on_the_front_end_alone() {
    let names = tree("trainspec-macros");
    let heavy = |name: &&String| {
        name.starts_with("cranelift")
            || [
                "trainspec",
                "trainspec-codegen",
                "trainspec-compiler",
                "trainspec-formats",
            ]
            .contains(&name.as_str())
    };
    let heavy: Vec<_> = names.iter().filter(heavy).collect();
    assert!(heavy.is_empty(), "{heavy:?}");
}
