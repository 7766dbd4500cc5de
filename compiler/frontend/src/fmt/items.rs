//! Files, items and settings.

use super::doc::Doc;
use super::{Blank, Printer};
use crate::ast::*;

/// The longest word of a setting, in columns, to which values are aligned.
const MAX_ALIGNED_WORD: usize = 12;

impl Printer<'_> {
    pub(super) fn file(&mut self, file: &File) {
        let line = || Doc::Hard { blank: false };
        if let Some(header) = &file.header {
            self.separate(Blank::None, line());
            self.header(header);
        }
        let mut before: Option<&Item> = None;
        for item in &file.items {
            let blank = match before {
                Some(before) if stands_in_rows(before) && stands_in_rows(item) => Blank::AsWritten,
                Some(_) => Blank::One,
                None if file.header.is_some() => Blank::One,
                None => Blank::AsWritten,
            };
            self.separate(blank, line());
            self.item(item);
            before = Some(item);
        }
        self.flush_between(Blank::AsWritten);
    }

    fn header(&mut self, header: &Header) {
        self.token("spec");
        self.push(" ");
        self.name(&header.name);
        if let Some(edition) = &header.edition {
            self.closing(",");
            self.push(" ");
            self.token("edition");
            self.push(" ");
            self.number(edition);
        }
        self.closing(";");
    }

    fn item(&mut self, item: &Item) {
        match &item.kind {
            ItemKind::Const(constant) => {
                self.token("const");
                self.push(" ");
                self.name(&constant.name);
                self.assigned("=", &constant.value);
                self.closing(";");
            }
            ItemKind::Use(path) => {
                self.token("use");
                self.push(" ");
                self.text(path);
                self.closing(";");
            }
            ItemKind::WarmStart(arguments) => {
                self.token("warm_start");
                self.push(" ");
                self.arguments(arguments);
                self.closing(";");
            }
            ItemKind::Model(model) => {
                self.token("model");
                self.push(" ");
                self.params(&model.params);
                self.push(" ");
                self.group_with_braces(|p| p.body(&model.body));
            }
            ItemKind::Section(section) => {
                self.token(section.kind.word());
                self.push(" ");
                if let Some(name) = &section.name {
                    self.name(name);
                    self.push(" ");
                }
                self.settings(&section.settings);
            }
            ItemKind::Definition(definition) => self.definition(definition),
            ItemKind::Bad(_) => unreachable!("a text with errors is refused"),
        }
    }

    fn definition(&mut self, definition: &Definition) {
        self.token(definition.kind.word());
        self.push(" ");
        self.name(&definition.name);
        self.params(&definition.params);
        self.alias(definition.alias.as_ref());
        self.bounds(&definition.bounds);
        match &definition.body {
            DefinitionBody::Body(body) => {
                self.push(" ");
                self.group_with_braces(|p| p.body(body));
            }
            DefinitionBody::Value(value) => {
                self.assigned("=", value);
                self.closing(";");
            }
        }
    }

    fn params(&mut self, params: &[Param]) {
        self.list("(", params, ")", |p, param| {
            if param.is_const {
                p.token("const");
                p.push(" ");
            }
            p.name(&param.name);
            p.type_of(param.ty.as_ref());
            p.bound_and_default(param.bound.as_ref(), param.default.as_ref());
        });
    }

    /// ` in bound = default`
    fn bound_and_default(&mut self, bound: Option<&Expr>, default: Option<&Expr>) {
        if let Some(bound) = bound {
            self.word_before("in", bound);
        }
        if let Some(default) = default {
            self.word_before("=", default);
        }
    }

    /// ` where T: float, I: int`
    fn bounds(&mut self, bounds: &[Bound]) {
        if bounds.is_empty() {
            return;
        }
        self.word("where");
        self.group(|p| {
            p.indent(|p| {
                for (i, bound) in bounds.iter().enumerate() {
                    if i > 0 {
                        p.closing(",");
                        p.line(" ");
                    }
                    p.name(&bound.name);
                    p.token(":");
                    p.push(" ");
                    p.name(&bound.class);
                }
            });
        });
    }

    /// Settings in braces. Where each has its line, what follows their words is set in a column.
    fn settings(&mut self, settings: &[Setting]) {
        let column = settings
            .iter()
            .filter(|s| has_value(s))
            .map(|s| s.word.text.len())
            .filter(|length| *length <= MAX_ALIGNED_WORD)
            .max()
            .unwrap_or(0);
        self.group_with_braces(|p| {
            p.braces(settings.len(), false, |p, i| {
                p.setting(&settings[i], column)
            });
        });
    }

    fn setting(&mut self, setting: &Setting, column: usize) {
        self.name(&setting.word);
        if has_value(setting) {
            let padding = column.saturating_sub(setting.word.text.len());
            self.out.push(Doc::IfBroken(" ".repeat(padding)));
        }
        match &setting.value {
            SettingValue::None => {}
            SettingValue::Declaration(declaration) => {
                self.push(" ");
                self.name(&declaration.name);
                self.type_of(Some(&declaration.ty));
                self.alias(declaration.alias.as_ref());
                if let Some(columns) = &declaration.columns {
                    self.word("as");
                    self.list("[", columns, "]", |p, column| p.text(column));
                }
                self.bound_and_default(declaration.bound.as_ref(), declaration.default.as_ref());
            }
            SettingValue::Assignment(pattern, value) => {
                self.push(" ");
                self.pattern(pattern);
                self.assigned("=", value);
            }
            SettingValue::Arguments(arguments) => {
                self.push(" ");
                self.arguments(arguments);
            }
            SettingValue::Value(value) => {
                self.push(" ");
                self.expr(value);
            }
            SettingValue::Bad(_) => unreachable!("a text with errors is refused"),
        }
        for clause in &setting.clauses {
            match clause {
                Clause::For(pattern) => self.word_before("for", pattern),
                Clause::Minimizing(name) => {
                    self.word("minimizing");
                    self.name(name);
                }
            }
        }
        match &setting.body {
            Some(body) => {
                self.push(" ");
                self.settings(body);
                if self.at(";") {
                    self.skip(";");
                }
            }
            None => self.closing(";"),
        }
    }
}

/// Items that may follow each other without an empty line.
fn stands_in_rows(item: &Item) -> bool {
    matches!(item.kind, ItemKind::Const(_) | ItemKind::Use(_))
}

/// Whether something other than a body follows the setting's word.
fn has_value(setting: &Setting) -> bool {
    !matches!(setting.value, SettingValue::None) || !setting.clauses.is_empty()
}
