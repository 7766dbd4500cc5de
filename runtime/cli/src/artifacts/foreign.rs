//! Model files of other programs, which are not read: what they are, and how to convert them.
//!
//! In: a path. Out: the name of the format by its magic bytes, or by its extension where it has none.

use std::path::Path;

use trainspec_formats::files::{self, ReadAt};
use trainspec_formats::{Code, FileKind, FormatError};

/// The file of a SavedModel that holds its graph.
pub(super) const SAVED_MODEL: &str = "saved_model.pb";

/// A file format of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) name: &'static str,
    /// What to do to read its tensors.
    help: &'static str,
}

impl Foreign {
    pub(super) fn error(self, path: &Path) -> FormatError {
        let cause = format!("this is {}, which is not read; {}", self.name, self.help);
        FormatError::new(Code::Unimplemented, FileKind::Other, cause).in_file(path)
    }
}

const PYTORCH: Foreign = Foreign {
    name: "a PyTorch checkpoint (a zip of pickles)",
    help: "convert it with PyTorch: `safetensors.torch.save_file(torch.load(IN), OUT)` writes a state dict as safetensors",
};

const PICKLE: Foreign = Foreign {
    name: "a Python pickle, such as a PyTorch checkpoint of the old form",
    help: "convert it with PyTorch: `safetensors.torch.save_file(torch.load(IN), OUT)` writes a state dict as safetensors",
};

const KERAS: Foreign = Foreign {
    name: "a Keras model (a zip with an HDF5 file)",
    help: "convert it with Keras: `tf.train.Checkpoint(keras.models.load_model(IN)).write(OUT)` writes a checkpoint",
};

const HDF5: Foreign = Foreign {
    name: "an HDF5 file, such as a Keras model or its weights",
    help: "convert it with Keras: `tf.train.Checkpoint(keras.models.load_model(IN)).write(OUT)` writes a checkpoint",
};

const SAVED_MODEL_GRAPH: Foreign = Foreign {
    name: "the graph of a SavedModel",
    help: "its variables are a checkpoint, `variables/variables` in its folder; name the folder or that",
};

const GRAPH: Foreign = Foreign {
    name: "a protocol buffer by its extension, such as a TensorFlow graph",
    help: "a frozen graph holds its tensors as constants, which TensorFlow alone extracts",
};

const META_GRAPH: Foreign = Foreign {
    name: "the graph of a checkpoint (MetaGraphDef)",
    help: "name the checkpoint by its prefix, without `.meta`",
};

const NPY: Foreign = Foreign {
    name: "a single NumPy array",
    help: "convert it with NumPy: `numpy.savez(OUT, name=numpy.load(IN))` writes an npz archive",
};

const ONNX: Foreign = Foreign {
    name: "an ONNX model by its extension",
    help: "convert it with ONNX: `onnx.numpy_helper.to_array` gives each initializer, `numpy.savez` writes an npz archive",
};

const TFLITE: Foreign = Foreign {
    name: "a TensorFlow Lite model",
    help: "convert the checkpoint or SavedModel that it was made from",
};

const GGUF: Foreign = Foreign {
    name: "a GGUF model",
    help: "convert the safetensors file that it was made from",
};

/// The foreign format of a file; `None` if it is none of those that are known.
pub(super) fn of_file(path: &Path) -> Option<Foreign> {
    let name = path.file_name()?.to_string_lossy();
    let ending = path.extension().and_then(|ending| ending.to_str());
    let by_name = match ending.unwrap_or_default() {
        _ if name == SAVED_MODEL => Some(SAVED_MODEL_GRAPH),
        "pb" | "pbtxt" => Some(GRAPH),
        "meta" => Some(META_GRAPH),
        "onnx" => Some(ONNX),
        _ => None,
    };
    by_content(path, ending.unwrap_or_default()).or(by_name)
}

/// The foreign format of a file in a folder that is searched, if it holds a model.
pub(super) fn model_in_folder(path: &Path, name: &str) -> Option<Foreign> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let found = by_content(path, ending.unwrap_or_default()).filter(|found| *found != NPY);
    found.or((name == SAVED_MODEL).then_some(SAVED_MODEL_GRAPH))
}

/// The bytes that are read of a file: the header of the first member of a zip archive, and its name.
const HEAD_BYTES: usize = 256;

/// The size of the header of a member of a zip archive; its name follows.
const ZIP_HEADER_BYTES: usize = 30;

fn by_content(path: &Path, ending: &str) -> Option<Foreign> {
    let file = files::open(FileKind::Other, path).ok()?;
    let length = usize::try_from(file.length().ok()?).unwrap_or(usize::MAX);
    let mut head = vec![0; HEAD_BYTES.min(length)];
    file.read_exact_at(0, &mut head).ok()?;
    match head[..] {
        [0x89, b'H', b'D', b'F', b'\r', b'\n', 0x1a, b'\n', ..] => Some(HDF5),
        [b'P', b'K', 3, 4, ..] => {
            let name_bytes = head.get(26..28)?.first_chunk().copied()?;
            let name = head.get(ZIP_HEADER_BYTES..)?;
            let name = &name[..name.len().min(u16::from_le_bytes(name_bytes).into())];
            match ending {
                // `torch.save` writes the pickle first, in a folder called after the file.
                _ if name.ends_with(b"/data.pkl") => Some(PYTORCH),
                _ if name == b"metadata.json" || name == b"config.json" => Some(KERAS),
                "pt" | "pth" | "bin" | "ckpt" => Some(PYTORCH),
                "keras" => Some(KERAS),
                _ => None,
            }
        }
        // The old form begins with a magic number of ten bytes.
        [0x80, 2, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, ..] => Some(PICKLE),
        [0x80, 2..=5, ..] if matches!(ending, "pt" | "pth" | "bin" | "pkl" | "pickle") => {
            Some(PICKLE)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(NPY),
        [b'G', b'G', b'U', b'F', ..] => Some(GGUF),
        [_, _, _, _, b'T', b'F', b'L', b'3', ..] => Some(TFLITE),
        _ => None,
    }
}
