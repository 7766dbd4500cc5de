//! Items: which files a spec is made of, what they define, constants and their overrides, the standard library.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use trainspec_ir::ops::TABLE;
use trainspec_ir::{DType, FileId, Span};

use crate::ast::{self, DefinitionKind, ItemKind, Name, SectionKind};
use crate::check::scope::{Frame, FrameKind};
use crate::check::value::{Builtin, Callable, Def, Value};
use crate::check::{Checker, Options, library};
use crate::diag::{Code, Diagnostic, nearest};
use crate::source::{LoadError, Loader};
use crate::syntax;

/// The edition of the language that this compiler implements.
const EDITION: i64 = 1;
/// The number of files a spec may consist of.
const MAX_FILES: usize = 1_000;

/// The items of the files of a spec.
#[derive(Debug, Default)]
pub(crate) struct Items {
    constants: BTreeMap<String, Constant>,
    constant_order: Vec<String>,
    definitions: HashMap<(Space, String), Arc<Def>>,
    /// The file that is checked, not one that it uses.
    root: Option<FileId>,
    /// Names of definitions that do not parse: no error is reported for their uses.
    broken: HashMap<String, Span>,
    pub data: Vec<Rc<ast::Section>>,
    pub model: Option<(Rc<ast::Model>, Span)>,
    pub train: Option<Rc<ast::Section>>,
    pub evals: Vec<Rc<ast::Section>>,
    pub hooks: Option<Rc<ast::Section>>,
    pub warm_start: Option<(Rc<Vec<ast::Argument>>, Span)>,
}

#[derive(Debug)]
struct Constant {
    name: Name,
    value: Rc<ast::Expr>,
    state: ConstantState,
}

#[derive(Debug, Clone)]
enum ConstantState {
    Waiting,
    Running,
    Done(Value),
}

/// The namespace in which a definition is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Blocks,
    Functions,
    Optimizers,
}

impl Space {
    pub(crate) fn of(kind: DefinitionKind) -> Space {
        match kind {
            DefinitionKind::Block => Space::Blocks,
            DefinitionKind::Fn | DefinitionKind::Schedule | DefinitionKind::Init => {
                Space::Functions
            }
            DefinitionKind::Optimizer => Space::Optimizers,
        }
    }

    pub(crate) fn of_word(word: &str) -> Space {
        match word {
            "block" => Space::Blocks,
            "optimizer" => Space::Optimizers,
            _ => Space::Functions,
        }
    }
}

impl Checker<'_> {
    /// Parses the root and all files it uses; gives the name and the edition.
    pub(crate) fn collect(&mut self, root: FileId, loader: &dyn Loader) -> Option<(String, i64)> {
        self.items.root = Some(root);
        let (parsed, errors) = syntax::parse(root, &self.sources.get(root).text.clone());
        let broken = !errors.is_empty();
        for error in errors {
            self.report(error);
        }
        let file = parsed.file;
        if file.items.is_empty() && file.header.is_none() {
            if !broken {
                self.report(
                    Diagnostic::new(
                        Code::EmptySpec,
                        Span::new(root, 0, 0),
                        "this text holds no spec",
                    )
                    .help("a spec begins with `spec NAME, edition 1;`"),
                );
            }
            return None;
        }
        let header = match &file.header {
            None => (String::new(), EDITION),
            Some(header) => {
                let edition = self.edition(header);
                (header.name.text.clone(), edition)
            }
        };
        let mut files = BTreeMap::from([(self.sources.get(root).name.clone(), Visit::Open)]);
        self.take_items(root, file, loader, &mut files, 0);
        self.expect_header(root, &header.0);
        Some(header)
    }

    /// A file with a model or `train` is a spec of its own, and has a name.
    fn expect_header(&mut self, root: FileId, name: &str) {
        // A header that does not parse was reported already.
        let broken = self
            .errors
            .iter()
            .any(|e| matches!(e.code, Code::Syntax | Code::ReservedWord));
        let needed_by = match (&self.items.model, &self.items.train) {
            _ if broken || !name.is_empty() => return,
            (Some((_, span)), _) => *span,
            (None, Some(train)) => train.keyword,
            (None, None) => return,
        };
        if needed_by.file == root {
            let start = Span::new(root, 0, 0);
            self.report(
                Diagnostic::new(Code::MissingItem, start, "the spec has no name")
                    .help("begin with `spec NAME, edition 1;`")
                    .note_at(needed_by, "needed because of this"),
            );
        }
    }

    fn edition(&mut self, header: &ast::Header) -> i64 {
        let Some(number) = &header.edition else {
            return EDITION;
        };
        match syntax::int_value(&number.text) {
            Some(EDITION) => {}
            _ => {
                let message = format!("there is no edition {} of the language", number.text);
                self.report(
                    Diagnostic::new(Code::UnknownEdition, number.span, message)
                        .help(format!("this compiler speaks edition {EDITION}")),
                );
            }
        }
        EDITION
    }

    pub(crate) fn take_items(
        &mut self,
        id: FileId,
        file: ast::File,
        loader: &dyn Loader,
        files: &mut BTreeMap<String, Visit>,
        depth: usize,
    ) {
        for item in file.items {
            let span = item.span;
            match item.kind {
                ItemKind::Use(path) => self.use_file(id, &path, loader, files, depth),
                ItemKind::Const(c) => self.add_constant(c),
                ItemKind::Definition(definition) => self.add_definition(id, definition),
                ItemKind::Model(model) => match &self.items.model {
                    Some((_, first)) => {
                        let first = *first;
                        self.duplicate_item("model", head(span), first);
                    }
                    None => self.items.model = Some((Rc::new(model), head(span))),
                },
                ItemKind::WarmStart(arguments) => match &self.items.warm_start {
                    Some((_, first)) => {
                        let first = *first;
                        self.duplicate_item("warm_start", head(span), first);
                    }
                    None => self.items.warm_start = Some((Rc::new(arguments), head(span))),
                },
                ItemKind::Section(section) => self.add_section(section),
                ItemKind::Bad(names) => {
                    for name in names {
                        self.items.broken.insert(name.text, name.span);
                    }
                }
            }
        }
    }

    fn duplicate_item(&mut self, what: &str, span: Span, first: Span) {
        self.report(
            Diagnostic::new(
                Code::DuplicateItem,
                span,
                format!("there is a second `{what}`"),
            )
            .note_at(first, "the first one is here")
            .help("a spec has at most one: remove the other"),
        );
    }

    fn add_section(&mut self, section: ast::Section) {
        // What a setting with an error declares is unknown, not undeclared.
        for setting in &section.settings {
            if let ast::SettingValue::Bad(names) = &setting.value {
                let names = names.iter().map(|name| (name.text.clone(), name.span));
                self.items.broken.extend(names);
            }
        }
        let section = Rc::new(section);
        let keyword = section.keyword;
        match section.kind {
            SectionKind::Data => {
                let name = section.name.clone().expect("the grammar names data sets");
                let first = self
                    .items
                    .data
                    .iter()
                    .find_map(|d| d.name.as_ref().filter(|n| n.text == name.text).cloned());
                if let Some(first) = first {
                    self.duplicate_name("data set", &name, first.span);
                    return;
                }
                self.items.data.push(section);
            }
            SectionKind::Train => match self.items.train.clone() {
                Some(first) => self.duplicate_item("train", keyword, first.keyword),
                None => self.items.train = Some(section),
            },
            SectionKind::Eval => {
                let same = |e: &&Rc<ast::Section>| {
                    e.name.as_ref().map(|n| &n.text) == section.name.as_ref().map(|n| &n.text)
                };
                match self.items.evals.iter().find(same).cloned() {
                    Some(first) => self.duplicate_item("eval", keyword, first.keyword),
                    None => self.items.evals.push(section),
                }
            }
            SectionKind::Hooks => match self.items.hooks.clone() {
                Some(first) => self.duplicate_item("hooks", keyword, first.keyword),
                None => self.items.hooks = Some(section),
            },
        }
    }

    fn duplicate_name(&mut self, what: &str, name: &Name, first: Span) {
        self.report(
            Diagnostic::new(
                Code::DuplicateName,
                name.span,
                format!("the {what} `{}` is declared twice", name.text),
            )
            .note_at(first, "declared here first"),
        );
    }

    fn add_constant(&mut self, c: ast::Const) {
        if let Some(first) = self.items.constants.get(&c.name.text) {
            let first = first.name.span;
            self.duplicate_name("constant", &c.name, first);
            return;
        }
        // A file that several specs use may declare more than one of them needs.
        if self.items.root == Some(c.name.span.file) {
            self.declared
                .insert(c.name.span, ("constant", c.name.text.clone()));
        }
        self.items.constant_order.push(c.name.text.clone());
        self.items.constants.insert(
            c.name.text.clone(),
            Constant {
                name: c.name,
                value: Rc::new(c.value),
                state: ConstantState::Waiting,
            },
        );
    }

    fn add_definition(&mut self, file: FileId, ast: ast::Definition) {
        let key = (Space::of(ast.kind), ast.name.text.clone());
        if let Some(first) = self.items.definitions.get(&key) {
            let first = first.ast.name.span;
            self.duplicate_name(ast.kind.word(), &ast.name, first);
            return;
        }
        let def = Arc::new(Def {
            ast,
            file,
            library: false,
        });
        self.items.definitions.insert(key, def);
    }

    fn use_file(
        &mut self,
        from: FileId,
        path: &ast::StrLit,
        loader: &dyn Loader,
        files: &mut BTreeMap<String, Visit>,
        depth: usize,
    ) {
        let from_name = self.sources.get(from).name.clone();
        let (name, text) = match loader.load(&from_name, &path.value) {
            Ok(loaded) => loaded,
            Err(error) => {
                let message = match error {
                    LoadError::NotFound => format!("there is no file `{}`", path.value),
                    LoadError::Refused(why) => {
                        format!("the file `{}` cannot be used: {why}", path.value)
                    }
                };
                self.report(
                    Diagnostic::new(Code::UseFailed, path.span, message)
                        .help("the path is relative to the file that uses it"),
                );
                return;
            }
        };
        self.sources.add_use(&from_name, &path.value, &name);
        match files.get(&name) {
            Some(Visit::Open) => {
                self.report(
                    Diagnostic::new(
                        Code::UseCycle,
                        path.span,
                        format!(
                            "`{}` is already being read: files use each other in a circle",
                            path.value
                        ),
                    )
                    .help("move what both need into a third file"),
                );
                return;
            }
            // Every file counts once, however often it is used.
            Some(Visit::Done) => return,
            None => {}
        }
        if files.len() >= MAX_FILES || depth >= crate::check::MAX_EXPANSION_DEPTH {
            self.report(Diagnostic::new(
                Code::SpecTooLarge,
                path.span,
                format!(
                    "a spec is made of at most {MAX_FILES} files, {} deep",
                    crate::check::MAX_EXPANSION_DEPTH
                ),
            ));
            return;
        }
        files.insert(name.clone(), Visit::Open);
        let id = self.sources.add(&name, &text);
        let (parsed, errors) = syntax::parse(id, &text);
        for error in errors {
            self.report(error);
        }
        if let Some(header) = &parsed.file.header {
            self.edition(header);
        }
        self.take_items(id, parsed.file, loader, files, depth + 1);
        files.insert(name, Visit::Done);
    }

    // ---- Constants ----

    /// Overrides constants with the values of `--set`.
    pub(crate) fn apply_overrides(&mut self, options: &Options) {
        for (name, text) in &options.overrides {
            if !self.items.constants.contains_key(name) {
                let known: Vec<String> = self.items.constants.keys().cloned().collect();
                let near = nearest(name, known.iter().map(String::as_str));
                let help = match near {
                    Some(near) => Some(format!("did you mean `{near}`?")),
                    None if known.is_empty() => Some("it has no constants at all".to_owned()),
                    None => Some(format!(
                        "its constants are {}",
                        crate::diag::one_of(known.iter().map(String::as_str))
                            .replace(" or ", " and ")
                    )),
                };
                let message = format!("the spec has no constant `{name}` to set");
                self.report(Diagnostic::without_span(Code::BadOverride, message).maybe_help(help));
                continue;
            }
            let before = self.constant(name, Span::default());
            // A string needs no quotes here: the shell has removed them.
            let quoted = match &before {
                Some(Value::Str(_)) if !text.starts_with('"') => crate::syntax::quote(text),
                _ => text.clone(),
            };
            let line = format!("const {name} = {quoted};");
            let id = self.sources.add("--set", &line);
            let (mut parsed, errors) = syntax::parse(id, &line);
            let only = parsed
                .file
                .items
                .pop()
                .filter(|_| parsed.file.items.is_empty());
            let value = match only.map(|i| i.kind) {
                Some(ItemKind::Const(c)) if errors.is_empty() => c.value,
                _ => {
                    let message = format!("`{text}` is not a value for the constant `{name}`");
                    self.report(
                        Diagnostic::without_span(Code::BadOverride, message)
                            .help("a value is a number, `true`, `false`, a string in quotes, or a list of these"),
                    );
                    continue;
                }
            };
            let after = self.framed(Frame::new(FrameKind::Const, String::new()), |c| {
                c.eval(&value)
            });
            let fits = match (&before, &after) {
                (Some(Value::Float(_)), Value::Int(_)) => true,
                (Some(a), b) => {
                    std::mem::discriminant(a) == std::mem::discriminant(b) || a.is_poison()
                }
                (None, _) => true,
            };
            if after.is_poison() {
                continue;
            }
            if !fits {
                let was = before.as_ref().map(Value::describe).unwrap_or_default();
                let message = format!(
                    "the constant `{name}` is {was}, and cannot become {}",
                    after.describe()
                );
                self.report(Diagnostic::without_span(Code::BadOverride, message));
                continue;
            }
            let c = self.items.constants.get_mut(name).expect("looked up above");
            c.value = Rc::new(value);
            c.state = ConstantState::Done(after);
            // Constants that depend on this one are evaluated again.
            for (other, c) in &mut self.items.constants {
                if other != name && !options.overrides.iter().any(|(n, _)| n == other) {
                    c.state = ConstantState::Waiting;
                }
            }
        }
    }

    pub(crate) fn evaluate_constants(&mut self) {
        for name in self.items.constant_order.clone() {
            self.constant(&name, Span::default());
        }
    }

    pub(crate) fn printed_constants(&mut self) -> Vec<(String, String)> {
        let names = self.items.constant_order.clone();
        let mut printed = Vec::new();
        for name in names {
            let value = self.constant(&name, Span::default());
            if let Some(value) = value.filter(|value| !value.is_poison()) {
                printed.push((name, plain(&value)));
            }
        }
        printed
    }

    /// The value of a constant; `None` where there is none of that name.
    fn constant(&mut self, name: &str, used_at: Span) -> Option<Value> {
        let c = self.items.constants.get_mut(name)?;
        let (expr, name_span) = (c.value.clone(), c.name.span);
        match c.state.clone() {
            ConstantState::Done(value) => return Some(value),
            ConstantState::Running => {
                self.report(
                    Diagnostic::new(
                        Code::Recursion,
                        used_at,
                        format!("the constant `{name}` depends on itself"),
                    )
                    .note_at(name_span, "declared here"),
                );
                return Some(Value::Poison);
            }
            ConstantState::Waiting => c.state = ConstantState::Running,
        }
        let calls = std::mem::take(&mut self.calls);
        let frame = Frame::new(FrameKind::Const, String::new());
        let mut value = self.framed(frame, |c| c.eval(&expr));
        self.calls = calls;
        if let Value::Tensor(_) | Value::Callable(_) = value {
            value = self.wrong_kind(expr.span, "the value of a constant", &value);
        }
        if let Some(c) = self.items.constants.get_mut(name) {
            c.state = ConstantState::Done(value.clone());
        }
        Some(value)
    }

    // ---- Looking up ----

    /// Whether the user's spec has a constant of that name (the library sees its own names only).
    pub(crate) fn is_constant(&self, name: &str, span: Span) -> bool {
        !self.is_library_file(span.file) && self.items.constants.contains_key(name)
    }

    /// The span of the declaration of a constant.
    pub(crate) fn constant_place(&self, name: &str) -> Option<Span> {
        self.items.constants.get(name).map(|c| c.name.span)
    }

    /// Resolves a name outside of any frame.
    pub(crate) fn lookup_global(&mut self, name: &str, span: Span) -> Option<Value> {
        // The library sees its own names only: a user's `const n` must not change it.
        let library = self.is_library_file(span.file);
        if !library {
            if let Some(c) = self.items.constants.get(name) {
                let name_span = c.name.span;
                self.mark_used(name_span);
                return self.constant(name, span);
            }
            for space in [Space::Blocks, Space::Functions] {
                if let Some(def) = self.own_definition(space, name) {
                    return Some(Value::Callable(Callable::Def(def)));
                }
            }
            if self.items.broken.contains_key(name) {
                return Some(Value::Poison);
            }
        }
        match name {
            "training" => return Some(Value::Bool(self.training)),
            "none" => return Some(Value::None),
            "all_but_last" => return Some(Value::AllButLast),
            "data" if self.lifting.is_some() => return Some(Value::Data),
            _ => {}
        }
        if let Some(dtype) = DType::from_name(name) {
            return Some(Value::DType(dtype));
        }
        if let Some(builtin) = Builtin::from_name(name) {
            return Some(Value::Callable(Callable::Builtin(builtin)));
        }
        if let Some(def) = library::definition(Space::Blocks, name) {
            return Some(Value::Callable(Callable::Def(def)));
        }
        if let Some(def) = library::definition(Space::Functions, name) {
            return Some(Value::Callable(Callable::Def(def)));
        }
        self.lookup_operation(name, span)
    }

    fn own_definition(&self, space: Space, name: &str) -> Option<Arc<Def>> {
        self.items
            .definitions
            .get(&(space, name.to_owned()))
            .cloned()
    }

    /// Resolves `nn.NAME`: a `fn` of the library or an operation, never a block or an initializer.
    pub(crate) fn lookup_operation(&mut self, name: &str, span: Span) -> Option<Value> {
        let own = match self.is_library_file(span.file) {
            true => None,
            false => self.own_definition(Space::Functions, name),
        };
        if let Some(def) = own.or_else(|| library::definition(Space::Functions, name))
            && def.ast.kind == DefinitionKind::Fn
        {
            return Some(Value::Callable(Callable::Def(def)));
        }
        trainspec_ir::ops::find(name).map(|op| Value::Callable(Callable::Op(op)))
    }

    pub(crate) fn lookup_optimizer(&mut self, name: &str) -> Option<Arc<Def>> {
        self.own_definition(Space::Optimizers, name)
            .or_else(|| library::definition(Space::Optimizers, name))
    }

    /// A function of the library.
    pub(crate) fn library_function(&mut self, name: &str) -> Option<Arc<Def>> {
        library::definition(Space::Functions, name)
    }

    /// All user definitions that were not expanded, in source order.
    pub(crate) fn unexpanded(&self) -> Vec<Arc<Def>> {
        let mut left: Vec<Arc<Def>> = self
            .items
            .definitions
            .values()
            .filter(|d| !self.expanded.contains(&d.ast.name.span))
            .cloned()
            .collect();
        left.sort_by_key(|d| d.ast.name.span);
        left
    }

    pub(crate) fn is_broken(&self, name: &str) -> bool {
        self.items.broken.contains_key(name)
    }

    /// All names that could be meant somewhere, for suggestions.
    pub(crate) fn known_names(&mut self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for scope in self.frames.last().iter().flat_map(|f| &f.scopes) {
            names.extend(scope.keys().cloned());
        }
        names.extend(self.items.constants.keys().cloned());
        for space in [Space::Blocks, Space::Functions] {
            names.extend(self.names_in(space));
        }
        for op in TABLE {
            names.push(op.name.to_owned());
            names.extend(op.aliases.iter().map(|a| (*a).to_owned()));
        }
        names.extend(Builtin::ALL.iter().map(|b| b.name().to_owned()));
        names.extend(["step", "training", "none", "all_but_last"].map(str::to_owned));
        names
    }

    /// The names of all optimizers, for suggestions.
    pub(crate) fn known_optimizers(&mut self) -> Vec<String> {
        let mut names = self.names_in(Space::Optimizers);
        names.sort();
        names
    }

    fn names_in(&self, space: Space) -> Vec<String> {
        let own = self.items.definitions.keys().filter(|(s, _)| *s == space);
        own.map(|(_, name)| name.clone())
            .chain(library::names(space).map(str::to_owned))
            .collect()
    }
}

/// Progress of the depth-first traversal of `use`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    Open,
    Done,
}

/// The keyword of an item, for a caret that does not cover pages.
fn head(span: Span) -> Span {
    Span {
        end: span.end.min(span.start + 5),
        ..span
    }
}

/// A compile-time value in source form.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Int(n) => n.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Bool(b) => b.to_string(),
        Value::Str(t) => crate::syntax::quote(t),
        Value::DType(d) => d.to_string(),
        Value::List(list) => {
            let list: Vec<String> = list.iter().map(plain).collect();
            format!("[{}]", list.join(", "))
        }
        Value::Tuple(list) => {
            let list: Vec<String> = list.iter().map(plain).collect();
            format!("({})", list.join(", "))
        }
        Value::Range(a, b) => format!("{a}..{b}"),
        Value::Quantity(q) => format!("{} {}", q.amount, q.unit.word()),
        Value::None => "none".to_owned(),
        Value::AllButLast
        | Value::Data
        | Value::Tensor(_)
        | Value::Callable(_)
        | Value::Init(_)
        | Value::Poison => value.describe(),
    }
}
