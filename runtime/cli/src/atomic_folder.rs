//! A folder that appears at once, when all of its files are written (write to a temporary folder, rename).

use std::path::{Path, PathBuf};

use trainspec_formats::FileKind;
use trainspec_formats::files::{Durability, replace};

use crate::failure::Failure;

/// A folder under another name until it is complete.
pub(crate) struct AtomicFolder {
    pub(crate) path: PathBuf,
}

impl AtomicFolder {
    pub(crate) fn create(output: &Path) -> Result<AtomicFolder, Failure> {
        let path = beside(output, "tmp");
        std::fs::create_dir_all(&path).map_err(|e| failed("create it", output, &e))?;
        Ok(AtomicFolder { path })
    }

    pub(crate) fn write(&self, name: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| failed("create it", folder, &e))?;
        }
        replace(FileKind::Other, &path, bytes, Durability::Synced).map_err(Failure::output)
    }

    /// The names of the files in it, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Failure> {
        let entries = std::fs::read_dir(&self.path);
        let entries = entries.map_err(|e| failed("read it", &self.path, &e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Gives it its name; what was there before is moved aside, and then removed.
    pub(crate) fn commit(self, output: &Path) -> Result<(), Failure> {
        let old = beside(output, "old");
        if output.exists() {
            std::fs::rename(output, &old).map_err(|e| failed("move it aside", output, &e))?;
        }
        if let Err(e) = std::fs::rename(&self.path, output) {
            let _ = std::fs::rename(&old, output);
            return Err(failed("write it", output, &e));
        }
        // The new one is there already.
        let _ = std::fs::remove_dir_all(&old);
        Ok(())
    }
}

impl Drop for AtomicFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A path beside another one, of this process.
fn beside(path: &Path, kind: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{kind}-{}", std::process::id()));
    path.with_file_name(name)
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::output(format!("{}: cannot {what}: {error}", path.display()))
}
