//! Exported models: the Rust code of their README runs, and predicts what the command predicts.

use crate::support::{Folder, RunCommand, code, err, out, root};

/// The code of the README for a folder, between the marks as it stands there.
fn as_in_the_readme(folder: &Folder) -> Result<(String, String), trainspec::Error> {
    let path = |name: &str| folder.0.join("model").join(name);
    // begin
    use trainspec::{InputView, SessionBuilder};
    let builder = SessionBuilder::from_file(path("iris.trainspec"));
    let mut session = builder.restore(path("model.safetensors")).build()?;
    let x = InputView::new(&[1, 4], &[0.0_f32; 4]);
    let feeds = [("x", x)];
    let fetched = session.predict(&feeds)?;
    // end
    let probabilities = fetched.get("output/probabilities").unwrap().to_string();
    // It may be trained further: slots start over.
    let labels = [1_i64];
    let batch = [("x", x), ("species", InputView::new(&[1], &labels))];
    session.step(&batch)?;
    Ok((probabilities, format!("{} steps", session.global_step())))
}

#[test]
fn the_rust_code_of_the_readme_predicts_what_the_command_predicts() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("data")).unwrap();
    for name in ["iris.trainspec", "data/iris.csv"] {
        std::fs::copy(root().join("examples").join(name), folder.0.join(name)).unwrap();
    }
    for arguments in [
        &["run", "iris.trainspec", "--quiet", "--steps", "20"][..],
        &["export", "iris.trainspec", "-o", "model"],
    ] {
        let done = folder.run(arguments);
        assert_eq!(code(&done), 0, "{}", err(&done));
    }
    let readme = std::fs::read_to_string(folder.0.join("model/README.md")).unwrap();
    let own = include_str!("export.rs");
    let own = own
        .split("// begin")
        .nth(1)
        .unwrap()
        .split("// end")
        .next()
        .unwrap();
    for line in own.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = line.replace("path(\"", "\"").replace("\"))", "\")");
        // An example has the error type among its imports.
        let line = line.replace("use trainspec::{", "use trainspec::{Error, ");
        assert!(readme.contains(&line), "{line}\n{readme}");
    }
    let (probabilities, steps) = as_in_the_readme(&folder).unwrap();
    assert_eq!(steps, "21 steps");
    let record = "sepal_length,sepal_width,petal_length,petal_width\n0,0,0,0\n";
    folder.write("zero.csv", record);
    let predicted = folder.run(&["predict", "iris.trainspec", "-i", "zero.csv"]);
    let line = out(&predicted).lines().nth(1).unwrap().replace(',', ", ");
    assert_eq!(probabilities, format!("[{line}]"));
}
