//! Source texts, and the line and column of a byte offset (the source map).

use std::sync::{Arc, LazyLock};

use trainspec_ir::{FileId, Span};

use crate::diag::{Code, Diagnostic};

/// The longest text that is accepted, in bytes.
pub const MAX_SOURCE_BYTES: usize = 8 << 20;

/// One text with its name.
#[derive(Debug, Clone)]
pub struct Source {
    /// The path or another name, as errors print it.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
    /// Whether it belongs to the standard library.
    pub library: bool,
}

/// The id of the first file of the standard library. All of its files have ids, the same in every compilation.
const FIRST_LIBRARY_FILE: u32 = 1 << 31;

/// The texts of the standard library.
static LIBRARY: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let files = trainspec_std::FILES.iter();
    let source = |file: &trainspec_std::File| Source {
        name: format!("std/{}", file.path),
        text: file.text.into(),
        library: true,
    };
    files.map(source).collect()
});

/// The id of a file of the standard library, by its index in `trainspec_std::FILES`.
pub(crate) fn library_file(index: usize) -> FileId {
    FileId(FIRST_LIBRARY_FILE + index as u32)
}

/// All texts of a compilation; spans refer to them by [`FileId`].
///
/// ```
/// use trainspec_frontend::source::Sources;
///
/// let mut sources = Sources::default();
/// let id = sources.add("a.trainspec", "spec a;\nconst N = 1;\n");
/// assert_eq!(sources.line_column(id, 14), (2, 7));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<Source>,
    uses: Vec<Use>,
}

/// A `use` that was followed: which file asked for which path, and the name of what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The name of the file that uses another.
    pub from: String,
    /// The path, as written.
    pub path: String,
    /// The name of the file that was found.
    pub found: String,
}

impl Sources {
    /// Adds a text of the user's.
    pub fn add(&mut self, name: &str, text: &str) -> FileId {
        self.files.push(Source {
            name: name.to_owned(),
            text: text.into(),
            library: false,
        });
        FileId((self.files.len() - 1) as u32)
    }

    /// Keeps what a `use` found.
    pub(crate) fn add_use(&mut self, from: &str, path: &str, found: &str) {
        self.uses.push(Use {
            from: from.to_owned(),
            path: path.to_owned(),
            found: found.to_owned(),
        });
    }

    /// The texts of the user's, the root first.
    pub fn files(&self) -> &[Source] {
        &self.files
    }

    /// The `use`s that were followed, in order.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// The text of an id, which must be one of this collection's or of the standard library.
    pub fn get(&self, id: FileId) -> &Source {
        match id.0.checked_sub(FIRST_LIBRARY_FILE) {
            Some(index) => &LIBRARY[index as usize],
            None => &self.files[id.0 as usize],
        }
    }

    /// The source text of a span.
    pub fn slice(&self, span: Span) -> &str {
        &self.get(span.file).text[span.range()]
    }

    /// Line and column of a byte, both counted from 1, the column in characters.
    pub fn line_column(&self, id: FileId, offset: usize) -> (usize, usize) {
        let before = &self.get(id).text[..offset];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

/// Why a source text could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// There is none of that name.
    NotFound,
    /// It exists, but cannot be used; the string says why.
    Refused(String),
}

/// Finds the text for `use "path";`. The compiler opens no file itself: whoever calls it hands in one of these.
pub trait Loader {
    /// The text at `path`, which the file named `from` asks for, with the name it shall go by. Two paths to one file
    /// must give one name.
    fn load(&self, from: &str, path: &str) -> Result<(String, String), LoadError>;
}

/// A loader that finds nothing, for specs of one file.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, _from: &str, _path: &str) -> Result<(String, String), LoadError> {
        Err(LoadError::NotFound)
    }
}

impl Loader for std::collections::BTreeMap<String, String> {
    fn load(&self, _from: &str, path: &str) -> Result<(String, String), LoadError> {
        match self.get(path) {
            Some(text) => Ok((path.to_owned(), text.clone())),
            None => Err(LoadError::NotFound),
        }
    }
}

/// The text of a file's bytes, or why they are none.
///
/// ```
/// use trainspec_frontend::source::decode;
///
/// assert_eq!(decode("a", b"spec a;".to_vec()).unwrap(), "spec a;");
/// assert_eq!(decode("a", vec![0xff]).unwrap_err().code.name(), "not-utf8");
/// ```
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<String, Diagnostic> {
    if bytes.len() > MAX_SOURCE_BYTES {
        let message =
            format!("`{name}` has more than {MAX_SOURCE_BYTES} bytes, which no spec needs");
        return Err(Diagnostic::without_span(Code::TextTooLong, message));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
        let message = format!(
            "`{name}` is not UTF-8: the byte 0x{:02x} in line {line} belongs to no character",
            bytes[at]
        );
        Diagnostic::without_span(Code::NotUtf8, message).help("save it as UTF-8")
    })?;
    // A spec is the same text, with the same hash, whatever its lines end in.
    Ok(match text.contains("\r\n") {
        true => text.replace("\r\n", "\n"),
        false => text,
    })
}
