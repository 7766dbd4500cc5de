//! Pest pairs to the syntax tree.
//!
//! The grammar has decided the form of everything; what is left is to name the parts. Pairs of fixed words carry nothing
//! and are dropped on the way.

use pest::iterators::Pair;
use trainspec_grammar::Rule;
use trainspec_ir::{FileId, Span};

use crate::ast::*;
use crate::diag::{Code, Diagnostic};
use crate::syntax::scan::Comment;
use crate::syntax::{precedence, report, string};

/// The tree of a parsed file.
pub(super) fn file(
    id: FileId,
    text: &str,
    comments: &[Comment],
    root: Pair<'_, Rule>,
    errors: &mut Vec<Diagnostic>,
) -> File {
    let mut builder = Builder {
        id,
        text,
        comments,
        errors,
    };
    let mut file = File {
        docs: Vec::new(),
        header: None,
        items: Vec::new(),
    };
    for pair in root.into_inner() {
        match pair.as_rule() {
            Rule::inner_doc => file.docs.push(builder.doc(pair)),
            Rule::header => file.header = Some(builder.header(pair)),
            Rule::item => {
                let item = builder.item(pair);
                file.items.push(item);
            }
            Rule::bad_item => {
                let (names, span) = builder.bad(pair, Rule::lone_item);
                file.items.push(Item {
                    docs: Vec::new(),
                    kind: ItemKind::Bad(names),
                    span,
                });
            }
            _ => {}
        }
    }
    file
}

struct Builder<'a> {
    id: FileId,
    text: &'a str,
    comments: &'a [Comment],
    errors: &'a mut Vec<Diagnostic>,
}

/// The parts of a pair without the fixed words.
fn parts<'i>(pair: Pair<'i, Rule>) -> std::vec::IntoIter<Pair<'i, Rule>> {
    let parts: Vec<_> = pair
        .into_inner()
        .filter(|p| !p.as_rule().is_keyword())
        .collect();
    parts.into_iter()
}

/// The next part, which the grammar promises.
fn next<'i>(parts: &mut impl Iterator<Item = Pair<'i, Rule>>) -> Pair<'i, Rule> {
    parts.next().expect("the grammar promises this part")
}

/// The next part, if it is of that rule.
fn optional<'i>(
    parts: &mut std::iter::Peekable<std::vec::IntoIter<Pair<'i, Rule>>>,
    rule: Rule,
) -> Option<Pair<'i, Rule>> {
    parts.next_if(|p| p.as_rule() == rule)
}

impl Builder<'_> {
    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        Span::new(self.id, span.start(), self.last_token_end(span.start(), span.end()))
    }

    /// A rule that ends in an optional part may have swallowed the space and the comments behind its last token.
    fn last_token_end(&self, start: usize, mut end: usize) -> usize {
        loop {
            end = start + self.text[start..end].trim_end().len();
            let ends_here = |c: &Comment| (c.span.end as usize).cmp(&end);
            match self.comments.binary_search_by(ends_here) {
                Ok(i) if self.comments[i].span.start as usize > start => {
                    end = self.comments[i].span.start as usize;
                }
                _ => return end,
            }
        }
    }

    fn name(&self, pair: Pair<'_, Rule>) -> Name {
        Name {
            text: pair.as_str().to_owned(),
            span: self.span(&pair),
        }
    }

    fn text(&self, pair: Pair<'_, Rule>) -> Text {
        Text {
            value: string::literal_value(pair.as_str()),
            span: self.span(&pair),
        }
    }

    fn number(&self, pair: Pair<'_, Rule>) -> Number {
        Number {
            text: pair.as_str().to_owned(),
            span: self.span(&pair),
        }
    }

    fn doc(&self, pair: Pair<'_, Rule>) -> Doc {
        let span = self.span(&pair);
        let inner = next(&mut pair.into_inner());
        let text = match inner.as_rule() {
            Rule::string => string::literal_value(inner.as_str()),
            // Past `///` or `//!`.
            _ => inner.as_str()[3..].to_owned(),
        };
        Doc {
            text: text.trim_end().to_owned(),
            span,
        }
    }

    fn docs(
        &self,
        parts: &mut std::iter::Peekable<std::vec::IntoIter<Pair<'_, Rule>>>,
    ) -> Vec<Doc> {
        let mut docs = Vec::new();
        while let Some(pair) = optional(parts, Rule::outer_doc) {
            docs.push(self.doc(pair));
        }
        docs
    }

    /// The span of a pair without its leading docs.
    fn span_behind_docs(&self, pair: &Pair<'_, Rule>) -> Span {
        let whole = self.span(pair);
        let behind = pair
            .clone()
            .into_inner()
            .find(|p| p.as_rule() != Rule::outer_doc);
        match behind {
            Some(first) => Span {
                start: first.as_span().start() as u32,
                ..whole
            },
            None => whole,
        }
    }

    /// Reports what does not parse, and finds the names it seems to declare.
    fn bad(&mut self, pair: Pair<'_, Rule>, rule: Rule) -> (Vec<Name>, Span) {
        let span = self.span(&pair);
        let text = &self.text[span.range()];
        self.errors
            .push(report::bad(self.id, self.text, span, rule));
        (declared_names(self.id, text, span.start as usize), span)
    }

    fn header(&mut self, pair: Pair<'_, Rule>) -> Header {
        let span = self.span(&pair);
        let mut parts = parts(pair);
        Header {
            name: self.name(next(&mut parts)),
            edition: parts.next().map(|p| self.number(p)),
            span,
        }
    }

    fn item(&mut self, pair: Pair<'_, Rule>) -> Item {
        let span = self.span_behind_docs(&pair);
        let mut parts = parts(pair).peekable();
        let docs = self.docs(&mut parts);
        let inner = next(&mut parts);
        let kind = match inner.as_rule() {
            Rule::const_item => {
                let mut parts = self::parts(inner);
                ItemKind::Const(Const {
                    name: self.name(next(&mut parts)),
                    value: self.expr(next(&mut parts)),
                })
            }
            Rule::use_item => ItemKind::Use(self.text(next(&mut self::parts(inner)))),
            Rule::warm_start_item => {
                ItemKind::WarmStart(self.arguments(next(&mut self::parts(inner))))
            }
            Rule::model_item => ItemKind::Model(self.model(inner)),
            Rule::section_item => ItemKind::Section(self.section(inner)),
            Rule::definition_item => ItemKind::Definition(self.definition(inner)),
            other => unreachable!("no item: {other:?}"),
        };
        Item { docs, kind, span }
    }

    fn model(&mut self, pair: Pair<'_, Rule>) -> Model {
        let mut parts = parts(pair).peekable();
        Model {
            params: self.params(next(&mut parts)),
            bounds: self.bounds(optional(&mut parts, Rule::where_clause)),
            body: self.body(next(&mut parts)),
        }
    }

    fn section(&mut self, pair: Pair<'_, Rule>) -> Section {
        let mut inner = pair.into_inner().peekable();
        let word = next(&mut inner);
        let kind = match word.as_rule() {
            Rule::kw_data => SectionKind::Data,
            Rule::kw_train => SectionKind::Train,
            Rule::kw_eval => SectionKind::Eval,
            Rule::kw_hooks => SectionKind::Hooks,
            other => unreachable!("no section: {other:?}"),
        };
        let name = inner.next_if(|p| p.as_rule() == Rule::name);
        Section {
            kind,
            keyword: self.span(&word),
            name: name.map(|p| self.name(p)),
            settings: self.settings(next(&mut inner)),
        }
    }

    fn settings(&mut self, pair: Pair<'_, Rule>) -> Vec<Setting> {
        let mut settings = Vec::new();
        for pair in parts(pair) {
            settings.push(match pair.as_rule() {
                Rule::setting => self.setting(pair),
                _ => {
                    let (_, span) = self.bad(pair, Rule::lone_setting);
                    Setting {
                        docs: Vec::new(),
                        word: Name {
                            text: String::new(),
                            span,
                        },
                        value: SettingValue::Bad,
                        clauses: Vec::new(),
                        body: None,
                        span,
                    }
                }
            });
        }
        settings
    }

    fn setting(&mut self, pair: Pair<'_, Rule>) -> Setting {
        let span = self.span_behind_docs(&pair);
        let mut parts = parts(pair).peekable();
        let docs = self.docs(&mut parts);
        let word = self.name(next(&mut parts));
        let mut setting = Setting {
            docs,
            word,
            value: SettingValue::None,
            clauses: Vec::new(),
            body: None,
            span,
        };
        for part in parts {
            match part.as_rule() {
                Rule::declaration => {
                    setting.value =
                        SettingValue::Declaration(Box::new(self.declaration(part)));
                }
                Rule::assignment => {
                    let mut parts = self::parts(part);
                    let name = self.name(next(&mut parts));
                    next(&mut parts); // the `=`
                    setting.value = SettingValue::Assignment(name, self.expr(next(&mut parts)));
                }
                Rule::arguments => setting.value = SettingValue::Arguments(self.arguments(part)),
                Rule::expr => setting.value = SettingValue::Value(self.expr(part)),
                Rule::clause => {
                    let inner = next(&mut self::parts(part));
                    setting.clauses.push(match inner.as_rule() {
                        Rule::name => Clause::Minimizing(self.name(inner)),
                        _ => Clause::For(self.expr(inner)),
                    });
                }
                Rule::settings => setting.body = Some(self.settings(part)),
                other => unreachable!("no part of a setting: {other:?}"),
            }
        }
        setting
    }

    fn declaration(&mut self, pair: Pair<'_, Rule>) -> Declaration {
        let mut parts = parts(pair).peekable();
        Declaration {
            name: self.name(next(&mut parts)),
            ty: self.ty(next(&mut parts)),
            alias: self.alias(optional(&mut parts, Rule::alias)),
            bound: self.bound(optional(&mut parts, Rule::bound)),
            default: parts.next().map(|p| self.expr(p)),
        }
    }

    fn alias(&self, pair: Option<Pair<'_, Rule>>) -> Option<Text> {
        pair.map(|p| self.text(next(&mut parts(p))))
    }

    fn bound(&mut self, pair: Option<Pair<'_, Rule>>) -> Option<Expr> {
        pair.map(|p| self.expr(next(&mut parts(p))))
    }

    fn bounds(&mut self, pair: Option<Pair<'_, Rule>>) -> Vec<Bound> {
        let Some(pair) = pair else {
            return Vec::new();
        };
        parts(pair)
            .map(|p| {
                let mut parts = parts(p);
                Bound {
                    name: self.name(next(&mut parts)),
                    class: self.name(next(&mut parts)),
                }
            })
            .collect()
    }

    fn definition(&mut self, pair: Pair<'_, Rule>) -> Definition {
        let span = self.span(&pair);
        let mut parts = parts(pair).peekable();
        let word = next(&mut next(&mut parts).into_inner());
        let kind = match word.as_rule() {
            Rule::kw_block => DefinitionKind::Block,
            Rule::kw_fn => DefinitionKind::Fn,
            Rule::kw_optimizer => DefinitionKind::Optimizer,
            Rule::kw_schedule => DefinitionKind::Schedule,
            Rule::kw_init => DefinitionKind::Init,
            other => unreachable!("no definition: {other:?}"),
        };
        let name = self.name(next(&mut parts));
        let params = self.params(next(&mut parts));
        let alias = self.alias(optional(&mut parts, Rule::alias));
        if let Some(alias) = &alias
            && !matches!(kind, DefinitionKind::Block | DefinitionKind::Optimizer)
        {
            let message = format!("a `{}` has no other name", kind.word());
            self.errors.push(
                Diagnostic::new(Code::Syntax, alias.span, message)
                    .help("only blocks and optimizers own variables that `as` could name"),
            );
        }
        let bounds = self.bounds(optional(&mut parts, Rule::where_clause));
        let body = next(&mut parts);
        let body = match body.as_rule() {
            Rule::body => DefinitionBody::Body(self.body(body)),
            _ => DefinitionBody::Value(self.expr(body)),
        };
        if kind == DefinitionKind::Optimizer && matches!(body, DefinitionBody::Value(_)) {
            self.errors.push(
                Diagnostic::new(Code::Syntax, span, "an optimizer needs a body in braces")
                    .help("`optimizer name(learning_rate) { param <- param - learning_rate * grad; }`"),
            );
        }
        Definition {
            kind,
            name,
            params,
            alias,
            bounds,
            body,
        }
    }

    fn params(&mut self, pair: Pair<'_, Rule>) -> Vec<Param> {
        parts(pair).map(|p| self.param(p)).collect()
    }

    fn param(&mut self, pair: Pair<'_, Rule>) -> Param {
        let span = self.span_behind_docs(&pair);
        let is_const = pair
            .clone()
            .into_inner()
            .any(|p| p.as_rule() == Rule::kw_const);
        let mut parts = parts(pair).peekable();
        Param {
            docs: self.docs(&mut parts),
            is_const,
            name: self.name(next(&mut parts)),
            ty: optional(&mut parts, Rule::r#type).map(|p| self.ty(p)),
            bound: self.bound(optional(&mut parts, Rule::bound)),
            default: parts.next().map(|p| self.expr(p)),
            span,
        }
    }

    fn ty(&mut self, pair: Pair<'_, Rule>) -> Type {
        let span = self.span(&pair);
        let mut parts = parts(pair);
        Type {
            name: self.name(next(&mut parts)),
            dims: parts
                .next()
                .map(|dims| self::parts(dims).map(|d| self.dim(d)).collect()),
            span,
        }
    }

    fn dim(&mut self, pair: Pair<'_, Rule>) -> DimExpr {
        let span = self.span(&pair);
        let inner = next(&mut parts(pair));
        let kind = match inner.as_rule() {
            Rule::rest => DimKind::Rest,
            Rule::capacity => DimKind::Capacity(self.expr(next(&mut parts(inner)))),
            _ => DimKind::Size(self.expr(inner)),
        };
        DimExpr { kind, span }
    }

    fn body(&mut self, pair: Pair<'_, Rule>) -> Body {
        let span = self.span(&pair);
        let mut statements: Vec<Statement> = Vec::new();
        for pair in parts(pair) {
            statements.push(match pair.as_rule() {
                Rule::statement => self.statement(pair),
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
        let value = match statements.last() {
            Some(Statement {
                kind: StatementKind::Expr { semicolon: false, .. },
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

    fn statement(&mut self, pair: Pair<'_, Rule>) -> Statement {
        let span = self.span_behind_docs(&pair);
        let mut parts = parts(pair).peekable();
        let docs = self.docs(&mut parts);
        let inner = next(&mut parts);
        let rule = inner.as_rule();
        let mut parts = self::parts(inner).peekable();
        let kind = match rule {
            Rule::write => StatementKind::Write {
                target: self.name(next(&mut parts)),
                value: self.expr(next(&mut parts)),
            },
            Rule::let_statement => StatementKind::Let {
                pattern: self.pattern(next(&mut parts)),
                ty: optional(&mut parts, Rule::r#type).map(|p| self.ty(p)),
                value: self.expr(next(&mut parts)),
            },
            Rule::variable => {
                let word = next(&mut next(&mut parts).into_inner());
                StatementKind::Variable(Variable {
                    kind: match word.as_rule() {
                        Rule::kw_param => VariableKind::Param,
                        Rule::kw_state => VariableKind::State,
                        _ => VariableKind::Slot,
                    },
                    name: self.name(next(&mut parts)),
                    ty: optional(&mut parts, Rule::r#type).map(|p| self.ty(p)),
                    alias: self.alias(optional(&mut parts, Rule::alias)),
                    init: self.expr(next(&mut parts)),
                })
            }
            Rule::scalar => StatementKind::Scalar {
                name: self.name(next(&mut parts)),
                alias: self.alias(optional(&mut parts, Rule::alias)),
                start: self.expr(next(&mut parts)),
                next: self.expr(next(&mut parts)),
            },
            Rule::layer => StatementKind::Layer {
                name: self.name(next(&mut parts)),
                value: self.expr(next(&mut parts)),
            },
            Rule::loss => {
                let name = optional(&mut parts, Rule::name).map(|p| self.name(p));
                optional(&mut parts, Rule::assign);
                StatementKind::Loss {
                    name,
                    value: self.expr(next(&mut parts)),
                }
            }
            Rule::metric => StatementKind::Metric {
                name: self.name(next(&mut parts)),
                value: self.expr(next(&mut parts)),
            },
            Rule::output => StatementKind::Output {
                name: self.name(next(&mut parts)),
                value: self.expr(next(&mut parts)),
            },
            Rule::yield_statement => StatementKind::Yield(self.expr(next(&mut parts))),
            Rule::expr_statement => StatementKind::Expr {
                value: self.expr(next(&mut parts)),
                semicolon: parts.next().is_some(),
            },
            other => unreachable!("no statement: {other:?}"),
        };
        Statement { docs, kind, span }
    }

    fn pattern(&mut self, pair: Pair<'_, Rule>) -> Pattern {
        let span = self.span(&pair);
        let tuple = pair.as_str().starts_with('(');
        let mut parts = parts(pair);
        if tuple {
            return Pattern::Tuple(parts.map(|p| self.pattern(p)).collect(), span);
        }
        let inner = next(&mut parts);
        match inner.as_rule() {
            Rule::wildcard => Pattern::Wildcard(span),
            _ => Pattern::Name(self.name(inner)),
        }
    }

    fn expr(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let mut parts = parts(pair);
        let start = self.chain(next(&mut parts));
        match parts.next() {
            None => start,
            Some(_range_mark) => {
                let end = parts.next().map(|p| Box::new(self.chain(p)));
                Expr {
                    kind: ExprKind::Range(Box::new(start), end),
                    span,
                }
            }
        }
    }

    fn chain(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let mut parts = parts(pair);
        let first = self.term(next(&mut parts));
        let mut rest = Vec::new();
        while let Some(op) = parts.next() {
            let op = InfixOp::from_symbol(op.as_str()).expect("the grammar knows the operators");
            rest.push((op, self.term(next(&mut parts))));
        }
        precedence::group(first, rest, self.errors)
    }

    fn term(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let mut parts = parts(pair).peekable();
        let mut prefixes = Vec::new();
        while let Some(prefix) = optional(&mut parts, Rule::prefix) {
            prefixes.push(match prefix.as_str() {
                "-" => PrefixOp::Negate,
                _ => PrefixOp::Not,
            });
        }
        let mut expr = self.primary(next(&mut parts));
        let postfixes: Vec<Postfix> = parts.map(|p| self.postfix(p)).collect();
        if let Some(last) = postfixes.last() {
            let span = expr.span.to(last.span);
            expr = Expr {
                kind: ExprKind::Postfix(Box::new(expr), postfixes),
                span,
            };
        }
        if prefixes.is_empty() {
            return expr;
        }
        Expr {
            kind: ExprKind::Prefix(prefixes, Box::new(expr)),
            span,
        }
    }

    fn primary(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::quantity => {
                let mut parts = parts(pair);
                let number = self.number(next(&mut parts));
                match parts.next().and_then(|u| Unit::from_word(u.as_str())) {
                    Some(unit) => ExprKind::Quantity(number, unit),
                    None => ExprKind::Number(number),
                }
            }
            Rule::string => ExprKind::Text(string::literal_value(pair.as_str())),
            Rule::boolean => ExprKind::Bool(pair.as_str() == "true"),
            Rule::name => ExprKind::Name(pair.as_str().to_owned()),
            Rule::list => ExprKind::List(parts(pair).map(|p| self.expr(p)).collect()),
            Rule::paren => {
                let mut comma = false;
                let mut inner = Vec::new();
                for part in parts(pair) {
                    match part.as_rule() {
                        Rule::trailing_comma => comma = true,
                        _ => inner.push(self.expr(part)),
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
                let mut parts = parts(pair);
                while let Some(part) = parts.next() {
                    if part.as_rule() == Rule::body {
                        otherwise = Some(self.body(part));
                    } else {
                        let condition = self.expr(part);
                        branches.push((condition, self.body(next(&mut parts))));
                    }
                }
                ExprKind::If(branches, otherwise)
            }
            Rule::for_expr => ExprKind::Fold(Box::new(self.fold(FoldKind::For, pair))),
            Rule::scan_expr => ExprKind::Fold(Box::new(self.fold(FoldKind::Scan, pair))),
            other => unreachable!("no expression: {other:?}"),
        };
        Expr { kind, span }
    }

    fn fold(&mut self, kind: FoldKind, pair: Pair<'_, Rule>) -> Fold {
        let mut parts = parts(pair).peekable();
        let pattern = self.pattern(next(&mut parts));
        let over = self.expr(next(&mut parts));
        let mut carries = Vec::new();
        while let Some(carry) = optional(&mut parts, Rule::carry) {
            let mut parts = self::parts(carry);
            carries.push((self.name(next(&mut parts)), self.expr(next(&mut parts))));
        }
        Fold {
            kind,
            pattern,
            over,
            carries,
            body: self.body(next(&mut parts)),
        }
    }

    fn postfix(&mut self, pair: Pair<'_, Rule>) -> Postfix {
        let span = self.span(&pair);
        let inner = next(&mut parts(pair));
        let kind = match inner.as_rule() {
            Rule::arguments => PostfixKind::Call(self.arguments(inner)),
            Rule::index => {
                PostfixKind::Index(parts(inner).map(|p| self.subscript(p)).collect())
            }
            _ => {
                let mut parts = parts(inner);
                next(&mut parts); // the dot
                PostfixKind::Member(self.name(next(&mut parts)))
            }
        };
        Postfix { kind, span }
    }

    fn arguments(&mut self, pair: Pair<'_, Rule>) -> Vec<Argument> {
        parts(pair)
            .map(|p| {
                let mut parts = parts(p).peekable();
                Argument {
                    name: optional(&mut parts, Rule::name).map(|n| self.name(n)),
                    value: self.expr(next(&mut parts)),
                }
            })
            .collect()
    }

    fn subscript(&mut self, pair: Pair<'_, Rule>) -> Subscript {
        let span = self.span(&pair);
        let mut parts = parts(pair);
        let first = next(&mut parts);
        let kind = match first.as_rule() {
            Rule::rest => SubscriptKind::Rest,
            Rule::wildcard => SubscriptKind::Whole,
            rule => {
                let (start, end) = match rule {
                    Rule::up_to => (None, Some(self.chain(next(&mut self::parts(first))))),
                    _ => match self.expr(first) {
                        Expr {
                            kind: ExprKind::Range(start, end),
                            ..
                        } => (Some(*start), end.map(|e| *e)),
                        position => {
                            if let Some(by) = parts.next() {
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
                    step: parts.next().map(|p| self.expr(p)),
                }
            }
        };
        Subscript { kind, span }
    }
}

/// Expressions that end in a brace need no `;` to be a statement.
fn stands_alone(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::If(..) | ExprKind::Fold(_))
}

/// The names behind the leading words of something that does not parse.
fn declared_names(id: FileId, text: &str, offset: usize) -> Vec<Name> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = Vec::new();
    let mut at = 0;
    // Up to the first sign that ends the part which declares: `let (a, b)`, `param kernel`, `block f`.
    let head = text.find(['=', ':', '{', ';']).unwrap_or(text.len());
    while at < head {
        let rest = &text[at..head];
        let Some(start) = rest.find(is_word) else {
            break;
        };
        let word = &rest[start..];
        let word = &word[..word.find(|c| !is_word(c)).unwrap_or(word.len())];
        names.push(Name {
            text: word.to_owned(),
            span: Span::new(id, offset + at + start, offset + at + start + word.len()),
        });
        at += start + word.len();
    }
    names
}
