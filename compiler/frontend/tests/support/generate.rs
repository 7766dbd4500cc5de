//! Random syntax trees, decided by a list of bytes so that proptest can shrink them.
//!
//! Only trees that some text parses to: operators sit under looser ones, a statement without `;` is followed by a word.

use trainspec_frontend::ast::*;
use trainspec_ir::FileId;

const NAMES: [&str; 8] = [
    "a",
    "x",
    "kernel",
    "T",
    "batch",
    "step_count",
    "_private",
    "a_name_that_takes_a_good_part_of_the_columns_of_a_line",
];
const NUMBERS: [&str; 8] = ["1", "0", "2_000", "1.", "0.5", "1e-4", "0xfF", "12.5e+10"];
const STRINGS: [&str; 6] = [
    "a/**",
    "",
    "with \"quotes\" and \\",
    "tab\tline\nend\u{7f}",
    "ä € \u{1F600}",
    "// no comment",
];
const DOCS: [&str; 4] = [
    "",
    " What it is.",
    " Two  spaces, `code`, \"quotes\".",
    "close",
];

/// Random decisions, one byte each. When they run out, everything is as small as it can be.
pub(crate) struct Entropy<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Entropy<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Entropy<'a> {
        Entropy {
            bytes: bytes.iter(),
        }
    }

    /// One of `0..n`.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        self.bytes.next().map_or(0, |b| *b as usize % n)
    }

    /// True in one case of `n`.
    pub(crate) fn rarely(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.pick(values.len())]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.pick(2) == 1).then(|| make(self))
    }

    fn several<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.pick(most + 1)).map(|_| make(self)).collect()
    }
}

/// A dummy span; the trees are compared without spans.
fn nowhere() -> Span {
    Span::new(FileId(0), 0, 0)
}

fn expr_of(kind: ExprKind) -> Expr {
    Expr {
        kind,
        span: nowhere(),
    }
}

fn name(c: &mut Entropy<'_>) -> Name {
    Name {
        text: c.of(&NAMES).to_owned(),
        span: nowhere(),
    }
}

fn number(c: &mut Entropy<'_>) -> Number {
    Number {
        text: c.of(&NUMBERS).to_owned(),
        span: nowhere(),
    }
}

fn text(c: &mut Entropy<'_>) -> StrLit {
    StrLit {
        value: c.of(&STRINGS).to_owned(),
        span: nowhere(),
    }
}

fn docs(c: &mut Entropy<'_>) -> Vec<Doc> {
    if !c.rarely(6) {
        return Vec::new();
    }
    c.several(2, |c| Doc {
        text: c.of(&DOCS).to_owned(),
        span: nowhere(),
    })
}

/// A file.
pub(crate) fn file(c: &mut Entropy<'_>) -> File {
    File {
        docs: docs(c),
        header: c.maybe(|c| Header {
            name: name(c),
            edition: c.maybe(number),
            span: nowhere(),
        }),
        items: c.several(6, item),
    }
}

fn item(c: &mut Entropy<'_>) -> Item {
    let docs = docs(c);
    let kind = match c.pick(6) {
        0 => ItemKind::Const(Const {
            name: name(c),
            value: expr(c, 4),
        }),
        1 => ItemKind::Use(text(c)),
        2 => ItemKind::WarmStart(c.several(4, |c| argument(c, 2))),
        3 => ItemKind::Model(Model {
            params: c.several(4, param),
            body: body(c, 4),
        }),
        4 => ItemKind::Section(section(c)),
        _ => ItemKind::Definition(definition(c)),
    };
    Item {
        docs,
        kind,
        span: nowhere(),
    }
}

fn section(c: &mut Entropy<'_>) -> Section {
    let kind = c.of(&[
        SectionKind::Data,
        SectionKind::Train,
        SectionKind::Eval,
        SectionKind::Hooks,
    ]);
    Section {
        kind,
        keyword: nowhere(),
        name: match kind {
            SectionKind::Data => Some(name(c)),
            SectionKind::Eval => c.maybe(name),
            SectionKind::Train | SectionKind::Hooks => None,
        },
        settings: c.several(5, |c| setting(c, 2)),
    }
}

fn setting(c: &mut Entropy<'_>, depth: usize) -> Setting {
    let docs = docs(c);
    let word = name(c);
    let value = match c.pick(6) {
        0 => SettingValue::None,
        1 => SettingValue::Declaration(Box::new(Declaration {
            name: name(c),
            ty: ty(c),
            alias: None,
            columns: Some(vec![text(c), text(c)]),
            bound: c.maybe(|c| expr(c, 1)),
            default: None,
        })),
        2 => SettingValue::Declaration(Box::new(Declaration {
            name: name(c),
            ty: ty(c),
            alias: c.maybe(text),
            columns: None,
            bound: c.maybe(|c| expr(c, 1)),
            default: c.maybe(|c| expr(c, 1)),
        })),
        3 => SettingValue::Assignment(pattern(c, 1), expr(c, 3)),
        4 => SettingValue::Arguments(c.several(5, |c| argument(c, 2))),
        _ => SettingValue::Value(match expr(c, 3) {
            // These alone would read as arguments.
            value @ Expr {
                kind: ExprKind::Paren(_) | ExprKind::Tuple(_),
                ..
            } => expr_of(ExprKind::List(vec![value])),
            value => value,
        }),
    };
    let mut clauses = Vec::new();
    if c.rarely(4) {
        clauses.push(Clause::For(expr(c, 1)));
    }
    // After nothing but the word, `minimizing` would read as a value.
    let has_value = !clauses.is_empty() || !matches!(value, SettingValue::None);
    if has_value && c.rarely(6) {
        clauses.push(Clause::Minimizing(name(c)));
    }
    Setting {
        docs,
        word,
        value,
        clauses,
        body: (depth > 0 && c.rarely(4)).then(|| c.several(3, |c| setting(c, depth - 1))),
        span: nowhere(),
    }
}

fn definition(c: &mut Entropy<'_>) -> Definition {
    let kind = c.of(&[
        DefinitionKind::Fn,
        DefinitionKind::Block,
        DefinitionKind::Optimizer,
        DefinitionKind::Schedule,
        DefinitionKind::Init,
    ]);
    let owns_variables = matches!(kind, DefinitionKind::Block | DefinitionKind::Optimizer);
    let in_braces = kind == DefinitionKind::Optimizer || c.pick(2) == 0;
    Definition {
        kind,
        name: name(c),
        params: c.several(5, param),
        alias: if owns_variables { c.maybe(text) } else { None },
        bounds: c.several(2, bound),
        body: match in_braces {
            true => DefinitionBody::Body(body(c, 4)),
            false => DefinitionBody::Value(expr(c, 4)),
        },
    }
}

fn param(c: &mut Entropy<'_>) -> Param {
    Param {
        docs: docs(c),
        is_const: c.rarely(3),
        name: name(c),
        ty: c.maybe(ty),
        bound: c.rarely(4).then(|| expr(c, 1)),
        default: c.maybe(|c| expr(c, 1)),
        span: nowhere(),
    }
}

fn bound(c: &mut Entropy<'_>) -> Bound {
    Bound {
        name: name(c),
        class: name(c),
    }
}

fn ty(c: &mut Entropy<'_>) -> Type {
    Type {
        name: name(c),
        dims: c.maybe(|c| {
            c.several(3, |c| DimExpr {
                kind: match c.pick(3) {
                    0 => DimKind::Rest,
                    1 => DimKind::Capacity(expr(c, 1)),
                    _ => DimKind::Size(expr(c, 1)),
                },
                span: nowhere(),
            })
        }),
        span: nowhere(),
    }
}

fn body(c: &mut Entropy<'_>, depth: usize) -> Body {
    let mut statements = c.several(3, |c| statement(c, depth));
    // Only where a word follows can a statement go without its `;`.
    for i in 0..statements.len() {
        let word_follows = statements
            .get(i + 1)
            .is_some_and(|s| !matches!(s.kind, StatementKind::Expr { .. }));
        if let StatementKind::Expr { value, semicolon } = &mut statements[i].kind {
            let ends_in_brace = matches!(value.kind, ExprKind::If(..) | ExprKind::Loop(_));
            *semicolon |= !word_follows || !ends_in_brace;
        }
    }
    Body {
        statements,
        value: c.maybe(|c| Box::new(expr(c, depth))),
        span: nowhere(),
    }
}

fn statement(c: &mut Entropy<'_>, depth: usize) -> Statement {
    let docs = docs(c);
    let inner = depth.saturating_sub(1);
    let kind = match c.pick(10) {
        0 => StatementKind::Yield(expr(c, inner)),
        1 => StatementKind::Let {
            pattern: pattern(c, 2),
            ty: c.maybe(ty),
            value: expr(c, inner),
        },
        2 => StatementKind::Variable(Variable {
            kind: c.of(&[VariableKind::Param, VariableKind::State, VariableKind::Slot]),
            name: name(c),
            called: c.maybe(text),
            ty: c.maybe(ty),
            alias: c.maybe(text),
            init: expr(c, inner),
        }),
        3 => StatementKind::Scalar {
            name: name(c),
            alias: c.maybe(text),
            start: expr(c, inner),
            next: expr(c, inner),
        },
        4 => StatementKind::Layer {
            name: name(c),
            value: expr(c, inner),
        },
        5 => StatementKind::Loss {
            name: c.maybe(name),
            value: expr(c, inner),
        },
        6 => StatementKind::Metric {
            name: name(c),
            value: expr(c, inner),
        },
        7 => StatementKind::Output {
            name: name(c),
            value: expr(c, inner),
        },
        8 => StatementKind::Write {
            target: name(c),
            value: expr(c, inner),
        },
        _ => StatementKind::Expr {
            value: expr(c, inner),
            semicolon: c.pick(2) == 0,
        },
    };
    Statement {
        docs,
        kind,
        span: nowhere(),
    }
}

fn pattern(c: &mut Entropy<'_>, depth: usize) -> Pattern {
    match c.pick(if depth > 0 { 5 } else { 2 }) {
        0 | 2 => Pattern::Name(name(c)),
        1 => Pattern::Wildcard(nowhere()),
        _ => {
            let mut patterns = vec![pattern(c, depth - 1)];
            patterns.extend(c.several(2, |c| pattern(c, depth - 1)));
            Pattern::Tuple(patterns, nowhere())
        }
    }
}

fn argument(c: &mut Entropy<'_>, depth: usize) -> Argument {
    Argument {
        name: c.maybe(name),
        value: expr(c, depth),
    }
}

fn expr(c: &mut Entropy<'_>, depth: usize) -> Expr {
    if depth > 0 && c.rarely(8) {
        let start = Box::new(chain(c, depth, 0));
        let end = Box::new(chain(c, depth, 0));
        return expr_of(ExprKind::Range(start, Some(end)));
    }
    chain(c, depth, 0)
}

/// Operators that bind at least as tightly as `loosest`.
fn chain(c: &mut Entropy<'_>, depth: usize, loosest: usize) -> Expr {
    if depth == 0 || c.pick(3) == 0 {
        return term(c, depth);
    }
    let ops: Vec<InfixOp> = InfixOp::ALL
        .into_iter()
        .filter(|op| op.precedence() >= loosest)
        .collect();
    if ops.is_empty() {
        return term(c, depth);
    }
    let precedence = c.of(&ops).precedence();
    let ops: Vec<InfixOp> = ops
        .into_iter()
        .filter(|op| op.precedence() == precedence)
        .collect();
    let first = Box::new(chain(c, depth - 1, precedence + 1));
    let count = match precedence {
        InfixOp::COMPARE => 1,
        _ => 1 + c.pick(4),
    };
    let rest = (0..count)
        .map(|_| (c.of(&ops), chain(c, depth - 1, precedence + 1)))
        .collect();
    expr_of(ExprKind::Infix(first, rest))
}

fn term(c: &mut Entropy<'_>, depth: usize) -> Expr {
    let mut expr = primary(c, depth);
    if depth > 0 && c.rarely(3) {
        let mut postfixes = vec![postfix(c, depth - 1)];
        postfixes.extend(c.several(2, |c| postfix(c, depth - 1)));
        expr = expr_of(ExprKind::Postfix(Box::new(expr), postfixes));
    }
    if c.rarely(6) {
        let mut ops = vec![PrefixOp::Negate];
        ops.extend(c.several(2, |c| c.of(&[PrefixOp::Not, PrefixOp::Negate])));
        expr = expr_of(ExprKind::Prefix(ops, Box::new(expr)));
    }
    expr
}

fn primary(c: &mut Entropy<'_>, depth: usize) -> Expr {
    let inner = depth.saturating_sub(1);
    expr_of(match c.pick(if depth > 0 { 11 } else { 5 }) {
        0 => ExprKind::Name(name(c).text),
        1 => ExprKind::Number(number(c)),
        2 => {
            let units = [
                Unit::Steps,
                Unit::Epochs,
                Unit::Milliseconds,
                Unit::Seconds,
                Unit::Minutes,
                Unit::Hours,
                Unit::Days,
            ];
            ExprKind::Quantity(number(c), c.of(&units))
        }
        3 => ExprKind::Str(text(c).value),
        4 => ExprKind::Bool(c.pick(2) == 1),
        5 => ExprKind::Paren(Box::new(expr(c, inner))),
        6 => ExprKind::Tuple(c.several(3, |c| expr(c, inner))),
        7 => ExprKind::List(c.several(4, |c| expr(c, inner))),
        8 => {
            let mut branches = vec![(expr(c, inner), body(c, inner))];
            branches.extend(c.several(2, |c| (expr(c, inner), body(c, inner))));
            ExprKind::If(branches, c.maybe(|c| body(c, inner)))
        }
        n => ExprKind::Loop(Box::new(Loop {
            kind: if n == 9 {
                LoopKind::For
            } else {
                LoopKind::Scan
            },
            pattern: pattern(c, 1),
            over: expr(c, inner),
            carries: c.several(3, |c| (name(c), expr(c, inner))),
            body: body(c, inner),
        })),
    })
}

fn postfix(c: &mut Entropy<'_>, depth: usize) -> Postfix {
    let kind = match c.pick(3) {
        0 => PostfixKind::Member(name(c)),
        1 => PostfixKind::Call(c.several(4, |c| argument(c, depth))),
        _ => {
            let mut subscripts = vec![subscript(c, depth)];
            subscripts.extend(c.several(2, |c| subscript(c, depth)));
            PostfixKind::Index(subscripts)
        }
    };
    Postfix {
        kind,
        span: nowhere(),
    }
}

fn subscript(c: &mut Entropy<'_>, depth: usize) -> Subscript {
    let kind = match c.pick(6) {
        0 => SubscriptKind::At(chain(c, depth, 0)),
        1 => SubscriptKind::Rest,
        2 => SubscriptKind::Full,
        3 => SubscriptKind::Slice {
            start: None,
            end: Some(chain(c, depth, 0)),
            step: c.maybe(|c| expr(c, depth)),
        },
        4 => SubscriptKind::Slice {
            start: Some(chain(c, depth, 0)),
            end: None,
            step: c.maybe(|c| expr(c, depth)),
        },
        _ => SubscriptKind::Slice {
            start: Some(chain(c, depth, 0)),
            end: Some(chain(c, depth, 0)),
            step: c.maybe(|c| expr(c, depth)),
        },
    };
    Subscript {
        kind,
        span: nowhere(),
    }
}
