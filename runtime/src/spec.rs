//! Checked specs, from text or from files: what every run begins with.

use std::fmt;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use trainspec_compiler::Compilation;
use trainspec_compiler::diag::{self, Diagnostic, Style, render};
use trainspec_compiler::source::{LoadError, Loader, MAX_SOURCE_BYTES, NoFiles, Sources, decode};
use trainspec_compiler::typed::Spec;

use crate::{Cause, Error};

/// Parses and checks the text of a spec; `name` stands for it in messages. It can `use` no files.
///
/// ```
/// let spec = trainspec::check("tiny", "spec tiny; model (x: f32[batch, 2]) { output y = dense(x, 1); }")?;
/// assert_eq!(spec.name, "tiny");
///
/// let error = trainspec::check("tiny", "spec tiny; model (x: f32[batch]) { output y = x + z; }").unwrap_err();
/// assert!(error.to_string().contains("nothing is called `z` here"), "{error}");
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn check(name: &str, text: &str) -> Result<Arc<Spec>, Error> {
    checked(name, text, &NoFiles, &[])
}

/// Reads and checks the spec in a file, with other values of its constants. It can `use` files in its folder and below.
///
/// ```no_run
/// let spec = trainspec::check_file("digits.trainspec", &[("HIDDEN", "256")])?;
/// # Ok::<(), trainspec::Error>(())
/// ```
pub fn check_file(path: impl AsRef<Path>, constants: &[(&str, &str)]) -> Result<Arc<Spec>, Error> {
    let path = path.as_ref();
    let text = read_spec(path).map_err(|diagnostic| Cause::Spec(Box::new(diagnostic)))?;
    let name = path.display().to_string();
    checked(&name, &text, &SpecFolder::of(path), constants)
}

pub(crate) fn checked(
    name: &str,
    text: &str,
    loader: &dyn Loader,
    constants: &[(&str, &str)],
) -> Result<Arc<Spec>, Error> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let options = trainspec_compiler::Options {
        overrides: constants.iter().map(own).collect(),
    };
    let compilation = Compilation::check(name, text, loader, &options);
    match compilation.spec {
        Some(spec) => Ok(spec),
        None => Err(Cause::Check(Arc::new(CheckError {
            sources: compilation.sources,
            diagnostics: compilation.diagnostics,
        }))
        .into()),
    }
}

/// The errors and warnings of a spec that has errors. As text, each with the lines that it points at.
///
/// ```
/// use trainspec::Cause;
///
/// let error = trainspec::check("tiny", "spec tiny; model (x: f32[batch]) { output y = x + z; }").unwrap_err();
/// let Cause::Check(check) = &error.cause else { panic!("{error}") };
/// assert_eq!(check.diagnostics().len(), 1);
/// assert_eq!(check.diagnostics()[0].code.name(), "unknown-name");
/// ```
#[derive(Debug)]
pub struct CheckError {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
}

impl CheckError {
    /// The errors and warnings, in the order of their spans.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(render(&self.sources, diagnostic, Style::Plain).trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for CheckError {}

/// The source text of a file; one byte more than a spec may have is read at most, enough to refuse a longer one.
pub fn read_spec(path: &Path) -> Result<String, Diagnostic> {
    let mut bytes = Vec::new();
    let limit = MAX_SOURCE_BYTES as u64 + 1;
    let read = std::fs::File::open(path).and_then(|f| f.take(limit).read_to_end(&mut bytes));
    if let Err(error) = read {
        let message = format!("cannot read `{}`: {error}", path.display());
        return Err(Diagnostic::without_span(diag::Code::UseFailed, message));
    }
    decode(&path.display().to_string(), bytes)
}

/// The loader of the files that a spec uses: those in the folder of the spec and below it, and no others.
///
/// ```
/// use trainspec::SpecFolder;
/// use trainspec_compiler::source::Loader;
///
/// let folder = SpecFolder::of("examples/iris.trainspec".as_ref());
/// assert!(folder.load("examples/iris.trainspec", "no-such-file.trainspec").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct SpecFolder(PathBuf);

impl SpecFolder {
    /// The folder of the spec at `path`.
    pub fn of(path: &Path) -> SpecFolder {
        SpecFolder(folder_of(path).to_owned())
    }
}

/// The folder of a file; the current one where the path has none.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

impl Loader for SpecFolder {
    fn load(&self, from: &str, path: &str) -> Result<(String, String), LoadError> {
        let requested = folder_of(Path::new(from)).join(path);
        let plain = normalized(&requested);
        // The canonical path decides, so that a symbolic link cannot lead outside either.
        let (Ok(real), Ok(root)) = (requested.canonicalize(), self.0.canonicalize()) else {
            return Err(LoadError::NotFound);
        };
        if !real.starts_with(&root) {
            return Err(LoadError::Refused(
                "it lies outside the folder of the spec".to_owned(),
            ));
        }
        if real.is_dir() {
            return Err(LoadError::Refused("it is a folder".to_owned()));
        }
        let text = read_spec(&real).map_err(|d| LoadError::Refused(d.message))?;
        Ok((plain.display().to_string(), text))
    }
}

/// The lexically normalized path: without `.` and, where possible, without `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(
                    normalized.components().next_back(),
                    Some(Component::Normal(_))
                ) =>
            {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalization_removes_detours() {
        assert_eq!(normalized(Path::new("./a/../b/./c")), Path::new("b/c"));
        assert_eq!(normalized(Path::new("../a")), Path::new("../a"));
    }
}
