//! Data sets (input pipelines): their source, features and stages, and whether they fit the model.

use std::collections::BTreeMap;

use trainspec_ir::{DType, Dim, Shape, Size, Span, TensorType};

use crate::ast::{self, Expr, ExprKind, Name, PostfixKind, SettingValue};
use crate::check::Checker;
use crate::check::scope::{Frame, FrameKind, Target};
use crate::check::types::Bounds;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{self, Constant, DataSet, Feature, Input, NodeKind, Program, Stage, ValueId};

/// The input pipeline as checked so far.
struct Pipeline {
    features: Vec<Feature>,
    elements: BTreeMap<String, (TensorType, Span)>,
    stages: Vec<Stage>,
    batched: Option<Span>,
    /// Features whose declaration or value has an error.
    broken: Vec<Name>,
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
        self.reject_repeated(&section.settings, "data");
        let frame = Frame::new(FrameKind::Data, String::new());
        self.framed(frame, |c| c.data_settings(section, &name))
    }

    fn data_settings(&mut self, section: &ast::Section, name: &Name) -> Option<DataSet> {
        let mut source = None;
        let mut pipeline = Pipeline {
            features: Vec::new(),
            elements: BTreeMap::new(),
            stages: Vec::new(),
            batched: None,
            broken: Vec::new(),
        };
        let broken = section
            .settings
            .iter()
            .any(|s| s.value == SettingValue::Bad);
        for (i, setting) in section.settings.iter().enumerate() {
            self.reject_clauses(setting, &[]);
            if setting.value == SettingValue::Bad {
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
                    source = self.source(setting);
                }
                "feature" => self.feature(setting, &mut pipeline),
                "map" => self.map(setting, &mut pipeline),
                "filter" => self.filter(setting, &mut pipeline),
                "drop" => self.drop_feature(setting, &mut pipeline),
                _ => self.stage(setting, &mut pipeline),
            }
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
        if !pipeline.broken.is_empty() {
            return None;
        }
        Some(DataSet {
            name: name.text.clone(),
            source: source?,
            features: pipeline.features,
            stages: pipeline.stages,
            elements: pipeline
                .elements
                .into_iter()
                .map(|(n, (ty, _))| (n, ty))
                .collect(),
        })
    }

    fn source(&mut self, setting: &ast::Setting) -> Option<typed::Setting> {
        if let Some(custom) = self.registered(setting) {
            return custom;
        }
        self.call_setting(setting)
    }

    /// `word "name" (constants)`: a source or hook that the Rust program registers. The outer `None` where the
    /// setting has another form.
    pub(crate) fn registered(&mut self, setting: &ast::Setting) -> Option<Option<typed::Setting>> {
        let SettingValue::Value(expr) = &setting.value else {
            return None;
        };
        let (name, arguments) = match &expr.kind {
            ExprKind::Str(name) => (name.clone(), &[][..]),
            ExprKind::Postfix(base, ops) => match (&base.kind, ops.as_slice()) {
                (ExprKind::Str(name), [only]) => match &only.kind {
                    PostfixKind::Call(arguments) => (name.clone(), arguments.as_slice()),
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        };
        let mut bound = vec![("name".to_owned(), Constant::Str(name))];
        let mut fine = true;
        for (i, argument) in arguments.iter().enumerate() {
            let value = self.eval(&argument.value);
            let key = argument
                .name
                .as_ref()
                .map_or_else(|| i.to_string(), |n| n.text.clone());
            match self.constant_value(&value, argument.value.span) {
                Some(value) => bound.push((key, value)),
                None => fine = false,
            }
        }
        Some(fine.then(|| typed::Setting {
            word: setting.word.text.clone(),
            arguments: bound,
            span: setting.word.span,
        }))
    }

    /// A compile-time value as the constant of a setting.
    pub(crate) fn constant_value(&mut self, value: &Value, span: Span) -> Option<Constant> {
        Some(match value {
            Value::Int(n) => Constant::Int(n.clone()),
            Value::Float(x) => Constant::Float(*x),
            Value::Bool(b) => Constant::Bool(*b),
            Value::Str(t) => Constant::Str(t.to_string()),
            Value::DType(d) => Constant::DType(*d),
            Value::None => Constant::None,
            Value::Quantity(q) => Constant::Interval(self.interval(*q, span)?),
            Value::List(list) | Value::Tuple(list) => {
                let list: Option<Vec<Constant>> =
                    list.iter().map(|v| self.constant_value(v, span)).collect();
                Constant::List(list?)
            }
            other => {
                self.wrong_kind(span, "a known value", other);
                return None;
            }
        })
    }

    fn feature(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        let SettingValue::Declaration(declaration) = &setting.value else {
            self.report(
                Diagnostic::new(
                    Code::Syntax,
                    setting.span,
                    "a feature needs a name and a type",
                )
                .help("write `feature image: u8[64];`"),
            );
            return;
        };
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
        let name = &declaration.name;
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
        let bounds = match &declaration.bound {
            Some(bound) => self.value_bounds(bound, &ty),
            None => None,
        };
        let default = declaration.default.as_ref().and_then(|expr| {
            let value = self.eval(expr);
            self.feature_default(&value, &ty, expr.span)
        });
        pipeline
            .elements
            .insert(name.text.clone(), (ty.clone(), name.span));
        pipeline.features.push(Feature {
            name: name.text.clone(),
            key: declaration
                .alias
                .as_ref()
                .map_or_else(|| name.text.clone(), |a| a.value.clone()),
            ty,
            bounds,
            default,
            span: name.span,
        });
    }

    fn feature_default(&mut self, value: &Value, ty: &TensorType, span: Span) -> Option<Constant> {
        let fits = match value {
            Value::Poison => return None,
            Value::Int(_) => ty.dtype.is_int() || ty.dtype.is_float(),
            Value::Float(_) => ty.dtype.is_float(),
            Value::Bool(_) => ty.dtype == DType::Bool,
            Value::Str(_) => ty.dtype == DType::String,
            Value::List(_) => ty.rank() > 0,
            _ => false,
        };
        if !fits {
            let message = format!("{} is no default for `{ty}`", value.describe());
            self.report(Diagnostic::new(Code::TypeMismatch, span, message));
            return None;
        }
        self.constant_value(value, span)
    }

    /// Evaluates an expression over the features; gives its program without the features it does not use.
    fn over_features(&mut self, expr: &Expr, pipeline: &Pipeline) -> (Value, Program) {
        let (value, mut program) = self.in_program(|c| {
            c.scoped(|c| {
                for (name, (ty, span)) in &pipeline.elements {
                    let value = c.emit_one(
                        NodeKind::Input(Input::Named(name.clone())),
                        ty.clone(),
                        *span,
                    );
                    c.bind_implicit(name, *span, value, Target::Fixed("feature"));
                }
                for name in &pipeline.broken {
                    c.bind_implicit(
                        &name.text,
                        name.span,
                        Value::Poison,
                        Target::Fixed("feature"),
                    );
                }
                let value = c.eval(expr);
                match value {
                    Value::Poison | Value::Tensor(_) => value,
                    other => match c.as_tensor(&other, other.natural_dtype(), expr.span) {
                        Some(t) => Value::Tensor(t),
                        None => Value::Poison,
                    },
                }
            })
        });
        let result = match &value {
            Value::Tensor(t) => Some(t.id),
            _ => None,
        };
        drop_unused_inputs(&mut program, result);
        (value, program)
    }

    fn map(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        let SettingValue::Assignment(name, expr) = &setting.value else {
            self.report(
                Diagnostic::new(Code::Syntax, setting.span, "a map gives a feature a value")
                    .help("write `map image = cast(image, f32) / 255.0;`"),
            );
            return;
        };
        let (value, program) = self.over_features(expr, pipeline);
        match value {
            Value::Tensor(t) => {
                pipeline
                    .elements
                    .insert(name.text.clone(), ((*t.ty).clone(), name.span));
                pipeline.stages.push(Stage::Map {
                    name: name.text.clone(),
                    program,
                    value: t.id,
                });
            }
            _ => {
                pipeline.elements.remove(&name.text);
                pipeline.features.retain(|f| f.name != name.text);
                pipeline.broken.push(name.clone());
                self.store.broken_results = true;
            }
        }
    }

    fn filter(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        let SettingValue::Value(expr) = &setting.value else {
            self.report(
                Diagnostic::new(Code::Syntax, setting.span, "a filter needs a condition")
                    .help("write `filter label < 5;`"),
            );
            return;
        };
        if let Some(batched) = pipeline.batched {
            self.report(
                Diagnostic::new(
                    Code::StageOrder,
                    setting.word.span,
                    "a filter chooses records, so it comes before `batch`",
                )
                .note_at(batched, "batches begin here"),
            );
        }
        let (value, program) = self.over_features(expr, pipeline);
        let Value::Tensor(t) = value else {
            return;
        };
        if t.ty.dtype != DType::Bool || t.ty.rank() != 0 {
            self.report(
                Diagnostic::new(Code::TypeMismatch, expr.span, "a filter needs one `bool`")
                    .label(format!("this is `{}`", t.ty))
                    .help(
                        "compare something: `label != 0`; join many with `all(...)` or `any(...)`",
                    ),
            );
            return;
        }
        pipeline.stages.push(Stage::Filter {
            program,
            value: t.id,
        });
    }

    fn drop_feature(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        let name = match &setting.value {
            SettingValue::Value(Expr {
                kind: ExprKind::Name(name),
                span,
            }) => (name, *span),
            _ => {
                self.report(
                    Diagnostic::new(
                        Code::Syntax,
                        setting.span,
                        "`drop` needs the name of a feature",
                    )
                    .help("write `drop label;`"),
                );
                return;
            }
        };
        if pipeline.elements.remove(name.0).is_none() {
            let known: Vec<&str> = pipeline.elements.keys().map(String::as_str).collect();
            let help = nearest(name.0, known).map(|n| format!("did you mean `{n}`?"));
            self.report(
                Diagnostic::new(
                    Code::UnknownName,
                    name.1,
                    format!("there is no feature `{}` to drop", name.0),
                )
                .maybe_help(help),
            );
            return;
        }
        pipeline.stages.push(Stage::Setting(typed::Setting {
            word: "drop".to_owned(),
            arguments: vec![("name".to_owned(), Constant::Name(name.0.clone()))],
            span: setting.span,
        }));
    }

    fn stage(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        if crate::builtins::find("data", &setting.word.text).is_none() {
            self.unknown_setting("data", "a data set", &setting.word);
            return;
        }
        let Some(bound) = self.setting("data", setting) else {
            if setting.word.text == "batch" {
                self.add_batch(
                    pipeline,
                    setting.word.span,
                    Dim::exact(Size::named("batch")),
                    false,
                );
            }
            return;
        };
        match setting.word.text.as_str() {
            "batch" => {
                let keep = bound.get("remainder") == Some(&Constant::Name("keep".to_owned()));
                let pad = bound.get("pad") == Some(&Constant::Bool(true));
                let size = match bound.get("size") {
                    Some(Constant::Int(n)) if !keep => n.clone(),
                    _ => Size::named("batch"),
                };
                self.add_batch(pipeline, setting.word.span, Dim::exact(size), pad);
            }
            "split" => self.check_holdout(&bound, setting.span),
            "shard" => {
                if let (Some(Constant::Int(index)), Some(Constant::Int(count))) =
                    (bound.get("index"), bound.get("count"))
                    && let (Some(i), Some(n)) = (index.value(), count.value())
                    && !(0..n).contains(&i)
                {
                    let message =
                        format!("shard {i} does not exist: there are {n}, counted from 0");
                    self.report(Diagnostic::new(Code::BadValue, setting.span, message));
                }
            }
            _ => {}
        }
        pipeline.stages.push(Stage::Setting(bound));
    }

    fn check_holdout(&mut self, bound: &typed::Setting, span: Span) {
        let fine = match bound.get("holdout") {
            Some(Constant::Int(n)) => n.value().is_some_and(|n| n >= 1),
            Some(Constant::Float(x)) => *x > 0.0 && *x < 1.0,
            _ => true,
        };
        if !fine {
            self.report(
                Diagnostic::new(
                    Code::BadValue,
                    span,
                    "`holdout` is a number of records or a part between 0 and 1",
                )
                .help("write `holdout: 30` or `holdout: 0.2`"),
            );
        }
    }

    fn add_batch(&mut self, pipeline: &mut Pipeline, span: Span, dim: Dim, pad: bool) {
        pipeline.batched.get_or_insert(span);
        for (ty, place) in pipeline.elements.values_mut() {
            let inner = ty.shape.0.iter().map(|d| match pad {
                true => Dim::exact(d.size.clone()),
                false => d.clone(),
            });
            let dims = [dim.clone()].into_iter().chain(inner).collect();
            *ty = TensorType::new(ty.dtype, Shape(dims));
            if ty.shape.elements().is_none() {
                self.size_overflow(*place);
            }
        }
    }

    // ---- Data and model ----

    /// Finds the data set that a section names, and checks that it gives what the model takes.
    pub(crate) fn used_data(
        &mut self,
        setting: &ast::Setting,
        section: &str,
        model: Option<&typed::Model>,
        data: &[DataSet],
    ) -> Option<String> {
        let bound = self.setting(section, setting)?;
        let Some(Constant::Name(name)) = bound.get("name") else {
            return None;
        };
        let place = match &setting.value {
            SettingValue::Value(expr) => expr.span,
            _ => setting.span,
        };
        let declared = self
            .items
            .data
            .iter()
            .find_map(|d| d.name.clone().filter(|n| n.text == *name));
        let Some(declared) = declared else {
            let known: Vec<String> = self
                .items
                .data
                .iter()
                .filter_map(|d| Some(d.name.as_ref()?.text.clone()))
                .collect();
            if self.is_broken(name) {
                return None;
            }
            let help = match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => Some(format!("did you mean `{near}`?")),
                None => Some("declare it: `data NAME { source ...; }`".to_owned()),
            };
            let message = format!("there is no data set `{name}`");
            self.report(Diagnostic::new(Code::UnknownName, place, message).maybe_help(help));
            return None;
        };
        self.mark_used(declared.span);
        if let (Some(model), Some(set)) = (model, data.iter().find(|d| d.name == *name)) {
            self.fit_features(model, set, place);
        }
        Some(name.clone())
    }

    fn fit_features(&mut self, model: &typed::Model, set: &DataSet, place: Span) {
        let mut sizes: BTreeMap<String, (Size, String)> = BTreeMap::new();
        for input in &model.inputs {
            let Some(found) = set.elements.get(&input.name) else {
                let near = nearest(&input.name, set.elements.keys().map(String::as_str));
                let help = match near {
                    Some(near) => format!(
                        "it has `{near}`: rename one, or add `map {} = {near};`",
                        input.name
                    ),
                    None => format!(
                        "add `feature {}: ...;` or `map {} = ...;`",
                        input.name, input.name
                    ),
                };
                self.report(
                    Diagnostic::new(
                        Code::FeatureMismatch,
                        place,
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
                        place,
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
    matches!(stage, Stage::Setting(s) if s.word == "batch")
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

/// Removes unused inputs (dead code).
fn drop_unused_inputs(program: &mut Program, result: Option<ValueId>) {
    let mut used = vec![false; program.values.len()];
    mark_used(&program.nodes, &mut used);
    if let Some(result) = result {
        used[result.0 as usize] = true;
    }
    program.nodes.retain(|n| {
        !matches!(n.kind, NodeKind::Input(_)) || n.results.iter().any(|r| used[r.0 as usize])
    });
}

fn mark_used(nodes: &[typed::Node], used: &mut [bool]) {
    let mut mark = |id: &ValueId| used[id.0 as usize] = true;
    for node in nodes {
        match &node.kind {
            NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Step | NodeKind::Read(_) => {}
            NodeKind::Write(_, value) => mark(value),
            NodeKind::Op { operands, .. } => {
                for operand in operands {
                    match operand {
                        typed::Operand::Value(id) => mark(id),
                        typed::Operand::Values(ids) => ids.iter().for_each(&mut mark),
                        typed::Operand::Attr(_) => {}
                    }
                }
            }
            NodeKind::Grad { y, wrt, seed } => {
                mark(y);
                wrt.iter().chain(seed).for_each(&mut mark);
            }
            NodeKind::Hessian { y, wrt } => {
                mark(y);
                mark(wrt);
            }
            NodeKind::Scan(_) => {}
        }
    }
    for node in nodes {
        if let NodeKind::Scan(scan) = &node.kind {
            for id in scan
                .over
                .iter()
                .chain(&scan.starts)
                .chain(&scan.nexts)
                .chain(&scan.yields)
            {
                used[id.0 as usize] = true;
            }
            mark_used(&scan.body, used);
        }
    }
}
