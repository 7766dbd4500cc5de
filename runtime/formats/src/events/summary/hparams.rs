//! Summaries of TensorBoard's HParams plugin: hyperparameters and session results.
//!
//! An [`experiment`] declares hyperparameters and metrics once, in the folder above all runs; it is optional. Each run has a
//! [`session_start`] with its values and, in the end, a [`session_end`].
//!
//! ```
//! use trainspec_formats::events::summary::hparams::{self, HParam};
//!
//! let values = [("lr", HParam::Number(0.1)), ("optimizer", HParam::String("adam".into()))];
//! let summary = hparams::session_start(values, None, 1.6e9);
//! assert_eq!(summary.value[0].tag, "_hparams_/session_start_info");
//! ```

use prost::Message;

use crate::events::summary::{DisplayMetadata, numbers, of_plugin};
use crate::proto::Summary;
use crate::proto::hparams::h_params_plugin_data::Data;
use crate::proto::hparams::value::Kind;
use crate::proto::hparams::{
    Experiment, HParamsPluginData, SessionEndInfo, SessionStartInfo, Status, Value,
};

/// The value of a hyperparameter.
#[derive(Debug, Clone, PartialEq)]
pub enum HParam {
    /// A number; integers too.
    Number(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    String(String),
}

/// The hyperparameters and metrics of an experiment.
pub fn experiment(experiment: Experiment) -> Summary {
    of("_hparams_/experiment", Data::Experiment(experiment))
}

/// The values of a run, and when it started, in seconds since the Unix epoch. Runs of the same group are shown as one; without a group
/// each is its own.
pub fn session_start<N: Into<String>>(
    values: impl IntoIterator<Item = (N, HParam)>,
    group: Option<&str>,
    start: f64,
) -> Summary {
    let message = |value| Value {
        kind: Some(match value {
            HParam::Number(number) => Kind::NumberValue(number),
            HParam::Bool(flag) => Kind::BoolValue(flag),
            HParam::String(text) => Kind::StringValue(text),
        }),
    };
    let values = values
        .into_iter()
        .map(|(name, value)| (name.into(), message(value)));
    let info = SessionStartInfo {
        hparams: values.collect(),
        group_name: group.unwrap_or_default().to_owned(),
        start_time_secs: start,
        ..Default::default()
    };
    of("_hparams_/session_start_info", Data::SessionStartInfo(info))
}

/// How a run ended, and when.
pub fn session_end(status: Status, end: f64) -> Summary {
    let info = SessionEndInfo {
        status: status.into(),
        end_time_secs: end,
    };
    of("_hparams_/session_end_info", Data::SessionEndInfo(info))
}

fn of(tag: &str, data: Data) -> Summary {
    let content = HParamsPluginData {
        version: 0,
        data: Some(data),
    };
    // The data are in the metadata; a value is required.
    let nothing = numbers::<f32>(&[0], &[]);
    of_plugin(
        tag,
        nothing,
        "hparams",
        content.encode_to_vec(),
        DisplayMetadata::default(),
    )
}
