//! `files`: files that are one record each, such as images in folders (`image_dataset_from_directory`).
//!
//! In: files by a pattern, in the order of their names. Out: for each a record: the decoded image, its bytes, its path, and the name of
//! its folder. The position is the index of the next file.

mod decode;
mod resize;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::typed::{Feature, Resize};
use trainspec_formats::files::SequentialFile;

use crate::data::block::{Block, block_rows};
use crate::data::left_out::OnError;
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::{DataContext, Position, Records, Stage, paths, skip_decoded, values};
use crate::env::Storage;
use crate::{DataError, Error};

/// The largest file that is one record.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Files as records.
pub(super) struct Files {
    storage: Arc<dyn Storage>,
    /// The base of the paths that records have.
    folder: Arc<Path>,
    files: Vec<Arc<Path>>,
    /// The index of the first of them in the file table.
    first_file: u32,
    columns: Vec<Column>,
    resize: Option<Resize>,
    /// The index of the next file.
    next: u64,
    /// The most records of a block.
    max_rows: usize,
    on_error: OnError,
}

/// A feature of a file.
struct Column {
    name: Arc<str>,
    feature: Feature,
    ty: Type,
    kind: ColumnKind,
}

/// What of a file it is.
#[derive(Clone, Copy, PartialEq)]
enum ColumnKind {
    Image,
    Bytes,
    Path,
    Folder,
}

const WORD: &str = "files";
const VERSION: u32 = 1;

impl Files {
    pub(super) fn new(
        cx: &DataContext,
        files: Vec<Arc<Path>>,
        resize: Option<Resize>,
        features: &[Feature],
        on_error: OnError,
    ) -> Files {
        let columns: Vec<Column> = features.iter().map(Column::new).collect();
        Files {
            storage: cx.storage.clone(),
            folder: cx.folder.clone(),
            first_file: cx.files.add(&files, Unit::File),
            files,
            max_rows: block_rows(columns.iter().map(|column| &column.ty)),
            columns,
            resize,
            next: 0,
            on_error,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// The records of files; fewer where some are left out.
    fn block(&self, indices: &[u64]) -> Result<Block, Error> {
        let mut cells: Vec<Data> = self.columns.iter().map(Column::cells).collect();
        let mut origins = Origins::default();
        for index in indices {
            let path = &self.files[*index as usize];
            let bytes = self.contents(path)?;
            if let Err(error) = self.decode(path, &bytes, &mut cells) {
                self.on_error.leave_out(error)?;
                for (column, cells) in self.columns.iter().zip(&mut cells) {
                    column.truncate(cells, origins.len());
                }
                continue;
            }
            origins.push(Origin {
                pass: 0,
                ordinal: *index,
                at: 1,
                file: self.first_file.saturating_add(*index as u32),
            });
        }
        let columns = self.columns.iter().zip(cells).map(|(column, data)| {
            let shape = [&[origins.len()], &column.ty.shape[..]].concat();
            (column.name.clone(), Tensor::of(&shape, data))
        });
        Ok(Block::records(columns.collect(), origins))
    }

    /// Appends what is read of a file to each column.
    fn decode(&self, path: &Arc<Path>, bytes: &[u8], cells: &mut [Data]) -> Result<(), DataError> {
        for (column, cells) in self.columns.iter().zip(cells) {
            let at = |error: DataError| error.in_file(path).at(column.feature.span);
            match (column.kind, cells) {
                (ColumnKind::Image, Data::U8(all)) => {
                    let size = [column.ty.shape[0], column.ty.shape[1], column.ty.shape[2]];
                    let image = decode::image(bytes, size, self.resize).map_err(at)?;
                    if column.feature.bounds.is_some() {
                        for pixel in &image {
                            let pixel = values::Value::Int(i64::from(*pixel));
                            values::bounded(&column.feature, pixel).map_err(at)?;
                        }
                    }
                    all.extend(image);
                }
                (ColumnKind::Bytes, Data::String(all)) => all.push(bytes.to_vec()),
                (ColumnKind::Path, Data::String(all)) => {
                    let relative = path.strip_prefix(&self.folder).unwrap_or(path);
                    all.push(relative.to_string_lossy().replace('\\', "/").into_bytes());
                }
                (ColumnKind::Folder, Data::String(all)) => {
                    let folder = path.parent().and_then(Path::file_name);
                    let name = folder.map(|name| name.to_string_lossy().into_owned());
                    all.push(name.unwrap_or_default().into_bytes());
                }
                _ => unreachable!("the checker has compared the types"),
            }
        }
        Ok(())
    }

    /// The bytes of a file, where a feature needs them.
    fn contents(&self, path: &Arc<Path>) -> Result<Vec<u8>, DataError> {
        let needs_bytes =
            |column: &Column| matches!(column.kind, ColumnKind::Image | ColumnKind::Bytes);
        if !self.columns.iter().any(needs_bytes) {
            return Ok(Vec::new());
        }
        let failed =
            |e: std::io::Error| DataError::new(format!("cannot be read: {e}")).in_file(path);
        let file = self.storage.open(path).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        if length > MAX_FILE_BYTES {
            let message = format!("has {length} bytes, and a record at most {MAX_FILE_BYTES}");
            return Err(DataError::new(message).in_file(path));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        let mut from = SequentialFile::new(file).take(MAX_FILE_BYTES);
        from.read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }
}

impl Column {
    fn new(feature: &Feature) -> Column {
        Column {
            name: Arc::from(feature.name.as_str()),
            ty: Type::of(&feature.ty).expect("the sizes of features are known"),
            kind: match feature.key.as_str() {
                "image" => ColumnKind::Image,
                "bytes" => ColumnKind::Bytes,
                "path" => ColumnKind::Path,
                "folder" => ColumnKind::Folder,
                other => unreachable!("the checker refuses `{other}`"),
            },
            feature: feature.clone(),
        }
    }

    fn cells(&self) -> Data {
        match self.kind {
            ColumnKind::Image => Data::U8(Vec::new()),
            ColumnKind::Bytes | ColumnKind::Path | ColumnKind::Folder => Data::String(Vec::new()),
        }
    }

    /// Keeps the cells of the first records.
    fn truncate(&self, cells: &mut Data, records: usize) {
        match cells {
            Data::U8(pixels) => pixels.truncate(records * self.ty.elements()),
            Data::String(all) => all.truncate(records),
            other => unreachable!("a file has no {} cells", other.dtype()),
        }
    }
}

impl Stage for Files {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        loop {
            let end = self
                .len()
                .min(self.next.saturating_add(max.min(self.max_rows) as u64));
            if self.next == end {
                return Ok(None);
            }
            let indices: Vec<u64> = (self.next..end).collect();
            let block = self.block(&indices)?;
            self.next = end;
            if block.rows() > 0 {
                return Ok(Some(block));
            }
        }
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        if self.on_error.is_skip() {
            return skip_decoded(self, max);
        }
        let advanced = max.min(self.len() - self.next);
        self.next += advanced;
        Ok(advanced)
    }

    fn indexed(&mut self) -> Result<Option<u64>, Error> {
        Ok((!self.on_error.is_skip()).then(|| self.len()))
    }

    fn read(&mut self, indices: &[u64]) -> Result<Block, Error> {
        self.block(&indices[..indices.len().min(self.max_rows)])
    }

    fn restart(&mut self) {
        self.next = 0;
        self.on_error.set_count(0);
    }

    fn rewind(&mut self) {
        self.restart();
    }

    fn position(&self, at: &mut Position) {
        at.push(WORD, VERSION, &[self.next]);
        self.on_error.position(at);
    }

    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        self.on_error.seek(at)?;
        let [next] = at.pop(WORD, VERSION)?;
        self.next = paths::check_index(WORD, next, &self.files)? as u64;
        Ok(())
    }
}
