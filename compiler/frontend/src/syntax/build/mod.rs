//! AST construction from pest pairs (the concrete syntax tree).
//!
//! The grammar has decided the form of everything; what is left is to name the children. Pairs of keywords are dropped.

mod exprs;
mod statements;

use pest::iterators::Pair;
use trainspec_grammar::Rule;
use trainspec_ir::{FileId, Span};

use crate::ast::*;
use crate::diag::{Code, Diagnostic};
use crate::syntax::scan::{Comment, Outline, Scan};
use crate::syntax::{report, string};

/// The tree of a parsed file.
pub(crate) fn file(
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
                let (mut names, span) = builder.bad(pair, Rule::lone_item);
                // `modle (...)` was to be the model, which is then not missing.
                let near = names.first().and_then(|first| {
                    let text = report::near_item(&first.text)?.to_owned();
                    Some(Name { text, ..*first })
                });
                names.extend(near);
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

/// The tree of a parsed expression.
pub(crate) fn lone_expr(
    id: FileId,
    text: &str,
    scan: &Scan,
    root: Pair<'_, Rule>,
    errors: &mut Vec<Diagnostic>,
) -> Expr {
    let mut builder = Builder {
        id,
        text,
        comments: &scan.comments,
        ends: &scan.ends,
        origin: Origin::Body(0),
        errors,
    };
    builder.expr(next(&mut children(root)))
}

/// The origin of the byte offsets of pairs.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// The file without the bodies of its items.
    Outline(&'a Outline),
    /// Statements of a body, whose first byte is here.
    Body(usize),
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

/// The children of a pair, taken one by one.
type Children<'i> = std::iter::Peekable<std::vec::IntoIter<Pair<'i, Rule>>>;

/// The children of a pair without keywords.
fn children<'i>(pair: Pair<'i, Rule>) -> std::vec::IntoIter<Pair<'i, Rule>> {
    let children: Vec<_> = pair
        .into_inner()
        .filter(|p| !p.as_rule().is_keyword())
        .collect();
    children.into_iter()
}

/// The next child, which the grammar guarantees.
fn next<'i>(children: &mut impl Iterator<Item = Pair<'i, Rule>>) -> Pair<'i, Rule> {
    children.next().expect("the grammar guarantees this child")
}

/// The next child, if it is of that rule.
fn optional<'i>(children: &mut Children<'i>, rule: Rule) -> Option<Pair<'i, Rule>> {
    children.next_if(|p| p.as_rule() == rule)
}

impl Builder<'_> {
    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        let (start, end) = (
            self.source_offset(span.start()),
            self.source_offset(span.end()),
        );
        Span::new(self.id, start, self.last_token_end(start, end))
    }

    /// The offset in the source text of a position of a pair.
    fn source_offset(&self, at: usize) -> usize {
        match self.origin {
            Origin::Outline(outline) => outline.source_offset(at),
            Origin::Body(start) => start + at,
        }
    }

    /// A rule that ends in an optional part may include the space and the comments after its last token.
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

    fn text(&self, pair: Pair<'_, Rule>) -> StrLit {
        StrLit {
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

    fn docs(&self, children: &mut Children<'_>) -> Vec<Doc> {
        let mut docs = Vec::new();
        while let Some(pair) = optional(children, Rule::outer_doc) {
            docs.push(self.doc(pair));
        }
        docs
    }

    /// The span of a pair without its leading docs.
    fn span_after_docs(&self, pair: &Pair<'_, Rule>) -> Span {
        let whole = self.span(pair);
        let after = pair
            .clone()
            .into_inner()
            .find(|p| p.as_rule() != Rule::outer_doc);
        match after {
            Some(first) => Span {
                start: self.source_offset(first.as_span().start()) as u32,
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
        let mut children = children(pair);
        Header {
            name: self.name(next(&mut children)),
            edition: children.next().map(|p| self.number(p)),
            span,
        }
    }

    fn item(&mut self, pair: Pair<'_, Rule>) -> Item {
        let span = self.span_after_docs(&pair);
        let mut children = children(pair).peekable();
        let docs = self.docs(&mut children);
        let inner = next(&mut children);
        let kind = match inner.as_rule() {
            Rule::const_item => {
                let mut children = self::children(inner);
                ItemKind::Const(Const {
                    name: self.name(next(&mut children)),
                    value: self.expr(next(&mut children)),
                })
            }
            Rule::use_item => ItemKind::Use(self.text(next(&mut self::children(inner)))),
            Rule::warm_start_item => {
                ItemKind::WarmStart(self.arguments(next(&mut self::children(inner))))
            }
            Rule::model_item => ItemKind::Model(self.model(inner)),
            Rule::section_item => ItemKind::Section(self.section(inner)),
            Rule::definition_item => ItemKind::Definition(self.definition(inner)),
            other => unreachable!("no item: {other:?}"),
        };
        Item { docs, kind, span }
    }

    fn model(&mut self, pair: Pair<'_, Rule>) -> Model {
        let mut children = children(pair);
        Model {
            params: self.params(next(&mut children)),
            body: self.item_body(next(&mut children)),
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
        for pair in children(pair) {
            settings.push(match pair.as_rule() {
                Rule::setting => self.setting(pair),
                _ => {
                    let (names, span) = self.bad(pair, Rule::lone_setting);
                    Setting {
                        docs: Vec::new(),
                        word: Name {
                            text: String::new(),
                            span,
                        },
                        value: SettingValue::Bad(names),
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
        let span = self.span_after_docs(&pair);
        let mut children = children(pair).peekable();
        let docs = self.docs(&mut children);
        let word = self.name(next(&mut children));
        let mut setting = Setting {
            docs,
            word,
            value: SettingValue::None,
            clauses: Vec::new(),
            body: None,
            span,
        };
        for child in children {
            match child.as_rule() {
                Rule::declaration => {
                    setting.value = SettingValue::Declaration(Box::new(self.declaration(child)));
                }
                Rule::assignment => {
                    let mut children = self::children(child);
                    let pattern = self.pattern(next(&mut children));
                    next(&mut children); // the `=`
                    let value = self.expr(next(&mut children));
                    setting.value = SettingValue::Assignment(pattern, value);
                }
                Rule::arguments => setting.value = SettingValue::Arguments(self.arguments(child)),
                Rule::expr => setting.value = SettingValue::Value(self.expr(child)),
                Rule::clause => {
                    let inner = next(&mut self::children(child));
                    setting.clauses.push(match inner.as_rule() {
                        Rule::name => Clause::Minimizing(self.name(inner)),
                        _ => Clause::For(self.expr(inner)),
                    });
                }
                Rule::settings => setting.body = Some(self.settings(child)),
                other => unreachable!("no child of a setting: {other:?}"),
            }
        }
        setting
    }

    fn declaration(&mut self, pair: Pair<'_, Rule>) -> Declaration {
        let mut children = children(pair).peekable();
        Declaration {
            name: self.name(next(&mut children)),
            ty: self.ty(next(&mut children)),
            alias: self.alias(optional(&mut children, Rule::alias)),
            columns: self.columns(optional(&mut children, Rule::columns)),
            bound: self.bound(optional(&mut children, Rule::bound)),
            default: children.next().map(|p| self.expr(p)),
        }
    }

    fn alias(&self, pair: Option<Pair<'_, Rule>>) -> Option<StrLit> {
        pair.map(|p| self.text(next(&mut children(p))))
    }

    fn columns(&self, pair: Option<Pair<'_, Rule>>) -> Option<Vec<StrLit>> {
        pair.map(|p| children(p).map(|column| self.text(column)).collect())
    }

    fn bound(&mut self, pair: Option<Pair<'_, Rule>>) -> Option<Expr> {
        pair.map(|p| self.expr(next(&mut children(p))))
    }

    fn bounds(&mut self, pair: Option<Pair<'_, Rule>>) -> Vec<Bound> {
        let Some(pair) = pair else {
            return Vec::new();
        };
        children(pair)
            .map(|p| {
                let mut children = children(p);
                Bound {
                    name: self.name(next(&mut children)),
                    class: self.name(next(&mut children)),
                }
            })
            .collect()
    }

    fn definition(&mut self, pair: Pair<'_, Rule>) -> Definition {
        let span = self.span(&pair);
        let mut children = children(pair).peekable();
        let word = next(&mut next(&mut children).into_inner());
        let kind = match word.as_rule() {
            Rule::kw_block => DefinitionKind::Block,
            Rule::kw_fn => DefinitionKind::Fn,
            Rule::kw_optimizer => DefinitionKind::Optimizer,
            Rule::kw_schedule => DefinitionKind::Schedule,
            Rule::kw_init => DefinitionKind::Init,
            other => unreachable!("no definition: {other:?}"),
        };
        let name = self.name(next(&mut children));
        let params = self.params(next(&mut children));
        let alias = self.alias(optional(&mut children, Rule::alias));
        if let Some(alias) = &alias
            && !matches!(kind, DefinitionKind::Block | DefinitionKind::Optimizer)
        {
            let message = format!("a `{}` has no other name", kind.word());
            self.errors.push(
                Diagnostic::new(Code::Syntax, alias.span, message)
                    .help("only blocks and optimizers own variables that `as` could name"),
            );
        }
        let bounds = self.bounds(optional(&mut children, Rule::where_clause));
        let body = next(&mut children);
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
        children(pair).map(|p| self.param(p)).collect()
    }

    fn param(&mut self, pair: Pair<'_, Rule>) -> Param {
        let span = self.span_after_docs(&pair);
        let is_const = pair
            .clone()
            .into_inner()
            .any(|p| p.as_rule() == Rule::kw_const);
        let mut children = children(pair).peekable();
        Param {
            docs: self.docs(&mut children),
            is_const,
            name: self.name(next(&mut children)),
            ty: optional(&mut children, Rule::r#type).map(|p| self.ty(p)),
            bound: self.bound(optional(&mut children, Rule::bound)),
            default: children.next().map(|p| self.expr(p)),
            span,
        }
    }

    fn ty(&mut self, pair: Pair<'_, Rule>) -> Type {
        let span = self.span(&pair);
        let mut children = children(pair);
        Type {
            name: self.name(next(&mut children)),
            dims: children
                .next()
                .map(|dims| self::children(dims).map(|d| self.dim(d)).collect()),
            span,
        }
    }

    fn dim(&mut self, pair: Pair<'_, Rule>) -> DimExpr {
        let span = self.span(&pair);
        let inner = next(&mut children(pair));
        let kind = match inner.as_rule() {
            Rule::rest => DimKind::Rest,
            Rule::capacity => DimKind::Capacity(self.expr(next(&mut children(inner)))),
            _ => DimKind::Size(self.expr(inner)),
        };
        DimExpr { kind, span }
    }
}

/// The names after the leading keywords of something that does not parse.
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
