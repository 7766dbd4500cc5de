//! Expressions and patterns.

use pest::iterators::Pair;
use trainspec_grammar::Rule;

use super::{Builder, Children, children, next, optional};
use crate::ast::*;
use crate::diag::{Code, Diagnostic};
use crate::syntax::{precedence, string};

impl Builder<'_> {
    pub(super) fn pattern(&mut self, pair: Pair<'_, Rule>) -> Pattern {
        let span = self.span(&pair);
        match pair.as_rule() {
            Rule::wildcard => Pattern::Wildcard(span),
            Rule::tuple_pattern => {
                Pattern::Tuple(children(pair).map(|p| self.pattern(p)).collect(), span)
            }
            _ => Pattern::Name(self.name(pair)),
        }
    }

    pub(super) fn expr(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let mut children = children(pair).peekable();
        let start = self.chain(&mut children);
        if optional(&mut children, Rule::range_mark).is_none() {
            return start;
        }
        let end = children
            .peek()
            .is_some()
            .then(|| Box::new(self.chain(&mut children)));
        Expr {
            kind: ExprKind::Range(Box::new(start), end),
            span,
        }
    }

    /// Operands and operators, up to the end or to the mark of a range.
    pub(super) fn chain(&mut self, children: &mut Children<'_>) -> Expr {
        let first = self.term(children);
        let mut rest = Vec::new();
        while let Some(op) = optional(children, Rule::infix) {
            let op = InfixOp::from_symbol(op.as_str()).expect("the grammar knows the operators");
            rest.push((op, self.term(children)));
        }
        precedence::group(first, rest, self.errors)
    }

    pub(super) fn term(&mut self, children: &mut Children<'_>) -> Expr {
        let mut prefixes = Vec::new();
        let mut first_prefix = None;
        while let Some(prefix) = optional(children, Rule::prefix) {
            first_prefix.get_or_insert_with(|| self.span(&prefix));
            prefixes.push(match prefix.as_str() {
                "-" => PrefixOp::Negate,
                _ => PrefixOp::Not,
            });
        }
        let mut expr = self.primary(children);
        let mut postfixes = Vec::new();
        let is_postfix = |p: &Pair<'_, Rule>| {
            matches!(p.as_rule(), Rule::arguments | Rule::index | Rule::member)
        };
        while let Some(postfix) = children.next_if(is_postfix) {
            postfixes.push(self.postfix(postfix));
        }
        if let Some(last) = postfixes.last() {
            let span = expr.span.to(last.span);
            expr = Expr {
                kind: ExprKind::Postfix(Box::new(expr), postfixes),
                span,
            };
        }
        match first_prefix {
            None => expr,
            Some(prefix) => Expr {
                span: prefix.to(expr.span),
                kind: ExprKind::Prefix(prefixes, Box::new(expr)),
            },
        }
    }

    pub(super) fn primary(&mut self, children: &mut Children<'_>) -> Expr {
        let pair = next(children);
        let mut span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::number => {
                let number = self.number(pair);
                match optional(children, Rule::unit) {
                    Some(unit) => {
                        span = span.to(self.span(&unit));
                        let unit =
                            Unit::from_word(unit.as_str()).expect("the grammar knows the units");
                        ExprKind::Quantity(number, unit)
                    }
                    None => ExprKind::Number(number),
                }
            }
            Rule::string => ExprKind::Str(string::literal_value(pair.as_str())),
            Rule::boolean => ExprKind::Bool(pair.as_str() == "true"),
            Rule::name => ExprKind::Name(pair.as_str().to_owned()),
            Rule::list => ExprKind::List(self::children(pair).map(|p| self.expr(p)).collect()),
            Rule::paren => {
                let mut comma = false;
                let mut inner = Vec::new();
                for child in self::children(pair) {
                    match child.as_rule() {
                        Rule::trailing_comma => comma = true,
                        _ => inner.push(self.expr(child)),
                    }
                }
                match inner.len() {
                    1 if !comma => ExprKind::Paren(Box::new(inner.remove(0))),
                    _ => ExprKind::Tuple(inner),
                }
            }
            Rule::if_expr => {
                let mut branches = Vec::new();
                let mut otherwise = None;
                let mut children = self::children(pair);
                while let Some(child) = children.next() {
                    if child.as_rule() == Rule::body {
                        otherwise = Some(self.body(child));
                    } else {
                        let condition = self.expr(child);
                        branches.push((condition, self.body(next(&mut children))));
                    }
                }
                ExprKind::If(branches, otherwise)
            }
            Rule::for_expr => ExprKind::Loop(Box::new(self.loop_expr(LoopKind::For, pair))),
            Rule::scan_expr => ExprKind::Loop(Box::new(self.loop_expr(LoopKind::Scan, pair))),
            other => unreachable!("no expression: {other:?}"),
        };
        Expr { kind, span }
    }

    pub(super) fn loop_expr(&mut self, kind: LoopKind, pair: Pair<'_, Rule>) -> Loop {
        let mut children = children(pair).peekable();
        let pattern = self.pattern(next(&mut children));
        let over = self.expr(next(&mut children));
        let mut carries = Vec::new();
        while let Some(carry) = optional(&mut children, Rule::carry) {
            let mut children = self::children(carry);
            carries.push((
                self.name(next(&mut children)),
                self.expr(next(&mut children)),
            ));
        }
        Loop {
            kind,
            pattern,
            over,
            carries,
            body: self.body(next(&mut children)),
        }
    }

    pub(super) fn postfix(&mut self, pair: Pair<'_, Rule>) -> Postfix {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::arguments => PostfixKind::Call(self.arguments(pair)),
            Rule::index => PostfixKind::Index(children(pair).map(|p| self.subscript(p)).collect()),
            _ => {
                let mut children = children(pair);
                next(&mut children); // the dot
                PostfixKind::Member(self.name(next(&mut children)))
            }
        };
        Postfix { kind, span }
    }

    pub(super) fn arguments(&mut self, pair: Pair<'_, Rule>) -> Vec<Argument> {
        let mut arguments = Vec::new();
        let mut children = children(pair).peekable();
        while children.peek().is_some() {
            let label = optional(&mut children, Rule::label);
            arguments.push(Argument {
                name: label.map(|l| self.name(next(&mut self::children(l)))),
                value: self.expr(next(&mut children)),
            });
        }
        arguments
    }

    pub(super) fn subscript(&mut self, pair: Pair<'_, Rule>) -> Subscript {
        let span = self.span(&pair);
        let mut children = children(pair);
        let first = next(&mut children);
        let kind = match first.as_rule() {
            Rule::rest => SubscriptKind::Rest,
            Rule::wildcard => SubscriptKind::Full,
            rule => {
                let (start, end) = match rule {
                    Rule::up_to => (
                        None,
                        Some(self.chain(&mut self::children(first).peekable())),
                    ),
                    _ => match self.expr(first) {
                        Expr {
                            kind: ExprKind::Range(start, end),
                            ..
                        } => (Some(*start), end.map(|e| *e)),
                        position => {
                            if let Some(by) = children.next() {
                                let step = self.expr(by);
                                self.errors.push(
                                    Diagnostic::new(
                                        Code::Syntax,
                                        step.span,
                                        "`by` needs a range before it",
                                    )
                                    .help("write `x[a..b by step]`"),
                                );
                            }
                            return Subscript {
                                kind: SubscriptKind::At(position),
                                span,
                            };
                        }
                    },
                };
                SubscriptKind::Slice {
                    start,
                    end,
                    step: children.next().map(|p| self.expr(p)),
                }
            }
        };
        Subscript { kind, span }
    }
}
