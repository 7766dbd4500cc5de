//! A tree as some text that parses to it, with random space, comments and optional commas.
//!
//! Written apart from the formatter, so that neither hides a mistake of the other.

use trainspec_frontend::ast::*;

use crate::support::generate::Entropy;

/// The text of a tree.
pub(crate) fn write(file: &File, c: &mut Entropy<'_>) -> String {
    let mut writer = Writer {
        entropy: c,
        text: String::new(),
        comments: 0,
    };
    writer.docs(&file.docs, "!");
    if let Some(header) = &file.header {
        writer.all(&["spec", &header.name.text]);
        if let Some(edition) = &header.edition {
            writer.all(&[",", "edition", &edition.text]);
        }
        writer.token(";");
    }
    for item in &file.items {
        writer.item(item);
    }
    writer.space();
    writer.text
}

struct Writer<'a, 'b> {
    entropy: &'a mut Entropy<'b>,
    text: String,
    comments: usize,
}

impl Writer<'_, '_> {
    fn token(&mut self, token: &str) {
        self.space();
        self.text.push_str(token);
    }

    fn all(&mut self, tokens: &[&str]) {
        for token in tokens {
            self.token(token);
        }
    }

    fn space(&mut self) {
        self.text.push_str(match self.entropy.pick(16) {
            0..=9 => " ",
            10 => "\n",
            11 => "\n \t\n\n",
            12 => "\t ",
            13 => "\r\n",
            14 => return self.comment(" "),
            _ => return self.comment("\n"),
        });
    }

    fn comment(&mut self, before: &str) {
        self.comments += 1;
        let number = self.comments;
        let text = match self.entropy.pick(3) {
            0 => format!("// comment {number}"),
            1 => format!("//{number} \t"),
            _ => format!("//// \"{number}\" {{ ( ;"),
        };
        self.text.push_str(&format!("{before}{text}\n"));
    }

    fn docs(&mut self, docs: &[Doc], mark: &str) {
        for doc in docs {
            if self.entropy.rarely(3) {
                let literal = format!("{:?}", doc.text);
                self.token("#");
                if mark == "!" {
                    self.token("!");
                }
                self.all(&["[", "doc", "=", &literal, "]"]);
            } else {
                let slashes = if mark == "!" { "//!" } else { "///" };
                self.token(&format!("{slashes}{}\n", doc.text));
            }
        }
    }

    fn string(&mut self, value: &str) {
        let raw = !value.contains(['"', '\n', '\t']) && self.entropy.rarely(3);
        self.token(&match raw {
            true => format!("r#\"{value}\"#"),
            false => format!("{value:?}"),
        });
    }

    fn list<T>(&mut self, open: &str, elements: &[T], close: &str, each: impl Fn(&mut Self, &T)) {
        self.token(open);
        for (i, element) in elements.iter().enumerate() {
            if i > 0 {
                self.token(",");
            }
            each(self, element);
        }
        if !elements.is_empty() && self.entropy.rarely(3) {
            self.token(",");
        }
        self.token(close);
    }

    fn item(&mut self, item: &Item) {
        self.docs(&item.docs, "");
        match &item.kind {
            ItemKind::Const(constant) => {
                self.all(&["const", &constant.name.text, "="]);
                self.expr(&constant.value);
                self.token(";");
            }
            ItemKind::Use(path) => {
                self.token("use");
                self.string(&path.value);
                self.token(";");
            }
            ItemKind::WarmStart(arguments) => {
                self.token("warm_start");
                self.list("(", arguments, ")", Self::argument);
                self.token(";");
            }
            ItemKind::Model(model) => {
                self.token("model");
                self.list("(", &model.params, ")", Self::param);
                self.body(&model.body);
            }
            ItemKind::Section(section) => {
                self.token(section.kind.word());
                if let Some(name) = &section.name {
                    self.token(&name.text);
                }
                self.settings(&section.settings);
            }
            ItemKind::Definition(definition) => {
                self.all(&[definition.kind.word(), &definition.name.text]);
                self.list("(", &definition.params, ")", Self::param);
                self.alias(definition.alias.as_ref());
                self.bounds(&definition.bounds);
                match &definition.body {
                    DefinitionBody::Body(body) => self.body(body),
                    DefinitionBody::Value(value) => {
                        self.after("=", Some(value));
                        self.token(";");
                    }
                }
            }
            ItemKind::Bad(_) => unreachable!("not generated"),
        }
    }

    fn alias(&mut self, alias: Option<&StrLit>) {
        if let Some(alias) = alias {
            self.token("as");
            self.string(&alias.value);
        }
    }

    fn bounds(&mut self, bounds: &[Bound]) {
        for (i, bound) in bounds.iter().enumerate() {
            self.token(if i == 0 { "where" } else { "," });
            self.all(&[&bound.name.text, ":", &bound.class.text]);
        }
    }

    fn after(&mut self, word: &str, expr: Option<&Expr>) {
        if let Some(expr) = expr {
            self.token(word);
            self.expr(expr);
        }
    }

    fn param(&mut self, param: &Param) {
        self.docs(&param.docs, "");
        if param.is_const {
            self.token("const");
        }
        self.token(&param.name.text);
        self.ty(param.ty.as_ref());
        self.after("in", param.bound.as_ref());
        self.after("=", param.default.as_ref());
    }

    fn ty(&mut self, ty: Option<&Type>) {
        let Some(ty) = ty else {
            return;
        };
        self.all(&[":", &ty.name.text]);
        if let Some(dims) = &ty.dims {
            self.list("[", dims, "]", |w, dim| match &dim.kind {
                DimKind::Rest => w.token(".."),
                DimKind::Capacity(size) => w.after("<=", Some(size)),
                DimKind::Size(size) => w.expr(size),
            });
        }
    }

    fn settings(&mut self, settings: &[Setting]) {
        self.token("{");
        for setting in settings {
            self.setting(setting);
        }
        self.token("}");
    }

    fn setting(&mut self, setting: &Setting) {
        self.docs(&setting.docs, "");
        self.token(&setting.word.text);
        match &setting.value {
            SettingValue::None => {}
            SettingValue::Declaration(declaration) => {
                self.token(&declaration.name.text);
                self.ty(Some(&declaration.ty));
                self.alias(declaration.alias.as_ref());
                if let Some(columns) = &declaration.columns {
                    self.token("as");
                    self.list("[", columns, "]", |w, column| w.string(&column.value));
                }
                self.after("in", declaration.bound.as_ref());
                self.after("=", declaration.default.as_ref());
            }
            SettingValue::Assignment(pattern, value) => {
                self.pattern(pattern);
                self.after("=", Some(value));
            }
            SettingValue::Arguments(arguments) => self.list("(", arguments, ")", Self::argument),
            SettingValue::Value(value) => self.expr(value),
            SettingValue::Bad(_) => unreachable!("not generated"),
        }
        for clause in &setting.clauses {
            match clause {
                Clause::For(pattern) => self.after("for", Some(pattern)),
                Clause::Minimizing(name) => self.all(&["minimizing", &name.text]),
            }
        }
        if let Some(body) = &setting.body {
            self.settings(body);
        }
        if setting.body.is_none() || self.entropy.rarely(3) {
            self.token(";");
        }
    }

    fn body(&mut self, body: &Body) {
        self.token("{");
        for statement in &body.statements {
            self.statement(statement);
        }
        if let Some(value) = &body.value {
            self.expr(value);
        }
        self.token("}");
    }

    fn statement(&mut self, statement: &Statement) {
        self.docs(&statement.docs, "");
        match &statement.kind {
            StatementKind::Let { pattern, ty, value } => {
                self.token("let");
                self.pattern(pattern);
                self.ty(ty.as_ref());
                self.after("=", Some(value));
            }
            StatementKind::Variable(variable) => {
                self.all(&[variable.kind.word(), &variable.name.text]);
                if let Some(called) = &variable.called {
                    self.token("called");
                    self.string(&called.value);
                }
                self.ty(variable.ty.as_ref());
                self.alias(variable.alias.as_ref());
                self.after("=", Some(&variable.init));
            }
            StatementKind::Scalar {
                name,
                alias,
                start,
                next,
            } => {
                self.all(&["scalar", &name.text]);
                self.alias(alias.as_ref());
                self.after("=", Some(start));
                self.after("then", Some(next));
            }
            StatementKind::Layer { name, value } => self.named("layer", name, value),
            StatementKind::Loss {
                name: Some(name),
                value,
            } => self.named("loss", name, value),
            StatementKind::Loss { name: None, value } => self.after("loss", Some(value)),
            StatementKind::Metric { name, value } => self.named("metric", name, value),
            StatementKind::Output { name, value } => self.named("output", name, value),
            StatementKind::Yield(value) => self.after("yield", Some(value)),
            StatementKind::Write { target, value } => {
                self.token(&target.text);
                self.after("<-", Some(value));
            }
            StatementKind::Expr { value, semicolon } => {
                self.expr(value);
                if !semicolon {
                    return;
                }
            }
            StatementKind::Bad(_) => unreachable!("not generated"),
        }
        self.token(";");
    }

    fn named(&mut self, word: &str, name: &Name, value: &Expr) {
        self.all(&[word, &name.text]);
        self.after("=", Some(value));
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Name(name) => self.token(&name.text),
            Pattern::Wildcard(_) => self.token("_"),
            Pattern::Tuple(patterns, _) => self.list("(", patterns, ")", Self::pattern),
        }
    }

    fn argument(&mut self, argument: &Argument) {
        if let Some(name) = &argument.name {
            self.all(&[&name.text, ":"]);
        }
        self.expr(&argument.value);
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(number) => self.token(&number.text),
            ExprKind::Quantity(number, unit) => self.all(&[&number.text, unit.word()]),
            ExprKind::Str(value) => self.string(value),
            ExprKind::Bool(value) => self.token(&value.to_string()),
            ExprKind::Name(name) => self.token(name),
            ExprKind::Paren(inner) => {
                self.token("(");
                self.expr(inner);
                self.token(")");
            }
            ExprKind::Tuple(elements) => match &elements[..] {
                [element] => {
                    self.token("(");
                    self.expr(element);
                    self.all(&[",", ")"]);
                }
                _ => self.list("(", elements, ")", Self::expr),
            },
            ExprKind::List(elements) => self.list("[", elements, "]", Self::expr),
            ExprKind::Prefix(ops, operand) => {
                for op in ops {
                    self.token(op.symbol());
                }
                self.expr(operand);
            }
            ExprKind::Infix(first, rest) => {
                self.expr(first);
                for (op, operand) in rest {
                    self.after(op.symbol(), Some(operand));
                }
            }
            ExprKind::Postfix(base, postfixes) => {
                self.expr(base);
                for postfix in postfixes {
                    match &postfix.kind {
                        PostfixKind::Call(arguments) => {
                            self.list("(", arguments, ")", Self::argument)
                        }
                        PostfixKind::Index(subscripts) => {
                            self.list("[", subscripts, "]", Self::subscript)
                        }
                        PostfixKind::Member(name) => self.all(&[".", &name.text]),
                    }
                }
            }
            ExprKind::Range(start, end) => {
                self.expr(start);
                self.token("..");
                if let Some(end) = end {
                    self.expr(end);
                }
            }
            ExprKind::If(branches, otherwise) => {
                for (i, (condition, body)) in branches.iter().enumerate() {
                    if i > 0 {
                        self.token("else");
                    }
                    self.after("if", Some(condition));
                    self.body(body);
                }
                if let Some(body) = otherwise {
                    self.token("else");
                    self.body(body);
                }
            }
            ExprKind::Loop(loop_expr) => {
                self.token(match loop_expr.kind {
                    LoopKind::For => "for",
                    LoopKind::Scan => "scan",
                });
                self.pattern(&loop_expr.pattern);
                self.after("in", Some(&loop_expr.over));
                for (name, start) in &loop_expr.carries {
                    self.all(&[",", &name.text]);
                    self.after("=", Some(start));
                }
                self.body(&loop_expr.body);
            }
        }
    }

    fn subscript(&mut self, subscript: &Subscript) {
        match &subscript.kind {
            SubscriptKind::Rest => self.token(".."),
            SubscriptKind::Full => self.token("_"),
            SubscriptKind::At(position) => self.expr(position),
            SubscriptKind::Slice { start, end, step } => {
                if let Some(start) = start {
                    self.expr(start);
                }
                self.token("..");
                if let Some(end) = end {
                    self.expr(end);
                }
                self.after("by", step.as_ref());
            }
        }
    }
}
