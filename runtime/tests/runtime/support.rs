//! An environment with data files in memory, and helpers that run data sets and specs in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trainspec::env::{Clock, Env, ReadAt, Storage};
use trainspec::internals::data::{DataContext, Element, Pipeline};
use trainspec::registry::Registry;
use trainspec::session::{Event, Options};
use trainspec::train;
use trainspec::{Error, State};
use trainspec_compiler::Compilation;
use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;
use trainspec_formats::storage::{Lock, Metadata, WriteFile};

/// Files by path, and a fake clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryEnv {
    files: Arc<BTreeMap<PathBuf, Vec<u8>>>,
    clock: Arc<TickingClock>,
}

/// A fake clock that advances a second per reading.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn unix_seconds(&self) -> f64 {
        self.now().as_secs_f64()
    }

    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_secs(), Ordering::Relaxed);
    }
}

impl MemoryEnv {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> MemoryEnv {
        let file = |(path, bytes): &(&str, &[u8])| (PathBuf::from(path), bytes.to_vec());
        MemoryEnv {
            files: Arc::new(files.iter().map(file).collect()),
            clock: Arc::default(),
        }
    }
}

impl MemoryEnv {
    /// The environment: relative paths are files in memory, all others those of the disk.
    pub(crate) fn env(&self) -> Env {
        self.env_opening(|file| file)
    }

    /// As [`MemoryEnv::env`], with every file in memory passed through a function when it is opened.
    pub(crate) fn env_opening(
        &self,
        opening: impl Fn(Box<dyn ReadAt>) -> Box<dyn ReadAt> + Send + Sync + 'static,
    ) -> Env {
        Env {
            storage: Arc::new(MemoryStorage {
                files: self.files.clone(),
                opening: Box::new(opening),
                disk: trainspec_formats::storage::local(),
            }),
            clock: self.clock.clone(),
        }
    }
}

/// What happens to an opened file.
type Opening = Box<dyn Fn(Box<dyn ReadAt>) -> Box<dyn ReadAt> + Send + Sync>;

/// Files in memory over those of the disk.
struct MemoryStorage {
    files: Arc<BTreeMap<PathBuf, Vec<u8>>>,
    opening: Opening,
    disk: Arc<dyn Storage>,
}

impl std::fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MemoryStorage")
            .field(&self.files.keys())
            .finish()
    }
}

impl Storage for MemoryStorage {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        match self.files.get(path) {
            Some(bytes) => Ok((self.opening)(Box::new(MemoryFile(bytes.clone())))),
            None if path.is_relative() => Err(io::ErrorKind::NotFound.into()),
            None => self.disk.open(path),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        if folder.is_absolute() {
            return self.disk.list(folder);
        }
        let below = (self.files.keys()).filter_map(|p| p.strip_prefix(folder).ok());
        let names: BTreeSet<OsString> = below
            .filter_map(|p| Some(p.components().next()?.as_os_str().to_owned()))
            .collect();
        Ok(names.into_iter().collect())
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.disk.create_new(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.disk.create(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.disk.append(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn create_dir_all(&self, folder: &Path) -> io::Result<()> {
        self.disk.create_dir_all(folder)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.disk.metadata(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.canonicalize(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.disk.sync(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.disk.try_lock(path)
    }

    fn is_locked(&self, path: &Path) -> bool {
        self.disk.is_locked(path)
    }
}

struct MemoryFile(Vec<u8>);

impl ReadAt for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    /// Short reads of at most 7 bytes, so that no caller may rely on full ones.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.0[(offset as usize).min(self.0.len())..];
        let n = rest.len().min(buffer.len()).min(7);
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

/// A checked spec.
pub(crate) fn spec(text: &str) -> Arc<Spec> {
    let (spec, errors, _) = check(text);
    assert!(errors.is_empty(), "{errors:?}\n{text}");
    spec.unwrap()
}

/// The messages of the errors that the checker finds in a spec.
pub(crate) fn check_errors(text: &str) -> Vec<String> {
    check(text).1
}

/// The messages of the warnings that the checker finds in a spec.
pub(crate) fn check_warnings(text: &str) -> Vec<String> {
    check(text).2
}

/// A spec, where it has no errors, the messages of its errors, and those of its warnings.
fn check(text: &str) -> (Option<Arc<Spec>>, Vec<String>, Vec<String>) {
    let compilation = Compilation::check("test.trainspec", text, &NoFiles, &Default::default());
    let (errors, warnings): (Vec<Diagnostic>, Vec<Diagnostic>) = compilation
        .diagnostics
        .into_iter()
        .partition(Diagnostic::is_error);
    let messages = |list: Vec<Diagnostic>| list.into_iter().map(|d| d.message).collect();
    (compilation.spec, messages(errors), messages(warnings))
}

/// The first `limit` elements of a data set with those settings.
pub(crate) fn read(env: &MemoryEnv, settings: &str, limit: usize) -> Result<Vec<Element>, Error> {
    read_seeded(env, settings, limit, 0)
}

/// The first `limit` elements of a data set, with a seed.
pub(crate) fn read_seeded(
    env: &MemoryEnv,
    settings: &str,
    limit: usize,
    seed: i64,
) -> Result<Vec<Element>, Error> {
    let mut data = open(env, settings, seed)?;
    let mut elements = Vec::new();
    while elements.len() < limit
        && let Some(element) = data.next()?
    {
        elements.push(element);
    }
    Ok(elements)
}

/// A data set with those settings, and a seed.
pub(crate) fn open(env: &MemoryEnv, settings: &str, seed: i64) -> Result<Pipeline, Error> {
    let spec = spec(&format!("spec test; data d {{ {settings} }}"));
    Pipeline::open(&context(env, &spec, seed), &spec.data[0])
}

/// The context of the data sets of a spec.
pub(crate) fn context(env: &MemoryEnv, spec: &Arc<Spec>, seed: i64) -> DataContext {
    context_with(env, spec, seed, Default::default())
}

/// The context of the data sets of a spec, with what the program registers.
pub(crate) fn context_with(
    env: &MemoryEnv,
    spec: &Arc<Spec>,
    seed: i64,
    registry: Registry,
) -> DataContext {
    let options = Options {
        env: env.env(),
        engine: trainspec::Engine::compiled(1),
        registry,
        ..Options::default()
    };
    DataContext::of(spec, &options, seed)
}

/// The integers of a feature, of all elements in a row.
pub(crate) fn ints(elements: &[Element], name: &str) -> Vec<i64> {
    elements
        .iter()
        .flat_map(|e| e.values[name].to_i64s())
        .collect()
}

/// How many records each batch has.
pub(crate) fn rows(elements: &[Element]) -> Vec<usize> {
    elements.iter().map(|e| e.rows.unwrap()).collect()
}

/// A file with the numbers from 0 to before `n`, a line each.
pub(crate) fn numbers(n: usize) -> Vec<u8> {
    (0..n).map(|i| format!("{i}\n")).collect::<String>().into()
}

/// Trains a spec; gives its final state and its events.
pub(crate) fn run(
    env: &MemoryEnv,
    text: &str,
    options: &Options,
) -> (Result<State, Error>, Vec<Event>) {
    let spec = spec(text);
    let mut events = Vec::new();
    let folder = RunDir::new();
    let options = Options {
        dir: Some(folder.0.clone()),
        env: env.env(),
        ..options.clone()
    };
    let outcome = train(&spec, &options, &mut |event: &Event| {
        events.push(event.clone());
    });
    (outcome, events)
}

/// Waits for something that another thread is about to do.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many threads of that name there are in this process. One that was joined may be seen for an instant.
pub(crate) fn threads(name: &str) -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0; // Linux alone lists them.
    };
    let tasks = tasks.flatten();
    // A thread may end while it is looked at; names are cut to 15 bytes.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let name = &name[..name.len().min(15)];
    names.filter(|found| found.trim_end() == name).count()
}

/// A folder for the checkpoints of a run, removed at its end.
pub(crate) struct RunDir(pub(crate) PathBuf);

impl RunDir {
    pub(crate) fn new() -> RunDir {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trainspec-run-{}-{count}", std::process::id());
        RunDir(std::env::temp_dir().join(name))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
