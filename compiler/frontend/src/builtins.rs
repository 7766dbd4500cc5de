//! Signatures of the built-in settings: of data sets, `train`, `eval`, hooks and summaries.
//!
//! A table. Their arguments are checked by `check/settings.rs`; what they do is the runtime's business.

/// The type of an argument of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is named after what it takes
pub enum SettingKind {
    Str,
    /// A string or a list of strings.
    StrList,
    Int,
    /// A positive integer.
    Count,
    Number,
    /// A number, or a value that changes with `step`.
    Rate,
    /// A [`SettingKind::Rate`] whose `step` already counts the update being computed.
    RateAfter,
    Bool,
    Keyword(&'static [&'static str]),
    /// A duration.
    Duration,
    /// A number of steps or epochs, or a duration.
    Interval,
    /// The name of something in the spec.
    Name,
    /// A name or a list of names, or a pattern over variable names.
    Names,
    /// A list of pairs of strings.
    StrPairs,
    /// A pattern over variable names, a list of them, or `none`.
    Patterns,
    /// Calls of the settings of a section: one, or a list.
    Calls(&'static str),
    /// An initializer.
    Init,
    /// A list of integers.
    Ints,
}

/// A parameter of a setting.
#[derive(Debug, Clone, Copy)]
pub struct SettingParam {
    /// The name.
    pub name: &'static str,
    /// The type of the argument.
    pub kind: SettingKind,
    /// Whether it must be given.
    pub required: bool,
}

const fn need(name: &'static str, kind: SettingKind) -> SettingParam {
    SettingParam {
        name,
        kind,
        required: true,
    }
}

const fn may(name: &'static str, kind: SettingKind) -> SettingParam {
    SettingParam {
        name,
        kind,
        required: false,
    }
}

/// A word that a section knows.
#[derive(Debug, Clone, Copy)]
pub struct SettingSignature {
    /// The section: `data`, `train`, `eval`, `hooks`, `summary`; or a word whose value is a call, such as `source`.
    pub section: &'static str,
    /// The word.
    pub word: &'static str,
    /// One sentence of documentation.
    pub doc: &'static str,
    /// The parameters.
    pub params: &'static [SettingParam],
    /// Whether it may be given more than once.
    pub repeats: bool,
}

const fn one(
    section: &'static str,
    word: &'static str,
    doc: &'static str,
    params: &'static [SettingParam],
) -> SettingSignature {
    SettingSignature {
        section,
        word,
        doc,
        params,
        repeats: false,
    }
}

const fn many(
    section: &'static str,
    word: &'static str,
    doc: &'static str,
    params: &'static [SettingParam],
) -> SettingSignature {
    SettingSignature {
        repeats: true,
        ..one(section, word, doc, params)
    }
}

use SettingKind::*;

/// The arguments of a source that is another data set.
pub(crate) const OTHER_FILES: SettingSignature = one(
    "source",
    "source",
    "Another data set, with other files.",
    &[need("path", StrList)],
);

/// All settings but those with a form of their own (`feature`, `sequence`, `map`, `filter`, `drop`, `schedule`, `optimizer`).
#[rustfmt::skip] // a table: one row a setting
pub const SETTINGS: &[SettingSignature] = &[
    one("source", "tfrecord", "Records of Examples.", &[need("path", StrList), may("compression", Keyword(&["auto", "none", "gzip", "zlib"])), may("on_error", Calls("on_error"))]),
    one("source", "csv", "Lines of comma-separated values; features are columns.", &[need("path", StrList), may("header", Bool), may("delimiter", Str), may("missing", StrList), may("compression", Keyword(&["auto", "none", "gzip", "zlib"])), may("on_error", Calls("on_error"))]),
    one("source", "text", "Lines, words, characters or bytes of text.", &[need("path", StrList), may("unit", Keyword(&["line", "word", "character", "byte"])), may("compression", Keyword(&["auto", "none", "gzip", "zlib"])), may("on_error", Calls("on_error"))]),
    one("source", "idx", "Arrays in IDX files, one for each feature; records are their rows.", &[need("path", StrList)]),
    one("source", "npy", "Arrays of NumPy, one for each feature; records are their rows.", &[need("path", StrList)]),
    one("source", "npz", "Archives of named arrays of NumPy; records are their rows.", &[need("path", StrList), may("on_error", Calls("on_error"))]),
    one("source", "files", "Files that are one record each, such as images.", &[need("path", StrList), may("resize", Keyword(&["nearest", "bilinear", "area"])), may("on_error", Calls("on_error"))]),
    one("source", "memory", "Arrays that the program hands in under a name.", &[need("name", Str)]),
    one("source", "mix", "Records of several data sets, drawn by their weights.", &[may("seed", Int), may("until", Keyword(&["all", "first"]))]),
    one("source", "zip", "Records of several data sets, joined one by one.", &[]),
    one("on_error", "skip", "Leaves out records that cannot be decoded.", &[need("max", Count)]),
    many("data", "shuffle", "Shuffles records: in a buffer, or without one by their indices.", &[may("buffer", Count), may("seed", Int)]),
    many("data", "epochs", "Repeats the records for a number of epochs.", &[need("count", Count)]),
    many("data", "repeat", "Repeats the records indefinitely.", &[]),
    one("data", "batch", "Joins records into batches.", &[need("size", Count), may("remainder", Keyword(&["drop", "keep", "error"])), may("pad", Bool)]),
    one("data", "bucket_by_length", "Joins records of similar length into batches.", &[need("feature", Name), need("boundaries", Ints), need("size", Ints), may("pad", Keyword(&["longest", "boundary"])), may("remainder", Keyword(&["drop", "keep", "error"]))]),
    many("data", "take", "Keeps the first records.", &[need("count", Count)]),
    many("data", "skip", "Leaves out the first records.", &[need("count", Count)]),
    many("data", "split", "Keeps one of two subsets, chosen at random by the seed.", &[need("part", Keyword(&["train", "holdout"])), need("holdout", Number), may("seed", Int), may("by", Name)]),
    one("data", "cache", "Keeps decoded records in memory.", &[]),
    one("data", "prefetch", "Prepares batches ahead.", &[need("count", Count)]),
    one("data", "shard", "Keeps every count-th record.", &[need("index", Int), need("count", Count)]),
    one("data", "window", "Joins consecutive records into windows.", &[need("size", Count), may("shift", Count)]),
    one("data", "interleave", "Reads several files in turn.", &[need("cycle", Count), may("block", Count)]),
    one("train", "data", "What is trained on.", &[need("name", Name)]),
    one("train", "steps", "Stops after a number of updates.", &[need("count", Count)]),
    one("train", "epochs", "Stops after a number of passes over the data.", &[need("count", Count)]),
    one("train", "seed", "The seed of everything random.", &[need("value", Int)]),
    one("train", "accumulate", "Gradient accumulation: averages the gradients of a number of micro-batches.", &[need("count", Count)]),
    many("train", "freeze", "Leaves variables as they are.", &[need("pattern", StrList)]),
    many("train", "ema", "Keeps exponential moving averages of variables, or of values of the model.", &[need("decay", Rate), may("num_updates", RateAfter), may("zero_debias", Bool), may("tensors", Names), may("name", Str)]),
    many("clip", "global_norm", "Scales all gradients together.", &[need("norm", Rate), may("use_norm", Rate)]),
    many("clip", "norm", "Scales each gradient.", &[need("norm", Rate), may("axes", Ints)]),
    many("clip", "average_norm", "Scales each gradient by its average norm.", &[need("norm", Rate)]),
    many("clip", "value", "Bounds each element of a gradient.", &[need("low", Rate), need("high", Rate)]),
    one("loss_scale", "fixed", "Multiplies the loss by a constant while gradients are computed.", &[need("scale", Number)]),
    one("loss_scale", "dynamic", "Adapts the scale: grows it until gradients overflow, then shrinks it.", &[may("initial", Number), may("growth_steps", Count), may("multiplier", Number)]),
    one("eval", "data", "What is evaluated on.", &[need("name", Name)]),
    one("eval", "every", "How often.", &[need("interval", SettingKind::Interval)]),
    one("eval", "with", "With averages in place of the variables.", &[need("what", Keyword(&["ema"]))]),
    one("eval", "metrics", "Which metrics; all where left out.", &[need("names", Names)]),
    one("eval", "steps", "How many batches at the most.", &[need("count", Count)]),
    one("eval", "start_after", "Not before.", &[need("interval", SettingKind::Interval)]),
    one("hooks", "checkpoint", "Saves the state of the training.", &[need("dir", Str), may("every", SettingKind::Interval), may("keep", Int), may("keep_every", Duration), may("basename", Str), may("format", Keyword(&["bundle", "safetensors"])), may("vars", StrList), may("best", Name), may("mode", Keyword(&["min", "max"])), may("eval", Name)]),
    many("hooks", "summary", "Writes event files.", &[may("every", SettingKind::Interval), may("dir", Str)]),
    many("hooks", "log", "Prints values.", &[need("names", Names), may("every", SettingKind::Interval), may("at_end", Bool)]),
    many("hooks", "nan", "Stops when a value is NaN or infinite.", &[need("name", Name), may("fail", Bool)]),
    many("hooks", "step_counter", "Measures steps per second.", &[may("every", SettingKind::Interval), may("dir", Str)]),
    many("hooks", "stop_at", "Stops at a step.", &[may("last_step", Count), may("num_steps", Count)]),
    many("hooks", "early_stop", "Stops when a metric of an evaluation no longer improves.", &[need("metric", Name), need("patience", Count), may("min_delta", Number), may("goal", Keyword(&["min", "max"])), may("eval", Name)]),
    many("hooks", "profile", "Writes traces of steps.", &[may("every", SettingKind::Interval), may("dir", Str), may("show_dataflow", Bool), may("show_memory", Bool)]),
    many("hooks", "wait_for_step", "Waits before the first step until another run has reached a step.", &[need("step", Count), need("dir", Str)]),
    many("hooks", "final_ops", "Computes values at the end.", &[need("names", Names)]),
    many("summary", "scalar", "Numbers.", &[need("names", Names)]),
    many("summary", "histogram", "Distributions.", &[need("names", Names)]),
    many("summary", "image", "Pictures.", &[need("names", Names), may("max_outputs", Count)]),
    many("summary", "audio", "Sound.", &[need("names", Names), need("sample_rate", Count), may("max_outputs", Count)]),
    many("summary", "text", "Strings.", &[need("names", Names)]),
    one("warm_start", "warm_start", "Takes variables from an older checkpoint.", &[need("checkpoint", Str), may("vars", Patterns), may("rename", StrPairs), may("vocab", Calls("vocab")), may("assign", StrPairs)]),
    many("vocab", "vocabulary", "How the vocabulary of a variable changed.", &[need("variable", Str), need("new_vocab", Str), need("old_vocab", Str), may("new_vocab_size", Count), may("num_oov_buckets", Int), may("old_vocab_size", Int), may("backup_initializer", Init), may("axis", Int)]),
];

/// The signature of a word.
pub(crate) fn find(section: &str, word: &str) -> Option<&'static SettingSignature> {
    SETTINGS
        .iter()
        .find(|s| s.section == section && s.word == word)
}

/// The words a section knows, with those of a form of their own.
pub(crate) fn words(section: &str) -> Vec<&'static str> {
    let own: &[&str] = match section {
        "data" => &["source", "feature", "sequence", "map", "filter", "drop"],
        "train" => &["schedule", "optimizer", "clip", "loss_scale"],
        "hooks" => &["hook", "feed"],
        _ => &[],
    };
    let listed = SETTINGS
        .iter()
        .filter(|s| s.section == section)
        .map(|s| s.word);
    own.iter().copied().chain(listed).collect()
}
