//! `trainspec new`: a folder to start from: a spec with comments, and data that it trains on.

mod column;
mod features;
mod fields;
mod made_up;
mod names;
mod profile;
mod tabular;
mod template;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;
use trainspec_compiler::diag::Code;
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{Compilation, Options, fmt};

use crate::atomic_folder::AtomicFolder;
use crate::failure::Failure;
use crate::output::{print, say};
use crate::run::next_commands::word;
use crate::{FINE, Format, columns};
use profile::Table;

/// The columns that are left out and listed.
const MAX_LISTED_COLUMNS: usize = 20;

const HELP: &str = "\
Without --from the folder has made-up data, so that the spec trains at once; put your own in its place.
With --from the table is read once, and the spec is written for it: words become ids by a vocabulary, numbers are standardized, missing values get a \
column of their own, a fifth of the records is held out, and the target decides between classes and numbers. Columns that say nothing (constants, \
ids, dates, free text) or cannot be read (`1,5`, `5%`) are left out, and named. The separator and the header are found by looking. The spec is yours \
to edit.
With `--format json` the result is an object with `folder`, `files`, `left_out` (pairs of a column and why), `notes` and `commands`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The folder to make; its last part is the name of the spec
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// What to begin with
    #[arg(long, value_enum, default_value = "mlp", conflicts_with = "from")]
    template: Template,
    /// Write the spec for a table of comma-separated values
    #[arg(long, value_name = "FILE", requires = "target")]
    from: Option<PathBuf>,
    /// The column to predict; without a header its number, from 1
    #[arg(long, value_name = "COLUMN", requires = "from")]
    target: Option<String>,
    /// Predict a number, also where the column has few integers, which are classes otherwise
    #[arg(long, requires = "from")]
    regression: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Template {
    /// A perceptron that tells two spirals apart
    Mlp,
    /// A convolutional network on small pictures
    Conv,
    /// Sentences of words, by the mean of their embeddings
    Text,
    /// A table with categories, numbers and missing values
    Tabular,
    /// Many sparse categories, as large embeddings
    Sparse,
    /// A Rust program with the spec inside
    Rust,
}

/// A file of the new folder: its path and contents, and what it is.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    note: String,
}

impl File {
    fn new(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>, note: impl Into<String>) -> File {
        File {
            path: path.into(),
            bytes: bytes.into(),
            note: note.into(),
        }
    }
}

/// What is made.
struct Project {
    files: Vec<File>,
    /// Columns that the spec does not use, and why.
    left_out: Vec<(String, String)>,
    /// What else there is to know.
    notes: Vec<String>,
    /// What to type in the folder.
    command: String,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    match make(arguments) {
        Ok(()) => FINE,
        Err(failure) => failure.report(arguments.format),
    }
}

fn make(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let name = spec_name(folder)?;
    let taken = std::fs::read_dir(folder).map_or(folder.exists(), |mut all| all.next().is_some());
    if taken {
        let message = format!("{} is there already", folder.display());
        return Err(Failure::input(message).help("name a new folder"));
    }
    let project = match (&arguments.from, &arguments.target) {
        (Some(path), Some(target)) => of_table(&name, path, target, arguments.regression)?,
        _ => template::project(arguments.template, &name)?,
    };
    let new = AtomicFolder::create(folder)?;
    for file in &project.files {
        new.write(&file.path, &file.bytes)?;
    }
    new.commit(folder)?;
    report(arguments.format, folder, &project);
    Ok(())
}

fn report(format: Format, folder: &Path, project: &Project) {
    let cd = format!("cd {}", word(&folder.display().to_string()));
    let commands = [cd, project.command.clone()];
    if format == Format::Json {
        let files = project
            .files
            .iter()
            .map(|file| file.path.display().to_string());
        print(json!({
            "folder": folder.display().to_string(),
            "files": files.collect::<Vec<_>>(),
            "left_out": project.left_out,
            "notes": project.notes,
            "commands": commands,
        }));
        return;
    }
    say(format_args!("created {}", folder.display()));
    let rows: Vec<Vec<String>> = (project.files.iter())
        .map(|file| vec![format!("  {}", file.path.display()), file.note.clone()])
        .collect();
    columns::aligned(&rows).for_each(say);
    let listed = project.left_out.iter().take(MAX_LISTED_COLUMNS);
    for (column, why) in listed {
        say(format_args!("left out: {column} ({why})"));
    }
    let more = project.left_out.len().saturating_sub(MAX_LISTED_COLUMNS);
    if more > 0 {
        let columns = counted(more as u64, "more column");
        say(format_args!(
            "left out: {columns}, which `--format json` lists"
        ));
    }
    for note in &project.notes {
        say(format_args!("note: {note}"));
    }
    say("");
    say("now type");
    commands
        .iter()
        .for_each(|command| say(format_args!("  {command}")));
}

/// The name of the spec in a folder.
fn spec_name(folder: &Path) -> Result<String, Failure> {
    let last = folder.file_name().and_then(|name| name.to_str());
    let Some(last) = last.filter(|last| !last.starts_with('-')) else {
        let message = format!("{} is no name for a new folder", folder.display());
        return Err(Failure::input(message).help("such as `trainspec new flowers`"));
    };
    Ok(names::identifier(last).unwrap_or_else(|| template::STARTER.to_owned()))
}

/// A project for a table of the user's.
fn of_table(name: &str, path: &Path, target: &str, regression: bool) -> Result<Project, Failure> {
    let table = Table::of_file(path)?;
    let bytes = std::fs::read(path)
        .map_err(|e| Failure::input(format!("{}: cannot be read: {e}", path.display())))?;
    let file = path
        .file_name()
        .map_or_else(|| "data.csv".into(), PathBuf::from);
    let data = Path::new("data").join(file);
    let (rows, columns) = (table.rows, table.columns.len() as u64);
    let note = format!(
        "{} in {}",
        counted(rows, "record"),
        counted(columns, "column")
    );
    project_of_table(
        name,
        &table,
        (target, regression),
        File::new(data, bytes, note),
    )
}

/// A project for a table and its file; the target, and whether it is a number although it has few values.
fn project_of_table(
    name: &str,
    table: &Table,
    (target, regression): (&str, bool),
    data: File,
) -> Result<Project, Failure> {
    let written = tabular::spec(name, &data.path, table, target, regression)?;
    Ok(Project {
        files: vec![spec_file(name, &written.text)?, data, ignored()],
        left_out: written.left_out,
        notes: written.notes,
        command: format!("trainspec run {name}.trainspec"),
    })
}

/// A spec, laid out canonically.
fn spec_file(name: &str, text: &str) -> Result<File, Failure> {
    let path = format!("{name}.trainspec");
    let found = Compilation::check(&path, text, &NoFiles, &Options::default());
    let text = match found.diagnostics.first() {
        None => fmt::format(text).ok(),
        Some(_) => None,
    };
    let Some(text) = text else {
        let first = found.diagnostics.first();
        let why = first.map_or("it has no canonical layout", |first| &first.message);
        let message = format!("the spec that would be written does not check: {why}");
        let is_too_large = first.is_some_and(|first| first.code == Code::SpecTooLarge);
        return Err(Failure::input(message).help(match is_too_large {
            true => "leave columns of words out of the table: each takes a vocabulary and a part of the model",
            false => "give the columns plain names, or leave some out of the table",
        }));
    };
    Ok(File::new(
        path,
        text,
        "the data, the model and its training: yours to edit",
    ))
}

/// A number of things, in a word that takes an `s`.
fn counted(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// What version control leaves alone.
fn ignored() -> File {
    File::new(".gitignore", "/runs\n", "runs are not for version control")
}
