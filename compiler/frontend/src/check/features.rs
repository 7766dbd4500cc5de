//! Features: what is decoded from a record, and the defaults of what a record lacks.

use trainspec_ir::{DType, Span, TensorType};

use crate::ast::{self, SettingValue};
use crate::check::Checker;
use crate::check::data::Pipeline;
use crate::check::source_features::{no_sequence, unreadable};
use crate::check::types::Bounds;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic};
use crate::typed::{Feature, FeatureDefault};

impl Checker<'_> {
    /// `feature NAME: TYPE as "key" in LOW..HIGH = default`, `sequence NAME: TYPE as "key" in LOW..HIGH`
    pub(super) fn feature(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        let SettingValue::Declaration(declaration) = &setting.value else {
            self.report(
                Diagnostic::new(
                    Code::Syntax,
                    setting.span,
                    format!("a {} needs a name and a type", setting.word.text),
                )
                .help(match setting.word.text.as_str() {
                    "sequence" => "write `sequence words: i64[<=50];`",
                    _ => "write `feature image: u8[64];`",
                }),
            );
            return;
        };
        let name = &declaration.name;
        let is_sequence = setting.word.text == "sequence";
        if let Some(base) = &pipeline.base {
            let message = format!("the features of this data set are those of `{}`", base.text);
            let error = Diagnostic::new(Code::StageOrder, setting.word.span, message)
                .note_at(base.span, "it takes its records from this one");
            let help = match pipeline.elements.contains_key(&name.text) {
                true => format!("`{}` has it already: remove this line", base.text),
                false => format!(
                    "declare `{}` there, or compute it: `map {0} = ...;`",
                    name.text
                ),
            };
            self.report(error.help(help));
            return;
        }
        if let Some(batched) = pipeline.batched {
            self.report(
                Diagnostic::new(
                    Code::StageOrder,
                    setting.word.span,
                    "features are read from records, so before `batch`",
                )
                .note_at(batched, "batches begin here"),
            );
        }
        if let Some((_, first)) = pipeline.elements.get(&name.text) {
            self.report(
                Diagnostic::new(
                    Code::DuplicateName,
                    name.span,
                    format!("the feature `{}` is declared twice", name.text),
                )
                .note_at(*first, "declared here first"),
            );
            return;
        }
        let Some(ty) = self.declared_type(&declaration.ty, &Bounds::new(), false) else {
            pipeline.broken.push(name.clone());
            return;
        };
        let source = pipeline.source.as_ref();
        let error = match is_sequence {
            true => no_sequence(source, &name.text, &ty),
            false => unreadable(source, &name.text, &ty),
        };
        if let Some(error) = error {
            self.report(Diagnostic::new(
                Code::TypeMismatch,
                declaration.ty.span,
                error,
            ));
        }
        let bounds = match &declaration.bound {
            Some(bound) => self.value_bounds(bound, &ty),
            None => None,
        };
        let default = declaration.default.as_ref().and_then(|expr| {
            let value = self.eval(expr);
            self.feature_default(&value, &name.text, &ty, bounds, expr.span)
        });
        let columns = self.feature_columns(declaration, &ty);
        let key = match (&declaration.alias, columns.first()) {
            (Some(alias), _) => alias.value.clone(),
            (None, Some(first)) => first.clone(),
            (None, None) => name.text.clone(),
        };
        pipeline
            .elements
            .insert(name.text.clone(), (ty.clone(), name.span));
        let feature = Feature {
            name: name.text.clone(),
            key,
            columns,
            ty,
            bounds,
            default,
            is_sequence,
            span: name.span,
        };
        if let Some(source) = &pipeline.source {
            let named = declaration.columns.as_ref();
            let named = named.map(|columns| columns.first().map_or(name.span, |c| c.span));
            let alias = declaration.alias.as_ref().map(|alias| alias.span);
            self.check_column_name(source, alias);
            self.check_feature(&feature, source, named);
        }
        pipeline.features.push(feature);
    }

    /// `as ["a", "b"]`: the columns of a csv file, one for each element.
    fn feature_columns(&mut self, declaration: &ast::Declaration, ty: &TensorType) -> Vec<String> {
        let Some(columns) = &declaration.columns else {
            return Vec::new();
        };
        let name = &declaration.name;
        for (i, column) in columns.iter().enumerate() {
            let first = columns[..i].iter().find(|c| c.value == column.value);
            if let Some(first) = first {
                let message = format!("the column `{}` is named twice", column.value);
                let error = Diagnostic::new(Code::DuplicateName, column.span, message);
                self.report(error.note_at(first.span, "named here first"));
            }
        }
        let elements = ty.shape.elements().and_then(|n| n.value());
        if let Some(elements) = elements.filter(|n| *n != columns.len() as i64) {
            let span = columns.last().map_or(name.span, |c| c.span);
            let message = format!(
                "`{}` is `{ty}`, which has {elements} elements, and {} columns are named",
                name.text,
                columns.len()
            );
            let error = Diagnostic::new(Code::ShapeMismatch, span, message);
            self.report(error.help("name one column for each element"));
        }
        columns.iter().map(|column| column.value.clone()).collect()
    }

    /// The default of a feature: one value for all elements, or a list with one for each.
    fn feature_default(
        &mut self,
        value: &Value,
        name: &str,
        ty: &TensorType,
        bounds: Option<(i64, i64)>,
        span: Span,
    ) -> Option<FeatureDefault> {
        if ty.shape.is_counted() {
            let message = "a feature of varying length has no default: a record that lacks it gives an empty one";
            self.report(Diagnostic::new(Code::BadValue, span, message));
            return None;
        }
        let mut leaves = Vec::new();
        flatten(value, &mut leaves);
        if leaves.iter().any(|leaf| leaf.is_poison()) {
            return None;
        }
        let elements = ty.shape.elements().and_then(|n| n.value());
        if let (Value::List(_), true) = (value, elements != Some(leaves.len() as i64)) {
            let (found, expected) = (leaves.len(), elements.unwrap_or(0));
            let message =
                format!("the default of `{name}` has {found} values, and `{ty}` has {expected}");
            self.report(Diagnostic::new(Code::BadValue, span, message));
            return None;
        }
        let mut default = match ty.dtype {
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => FeatureDefault::Floats(vec![]),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => {
                FeatureDefault::Ints(vec![])
            }
            DType::String => FeatureDefault::Strings(vec![]),
        };
        for leaf in leaves {
            match (&mut default, leaf) {
                (FeatureDefault::Floats(all), Value::Float(x)) => all.push(*x),
                (FeatureDefault::Floats(all), Value::Int(n)) => all.push(n.value()? as f64),
                (FeatureDefault::Ints(all), Value::Bool(b)) if ty.dtype == DType::Bool => {
                    all.push(i64::from(*b));
                }
                (FeatureDefault::Ints(all), Value::Int(n)) if ty.dtype.is_int() => {
                    let n = n.value()?;
                    self.default_in_range(n, ty.dtype, bounds, span)?;
                    all.push(n);
                }
                (FeatureDefault::Strings(all), Value::Str(text)) => all.push(text.to_string()),
                (
                    FeatureDefault::Floats(_)
                    | FeatureDefault::Ints(_)
                    | FeatureDefault::Strings(_),
                    other,
                ) => {
                    let message = format!("{} is no default for `{ty}`", other.describe());
                    self.report(Diagnostic::new(Code::TypeMismatch, span, message));
                    return None;
                }
            }
        }
        Some(default)
    }

    /// Rejects an integer outside of its type, or of the bounds of its feature.
    fn default_in_range(
        &mut self,
        n: i64,
        dtype: DType,
        bounds: Option<(i64, i64)>,
        span: Span,
    ) -> Option<()> {
        let (low, high) = dtype.int_range().unwrap_or((i64::MIN, i64::MAX));
        let error = match bounds {
            _ if !(low..=high).contains(&n) => Diagnostic::new(
                Code::NumberOverflow,
                span,
                format!("{n} does not fit in `{dtype}`, which goes from {low} to {high}"),
            ),
            Some((low, high)) if !(low..high).contains(&n) => Diagnostic::new(
                Code::BadValue,
                span,
                format!("the default is {n}, which is not in {low}..{high}"),
            ),
            Some(_) | None => return Some(()),
        };
        self.report(error);
        None
    }
}

/// The values of a list and of the lists in it, in order.
fn flatten<'v>(value: &'v Value, leaves: &mut Vec<&'v Value>) {
    match value {
        Value::List(list) => list.iter().for_each(|v| flatten(v, leaves)),
        leaf => leaves.push(leaf),
    }
}
