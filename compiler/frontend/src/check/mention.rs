//! Liveness of names in skipped code: branches that are not taken still use the names they mention.

use crate::ast::{Body, Expr, ExprKind, PostfixKind, Statement, StatementKind, SubscriptKind};
use crate::check::Checker;

impl Checker<'_> {
    /// Marks the names that a skipped body mentions as used.
    pub(crate) fn mention_body(&mut self, body: &Body) {
        if self.is_library_file(body.span.file) {
            return;
        }
        for statement in &body.statements {
            self.mention_statement(statement);
        }
        if let Some(value) = &body.value {
            self.mention(value);
        }
    }

    fn mention_statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Let { value, .. }
            | StatementKind::Layer { value, .. }
            | StatementKind::Loss { value, .. }
            | StatementKind::Metric { value, .. }
            | StatementKind::Output { value, .. }
            | StatementKind::Write { value, .. }
            | StatementKind::Expr { value, .. }
            | StatementKind::Yield(value) => self.mention(value),
            StatementKind::Variable(variable) => self.mention(&variable.init),
            StatementKind::Scalar { start, next, .. } => {
                self.mention(start);
                self.mention(next);
            }
            StatementKind::Bad(_) => {}
        }
    }

    /// Marks the names that a skipped expression mentions as used.
    pub(crate) fn mention(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(_) | ExprKind::Quantity(..) | ExprKind::Str(_) | ExprKind::Bool(_) => {
            }
            ExprKind::Name(name) => {
                let declared = self.frame().find(name).map(|b| b.span);
                if let Some(declared) = declared.or_else(|| self.constant_place(name)) {
                    self.mark_used(declared);
                }
            }
            ExprKind::Paren(inner) | ExprKind::Prefix(_, inner) => self.mention(inner),
            ExprKind::Tuple(list) | ExprKind::List(list) => {
                list.iter().for_each(|e| self.mention(e))
            }
            ExprKind::Infix(first, rest) => {
                self.mention(first);
                rest.iter().for_each(|(_, e)| self.mention(e));
            }
            ExprKind::Postfix(base, ops) => {
                self.mention(base);
                for op in ops {
                    match &op.kind {
                        PostfixKind::Call(arguments) => {
                            arguments.iter().for_each(|a| self.mention(&a.value))
                        }
                        PostfixKind::Index(subscripts) => {
                            for subscript in subscripts {
                                match &subscript.kind {
                                    SubscriptKind::Rest | SubscriptKind::Full => {}
                                    SubscriptKind::At(at) => self.mention(at),
                                    SubscriptKind::Slice { start, end, step } => {
                                        [start, end, step]
                                            .into_iter()
                                            .flatten()
                                            .for_each(|e| self.mention(e));
                                    }
                                }
                            }
                        }
                        PostfixKind::Member(_) => {}
                    }
                }
            }
            ExprKind::Range(start, end) => {
                self.mention(start);
                if let Some(end) = end {
                    self.mention(end);
                }
            }
            ExprKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    self.mention(condition);
                    self.mention_body(body);
                }
                if let Some(body) = otherwise {
                    self.mention_body(body);
                }
            }
            ExprKind::Loop(loop_expr) => {
                self.mention(&loop_expr.over);
                loop_expr.carries.iter().for_each(|(_, e)| self.mention(e));
                self.mention_body(&loop_expr.body);
            }
        }
    }
}
