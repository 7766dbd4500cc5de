//! Folders of tests: the repository, its reference data, and temporary folders to write in.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder of the reference cases of this repository.
pub fn own_oracle() -> PathBuf {
    root().join("tests/oracle")
}

/// The folder of the reference cases that are run: the one that `ORACLE_DIR` names, relative to the root of the repository, or
/// [`own_oracle`].
pub fn oracle() -> PathBuf {
    match std::env::var_os("ORACLE_DIR") {
        Some(named) => root().join(named),
        None => own_oracle(),
    }
}

/// A temporary folder, removed on drop.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    #[allow(clippy::new_without_default)] // each is another one
    pub fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trainspec-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    /// A path in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A path in it, as it is typed.
    pub fn path(&self, name: &str) -> String {
        let path = self.file(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        let written = std::fs::create_dir_all(path.parent().expect("a file in a folder"))
            .and_then(|()| std::fs::write(&path, text));
        written.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// The names of its entries, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| {
                let name = entry.expect("the folder is there").file_name();
                name.into_string().expect("a name in UTF-8")
            })
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
