//! The options of a saver, and their form as a `SaverDef`.

use std::path::{Path, PathBuf};

use trainspec_formats::proto::SaverDef;
use trainspec_formats::proto::saver_def::CheckpointFormatVersion;

use crate::saver::files::{state_file, suffixed};
use crate::saver::{Saver, VarList};
use crate::{Code, Error};

/// The file format of a checkpoint.
///
/// ```
/// use trainspec::saver::{Format, SaverOptions};
///
/// let options = SaverOptions { format: Format::Safetensors, ..SaverOptions::default() };
/// assert_ne!(options.format, Format::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// An index and data files, a tensor bundle (`SaverDef.V2`).
    #[default]
    V2,
    /// Sorted string tables (`SaverDef.V1`).
    V1,
    /// One file of Hugging Face's library, with a checksum in its metadata.
    Safetensors,
}

/// The arguments of `tf.compat.v1.train.Saver` and of its `save`, with TensorFlow's defaults.
///
/// ```
/// use trainspec::saver::{Format, SaverOptions};
///
/// let options = SaverOptions::default();
/// assert_eq!(options.max_to_keep, Some(5));
/// assert_eq!(options.format, Format::V2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SaverOptions {
    /// The variables, and their names in the checkpoint.
    pub var_list: VarList,
    /// How many of the newest checkpoints are kept; `None` or 0 keeps all.
    pub max_to_keep: Option<u32>,
    /// Of the older ones, one is kept for good for every interval of this many hours.
    pub keep_checkpoint_every_n_hours: f64,
    /// Over how many files the tensors are spread, by size; `None` writes one. TensorFlow writes one for each device.
    pub sharded: Option<u32>,
    /// Whether a variable may be restored from a value of another shape with as many elements.
    pub reshape: bool,
    /// Whether variables are restored one after the other. All are read before the first is set, so the order has no effect.
    pub restore_sequentially: bool,
    /// Whether there may be no variables: then a checkpoint without tensors is written.
    pub allow_empty: bool,
    /// Whether the step in the name has at least eight digits.
    pub pad_step_number: bool,
    /// Whether paths in the state file are relative to its folder, so that it can be moved.
    pub save_relative_paths: bool,
    /// The file format.
    pub format: Format,
    /// The prefix that is used where `save` is given an empty one.
    pub filename: Option<PathBuf>,
    /// The name of the state file; `None` is `checkpoint`.
    pub latest_filename: Option<String>,
    /// Whether the state file is written. Without it a checkpoint is not listed, and none is deleted.
    pub write_state: bool,
    /// Whether the folder is made if it is not there. In TensorFlow that is an error.
    pub create_folder: bool,
}

impl Default for SaverOptions {
    fn default() -> SaverOptions {
        SaverOptions {
            var_list: VarList::All,
            max_to_keep: Some(5),
            keep_checkpoint_every_n_hours: 10_000.0,
            sharded: None,
            reshape: false,
            restore_sequentially: false,
            allow_empty: false,
            pad_step_number: false,
            save_relative_paths: false,
            format: Format::V2,
            filename: None,
            latest_filename: None,
            write_state: true,
            create_folder: false,
        }
    }
}

impl SaverOptions {
    /// Checks what does not depend on a path.
    pub(super) fn check(&self) -> Result<(), Error> {
        let hours = self.keep_checkpoint_every_n_hours;
        if !(hours >= 0.0 && hours.is_finite()) {
            return Err(invalid(format!(
                "`keep_checkpoint_every_n_hours` is {hours}, and must be a number of hours"
            )));
        }
        match (self.sharded, self.format) {
            (Some(0), _) => return Err(invalid("`sharded` is 0, and a checkpoint needs a file")),
            (Some(_), Format::Safetensors) => {
                return Err(invalid(
                    "`sharded` is set, and a safetensors file is always one",
                ));
            }
            _ => {}
        }
        let file = state_file(self.latest_filename.as_deref());
        if Path::new(file).file_name() != Some(file.as_ref()) {
            return Err(invalid(format!(
                "`latest_filename` is `{file}`, and must be the name of a file without a folder"
            )));
        }
        Ok(())
    }

    /// The path of a checkpoint, without what the format adds.
    pub(super) fn checkpoint_path(
        &self,
        prefix: &Path,
        global_step: Option<u64>,
    ) -> Result<PathBuf, Error> {
        let text = prefix.as_os_str().as_encoded_bytes();
        if text
            .last()
            .is_some_and(|end| std::path::is_separator(char::from(*end)))
        {
            return Err(invalid(format!(
                "the prefix {} is a folder, and must end in the name of the checkpoint",
                prefix.display()
            )));
        }
        let file = state_file(self.latest_filename.as_deref());
        match global_step {
            Some(step) if self.pad_step_number => Ok(suffixed(prefix, &format!("-{step:08}"))),
            Some(step) => Ok(suffixed(prefix, &format!("-{step}"))),
            None if prefix.file_name() == Some(file.as_ref()) && self.sharded.is_none() => {
                Err(invalid(format!(
                    "`latest_filename` collides with the prefix: `{file}` and {}",
                    prefix.display()
                ))
                .help("give the checkpoint another name, such as `model.ckpt`"))
            }
            None => Ok(prefix.to_owned()),
        }
    }
}

impl Saver {
    /// The saver as a `SaverDef`, with the names of TensorFlow's operations. What such a message cannot say, as the variables, is left
    /// out; the safetensors format is an error.
    ///
    /// ```
    /// use trainspec::saver::{Saver, SaverOptions};
    ///
    /// let saver = Saver::new(SaverOptions { max_to_keep: Some(3), ..SaverOptions::default() })?;
    /// let def = saver.to_proto()?;
    /// assert_eq!((def.max_to_keep, def.restore_op_name.as_str()), (3, "save/restore_all"));
    /// assert_eq!(Saver::from_proto(&def)?.options(), saver.options());
    /// # Ok::<(), trainspec::Error>(())
    /// ```
    pub fn to_proto(&self) -> Result<SaverDef, Error> {
        let options = self.options();
        let version = match options.format {
            Format::V2 => CheckpointFormatVersion::V2,
            Format::V1 => CheckpointFormatVersion::V1,
            Format::Safetensors => {
                let cause = "a SaverDef cannot say that checkpoints are safetensors files";
                return Err(Error::new(Code::Unimplemented, cause));
            }
        };
        let saved = match options.sharded {
            Some(_) => "save/Identity:0",
            None => "save/control_dependency:0",
        };
        Ok(SaverDef {
            filename_tensor_name: "save/Const:0".to_owned(),
            save_tensor_name: saved.to_owned(),
            restore_op_name: "save/restore_all".to_owned(),
            max_to_keep: i32::try_from(options.max_to_keep.unwrap_or(0)).unwrap_or(i32::MAX),
            sharded: options.sharded.is_some(),
            keep_checkpoint_every_n_hours: options.keep_checkpoint_every_n_hours as f32,
            version: version.into(),
        })
    }

    /// The saver that a `SaverDef` describes, for all variables.
    pub fn from_proto(def: &SaverDef) -> Result<Saver, Error> {
        for (field, name) in [
            ("save_tensor_name", &def.save_tensor_name),
            ("restore_op_name", &def.restore_op_name),
        ] {
            if name.is_empty() {
                return Err(invalid(format!("the SaverDef has no `{field}`")));
            }
        }
        let max_to_keep = u32::try_from(def.max_to_keep).map_err(|_| {
            invalid(format!(
                "the SaverDef keeps {} checkpoints",
                def.max_to_keep
            ))
        })?;
        let format = match CheckpointFormatVersion::try_from(def.version) {
            Ok(CheckpointFormatVersion::V2) => Format::V2,
            Ok(CheckpointFormatVersion::V1 | CheckpointFormatVersion::Legacy) => Format::V1,
            Err(_) => {
                return Err(invalid(format!(
                    "the SaverDef has version {}, and 0, 1 and 2 are known",
                    def.version
                )));
            }
        };
        Saver::new(SaverOptions {
            max_to_keep: Some(max_to_keep),
            sharded: def.sharded.then_some(1),
            keep_checkpoint_every_n_hours: def.keep_checkpoint_every_n_hours.into(),
            format,
            ..SaverOptions::default()
        })
    }
}

fn invalid(cause: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, cause)
}
