//! Expressions, types and patterns.

use super::Printer;
use super::doc::{Doc, Nest};
use crate::ast::*;
use crate::syntax::string;

/// The trailing comma of a list.
#[derive(Clone, Copy)]
enum Comma {
    /// A comma, if every element has its line.
    IfBroken,
    /// A comma in any case: `(a,)`.
    Always,
}

impl Printer<'_> {
    pub(super) fn name(&mut self, name: &Name) {
        self.token(&name.text);
    }

    pub(super) fn text(&mut self, text: &StrLit) {
        self.rewritten(text.span, string::quote(&text.value));
    }

    pub(super) fn number(&mut self, number: &Number) {
        let text = match number.text.starts_with("0x") {
            true => number.text.clone(),
            false => number.text.replace('E', "e"),
        };
        self.rewritten(number.span, text);
    }

    pub(super) fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(number) => self.number(number),
            ExprKind::Quantity(number, unit) => self.quantity(number, *unit),
            ExprKind::Str(value) => self.rewritten(expr.span, string::quote(value)),
            ExprKind::Bool(value) => self.token(if *value { "true" } else { "false" }),
            ExprKind::Name(name) => self.token(name),
            ExprKind::Paren(inner) => {
                self.token("(");
                self.expr(inner);
                self.token(")");
            }
            ExprKind::Tuple(elements) => {
                let comma = match elements.len() {
                    1 => Comma::Always,
                    _ => Comma::IfBroken,
                };
                self.list_with("(", elements, ")", comma, Self::expr);
            }
            ExprKind::List(elements) => self.list("[", elements, "]", Self::expr),
            ExprKind::Prefix(ops, operand) => {
                for op in ops {
                    self.token(op.symbol());
                }
                self.expr(operand);
            }
            ExprKind::Infix(first, rest) => self.infix(first, rest),
            ExprKind::Postfix(base, postfixes) => self.postfix(base, postfixes),
            ExprKind::Range(start, end) => self.range(Some(&**start), end.as_deref()),
            ExprKind::If(branches, otherwise) => self.choice(branches, otherwise.as_ref()),
            ExprKind::Loop(loop_expr) => self.loop_expr(loop_expr),
        }
    }

    /// The unit stays as written: `1 step`, `2 steps`.
    fn quantity(&mut self, number: &Number, unit: Unit) {
        self.number(number);
        self.push(" ");
        self.read_gap();
        let rest = &self.gap.text[self.gap.at..];
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let word = rest[..length].to_owned();
        debug_assert_eq!(Unit::from_word(&word), Some(unit));
        self.token(&word);
    }

    /// A line may end before each operator. Comments around the operator go before it.
    fn infix(&mut self, first: &Expr, rest: &[(InfixOp, Expr)]) {
        self.group(|p| {
            p.expr(first);
            p.indent(|p| {
                for (op, operand) in rest {
                    p.skip(op.symbol());
                    p.line(" ");
                    p.push(format!("{} ", op.symbol()));
                    p.expr(operand);
                }
            });
        });
    }

    fn postfix(&mut self, base: &Expr, postfixes: &[Postfix]) {
        self.expr(base);
        for (i, postfix) in postfixes.iter().enumerate() {
            match &postfix.kind {
                PostfixKind::Call(arguments) => {
                    // `hook "name" (...)`: not a call of a string, but arguments after one.
                    if i == 0 && matches!(base.kind, ExprKind::Str(_)) {
                        self.push(" ");
                    }
                    self.arguments(arguments);
                }
                PostfixKind::Index(subscripts) => self.list("[", subscripts, "]", Self::subscript),
                PostfixKind::Member(name) => {
                    // In one piece: a number, a dot and a line end would read as another number.
                    self.skip(".");
                    self.skip_to_token();
                    self.skip(&name.text);
                    self.push(format!(".{}", name.text));
                }
            }
        }
    }

    pub(super) fn arguments(&mut self, arguments: &[Argument]) {
        self.list("(", arguments, ")", |p, argument| {
            if let Some(name) = &argument.name {
                p.name(name);
                p.token(":");
                p.push(" ");
            }
            p.expr(&argument.value);
        });
    }

    fn subscript(&mut self, subscript: &Subscript) {
        match &subscript.kind {
            SubscriptKind::Rest => self.token(".."),
            SubscriptKind::Full => self.token("_"),
            SubscriptKind::At(position) => self.expr(position),
            SubscriptKind::Slice { start, end, step } => {
                self.range(start.as_ref(), end.as_ref());
                if let Some(step) = step {
                    self.word_before("by", step);
                }
            }
        }
    }

    fn range(&mut self, start: Option<&Expr>, end: Option<&Expr>) {
        if let Some(start) = start {
            self.expr(start);
        }
        self.token("..");
        if let Some(end) = end {
            self.expr(end);
        }
    }

    /// ` word ` and an expression.
    pub(super) fn word_before(&mut self, word: &str, expr: &Expr) {
        self.word(word);
        self.expr(expr);
    }

    /// A word with the spaces around it.
    pub(super) fn word(&mut self, word: &str) {
        self.push(" ");
        self.token(word);
        self.push(" ");
    }

    fn choice(&mut self, branches: &[(Expr, Body)], otherwise: Option<&Body>) {
        self.group_with_braces(|p| {
            for (i, (condition, body)) in branches.iter().enumerate() {
                if i > 0 {
                    p.otherwise();
                }
                p.token("if");
                p.push(" ");
                p.expr(condition);
                p.push(" ");
                p.body(body);
            }
            if let Some(body) = otherwise {
                p.otherwise();
                p.body(body);
            }
        });
    }

    fn otherwise(&mut self) {
        self.read_gap();
        match self.flush() {
            true => self.out.push(Doc::Hard { blank: false }),
            false => self.push(" "),
        }
        self.token("else");
        self.push(" ");
    }

    fn loop_expr(&mut self, loop_expr: &Loop) {
        self.group_with_braces(|p| {
            p.group(|p| {
                p.token(match loop_expr.kind {
                    LoopKind::For => "for",
                    LoopKind::Scan => "scan",
                });
                p.push(" ");
                p.pattern(&loop_expr.pattern);
                p.word_before("in", &loop_expr.over);
                p.indent(|p| {
                    for (name, start) in &loop_expr.carries {
                        p.closing(",");
                        p.line(" ");
                        p.name(name);
                        p.word_before("=", start);
                    }
                });
            });
            p.push(" ");
            p.body(&loop_expr.body);
        });
    }

    pub(super) fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Name(name) => self.name(name),
            Pattern::Wildcard(_) => self.token("_"),
            Pattern::Tuple(patterns, _) => self.list("(", patterns, ")", Self::pattern),
        }
    }

    pub(super) fn ty(&mut self, ty: &Type) {
        self.name(&ty.name);
        if let Some(dims) = &ty.dims {
            self.list("[", dims, "]", |p, dim| match &dim.kind {
                DimKind::Rest => p.token(".."),
                DimKind::Capacity(size) => {
                    p.token("<=");
                    p.expr(size);
                }
                DimKind::Size(size) => p.expr(size),
            });
        }
    }

    /// The value after `=` or `<-`. A pipe begins on that line, so that its stages stand below each other.
    pub(super) fn value(&mut self, value: &Expr) {
        let stays = match &value.kind {
            ExprKind::Infix(_, rest) => rest.iter().any(|(op, _)| *op == InfixOp::Pipe),
            _ => false,
        };
        self.hang(stays, |p| p.expr(value));
    }

    /// An expression after `=`: on its line if it fits there or `stays`.
    pub(super) fn hang(&mut self, stays: bool, print: impl FnOnce(&mut Self)) {
        self.read_gap();
        if !self.waiting.is_empty() {
            self.indent(|p| {
                p.line("");
                print(p);
            });
        } else if stays {
            self.push(" ");
            print(self);
        } else {
            let docs = self.inside(print);
            self.out.push(Doc::Hang(Nest::new(docs)));
        }
    }

    /// Elements between brackets: on one line, or each on its own.
    pub(super) fn list<T>(
        &mut self,
        open: &str,
        elements: &[T],
        close: &str,
        each: impl FnMut(&mut Self, &T),
    ) {
        self.list_with(open, elements, close, Comma::IfBroken, each);
    }

    fn list_with<T>(
        &mut self,
        open: &str,
        elements: &[T],
        close: &str,
        comma: Comma,
        mut each: impl FnMut(&mut Self, &T),
    ) {
        self.token(open);
        self.group(|p| {
            let mut line = Doc::Line("");
            p.indent(|p| {
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        p.closing(",");
                    }
                    p.line(if i > 0 { " " } else { "" });
                    each(p, element);
                }
                if !elements.is_empty() {
                    if p.at(",") {
                        p.skip(",");
                    }
                    p.out.push(match comma {
                        Comma::IfBroken => Doc::IfBroken(",".to_owned()),
                        Comma::Always => Doc::Text(",".to_owned()),
                    });
                }
                p.read_gap();
                if p.flush() {
                    line = Doc::Hard { blank: false };
                } else if elements.is_empty() {
                    line = Doc::Text(String::new());
                }
            });
            p.out.push(line);
            p.token(close);
        });
    }
}
