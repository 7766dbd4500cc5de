//! The texts of a spec for an exported folder: itself with the constants that were given, what it uses, and its files of words.

use std::path::{Component, Path, PathBuf};

use trainspec_compiler::Compilation;
use trainspec_compiler::ast_constants;
use trainspec_compiler::typed::{ColumnOpKind, Spec, WordSource, column_ops};

use crate::failure::Failure;
use crate::files::STDIN;

/// Relative paths and bytes, the spec first.
pub(super) fn of(
    spec: &Spec,
    compilation: &Compilation,
    path: &Path,
    set: &[(String, String)],
    data_folder: &Path,
) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let own = match (path == Path::new(STDIN), path.file_name()) {
        (false, Some(name)) => PathBuf::from(name),
        _ => PathBuf::from(format!("{}.trainspec", spec.name)),
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    let mut texts: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let sources = &compilation.sources;
    for (i, source) in sources.files().iter().enumerate() {
        let is_used = |name: &str| sources.uses().iter().any(|one| one.found == name);
        let name = match i {
            0 => own.clone(),
            // The values that were given are texts, too.
            _ if !is_used(&source.name) => continue,
            _ => {
                let used = Path::new(&source.name);
                inside(used.strip_prefix(parent).unwrap_or(used)).ok_or_else(|| {
                    Failure::input(format!(
                        "{} is not below the folder of the spec",
                        source.name
                    ))
                })?
            }
        };
        let text = ast_constants::with_values(&source.text, set);
        texts.push((name, text.into_bytes()));
    }
    for op in spec
        .data
        .iter()
        .flat_map(|set| column_ops(&set.eval_stages))
    {
        let ColumnOpKind::Vocabulary(vocabulary) = &op.kind else {
            continue;
        };
        let WordSource::File(file) = &vocabulary.words else {
            continue;
        };
        let from = data_folder.join(&file.pattern);
        let Some(name) = inside(Path::new(&file.pattern)) else {
            let message = format!("the words of {} cannot be exported", from.display());
            return Err(Failure::input(message)
                .help("a path in the folder of the spec, or below it, can be"));
        };
        if texts.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let bytes = std::fs::read(&from)
            .map_err(|e| Failure::input(format!("{}: cannot be read: {e}", from.display())))?;
        texts.push((name, bytes));
    }
    Ok(texts)
}

/// A path, if it is relative and does not leave its folder.
fn inside(path: &Path) -> Option<PathBuf> {
    let parts = path.components();
    let mut kept = PathBuf::new();
    for part in parts {
        match part {
            Component::Normal(name) => kept.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(kept)
}
