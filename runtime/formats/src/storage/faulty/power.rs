//! A simulated power failure: what a storage holds after it is what was synced before.
//!
//! In: the operations of a storage, as they are done. Out: at the failure, the files and names that were safe by then. The bytes of a file
//! are safe once the file is synced; a name that was created, renamed or removed is once its folder is synced, and a new folder once the
//! one above it is. Leaves alone: locks, and folders that are renamed, which count as safe.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::Storage;

/// What a power failure leaves of the names that were not synced. Of bytes that were not synced it leaves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// Nothing.
    Lost,
    /// The last change of each folder, without those before it: a file system may write them in any order.
    LastKept,
}

/// The number of a file, whatever its name is.
pub(super) type FileNumber = usize;

/// What is safe, and what is not yet.
#[derive(Debug)]
pub(super) struct Disk {
    inner: Arc<dyn Storage>,
    files: Vec<File>,
    /// The file that each name stands for; `None` where the name is not there. Names that nothing touched are in neither map.
    live: BTreeMap<PathBuf, Option<FileNumber>>,
    /// As they are after a power failure.
    safe: BTreeMap<PathBuf, Option<FileNumber>>,
    /// The changes of each folder since it was synced.
    pending: BTreeMap<PathBuf, Vec<Change>>,
    /// Folders whose own name is not safe.
    new_folders: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    safe: Vec<u8>,
}

/// One change of a folder.
#[derive(Debug, Clone)]
enum Change {
    Names(Vec<(PathBuf, Option<FileNumber>)>),
    NewFolder(PathBuf),
}

impl Disk {
    /// All that is there is safe.
    pub(super) fn new(inner: &Arc<dyn Storage>) -> Disk {
        Disk {
            inner: Arc::clone(inner),
            files: Vec::new(),
            live: BTreeMap::new(),
            safe: BTreeMap::new(),
            pending: BTreeMap::new(),
            new_folders: BTreeSet::new(),
        }
    }

    /// Learns what a name stands for, before it changes.
    pub(super) fn touch(&mut self, path: &Path) -> io::Result<()> {
        if !self.live.contains_key(path) {
            let found = match self.inner.is_file(path) {
                true => Some(self.add(path, self.inner.read(path)?)),
                false => None,
            };
            self.live.insert(path.to_owned(), found);
            self.safe.insert(path.to_owned(), found);
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, safe: Vec<u8>) -> FileNumber {
        let path = path.to_owned();
        self.files.push(File { path, safe });
        self.files.len() - 1
    }

    /// A file was created, or one that was there opened.
    pub(super) fn opened(&mut self, path: &Path) -> FileNumber {
        if let Some(Some(number)) = self.live.get(path) {
            return *number;
        }
        let number = self.add(path, Vec::new());
        self.change(path, vec![(path.to_owned(), Some(number))]);
        number
    }

    pub(super) fn renamed(&mut self, from: &Path, to: &Path) {
        let number = self.live.get(from).copied().flatten();
        if let Some(number) = number {
            self.files[number].path = to.to_owned();
        }
        let (old, new) = ((from.to_owned(), None), (to.to_owned(), number));
        match folder_of(from) == folder_of(to) {
            true => self.change(to, vec![old, new]),
            false => {
                self.change(from, vec![old]);
                self.change(to, vec![new]);
            }
        }
    }

    pub(super) fn removed(&mut self, path: &Path) {
        self.change(path, vec![(path.to_owned(), None)]);
    }

    /// The folders that are made with one, itself included.
    pub(super) fn missing_folders(&self, folder: &Path) -> Vec<PathBuf> {
        let missing = folder.ancestors().take_while(|f| !self.inner.exists(f));
        missing.map(Path::to_owned).collect()
    }

    pub(super) fn made_folders(&mut self, made: Vec<PathBuf>) {
        for folder in made {
            let change = Change::NewFolder(folder.clone());
            let above = folder_of(&folder).to_owned();
            self.pending.entry(above).or_default().push(change);
            self.new_folders.insert(folder);
        }
    }

    /// A file was synced. One without a name any more is lost in any case.
    pub(super) fn synced(&mut self, number: FileNumber) -> io::Result<()> {
        let path = self.files[number].path.clone();
        if self.live.get(&path) == Some(&Some(number)) {
            self.files[number].safe = self.inner.read(&path)?;
        }
        Ok(())
    }

    /// A file or a folder was synced by its path.
    pub(super) fn synced_path(&mut self, path: &Path) -> io::Result<()> {
        if self.inner.is_dir(path) {
            for change in self.pending.remove(path).unwrap_or_default() {
                self.make_safe(change);
            }
            return Ok(());
        }
        self.touch(path)?;
        match self.live[path] {
            Some(number) => self.synced(number),
            None => Ok(()),
        }
    }

    /// Leaves in the storage what is safe.
    pub(super) fn fail(&mut self, unsynced: Unsynced) -> io::Result<()> {
        for changes in std::mem::take(&mut self.pending).into_values() {
            match (unsynced, changes.last()) {
                (Unsynced::LastKept, Some(last)) => self.make_safe(last.clone()),
                (Unsynced::Lost, _) | (Unsynced::LastKept, None) => {}
            }
        }
        for (path, file) in &self.safe {
            let is_lost = path.ancestors().any(|f| self.new_folders.contains(f));
            match file.filter(|_| !is_lost) {
                Some(number) => {
                    let mut file = self.inner.create(path)?;
                    file.write_all(&self.files[number].safe)?;
                }
                None => match self.inner.remove_file(path) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    fn change(&mut self, path: &Path, names: Vec<(PathBuf, Option<FileNumber>)>) {
        self.live.extend(names.iter().cloned());
        let folder = folder_of(path).to_owned();
        let changes = self.pending.entry(folder).or_default();
        changes.push(Change::Names(names));
    }

    fn make_safe(&mut self, change: Change) {
        match change {
            Change::Names(names) => self.safe.extend(names),
            Change::NewFolder(folder) => {
                self.new_folders.remove(&folder);
            }
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
