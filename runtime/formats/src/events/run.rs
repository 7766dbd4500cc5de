//! An index of a run's values by tag (TensorBoard's `EventAccumulator`), without the values.
//!
//! In: events. Out: for each tag, the kind of its values and their offsets; scalars with their values. Images, audio and
//! tensors stay in the files and are read on request. Leaves alone: the events themselves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prost::{Message, Name};

use crate::bounded;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::events::VERSION_PREFIX;
use crate::events::folder::RunReader;
use crate::events::reader::{EventOffset, ReaderOptions};
use crate::memory::{self, Headroom};
use crate::proto::event::What;
use crate::proto::session_log::SessionStatus;
use crate::proto::summary::Value;
use crate::proto::summary::value::Value as Field;
use crate::proto::{
    DataType, Event, GraphDef, MetaGraphDef, SessionLog, Summary, SummaryMetadata, TensorProto,
};
use crate::storage::{self, Storage};
use crate::tensor::Tensor;

/// Purging of orphaned values from before a restart (`purge_orphaned_data`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purge {
    /// All values are listed.
    #[default]
    Never,
    /// As TensorBoard does: when a session restarts at a step, values of that step and later ones are dropped; in files
    /// without a version, when the step of a tag goes back.
    Restarts,
}

/// The options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// The options of each file's reader.
    pub reader: ReaderOptions,
    /// Purging of orphaned values from before a restart (`purge_orphaned_data`).
    pub purge: Purge,
}

/// The kind of the values of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Scalars.
    Scalar,
    /// Histograms.
    Histogram,
    /// Images.
    Image,
    /// Audio clips.
    Audio,
    /// Strings (TensorBoard's text plugin).
    Text,
    /// Hyperparameters.
    HParams,
    /// Tensors without a plugin.
    Tensor,
    /// Values of another TensorBoard plugin.
    Plugin(String),
    /// An unknown kind.
    Unknown,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Scalar => "scalar",
            Kind::Histogram => "histogram",
            Kind::Image => "image",
            Kind::Audio => "audio",
            Kind::Text => "text",
            Kind::HParams => "hparams",
            Kind::Tensor => "tensor",
            Kind::Plugin(name) => name,
            Kind::Unknown => "unknown",
        })
    }
}

/// One value of a tag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The step of its event.
    pub step: i64,
    /// The time of its event, in seconds since the Unix epoch.
    pub wall_time: f64,
    /// The scalar, if it is one.
    pub scalar: Option<f64>,
    /// The index of its event's file.
    file: u32,
    /// Its index among the values of its event.
    index: u32,
    /// The offset of its event.
    offset: EventOffset,
}

/// The values of a tag, in the order in which they were written.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Their kind.
    pub kind: Kind,
    /// The metadata of the first of them.
    pub metadata: Option<SummaryMetadata>,
    /// The points, in order.
    pub points: Vec<Point>,
}

/// The values in the event files of a folder.
#[derive(Debug)]
pub struct Run {
    /// The values, by tag.
    pub series: BTreeMap<String, Series>,
    /// The `RunMetadata`, by tag.
    pub run_metadata: BTreeMap<String, Point>,
    /// The session logs: step, time, and message.
    pub sessions: Vec<(i64, f64, SessionLog)>,
    /// The number of events.
    pub events: u64,
    /// The damage found; the rest of these files is missing.
    pub damage: Vec<FormatError>,
    reader: RunReader,
    purge: Purge,
    graph: Option<Point>,
    meta_graph: Option<Point>,
    version: Option<f64>,
    latest_step: i64,
    /// Restarts since the last purge, of one tag or of all.
    restarts: Vec<(Option<String>, Restart)>,
    headroom: Headroom,
}

/// The memory of a tag without its points: an entry of a map, and its first points.
const SERIES_BYTES: usize = 1024;

/// A restart: values before this offset with this step or a later one are orphaned.
#[derive(Debug, Clone, Copy)]
struct Restart {
    file: u32,
    offset: EventOffset,
    step: i64,
}

impl Run {
    /// Reads all files of a folder as they are now, or one file.
    pub fn read(path: &Path, options: RunOptions) -> Result<Run> {
        Run::read_in(&storage::local(), path, options)
    }

    /// [`read`](Run::read) in any storage.
    pub fn read_in(storage: &Arc<dyn Storage>, path: &Path, options: RunOptions) -> Result<Run> {
        let mut run = Run {
            series: BTreeMap::new(),
            run_metadata: BTreeMap::new(),
            sessions: Vec::new(),
            events: 0,
            damage: Vec::new(),
            reader: RunReader::open_in(storage, path, options.reader)?,
            purge: options.purge,
            graph: None,
            meta_graph: None,
            version: None,
            latest_step: -1,
            restarts: Vec::new(),
            headroom: Headroom::new(FileKind::Events),
        };
        run.update()?;
        Ok(run)
    }

    /// Reads what was added since; returns the number of new events.
    pub fn update(&mut self) -> Result<u64> {
        let before = self.events;
        let end = loop {
            match self.reader.poll() {
                Ok(Some((file, offset, event))) => {
                    if let Err(e) = self.take(file as u32, offset, event) {
                        let path = self.reader.files()[file].clone();
                        break Err(e.at(offset).in_file(path));
                    }
                }
                Ok(None) => break Ok(()),
                Err(e) if matches!(e.code, Code::DataLoss | Code::ResourceExhausted) => {
                    self.damage.push(e);
                }
                Err(e) => break Err(e),
            }
        };
        self.purge_orphans();
        end.map(|()| self.events - before)
    }

    /// The files that were read, in order.
    pub fn files(&self) -> &[std::path::PathBuf] {
        self.reader.files()
    }

    /// A value, read from its file.
    pub fn value(&self, point: &Point) -> Result<Value> {
        let event = self.event(point)?;
        match event.what {
            Some(What::Summary(Summary { mut value })) if (point.index as usize) < value.len() => {
                Ok(value.swap_remove(point.index as usize))
            }
            _ => Err(self.missing(point)),
        }
    }

    /// The last graph, if there is one; as in TensorBoard, a `GraphDef` takes precedence over that of a `MetaGraphDef`.
    pub fn graph(&self) -> Result<Option<GraphDef>> {
        if let Some(point) = &self.graph {
            return match self.event(point)?.what {
                Some(What::GraphDef(bytes)) => self.decode(point, &bytes).map(Some),
                _ => Err(self.missing(point)),
            };
        }
        Ok(self.meta_graph()?.and_then(|graph| graph.graph_def))
    }

    /// The last `MetaGraphDef`, if there is one.
    pub fn meta_graph(&self) -> Result<Option<MetaGraphDef>> {
        let Some(point) = &self.meta_graph else {
            return Ok(None);
        };
        match self.event(point)?.what {
            Some(What::MetaGraphDef(bytes)) => self.decode(point, &bytes).map(Some),
            _ => Err(self.missing(point)),
        }
    }

    /// The event that a value is in.
    pub fn event(&self, point: &Point) -> Result<Event> {
        self.reader.event_at(point.file as usize, point.offset)
    }

    /// Decodes the message that an event holds.
    fn decode<M: Message + Name + Default>(&self, point: &Point, bytes: &[u8]) -> Result<M> {
        bounded::decode(FileKind::Events, bytes, bounded::DEFAULT_MEMORY_LIMIT)
            .map_err(|e| self.located(point, e))
    }

    fn missing(&self, point: &Point) -> FormatError {
        let error = FormatError::not_found(FileKind::Events, "the value is no longer there");
        self.located(point, error)
    }

    fn located(&self, point: &Point, error: FormatError) -> FormatError {
        match self.reader.files().get(point.file as usize) {
            Some(path) => error.at(point.offset).in_file(path),
            None => error,
        }
    }

    fn take(&mut self, file: u32, offset: EventOffset, event: Event) -> Result<()> {
        self.events += 1;
        self.record_restart(file, offset, &event);
        let point = Point {
            step: event.step,
            wall_time: event.wall_time,
            scalar: None,
            file,
            index: 0,
            offset,
        };
        match event.what {
            Some(What::FileVersion(version)) => {
                let number = version.rsplit(VERSION_PREFIX).next().map(str::trim);
                self.version = number.and_then(|number| number.parse().ok());
            }
            Some(What::Summary(summary)) => {
                for (index, value) in summary.value.into_iter().enumerate() {
                    let index = index as u32;
                    self.take_value(Point { index, ..point }, value)?;
                }
            }
            Some(What::GraphDef(_)) => self.graph = Some(point),
            Some(What::MetaGraphDef(_)) => self.meta_graph = Some(point),
            Some(What::SessionLog(log)) => {
                let session = (event.step, event.wall_time, log);
                memory::push(FileKind::Events, &mut self.sessions, session)?;
            }
            Some(What::TaggedRunMetadata(tagged)) => {
                self.headroom.take(SERIES_BYTES + tagged.tag.len())?;
                self.run_metadata.insert(tagged.tag, point);
            }
            Some(What::LogMessage(_)) | None => {}
        }
        Ok(())
    }

    fn take_value(&mut self, mut point: Point, value: Value) -> Result<()> {
        let Value {
            tag,
            metadata,
            value,
            ..
        } = value;
        if !self.series.contains_key(&tag) {
            self.headroom.take(SERIES_BYTES + tag.len())?;
        }
        let series = self.series.entry(tag).or_insert_with(|| Series {
            kind: kind(value.as_ref(), metadata.as_ref()),
            metadata: None,
            points: Vec::new(),
        });
        if series.metadata.is_none() && metadata.is_some() {
            // The metadata may come with a later value.
            series.kind = kind(value.as_ref(), metadata.as_ref());
            series.metadata = metadata;
            if series.kind == Kind::Scalar {
                for earlier in series.points.iter_mut().filter(|p| p.scalar.is_none()) {
                    earlier.scalar = scalar_at(&self.reader, earlier);
                }
            }
        }
        point.scalar = match value {
            Some(Field::SimpleValue(number)) => Some(number.into()),
            Some(Field::Tensor(tensor)) if series.kind == Kind::Scalar => scalar_of(tensor),
            _ => None,
        };
        memory::push(FileKind::Events, &mut series.points, point)
    }

    /// Records an event that orphans earlier values.
    fn record_restart(&mut self, file: u32, offset: EventOffset, event: &Event) {
        if self.purge == Purge::Never {
            return;
        }
        let step = event.step;
        let restart = Restart { file, offset, step };
        if self.version.is_some_and(|version| version >= 2.0) {
            if let Some(What::SessionLog(log)) = &event.what
                && log.status() == SessionStatus::Start
            {
                self.restarts.push((None, restart));
            }
            return;
        }
        match &event.what {
            Some(What::Summary(summary)) if step < self.latest_step => {
                let tags = summary.value.iter().map(|value| Some(value.tag.clone()));
                self.restarts.extend(tags.map(|tag| (tag, restart)));
            }
            _ => self.latest_step = step,
        }
    }

    /// Purges orphaned values, in one pass for all restarts.
    fn purge_orphans(&mut self) {
        let mut of_tags: BTreeMap<String, Vec<Restart>> = BTreeMap::new();
        let mut of_all = Vec::new();
        for (tag, restart) in self.restarts.drain(..) {
            match tag {
                Some(tag) => of_tags.entry(tag).or_default().push(restart),
                None => of_all.push(restart),
            }
        }
        for (tag, series) in &mut self.series {
            let of_tag = of_tags.get(tag).map_or(&[][..], Vec::as_slice);
            purge_points(&mut series.points, of_tag);
            purge_points(&mut series.points, &of_all);
        }
    }
}

/// Purges the points that a later restart orphans. Both are sorted by offset.
fn purge_points(points: &mut Vec<Point>, restarts: &[Restart]) {
    let mut later = restarts.iter().rev().peekable();
    let mut earliest = i64::MAX;
    let mut kept: Vec<bool> = Vec::new();
    for point in points.iter().rev() {
        while let Some(restart) = later.peek()
            && (restart.file, restart.offset) > (point.file, point.offset)
        {
            earliest = earliest.min(restart.step);
            later.next();
        }
        kept.push(point.step < earliest);
    }
    points.retain(|_| kept.pop().unwrap_or(true));
}

/// The scalar of a point, if it can be read.
fn scalar_at(reader: &RunReader, point: &Point) -> Option<f64> {
    let event = reader.event_at(point.file as usize, point.offset).ok()?;
    let Some(What::Summary(summary)) = event.what else {
        return None;
    };
    match summary.value.into_iter().nth(point.index as usize)?.value? {
        Field::SimpleValue(number) => Some(number.into()),
        Field::Tensor(tensor) => scalar_of(tensor),
        _ => None,
    }
}

/// The value of a scalar tensor; `None` for any other tensor.
fn scalar_of(message: TensorProto) -> Option<f64> {
    // Other tensors are not expanded only to be dropped.
    let dims = message.tensor_shape.as_ref().map_or(&[][..], |s| &s.dim);
    if dims.iter().any(|dim| dim.size != 1) {
        return None;
    }
    let numbers = Tensor::from_message(message).ok()?.to_f64s().ok()?;
    numbers.first().copied()
}

/// The kind of a value, by its field and its metadata.
fn kind(value: Option<&Field>, metadata: Option<&SummaryMetadata>) -> Kind {
    let plugin = metadata.and_then(|metadata| metadata.plugin_data.as_ref());
    match (value, plugin.map(|plugin| plugin.plugin_name.as_str())) {
        (Some(Field::SimpleValue(_)), _) => Kind::Scalar,
        (Some(Field::Histo(_) | Field::ObsoleteOldStyleHistogram(_)), _) => Kind::Histogram,
        (Some(Field::Image(_)), _) => Kind::Image,
        (Some(Field::Audio(_)), _) => Kind::Audio,
        (_, Some("scalars")) => Kind::Scalar,
        (_, Some("histograms")) => Kind::Histogram,
        (_, Some("images")) => Kind::Image,
        (_, Some("audio")) => Kind::Audio,
        (_, Some("text")) => Kind::Text,
        (_, Some("hparams")) => Kind::HParams,
        (_, Some(name)) if !name.is_empty() => Kind::Plugin(name.to_owned()),
        (Some(Field::Tensor(tensor)), _) if tensor.dtype() == DataType::DtInvalid => Kind::Unknown,
        (Some(Field::Tensor(_)), _) => Kind::Tensor,
        (None, _) => Kind::Unknown,
    }
}
