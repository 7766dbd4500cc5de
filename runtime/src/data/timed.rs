//! The time that each stage of a pipeline takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trainspec_compiler::typed::{Source, SourceKind, StageKind};

use crate::Error;
use crate::data::block::Block;
use crate::data::{Position, Records, Stage, elements_of};

/// The nanoseconds that were spent in a stage and those before it, and the elements that it gave.
#[derive(Debug, Clone, Default)]
pub(super) struct Stopwatch(Arc<AtomicU64>, Arc<AtomicU64>);

impl Stopwatch {
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn count(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }

    fn add(&self, elements: u64) {
        self.1.fetch_add(elements, Ordering::Relaxed);
    }

    fn measure<R>(&self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
        result
    }
}

/// A stage whose time is measured.
pub(super) struct Timed {
    inner: Box<dyn Stage>,
    watch: Stopwatch,
}

impl Timed {
    pub(super) fn new(inner: Box<dyn Stage>) -> (Timed, Stopwatch) {
        let watch = Stopwatch::default();
        let timed = Timed {
            inner,
            watch: watch.clone(),
        };
        (timed, watch)
    }
}

impl Stage for Timed {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let block = self.watch.measure(|| self.inner.next(max))?;
        self.watch.add(elements_of(block.as_ref()));
        Ok(block)
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        let advanced = self.watch.measure(|| self.inner.advance(max))?;
        self.watch.add(advanced);
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        self.watch.measure(|| self.inner.indexed())
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        let block = self.watch.measure(|| self.inner.read(indices))?;
        self.watch.add(elements_of(Some(&block)));
        Ok(block)
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

/// A source, as a table of stages calls it.
pub(super) fn source_name(source: &Source) -> String {
    match &source.kind {
        SourceKind::Registered(source) => format!("source \"{}\"", source.name),
        SourceKind::Csv { .. }
        | SourceKind::TfRecord { .. }
        | SourceKind::Text { .. }
        | SourceKind::Arrays { .. }
        | SourceKind::Files { .. }
        | SourceKind::Memory { .. }
        | SourceKind::Mix { .. }
        | SourceKind::Zip { .. } => format!("source {}", source.word()),
    }
}

/// A stage, as a table of stages calls it.
pub(super) fn stage_name(stage: &StageKind) -> String {
    match stage {
        StageKind::Map { name, .. } => format!("map {name}"),
        StageKind::Column(op) => format!("map {}", op.name),
        StageKind::Filter { .. } => "filter".to_owned(),
        StageKind::Drop { name } => format!("drop {name}"),
        StageKind::Shuffle { .. } => "shuffle".to_owned(),
        StageKind::Epochs { .. } => "epochs".to_owned(),
        StageKind::Repeat => "repeat".to_owned(),
        StageKind::Batch(batch) => match batch.buckets {
            Some(_) => "bucket_by_length".to_owned(),
            None => "batch".to_owned(),
        },
        StageKind::Interleave { .. } => "interleave".to_owned(),
        StageKind::Take { .. } => "take".to_owned(),
        StageKind::Skip { .. } => "skip".to_owned(),
        StageKind::Window { .. } => "window".to_owned(),
        StageKind::Split(_) => "split".to_owned(),
        StageKind::Cache => "cache".to_owned(),
        StageKind::Prefetch { .. } => "prefetch".to_owned(),
        StageKind::Shard { .. } => "shard".to_owned(),
    }
}
