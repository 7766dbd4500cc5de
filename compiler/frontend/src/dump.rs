//! Textual dump of the AST: one node per line, children indented below it.
//!
//! In: a tree. Out: lines such as `infix + @12..17`, the numbers being bytes of the text. Without spans, two texts
//! that differ only in layout, comments and the spelling of a token (`"\x41"` for `"A"`, `1 step` for `1 steps`) give the
//! same dump.

use std::fmt::Write;

use trainspec_ir::Span;

use crate::ast::*;

/// The tree with spans.
///
/// ```
/// use trainspec_frontend::{dump, syntax};
/// use trainspec_ir::FileId;
///
/// let (parsed, _) = syntax::parse(FileId(0), "const N = 2 * 3;");
/// assert_eq!(
///     dump::dump(&parsed.file),
///     "file\n  const N @0..16\n    infix * @10..15\n      number 2 @10..11\n      number 3 @14..15\n"
/// );
/// ```
pub fn dump(file: &File) -> String {
    let mut dumper = Dumper {
        out: String::new(),
        depth: 0,
        spans: true,
    };
    dumper.file(file);
    dumper.out
}

/// The tree without spans, for comparing trees of different texts.
pub fn dump_without_spans(file: &File) -> String {
    let mut dumper = Dumper {
        out: String::new(),
        depth: 0,
        spans: false,
    };
    dumper.file(file);
    dumper.out
}

struct Dumper {
    out: String,
    depth: usize,
    spans: bool,
}

impl Dumper {
    /// One line for the node, and its children as written by `inner`.
    fn node(&mut self, label: &str, span: Option<Span>, inner: impl FnOnce(&mut Self)) {
        self.out.extend(std::iter::repeat_n("  ", self.depth));
        self.out.push_str(label);
        if let Some(span) = span.filter(|_| self.spans) {
            // Writing to a string does not fail.
            let _ = write!(self.out, " @{}..{}", span.start, span.end);
        }
        self.out.push('\n');
        self.depth += 1;
        inner(self);
        self.depth -= 1;
    }

    fn leaf(&mut self, label: &str, span: Option<Span>) {
        self.node(label, span, |_| {});
    }

    fn file(&mut self, file: &File) {
        self.node("file", None, |d| {
            d.docs(&file.docs);
            if let Some(header) = &file.header {
                let mut label = format!("header {}", header.name.text);
                if let Some(edition) = &header.edition {
                    label.push_str(" edition ");
                    label.push_str(&edition.text);
                }
                d.leaf(&label, Some(header.span));
            }
            for item in &file.items {
                d.item(item);
            }
        });
    }

    fn docs(&mut self, docs: &[Doc]) {
        for doc in docs {
            self.leaf(&format!("doc {:?}", doc.text), Some(doc.span));
        }
    }

    fn item(&mut self, item: &Item) {
        let label = match &item.kind {
            ItemKind::Const(constant) => format!("const {}", constant.name.text),
            ItemKind::Use(path) => format!("use {:?}", path.value),
            ItemKind::WarmStart(_) => "warm_start".to_owned(),
            ItemKind::Model(_) => "model".to_owned(),
            ItemKind::Section(section) => with_name(section.kind.word(), section.name.as_ref()),
            ItemKind::Definition(definition) => {
                with_name(definition.kind.word(), Some(&definition.name))
            }
            ItemKind::Bad(names) => bad(names),
        };
        self.node(&label, Some(item.span), |d| {
            d.docs(&item.docs);
            match &item.kind {
                ItemKind::Const(constant) => d.expr(&constant.value),
                ItemKind::Use(_) | ItemKind::Bad(_) => {}
                ItemKind::WarmStart(arguments) => d.arguments(arguments),
                ItemKind::Model(model) => {
                    d.params(&model.params);
                    d.body("body", &model.body);
                }
                ItemKind::Section(section) => d.settings(&section.settings),
                ItemKind::Definition(definition) => d.definition(definition),
            }
        });
    }

    fn definition(&mut self, definition: &Definition) {
        self.params(&definition.params);
        self.alias(definition.alias.as_ref());
        self.bounds(&definition.bounds);
        match &definition.body {
            DefinitionBody::Body(body) => self.body("body", body),
            DefinitionBody::Value(value) => self.part("value", Some(value)),
        }
    }

    fn params(&mut self, params: &[Param]) {
        for param in params {
            let word = if param.is_const {
                "param const"
            } else {
                "param"
            };
            let label = with_name(word, Some(&param.name));
            self.node(&label, Some(param.span), |d| {
                d.docs(&param.docs);
                d.ty(param.ty.as_ref());
                d.part("in", param.bound.as_ref());
                d.part("default", param.default.as_ref());
            });
        }
    }

    fn bounds(&mut self, bounds: &[Bound]) {
        for bound in bounds {
            let label = format!("where {}: {}", bound.name.text, bound.class.text);
            self.leaf(&label, Some(bound.name.span.to(bound.class.span)));
        }
    }

    fn alias(&mut self, alias: Option<&StrLit>) {
        if let Some(alias) = alias {
            self.leaf(&format!("as {:?}", alias.value), Some(alias.span));
        }
    }

    /// An optional child with a label of its own.
    fn part(&mut self, label: &str, expr: Option<&Expr>) {
        if let Some(expr) = expr {
            self.node(label, None, |d| d.expr(expr));
        }
    }

    fn ty(&mut self, ty: Option<&Type>) {
        let Some(ty) = ty else {
            return;
        };
        let brackets = if ty.dims.is_some() { "[]" } else { "" };
        let label = format!("type {}{brackets}", ty.name.text);
        self.node(&label, Some(ty.span), |d| {
            for dim in ty.dims.iter().flatten() {
                match &dim.kind {
                    DimKind::Rest => d.leaf("rest", Some(dim.span)),
                    DimKind::Capacity(size) => {
                        d.node("at most", Some(dim.span), |d| d.expr(size));
                    }
                    DimKind::Size(size) => d.expr(size),
                }
            }
        });
    }

    fn settings(&mut self, settings: &[Setting]) {
        for setting in settings {
            let label = with_name("setting", Some(&setting.word));
            self.node(&label, Some(setting.span), |d| d.setting(setting));
        }
    }

    fn setting(&mut self, setting: &Setting) {
        self.docs(&setting.docs);
        match &setting.value {
            SettingValue::None => {}
            SettingValue::Declaration(declaration) => {
                let label = format!("declare {}", declaration.name.text);
                self.node(&label, Some(declaration.name.span), |d| {
                    d.ty(Some(&declaration.ty));
                    d.alias(declaration.alias.as_ref());
                    for column in declaration.columns.iter().flatten() {
                        d.leaf(&format!("column {:?}", column.value), Some(column.span));
                    }
                    d.part("in", declaration.bound.as_ref());
                    d.part("default", declaration.default.as_ref());
                });
            }
            SettingValue::Assignment(Pattern::Name(name), value) => {
                self.node(&format!("assign {}", name.text), Some(name.span), |d| {
                    d.expr(value);
                });
            }
            SettingValue::Assignment(pattern, value) => {
                self.node("assign", Some(pattern.span()), |d| {
                    d.pattern(pattern);
                    d.expr(value);
                });
            }
            SettingValue::Arguments(arguments) => {
                self.node("arguments", None, |d| d.arguments(arguments));
            }
            SettingValue::Value(value) => self.expr(value),
            SettingValue::Bad(_) => self.leaf("bad", None),
        }
        for clause in &setting.clauses {
            match clause {
                Clause::For(pattern) => self.part("for", Some(pattern)),
                Clause::Minimizing(name) => {
                    self.leaf(&format!("minimizing {}", name.text), Some(name.span));
                }
            }
        }
        if let Some(body) = &setting.body {
            self.node("settings", None, |d| d.settings(body));
        }
    }

    fn body(&mut self, label: &str, body: &Body) {
        self.node(label, Some(body.span), |d| {
            for statement in &body.statements {
                d.statement(statement);
            }
            d.part("value", body.value.as_deref());
        });
    }

    fn statement(&mut self, statement: &Statement) {
        let label = match &statement.kind {
            StatementKind::Let { .. } => "let".to_owned(),
            StatementKind::Variable(variable) => {
                with_name(variable.kind.word(), Some(&variable.name))
            }
            StatementKind::Scalar { name, .. } => with_name("scalar", Some(name)),
            StatementKind::Layer { name, .. } => with_name("layer", Some(name)),
            StatementKind::Loss { name, .. } => with_name("loss", name.as_ref()),
            StatementKind::Metric { name, .. } => with_name("metric", Some(name)),
            StatementKind::Output { name, .. } => with_name("output", Some(name)),
            StatementKind::Yield(_) => "yield".to_owned(),
            StatementKind::Write { target, .. } => with_name("write", Some(target)),
            StatementKind::Expr {
                semicolon: true, ..
            } => "do ;".to_owned(),
            StatementKind::Expr {
                semicolon: false, ..
            } => "do".to_owned(),
            StatementKind::Bad(names) => bad(names),
        };
        self.node(&label, Some(statement.span), |d| {
            d.docs(&statement.docs);
            match &statement.kind {
                StatementKind::Let { pattern, ty, value } => {
                    d.pattern(pattern);
                    d.ty(ty.as_ref());
                    d.expr(value);
                }
                StatementKind::Variable(variable) => {
                    if let Some(called) = &variable.called {
                        d.leaf(&format!("called {:?}", called.value), Some(called.span));
                    }
                    d.ty(variable.ty.as_ref());
                    d.alias(variable.alias.as_ref());
                    d.expr(&variable.init);
                }
                StatementKind::Scalar {
                    alias, start, next, ..
                } => {
                    d.alias(alias.as_ref());
                    d.expr(start);
                    d.part("then", Some(next));
                }
                StatementKind::Layer { value, .. }
                | StatementKind::Loss { value, .. }
                | StatementKind::Metric { value, .. }
                | StatementKind::Output { value, .. }
                | StatementKind::Yield(value)
                | StatementKind::Write { value, .. }
                | StatementKind::Expr { value, .. } => d.expr(value),
                StatementKind::Bad(_) => {}
            }
        });
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Name(name) => self.leaf(&format!("bind {}", name.text), Some(name.span)),
            Pattern::Wildcard(span) => self.leaf("bind _", Some(*span)),
            Pattern::Tuple(patterns, span) => self.node("bind ()", Some(*span), |d| {
                for pattern in patterns {
                    d.pattern(pattern);
                }
            }),
        }
    }

    fn arguments(&mut self, arguments: &[Argument]) {
        for argument in arguments {
            match &argument.name {
                Some(name) => self.node(&format!("{}:", name.text), Some(name.span), |d| {
                    d.expr(&argument.value);
                }),
                None => self.expr(&argument.value),
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        let label = match &expr.kind {
            ExprKind::Number(number) => format!("number {}", number.text),
            ExprKind::Quantity(number, unit) => format!("number {} {}", number.text, unit.word()),
            ExprKind::Str(value) => format!("string {value:?}"),
            ExprKind::Bool(value) => value.to_string(),
            ExprKind::Name(name) => format!("name {name}"),
            ExprKind::Paren(_) => "paren".to_owned(),
            ExprKind::Tuple(_) => "tuple".to_owned(),
            ExprKind::List(_) => "list".to_owned(),
            ExprKind::Prefix(ops, _) => {
                let ops: Vec<&str> = ops.iter().map(|op| op.symbol()).collect();
                format!("prefix {}", ops.join(" "))
            }
            ExprKind::Infix(_, rest) => {
                let ops: Vec<&str> = rest.iter().map(|(op, _)| op.symbol()).collect();
                format!("infix {}", ops.join(" "))
            }
            ExprKind::Postfix(..) => "postfix".to_owned(),
            ExprKind::Range(_, Some(_)) => "range".to_owned(),
            ExprKind::Range(_, None) => "range open".to_owned(),
            ExprKind::If(..) => "if".to_owned(),
            ExprKind::Loop(loop_expr) => match loop_expr.kind {
                LoopKind::For => "for".to_owned(),
                LoopKind::Scan => "scan".to_owned(),
            },
        };
        self.node(&label, Some(expr.span), |d| d.inside(expr));
    }

    /// The children of an expression.
    fn inside(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(_)
            | ExprKind::Quantity(..)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::Name(_) => {}
            ExprKind::Paren(inner) | ExprKind::Prefix(_, inner) => self.expr(inner),
            ExprKind::Tuple(elements) | ExprKind::List(elements) => {
                for element in elements {
                    self.expr(element);
                }
            }
            ExprKind::Infix(first, rest) => {
                self.expr(first);
                for (_, operand) in rest {
                    self.expr(operand);
                }
            }
            ExprKind::Postfix(base, postfixes) => {
                self.expr(base);
                for postfix in postfixes {
                    self.postfix(postfix);
                }
            }
            ExprKind::Range(start, end) => {
                self.expr(start);
                if let Some(end) = end {
                    self.expr(end);
                }
            }
            ExprKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    self.expr(condition);
                    self.body("then", body);
                }
                if let Some(body) = otherwise {
                    self.body("else", body);
                }
            }
            ExprKind::Loop(loop_expr) => {
                self.pattern(&loop_expr.pattern);
                self.part("in", Some(&loop_expr.over));
                for (name, start) in &loop_expr.carries {
                    self.node(&format!("carry {}", name.text), Some(name.span), |d| {
                        d.expr(start);
                    });
                }
                self.body("body", &loop_expr.body);
            }
        }
    }

    fn postfix(&mut self, postfix: &Postfix) {
        let span = Some(postfix.span);
        match &postfix.kind {
            PostfixKind::Call(arguments) => self.node("call", span, |d| d.arguments(arguments)),
            PostfixKind::Index(subscripts) => self.node("index", span, |d| {
                for subscript in subscripts {
                    d.subscript(subscript);
                }
            }),
            PostfixKind::Member(name) => self.leaf(&format!("member {}", name.text), span),
        }
    }

    fn subscript(&mut self, subscript: &Subscript) {
        let span = Some(subscript.span);
        match &subscript.kind {
            SubscriptKind::Rest => self.leaf("rest", span),
            SubscriptKind::Full => self.leaf("whole", span),
            SubscriptKind::At(position) => self.expr(position),
            SubscriptKind::Slice { start, end, step } => self.node("slice", span, |d| {
                d.part("from", start.as_ref());
                d.part("to", end.as_ref());
                d.part("by", step.as_ref());
            }),
        }
    }
}

fn with_name(word: &str, name: Option<&Name>) -> String {
    match name {
        Some(name) => format!("{word} {}", name.text),
        None => word.to_owned(),
    }
}

fn bad(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(|n| n.text.as_str()).collect();
    format!("bad {}", names.join(" ")).trim_end().to_owned()
}
