//! One event file that is being written (`EventsWriter`): its name, its version event, and complete records after it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;

use crate::clock::Clock;
use crate::error::{FileKind, FormatError, Result};
use crate::events::{VERSION_PREFIX, frames};
use crate::files::{Durability, create_dir_in};
use crate::proto::event::What;
use crate::proto::{Event, SourceMetadata, Summary};
use crate::storage::{Lock, Storage, WriteFile};

/// The buffered bytes at which the buffer is flushed.
const FLUSH_THRESHOLD_BYTES: usize = 1 << 18;

/// Where event files are, and the components of their names.
#[derive(Debug, Clone)]
pub(super) struct Naming {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) folder: PathBuf,
    pub(super) host: String,
    pub(super) suffix: String,
}

/// An open event file, which has its version event.
#[derive(Debug)]
pub(super) struct EventFile {
    file: Box<dyn WriteFile>,
    /// Marks the file as being written, as long as it is open.
    lock: Option<Box<dyn Lock>>,
    path: PathBuf,
    naming: Naming,
    /// Complete records that are not written yet.
    buffer: Vec<u8>,
    /// The file's length up to the last record that is written.
    length: u64,
    /// Tags that have a value in this file: their metadata are written.
    tags: HashSet<String>,
}

impl EventFile {
    /// Creates a file, whose name sorts after that of `previous`, and writes the version event.
    pub(super) fn create(naming: Naming, seconds: f64, previous: Option<&Path>) -> Result<Self> {
        let (file, path) = create(&naming, seconds, previous)?;
        let mut file = EventFile {
            lock: lock(&*naming.storage, &path),
            file,
            path,
            naming,
            buffer: Vec::new(),
            length: 0,
            tags: HashSet::new(),
        };
        file.push(&first_event(seconds));
        file.write()?;
        Ok(file)
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the buffer is empty.
    pub(super) fn is_flushed(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Appends an event to the buffer, which is flushed when it is full.
    pub(super) fn append(&mut self, event: &Event, clock: &dyn Clock) -> Result<()> {
        self.push(event);
        match self.buffer.len() >= FLUSH_THRESHOLD_BYTES {
            true => self.flush(clock),
            false => Ok(()),
        }
    }

    /// Removes the metadata from a summary for tags that had a value before, as TensorFlow does.
    pub(super) fn drop_known(&mut self, summary: &mut Summary) {
        for value in &mut summary.value {
            match self.tags.contains(&value.tag) {
                true => value.metadata = None,
                false => {
                    self.tags.insert(value.tag.clone());
                }
            }
        }
    }

    /// Writes the buffer to the file. A file that was removed meanwhile is created again.
    pub(super) fn flush(&mut self, clock: &dyn Clock) -> Result<()> {
        if !self.buffer.is_empty() && !self.naming.storage.exists(&self.path) {
            let seconds = clock.unix_seconds();
            let (file, path) = create(&self.naming, seconds, Some(&self.path))?;
            self.lock = lock(&*self.naming.storage, &path);
            (self.file, self.path, self.length) = (file, path, 0);
            self.tags.clear();
            let held = std::mem::take(&mut self.buffer);
            self.push(&first_event(seconds));
            self.buffer.extend(held);
        }
        self.write()
    }

    fn push(&mut self, event: &Event) {
        frames::append(&mut self.buffer, |to| {
            event.encode(to).expect("a vector grows");
        });
    }

    fn write(&mut self) -> Result<()> {
        if let Err(e) = self.file.write_all(&self.buffer) {
            // A partial record would hide the ones after it from readers, and a file without any means nothing.
            let _ = match self.length {
                0 => self.naming.storage.remove_file(&self.path),
                complete => self.file.truncate(complete),
            };
            return Err(FormatError::io(FileKind::Events, "write it", e)
                .at(self.length)
                .in_file(&self.path));
        }
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        // The capacity for one large event is released.
        self.buffer.shrink_to(2 * FLUSH_THRESHOLD_BYTES);
        Ok(())
    }
}

fn first_event(seconds: f64) -> Event {
    Event {
        // TensorFlow writes integral seconds here.
        wall_time: seconds.floor(),
        what: Some(What::FileVersion(format!("{VERSION_PREFIX}2"))),
        source_metadata: Some(SourceMetadata {
            writer: "tensorflow.core.util.events_writer".to_owned(),
        }),
        ..Default::default()
    }
}

/// Creates a new file: `events.out.tfevents.<seconds>.<host>.<process>.<count><suffix>`.
///
/// Readers take the files of a folder in the order of their names, so a name sorts after that of the previous file, or of every file that
/// is there: also where a run goes on within the same second, and where the clock was set back. A file is never overwritten.
fn create(
    naming: &Naming,
    seconds: f64,
    previous: Option<&Path>,
) -> Result<(Box<dyn WriteFile>, PathBuf)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = &naming.folder;
    create_dir_in(&naming.storage, folder, Durability::Synced)
        .map_err(|e| FormatError::io(FileKind::Events, "create the folder", e).in_file(folder))?;
    let process = std::process::id();
    let previous = match previous {
        Some(path) => path.file_name().map(ToOwned::to_owned),
        None => newest_name(naming),
    };
    let least = previous.as_deref().and_then(seconds_of);
    // The cast saturates negative and huge times.
    let mut second = seconds as u64;
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let (host, suffix) = (&naming.host, &naming.suffix);
        let name = format!("events.out.tfevents.{second:010}.{host}.{process}.{count}{suffix}");
        let path = folder.join(name);
        if previous.as_deref() >= path.file_name() {
            second = second.saturating_add(1).max(least.unwrap_or(0));
            continue;
        }
        match naming.storage.create_new(&path) {
            Ok(file) => return Ok((file, path)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(FormatError::io(FileKind::Events, "create it", e).in_file(path)),
        }
    }
}

/// The last name in a folder that is that of an event file and that a name can follow. A folder that cannot be listed can be written to.
fn newest_name(naming: &Naming) -> Option<OsString> {
    let names = naming.storage.list(&naming.folder).unwrap_or_default();
    let names = names.into_iter();
    names.filter(|name| seconds_of(name).is_some()).max()
}

/// The seconds in the name of an event file, if names of later seconds sort after it.
fn seconds_of(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?.strip_prefix("events.out.tfevents.")?;
    let (digits, _) = name.split_once('.')?;
    let is_number = digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit());
    let seconds = is_number.then(|| digits.parse().ok()).flatten()?;
    (seconds < 9_999_999_999).then_some(seconds)
}

/// Locks a file that is being written. Where there are no such locks, it is not marked; outside of Unix, one keeps others from reading.
fn lock(storage: &dyn Storage, path: &Path) -> Option<Box<dyn Lock>> {
    match cfg!(unix) {
        true => storage.try_lock(path).ok().flatten(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_file_has_a_later_name() {
        let folder = std::env::temp_dir().join(format!("trainspec-names-{}", std::process::id()));
        let naming = Naming {
            storage: crate::storage::local(),
            folder: folder.clone(),
            host: "h".to_owned(),
            suffix: ".x".to_owned(),
        };
        let mut previous: Option<PathBuf> = None;
        for _ in 0..30 {
            let file = EventFile::create(naming.clone(), 7.9, previous.as_deref()).unwrap();
            assert!(previous.is_none_or(|previous| previous < file.path));
            previous = Some(file.path);
        }
        let name = previous.unwrap().file_name().unwrap().to_owned();
        let name = name.to_str().unwrap();
        assert!(name.starts_with("events.out.tfevents.00000000"), "{name}");
        assert!(name.ends_with(".x"), "{name}");
        // Nor is it earlier than what another process left, whose clock was ahead; other names do not count.
        let left = "events.out.tfevents.1900000000.z.9.9";
        let others = [
            "events.out.tfevents.9999999999.h",
            "events.out.tfevents.zzz.h",
        ];
        for name in others.iter().chain([&left]) {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let file = EventFile::create(naming, 1_800_000_000.0, None).unwrap();
        let name = file.path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with("events.out.tfevents.1900000001.h."),
            "{name}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
