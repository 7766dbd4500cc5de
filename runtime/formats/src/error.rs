//! `FormatError`: what is wrong with a file, and at which byte offset.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, FormatError>;

/// TensorFlow's error codes (`tensorflow::error::Code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The bytes are damaged: a checksum, a length or a structure is wrong.
    DataLoss,
    /// There is no such file, tensor or record.
    NotFound,
    /// The request is invalid, whatever the file holds.
    InvalidArgument,
    /// Nothing is left to read.
    OutOfRange,
    /// It is not possible in the current state, such as after a writer is closed.
    FailedPrecondition,
    /// It exists already.
    AlreadyExists,
    /// The machine is out of memory or disk space, or a limit of this crate was exceeded.
    ResourceExhausted,
    /// The file uses a feature that this crate does not support.
    Unimplemented,
    /// The operating system does not allow it.
    PermissionDenied,
    /// A timeout expired.
    DeadlineExceeded,
    /// It was cancelled, usually by the caller.
    Cancelled,
    /// It was aborted, usually by a restart elsewhere: it may be tried again from an earlier point.
    Aborted,
    /// A service cannot be reached at the moment: it may be tried again.
    Unavailable,
    /// The operating system failed in another way, or an invariant is broken.
    Internal,
    /// An error of no known class, such as one of a user's hook.
    Unknown,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A TFRecord file.
    Record,
    /// A serialized example inside a record.
    Example,
    /// A sorted string table: the index of a checkpoint, or a checkpoint of the first version.
    Table,
    /// A data file of a checkpoint.
    CheckpointData,
    /// The `checkpoint` state file.
    CheckpointState,
    /// An event file.
    Events,
    /// A `MetaGraphDef`.
    MetaGraph,
    /// A `safetensors` file.
    Safetensors,
    /// A NumPy array, or an archive of them.
    Numpy,
    /// An IDX file, as those of MNIST.
    Idx,
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
    /// The byte offset of the damage in the file.
    pub offset: Option<u64>,
    /// What is wrong.
    pub cause: String,
    /// The operating system's error, if there is one.
    pub source: Option<io::Error>,
}

impl FormatError {
    /// An error with any code.
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

    /// Something that does not exist.
    pub fn not_found(kind: FileKind, cause: impl Into<String>) -> FormatError {
        FormatError::new(Code::NotFound, kind, cause)
    }

    /// An invalid argument.
    pub fn invalid(kind: FileKind, cause: impl Into<String>) -> FormatError {
        FormatError::new(Code::InvalidArgument, kind, cause)
    }

    /// An error of the operating system; `doing` says what was tried: `cannot {doing}: ...`.
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

    /// Sets the byte offset, unless it is set already.
    pub fn at(mut self, offset: u64) -> FormatError {
        self.offset.get_or_insert(offset);
        self
    }

    /// Sets the file, unless it is set already.
    pub fn in_file(mut self, path: impl AsRef<Path>) -> FormatError {
        self.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// Puts before the cause what it is about: a tensor, a feature, a record.
    pub(crate) fn about(mut self, subject: impl fmt::Display) -> FormatError {
        self.cause = format!("{subject}: {}", self.cause);
        self
    }

    /// Adds `by` to the offset, for offsets that were counted from that byte of the file.
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
