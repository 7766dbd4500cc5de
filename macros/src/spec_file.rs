//! Spec files of a macro: relative to the Rust file, else to the folder of the crate.

use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::LitStr;
use trainspec_frontend::source::{LoadError, Loader, decode};

/// The spec file that a macro names.
pub(crate) struct SpecFile {
    pub(crate) path: PathBuf,
    /// As errors print it: relative to the folder of the crate, where it lies there.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The folder of the crate that is compiled.
fn crate_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    folder
        .and_then(|folder| folder.canonicalize().ok())
        .unwrap_or_default()
}

/// The name of a file: its path in the crate, so that programs do not hold the paths of the machine that built them.
fn name_of(path: &Path) -> String {
    let name = path.strip_prefix(crate_folder()).unwrap_or(path);
    name.display().to_string()
}

/// The path of a file by its name.
pub(crate) fn path_of(name: &str) -> PathBuf {
    crate_folder().join(name)
}

impl SpecFile {
    /// The files that it can use.
    pub(crate) fn used(&self) -> UsedFiles {
        UsedFiles {
            root: self.name.clone(),
            folder: self.path.parent().map(Path::to_owned).unwrap_or_default(),
        }
    }

    /// Reads the file that a macro names.
    pub(crate) fn read(path: &LitStr) -> syn::Result<SpecFile> {
        let given = PathBuf::from(path.value());
        let beside = path.span().local_file();
        let beside = beside.and_then(|file| Some(file.parent()?.join(&given)));
        let tried: Vec<PathBuf> = (beside.into_iter())
            .chain([crate_folder().join(&given)])
            .collect();
        let found = tried.iter().find(|path| path.is_file());
        let Some(found) = found.and_then(|path| path.canonicalize().ok()) else {
            let shown = tried.iter().map(|path| format!("`{}`", path.display()));
            let shown: Vec<String> = shown.collect();
            let message = format!(
                "there is no spec file `{}`: looked for {}",
                given.display(),
                shown.join(" and ")
            );
            return Err(syn::Error::new(path.span(), message));
        };
        let text = read(&found).map_err(|why| syn::Error::new(path.span(), why))?;
        Ok(SpecFile {
            name: name_of(&found),
            path: found,
            text,
        })
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes =
        std::fs::read(path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
    decode(&name_of(path), bytes).map_err(|diagnostic| diagnostic.message)
}

/// The loader of the files that a spec uses: those in the folder of the spec and below it, and no others.
pub(crate) struct UsedFiles {
    /// The name of the root text, and its folder.
    pub(crate) root: String,
    pub(crate) folder: PathBuf,
}

impl UsedFiles {
    /// Of a spec that stands in a Rust file.
    pub(crate) fn beside(rust: Span) -> UsedFiles {
        let file = rust.local_file().and_then(|file| file.canonicalize().ok());
        let folder = file.and_then(|file| Some(file.parent()?.to_owned()));
        UsedFiles {
            root: rust.file(),
            folder: folder.unwrap_or_else(crate_folder),
        }
    }
}

impl Loader for UsedFiles {
    fn load(&self, from: &str, path: &str) -> Result<(String, String), LoadError> {
        let beside = match from == self.root {
            true => Some(self.folder.clone()),
            false => path_of(from).parent().map(Path::to_owned),
        };
        let Ok(found) = beside.unwrap_or_default().join(path).canonicalize() else {
            return Err(LoadError::NotFound);
        };
        if !found.starts_with(&self.folder) {
            return Err(LoadError::Refused(
                "it lies outside the folder of the spec".to_owned(),
            ));
        }
        let text = read(&found).map_err(LoadError::Refused)?;
        Ok((name_of(&found), text))
    }
}
