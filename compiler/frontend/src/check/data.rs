//! Data sets (input pipelines), and whether they fit the model. Sources, features and stages have files of their own.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_ir::{Size, Span, TensorType};

use crate::ast::{self, Name, SettingValue};
use crate::check::Checker;
use crate::check::columns::Origins;
use crate::check::joined::joined_of;
use crate::check::scope::{Frame, FrameKind};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, DataSet, Feature, Source, SourceKind, Stage, StageKind, column_ops};

/// The input pipeline as checked so far.
#[derive(Default)]
pub(super) struct Pipeline {
    pub source: Option<Source>,
    pub features: Vec<Feature>,
    /// The types of the elements, and the spans of their declarations.
    pub elements: BTreeMap<String, (TensorType, Span)>,
    pub stages: Vec<Stage>,
    /// The stage from which on elements are batches.
    pub batched: Option<Span>,
    /// The stage from which on records come more than once.
    pub repeated: Option<Span>,
    /// The stage from which on there is no last record.
    pub endless: Option<Span>,
    /// The stage from which on records cannot be read by their indices.
    pub unindexed: Option<Span>,
    /// Features whose declaration or value has an error.
    pub broken: Vec<Name>,
    /// What the features depend on.
    pub origins: Origins,
    /// The names of its tables.
    pub tables: BTreeSet<String>,
    /// The data set that it is derived from.
    pub base: Option<Name>,
}

impl Checker<'_> {
    pub(crate) fn data_sets(&mut self) -> Vec<DataSet> {
        let sections = self.items.data.clone();
        sections.iter().filter_map(|s| self.data_set(s)).collect()
    }

    fn data_set(&mut self, section: &ast::Section) -> Option<DataSet> {
        let name = section.name.clone()?;
        self.declared
            .insert(name.span, ("data set", name.text.clone()));
        self.reject_repeated(&self.settings_with_bases(section), "data");
        let errors_before = self.errors.len();
        // What has a count has the same in both modes.
        let counts = self.counts;
        self.training = true;
        let train = self.data_mode(section, &name);
        let counted = std::mem::replace(&mut self.counts, counts);
        self.training = false;
        let eval = self.data_mode(section, &name);
        self.training = true;
        self.counts = self.counts.max(counted);
        let has_error = self.errors[errors_before..]
            .iter()
            .any(Diagnostic::is_error);
        let (train, eval) = train.zip(eval).filter(|_| !has_error)?;
        if !self.modes_agree(&name, &train, &eval) {
            return None;
        }
        let parts: Vec<String> = match train.source.as_ref().map(|source| &source.kind) {
            Some(SourceKind::Mix { parts, .. }) => {
                parts.iter().map(|part| part.data.name.clone()).collect()
            }
            Some(SourceKind::Zip { parts }) => parts.iter().map(|part| part.name.clone()).collect(),
            _ => Vec::new(),
        };
        for part in parts {
            let reason = format!(
                "`{}` joins its records, and prepares its own ahead",
                name.text
            );
            self.warn_prefetch(&part, &reason);
        }
        let elements = train.elements.into_iter();
        Some(DataSet {
            name: name.text,
            source: train.source?.with_evaluation(eval.source?),
            features: train.features,
            stages: train.stages,
            eval_stages: eval.stages,
            elements: elements.map(|(n, (ty, _))| (n, ty)).collect(),
        })
    }

    /// One pass over a data set, in one mode.
    fn data_mode(&mut self, section: &ast::Section, name: &Name) -> Option<Pipeline> {
        let path = format!("data/{}", name.text);
        self.store.restart_sites(&path);
        let frame = Frame::new(FrameKind::Data, path);
        self.framed(frame, |c| c.data_settings(section, name, &mut Vec::new()))
    }

    /// Whether both modes give elements of the same types, with the same tables.
    fn modes_agree(&mut self, name: &Name, train: &Pipeline, eval: &Pipeline) -> bool {
        for (feature, (ty, span)) in &train.elements {
            let other = eval.elements.get(feature).map(|(ty, _)| ty);
            if other == Some(ty) {
                continue;
            }
            let message = format!("`{feature}` has another type where `training` is false");
            let found = other.map_or("nothing".to_owned(), |ty| format!("`{ty}`"));
            self.report(
                Diagnostic::new(Code::FeatureMismatch, *span, message)
                    .label(format!("`{ty}` while training, {found} in evaluations"))
                    .help("give both the same type: an evaluation crops in the center where a training crops at random"),
            );
            return false;
        }
        let tables = |pipeline: &Pipeline| -> Vec<(String, String)> {
            let made = column_ops(&pipeline.stages).filter(|op| op.pass().is_some());
            made.map(|op| {
                (
                    op.table().unwrap_or_default().to_owned(),
                    op.kind.name().to_owned(),
                )
            })
            .collect()
        };
        if tables(train) != tables(eval) {
            let message = format!(
                "the tables that `{}` makes of its data depend on `training`",
                name.text
            );
            self.report(
                Diagnostic::new(Code::FeatureMismatch, name.span, message)
                    .help("a table is made once, and the same in both modes: compute it outside of `if training`"),
            );
            return false;
        }
        true
    }

    /// The pipeline of a section; `chain` are the data sets that are derived from it.
    pub(super) fn data_settings(
        &mut self,
        section: &ast::Section,
        name: &Name,
        chain: &mut Vec<Name>,
    ) -> Option<Pipeline> {
        let mut pipeline = Pipeline::default();
        chain.push(name.clone());
        let errors_before = self.errors.len();
        let broken = section
            .settings
            .iter()
            .any(|s| matches!(s.value, SettingValue::Bad(_)));
        for (i, setting) in section.settings.iter().enumerate() {
            self.reject_clauses(setting, &[]);
            if matches!(setting.value, SettingValue::Bad(_)) {
                continue;
            }
            let word = setting.word.text.as_str();
            match word {
                "source" => {
                    if i > 0 {
                        self.report(
                            Diagnostic::new(
                                Code::StageOrder,
                                setting.word.span,
                                "a data set begins with its source",
                            )
                            .help("move it before all others: stages apply in the order written"),
                        );
                    }
                    if let Some(joined) = joined_of(setting) {
                        pipeline = self.join(&joined, chain)?;
                        continue;
                    }
                    if let Some(base) = self.base_of(setting) {
                        // What is wrong with the other data set is reported there.
                        pipeline = self.derive(&base, chain)?;
                        continue;
                    }
                    pipeline.source = self.source(setting);
                    let is_indexed = pipeline.source.as_ref().is_none_or(Source::is_indexed);
                    pipeline.unindexed = (!is_indexed).then_some(setting.word.span);
                }
                "feature" | "sequence" => self.feature(setting, &mut pipeline),
                "map" => self.map(setting, &mut pipeline),
                "filter" => self.filter(setting, &mut pipeline),
                "drop" => self.drop_feature(setting, &mut pipeline),
                _ => self.stage(setting, &mut pipeline),
            }
        }
        if pipeline.base.is_none() {
            self.check_features(&pipeline);
        }
        let missing = !section.settings.iter().any(|s| s.word.text == "source");
        if missing && !broken {
            self.report(
                Diagnostic::new(
                    Code::MissingSetting,
                    name.span,
                    format!("the data set `{}` has no source", name.text),
                )
                .help("say where records come from: `source tfrecord(\"...\");` or `source csv(\"...\");`"),
            );
        }
        // What it gives is unknown, so nothing that follows from it is reported.
        let has_error = self.errors[errors_before..]
            .iter()
            .any(Diagnostic::is_error);
        let known = !broken && !has_error && pipeline.broken.is_empty();
        chain.pop();
        known.then_some(pipeline)
    }

    /// The names of the data sets of the spec.
    pub(super) fn data_set_names(&self) -> Vec<String> {
        let names = self.items.data.iter().filter_map(|d| d.name.as_ref());
        names.map(|name| name.text.clone()).collect()
    }

    /// Finds the data set that a section names, and checks that it gives what the model takes.
    pub(crate) fn used_data(
        &mut self,
        setting: &ast::Setting,
        section: &str,
        model: Option<&typed::Model>,
        data: &[DataSet],
    ) -> Option<String> {
        let bound = self.setting(section, setting)?;
        let name: String = bound.require("name");
        let name_span = bound.span_of("name");
        let declared = self
            .items
            .data
            .iter()
            .find_map(|d| d.name.clone().filter(|n| n.text == name));
        let Some(declared) = declared else {
            let known = self.data_set_names();
            if self.is_broken(&name) {
                return None;
            }
            let help = match nearest(&name, known.iter().map(String::as_str)) {
                Some(near) => Some(format!("did you mean `{near}`?")),
                None => Some("declare it: `data NAME { source ...; }`".to_owned()),
            };
            let message = format!("there is no data set `{name}`");
            self.report(Diagnostic::new(Code::UnknownName, name_span, message).maybe_help(help));
            return None;
        };
        self.mark_used(declared.span);
        if let (Some(model), Some(set)) = (model, data.iter().find(|d| d.name == name)) {
            self.fit_features(model, set, name_span);
            if section == "train" {
                self.fit_vocabularies(model, set, name_span);
            }
        }
        Some(name)
    }

    /// Rejects outputs that are ids of words where the training data has no such vocabulary.
    fn fit_vocabularies(&mut self, model: &typed::Model, set: &DataSet, name_span: Span) {
        for words in &model.eval.words {
            let name = &words.vocabulary;
            if set.vocabulary(name).is_some() {
                continue;
            }
            let message = format!("the data set `{}` has no vocabulary `{name}`", set.name);
            self.report(
                Diagnostic::new(Code::FeatureMismatch, name_span, message)
                    .note_at(words.span, format!("`{}` gives words of it", words.output))
                    .help(format!(
                        "make one: `map {name} = vocabulary({name}, from: [\"...\"], oov: 0);`"
                    )),
            );
        }
    }

    fn fit_features(&mut self, model: &typed::Model, set: &DataSet, name_span: Span) {
        // What the data lacks a feed may give, which only the program knows.
        let hooks = self.items.hooks.iter().flat_map(|hooks| &hooks.settings);
        let has_feed = hooks.into_iter().any(|hook| hook.word.text == "feed");
        let mut sizes: BTreeMap<String, (Size, String)> = BTreeMap::new();
        for input in &model.inputs {
            let Some(found) = set.elements.get(&input.name) else {
                if has_feed {
                    continue;
                }
                // A feature that the model takes is not the one that is missing.
                let taken = |name: &str| model.inputs.iter().any(|i| i.name == name);
                let free = set.elements.keys().map(String::as_str);
                let free: Vec<&str> = free.filter(|name| !taken(name)).collect();
                let near = match free[..] {
                    [only] => Some(only),
                    _ => nearest(&input.name, free.iter().copied()),
                };
                let help = match near {
                    Some(near) => format!(
                        "it has `{near}`: rename one, or add `map {} = {near};`",
                        input.name
                    ),
                    None => format!(
                        "add `feature {0}: {1};` or `map {0} = ...;`",
                        input.name, input.ty.dtype
                    ),
                };
                self.report(
                    Diagnostic::new(
                        Code::FeatureMismatch,
                        name_span,
                        format!(
                            "the data set `{}` has no feature `{}`",
                            set.name, input.name
                        ),
                    )
                    .note_at(
                        input.span,
                        format!("the model takes `{}: {}`", input.name, input.ty),
                    )
                    .help(help),
                );
                continue;
            };
            let problem = if found.dtype != input.ty.dtype {
                Some(format!(
                    "convert it in the data set: `map {0} = cast({0}, {1});`",
                    input.name, input.ty.dtype
                ))
            } else if found.rank() + 1 == input.ty.rank() && !set.stages.iter().any(is_batch) {
                Some("add `batch 32;` to the data set".to_owned())
            } else {
                fit_dims(&mut sizes, input, found)
            };
            if let Some(help) = problem {
                self.report(
                    Diagnostic::new(
                        Code::FeatureMismatch,
                        name_span,
                        format!("the feature `{}` is not what the model takes", input.name),
                    )
                    .label(format!("`{}` gives `{found}`", set.name))
                    .note_at(input.span, format!("the model takes `{}`", input.ty))
                    .help(help),
                );
            }
        }
    }
}

fn is_batch(stage: &Stage) -> bool {
    matches!(stage.kind, StageKind::Batch(_))
}

/// Unifies the dimensions of an input with those of a feature; gives the message where that fails.
fn fit_dims(
    sizes: &mut BTreeMap<String, (Size, String)>,
    input: &Feature,
    found: &TensorType,
) -> Option<String> {
    if found.rank() != input.ty.rank() {
        return Some(format!(
            "the feature has {} dimensions, the model takes {}",
            found.rank(),
            input.ty.rank()
        ));
    }
    for (expected, given) in input.ty.shape.0.iter().zip(&found.shape.0) {
        if expected.count.is_some() != given.count.is_some() {
            return Some(format!(
                "one of `{expected}` and `{given}` has a run-time count, the other has none"
            ));
        }
        let bound = expected
            .size
            .substitute(&|name| sizes.get(name).map(|(s, _)| s.clone()));
        let Some(bound) = bound else { continue };
        if bound == given.size {
            continue;
        }
        // A bare name is bound by the first feature that has it; any other expression must be equal.
        match expected.size.names().as_slice() {
            [name] if Size::named(name) == bound => {
                sizes.insert(name.to_string(), (given.size.clone(), input.name.clone()));
            }
            names => {
                let origin = names.iter().find_map(|n| {
                    let (size, feature) = sizes.get(&**n)?;
                    Some(format!(
                        "`{n}` is {size} because of `{feature}`, and here it is {}",
                        given.size
                    ))
                });
                return Some(origin.unwrap_or_else(|| {
                    format!("the sizes {} and {} differ", given.size, expected.size)
                }));
            }
        }
    }
    None
}
