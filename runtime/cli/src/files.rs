//! Spec files: the paths that arguments expand to, source text, and the loader of `use`.

use std::io::Read;
use std::path::{Path, PathBuf};

use trainspec::{SpecFolder, read_spec};
use trainspec_compiler::diag::{Code, Diagnostic, nearest};
use trainspec_compiler::lower::dimension_names;
use trainspec_compiler::source::{MAX_SOURCE_BYTES, Sources, decode};
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{Compilation, Options, PipelineOptions};
use trainspec_formats::files::{Durability, replace_in};
use trainspec_formats::{FileKind, storage};

use crate::failure::Failure;
use crate::output::diagnostics;
use crate::{BAD_INPUT, Format};

/// The name of standard input.
pub(crate) const STDIN: &str = "-";

/// The specs that the arguments expand to: files as they are, the specs in folders, and without arguments those in the current
/// folder.
pub(crate) fn specs(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    if paths.is_empty() {
        let found = in_folder(Path::new("."), false)?;
        if found.is_empty() {
            return Err(
                "there is no .trainspec file in this folder; name the files to look at".to_owned(),
            );
        }
        return Ok(found);
    }
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let inside = in_folder(path, true)?;
            if inside.is_empty() {
                return Err(format!(
                    "there is no .trainspec file in `{}`",
                    path.display()
                ));
            }
            found.extend(inside);
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// The specs in a folder, and in those below it, by name. Hidden folders and `target` hold no specs of the user's.
fn in_folder(folder: &Path, deep: bool) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .map_err(|e| format!("cannot read the folder `{}`: {e}", folder.display()))?;
        for entry in entries {
            let entry =
                entry.map_err(|e| format!("cannot read the folder `{}`: {e}", folder.display()))?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            // Symbolic links are not followed, so that a cycle of them cannot loop endlessly.
            let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
            if is_folder {
                if deep && !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "trainspec") {
                found.push(path.strip_prefix("./").map_or(path.clone(), Path::to_owned));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The source text of a file or of standard input.
pub(crate) fn read(path: &Path) -> Result<String, Diagnostic> {
    if path != Path::new(STDIN) {
        return read_spec(path).map_err(|error| error.maybe_help(meant_spec(path)));
    }
    let mut bytes = Vec::new();
    let limit = MAX_SOURCE_BYTES as u64 + 1;
    if let Err(error) = std::io::stdin().lock().take(limit).read_to_end(&mut bytes) {
        let message = format!("cannot read `{STDIN}`: {error}");
        return Err(Diagnostic::without_span(Code::UseFailed, message));
    }
    decode(STDIN, bytes)
}

/// The spec that was most likely meant by a path at which there is nothing, by its name without the extension.
fn meant_spec(path: &Path) -> Option<String> {
    if path.exists() {
        return None;
    }
    let mut complete = path.as_os_str().to_owned();
    complete.push(".trainspec");
    let complete = PathBuf::from(complete);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let specs = in_folder(folder.unwrap_or(Path::new(".")), false).ok()?;
    let stem = |path: &Path| path.file_stem()?.to_str().map(ToOwned::to_owned);
    let near = || {
        let stems: Vec<String> = specs.iter().filter_map(|spec| stem(spec)).collect();
        let near = nearest(&stem(path)?, stems.iter().map(String::as_str))?.to_owned();
        Some(path.with_file_name(format!("{near}.trainspec")))
    };
    let meant = if complete.is_file() {
        complete
    } else {
        near()?
    };
    Some(format!("did you mean `{}`?", meant.display()))
}

/// `--set NAME=VALUE`
pub(crate) fn options(set: &[(String, String)]) -> Options {
    Options {
        overrides: set.to_vec(),
    }
}

/// Parses `NAME=VALUE`.
pub(crate) fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME=VALUE, such as HIDDEN=256".to_owned()),
    }
}

/// Reads and checks a spec. Errors are printed; `Err` is then the exit code.
pub(crate) fn checked(
    path: &Path,
    set: &[(String, String)],
    format: Format,
) -> Result<Compilation, u8> {
    let text = read(path).map_err(|diagnostic| {
        diagnostics(&Sources::default(), &[diagnostic], format);
        BAD_INPUT
    })?;
    let name = path.display().to_string();
    let compilation = Compilation::check(&name, &text, &SpecFolder::of(path), &options(set));
    match compilation.spec {
        Some(_) => Ok(compilation),
        None => {
            diagnostics(&compilation.sources, &compilation.diagnostics, format);
            Err(BAD_INPUT)
        }
    }
}

/// Parses `NAME=SIZE`.
pub(crate) fn name_and_size(text: &str) -> Result<(String, i64), String> {
    let sizes = || "write NAME=SIZE, such as batch=32".to_owned();
    let (name, size) = name_and_value(text).map_err(|_| sizes())?;
    let size = size.parse().ok().filter(|n| *n >= 0).ok_or_else(sizes)?;
    Ok((name, size))
}

/// Fails where a size is given for a dimension that a spec does not have.
pub(crate) fn known_dimensions(spec: &Spec, given: &[(String, i64)]) -> Result<(), Diagnostic> {
    let names = dimension_names(spec);
    match given.iter().find(|(name, _)| !names.contains(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("the model has no dimension `{name}`");
            let error = Diagnostic::without_span(Code::UnknownName, message);
            Err(match names.is_empty() {
                true => error.help("all its dimensions are numbers"),
                false => error.help(format!("its named dimensions are {}", names.join(", "))),
            })
        }
    }
}

/// The error of a spec without a model.
pub(crate) fn no_model(spec: &Spec) -> Diagnostic {
    let message = format!("the spec `{}` has no `model`", spec.name);
    Diagnostic::without_span(Code::MissingItem, message)
        .help("say what is computed: `model (x: f32[batch, 4]) { output y = dense(x, 1); }`")
}

/// The error of a spec without a training, where it is needed: `nothing to resume`.
pub(crate) fn no_train(spec: &Spec, so: &str) -> Failure {
    let message = format!("the spec `{}` has no `train`: there is {so}", spec.name);
    Failure::input(message).help(
        "say how it is trained: `train { data train_set; optimizer adam(0.001); steps 1_000; }`",
    )
}

/// The base folder of relative data paths.
pub(crate) fn data_folder(spec: &Path, given: Option<&Path>) -> PathBuf {
    match (given, spec.parent()) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(parent)) if spec != Path::new(STDIN) => parent.to_owned(),
        (None, _) => PathBuf::new(),
    }
}

/// Fails where a file that the user named cannot be written, because its folder is not there.
pub(crate) fn has_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let Some(folder) = folder.filter(|folder| !folder.is_dir()) else {
        return Ok(());
    };
    let (file, folder) = (path.display(), folder.display());
    Err(match path.parent().is_some_and(Path::exists) {
        true => Failure::output(format!("cannot write {file}: {folder} is no folder")),
        false => Failure::output(format!("cannot write {file}: there is no folder {folder}"))
            .help(format!("`mkdir -p {folder}`")),
    })
}

/// Writes a file that the user named, atomically.
pub(crate) fn write_output(path: &Path, text: &str) -> Result<(), Failure> {
    has_folder(path)?;
    let (storage, bytes) = (storage::local(), text.as_bytes());
    replace_in(&storage, FileKind::Other, path, bytes, Durability::Unsynced)
        .map_err(Failure::output)
}

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=1024).contains(&n) => Ok(n),
        _ => Err("write a number from 1 to 1024".to_owned()),
    }
}

/// The name of a pass.
pub(crate) fn pass_name(text: &str) -> Result<String, String> {
    let passes = trainspec_compiler::ir::passes::PASSES;
    match passes.iter().any(|p| p.name == text) {
        true => Ok(text.to_owned()),
        false => {
            let names: Vec<&str> = passes.iter().map(|p| p.name).collect();
            Err(format!("the passes are {}", names.join(", ")))
        }
    }
}

/// The pipeline without some passes.
pub(crate) fn pipeline(disabled: &[String]) -> PipelineOptions {
    PipelineOptions {
        disabled_passes: disabled.iter().cloned().collect(),
        ..PipelineOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_need_a_name_and_a_value() {
        assert_eq!(
            name_and_value("A=1=2"),
            Ok(("A".to_owned(), "1=2".to_owned()))
        );
        assert!(name_and_value("A=").is_err());
        assert!(name_and_value("A").is_err());
    }

    #[test]
    fn data_lies_beside_the_spec() {
        let folder =
            |spec: &str, given: Option<&str>| data_folder(Path::new(spec), given.map(Path::new));
        assert_eq!(folder("a/b.trainspec", None), Path::new("a"));
        assert_eq!(folder("b.trainspec", None), Path::new(""));
        assert_eq!(folder("-", None), Path::new(""));
        assert_eq!(folder("a/b", Some("c")), Path::new("c"));
    }
}
