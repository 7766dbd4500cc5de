//! `source "name" (...)`: records of an iterator that the program registers (`Dataset.from_generator`).
//!
//! In: a factory of iterators. Out: records. Each epoch has a new iterator; to go to a position, its records are read again.

use std::path::Path;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::typed::{self, Feature};

use crate::data::block::{Block, block_rows};
use crate::data::origins::{Origin, Origins, Unit};
use crate::data::position::{CHANGED, damaged};
use crate::data::{DataContext, Position, Records, Stage, arrays, rows, values};
use crate::monitored::guarded;
use crate::registry::{Record, RecordIterator};
use crate::{DataError, Error};

type Factory = Box<dyn Fn() -> Result<RecordIterator, Error> + Send>;

/// The records of an iterator.
pub(super) struct Registered {
    name: String,
    path: Arc<Path>,
    /// Its index in the file table.
    file: u32,
    columns: Vec<Column>,
    max_rows: usize,
    factory: Factory,
    iterator: Option<RecordIterator>,
    /// The records read in this epoch.
    ordinal: u64,
    /// Whether this epoch is over.
    is_over: bool,
}

/// A feature of a record.
struct Column {
    name: Arc<str>,
    feature: Feature,
    ty: Type,
    default: Option<Tensor>,
}

const WORD: &str = "source";
const VERSION: u32 = 1;

impl Registered {
    pub(super) fn new(
        cx: &DataContext,
        registered: &typed::Registered,
        features: &[Feature],
    ) -> Result<Registered, DataError> {
        let factory = cx
            .program
            .records(registered)
            .map_err(|e| e.at(registered.span))?;
        let name = registered.name.clone();
        let path: Arc<Path> = Arc::from(Path::new(&format!("source \"{name}\"")));
        let columns: Vec<Column> = features.iter().map(Column::new).collect();
        Ok(Registered {
            file: cx.files.add(std::slice::from_ref(&path), Unit::Record),
            path,
            name,
            max_rows: block_rows(columns.iter().map(|column| &column.ty)),
            columns,
            factory: Box::new(factory),
            iterator: None,
            ordinal: 0,
            is_over: false,
        })
    }

    /// The next record of the iterator.
    fn read(&mut self) -> Result<Option<Record>, Error> {
        if self.is_over {
            return Ok(None);
        }
        if self.iterator.is_none() {
            self.iterator = Some((self.factory)()?);
        }
        let iterator = self.iterator.as_mut().expect("it was made");
        let next = guarded("source", &self.name, "its iterator", || {
            iterator.next().transpose()
        })?;
        match &next {
            Some(_) => self.ordinal += 1,
            None => {
                self.is_over = true;
                self.iterator = None;
            }
        }
        Ok(next)
    }

    fn start(&mut self) {
        (self.iterator, self.ordinal, self.is_over) = (None, 0, false);
    }
}

impl Column {
    fn new(feature: &Feature) -> Column {
        let ty = Type::of(&feature.ty).expect("the sizes of features are known");
        let default = values::defaults(feature, &ty).map(|all| values::tensor(&ty, all));
        Column {
            name: Arc::from(feature.name.as_str()),
            feature: feature.clone(),
            default,
            ty,
        }
    }

    /// The value of a record, with a first dimension of 1.
    fn value(&self, record: &mut Record) -> Result<Tensor, DataError> {
        let key = &self.feature.key;
        let at = record.iter().position(|(name, _)| name == key);
        let value = match (at, &self.default) {
            (Some(at), _) => record.swap_remove(at).1,
            (None, Some(default)) => default.clone(),
            (None, None) => {
                let names: Vec<String> = record.iter().map(|(n, _)| format!("`{n}`")).collect();
                let error = DataError::new(format!("there is no feature `{key}`"));
                return Err(error.help(format!("its features are {}", names.join(", "))));
            }
        };
        let found = Type::new(value.dtype(), value.shape());
        if found != self.ty {
            let message = format!("`{key}` is `{found}`, and the feature is `{}`", self.ty);
            return Err(DataError::new(message));
        }
        let shape = [&[1], value.shape()].concat();
        let data = arrays::bounded(value.into_data(), self.feature.bounds);
        data.map(|data| Tensor::of(&shape, data))
            .map_err(|wrong| DataError::new(format!("`{key}` is {}", wrong.problem)))
    }
}

impl Stage for Registered {
    fn next(&mut self, max: usize) -> Result<Option<Block>, Error> {
        let max = max.min(self.max_rows);
        let mut columns: Vec<rows::Column> = Vec::new();
        let mut origins = Origins::default();
        while origins.len() < max {
            let Some(mut record) = self.read()? else {
                break;
            };
            let number = self.ordinal;
            let located = |e: DataError| e.in_file(&self.path).in_record(number);
            for (i, column) in self.columns.iter().enumerate() {
                let value = column.value(&mut record);
                let value = value.map_err(|e| located(e).at(column.feature.span))?;
                if i == columns.len() {
                    columns.push(rows::Column::like(&value, max.min(origins.len() + 64)));
                }
                columns[i].extend(&value, 0..1);
            }
            origins.push(Origin {
                pass: 0,
                ordinal: number - 1,
                at: number,
                file: self.file,
            });
        }
        if origins.len() == 0 {
            return Ok(None);
        }
        let columns = self.columns.iter().zip(columns);
        let columns = columns.map(|(own, column)| (own.name.clone(), column.into_tensor()));
        Ok(Some(Block::records(columns.collect(), origins)))
    }

    fn advance(&mut self, max: u64) -> Result<u64, Error> {
        let mut advanced = 0;
        while advanced < max && self.read()?.is_some() {
            advanced += 1;
        }
        Ok(advanced)
    }

    fn restart(&mut self) {
        self.start();
    }

    fn rewind(&mut self) {
        self.start();
    }

    fn position(&self, at: &mut Position) {
        at.push(WORD, VERSION, &[self.ordinal, u64::from(self.is_over)]);
    }

    /// The records before the position are read again.
    fn seek(&mut self, at: &mut Records<'_>) -> Result<(), Error> {
        let [ordinal, is_over] = at.pop(WORD, VERSION)?;
        let is_over = crate::data::position::flag(WORD, is_over)?;
        if self.ordinal > ordinal || self.is_over {
            self.start();
        }
        let before = self.ordinal;
        self.advance(ordinal - self.ordinal)?;
        at.read_again(self.ordinal - before);
        if self.ordinal < ordinal {
            let fact = format!("is after {ordinal} records, and there are {}", self.ordinal);
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        if is_over && self.read()?.is_some() {
            let fact = format!("ends after {ordinal} records, and there are more");
            return Err(damaged(WORD, fact).help(CHANGED));
        }
        Ok(())
    }
}
