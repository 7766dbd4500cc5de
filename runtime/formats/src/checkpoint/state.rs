//! The `checkpoint` file of a folder: `CheckpointState` in protocol-buffer text format.

use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::text_format::{self, Kind, Value};
use crate::error::{FileKind, FormatError, Result};
use crate::files;
use crate::memory;
pub use crate::proto::CheckpointState;
use crate::storage::{self, Storage};

/// The maximum size of a `checkpoint` file.
const MAX_STATE_FILE_BYTES: u64 = 64 << 20;

impl CheckpointState {
    /// Parses the text format.
    ///
    /// ```
    /// use trainspec_formats::checkpoint::CheckpointState;
    ///
    /// let state = CheckpointState::parse("model_checkpoint_path: \"model.ckpt-7\"\n")?;
    /// assert_eq!(state.model_checkpoint_path, "model.ckpt-7");
    /// # Ok::<(), trainspec_formats::FormatError>(())
    /// ```
    pub fn parse(text: &str) -> Result<CheckpointState> {
        let mut state = CheckpointState::default();
        let kind = |name: &str| {
            Some(match name {
                "model_checkpoint_path" => (Kind::String, false),
                "all_model_checkpoint_paths" => (Kind::String, true),
                "all_model_checkpoint_timestamps" => (Kind::Number, true),
                "last_preserved_timestamp" => (Kind::Number, false),
                _ => return None,
            })
        };
        let read = text_format::fields(text, kind, |name, value| match (name, value) {
            ("model_checkpoint_path", Value::String(path)) => state.model_checkpoint_path = path,
            (_, Value::String(path)) => state.all_model_checkpoint_paths.push(path),
            ("last_preserved_timestamp", Value::Number(time)) => {
                state.last_preserved_timestamp = time;
            }
            (_, Value::Number(time)) => state.all_model_checkpoint_timestamps.push(time),
        });
        match read {
            Ok(()) => Ok(state),
            Err(wrong) => Err(
                FormatError::data_loss(FileKind::CheckpointState, wrong.cause).at(wrong.at as u64),
            ),
        }
    }

    /// Reads a file; paths are not joined to its folder.
    pub fn read(path: &Path) -> Result<CheckpointState> {
        CheckpointState::read_in(&storage::local(), path)
    }

    /// [`read`](CheckpointState::read) in any storage.
    pub fn read_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<CheckpointState> {
        let kind = FileKind::CheckpointState;
        let file = files::open_in(storage, kind, path)?;
        let length = file
            .length()
            .map_err(|e| FormatError::io(kind, "find its length", e).in_file(path))?;
        if length > MAX_STATE_FILE_BYTES {
            return Err(
                FormatError::data_loss(kind, "it is too long for a list of checkpoints")
                    .in_file(path),
            );
        }
        // A path takes three bytes and more in the file, and a string in memory.
        let size = length as usize;
        let bytes = memory::check(kind, 24 * size).and_then(|()| memory::zeros(kind, size));
        let mut bytes = bytes.map_err(|e| e.in_file(path))?;
        file.read_exact_at(0, &mut bytes)
            .map_err(|e| FormatError::io(kind, "read it", e).in_file(path))?;
        let text = String::from_utf8(bytes)
            .map_err(|e| {
                let at = e.utf8_error().valid_up_to();
                FormatError::data_loss(kind, "it is not UTF-8").at(at as u64)
            })
            .and_then(|text| CheckpointState::parse(&text));
        text.map_err(|e| e.in_file(path))
    }

    /// All checkpoints it names, the newest last if it is not among the others.
    pub fn listed(&self) -> Vec<String> {
        let mut all = self.all_model_checkpoint_paths.clone();
        let newest = &self.model_checkpoint_path;
        if !newest.is_empty() && !all.contains(newest) {
            all.push(newest.clone());
        }
        all
    }

    /// The text format, laid out as TensorFlow does.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            out.push_str(name);
            out.push_str(": ");
            out.push_str(&value);
            out.push('\n');
        };
        if !self.model_checkpoint_path.is_empty() {
            line(
                "model_checkpoint_path",
                text_format::quoted(&self.model_checkpoint_path),
            );
        }
        for path in &self.all_model_checkpoint_paths {
            line("all_model_checkpoint_paths", text_format::quoted(path));
        }
        for &time in &self.all_model_checkpoint_timestamps {
            line(
                "all_model_checkpoint_timestamps",
                text_format::printed(time),
            );
        }
        // Negative zero is not the default.
        if self.last_preserved_timestamp.to_bits() != 0 {
            line(
                "last_preserved_timestamp",
                text_format::printed(self.last_preserved_timestamp),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_tensorflow_does() {
        let state = CheckpointState {
            model_checkpoint_path: "a\"b'c\\d\né中\x01\x7f\t\r1\x019😀".into(),
            ..CheckpointState::default()
        };
        let text = "model_checkpoint_path: \"a\\\"b\\'c\\\\d\\né中\\001\\177\\t\\r1\\0019😀\"\n";
        assert_eq!(state.to_text(), text);
        assert_eq!(CheckpointState::parse(text).unwrap(), state);
    }

    #[test]
    fn text_format_is_parsed_as_tensorflow_does() {
        let path = |text: &str| CheckpointState::parse(text).map(|s| s.model_checkpoint_path);
        for (text, expected) in [
            (r#"model_checkpoint_path: "a" "b" 'c'"#, "abc"),
            (r#"model_checkpoint_path:"a";"#, "a"),
            (
                "# c\nmodel_checkpoint_path: \"a\\303\\251\\x41\\n\\u00e9\\101\\?\\a\" # end",
                "aéA\néA\\?\x07",
            ),
            (
                r#"model_checkpoint_path: "a" model_checkpoint_path: "b""#,
                "b",
            ),
            ("model_checkpoint_path: \"é\"", "é"),
            (r#"model_checkpoint_path: "\z""#, "\\z"),
            (r#"model_checkpoint_path: "\x4142""#, "A42"),
            (r#"model_checkpoint_path: "\U0001F600""#, "😀"),
            (r#"model_checkpoint_path: 'a"b'"#, "a\"b"),
            ("model_checkpoint_path\n:\n\"a\"", "a"),
        ] {
            assert_eq!(path(text).unwrap(), expected, "{text}");
        }
        for text in [
            "model_checkpoint_path \"a\"",
            r#"model_checkpoint_path: "\377""#,
            "foo: 1",
            "model_checkpoint_path: \"a\nb\"",
            "model_checkpoint_path: \"a\\",
            "model_checkpoint_path: <a>",
            r#"model_checkpoint_path: "\xZ""#,
            r#"model_checkpoint_path: "\400""#,
            "model_checkpoint_path: \"a\";;",
            "model_checkpoint_path: \"a\",,",
            r#"model_checkpoint_path: "\ud83d\ude00""#,
            "model_checkpoint_path: [\"a\"]",
            "[foo.bar]: 1",
        ] {
            assert!(path(text).is_err(), "{text}");
        }
        let state =
            CheckpointState::parse("all_model_checkpoint_paths:[\"x\" \"y\",\"z\"]").unwrap();
        assert_eq!(state.all_model_checkpoint_paths, ["xy", "z"]);
    }

    #[test]
    fn numbers_are_read_as_tensorflow_does() {
        let time = |text: &str| {
            CheckpointState::parse(&format!("last_preserved_timestamp: {text}"))
                .map(|s| s.last_preserved_timestamp)
        };
        for (text, expected) in [
            ("1.5f", 1.5),
            ("1.5F", 1.5),
            ("-inf", f64::NEG_INFINITY),
            ("INF", f64::INFINITY),
            ("infinity", f64::INFINITY),
            ("1e400", f64::INFINITY),
            (".5", 0.5),
            ("5.", 5.0),
            ("1_0", 10.0),
            ("+1", 1.0),
        ] {
            assert_eq!(time(text).unwrap(), expected, "{text}");
        }
        for text in [
            "0x10", "- 5", "010", "\"1\"", "true", "0b1", "", "1__0", "_1",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
        let list = |text| CheckpointState::parse(text).map(|s| s.all_model_checkpoint_timestamps);
        assert!(
            list("all_model_checkpoint_timestamps: []")
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            list("all_model_checkpoint_timestamps: [1, 2.5]").unwrap(),
            [1.0, 2.5]
        );
        assert!(list("all_model_checkpoint_timestamps: [1, 2.5,]").is_err());
    }
}
