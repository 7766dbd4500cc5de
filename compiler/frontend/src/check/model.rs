//! The model, in both modes, and uncalled definitions.

use std::sync::Arc;

use trainspec_ir::{DType, Dim, Size, Span, TensorType};

use crate::ast::{self, DefinitionBody, DefinitionKind};
use crate::check::Checker;
use crate::check::scope::{Frame, FrameKind, Target};
use crate::check::types;
use crate::check::value::{Def, Value};
use crate::check::variables::Store;
use crate::diag::{Code, Diagnostic};
use crate::typed::{self, Input, NodeKind};

impl Checker<'_> {
    pub(crate) fn model(&mut self, _data: &[typed::DataSet]) -> Option<typed::Model> {
        let (model, keyword) = self.items.model.clone()?;
        self.training = true;
        self.writes = true;
        let (inputs, train) = self.mode(&model, keyword);
        self.training = false;
        self.writes = false;
        let (_, eval) = self.mode(&model, keyword);
        self.training = true;
        self.writes = true;
        Some(typed::Model {
            inputs,
            train,
            eval,
        })
    }

    /// One pass over the model, in one mode.
    fn mode(&mut self, model: &ast::Model, keyword: Span) -> (Vec<typed::Feature>, typed::Mode) {
        self.store.start_mode();
        let bounds = types::Bounds::new();
        let frame = Frame::new(FrameKind::Model, String::new());
        let ((inputs, lets), program) = self.in_program(|c| {
            c.framed(frame, |c| {
                let inputs = model.params.iter().filter_map(|p| c.input(p, &bounds)).collect();
                let value = c.body(&model.body);
                if let (Some(expr), false) = (&model.body.value, value.is_poison())
                    && !matches!(expr.kind, ast::ExprKind::If(..) | ast::ExprKind::Loop(_))
                {
                    c.report(
                        Diagnostic::new(Code::NoEffect, expr.span, "this value is not used")
                            .help("a model states what it is for: `loss ...;`, `metric NAME = ...;`, `output NAME = ...;`"),
                    );
                }
                (inputs, c.fetchable())
            })
        });
        let mut mode = std::mem::take(&mut self.store.mode);
        let nothing = mode.losses.is_empty() && mode.metrics.is_empty() && mode.outputs.is_empty();
        if nothing && !self.store.broken_results && !self.has_errors() {
            self.report(
                Diagnostic::new(
                    Code::MissingItem,
                    keyword,
                    "the model has no loss, no metric and no output",
                )
                .help("say what it is for: `loss mean(square(prediction - label));`"),
            );
        }
        mode.program = program;
        mode.lets = lets;
        (inputs, mode)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors.iter().any(Diagnostic::is_error)
    }

    fn fetchable(&self) -> Vec<(String, typed::ValueId)> {
        let mut lets: Vec<(Span, String, typed::ValueId)> = Vec::new();
        for (name, binding) in self.frame().scopes.iter().flatten() {
            if let (Value::Tensor(t), Target::Fixed("let")) = (&binding.value, &binding.target) {
                lets.push((binding.span, name.clone(), t.id));
            }
        }
        lets.sort();
        lets.into_iter().map(|(_, name, id)| (name, id)).collect()
    }

    /// An input of the model.
    fn input(&mut self, param: &ast::Param, bounds: &types::Bounds) -> Option<typed::Feature> {
        self.reject_duplicate(&param.name, "input");
        let feature = self.input_type(param, bounds);
        let value = match &feature {
            Some(f) => self.emit_one(
                NodeKind::Input(Input::Named(f.name.clone())),
                f.ty.clone(),
                param.name.span,
            ),
            None => Value::Poison,
        };
        if let (Value::Tensor(input), Some(bounds)) =
            (&value, feature.as_ref().and_then(|f| f.bounds))
        {
            self.ranges.insert(input.id, bounds);
        }
        self.bind_with(&param.name, value, Target::Fixed("input"));
        if !param.name.text.starts_with('_') {
            self.declared
                .insert(param.name.span, ("input", param.name.text.clone()));
        }
        feature
    }

    fn input_type(&mut self, param: &ast::Param, bounds: &types::Bounds) -> Option<typed::Feature> {
        let Some(ty) = &param.ty else {
            self.report(
                Diagnostic::new(
                    Code::Syntax,
                    param.span,
                    format!("the input `{}` needs a type", param.name.text),
                )
                .help(format!("write `{}: f32[batch, ...]`", param.name.text)),
            );
            return None;
        };
        let declared = self.declared_type(ty, bounds, true)?;
        if declared.dtype == DType::String {
            let name = &param.name.text;
            let message = format!("a model takes no strings, and `{name}` is `{declared}`");
            let help = format!(
                "make a number of it in the data set: `map {name} = vocabulary({name}, from: data, size: 1_000);`"
            );
            self.report(Diagnostic::new(Code::TypeMismatch, ty.span, message).help(help));
            return None;
        }
        let values = match &param.bound {
            Some(bound) => Some(self.value_bounds(bound, &declared)?),
            None => None,
        };
        if let Some(default) = &param.default {
            self.report(
                Diagnostic::new(
                    Code::Syntax,
                    default.span,
                    "an input of the model has no default",
                )
                .help("give the feature one in `data`"),
            );
        }
        Some(typed::Feature {
            columns: Vec::new(),
            name: param.name.text.clone(),
            key: param.name.text.clone(),
            ty: declared,
            bounds: values,
            default: None,
            is_sequence: false,
            span: param.name.span,
        })
    }

    // ---- Definitions on their own ----

    /// Checks the user's definitions that nothing calls, with symbolic sizes.
    pub(crate) fn check_unexpanded(&mut self) {
        for def in self.unexpanded() {
            let world = std::mem::take(&mut self.store);
            self.generic = true;
            self.training = true;
            self.in_program(|c| c.check_alone(&def));
            self.training = false;
            self.store = Store::default();
            self.in_program(|c| c.check_alone(&def));
            self.generic = false;
            self.training = true;
            self.store = world;
        }
    }

    fn check_alone(&mut self, def: &Arc<Def>) {
        let kind = match def.ast.kind {
            DefinitionKind::Block => FrameKind::Block,
            DefinitionKind::Fn => FrameKind::Fn,
            DefinitionKind::Optimizer => FrameKind::Optimizer,
            DefinitionKind::Schedule => FrameKind::Schedule,
            DefinitionKind::Init => FrameKind::Init,
        };
        let bounds = types::bounds_of(self, &def.ast.bounds);
        let name_span = def.ast.name.span;
        self.calls
            .push(crate::check::CallSite::new(name_span, def, &[], &[]));
        self.framed(Frame::new(kind, def.name().to_owned()), |c| {
            c.bind_implicit_names(kind, name_span);
            for param in &def.ast.params {
                let value = c.sample(param, &bounds);
                c.reject_duplicate(&param.name, "parameter");
                c.bind_with(&param.name, value, Target::Fixed("parameter"));
            }
            match &def.ast.body {
                DefinitionBody::Value(expr) => {
                    c.eval(expr);
                }
                DefinitionBody::Body(body) => {
                    c.body(body);
                }
            }
        });
        self.gave_up = false;
        self.calls.pop();
    }

    /// The names that a definition sees without declaring them, as samples.
    fn bind_implicit_names(&mut self, kind: FrameKind, name_span: Span) {
        let sample = TensorType::new(
            DType::F32,
            trainspec_ir::Shape(vec![Dim::exact(Size::named("n"))]),
        );
        let fixed = Target::Fixed("part of every definition of its kind");
        match kind {
            FrameKind::Optimizer => {
                let param = self.emit_one(NodeKind::Input(Input::Param), sample.clone(), name_span);
                let grad = self.emit_one(NodeKind::Input(Input::Grad), sample.clone(), name_span);
                self.store.update.param = Some(sample);
                self.bind_implicit("param", name_span, param, Target::Slot);
                self.bind_implicit("grad", name_span, grad, fixed.clone());
                self.bind_implicit("T", name_span, Value::DType(DType::F32), fixed);
            }
            FrameKind::Init => {
                let n = Value::Int(Size::named("n"));
                self.bind_implicit(
                    "shape",
                    name_span,
                    Value::list(vec![n.clone(), n.clone()]),
                    fixed.clone(),
                );
                self.bind_implicit("fan_in", name_span, n.clone(), fixed.clone());
                self.bind_implicit("fan_out", name_span, n, fixed.clone());
                self.bind_implicit("T", name_span, Value::DType(DType::F32), fixed);
            }
            _ => {}
        }
    }

    /// A sample value for a parameter.
    fn sample(&mut self, param: &ast::Param, bounds: &types::Bounds) -> Value {
        match (&param.ty, &param.default) {
            (Some(ty), _) if types::is_tensor_type(ty, bounds) => {
                match self.declared_type(ty, bounds, true) {
                    Some(ty) => self.emit_one(
                        NodeKind::Input(Input::Named(param.name.text.clone())),
                        ty,
                        param.name.span,
                    ),
                    None => Value::Poison,
                }
            }
            (_, Some(default)) => self.eval(default),
            (Some(ty), None) if ty.name.text == "int" => Value::Int(Size::named(&param.name.text)),
            _ => Value::Poison,
        }
    }
}
