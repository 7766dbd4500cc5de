//! The reader of a run's event files (TensorBoard's `DirectoryLoader`).
//!
//! In: a folder. Out: the events of its files, in the order of their names, each file until its end. Leaves alone: subfolders,
//! which are runs of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::events::reader::{EventOffset, EventReader, ReaderOptions};
use crate::proto::Event;
use crate::storage::{self, Storage};

/// Whether a name is that of an event file, as TensorBoard sees it.
pub fn is_event_file(name: &str) -> bool {
    name.contains("tfevents") && !name.ends_with(".profile-empty")
}

/// A reader of a folder whose files may grow, and to which files may be added.
///
/// As in TensorBoard, a file is taken to be complete once there is a later one.
#[derive(Debug)]
pub struct RunReader {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    /// The single file that is read, if it is not the folder.
    only: Option<std::ffi::OsString>,
    options: ReaderOptions,
    files: Vec<PathBuf>,
    reader: Option<EventReader>,
    /// Files of the folder that are not opened yet, the last first.
    waiting: Vec<std::ffi::OsString>,
    /// The reader is at a record that cannot be read.
    damaged: bool,
}

impl RunReader {
    /// Starts with the first file of a folder, or reads one file alone.
    pub fn open(path: &Path, options: ReaderOptions) -> Result<RunReader> {
        RunReader::open_in(&storage::local(), path, options)
    }

    /// [`open`](RunReader::open) in any storage.
    pub fn open_in(
        storage: &Arc<dyn Storage>,
        path: &Path,
        options: ReaderOptions,
    ) -> Result<RunReader> {
        let (folder, only) = match path.parent() {
            Some(parent) if storage.is_file(path) && parent.as_os_str().is_empty() => {
                (Path::new("."), path.file_name())
            }
            Some(parent) if storage.is_file(path) => (parent, path.file_name()),
            _ => (path, None),
        };
        let mut reader = RunReader {
            storage: Arc::clone(storage),
            folder: folder.to_owned(),
            only: only.map(ToOwned::to_owned),
            options,
            files: Vec::new(),
            reader: None,
            waiting: Vec::new(),
            damaged: false,
        };
        reader.list()?;
        Ok(reader)
    }

    /// The files that were opened so far, in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The next event, with the index of its file and its offset there; `None` means "not yet". A damaged record is reported
    /// once. After one whose checksum is wrong, reading continues with the next file, if there is one.
    pub fn poll(&mut self) -> Result<Option<(usize, EventOffset, Event)>> {
        // The later file must be seen before this one is found to be at its end.
        let mut later: Option<PathBuf> = None;
        loop {
            if let Some(reader) = &mut self.reader
                && !self.damaged
            {
                let before = reader.position();
                match reader.poll() {
                    Ok(Some((offset, event))) => {
                        return Ok(Some((self.files.len() - 1, offset, event)));
                    }
                    Ok(None) => {}
                    Err(e) => {
                        // Reading may work again, and after a record that is no event there may be others.
                        self.damaged = e.code == Code::DataLoss && reader.position() == before;
                        return Err(e);
                    }
                }
            }
            if let Some(path) = later.take() {
                self.reader = Some(EventReader::open_in(&self.storage, &path, self.options)?);
                self.files.push(path);
                self.damaged = false;
                continue;
            }
            later = self.later()?;
            if later.is_none() {
                return Ok(None);
            }
        }
    }

    /// The event at an offset that was returned before.
    pub fn event_at(&self, file: usize, offset: EventOffset) -> Result<Event> {
        let missing = || FormatError::not_found(FileKind::Events, "there is no such event");
        let path = self.files.get(file).ok_or_else(missing)?;
        match EventReader::open_at_in(&self.storage, path, offset, self.options)?.poll()? {
            Some((_, event)) => Ok(event),
            None => Err(missing().at(offset).in_file(path)),
        }
    }

    /// The next file. The folder is listed again when no later file is known.
    fn later(&mut self) -> Result<Option<PathBuf>> {
        if self.waiting.is_empty() {
            self.list()?;
        }
        Ok(self.waiting.pop().map(|name| self.folder.join(name)))
    }

    fn list(&mut self) -> Result<()> {
        let failed =
            |e| FormatError::io(FileKind::Events, "list the folder", e).in_file(&self.folder);
        let last = self.files.last().and_then(|path| path.file_name());
        let mut names = Vec::new();
        for name in self.storage.list(&self.folder).map_err(failed)? {
            let is_later = last.is_none_or(|last| *name > *last);
            let is_selected = match &self.only {
                Some(only) => name == *only,
                None => is_event_file(&name.to_string_lossy()),
            };
            if is_later && is_selected && self.storage.is_file(&self.folder.join(&name)) {
                names.push(name);
            }
        }
        names.reverse();
        self.waiting = names;
        Ok(())
    }
}
