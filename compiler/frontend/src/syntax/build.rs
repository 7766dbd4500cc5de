//! Pest pairs to the syntax tree.
//!
//! The grammar has decided the form of everything; what is left is to name the parts. Pairs of fixed words carry nothing
//! and are dropped on the way.

use std::collections::BTreeSet;

use pest::Parser;
use pest::iterators::Pair;
use trainspec_grammar::{Grammar, Rule};
use trainspec_ir::{FileId, Span};

use crate::ast::*;
use crate::diag::{Code, Diagnostic};
use crate::syntax::scan::{Comment, Outline, Scan};
use crate::syntax::{precedence, report, string};

/// The tree of a parsed file.
pub(super) fn file(
    id: FileId,
    text: &str,
    scan: &Scan,
    outline: &Outline,
    root: Pair<'_, Rule>,
    errors: &mut Vec<Diagnostic>,
) -> File {
    let mut builder = Builder {
        id,
        text,
        comments: &scan.comments,
        ends: &scan.ends,
        origin: Origin::Outline(outline),
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

/// How many bytes of statements are parsed at once.
const PIECE: usize = 4 << 10;

/// What the positions of pairs are counted from.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// The file without the bodies of its items.
    Outline(&'a Outline),
    /// A piece of a body that begins here.
    Piece(usize),
}

struct Builder<'a> {
    id: FileId,
    text: &'a str,
    comments: &'a [Comment],
    /// Where statements end in the bodies of items.
    ends: &'a [u32],
    origin: Origin<'a>,
    errors: &'a mut Vec<Diagnostic>,
}

/// Parts that are taken one by one.
type Parts<'i> = std::iter::Peekable<std::vec::IntoIter<Pair<'i, Rule>>>;

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
fn optional<'i>(parts: &mut Parts<'i>, rule: Rule) -> Option<Pair<'i, Rule>> {
    parts.next_if(|p| p.as_rule() == rule)
}

impl Builder<'_> {
    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        let (start, end) = (self.place(span.start()), self.place(span.end()));
        Span::new(self.id, start, self.last_token_end(start, end))
    }

    /// Where a position of a pair stands in the text.
    fn place(&self, at: usize) -> usize {
        match self.origin {
            Origin::Outline(outline) => outline.place(at),
            Origin::Piece(start) => start + at,
        }
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

    fn docs(&self, parts: &mut Parts<'_>) -> Vec<Doc> {
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
                start: self.place(first.as_span().start()) as u32,
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
        let mut parts = parts(pair);
        Model {
            params: self.params(next(&mut parts)),
            body: self.item_body(next(&mut parts)),
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
                    setting.value = SettingValue::Declaration(Box::new(self.declaration(part)));
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
            Rule::item_body => DefinitionBody::Body(self.item_body(body)),
            _ => DefinitionBody::Value(self.expr(body)),
        };
        if kind == DefinitionKind::Optimizer && matches!(body, DefinitionBody::Value(_)) {
            self.errors.push(
                Diagnostic::new(Code::Syntax, span, "an optimizer needs a body in braces").help(
                    "`optimizer name(learning_rate) { param <- param - learning_rate * grad; }`",
                ),
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

    /// The body of an item, parsed in pieces.
    fn item_body(&mut self, pair: Pair<'_, Rule>) -> Body {
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
            // As many statements as make a piece worth its while.
            let mut stop = end;
            while let Some(at) = ends.next() {
                if at - start >= PIECE && ends.peek().is_some() {
                    stop = at;
                    break;
                }
            }
            self.origin = Origin::Piece(start);
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

    fn body(&mut self, pair: Pair<'_, Rule>) -> Body {
        let span = self.span(&pair);
        let since = self.errors.len();
        let mut statements = Vec::new();
        self.statements(pair, &mut statements);
        self.finish_body(statements, span, since)
    }

    fn statements(&mut self, pair: Pair<'_, Rule>, statements: &mut Vec<Statement>) {
        for pair in parts(pair) {
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

    /// Takes the value at the end, and misses semicolons.
    fn finish_body(&mut self, statements: Vec<Statement>, span: Span, since: usize) -> Body {
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

    /// `var h = x;` reads as the name `var`, the name `h` and something bad: one mistake, told once. `since` is how many
    /// errors there were before these statements.
    fn join_tangled(&mut self, statements: Vec<Statement>, since: usize) -> Vec<Statement> {
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
            // As far as the line goes, or the first `;`.
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
            let foreign = report::foreign_word(self.text, first);
            let told = starts.range(whole.start..=whole.end).next().is_some();
            if group.len() == 1 || !(told || foreign.is_some()) {
                joined.append(&mut group);
                continue;
            }
            replaced.extend(foreign.map(|error| (whole, error)));
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
            let behind = replaced.partition_point(|(whole, _)| whole.start <= start);
            behind == 0 || start > replaced[behind - 1].0.end
        });
        self.errors.append(&mut here);
        self.errors
            .extend(replaced.into_iter().map(|(_, error)| error));
        joined
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
        match pair.as_rule() {
            Rule::wildcard => Pattern::Wildcard(span),
            Rule::tuple_pattern => {
                Pattern::Tuple(parts(pair).map(|p| self.pattern(p)).collect(), span)
            }
            _ => Pattern::Name(self.name(pair)),
        }
    }

    fn expr(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let mut parts = parts(pair).peekable();
        let start = self.chain(&mut parts);
        if optional(&mut parts, Rule::range_mark).is_none() {
            return start;
        }
        let end = parts
            .peek()
            .is_some()
            .then(|| Box::new(self.chain(&mut parts)));
        Expr {
            kind: ExprKind::Range(Box::new(start), end),
            span,
        }
    }

    /// Operands and operators, up to the end or to the mark of a range.
    fn chain(&mut self, parts: &mut Parts<'_>) -> Expr {
        let first = self.term(parts);
        let mut rest = Vec::new();
        while let Some(op) = optional(parts, Rule::infix) {
            let op = InfixOp::from_symbol(op.as_str()).expect("the grammar knows the operators");
            rest.push((op, self.term(parts)));
        }
        precedence::group(first, rest, self.errors)
    }

    fn term(&mut self, parts: &mut Parts<'_>) -> Expr {
        let mut prefixes = Vec::new();
        let mut first_prefix = None;
        while let Some(prefix) = optional(parts, Rule::prefix) {
            first_prefix.get_or_insert_with(|| self.span(&prefix));
            prefixes.push(match prefix.as_str() {
                "-" => PrefixOp::Negate,
                _ => PrefixOp::Not,
            });
        }
        let mut expr = self.primary(parts);
        let mut postfixes = Vec::new();
        let is_postfix = |p: &Pair<'_, Rule>| {
            matches!(p.as_rule(), Rule::arguments | Rule::index | Rule::member)
        };
        while let Some(postfix) = parts.next_if(is_postfix) {
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

    fn primary(&mut self, parts: &mut Parts<'_>) -> Expr {
        let pair = next(parts);
        let mut span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::number => {
                let number = self.number(pair);
                match optional(parts, Rule::unit) {
                    Some(unit) => {
                        span = span.to(self.span(&unit));
                        let unit =
                            Unit::from_word(unit.as_str()).expect("the grammar knows the units");
                        ExprKind::Quantity(number, unit)
                    }
                    None => ExprKind::Number(number),
                }
            }
            Rule::string => ExprKind::Text(string::literal_value(pair.as_str())),
            Rule::boolean => ExprKind::Bool(pair.as_str() == "true"),
            Rule::name => ExprKind::Name(pair.as_str().to_owned()),
            Rule::list => ExprKind::List(self::parts(pair).map(|p| self.expr(p)).collect()),
            Rule::paren => {
                let mut comma = false;
                let mut inner = Vec::new();
                for part in self::parts(pair) {
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
                let mut parts = self::parts(pair);
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
        let kind = match pair.as_rule() {
            Rule::arguments => PostfixKind::Call(self.arguments(pair)),
            Rule::index => PostfixKind::Index(parts(pair).map(|p| self.subscript(p)).collect()),
            _ => {
                let mut parts = parts(pair);
                next(&mut parts); // the dot
                PostfixKind::Member(self.name(next(&mut parts)))
            }
        };
        Postfix { kind, span }
    }

    fn arguments(&mut self, pair: Pair<'_, Rule>) -> Vec<Argument> {
        let mut arguments = Vec::new();
        let mut parts = parts(pair).peekable();
        while parts.peek().is_some() {
            let label = optional(&mut parts, Rule::label);
            arguments.push(Argument {
                name: label.map(|l| self.name(next(&mut self::parts(l)))),
                value: self.expr(next(&mut parts)),
            });
        }
        arguments
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
                    Rule::up_to => (None, Some(self.chain(&mut self::parts(first).peekable()))),
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
