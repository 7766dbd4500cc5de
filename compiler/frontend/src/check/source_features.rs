//! Features and their source: which types a source gives, and which names it knows.

use trainspec_ir::{DType, Span, TensorType};

use crate::check::Checker;
use crate::check::data::Pipeline;
use crate::diag::{Code, Diagnostic, nearest, one_of};
use crate::typed::{ArrayFiles, Feature, Source, SourceKind, TextUnit};

/// What is known of a file that is a record.
const FILE_KEYS: [&str; 4] = ["image", "bytes", "path", "folder"];

/// Why a source has no list of a value for each step, `sequence NAME: TYPE`.
pub(super) fn no_sequence(source: Option<&Source>, name: &str, ty: &TensorType) -> Option<String> {
    let SourceKind::TfRecord { .. } = &source?.kind else {
        return Some(format!(
            "`{}` has no sequences: only the SequenceExamples of TFRecord files have",
            source?.word()
        ));
    };
    let dims = ty.shape.0.iter().enumerate();
    let counted: Vec<usize> = dims
        .filter_map(|(i, dim)| dim.count.as_ref().map(|_| i))
        .collect();
    match (counted.as_slice(), ty.rank()) {
        ([0], _) | ([0, 1], 2) => None,
        ([0, ..], _) => Some(format!(
            "a step has values of one shape, or any number of them in a row (`[<=50, <=8]`), and `{name}` is `{ty}`"
        )),
        _ => Some(format!(
            "a sequence has a varying number of steps, its first dimension (`[<=50]`), and `{name}` is `{ty}`"
        )),
    }
}

/// Why a source has no feature of such a type.
pub(super) fn unreadable(source: Option<&Source>, name: &str, ty: &TensorType) -> Option<String> {
    let dims = ty.shape.0.iter().enumerate();
    let counted: Vec<usize> = dims
        .filter_map(|(i, dim)| dim.count.as_ref().map(|_| i))
        .collect();
    let varying = |of: &str| format!("{of} no features of varying length, and `{name}` is `{ty}`");
    match (&source?.kind, counted.as_slice()) {
        (SourceKind::Text { unit, .. }, _) => {
            let dtype = match unit {
                TextUnit::Byte => DType::U8,
                TextUnit::Line | TextUnit::Word | TextUnit::Character => DType::String,
            };
            let fits = ty.dtype == dtype && ty.rank() == 0;
            (!fits).then(|| {
                let unit = unit.word();
                format!("a {unit} of a text is `{dtype}`, and `{name}` is `{ty}`")
            })
        }
        (_, []) | (SourceKind::TfRecord { .. }, [0]) => None,
        (SourceKind::Mix { .. } | SourceKind::Zip { .. }, _) => None,
        (SourceKind::TfRecord { .. }, _) => Some(format!(
            "an Example has lists of one varying length, the first, and `{name}` is `{ty}`"
        )),
        (SourceKind::Registered(_), _) => Some(varying("a source of the Rust program has")),
        (SourceKind::Csv { .. }, _) => Some(varying("a csv file has")),
        (SourceKind::Arrays { .. } | SourceKind::Memory { .. }, _) => {
            Some(varying("the records of arrays have"))
        }
        (SourceKind::Files { .. }, _) => Some(varying("files that are records have")),
    }
}

impl Checker<'_> {
    /// Rejects `as "key"` where columns have no names: the feature would be another column than the one that is meant.
    pub(super) fn check_column_name(&mut self, source: &Source, alias: Option<Span>) {
        if let (Some(span), SourceKind::Csv { header: false, .. }) = (alias, &source.kind) {
            let message = "without a header the columns have no names";
            let error = Diagnostic::new(Code::BadValue, span, message);
            self.report(error.help(
                "the features are all columns in their order; say `header: true` in the source, if the first line names the columns",
            ));
        }
    }

    /// Rejects a feature that its source does not know, or gives in another way.
    pub(super) fn check_feature(
        &mut self,
        feature: &Feature,
        source: &Source,
        columns: Option<Span>,
    ) {
        if let (Some(span), false) = (
            columns,
            matches!(source.kind, SourceKind::Csv { header: true, .. }),
        ) {
            let message = match source.kind {
                SourceKind::Csv { .. } => "without a header the columns have no names".to_owned(),
                _ => format!("a feature of `{}` has one name", source.word()),
            };
            let help = match source.kind {
                SourceKind::Csv { .. } => {
                    "say `header: true` in the source, if the first line names the columns"
                }
                _ => "only the columns of a csv file make a vector by their names",
            };
            self.report(Diagnostic::new(Code::BadValue, span, message).help(help));
        }
        let is_complete = matches!(
            source.kind,
            SourceKind::Text { .. }
                | SourceKind::Arrays { .. }
                | SourceKind::Files { .. }
                | SourceKind::Memory { .. }
        );
        if feature.default.is_some() && is_complete {
            let message = format!(
                "every record of `{}` has `{}`, so it has no default",
                source.word(),
                feature.key
            );
            let error = Diagnostic::new(Code::BadValue, feature.span, message);
            self.report(error.help("remove the default"));
        }
        match &source.kind {
            SourceKind::Arrays {
                files: ArrayFiles::ByKey(files),
                ..
            } if !files.iter().any(|(key, _)| *key == feature.key) => {
                let keys: Vec<&str> = files.iter().map(|(key, _)| key.as_str()).collect();
                let message = format!("the source has no file for the feature `{}`", feature.key);
                let help = match nearest(&feature.key, keys.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has files for {}", one_of(keys).replace(" or ", " and ")),
                };
                self.report(
                    Diagnostic::new(Code::FeatureMismatch, feature.span, message)
                        .note_at(source.span, "this is the source")
                        .help(help),
                );
            }
            SourceKind::Files { .. } => self.check_file_feature(feature),
            _ => {}
        }
    }

    fn check_file_feature(&mut self, feature: &Feature) {
        let (key, ty) = (feature.key.as_str(), &feature.ty);
        let is_string = ty.dtype == DType::String && ty.rank() == 0;
        let problem = match key {
            "image" if ty.dtype == DType::String || ty.dtype == DType::Bool || ty.rank() != 3 => {
                Some("an image is `u8[height, width, channels]`")
            }
            "image" if ty.dtype != DType::U8 => {
                Some("an image has elements of type `u8`: convert them in a `map`")
            }
            "image" if !channels(ty).is_some_and(|n| (1..=4).contains(&n)) => {
                Some("an image has 1 channel (gray), 2 (with alpha), 3 (RGB) or 4 (with alpha)")
            }
            "bytes" | "path" | "folder" if !is_string => Some("it is a `string`"),
            _ => None,
        };
        if let Some(problem) = problem {
            let message = format!("`{key}` of a file cannot be read as `{ty}`");
            let error = Diagnostic::new(Code::TypeMismatch, feature.span, message);
            self.report(error.help(problem));
        } else if !FILE_KEYS.contains(&key) {
            let message = format!("a file has no `{key}`");
            let help = match nearest(key, FILE_KEYS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "it has {}; `feature {key}: string as \"folder\";` gives one of them another name",
                    one_of(FILE_KEYS).replace(" or ", " and ")
                ),
            };
            let error = Diagnostic::new(Code::UnknownName, feature.span, message);
            self.report(error.help(help));
        }
    }

    /// Rejects a source whose features are not what it gives.
    pub(super) fn check_features(&mut self, pipeline: &Pipeline) {
        let Some(source) = &pipeline.source else {
            return;
        };
        if !pipeline.broken.is_empty() {
            return;
        }
        let features = &pipeline.features;
        match &source.kind {
            SourceKind::Arrays {
                files: ArrayFiles::ByKey(files),
                ..
            } => {
                for (key, patterns) in files {
                    if features.iter().any(|feature| feature.key == *key) {
                        continue;
                    }
                    let span = patterns.first().map_or(source.span, |file| file.span);
                    let message = format!("no feature reads the files of `{key}`");
                    let names = features.iter().map(|feature| feature.key.as_str());
                    let help = match nearest(key, names) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("declare it: `feature {key}: u8[28, 28];`"),
                    };
                    let error = Diagnostic::new(Code::FeatureMismatch, span, message);
                    self.report(error.help(help));
                }
            }
            SourceKind::Arrays {
                format: crate::typed::ArrayFormat::Idx | crate::typed::ArrayFormat::Npy,
                files: ArrayFiles::Shared(_),
            } if features.len() > 1 => {
                let word = source.word();
                let message = format!(
                    "a file of `{word}` is one array, and there are {} features",
                    features.len()
                );
                let names: Vec<String> = features
                    .iter()
                    .map(|f| format!("{}: \"...\"", f.key))
                    .collect();
                let error = Diagnostic::new(Code::FeatureMismatch, source.span, message);
                self.report(error.help(format!(
                    "say the file of each: `source {word}({});`",
                    names.join(", ")
                )));
            }
            SourceKind::Text { unit, .. } if features.len() > 1 => {
                let message = format!(
                    "a {} of a text is one feature, and there are {}",
                    unit.word(),
                    features.len()
                );
                let error = Diagnostic::new(Code::FeatureMismatch, features[1].span, message);
                self.report(error.help("`map` makes others of it"));
            }
            _ => {}
        }
        if features.is_empty()
            && !matches!(
                source.kind,
                SourceKind::TfRecord { .. }
                    | SourceKind::Csv { .. }
                    | SourceKind::Mix { .. }
                    | SourceKind::Zip { .. }
            )
        {
            let help = match source.kind {
                SourceKind::Text {
                    unit: TextUnit::Byte,
                    ..
                } => "write `feature byte: u8;`",
                SourceKind::Text { .. } => "write `feature line: string;`",
                SourceKind::Files { .. } => "write `feature image: u8[32, 32, 3];`",
                _ => "write `feature image: u8[28, 28];`",
            };
            let message = "the data set reads no feature of its source";
            let error = Diagnostic::new(Code::MissingSetting, source.span, message);
            self.report(error.help(help));
        }
    }
}

fn channels(ty: &TensorType) -> Option<i64> {
    ty.shape.0.last()?.size.value()
}
