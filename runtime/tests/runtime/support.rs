//! A world of files that are only held in memory, and short ways to run data sets and specs in it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainspec::data::{Element, Opening, Pipeline};
use trainspec::outside::{Bytes, Outside};
use trainspec::session::{Event, Options, train};
use trainspec::{SessionError, State};
use trainspec_compiler::Compilation;
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::typed::Spec;

/// Files by path; every look at the clock finds it a second later.
#[derive(Debug, Default)]
pub(crate) struct World {
    files: BTreeMap<PathBuf, Vec<u8>>,
    clock: Cell<u64>,
}

impl World {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> World {
        let held = |(path, bytes): &(&str, &[u8])| (PathBuf::from(path), bytes.to_vec());
        World {
            files: files.iter().map(held).collect(),
            clock: Cell::new(0),
        }
    }
}

impl Outside for World {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Bytes>> {
        match self.files.get(path) {
            Some(bytes) => Ok(Box::new(Held(bytes.clone()))),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let inside = self
            .files
            .keys()
            .filter_map(|p| p.strip_prefix(folder).ok());
        let mut names: Vec<String> = inside
            .filter_map(|p| Some(p.components().next()?.as_os_str().to_str()?.to_owned()))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn now(&self) -> Duration {
        self.clock.set(self.clock.get() + 1);
        Duration::from_secs(self.clock.get())
    }
}

struct Held(Vec<u8>);

impl Bytes for Held {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    /// A few bytes at a time, so that nothing may rely on getting all it asked for.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.0[(position as usize).min(self.0.len())..];
        let n = rest.len().min(buffer.len()).min(7);
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

/// A checked spec.
pub(crate) fn spec(text: &str) -> Spec {
    let compilation = Compilation::check("test.trainspec", text, &NoFiles, &Default::default());
    let errors: Vec<&String> = compilation
        .diagnostics
        .iter()
        .filter(|d| d.is_error())
        .map(|d| &d.message)
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{text}");
    compilation.spec.unwrap()
}

/// The first elements of a data set with those settings.
pub(crate) fn read(
    world: &World,
    settings: &str,
    limit: usize,
) -> Result<Vec<Element>, SessionError> {
    read_seeded(world, settings, limit, 0)
}

/// The same with a seed.
pub(crate) fn read_seeded(
    world: &World,
    settings: &str,
    limit: usize,
    seed: i64,
) -> Result<Vec<Element>, SessionError> {
    let spec = spec(&format!("spec test; data d {{ {settings} }}"));
    let disabled = Default::default();
    let cx = Opening {
        spec: &spec,
        outside: world,
        folder: Path::new(""),
        seed,
        disabled: &disabled,
    };
    let mut data = Pipeline::open(cx, &spec.data[0])?;
    let mut elements = Vec::new();
    while elements.len() < limit
        && let Some(element) = data.next()?
    {
        elements.push(element);
    }
    Ok(elements)
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

/// Trains a spec; gives what it learned and what it told.
pub(crate) fn run(
    world: &World,
    text: &str,
    options: &Options,
) -> (Result<State, SessionError>, Vec<Event>) {
    let spec = spec(text);
    let mut events = Vec::new();
    let outcome = train(&spec, options, world, &mut |event: &Event| {
        events.push(event.clone());
    });
    (outcome, events)
}
