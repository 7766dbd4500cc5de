//! Bodies and the statements in them.

use super::doc::Doc;
use super::{Blank, Printer};
use crate::ast::*;

/// More statements than this are never set on one line.
const MAX_ON_ONE_LINE: usize = 1;

impl Printer<'_> {
    /// Statements in braces. The group around them decides whether they are set on one line.
    pub(super) fn body(&mut self, body: &Body) {
        let count = body.statements.len() + usize::from(body.value.is_some());
        let always_broken = body.statements.len() > MAX_ON_ONE_LINE;
        self.braces(count, always_broken, |p, i| {
            match (body.statements.get(i), &body.value) {
                (Some(statement), _) => p.statement(statement),
                (None, Some(value)) => p.expr(value),
                (None, None) => {}
            }
        });
    }

    /// Braces and `count` things between them, each printed by `each`. They may be set on one line if the text has no line
    /// end after the `{`.
    pub(super) fn braces(
        &mut self,
        count: usize,
        always_broken: bool,
        mut each: impl FnMut(&mut Self, usize),
    ) {
        self.token("{");
        self.read_gap();
        let first_on_new_line = match self.waiting.first() {
            Some(note) => note.line_ends > 0,
            None => self.gap.line_ends > 0,
        };
        if count == 0 && self.waiting.is_empty() {
            self.token("}");
            return;
        }
        let line = || match always_broken || first_on_new_line {
            true => Doc::Hard { blank: false },
            false => Doc::Line(" "),
        };
        let mut last = line();
        self.indent(|p| {
            for i in 0..count {
                let blank = if i == 0 {
                    Blank::None
                } else {
                    Blank::AsWritten
                };
                p.separate(blank, line());
                each(p, i);
            }
            let blank = if count == 0 {
                Blank::None
            } else {
                Blank::AsWritten
            };
            let (any, _) = p.flush_between(blank);
            if any {
                last = Doc::Hard { blank: false };
            }
        });
        self.out.push(last);
        self.token("}");
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Let { pattern, ty, value } => {
                self.token("let");
                self.push(" ");
                self.pattern(pattern);
                self.type_of(ty.as_ref());
                self.assigned("=", value);
            }
            StatementKind::Variable(variable) => {
                self.token(variable.kind.word());
                self.push(" ");
                self.name(&variable.name);
                if let Some(called) = &variable.called {
                    self.word("called");
                    self.text(called);
                }
                self.type_of(variable.ty.as_ref());
                self.alias(variable.alias.as_ref());
                self.assigned("=", &variable.init);
            }
            StatementKind::Scalar {
                name,
                alias,
                start,
                next,
            } => {
                self.token("scalar");
                self.push(" ");
                self.name(name);
                self.alias(alias.as_ref());
                self.push(" ");
                self.token("=");
                self.hang(false, |p| p.start_then_next(start, next));
            }
            StatementKind::Layer { name, value } => self.named("layer", name, value),
            StatementKind::Loss { name, value } => match name {
                Some(name) => self.named("loss", name, value),
                None => self.after_word("loss", value),
            },
            StatementKind::Metric { name, value } => self.named("metric", name, value),
            StatementKind::Output { name, value } => self.named("output", name, value),
            StatementKind::Yield(value) => self.after_word("yield", value),
            StatementKind::Write { target, value } => {
                self.name(target);
                self.assigned("<-", value);
            }
            StatementKind::Expr { value, semicolon } => {
                self.expr(value);
                if !semicolon {
                    return;
                }
            }
            StatementKind::Bad(_) => unreachable!("a text with errors is refused"),
        }
        self.closing(";");
    }

    /// `start then next`
    fn start_then_next(&mut self, start: &Expr, next: &Expr) {
        self.group(|p| {
            p.expr(start);
            p.indent(|p| {
                p.line(" ");
                p.token("then");
                p.push(" ");
                p.expr(next);
            });
        });
    }

    fn named(&mut self, word: &str, name: &Name, value: &Expr) {
        self.token(word);
        self.push(" ");
        self.name(name);
        self.assigned("=", value);
    }

    fn after_word(&mut self, word: &str, value: &Expr) {
        self.token(word);
        self.push(" ");
        self.expr(value);
    }

    /// ` = value`
    pub(super) fn assigned(&mut self, sign: &str, value: &Expr) {
        self.push(" ");
        self.token(sign);
        self.value(value);
    }

    /// `: type`
    pub(super) fn type_of(&mut self, ty: Option<&Type>) {
        if let Some(ty) = ty {
            self.token(":");
            self.push(" ");
            self.ty(ty);
        }
    }

    /// ` as "name"`
    pub(super) fn alias(&mut self, alias: Option<&StrLit>) {
        if let Some(alias) = alias {
            self.word("as");
            self.text(alias);
        }
    }
}
