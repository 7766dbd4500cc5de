//! Data sets of several others: `source mix(english: 0.7, german: 0.3);` and `source zip(images, labels);`.
//!
//! Each part is checked again, in the mode of the set that names it, as a data set that is derived is. Records of a mixture have the
//! features of every part, those of a zip the features of all parts together.

use std::collections::BTreeMap;

use trainspec_ir::Span;

use crate::ast::{self, Argument, ExprKind, Name, PostfixKind, SettingValue};
use crate::builtins::find;
use crate::check::Checker;
use crate::check::data::Pipeline;
use crate::check::settings::Known;
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{DataSet, MixPart, MixUntil, Source, SourceKind, column_ops};

/// How data sets are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joining {
    Mix,
    Zip,
}

/// A source that joins data sets.
pub(super) struct Joined<'a> {
    joining: Joining,
    arguments: &'a [Argument],
    span: Span,
}

/// A part, and where it is named.
struct Part {
    name: Name,
    weight: f64,
    pipeline: Pipeline,
}

/// The most data sets that are joined.
const MAX_PARTS: usize = 32;

/// The data sets that a `source` joins; `None` where it has another form.
pub(super) fn joined_of(setting: &ast::Setting) -> Option<Joined<'_>> {
    let SettingValue::Value(expr) = &setting.value else {
        return None;
    };
    let ExprKind::Postfix(base, ops) = &expr.kind else {
        return None;
    };
    let (ExprKind::Name(word), [only]) = (&base.kind, ops.as_slice()) else {
        return None;
    };
    let PostfixKind::Call(arguments) = &only.kind else {
        return None;
    };
    let joining = match word.as_str() {
        "mix" => Joining::Mix,
        "zip" => Joining::Zip,
        _ => return None,
    };
    Some(Joined {
        joining,
        arguments,
        span: base.span,
    })
}

impl Joined<'_> {
    fn word(&self) -> &'static str {
        match self.joining {
            Joining::Mix => "mix",
            Joining::Zip => "zip",
        }
    }

    fn example(&self) -> &'static str {
        match self.joining {
            Joining::Mix => "write `source mix(english: 0.7, german: 0.3);`",
            Joining::Zip => "write `source zip(images, labels);`",
        }
    }
}

impl Checker<'_> {
    /// The pipeline of a source that joins data sets; `chain` is what is being derived.
    pub(super) fn join(&mut self, joined: &Joined<'_>, chain: &mut Vec<Name>) -> Option<Pipeline> {
        let (mut parts, mut options) = (Vec::new(), Vec::new());
        for argument in joined.arguments {
            let key = argument.name.as_ref();
            let is_option = key.is_some_and(|key| matches!(key.text.as_str(), "seed" | "until"));
            match is_option && joined.joining == Joining::Mix {
                true => options.push(argument.clone()),
                false => parts.push(self.part(joined, argument, chain)?),
            }
        }
        let signature = find("source", joined.word()).expect("the table has it");
        let bound = self.bind_setting(signature, &options, joined.span)?;
        if !(2..=MAX_PARTS).contains(&parts.len()) {
            let message = format!(
                "`{}` joins from 2 to {MAX_PARTS} data sets, and this names {}",
                joined.word(),
                parts.len()
            );
            let error = Diagnostic::new(Code::BadValue, joined.span, message);
            self.report(error.help(joined.example()));
            return None;
        }
        self.reject_repeated_parts(&parts)?;
        for part in &parts {
            self.reject_part(joined, part)?;
        }
        let mut pipeline = match joined.joining {
            Joining::Mix => self.mixed(joined.span, &parts)?,
            Joining::Zip => self.zipped(joined.span, &parts)?,
        };
        pipeline.base = Some(parts[0].name.clone());
        for part in &parts {
            pipeline.tables.extend(part.pipeline.tables.iter().cloned());
        }
        let parts = parts.into_iter().map(Part::into_typed);
        let parts: Vec<MixPart> = parts.collect::<Option<_>>()?;
        let kind = match joined.joining {
            Joining::Mix => SourceKind::Mix {
                parts,
                seed: bound.get("seed"),
                until: bound
                    .keyword(
                        "until",
                        &[("all", MixUntil::All), ("first", MixUntil::First)],
                    )
                    .unwrap_or(MixUntil::All),
            },
            Joining::Zip => SourceKind::Zip {
                parts: parts.into_iter().map(|part| part.data).collect(),
            },
        };
        let source = Source {
            kind,
            max_skipped: None,
            span: joined.span,
        };
        pipeline.endless = source.is_endless().then_some(joined.span);
        pipeline.source = Some(source);
        Some(pipeline)
    }

    /// One part: `english: 0.7`, or `english`.
    fn part(
        &mut self,
        joined: &Joined<'_>,
        argument: &Argument,
        chain: &mut Vec<Name>,
    ) -> Option<Part> {
        let span = argument.value.span;
        let (name, weight) = match (&argument.name, &argument.value.kind) {
            (Some(name), _) if joined.joining == Joining::Mix => {
                (name.clone(), self.weight(&argument.value)?)
            }
            (None, ExprKind::Name(name)) => {
                let text = name.clone();
                (Name { text, span }, 1.0)
            }
            _ => {
                let message = format!("`{}` joins data sets, by their names", joined.word());
                let error = Diagnostic::new(Code::BadValue, span, message);
                self.report(error.help(joined.example()));
                return None;
            }
        };
        let mut sections = self.items.data.iter();
        let section = sections.find(|s| s.name.as_ref().is_some_and(|n| n.text == name.text));
        let Some(section) = section.cloned() else {
            let known = self.data_set_names();
            let help = match nearest(&name.text, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("declare it: `data {} {{ source ...; }}`", name.text),
            };
            let message = format!("there is no data set `{}`", name.text);
            let error = Diagnostic::new(Code::UnknownName, name.span, message);
            self.report(error.help(help));
            return None;
        };
        let declared = section.name.clone()?;
        self.mark_used(declared.span);
        if let Some(first) = chain.iter().position(|other| other.text == name.text) {
            let members = chain.split_off(first);
            self.reject_circle(&members, name.span);
            return None;
        }
        let pipeline = self.data_settings(&section, &declared, chain)?;
        Some(Part {
            name,
            weight,
            pipeline,
        })
    }

    fn weight(&mut self, expr: &ast::Expr) -> Option<f64> {
        let value = self.eval(expr);
        let weight = match self.known_number(&value, expr.span, "a weight")? {
            Known::Int(n) => n as f64,
            Known::Float(x) => x,
        };
        if weight > 0.0 && weight.is_finite() {
            return Some(weight);
        }
        let message = format!("a weight is a positive number, and this is {weight}");
        self.report(Diagnostic::new(Code::BadValue, expr.span, message));
        None
    }

    fn reject_repeated_parts(&mut self, parts: &[Part]) -> Option<()> {
        for (i, part) in parts.iter().enumerate() {
            let first = parts[..i].iter().find(|p| p.name.text == part.name.text);
            if let Some(first) = first {
                let message = format!("the data set `{}` is named twice", part.name.text);
                let error = Diagnostic::new(Code::DuplicateArgument, part.name.span, message);
                self.report(error.note_at(first.name.span, "named here first"));
                return None;
            }
        }
        Some(())
    }

    /// Rejects what a part may not have: batches, and tables, which are made of all records.
    fn reject_part(&mut self, joined: &Joined<'_>, part: &Part) -> Option<()> {
        let (word, name) = (joined.word(), &part.name.text);
        if let Some(batched) = part.pipeline.batched {
            let message = format!("`{word}` joins records, and `{name}` gives batches");
            let error = Diagnostic::new(Code::StageOrder, part.name.span, message)
                .note_at(batched, "batches begin here")
                .help("put `batch` after it, in the data set that joins them");
            self.report(error);
            return None;
        }
        let mut tables = column_ops(&part.pipeline.stages).filter(|op| op.pass().is_some());
        if let Some(op) = tables.next() {
            let message = format!("`{name}` takes a table from its own records, before `{word}`");
            let error = Diagnostic::new(Code::StageOrder, part.name.span, message)
                .note_at(op.span, format!("`{}` needs it here", op.kind.name()))
                .help("put the `map` after it, in the data set that joins them");
            self.report(error);
            return None;
        }
        Some(())
    }

    /// The features that all parts give.
    fn mixed(&mut self, span: Span, parts: &[Part]) -> Option<Pipeline> {
        let first = &parts[0];
        let mut pipeline = Pipeline {
            unindexed: Some(span),
            elements: first.pipeline.elements.clone(),
            ..Pipeline::default()
        };
        for part in &parts[1..] {
            let (own, other) = (&first.pipeline.elements, &part.pipeline.elements);
            let lacks = |a: &Part, b: &Part| {
                let has = |name: &&String| !b.pipeline.elements.contains_key(*name);
                let name = a.pipeline.elements.keys().find(has)?;
                Some((name.clone(), a.name.text.clone(), b.name.text.clone()))
            };
            if let Some((feature, has, has_not)) = lacks(first, part).or_else(|| lacks(part, first))
            {
                let message =
                    format!("`{has}` has the feature `{feature}`, and `{has_not}` has not");
                let declared = own.get(&feature).or_else(|| other.get(&feature));
                let mut error = Diagnostic::new(Code::FeatureMismatch, part.name.span, message);
                if let Some((ty, at)) = declared {
                    error = error.note_at(*at, format!("it is `{ty}`"));
                }
                self.report(error.help(format!(
                    "mixed data sets have the same features: `drop {feature};` in `{has}`, or give it in `{has_not}`"
                )));
                return None;
            }
            for (feature, (ty, at)) in own {
                let (found, found_at) = &other[feature];
                if ty == found {
                    continue;
                }
                let message = format!(
                    "`{feature}` is `{found}` in `{}` and `{ty}` in `{}`",
                    part.name.text, first.name.text
                );
                let error = Diagnostic::new(Code::FeatureMismatch, part.name.span, message)
                    .note_at(*found_at, format!("`{found}` here"))
                    .note_at(*at, format!("`{ty}` here"))
                    .help("mixed data sets have features of the same types");
                self.report(error);
                return None;
            }
        }
        for part in parts {
            let origins = &part.pipeline.origins;
            for feature in pipeline.elements.keys() {
                let all = pipeline.origins.of(feature).and(origins.of(feature));
                pipeline.origins.set(feature, all);
            }
            let repeated = part.pipeline.repeated;
            pipeline.repeated = pipeline.repeated.or(repeated);
        }
        Some(pipeline)
    }

    /// The features of all parts together.
    fn zipped(&mut self, span: Span, parts: &[Part]) -> Option<Pipeline> {
        let mut pipeline = Pipeline::default();
        let mut owners: BTreeMap<&str, &Part> = BTreeMap::new();
        for part in parts {
            for (feature, element) in &part.pipeline.elements {
                if let Some(owner) = owners.insert(feature, part) {
                    let message = format!(
                        "`{}` and `{}` both have the feature `{feature}`",
                        owner.name.text, part.name.text
                    );
                    let (_, first) = &pipeline.elements[feature];
                    let error = Diagnostic::new(Code::FeatureMismatch, part.name.span, message)
                        .note_at(*first, format!("that of `{}`", owner.name.text))
                        .note_at(element.1, format!("that of `{}`", part.name.text))
                        .help(format!(
                            "give one of them another name, or leave it out: `drop {feature};`"
                        ));
                    self.report(error);
                    return None;
                }
                pipeline.elements.insert(feature.clone(), element.clone());
                let origin = part.pipeline.origins.of(feature);
                pipeline.origins.set(feature, origin);
            }
            let own = &part.pipeline;
            pipeline.repeated = pipeline.repeated.or(own.repeated);
            if own.unindexed.is_some() {
                pipeline.unindexed = Some(span);
            }
        }
        Some(pipeline)
    }
}

impl Part {
    fn into_typed(self) -> Option<MixPart> {
        let Pipeline {
            source,
            features,
            elements,
            stages,
            ..
        } = self.pipeline;
        let elements = elements.into_iter().map(|(name, (ty, _))| (name, ty));
        Some(MixPart {
            weight: self.weight,
            data: DataSet {
                name: self.name.text,
                source: source?,
                features,
                // Those of the other mode are added when both are known.
                eval_stages: stages.clone(),
                stages,
                elements: elements.collect(),
            },
        })
    }
}
