//! Declarations: what a file declares by name, each with its doc comment and the span of its name.
//!
//! In: the syntax tree of a file. Out: names that the checker resolves, before it does. What generates documentation and items of other
//! languages reads them here; the typed spec has no comments.

use std::collections::BTreeMap;

use trainspec_ir::Span;

use crate::ast::{Doc, File, Item, ItemKind, Name, StatementKind};

/// A kind of declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeclarationKind {
    /// A constant.
    Constant,
    /// An input of the model.
    Input,
    /// A variable of the model: `param`, `state`, `scalar`.
    Variable,
    /// A loss; one without a name is called `loss`.
    Loss,
    /// A metric.
    Metric,
    /// An output.
    Output,
    /// What an item seems to declare that cannot be read.
    BadItem,
    /// What a statement of the model seems to declare that cannot be read; without a name it may be the loss.
    BadStatement,
}

/// Something that is declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// The lines of its doc comment, as they are written after the slashes.
    pub docs: Vec<String>,
    /// The span of its name; of a loss without one that of the statement.
    pub span: Span,
}

/// The declarations of a file.
///
/// ```
/// use trainspec_frontend::declarations::{DeclarationKind, Declarations};
/// use trainspec_frontend::source::Sources;
///
/// let text = "//! A line.
/// spec line;
/// /// The step size.
/// const RATE = 0.1;
/// model (
///     /// Metres.
///     x: f32[batch],
/// ) { output y = 2.0 * x; }";
/// let mut sources = Sources::default();
/// let file = sources.add("line", text);
/// let declared = Declarations::of(&trainspec_frontend::syntax::parse(file, text).0.file);
/// assert_eq!(declared.docs, [" A line."]);
/// assert_eq!(declared.get(DeclarationKind::Constant, "RATE").unwrap().docs, [" The step size."]);
/// let x = declared.get(DeclarationKind::Input, "x").unwrap();
/// assert_eq!((x.docs[0].as_str(), &text[x.span.range()]), (" Metres.", "x"));
/// assert!(declared.get(DeclarationKind::Output, "z").is_none());
/// assert_eq!(declared.of_kind(DeclarationKind::Output).count(), 1);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    /// The `//!` lines of the file.
    pub docs: Vec<String>,
    /// The doc comment of the model.
    pub model: Vec<String>,
    declared: BTreeMap<(DeclarationKind, String), Declaration>,
}

impl Declarations {
    /// The declarations of a file.
    pub fn of(file: &File) -> Declarations {
        let mut all = Declarations {
            docs: lines(&file.docs),
            ..Declarations::default()
        };
        file.items.iter().for_each(|item| all.add_item(item));
        all
    }

    /// What is declared under a name.
    pub fn get(&self, kind: DeclarationKind, name: &str) -> Option<&Declaration> {
        self.declared.get(&(kind, name.to_owned()))
    }

    /// The declarations of a kind by name, in alphabetical order.
    pub fn of_kind(&self, kind: DeclarationKind) -> impl Iterator<Item = (&str, &Declaration)> {
        let declared = (self.declared.iter()).filter(move |((own, _), _)| *own == kind);
        declared.map(|((_, name), declaration)| (name.as_str(), declaration))
    }

    /// Adds a declaration; the first one of a name counts.
    fn add(&mut self, kind: DeclarationKind, name: &str, docs: &[Doc], span: Span) {
        let declaration = || Declaration {
            docs: lines(docs),
            span,
        };
        let entry = self.declared.entry((kind, name.to_owned()));
        entry.or_insert_with(declaration);
    }

    fn add_item(&mut self, item: &Item) {
        match &item.kind {
            ItemKind::Const(one) => {
                let name = &one.name;
                self.add(DeclarationKind::Constant, &name.text, &item.docs, name.span);
            }
            ItemKind::Model(model) => {
                self.model = lines(&item.docs);
                for param in &model.params {
                    let name = &param.name;
                    self.add(DeclarationKind::Input, &name.text, &param.docs, name.span);
                }
                for statement in &model.body.statements {
                    if let StatementKind::Bad(names) = &statement.kind {
                        self.add_bad(DeclarationKind::BadStatement, names);
                        if names.is_empty() {
                            self.add(DeclarationKind::BadStatement, "loss", &[], statement.span);
                        }
                    }
                    if let Some((kind, name)) = declared(&statement.kind) {
                        let span = name.map_or(statement.span, |name| name.span);
                        let name = name.map_or("loss", |name| &name.text);
                        self.add(kind, name, &statement.docs, span);
                    }
                }
            }
            ItemKind::Use(_)
            | ItemKind::WarmStart(_)
            | ItemKind::Section(_)
            | ItemKind::Definition(_) => {}
            ItemKind::Bad(names) => self.add_bad(DeclarationKind::BadItem, names),
        }
    }

    fn add_bad(&mut self, kind: DeclarationKind, names: &[Name]) {
        for name in names {
            self.add(kind, &name.text, &[], name.span);
        }
    }
}

/// What a statement declares, and its name where it has one.
fn declared(statement: &StatementKind) -> Option<(DeclarationKind, Option<&Name>)> {
    match statement {
        StatementKind::Variable(one) => Some((DeclarationKind::Variable, Some(&one.name))),
        StatementKind::Scalar { name, .. } => Some((DeclarationKind::Variable, Some(name))),
        StatementKind::Loss { name, .. } => Some((DeclarationKind::Loss, name.as_ref())),
        StatementKind::Metric { name, .. } => Some((DeclarationKind::Metric, Some(name))),
        StatementKind::Output { name, .. } => Some((DeclarationKind::Output, Some(name))),
        StatementKind::Let { .. }
        | StatementKind::Layer { .. }
        | StatementKind::Yield(_)
        | StatementKind::Write { .. }
        | StatementKind::Expr { .. }
        | StatementKind::Bad(_) => None,
    }
}

fn lines(docs: &[Doc]) -> Vec<String> {
    docs.iter().map(|doc| doc.text.clone()).collect()
}
