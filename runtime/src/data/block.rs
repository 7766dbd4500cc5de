//! Blocks: consecutive elements of a pipeline as columns, which stages hand over at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::graph::Type;

use crate::SourceLocation;
use crate::data::origins::{FileTable, Locations, Origins};
use crate::data::rows;
use crate::memory;
use crate::program::{FeedDict, InputView};

/// The most records of a block.
pub(super) const MAX_BLOCK_ROWS: usize = 1024;

/// The most bytes of a block of several records.
pub(super) const MAX_BLOCK_BYTES: u64 = 4 << 20;

/// The most records of a block with features of those types: its bytes are bounded.
pub(super) fn block_rows<'t>(types: impl Iterator<Item = &'t Type>) -> usize {
    let bytes = types.fold(0_u64, |all, ty| all.saturating_add(ty.bytes()));
    (MAX_BLOCK_BYTES / bytes.max(1)).clamp(1, MAX_BLOCK_ROWS as u64) as usize
}

/// A feature by its name.
pub(super) type NamedColumn = (Arc<str>, Tensor);

/// Consecutive records, or one batch of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The features by name. Of records each has them as its first dimension; a feature `x` with a run-time count has it under
    /// `x#count`.
    columns: Vec<NamedColumn>,
    /// The number of records.
    rows: usize,
    /// Whether it is a batch: one element.
    is_batch: bool,
    pub(super) origins: Origins,
}

impl Block {
    /// Records.
    pub(super) fn records(columns: Vec<NamedColumn>, origins: Origins) -> Block {
        Block {
            rows: origins.len(),
            columns,
            is_batch: false,
            origins,
        }
    }

    /// A batch of records.
    pub(super) fn batch(columns: Vec<NamedColumn>, origins: Origins) -> Block {
        Block {
            is_batch: true,
            ..Block::records(columns, origins)
        }
    }

    /// The records of several blocks in a row, which have the same features.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub(super) fn concat(mut blocks: Vec<Block>) -> Block {
        if blocks.len() == 1 {
            return blocks.swap_remove(0);
        }
        let rows = blocks.iter().map(Block::rows).sum();
        let column = |(name, first): &NamedColumn| {
            let mut column = rows::Column::like(first, rows);
            for block in &blocks {
                let own = block.get(name).expect("blocks have the same features");
                column.extend(own, 0..block.rows());
            }
            (name.clone(), column.into_tensor())
        };
        let columns = blocks[0].columns.iter().map(column).collect();
        let mut origins = Origins::default();
        blocks
            .iter()
            .for_each(|block| origins.append(&block.origins));
        Block::records(columns, origins)
    }

    /// The first records.
    pub(super) fn first(self, rows: usize) -> Block {
        match rows < self.rows {
            true => self.gather(&(0..rows).collect::<Vec<_>>()),
            false => self,
        }
    }

    /// The number of records.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of elements: records, or one batch.
    pub fn elements(&self) -> usize {
        if self.is_batch { 1 } else { self.rows }
    }

    /// Whether it is one batch.
    pub fn is_batch(&self) -> bool {
        self.is_batch
    }

    /// The features, with their names.
    pub fn columns(&self) -> &[NamedColumn] {
        &self.columns
    }

    /// The feature of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        let mut columns = self.columns.iter();
        columns.find(|(own, _)| **own == *name).map(|(_, t)| t)
    }

    /// Adds or replaces a feature.
    pub(super) fn set(&mut self, name: &Arc<str>, column: Tensor) {
        match self.columns.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = column,
            None => self.columns.push((name.clone(), column)),
        }
    }

    /// Removes a feature.
    pub(super) fn remove(&mut self, name: &str) -> Option<Tensor> {
        let at = self.columns.iter().position(|(own, _)| **own == *name)?;
        Some(self.columns.remove(at).1)
    }

    /// Keeps the features whose names a predicate holds for.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.columns.retain(|(name, _)| keep(name));
    }

    pub(super) fn into_columns(self) -> (Vec<NamedColumn>, Origins) {
        (self.columns, self.origins)
    }

    /// The records with those ascending indices.
    pub(super) fn gather(&self, indices: &[usize]) -> Block {
        let column = |(name, column): &NamedColumn| (name.clone(), rows::gather(column, indices));
        let columns = self.columns.iter().map(column).collect();
        Block::records(columns, self.origins.gather(indices))
    }

    /// An estimate of the bytes that it takes in memory.
    pub(super) fn bytes(&self) -> u64 {
        let columns = self.columns.iter();
        let columns = columns.map(|(_, column)| memory::tensor_bytes(column));
        columns.fold(self.origins.bytes(), u64::saturating_add)
    }

    /// The bytes of its strings, which vary from record to record.
    pub(super) fn string_bytes(&self) -> u64 {
        let columns = self.columns.iter();
        let columns = columns.map(|(_, column)| memory::tensor_bytes(column) - column.ty().bytes());
        columns.fold(0, u64::saturating_add)
    }

    /// The one element, as it is fed to a program.
    pub(super) fn into_element(self, files: &FileTable) -> Element {
        let is_batch = self.is_batch;
        let values = self.columns.into_iter().map(|(name, column)| {
            let value = match is_batch {
                true => column,
                false => {
                    let row = column.shape()[1..].to_vec();
                    column.reshape(&row)
                }
            };
            (name.to_string(), value)
        });
        Element {
            values: values.collect(),
            rows: is_batch.then_some(self.rows),
            pass: self.origins.passes().map_or(0, |(first, _)| first),
            locations: Locations {
                origins: self.origins,
                files: files.clone(),
            },
        }
    }
}

/// A record, or a batch of them, as it is fed to a program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Element {
    /// Its features; a feature `x` with a run-time count has it under `x#count`.
    pub values: BTreeMap<String, Tensor>,
    /// The number of records in a batch; `None` before `batch`.
    pub rows: Option<usize>,
    /// The epoch of its first record, counted from 0; a batch that crosses into the next epoch belongs to the one it began in.
    pub pass: u64,
    /// The locations of its records.
    pub locations: Locations,
}

impl Element {
    /// How many of its records belong to an epoch; a batch may have some of the next one.
    pub(crate) fn records_of(&self, pass: u64) -> u64 {
        let origins = self.locations.origins.iter();
        origins.filter(|origin| origin.pass == pass).count() as u64
    }

    /// The location of its first record.
    pub fn location(&self) -> Option<SourceLocation> {
        self.locations.get(0)
    }
}

impl FeedDict for Element {
    fn feed(&self, name: &str) -> Option<InputView<'_>> {
        self.values.feed(name)
    }
}
