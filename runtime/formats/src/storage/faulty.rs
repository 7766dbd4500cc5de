//! Deterministic fault injection, for tests: a storage that fails, tears a write, loses what was not synced, or kills the process at the
//! n-th operation.
//!
//! In: another storage, and a plan. Out: the same storage, with one fault. Whatever changes files is an operation and is counted from 1;
//! reads are counted apart and fail only on request.

mod power;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::files::ReadAt;
use crate::storage::{Lock, Metadata, Storage, WriteFile};

pub use power::Unsynced;
use power::{Disk, FileNumber};

/// A storage with a fault, for tests.
///
/// ```
/// use std::io::ErrorKind;
/// use std::sync::Arc;
/// use trainspec_formats::files::{Durability, replace_in};
/// use trainspec_formats::storage::faulty::{Effect, Fault, FaultyStorage};
/// use trainspec_formats::storage::{self, Storage};
/// use trainspec_formats::{Code, FileKind};
///
/// # let folder = std::env::temp_dir().join(format!("trainspec-doc-faulty-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let faulty = Arc::new(FaultyStorage::new(storage::local()));
/// // The file is created first, and written then.
/// faulty.inject(Fault::at(2, Effect::Tear(ErrorKind::StorageFull)));
/// let storage: Arc<dyn Storage> = faulty.clone();
/// let path = folder.join("state");
/// let error = replace_in(&storage, FileKind::Other, &path, b"new", Durability::Synced).unwrap_err();
/// assert_eq!(error.code, Code::ResourceExhausted);
/// assert!(faulty.has_fired());
/// assert!(storage.list(&folder).unwrap().is_empty());
/// # std::fs::remove_dir_all(folder).unwrap();
/// ```
#[derive(Debug)]
pub struct FaultyStorage {
    inner: Arc<dyn Storage>,
    plan: Arc<Plan>,
}

/// What goes wrong, and at which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The operation, counted from 1 since the storage was made.
    pub at: u64,
    /// What happens there.
    pub effect: Effect,
    /// Whether every later operation fails too, with the same error.
    pub sticky: bool,
    /// Only operations count and fail whose path contains this.
    pub only: Option<&'static str>,
}

/// What goes wrong at an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It fails and does nothing.
    Fail(io::ErrorKind),
    /// A write stores half of its bytes and fails; any other operation fails.
    Tear(io::ErrorKind),
    /// A write stores half of its bytes and says so, as a file system may; any other operation is done.
    Short,
    /// The process ends as by SIGKILL: no destructor runs. A write stores half of its bytes before.
    Kill,
    /// The power fails: the storage holds what was synced since the fault was planned, and what was there before. This operation and
    /// all later ones fail, reads too.
    PowerFailure(Unsynced),
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creates, truncates or opens a file to write.
    Create,
    /// Writes bytes to a file.
    Write,
    /// Cuts a file to a length.
    Truncate,
    /// Syncs a file that is open.
    Sync,
    /// Syncs a file or a folder by its path.
    SyncPath,
    /// Renames a file; the path is the new one.
    Rename,
    /// Removes a file.
    Remove,
    /// Creates a folder.
    CreateDir,
    /// Takes a lock.
    Lock,
    /// Opens a file to read, reads of it, lists a folder or asks for metadata.
    Read,
}

impl Fault {
    /// A fault at an operation, after which everything works again.
    pub fn at(at: u64, effect: Effect) -> Fault {
        Fault {
            at,
            effect,
            sticky: false,
            only: None,
        }
    }

    /// This fault, counted and done only where a path contains `part`.
    pub fn only(self, part: &'static str) -> Fault {
        Fault {
            only: Some(part),
            ..self
        }
    }

    /// This fault, with every later operation failing too.
    pub fn sticky(self) -> Fault {
        Fault {
            sticky: true,
            ..self
        }
    }
}

impl FaultyStorage {
    /// Wraps a storage; there is no fault yet.
    pub fn new(inner: Arc<dyn Storage>) -> FaultyStorage {
        FaultyStorage {
            inner,
            plan: Arc::default(),
        }
    }

    /// Plans a fault of the operations that change files, in place of any before.
    pub fn inject(&self, fault: Fault) {
        self.observe(fault);
        self.plan.state().fault = Some(fault);
    }

    /// Plans a fault of reads, in place of any before. They are counted apart.
    pub fn inject_read(&self, fault: Fault) {
        self.observe(fault);
        self.plan.state().read_fault = Some(fault);
    }

    /// Begins to observe what is safe, where the power will fail.
    fn observe(&self, fault: Fault) {
        if matches!(fault.effect, Effect::PowerFailure(_)) {
            let disk = &mut *self.plan.disk();
            disk.get_or_insert_with(|| Disk::new(&self.inner));
        }
    }

    /// The number of operations so far that change files.
    pub fn operations(&self) -> u64 {
        self.plan.state().operations.len() as u64
    }

    /// The number of reads so far.
    pub fn reads(&self) -> u64 {
        self.plan.state().reads
    }

    /// The operations so far that change files, and their paths.
    pub fn log(&self) -> Vec<(Operation, PathBuf)> {
        self.plan.state().operations.clone()
    }

    /// Whether a fault has happened.
    pub fn has_fired(&self) -> bool {
        self.plan.state().fired
    }

    /// An operation that changes nothing of a file or its name.
    fn apply<T>(
        &self,
        operation: Operation,
        path: &Path,
        run: impl FnOnce(&dyn Storage) -> io::Result<T>,
    ) -> io::Result<T> {
        self.plan.apply(operation, path, None)?;
        run(&*self.inner)
    }

    /// An operation that changes names. What it changes is learnt before, and recorded afterwards.
    fn change<T, L>(
        &self,
        operation: Operation,
        path: &Path,
        run: impl FnOnce(&dyn Storage) -> io::Result<T>,
        learn: impl FnOnce(&mut Disk) -> io::Result<L>,
        record: impl FnOnce(&mut Disk, L) -> io::Result<()>,
    ) -> io::Result<T> {
        let mut disk = self.plan.disk();
        self.plan.apply(operation, path, disk.as_mut())?;
        let Some(disk) = disk.as_mut() else {
            return run(&*self.inner);
        };
        let learnt = learn(disk)?;
        let done = run(&*self.inner)?;
        record(disk, learnt)?;
        Ok(done)
    }

    fn opened(
        &self,
        path: &Path,
        open: impl FnOnce(&dyn Storage) -> io::Result<Box<dyn WriteFile>>,
    ) -> io::Result<Box<dyn WriteFile>> {
        let mut number = None;
        let touch = |disk: &mut Disk| disk.touch(path);
        let record = |disk: &mut Disk, ()| {
            number = Some(disk.opened(path));
            Ok(())
        };
        let file = self.change(Operation::Create, path, open, touch, record)?;
        Ok(Box::new(FaultyFile {
            inner: file,
            path: path.to_owned(),
            number,
            plan: Arc::clone(&self.plan),
        }))
    }
}

impl Storage for FaultyStorage {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        let file = self.apply(Operation::Read, path, |inner| inner.open(path))?;
        Ok(Box::new(FaultyReads {
            inner: file,
            path: path.to_owned(),
            plan: Arc::clone(&self.plan),
        }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.opened(path, |inner| inner.create_new(path))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.opened(path, |inner| inner.create(path))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.opened(path, |inner| inner.append(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let learn = |disk: &mut Disk| match self.inner.is_dir(from) {
            true => Ok(false),
            false => disk
                .touch(from)
                .and_then(|()| disk.touch(to))
                .map(|()| true),
        };
        let record = |disk: &mut Disk, is_file: bool| {
            if is_file {
                disk.renamed(from, to);
            }
            Ok(())
        };
        let run = |inner: &dyn Storage| inner.rename(from, to);
        self.change(Operation::Rename, to, run, learn, record)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let run = |inner: &dyn Storage| inner.remove_file(path);
        let touch = |disk: &mut Disk| disk.touch(path);
        let record = |disk: &mut Disk, ()| {
            disk.removed(path);
            Ok(())
        };
        self.change(Operation::Remove, path, run, touch, record)
    }

    fn create_dir_all(&self, folder: &Path) -> io::Result<()> {
        let run = |inner: &dyn Storage| inner.create_dir_all(folder);
        let learn = |disk: &mut Disk| Ok(disk.missing_folders(folder));
        let record = |disk: &mut Disk, made| {
            disk.made_folders(made);
            Ok(())
        };
        self.change(Operation::CreateDir, folder, run, learn, record)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.apply(Operation::Read, folder, |inner| inner.list(folder))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.apply(Operation::Read, path, |inner| inner.metadata(path))
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.apply(Operation::Read, path, |inner| inner.canonicalize(path))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let run = |inner: &dyn Storage| inner.sync(path);
        let record = |disk: &mut Disk, ()| disk.synced_path(path);
        self.change(Operation::SyncPath, path, run, |_| Ok(()), record)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let lock = self.apply(Operation::Lock, path, |inner| inner.try_lock(path))?;
        Ok(lock.map(|inner| {
            let (path, plan) = (path.to_owned(), Arc::clone(&self.plan));
            Box::new(FaultyLock { inner, path, plan }) as Box<dyn Lock>
        }))
    }

    fn is_locked(&self, path: &Path) -> bool {
        self.inner.is_locked(path)
    }
}

/// The planned faults, and the counts.
#[derive(Debug, Default)]
struct Plan {
    state: Mutex<State>,
    /// What is safe, where a power failure is planned. It is held throughout an operation, before the state.
    disk: Mutex<Option<Disk>>,
}

#[derive(Debug, Default)]
struct State {
    operations: Vec<(Operation, PathBuf)>,
    reads: u64,
    fault: Option<Fault>,
    read_fault: Option<Fault>,
    fired: bool,
    /// Whether the power has failed.
    is_off: bool,
}

impl Plan {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation; returns what goes wrong with it.
    fn count(&self, operation: Operation, path: &Path) -> Option<Effect> {
        let mut state = self.state();
        if state.is_off {
            return Some(Effect::Fail(POWER_IS_OFF));
        }
        let is_meant = |fault: Option<Fault>, path: &Path| {
            let part = fault.and_then(|fault| fault.only);
            part.is_none_or(|part| path.to_string_lossy().contains(part))
        };
        let (number, fault) = match operation {
            Operation::Read => {
                state.reads += u64::from(is_meant(state.read_fault, path));
                (state.reads, state.read_fault)
            }
            _ => {
                state.operations.push((operation, path.to_owned()));
                let fault = state.fault;
                let meant = state.operations.iter().filter(|(_, p)| is_meant(fault, p));
                (meant.count() as u64, fault)
            }
        };
        let fault = fault.filter(|fault| is_meant(Some(*fault), path));
        let fault = fault.filter(|f| f.at == number || f.sticky && f.at < number)?;
        state.fired = true;
        Some(fault.effect)
    }

    /// Counts an operation that does not transfer bytes, and fails if it is planned to.
    fn apply(&self, operation: Operation, path: &Path, disk: Option<&mut Disk>) -> io::Result<()> {
        match self.count(operation, path) {
            None | Some(Effect::Short) => Ok(()),
            Some(Effect::Fail(kind) | Effect::Tear(kind)) => Err(kind.into()),
            Some(Effect::Kill) => kill(),
            Some(Effect::PowerFailure(unsynced)) => Err(self.power_failure(disk, unsynced)),
        }
    }

    /// Counts an operation that transfers bytes by `run`, which gets how many at most.
    fn transfer(
        &self,
        operation: Operation,
        path: &Path,
        bytes: usize,
        disk: Option<&mut Disk>,
        run: impl FnOnce(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self.count(operation, path) {
            None => run(bytes),
            Some(Effect::Fail(kind)) => Err(kind.into()),
            Some(Effect::Tear(kind)) => {
                run(bytes / 2)?;
                Err(kind.into())
            }
            // Nothing at all would mean the end.
            Some(Effect::Short) => run(bytes.div_ceil(2)),
            Some(Effect::Kill) => {
                let _ = run(bytes / 2);
                kill()
            }
            Some(Effect::PowerFailure(unsynced)) => Err(self.power_failure(disk, unsynced)),
        }
    }

    /// Leaves what is safe; the error of the operation, which may hold the disk already.
    fn power_failure(&self, disk: Option<&mut Disk>, unsynced: Unsynced) -> io::Error {
        self.state().is_off = true;
        let failed = match disk {
            Some(disk) => disk.fail(unsynced),
            None => (self.disk().as_mut()).map_or(Ok(()), |disk| disk.fail(unsynced)),
        };
        failed.err().unwrap_or_else(|| POWER_IS_OFF.into())
    }
}

/// The error of operations after a power failure.
const POWER_IS_OFF: io::ErrorKind = io::ErrorKind::BrokenPipe;

/// Ends the process as by SIGKILL, so that nothing is cleaned up.
fn kill() -> ! {
    let id = std::process::id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-9", &id])
        .status();
    if !sent.is_ok_and(|status| status.success()) {
        std::process::abort();
    }
    loop {
        std::thread::park();
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn WriteFile>,
    path: PathBuf,
    /// Its number, where a power failure is planned.
    number: Option<FileNumber>,
    plan: Arc<Plan>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Until all are stored: only the plan may say how many.
        let inner = &mut self.inner;
        let run = |count: usize| inner.write_all(&bytes[..count]).map(|()| count);
        let mut disk = self.plan.disk();
        let (disk, length) = (disk.as_mut(), bytes.len());
        (self.plan).transfer(Operation::Write, &self.path, length, disk, run)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl WriteFile for FaultyFile {
    fn overwrite(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let inner = &mut self.inner;
        let mut run = |count: usize| inner.overwrite(position, &bytes[..count]).map(|()| count);
        let mut disk = self.plan.disk();
        let (disk, length) = (disk.as_mut(), bytes.len());
        let done = (self.plan).transfer(Operation::Write, &self.path, length, disk, &mut run)?;
        // It has no form that may be short: the rest follows.
        match done < bytes.len() {
            true => run(bytes.len()).map(drop),
            false => Ok(()),
        }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut disk = self.plan.disk();
        (self.plan).apply(Operation::Truncate, &self.path, disk.as_mut())?;
        self.inner.truncate(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.plan.disk();
        (self.plan).apply(Operation::Sync, &self.path, disk.as_mut())?;
        self.inner.sync()?;
        match (disk.as_mut(), self.number) {
            (Some(disk), Some(number)) => disk.synced(number),
            (None, _) | (_, None) => Ok(()),
        }
    }
}

struct FaultyReads {
    inner: Box<dyn ReadAt>,
    path: PathBuf,
    plan: Arc<Plan>,
}

impl ReadAt for FaultyReads {
    fn length(&self) -> io::Result<u64> {
        self.plan.apply(Operation::Read, &self.path, None)?;
        self.inner.length()
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len();
        let run = |count: usize| self.inner.read_at(position, &mut buffer[..count]);
        (self.plan).transfer(Operation::Read, &self.path, length, None, run)
    }
}

#[derive(Debug)]
struct FaultyLock {
    inner: Box<dyn Lock>,
    path: PathBuf,
    plan: Arc<Plan>,
}

impl Lock for FaultyLock {
    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut disk = self.plan.disk();
        (self.plan).apply(Operation::Write, &self.path, disk.as_mut())?;
        self.inner.write(text)
    }
}
