//! Tables: vocabularies and statistics of features, and the operations on columns that look things up in them.

mod column_op;
mod fingerprint;
mod made;
mod moments;
mod records;
mod split_string;
mod vocabulary;
mod word_table;
mod words_file;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use column_op::{ColumnArg, ColumnResult, ElementError, evaluate};
pub use fingerprint::{concatenated, fingerprint64};
pub use made::{SharedTables, tables_of_data};
pub(crate) use made::{ensure_tables_fit, output_tables};
pub use moments::Moments;
pub use records::TABLES_RECORD;
pub use vocabulary::Vocabulary;
pub(crate) use word_table::word_lines;
pub(in crate::data) use words_file::{words_of_file, words_path};

/// A table of a data set.
#[derive(Debug, Clone, PartialEq)]
pub enum Table {
    /// Words and their ids.
    Vocabulary(Arc<Vocabulary>),
    /// Means and variances.
    Moments(Arc<Moments>),
}

impl Table {
    /// A vocabulary of listed words.
    pub(crate) fn vocabulary(words: &[String], oov: u64) -> Result<Table, crate::Error> {
        Ok(Table::Vocabulary(Arc::new(Vocabulary::new(words, oov)?)))
    }
}

/// The tables of a training, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tables(BTreeMap<String, Table>);

impl Tables {
    /// The table of that name.
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.0.get(name)
    }

    /// Adds a table.
    pub fn insert(&mut self, name: impl Into<String>, table: Table) {
        self.0.insert(name.into(), table);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and tables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.0.iter().map(|(name, table)| (name.as_str(), table))
    }

    /// The vocabulary of that name.
    pub fn vocabulary(&self, name: &str) -> Option<&Arc<Vocabulary>> {
        match self.get(name)? {
            Table::Vocabulary(vocabulary) => Some(vocabulary),
            Table::Moments(_) => None,
        }
    }
}
