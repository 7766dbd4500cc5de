//! Sources of data sets: where records come from, and how they are read.

use trainspec_ir::Span;

use crate::typed::{DataSet, FilePattern, Registered};

/// The source of the records of a data set.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its kind, with the arguments.
    pub kind: SourceKind,
    /// The most records of an epoch that may be left out because they cannot be decoded; without it the first one is an error.
    pub max_skipped: Option<u64>,
    /// The span of the setting.
    pub span: Span,
}

/// The kinds of sources.
#[derive(Debug, Clone)]
pub enum SourceKind {
    /// TFRecord files of Examples.
    TfRecord {
        /// The files; there is at least one pattern.
        files: Vec<FilePattern>,
        /// Their compression.
        compression: Compression,
    },
    /// Files of comma-separated values.
    Csv {
        /// The files; there is at least one pattern.
        files: Vec<FilePattern>,
        /// Their compression.
        compression: Compression,
        /// The byte between two fields: ASCII, and no quote or line end.
        delimiter: u8,
        /// Whether the first line of a file names the columns.
        header: bool,
        /// The fields that stand for a missing value; without a list, the empty one where the feature has a default.
        missing: Option<Vec<String>>,
    },
    /// Text files; a record is a part of one.
    Text {
        /// The files; there is at least one pattern.
        files: Vec<FilePattern>,
        /// Their compression.
        compression: Compression,
        /// What a record is.
        unit: TextUnit,
    },
    /// Files of arrays, whose first dimension is the records.
    Arrays {
        /// Their format.
        format: ArrayFormat,
        /// The files.
        files: ArrayFiles,
    },
    /// Files that are one record each, such as images in folders.
    Files {
        /// The files; there is at least one pattern.
        files: Vec<FilePattern>,
        /// How images of another size are brought to that of their feature; without it they are an error.
        resize: Option<Resize>,
    },
    /// Arrays that the Rust program hands in under a name.
    Memory {
        /// The name.
        name: String,
    },
    /// Records of an iterator that the Rust program registers.
    Registered(Registered),
    /// Records of several data sets, drawn by their weights.
    Mix {
        /// The data sets; they give records with the same features.
        parts: Vec<MixPart>,
        /// The seed of the draws; that of the run where there is none.
        seed: Option<i64>,
        /// When it ends.
        until: MixUntil,
    },
    /// Records of several data sets, joined one by one; it ends with the shortest.
    Zip {
        /// The data sets; no two of them have a feature of one name.
        parts: Vec<DataSet>,
    },
}

/// A data set of a mixture.
#[derive(Debug, Clone)]
pub struct MixPart {
    /// Its weight: a positive number; only the ratios of weights count.
    pub weight: f64,
    /// The data set.
    pub data: DataSet,
}

/// When a mixture ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixUntil {
    /// When all data sets have ended, the default; those that have are drawn no more.
    All,
    /// When the first one has ended.
    First,
}

impl MixUntil {
    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            MixUntil::All => "all",
            MixUntil::First => "first",
        }
    }
}

/// The compression of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Detected from the first bytes of each file.
    Auto,
    /// None.
    None,
    /// gzip.
    Gzip,
    /// zlib.
    Zlib,
}

impl Compression {
    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            Compression::Auto => "auto",
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zlib => "zlib",
        }
    }
}

/// The parts of a text that are records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUnit {
    /// Lines, without their line ends.
    Line,
    /// Words, between ASCII white space.
    Word,
    /// Characters of UTF-8.
    Character,
    /// Bytes.
    Byte,
}

impl TextUnit {
    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            TextUnit::Line => "line",
            TextUnit::Word => "word",
            TextUnit::Character => "character",
            TextUnit::Byte => "byte",
        }
    }
}

/// The format of files of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayFormat {
    /// IDX, that of MNIST: one array.
    Idx,
    /// NumPy's `npy`: one array.
    Npy,
    /// NumPy's `npz`: arrays by name.
    Npz,
}

impl ArrayFormat {
    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            ArrayFormat::Idx => "idx",
            ArrayFormat::Npy => "npy",
            ArrayFormat::Npz => "npz",
        }
    }
}

/// The files of arrays.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrayFiles {
    /// All features are in the same files; those of one array have one feature.
    Shared(Vec<FilePattern>),
    /// The files of each feature, by its key; they are not empty.
    ByKey(Vec<(String, Vec<FilePattern>)>),
}

impl ArrayFiles {
    /// The files of a feature.
    pub fn of(&self, key: &str) -> Option<&[FilePattern]> {
        match self {
            ArrayFiles::Shared(files) => Some(files),
            ArrayFiles::ByKey(all) => {
                let found = all.iter().find(|(own, _)| own == key);
                found.map(|(_, files)| files.as_slice())
            }
        }
    }
}

/// How an image is brought to another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resize {
    /// The nearest pixel.
    Nearest,
    /// Linear interpolation between four pixels.
    Bilinear,
    /// The mean of the area that a pixel covers.
    Area,
}

impl Resize {
    /// The word that a spec has for it.
    pub fn word(self) -> &'static str {
        match self {
            Resize::Nearest => "nearest",
            Resize::Bilinear => "bilinear",
            Resize::Area => "area",
        }
    }
}

impl Source {
    /// Whether any of its records can be read by its index.
    pub fn is_indexed(&self) -> bool {
        // How many there are is not known where some are left out.
        self.max_skipped.is_none()
            && match &self.kind {
                // A compressed file has no index; it is refused when it is opened.
                SourceKind::TfRecord { .. } => true,
                SourceKind::Text { unit, .. } => matches!(unit, TextUnit::Line | TextUnit::Byte),
                SourceKind::Arrays { .. }
                | SourceKind::Files { .. }
                | SourceKind::Memory { .. } => true,
                SourceKind::Csv { .. } | SourceKind::Registered(_) | SourceKind::Mix { .. } => {
                    false
                }
                // Whether the stages of its parts leave them indices is seen when they are checked.
                SourceKind::Zip { parts } => parts.iter().all(|part| part.source.is_indexed()),
            }
    }

    /// Whether it reads files of many records from their starts to their ends, so that several can be read in turn.
    pub fn is_interleaved(&self) -> bool {
        match self.kind {
            SourceKind::TfRecord { .. } | SourceKind::Csv { .. } | SourceKind::Text { .. } => true,
            SourceKind::Arrays { .. }
            | SourceKind::Files { .. }
            | SourceKind::Memory { .. }
            | SourceKind::Registered(_)
            | SourceKind::Mix { .. }
            | SourceKind::Zip { .. } => false,
        }
    }

    /// The data sets that it joins.
    pub fn parts(&self) -> Vec<&DataSet> {
        match &self.kind {
            SourceKind::Mix { parts, .. } => parts.iter().map(|part| &part.data).collect(),
            SourceKind::Zip { parts } => parts.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it has no last record.
    pub fn is_endless(&self) -> bool {
        let parts = self.parts();
        let mut endless = parts.iter().map(|part| part.is_endless());
        match &self.kind {
            SourceKind::Mix {
                until: MixUntil::All,
                ..
            } => endless.any(|endless| endless),
            SourceKind::Mix { .. } | SourceKind::Zip { .. } => endless.all(|endless| endless),
            _ => false,
        }
    }

    /// This source, its parts having the stages that another one has in evaluations.
    pub(crate) fn with_evaluation(mut self, other: Source) -> Source {
        let own: Vec<&mut DataSet> = match &mut self.kind {
            SourceKind::Mix { parts, .. } => parts.iter_mut().map(|part| &mut part.data).collect(),
            SourceKind::Zip { parts } => parts.iter_mut().collect(),
            _ => return self,
        };
        for (own, other) in own.into_iter().zip(other.parts()) {
            own.eval_stages.clone_from(&other.stages);
            own.source = own.source.clone().with_evaluation(other.source.clone());
        }
        self
    }

    /// The word that a spec has for it.
    pub fn word(&self) -> &'static str {
        match &self.kind {
            SourceKind::TfRecord { .. } => "tfrecord",
            SourceKind::Csv { .. } => "csv",
            SourceKind::Text { .. } => "text",
            SourceKind::Arrays { format, .. } => format.word(),
            SourceKind::Files { .. } => "files",
            SourceKind::Memory { .. } => "memory",
            SourceKind::Registered(_) => "source",
            SourceKind::Mix { .. } => "mix",
            SourceKind::Zip { .. } => "zip",
        }
    }
}
