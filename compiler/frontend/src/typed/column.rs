//! Operations on columns: what a data set computes outside of compiled programs, on strings or with a table.
//!
//! The checker takes them out of the expressions in which they stand: each is a stage of its own, before the program of the expression,
//! which has its result as an input.

use std::fmt::{self, Display, Formatter};

use trainspec_ir::{Span, TensorType};

use crate::syntax::quote;
use crate::typed::FilePattern;

/// An operation on columns.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnOp {
    /// The feature it gives. One that is no feature of the spec, but a part of an expression, has a `/` in its name.
    pub name: String,
    /// Its kind, with the arguments.
    pub kind: ColumnOpKind,
    /// What it is computed of.
    pub operands: Vec<ColumnOperand>,
    /// The type of the result.
    pub ty: TensorType,
    /// The span of its application.
    pub span: Span,
}

/// An operand of an operation on columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnOperand {
    /// A feature.
    Feature(String),
    /// One string for all elements.
    Str(String),
}

/// The kinds of operations on columns.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnOpKind {
    /// The strings as they are.
    Copy,
    /// Whether two strings are equal, byte by byte.
    Equal,
    /// Whether two strings differ.
    NotEqual,
    /// Whether a string is empty.
    IsMissing,
    /// The second operand where the first is true, the third where it is false.
    Select,
    /// The bytes of a string, at most as many as the capacity of the result.
    Bytes,
    /// The characters of a string of UTF-8, at most as many as the capacity of the result.
    Characters,
    /// The words of a string, between white space, at most as many as the capacity of the result.
    Words,
    /// The fingerprint of a string, modulo a number of buckets.
    HashBucket {
        /// The number of buckets, at least 1.
        buckets: u64,
    },
    /// The fingerprint of several strings or integers together, modulo a number of buckets.
    Crossed {
        /// The number of buckets, at least 1.
        buckets: u64,
    },
    /// The id of a word in a table.
    Vocabulary(Vocabulary),
    /// The difference from the mean, divided by the standard deviation.
    Standardize {
        /// The name of its table, unique in the data set.
        table: String,
        /// The pass over the data in which it is made.
        pass: u32,
    },
}

/// The table of a `vocabulary`.
#[derive(Debug, Clone, PartialEq)]
pub struct Vocabulary {
    /// Its name, unique in the data set.
    pub table: String,
    /// Where its words come from.
    pub words: WordSource,
    /// The most words that it may have, at least 1.
    pub size: u64,
    /// The number of buckets for words that it does not have; without any, such a word is an error.
    pub oov: u64,
}

/// Where the words of a vocabulary come from.
#[derive(Debug, Clone, PartialEq)]
pub enum WordSource {
    /// The lines of a file.
    File(FilePattern),
    /// A list.
    List(Vec<String>),
    /// The most frequent ones of the training data.
    Data {
        /// The pass over the data in which it is made.
        pass: u32,
    },
}

impl ColumnOp {
    /// The name of its table, where it has one.
    pub fn table(&self) -> Option<&str> {
        match &self.kind {
            ColumnOpKind::Vocabulary(vocabulary) => Some(&vocabulary.table),
            ColumnOpKind::Standardize { table, .. } => Some(table),
            _ => None,
        }
    }

    /// The pass over the training data in which its table is made, where it is made of data. A table of a later pass depends on one of
    /// an earlier pass.
    pub fn pass(&self) -> Option<u32> {
        match &self.kind {
            ColumnOpKind::Vocabulary(Vocabulary {
                words: WordSource::Data { pass },
                ..
            })
            | ColumnOpKind::Standardize { pass, .. } => Some(*pass),
            _ => None,
        }
    }

    /// The features it is computed of.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.operands.iter().filter_map(|operand| match operand {
            ColumnOperand::Feature(name) => Some(name.as_str()),
            ColumnOperand::Str(_) => None,
        })
    }
}

impl Display for ColumnOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "column {} = {}(", self.name, self.kind.name())?;
        let operands = self.operands.iter().map(|operand| match operand {
            ColumnOperand::Feature(name) => name.clone(),
            ColumnOperand::Str(text) => quote(text),
        });
        let arguments = match &self.kind {
            ColumnOpKind::HashBucket { buckets } | ColumnOpKind::Crossed { buckets } => {
                vec![format!("buckets: {buckets}")]
            }
            ColumnOpKind::Vocabulary(vocabulary) => vec![
                format!("table: {}", quote(&vocabulary.table)),
                format!("from: {}", vocabulary.words),
                format!("size: {}", vocabulary.size),
                format!("oov: {}", vocabulary.oov),
            ],
            ColumnOpKind::Standardize { table, .. } => vec![format!("table: {}", quote(table))],
            _ => Vec::new(),
        };
        let all: Vec<String> = operands.chain(arguments).collect();
        write!(f, "{}) : {}", all.join(", "), self.ty)
    }
}

impl Display for WordSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WordSource::File(file) => f.write_str(&quote(&file.pattern)),
            WordSource::List(words) => {
                let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
                write!(f, "[{}]", words.join(", "))
            }
            WordSource::Data { .. } => f.write_str("data"),
        }
    }
}

impl ColumnOpKind {
    /// The name of the function in the language.
    pub fn name(&self) -> &'static str {
        match self {
            ColumnOpKind::Copy => "identity",
            ColumnOpKind::Equal => "equal",
            ColumnOpKind::NotEqual => "not_equal",
            ColumnOpKind::IsMissing => "is_missing",
            ColumnOpKind::Select => "where",
            ColumnOpKind::Bytes => "bytes",
            ColumnOpKind::Characters => "characters",
            ColumnOpKind::Words => "words",
            ColumnOpKind::HashBucket { .. } => "hash_bucket",
            ColumnOpKind::Crossed { .. } => "crossed",
            ColumnOpKind::Vocabulary(_) => "vocabulary",
            ColumnOpKind::Standardize { .. } => "standardize",
        }
    }
}
