//! The file system of this machine, and its name.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::files::ReadAt;
use crate::storage::{FileType, Lock, Metadata, Storage, WriteFile};

/// The file system of this machine; [`local`](super::local) shares one.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalStorage;

impl Storage for LocalStorage {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        // Before it is opened, since opening a pipe waits for its writer.
        check_regular(&fs::metadata(path)?)?;
        let file = File::open(path)?;
        check_regular(&file.metadata()?)?;
        Ok(Box::new(file))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(LocalFile(File::create(path)?)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        // Not `O_APPEND`, with which no byte can be overwritten.
        let mut file = open_or_create(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(LocalFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir_all(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let names = fs::read_dir(or_here(folder))?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<io::Result<Vec<OsString>>>()?;
        names.sort();
        Ok(names)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = fs::metadata(or_here(path))?;
        Ok(Metadata {
            file_type: match (found.is_file(), found.is_dir()) {
                (true, _) => FileType::File,
                (false, true) => FileType::Dir,
                (false, false) => FileType::Other,
            },
            length: found.len(),
            modified: found.modified().ok(),
        })
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(or_here(path))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let path = or_here(path);
        match cfg!(unix) || path.is_file() {
            true => File::open(path)?.sync_all(),
            // On other systems a folder cannot be opened; a rename is as durable as the system makes it.
            false => Ok(()),
        }
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let file = open_or_create(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(LocalLock(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn is_locked(&self, path: &Path) -> bool {
        // A shared lock, so that two who ask at once do not see each other's.
        fs::metadata(path).is_ok_and(|found| found.is_file())
            && File::open(path)
                .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, position)
    }

    #[cfg(windows)]
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buffer, position)
    }
}

/// The host name from the kernel's or the system's files, or the environment.
pub(crate) fn host_name() -> String {
    let known = fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| fs::read_to_string("/etc/hostname"))
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok());
    let name = known.unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[derive(Debug)]
struct LocalFile(File);

impl Write for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteFile for LocalFile {
    fn overwrite(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(position))?;
        let written = self.0.write_all(bytes);
        self.0.seek(SeekFrom::End(0))?;
        written
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)?;
        self.0.seek(SeekFrom::End(0)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// The lock ends when the file is closed.
#[derive(Debug)]
struct LocalLock(File);

impl Lock for LocalLock {
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        self.0.write_all(text.as_bytes())
    }
}

fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

fn check_regular(found: &fs::Metadata) -> io::Result<()> {
    match (found.is_file(), found.is_dir()) {
        (true, _) => Ok(()),
        (false, true) => Err(io::ErrorKind::IsADirectory.into()),
        (false, false) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is no regular file, and only those can be read at any place",
        )),
    }
}

/// The empty path is the working folder.
fn or_here(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}
