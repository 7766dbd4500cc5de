//! The macro depends on the front end only: whoever builds it does not build the code generator for the build machine, too.

use std::process::Command;

use trainspec_tests::root;

#[test]
fn the_macro_depends_on_the_front_end_alone() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--locked", "-p", "trainspec-macros"])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.contains(&"trainspec-frontend"), "{tree}");
    let heavy = |name: &&&str| {
        name.starts_with("cranelift")
            || [
                "trainspec",
                "trainspec-codegen",
                "trainspec-compiler",
                "trainspec-formats",
            ]
            .contains(name)
    };
    let heavy: Vec<_> = names.iter().filter(heavy).collect();
    assert!(heavy.is_empty(), "{heavy:?}");
}
