//! The templates of `trainspec new`, with made-up data.

use std::path::Path;

use trainspec_formats::records::{RecordWriter, WriterOptions};

use crate::failure::Failure;
use crate::new::profile::Table;
use crate::new::{File, Project, Template, ignored, made_up, names, project_of_table, spec_file};

/// The name that stands in the texts of templates.
pub(super) const STARTER: &str = "starter";

/// The files of a template.
pub(super) fn project(template: Template, name: &str) -> Result<Project, Failure> {
    let text = |text: &str| text.replace(STARTER, name);
    let of_spec = |text: String, data: Vec<File>| -> Result<Project, Failure> {
        let mut files = vec![spec_file(name, &text)?];
        files.extend(data);
        files.push(ignored());
        Ok(Project {
            files,
            left_out: Vec::new(),
            notes: Vec::new(),
            command: format!("trainspec run {name}.trainspec"),
        })
    };
    Ok(match template {
        Template::Mlp => {
            let data = File::new(
                "data/spirals.csv",
                made_up::spirals(),
                "600 points of two spirals, made up",
            );
            of_spec(
                text(include_str!("../../templates/mlp.trainspec")),
                vec![data],
            )?
        }
        Template::Conv => {
            let file = |name: &str, count: u64, seed: u64| -> Result<File, Failure> {
                let bytes = records(made_up::pictures(count, seed))?;
                Ok(File::new(name, bytes, format!("{count} pictures, made up")))
            };
            let data = vec![
                file("data/train.tfrecord", 800, 1)?,
                file("data/test.tfrecord", 200, 2)?,
            ];
            of_spec(text(include_str!("../../templates/conv.trainspec")), data)?
        }
        Template::Text => {
            let data = File::new(
                "data/sentences.csv",
                made_up::sentences(),
                "1000 sentences, made up",
            );
            of_spec(
                text(include_str!("../../templates/text.trainspec")),
                vec![data],
            )?
        }
        Template::Sparse => {
            let data = File::new(
                "data/clicks.csv",
                made_up::clicks(),
                "4000 views of adverts, made up",
            );
            of_spec(
                text(include_str!("../../templates/sparse.trainspec")),
                vec![data],
            )?
        }
        Template::Tabular => {
            let bytes = made_up::customers();
            let table = Table::of_bytes(bytes.as_bytes(), "the table")?;
            let data = File::new("data/customers.csv", bytes, "500 customers, made up");
            project_of_table(name, &table, ("stayed", false), data)?
        }
        Template::Rust => rust_project(name),
    })
}

fn rust_project(spec: &str) -> Project {
    let name = names::crate_name(spec);
    let note = format!("`{spec}` means something else in Rust: the crate is `{name}`");
    Project {
        notes: (name != spec).then_some(note).into_iter().collect(),
        files: vec![
            File::new(
                "src/main.rs",
                program(&name),
                "the spec and the program around it: yours to edit",
            ),
            File::new(
                "Cargo.toml",
                manifest(&name),
                "a crate that depends on trainspec",
            ),
            File::new(
                ".gitignore",
                "/target\n",
                "what is built is not for version control",
            ),
        ],
        left_out: Vec::new(),
        command: "cargo run --release".to_owned(),
    }
}

/// The program, whose `main` is public where a test calls it.
fn program(name: &str) -> String {
    let text = include_str!("../../templates/rust/main.rs");
    text.replace(STARTER, name)
        .replace("pub(crate) fn main", "fn main")
}

/// The manifest of a crate that uses this version: that of the checkout that the command was built of, while it is there.
fn manifest(name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let runtime = runtime.filter(|folder| folder.join("Cargo.toml").is_file());
    let dependency = match runtime.and_then(Path::to_str) {
        // A path has few characters that TOML escapes, and Rust escapes them alike.
        Some(path) => format!(
            "trainspec = {{ path = {path:?} }} # or trainspec = \"{version}\" once it is published"
        ),
        None => format!("trainspec = \"{version}\""),
    };
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependency}\n\n\
         # Numbers are computed by machine code in every profile; this is for the program around it.\n[profile.dev]\nopt-level = 1\n\n\
         # A package of its own, also in a folder of another one.\n[workspace]\n"
    )
}

fn records(examples: Vec<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    let mut writer = RecordWriter::new(Vec::new(), &WriterOptions::default());
    for example in examples {
        writer.write(&example).map_err(Failure::output)?;
    }
    writer.finish().map_err(Failure::output)
}
