//! What can be wrong with a file, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, FormatError>;

/// The class of a failure, by TensorFlow's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The bytes are damaged: a checksum, a length or a structure is wrong.
    DataLoss,
    /// There is no such file, tensor or record.
    NotFound,
    /// What was asked for cannot be, whatever the file holds.
    InvalidArgument,
    /// Nothing is left to read.
    OutOfRange,
    /// It is not possible in the state things are in, such as a writer that is closed.
    FailedPrecondition,
    /// It is there already.
    AlreadyExists,
    /// The machine has not enough of something, or a bound of this crate was met.
    ResourceExhausted,
    /// The file uses a feature that this crate does not know.
    Unimplemented,
    /// The operating system does not allow it.
    PermissionDenied,
    /// It took longer than it was given.
    DeadlineExceeded,
    /// The operating system failed in another way.
    Internal,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A file of records.
    Record,
    /// A serialized example inside a record.
    Example,
    /// The index of a checkpoint, or a checkpoint of the first version: a sorted table.
    Table,
    /// A data file of a checkpoint.
    CheckpointData,
    /// The text file that lists checkpoints.
    CheckpointState,
    /// A file of events.
    Events,
    /// A graph with what belongs to it.
    MetaGraph,
    /// A file of named tensors with a JSON header.
    Safetensors,
    /// A NumPy array, or an archive of them.
    Numpy,
    /// Anything else.
    Other,
}

/// A file that could not be read or written: which, where and why.
///
/// ```
/// use trainspec_formats::{Code, FileKind, FormatError};
///
/// let error = FormatError::data_loss(FileKind::Record, "the checksum of the length is wrong")
///     .at(1024)
///     .in_file("train.tfrecord");
/// assert_eq!(error.code, Code::DataLoss);
/// assert_eq!(error.to_string(), "train.tfrecord: at byte 1024: the checksum of the length is wrong");
/// ```
#[derive(Debug)]
pub struct FormatError {
    /// The class of the failure.
    pub code: Code,
    /// What kind of file it was.
    pub kind: FileKind,
    /// The file, if it has a name.
    pub path: Option<PathBuf>,
    /// The byte of the file where what is wrong begins.
    pub offset: Option<u64>,
    /// What is wrong.
    pub cause: String,
    /// What the operating system said, if it was asked.
    pub source: Option<io::Error>,
}

impl FormatError {
    /// A failure of any class.
    pub fn new(code: Code, kind: FileKind, cause: impl Into<String>) -> FormatError {
        FormatError {
            code,
            kind,
            path: None,
            offset: None,
            cause: cause.into(),
            source: None,
        }
    }

    /// Damaged bytes.
    pub fn data_loss(kind: FileKind, cause: impl Into<String>) -> FormatError {
        FormatError::new(Code::DataLoss, kind, cause)
    }

    /// Something that is not there.
    pub fn not_found(kind: FileKind, cause: impl Into<String>) -> FormatError {
        FormatError::new(Code::NotFound, kind, cause)
    }

    /// A question that has no answer.
    pub fn invalid(kind: FileKind, cause: impl Into<String>) -> FormatError {
        FormatError::new(Code::InvalidArgument, kind, cause)
    }

    /// A failure of the operating system; `doing` says what was tried: `cannot {doing}: ...`.
    pub fn io(kind: FileKind, doing: &str, source: io::Error) -> FormatError {
        let code = match source.kind() {
            io::ErrorKind::NotFound => Code::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Code::PermissionDenied
            }
            io::ErrorKind::AlreadyExists => Code::AlreadyExists,
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::OutOfMemory => Code::ResourceExhausted,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Code::DataLoss,
            io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename => Code::InvalidArgument,
            _ => Code::Internal,
        };
        FormatError {
            source: Some(source),
            ..FormatError::new(code, kind, format!("cannot {doing}"))
        }
    }

    /// The same, with the byte where it is; one that is known already is kept.
    pub fn at(mut self, offset: u64) -> FormatError {
        self.offset.get_or_insert(offset);
        self
    }

    /// The same, with the file it is in; one that is known already is kept.
    pub fn in_file(mut self, path: impl AsRef<Path>) -> FormatError {
        self.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// The same, where offsets were counted from a place that is `by` bytes into the file.
    pub fn shifted(mut self, by: u64) -> FormatError {
        self.offset = self.offset.map(|offset| offset.saturating_add(by));
        self
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(offset) = self.offset {
            write!(f, "at byte {offset}: ")?;
        }
        write!(f, "{}", self.cause)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FormatError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
