//! `map`, `filter` and `drop`: elementwise transformations of an input pipeline (`Dataset.map`, `Dataset.filter`).

use trainspec_compiler::FetchSet;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::lower::{self, Binding, Context, GLOBAL_STEP};
use trainspec_compiler::typed::{Program, ValueId};

use crate::data::{DataContext, Element, Position, Records, Stage, binding, is_count_of};
use crate::lru::LruCache;
use crate::program::{Engine, Executable, Feeds, Fetched, prepare};
use crate::{Cause, Error, State};

/// The capacity of the program cache of a stage, in batch sizes.
const MAX_CACHED_PROGRAMS: usize = 8;

/// A program over the features of an element.
struct Compute {
    cx: DataContext,
    program: Program,
    value: ValueId,
    seed: Tensor,
    /// One program for each batch size.
    cache: LruCache<Binding, Box<dyn Executable>>,
    /// The index of the next element: it keys random draws, as the step does in a model.
    next: i64,
}

const VERSION: u32 = 1;

impl Compute {
    fn new(cx: &DataContext, program: &Program, value: ValueId) -> Compute {
        Compute {
            cx: cx.clone(),
            program: program.clone(),
            value,
            seed: Tensor::scalar(cx.seed),
            cache: LruCache::new(MAX_CACHED_PROGRAMS),
            next: 0,
        }
    }

    fn run(&mut self, element: &Element) -> Result<Fetched, Error> {
        let binding = binding(element);
        let executable = self.cache.get_or_insert(&binding, || -> Result<_, Error> {
            let cx = Context::new(&self.cx.spec, &binding);
            let graph = lower::map(&cx, &self.program, self.value)?;
            let engine = &Engine::Interpreted;
            prepare(graph, &FetchSet::All, &self.cx.pipeline, engine)
        })?;
        let mut state: State = [(GLOBAL_STEP.to_owned(), Tensor::scalar(self.next))]
            .into_iter()
            .collect();
        self.next += 1;
        let feeds = Feeds {
            values: &element.values,
            seed: Some(&self.seed),
        };
        let run = executable.run(feeds, &mut state);
        run.map_err(|error| match error.cause {
            Cause::Run { error, record } => Error::from(Cause::Run {
                error,
                record: record
                    .or_else(|| element.location.clone().filter(|_| element.rows.is_none())),
            }),
            _ => error,
        })
    }
}

/// Sets a feature to a computed value.
pub(super) struct Map {
    inner: Box<dyn Stage>,
    name: String,
    compute: Compute,
}

impl Map {
    pub(super) fn new(
        cx: &DataContext,
        inner: Box<dyn Stage>,
        name: &str,
        program: &Program,
        value: ValueId,
    ) -> Map {
        Map {
            inner,
            name: name.to_owned(),
            compute: Compute::new(cx, program, value),
        }
    }
}

impl Stage for Map {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        let Some(mut element) = self.inner.next()? else {
            return Ok(None);
        };
        let fetched = self.compute.run(&element)?;
        element
            .values
            .retain(|key, _| !is_count_of(key, &self.name));
        for (key, value) in fetched.0 {
            // `value` and, where it has one, `value#count`.
            let count = key.strip_prefix("value").unwrap_or_default();
            element
                .values
                .insert(format!("{}{count}", self.name), value);
        }
        Ok(Some(element))
    }

    fn advance(&mut self) -> Result<bool, Error> {
        let advanced = self.inner.advance()?;
        self.compute.next += i64::from(advanced);
        Ok(advanced)
    }

    fn restart(&mut self) {
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.compute.next = 0;
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("map", VERSION, &[self.compute.next as u64]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [next] = at.pop("map", VERSION)?;
        self.inner.seek(at)?;
        self.compute.next = next as i64;
        Ok(())
    }
}

/// Keeps the records for which a predicate holds.
pub(super) struct Filter {
    inner: Box<dyn Stage>,
    compute: Compute,
}

impl Filter {
    pub(super) fn new(
        cx: &DataContext,
        inner: Box<dyn Stage>,
        program: &Program,
        value: ValueId,
    ) -> Filter {
        Filter {
            inner,
            compute: Compute::new(cx, program, value),
        }
    }
}

impl Stage for Filter {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        while let Some(element) = self.inner.next()? {
            let predicate = self.compute.run(&element)?;
            if predicate
                .get("value")
                .is_some_and(|v| v.to_bools() == [true])
            {
                return Ok(Some(element));
            }
        }
        Ok(None)
    }

    fn restart(&mut self) {
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.compute.next = 0;
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
        at.push("filter", VERSION, &[self.compute.next as u64]);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [next] = at.pop("filter", VERSION)?;
        self.inner.seek(at)?;
        self.compute.next = next as i64;
        Ok(())
    }
}

/// Removes a feature.
pub(super) struct DropFeature {
    inner: Box<dyn Stage>,
    name: String,
}

impl DropFeature {
    pub(super) fn new(inner: Box<dyn Stage>, name: &str) -> DropFeature {
        DropFeature {
            inner,
            name: name.to_owned(),
        }
    }
}

impl Stage for DropFeature {
    fn next(&mut self) -> Result<Option<Element>, Error> {
        let mut element = self.inner.next()?;
        if let Some(element) = &mut element {
            element
                .values
                .retain(|key, _| *key != self.name && !is_count_of(key, &self.name));
        }
        Ok(element)
    }

    fn advance(&mut self) -> Result<bool, Error> {
        self.inner.advance()
    }

    fn restart(&mut self) {
        self.inner.restart();
    }

    fn rewind(&mut self) {
        self.inner.rewind();
    }

    fn position(&self, at: &mut Position) {
        self.inner.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.inner.seek(at)
    }
}
