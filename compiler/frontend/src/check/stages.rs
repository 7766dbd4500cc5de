//! Stages of an input pipeline: `map`, `filter`, `drop`, and those of the table of settings. Their order is checked here.

use trainspec_ir::{DType, Dim, Shape, Size, Span, TensorType};

use crate::ast::{self, Expr, ExprKind, SettingValue};
use crate::check::Checker;
use crate::check::bound::Bound;
use crate::check::data::Pipeline;
use crate::check::scope::Target;
use crate::check::value::Value;
use crate::diag::{Code, Diagnostic, nearest};
use crate::typed::{
    self, Batch, CountedFeature, Holdout, Input, NodeKind, Part, Program, Remainder, Split, Stage,
    StageKind, ValueId,
};

impl Checker<'_> {
    /// Evaluates an expression over the features; gives its program without the features it does not use.
    fn over_features(&mut self, expr: &Expr, pipeline: &Pipeline) -> (Value, Program) {
        let (value, mut program) = self.in_program(|c| {
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

    pub(super) fn map(&mut self, setting: &ast::Setting, pipeline: &mut Pipeline) {
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
                self.reject_strings(&program, expr.span);
                pipeline.stages.push(Stage {
                    kind: StageKind::Map {
                        name: name.text.clone(),
                        program,
                        value: t.id,
                    },
                    span: setting.word.span,
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
        self.reject_strings(&program, expr.span);
        pipeline.stages.push(Stage {
            kind: StageKind::Filter {
                program,
                value: t.id,
            },
            span: setting.word.span,
        });
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
            if setting.word.text == "batch" {
                let size = Dim::exact(Size::named("batch"));
                self.add_batch(pipeline, span, size, false);
            }
            return;
        };
        let count = || bound.require("count");
        let kind = match bound.signature.word {
            "shuffle" => StageKind::Shuffle {
                buffer: bound.require("buffer"),
                seed: bound.get("seed"),
            },
            "epochs" => {
                pipeline.repeated.get_or_insert(span);
                StageKind::Epochs { count: count() }
            }
            "repeat" => {
                pipeline.repeated.get_or_insert(span);
                pipeline.endless.get_or_insert(span);
                StageKind::Repeat
            }
            "batch" => StageKind::Batch(self.batch(&bound, pipeline)),
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
                match self.split(&bound) {
                    Some(split) => StageKind::Split(split),
                    None => return,
                }
            }
            "cache" => {
                if let Some(endless) = pipeline.endless {
                    let message = "`cache` keeps all records, and after `repeat` they are endless";
                    self.reject_order(span, message, endless, "cache");
                }
                StageKind::Cache
            }
            "prefetch" => StageKind::Prefetch { count: count() },
            "shard" => match self.shard(&bound) {
                Some(shard) => shard,
                None => return,
            },
            other => unreachable!("the stage `{other}` is refused, or converted here"),
        };
        pipeline.stages.push(Stage { kind, span });
    }

    /// Rejects a stage that must not come after one that repeats records.
    fn reject_order(&mut self, span: Span, message: &str, repeated: Span, word: &str) {
        self.report(
            Diagnostic::new(Code::StageOrder, span, message)
                .note_at(repeated, "records repeat from here on")
                .help(format!("put `{word}` before it")),
        );
    }

    fn batch(&mut self, bound: &Bound, pipeline: &mut Pipeline) -> Batch {
        let remainders = [
            ("drop", Remainder::Drop),
            ("keep", Remainder::Keep),
            ("error", Remainder::Error),
        ];
        let counted = |(name, (ty, _)): (&String, &(TensorType, Span))| {
            let dims = ty.shape.0.iter().enumerate();
            let axes: Vec<usize> = dims
                .filter_map(|(i, d)| d.count.as_ref().map(|_| i))
                .collect();
            (!axes.is_empty()).then(|| CountedFeature {
                name: name.clone(),
                axes,
            })
        };
        let size: i64 = bound.require("size");
        let batch = Batch {
            size: bound.require("size"),
            remainder: bound.keyword("remainder", &remainders),
            pad: bound.get("pad").unwrap_or(false),
            counted: pipeline.elements.iter().filter_map(counted).collect(),
        };
        let dim = match batch.remainder {
            Some(Remainder::Keep) => Size::named("batch"),
            Some(Remainder::Drop | Remainder::Error) | None => Size::fixed(size),
        };
        self.add_batch(pipeline, bound.span, Dim::exact(dim), batch.pad);
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

    fn split(&mut self, bound: &Bound) -> Option<Split> {
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
        Some(Split {
            part: bound.keyword("part", &parts).expect("it is required"),
            holdout,
            holdout_span,
            seed: bound.get("seed").unwrap_or(0),
        })
    }

    /// Rejects a program that computes with strings.
    fn reject_strings(&mut self, program: &Program, span: Span) {
        let ty = |v: ValueId| program.values[v.0 as usize].dtype;
        let holds = |node: &&typed::Node| node.results.iter().any(|v| ty(v) == DType::String);
        let Some(node) = program.nodes.iter().find(holds) else {
            return;
        };
        let error = |message| Diagnostic::new(Code::TypeMismatch, span, message);
        self.report(match &node.kind {
            NodeKind::Input(Input::Named(name)) => error(format!(
                "`{name}` holds strings, which cannot be computed with yet"
            ))
            .note_at(node.span, "it is declared here"),
            _ => error("strings cannot be computed with yet".to_owned()),
        });
    }

    fn add_batch(&mut self, pipeline: &mut Pipeline, span: Span, dim: Dim, pad: bool) {
        pipeline.batched.get_or_insert(span);
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
