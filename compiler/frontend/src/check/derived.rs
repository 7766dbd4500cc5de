//! Derived data sets: `source raw;` takes source, features and stages of another data set, and goes on from there.
//!
//! The other set is checked again, in the mode and in the place of the one that names it; so `training` in its maps is that of the set
//! that is used, and nothing of it is left at run time but the stages.

use std::rc::Rc;

use trainspec_ir::Span;

use crate::ast::{self, Argument, ExprKind, Name, PostfixKind, SettingValue};
use crate::builtins;
use crate::check::Checker;
use crate::check::data::Pipeline;
use crate::diag::{Code, Diagnostic};

/// A data set that a source names.
pub(super) struct Base {
    pub section: Rc<ast::Section>,
    pub name: Name,
    /// The files that are read instead.
    pub files: Vec<Argument>,
    /// The span of the name, where it is used.
    pub span: Span,
}

impl Checker<'_> {
    /// The data set that a `source` names; `None` where it has another form.
    pub(super) fn base_of(&self, setting: &ast::Setting) -> Option<Base> {
        let SettingValue::Value(expr) = &setting.value else {
            return None;
        };
        let (name, files, span) = match &expr.kind {
            ExprKind::Name(name) => (name, Vec::new(), expr.span),
            ExprKind::Postfix(base, ops) => match (&base.kind, ops.as_slice()) {
                (ExprKind::Name(name), [only]) => match &only.kind {
                    PostfixKind::Call(arguments) => (name, arguments.clone(), base.span),
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        };
        // A reader hides a data set of its name.
        if builtins::find("source", name).is_some() {
            return None;
        }
        let mut sections = self.items.data.iter();
        let section = sections.find(|s| s.name.as_ref().is_some_and(|n| n.text == *name))?;
        Some(Base {
            section: section.clone(),
            name: section.name.clone()?,
            files,
            span,
        })
    }

    /// The pipeline of a data set as far as it goes, for the set `name`, which goes on from there. `chain` is what is being derived.
    pub(super) fn derive(&mut self, base: &Base, chain: &mut Vec<Name>) -> Option<Pipeline> {
        self.mark_used(base.name.span);
        if let Some(first) = chain.iter().position(|name| name.text == base.name.text) {
            let members = chain.split_off(first);
            self.reject_circle(&members, base.span);
            return None;
        }
        let mut pipeline = self.data_settings(&base.section, &base.name, chain)?;
        if !base.files.is_empty() {
            let source = pipeline.source.take()?;
            pipeline.source = Some(self.other_files(source, &base.files, base.span)?);
        }
        pipeline.base = Some(base.name.clone());
        Some(pipeline)
    }

    /// Reports data sets that take their records from one another, once.
    pub(super) fn reject_circle(&mut self, members: &[Name], span: Span) {
        let is_known = members
            .iter()
            .any(|name| !self.circular_data.insert(name.text.clone()));
        if is_known {
            return;
        }
        let names: Vec<&str> = members.iter().map(|name| name.text.as_str()).collect();
        let message = match names[..] {
            [only] => format!("the data set `{only}` takes its records from itself"),
            _ => format!(
                "the data sets {} take their records from one another",
                crate::diag::one_of(names.iter().copied()).replace(" or ", " and ")
            ),
        };
        let mut error = Diagnostic::new(Code::Recursion, span, message)
            .help("one of them needs a source of its own: `source csv(\"...\");`");
        for name in members {
            error = error.note_at(name.span, format!("`{}` is declared here", name.text));
        }
        self.report(error);
    }

    /// The settings of a data set after those of the sets it is derived from, without their sources.
    pub(super) fn settings_with_bases(&self, section: &ast::Section) -> Vec<ast::Setting> {
        let mut all = section.settings.clone();
        let mut seen = vec![section.name.as_ref().map(|n| n.text.clone())];
        let mut source = section
            .settings
            .iter()
            .find(|s| s.word.text == "source")
            .cloned();
        while let Some(base) = source.as_ref().and_then(|s| self.base_of(s)) {
            let name = Some(base.name.text.clone());
            if seen.contains(&name) {
                break;
            }
            seen.push(name);
            let settings = &base.section.settings;
            source = settings.iter().find(|s| s.word.text == "source").cloned();
            let before = settings.iter().filter(|s| s.word.text != "source");
            all.splice(0..0, before.cloned());
        }
        all
    }
}
