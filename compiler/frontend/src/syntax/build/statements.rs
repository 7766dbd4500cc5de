//! Bodies and their statements.

use std::collections::BTreeSet;

use pest::Parser;
use pest::iterators::Pair;
use trainspec_grammar::{Grammar, Rule};
use trainspec_ir::Span;

use super::{Builder, Origin, children, next, optional};
use crate::ast::*;
use crate::diag::{Code, Diagnostic};
use crate::syntax::report;

/// The number of bytes of statements that are parsed at once.
const CHUNK_BYTES: usize = 4 << 10;

impl Builder<'_> {
    /// The body of an item, parsed in chunks.
    pub(super) fn item_body(&mut self, pair: Pair<'_, Rule>) -> Body {
        let span = self.span(&pair);
        let (mut start, end) = (span.start as usize + 1, span.end as usize - 1);
        let first = self.ends.partition_point(|at| (*at as usize) < start);
        let mut ends = self.ends[first..]
            .iter()
            .map(|at| *at as usize + 1)
            .take_while(|at| *at <= end)
            .peekable();
        let since = self.errors.len();
        let mut statements = Vec::new();
        let outer = self.origin;
        while start < end {
            // As many statements as fill a chunk.
            let mut stop = end;
            while let Some(at) = ends.next() {
                if at - start >= CHUNK_BYTES && ends.peek().is_some() {
                    stop = at;
                    break;
                }
            }
            self.origin = Origin::Body(start);
            match Grammar::parse(Rule::statements, &self.text[start..stop]) {
                Ok(mut pairs) => self.statements(next(&mut pairs), &mut statements),
                Err(error) => self
                    .errors
                    .push(report::failure(self.id, self.text, start, &error)),
            }
            start = stop;
        }
        self.origin = outer;
        self.finish_body(statements, span, since)
    }

    pub(super) fn body(&mut self, pair: Pair<'_, Rule>) -> Body {
        let span = self.span(&pair);
        let since = self.errors.len();
        let mut statements = Vec::new();
        self.statements(pair, &mut statements);
        self.finish_body(statements, span, since)
    }

    pub(super) fn statements(&mut self, pair: Pair<'_, Rule>, statements: &mut Vec<Statement>) {
        for pair in children(pair) {
            statements.push(match pair.as_rule() {
                Rule::statement => self.statement(pair),
                Rule::EOI => continue,
                _ => {
                    let (names, span) = self.bad(pair, Rule::lone_statement);
                    Statement {
                        docs: Vec::new(),
                        kind: StatementKind::Bad(names),
                        span,
                    }
                }
            });
        }
    }

    /// Splits off the final value of a body, and reports missing semicolons.
    pub(super) fn finish_body(
        &mut self,
        statements: Vec<Statement>,
        span: Span,
        since: usize,
    ) -> Body {
        let mut statements = self.join_tangled(statements, since);
        let value = match statements.last() {
            Some(Statement {
                kind:
                    StatementKind::Expr {
                        semicolon: false, ..
                    },
                ..
            }) => statements.pop(),
            _ => None,
        };
        let value = value.and_then(|s| match s.kind {
            StatementKind::Expr { value, .. } => Some(Box::new(value)),
            _ => None,
        });
        for statement in &statements {
            if let StatementKind::Expr {
                value,
                semicolon: false,
            } = &statement.kind
                && !stands_alone(value)
            {
                let end = value.span.end as usize;
                self.errors.push(
                    Diagnostic::new(
                        Code::Syntax,
                        Span::new(self.id, end, end),
                        "a `;` is missing here",
                    )
                    .help("only the last expression of a block, which is its value, goes without"),
                );
            }
        }
        Body {
            statements,
            value,
            span,
        }
    }

    /// `var h = x;` reads as the name `var`, the name `h` and something bad: one error, reported once. `since` is how many
    /// errors there were before these statements.
    pub(super) fn join_tangled(
        &mut self,
        statements: Vec<Statement>,
        since: usize,
    ) -> Vec<Statement> {
        let bare = |s: &Statement| match &s.kind {
            StatementKind::Expr {
                value,
                semicolon: false,
            } if matches!(value.kind, ExprKind::Name(_)) => Some(value.span),
            _ => None,
        };
        if !statements.iter().any(|s| bare(s).is_some()) {
            return statements;
        }
        let starts: BTreeSet<u32> = self.errors[since..]
            .iter()
            .filter_map(|e| Some(e.span?.start))
            .collect();
        let mut joined = Vec::with_capacity(statements.len());
        let mut replaced: Vec<(Span, Diagnostic)> = Vec::new();
        let mut rest = statements.into_iter().peekable();
        while let Some(statement) = rest.next() {
            let Some(first) = bare(&statement) else {
                joined.push(statement);
                continue;
            };
            // Up to the end of the line or the first `;`.
            let mut whole = statement.span;
            let mut open = true;
            let mut group = vec![statement];
            while open
                && let Some(next) = rest.next_if(|n| {
                    !self.text[whole.end as usize..n.span.start as usize].contains('\n')
                })
            {
                whole = whole.to(next.span);
                open = matches!(
                    next.kind,
                    StatementKind::Expr {
                        semicolon: false,
                        ..
                    }
                );
                group.push(next);
            }
            let unknown = report::unknown_word(self.text, first);
            let reported = starts.range(whole.start..=whole.end).next().is_some();
            if group.len() == 1 || !(reported || unknown.is_some()) {
                joined.append(&mut group);
                continue;
            }
            replaced.extend(unknown.map(|error| (whole, error)));
            let mut names = Vec::new();
            for statement in group {
                match statement.kind {
                    StatementKind::Expr {
                        value:
                            Expr {
                                kind: ExprKind::Name(text),
                                span,
                            },
                        ..
                    } => names.push(Name { text, span }),
                    StatementKind::Bad(more) => names.extend(more),
                    _ => {}
                }
            }
            joined.push(Statement {
                docs: Vec::new(),
                kind: StatementKind::Bad(names),
                span: whole,
            });
        }
        let mut here = self.errors.split_off(since);
        here.retain(|e| {
            let start = e.span.map_or(0, |s| s.start);
            let after = replaced.partition_point(|(whole, _)| whole.start <= start);
            after == 0 || start > replaced[after - 1].0.end
        });
        self.errors.append(&mut here);
        self.errors
            .extend(replaced.into_iter().map(|(_, error)| error));
        joined
    }

    pub(super) fn statement(&mut self, pair: Pair<'_, Rule>) -> Statement {
        let span = self.span_after_docs(&pair);
        let mut children = children(pair).peekable();
        let docs = self.docs(&mut children);
        let inner = next(&mut children);
        let rule = inner.as_rule();
        let mut children = self::children(inner).peekable();
        let kind = match rule {
            Rule::write => StatementKind::Write {
                target: self.name(next(&mut children)),
                value: self.expr(next(&mut children)),
            },
            Rule::let_statement => StatementKind::Let {
                pattern: self.pattern(next(&mut children)),
                ty: optional(&mut children, Rule::r#type).map(|p| self.ty(p)),
                value: self.expr(next(&mut children)),
            },
            Rule::variable => {
                let word = next(&mut next(&mut children).into_inner());
                StatementKind::Variable(Variable {
                    kind: match word.as_rule() {
                        Rule::kw_param => VariableKind::Param,
                        Rule::kw_state => VariableKind::State,
                        _ => VariableKind::Slot,
                    },
                    name: self.name(next(&mut children)),
                    called: self.alias(optional(&mut children, Rule::called)),
                    ty: optional(&mut children, Rule::r#type).map(|p| self.ty(p)),
                    alias: self.alias(optional(&mut children, Rule::alias)),
                    init: self.expr(next(&mut children)),
                })
            }
            Rule::scalar => StatementKind::Scalar {
                name: self.name(next(&mut children)),
                alias: self.alias(optional(&mut children, Rule::alias)),
                start: self.expr(next(&mut children)),
                next: self.expr(next(&mut children)),
            },
            Rule::layer => StatementKind::Layer {
                name: self.name(next(&mut children)),
                value: self.expr(next(&mut children)),
            },
            Rule::loss => {
                let name = optional(&mut children, Rule::name).map(|p| self.name(p));
                optional(&mut children, Rule::assign);
                StatementKind::Loss {
                    name,
                    value: self.expr(next(&mut children)),
                }
            }
            Rule::metric => StatementKind::Metric {
                name: self.name(next(&mut children)),
                value: self.expr(next(&mut children)),
            },
            Rule::output => StatementKind::Output {
                name: self.name(next(&mut children)),
                value: self.expr(next(&mut children)),
            },
            Rule::yield_statement => StatementKind::Yield(self.expr(next(&mut children))),
            Rule::expr_statement => StatementKind::Expr {
                value: self.expr(next(&mut children)),
                semicolon: children.next().is_some(),
            },
            other => unreachable!("no statement: {other:?}"),
        };
        Statement { docs, kind, span }
    }
}

/// Expressions that end in a brace need no `;` to be a statement.
fn stands_alone(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::If(..) | ExprKind::Loop(_))
}
