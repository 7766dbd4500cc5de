//! Stages of an input pipeline: `map`, `filter`, `drop`, and those of the table of settings. Their order is checked here.

use trainspec_ir::{DType, Dim, Shape, Size, Span, TensorType};

use crate::ast::{self, Expr, ExprKind, Name, Pattern, SettingValue};
use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::buckets::counted_features;
use crate::check::columns::Lifting;
use crate::check::data::Pipeline;
use crate::check::scope::Target;
use crate::check::value::{Tensor, Value};
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{
    Batch, ColumnOp, ColumnOpKind, ColumnOperand, Const, Holdout, Input, NodeKind, Padding, Part,
    Program, Remainder, Split, Stage, StageKind,
};

/// The most files that are open in turn.
const MAX_CYCLE: u64 = 256;

impl Checker<'_> {
    /// Evaluates an expression over the features, for a feature or a `filter`. The operations on columns in it become stages before its
    /// program.
    fn over_features(&mut self, expr: &Expr, target: &str, pipeline: &mut Pipeline) -> Computed {
        self.lifting = Some(Lifting {
            target: target.to_owned(),
            origins: std::mem::take(&mut pipeline.origins),
            tables: std::mem::take(&mut pipeline.tables),
            batched: pipeline.batched,
            ..Lifting::default()
        });
        let (value, program) = self.in_program(|c| {
            c.scoped(|c| {
                for (name, (ty, span)) in &pipeline.elements {
                    let input = NodeKind::Input(Input::Named(name.clone()));
                    let value = c.emit_one(input, ty.clone(), *span);
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
                    Value::Poison | Value::Tensor(_) | Value::Tuple(_) => value,
                    other => match c.as_tensor(&other, other.natural_dtype(), expr.span) {
                        Some(t) => Value::Tensor(t),
                        None => Value::Poison,
                    },
                }
            })
        });
        let lifting = self.lifting.take().expect("it was set above");
        pipeline.origins = lifting.origins;
        pipeline.tables = lifting.tables;
        pipeline.stages.extend(lifting.stages);
        Computed {
            value,
            program,
            hidden: lifting.hidden,
        }
    }

    /// `map NAME = expr`, `map (NAME, NAME) = expr`
    pub(super) fn map(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        let SettingValue::Assignment(pattern, expr) = &setting.value else {
            self.report(
                Diagnostic::new(Code::Syntax, setting.span, "a map gives a feature a value")
                    .help("write `map image = cast(image, f32) / 255.0;`"),
            );
            return;
        };
        let Some(names) = self.mapped_names(pattern) else {
            return;
        };
        let first = names.iter().flatten().next();
        let target = first.map_or("_", |name| name.text.as_str());
        let computed = self.over_features(expr, target, pipeline);
        let several = matches!(pattern, Pattern::Tuple(..));
        let values = match (&computed.value, several) {
            (Value::Tensor(t), false) => Some(vec![t.clone()]),
            (Value::Tuple(list), true) if list.len() == names.len() => list
                .iter()
                .map(|v| self.as_tensor(v, v.natural_dtype(), expr.span))
                .collect(),
            (Value::Poison, _) => None,
            (other, _) => {
                let message = match several {
                    true => format!("expected a tuple of {} values", names.len()),
                    false => "a feature has one value".to_owned(),
                };
                let error = Diagnostic::new(Code::TypeMismatch, expr.span, message);
                self.report(error.label(format!("this is {}", other.describe())));
                None
            }
        };
        let span = setting.word.span;
        let Some(values) = values else {
            for name in names.into_iter().flatten() {
                pipeline.elements.remove(&name.text);
                pipeline.features.retain(|f| f.name != name.text);
                pipeline.broken.push(name.clone());
            }
            self.store.broken_results = true;
            return;
        };
        let mut results = Vec::new();
        for (name, tensor) in names.iter().zip(values) {
            if let Some(name) = name {
                results.push(((*name).clone(), tensor));
            }
        }
        self.map_features(computed, &results, span, pipeline);
    }

    /// The names that a map gives values to; `None` for `_`.
    fn mapped_names<'p>(&mut self, pattern: &'p Pattern) -> Option<Vec<Option<&'p Name>>> {
        let patterns = match pattern {
            Pattern::Tuple(patterns, _) => patterns.iter().collect(),
            single => vec![single],
        };
        let mut names = Vec::new();
        for pattern in patterns {
            names.push(match pattern {
                Pattern::Name(name) => Some(name),
                Pattern::Wildcard(_) => None,
                Pattern::Tuple(_, span) => {
                    let message = "a map names features, and `_` for none";
                    self.report(Diagnostic::new(Code::Syntax, *span, message));
                    return None;
                }
            });
        }
        for (i, name) in names.iter().enumerate() {
            if let Some(name) = name
                && names[..i]
                    .iter()
                    .flatten()
                    .any(|other| other.text == name.text)
            {
                let message = format!("`{}` is given two values", name.text);
                self.report(Diagnostic::new(Code::DuplicateName, name.span, message));
                return None;
            }
        }
        if names.iter().all(Option::is_none) {
            let message = "a map gives a feature a value, and `_` is none";
            self.report(Diagnostic::new(Code::Syntax, pattern.span(), message));
            return None;
        }
        Some(names)
    }

    /// Adds the stages that give features the values of a program.
    fn map_features(
        &mut self,
        computed: Computed,
        results: &[(Name, Tensor)],
        span: Span,
        pipeline: &mut Pipeline,
    ) {
        let Computed {
            program, hidden, ..
        } = computed;
        let is_read_later = |i: usize| {
            let (name, _) = &results[i];
            let later = results[i + 1..].iter();
            let values = later.map(|(_, tensor)| tensor.id);
            program.inputs_of(values).contains(&name.text)
        };
        let mut hidden = hidden;
        let mut late = Vec::new();
        let mut origins = Vec::new();
        for (i, (name, tensor)) in results.iter().enumerate() {
            origins.push(pipeline.origins.of_program(&program, tensor.id));
            let target = match is_read_later(i) {
                false => name.text.clone(),
                true => {
                    let target = format!("{}/value", name.text);
                    late.push((target.clone(), name.text.clone(), tensor.clone()));
                    hidden.push(target.clone());
                    target
                }
            };
            let stage = match self.column_stage(&program, tensor, &target, span) {
                Some(stage) => stage,
                None => StageKind::Map {
                    name: target,
                    program: program.pruned([tensor.id]),
                    value: tensor.id,
                },
            };
            // What a column operation alone gives needs no program.
            if let StageKind::Column(copy) = &stage
                && let ([only], ColumnOpKind::Copy) = (results, &copy.kind)
                && let [ColumnOperand::Feature(source)] = copy.operands.as_slice()
                && let Some(last) = pipeline.stages.last_mut()
                && let StageKind::Column(op) = &mut last.kind
                && op.name == *source
                && hidden.last() == Some(source)
            {
                op.name = only.0.text.clone();
                hidden.pop();
                continue;
            }
            // A feature as it is.
            if let StageKind::Column(op) = &stage
                && op.kind == ColumnOpKind::Copy
                && op.inputs().eq([op.name.as_str()])
            {
                continue;
            }
            pipeline.stages.push(Stage { kind: stage, span });
        }
        for (from, name, tensor) in late {
            let ty = (*tensor.ty).clone();
            let kind = column_copy(&name, ColumnOperand::Feature(from), ty, span);
            pipeline.stages.push(Stage { kind, span });
        }
        for name in hidden {
            let kind = StageKind::Drop { name };
            pipeline.stages.push(Stage { kind, span });
        }
        for ((name, tensor), origin) in results.iter().zip(origins) {
            pipeline.origins.set(&name.text, origin);
            let element = ((*tensor.ty).clone(), name.span);
            pipeline.elements.insert(name.text.clone(), element);
        }
    }

    /// The stage for a value that is a feature, or a plain string: it needs no program.
    fn column_stage(
        &mut self,
        program: &Program,
        tensor: &Tensor,
        target: &str,
        span: Span,
    ) -> Option<StageKind> {
        let node = program.nodes.iter().rev();
        let mut node = node.filter(|node| node.results.first == tensor.id);
        let operand = match &node.next()?.kind {
            NodeKind::Input(Input::Named(name)) => ColumnOperand::Feature(name.clone()),
            NodeKind::Const(Const::Str(text)) => ColumnOperand::Str(text.clone()),
            _ => return None,
        };
        Some(column_copy(target, operand, (*tensor.ty).clone(), span))
    }

    pub(super) fn filter(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
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
        let computed = self.over_features(expr, "filter", pipeline);
        let Value::Tensor(t) = computed.value else {
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
        pipeline.unindexed.get_or_insert(setting.word.span);
        let program = computed.program.pruned([t.id]);
        let origin = pipeline.origins.of_program(&program, t.id);
        pipeline.origins.records = pipeline.origins.records.and(origin);
        let value = t.id;
        let hidden = computed.hidden.into_iter();
        let drops = hidden.map(|name| StageKind::Drop { name });
        for kind in std::iter::once(StageKind::Filter { program, value }).chain(drops) {
            let span = setting.word.span;
            pipeline.stages.push(Stage { kind, span });
        }
    }

    pub(super) fn drop_feature(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
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
        pipeline.stages.push(Stage {
            kind: StageKind::Drop {
                name: name.0.clone(),
            },
            span: setting.word.span,
        });
    }

    /// A stage that the table of settings has.
    pub(super) fn stage(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
        if crate::builtins::find("data", &setting.word.text).is_none() {
            self.unknown_setting("data", "a data set", &setting.word);
            return;
        }
        let span = setting.word.span;
        let Some(bound) = self.setting("data", setting) else {
            if matches!(setting.word.text.as_str(), "batch" | "bucket_by_length") {
                let size = Dim::exact(Size::named("batch"));
                self.add_batch(pipeline, span, size, false);
            }
            return;
        };
        let count = || bound.require("count");
        let kind = match bound.signature.word {
            "shuffle" => {
                let buffer = bound.get("buffer");
                if let (None, Some(unindexed)) = (buffer, pipeline.unindexed) {
                    self.reject_unindexed(span, unindexed, pipeline);
                }
                pipeline.unindexed.get_or_insert(span);
                StageKind::Shuffle {
                    buffer,
                    seed: bound.get("seed"),
                }
            }
            "epochs" => {
                pipeline.repeated.get_or_insert(span);
                pipeline.unindexed.get_or_insert(span);
                StageKind::Epochs { count: count() }
            }
            "repeat" => {
                pipeline.repeated.get_or_insert(span);
                pipeline.endless.get_or_insert(span);
                pipeline.unindexed.get_or_insert(span);
                StageKind::Repeat
            }
            "window" => match self.window(&bound, pipeline) {
                Some(window) => window,
                None => return,
            },
            "batch" | "bucket_by_length" if pipeline.batched.is_some() => {
                self.reject_batches(bound.signature.word, span, pipeline);
                return;
            }
            "batch" => StageKind::Batch(self.batch(&bound, pipeline)),
            "bucket_by_length" => match self.bucket_by_length(&bound, pipeline) {
                Some(batch) => StageKind::Batch(batch),
                None => return,
            },
            "interleave" => match self.interleave(&bound, pipeline) {
                Some(interleave) => interleave,
                None => return,
            },
            "take" => {
                pipeline.endless = None;
                StageKind::Take { count: count() }
            }
            "skip" => StageKind::Skip { count: count() },
            "split" => {
                if let Some(repeated) = pipeline.repeated {
                    let message = "`split` needs each record once, and after `epochs` or `repeat` they come again";
                    self.reject_order(span, message, repeated, "split");
                }
                match self.split(&bound, pipeline) {
                    Some(split) => StageKind::Split(split),
                    None => return,
                }
            }
            "cache" => {
                if let Some(endless) = pipeline.endless {
                    let message = "`cache` keeps all records, and after `repeat` they are endless";
                    self.reject_order(span, message, endless, "cache");
                }
                // What is kept has indices, whatever it was made by.
                pipeline.unindexed = None;
                StageKind::Cache
            }
            "prefetch" => StageKind::Prefetch { count: count() },
            "shard" => match self.shard(&bound) {
                Some(shard) => shard,
                None => return,
            },
            other => unreachable!("the stage `{other}` is converted here"),
        };
        pipeline.stages.push(Stage { kind, span });
    }

    /// Rejects batches of batches. One word that is there twice is reported for all settings alike.
    fn reject_batches(&mut self, word: &str, span: Span, pipeline: &Pipeline) {
        let has_buckets = |stage: &Stage| match &stage.kind {
            StageKind::Batch(batch) => Some(batch.buckets.is_some()),
            _ => None,
        };
        let first = pipeline.stages.iter().find_map(has_buckets);
        if first == Some(word == "bucket_by_length") {
            return;
        }
        let mut error = Diagnostic::new(
            Code::StageOrder,
            span,
            "records are joined into batches once",
        );
        if let Some(batched) = pipeline.batched {
            error = error.note_at(batched, "batches begin here");
        }
        self.report(error.help("remove one of them"));
    }

    fn interleave(&mut self, bound: &Bound, pipeline: &mut Pipeline) -> Option<StageKind> {
        let span = bound.span;
        if let Some(first) = pipeline.stages.first() {
            let message =
                "`interleave` says how a source reads its files, so it comes before other stages";
            self.report(
                Diagnostic::new(Code::StageOrder, span, message)
                    .note_at(first.span, "this is the first stage")
                    .help("put it after the features"),
            );
            return None;
        }
        let source = pipeline.source.as_ref()?;
        if !source.is_interleaved() {
            let message = format!("`{}` reads no files in turn", source.word());
            self.report(
                Diagnostic::new(Code::StageOrder, span, message)
                    .note_at(source.span, "this is the source")
                    .help(
                        "`tfrecord`, `csv` and `text` do; other records are shuffled: `shuffle;`",
                    ),
            );
            return None;
        }
        let cycle: u64 = bound.require("cycle");
        if cycle > MAX_CYCLE {
            let message =
                format!("at most {MAX_CYCLE} files are read in turn, and this is {cycle}");
            let error = Diagnostic::new(Code::BadValue, bound.span_of("cycle"), message);
            self.report(error);
            return None;
        }
        pipeline.unindexed.get_or_insert(span);
        let block = bound.get("block").unwrap_or(1);
        Some(StageKind::Interleave { cycle, block })
    }

    /// Rejects a stage that must not come after one that repeats records.
    fn reject_order(&mut self, span: Span, message: &str, repeated: Span, word: &str) {
        self.report(
            Diagnostic::new(Code::StageOrder, span, message)
                .note_at(repeated, "records repeat from here on")
                .help(format!("put `{word}` before it")),
        );
    }

    /// Rejects an exact shuffle of records that cannot be read by their indices.
    fn reject_unindexed(&mut self, span: Span, unindexed: Span, pipeline: &Pipeline) {
        let message =
            "without a buffer `shuffle` reads records by their indices, which these do not have";
        let note = match pipeline.stages.is_empty() {
            true => "this source is read from its start to its end",
            false => "from here on they are known in this order alone",
        };
        self.report(
            Diagnostic::new(Code::StageOrder, span, message)
                .note_at(unindexed, note)
                .help("say how many are shuffled together: `shuffle (buffer: 10_000);`, or put `cache;` before it"),
        );
    }

    fn window(&mut self, bound: &Bound, pipeline: &mut Pipeline) -> Option<StageKind> {
        let span = bound.span;
        if let Some(batched) = pipeline.batched {
            let message = "`window` joins records, so it comes before `batch`";
            self.report(
                Diagnostic::new(Code::StageOrder, span, message)
                    .note_at(batched, "batches begin here"),
            );
            return None;
        }
        let size: u64 = bound.require("size");
        for (name, (ty, feature)) in &pipeline.elements {
            if ty.shape.is_counted() {
                let message =
                    format!("the records of a window have one shape, and `{name}` has not");
                let error = Diagnostic::new(Code::TypeMismatch, span, message)
                    .note_at(*feature, format!("it is `{ty}`"))
                    .help(format!("drop it before: `drop {name};`"));
                self.report(error);
                return None;
            }
        }
        let length: i64 = bound.require("size");
        let dim = Dim::exact(Size::fixed(length));
        for (ty, element_span) in pipeline.elements.values_mut() {
            let dims = [dim.clone()].into_iter().chain(ty.shape.0.iter().cloned());
            *ty = TensorType::new(ty.dtype, Shape(dims.collect()));
            if ty.shape.elements().is_none() {
                self.size_overflow(*element_span);
            }
        }
        pipeline.unindexed.get_or_insert(span);
        let shift = bound.get("shift").unwrap_or(size);
        Some(StageKind::Window { size, shift })
    }

    fn batch(&mut self, bound: &Bound, pipeline: &mut Pipeline) -> Batch {
        let remainders = [
            ("drop", Remainder::Drop),
            ("keep", Remainder::Keep),
            ("error", Remainder::Error),
        ];
        let size: i64 = bound.require("size");
        let batch = Batch {
            size: bound.require("size"),
            remainder: bound.keyword("remainder", &remainders),
            padding: match bound.get("pad") {
                Some(true) => Padding::Capacity,
                Some(false) | None => Padding::None,
            },
            counted: counted_features(pipeline),
            buckets: None,
        };
        let dim = match batch.remainder {
            Some(Remainder::Keep) => Size::named("batch"),
            Some(Remainder::Drop | Remainder::Error) | None => Size::fixed(size),
        };
        self.add_batch(
            pipeline,
            bound.span,
            Dim::exact(dim),
            batch.padding == Padding::Capacity,
        );
        batch
    }

    fn shard(&mut self, bound: &Bound) -> Option<StageKind> {
        let (index, count): (i64, u64) = (bound.require("index"), bound.require("count"));
        match u64::try_from(index) {
            Ok(index) if index < count => Some(StageKind::Shard { index, count }),
            _ => {
                let message =
                    format!("shard {index} does not exist: there are {count}, counted from 0");
                let span = bound.span_of("index");
                self.report(Diagnostic::new(Code::BadValue, span, message));
                None
            }
        }
    }

    fn split(&mut self, bound: &Bound, pipeline: &mut Pipeline) -> Option<Split> {
        let parts = [("train", Part::Train), ("holdout", Part::Holdout)];
        let records = bound.integer("holdout");
        let fraction: f64 = bound.require("holdout");
        let holdout = match records {
            Some(n) => u64::try_from(n)
                .ok()
                .filter(|n| *n > 0)
                .map(Holdout::Records),
            None => {
                let inside = fraction > 0.0 && fraction < 1.0;
                inside.then_some(Holdout::Fraction(fraction))
            }
        };
        let holdout_span = bound.span_of("holdout");
        let Some(holdout) = holdout else {
            let message = "`holdout` is a number of records or a part between 0 and 1";
            self.report(
                Diagnostic::new(Code::BadValue, holdout_span, message)
                    .help("write `holdout: 30` or `holdout: 0.2`"),
            );
            return None;
        };
        let by: Option<String> = bound.get("by");
        if let Some(by) = &by {
            let span = bound.span_of("by");
            let Some((ty, feature)) = pipeline.elements.get(by) else {
                let known = pipeline.elements.keys().map(String::as_str);
                let help = nearest(by, known).map(|n| format!("did you mean `{n}`?"));
                let message = format!("there is no feature `{by}` to split by");
                let error = Diagnostic::new(Code::UnknownName, span, message);
                self.report(error.maybe_help(help));
                return None;
            };
            if ty.shape.is_counted() {
                let message = format!("records are not split by `{by}`, whose length varies");
                let error = Diagnostic::new(Code::TypeMismatch, span, message);
                self.report(error.note_at(*feature, format!("it is `{ty}`")));
                return None;
            }
            if let Some(batched) = pipeline.batched {
                let message = "with `by` records are split, so it comes before `batch`";
                let error = Diagnostic::new(Code::StageOrder, bound.span, message);
                self.report(error.note_at(batched, "batches begin here"));
                return None;
            }
            if let Holdout::Records(_) = holdout {
                let message = "with `by` the size of the holdout is a fraction: how many records have a value is not known before";
                let error = Diagnostic::new(Code::BadValue, holdout_span, message);
                self.report(error.help("write `holdout: 0.2`"));
                return None;
            }
            // Which records are held out is known when they are read.
            pipeline.unindexed.get_or_insert(bound.span);
        }
        Some(Split {
            by,
            part: bound.keyword("part", &parts).expect("it is required"),
            holdout,
            holdout_span,
            seed: bound.get("seed").unwrap_or(0),
        })
    }

    pub(super) fn add_batch(&mut self, pipeline: &mut Pipeline, span: Span, dim: Dim, pad: bool) {
        pipeline.batched.get_or_insert(span);
        pipeline.unindexed.get_or_insert(span);
        for (ty, element_span) in pipeline.elements.values_mut() {
            let inner = ty.shape.0.iter().map(|d| match pad {
                true => Dim::exact(d.size.clone()),
                false => d.clone(),
            });
            let dims = [dim.clone()].into_iter().chain(inner).collect();
            *ty = TensorType::new(ty.dtype, Shape(dims));
            if ty.shape.elements().is_none() {
                self.size_overflow(*element_span);
            }
        }
    }
}

/// An expression over features.
struct Computed {
    /// A tensor, a tuple, or `Poison`.
    value: Value,
    program: Program,
    /// The features that stages before it give for it alone.
    hidden: Vec<String>,
}

fn column_copy(name: &str, operand: ColumnOperand, ty: TensorType, span: Span) -> StageKind {
    StageKind::Column(Box::new(ColumnOp {
        name: name.to_owned(),
        kind: ColumnOpKind::Copy,
        operands: vec![operand],
        ty,
        span,
    }))
}
