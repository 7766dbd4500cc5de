//! Standard input as a file that is read in order: `-` in a storage whose other paths are those of this machine.
//!
//! What was read is kept for a while, since readers look at the beginning first. Nothing waits for more than was asked for, so that a
//! pipe is predicted as it comes.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use trainspec::env::{ReadAt, Storage};
use trainspec_formats::storage::{self, Lock, Metadata, WriteFile};

use crate::files::STDIN;

/// The bytes before the newest ones that can be read again.
const KEPT_BYTES: usize = 4 << 20;

/// The bytes that are asked for at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The files of this machine, and standard input as `-`.
#[derive(Debug, Default)]
pub(super) struct StdinStorage(Arc<Mutex<Window>>);

/// The bytes of standard input from an offset on.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    is_complete: bool,
}

impl Window {
    /// Reads once more.
    fn fill(&mut self) -> io::Result<()> {
        if self.bytes.len() > 2 * KEPT_BYTES {
            let dropped = self.bytes.len() - KEPT_BYTES;
            self.bytes.drain(..dropped);
            self.start += dropped as u64;
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = io::stdin().lock().read(&mut chunk)?;
        self.bytes.extend_from_slice(&chunk[..read]);
        self.is_complete = read == 0;
        Ok(())
    }
}

struct Stdin(Arc<Mutex<Window>>);

impl ReadAt for Stdin {
    /// The bytes that came so far.
    fn length(&self) -> io::Result<u64> {
        let window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(window.start + window.bytes.len() as u64)
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !window.is_complete && position >= window.start + window.bytes.len() as u64 {
            window.fill()?;
        }
        let Some(from) = position.checked_sub(window.start) else {
            return Err(io::Error::other("standard input is read only once"));
        };
        let known = usize::try_from(from)
            .map_or(&[][..], |from| window.bytes.get(from..).unwrap_or_default());
        let n = known.len().min(buffer.len());
        buffer[..n].copy_from_slice(&known[..n]);
        Ok(n)
    }
}

impl Storage for StdinStorage {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        match path == Path::new(STDIN) {
            true => Ok(Box::new(Stdin(self.0.clone()))),
            false => storage::local().open(path),
        }
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        storage::local().create_new(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        storage::local().create(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        storage::local().append(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        storage::local().rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        storage::local().remove_file(path)
    }

    fn create_dir_all(&self, folder: &Path) -> io::Result<()> {
        storage::local().create_dir_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        storage::local().list(folder)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        storage::local().metadata(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        storage::local().canonicalize(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        storage::local().sync(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        storage::local().try_lock(path)
    }

    fn is_locked(&self, path: &Path) -> bool {
        storage::local().is_locked(path)
    }
}
