//! The standard library: an index of its definitions by name, and its parsed files, which are kept for the whole process.
//!
//! A file is parsed when one of its definitions is first looked up. Its [`FileId`] is the same in every check, so that several checks,
//! also on several threads, share what was parsed.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::ast::ItemKind;
use crate::check::items::Space;
use crate::check::value::Def;
use crate::source::library_file;
use crate::syntax;

/// By namespace and name: the index in `trainspec_std::FILES`.
static INDEX: LazyLock<HashMap<Space, HashMap<&'static str, usize>>> = LazyLock::new(|| {
    let mut index: HashMap<Space, HashMap<&'static str, usize>> = HashMap::new();
    for (i, file) in trainspec_std::FILES.iter().enumerate() {
        for (kind, name) in trainspec_std::definitions(file.text) {
            index
                .entry(Space::of_word(kind))
                .or_default()
                .insert(name, i);
        }
    }
    index
});

/// The definitions of each file of `trainspec_std::FILES` that was needed.
static PARSED: LazyLock<Vec<OnceLock<Vec<Arc<Def>>>>> = LazyLock::new(|| {
    let files = trainspec_std::FILES.iter();
    files.map(|_| OnceLock::new()).collect()
});

/// A definition of the library.
pub(crate) fn definition(space: Space, name: &str) -> Option<Arc<Def>> {
    let file = *INDEX.get(&space)?.get(name)?;
    let mut all = PARSED[file].get_or_init(|| parse(file)).iter();
    let found = all.find(|def| Space::of(def.ast.kind) == space && def.name() == name);
    found.cloned()
}

/// The names of all definitions in a namespace.
pub(crate) fn names(space: Space) -> impl Iterator<Item = &'static str> {
    INDEX
        .get(&space)
        .into_iter()
        .flat_map(|names| names.keys().copied())
}

fn parse(file: usize) -> Vec<Arc<Def>> {
    let id = library_file(file);
    let (parsed, errors) = syntax::parse(id, trainspec_std::FILES[file].text);
    assert!(errors.is_empty(), "the library parses: {errors:?}");
    let items = parsed.file.items.into_iter();
    let definitions = items.filter_map(|item| match item.kind {
        ItemKind::Definition(ast) => Some(Arc::new(Def {
            ast,
            file: id,
            library: true,
        })),
        _ => None,
    });
    definitions.collect()
}
