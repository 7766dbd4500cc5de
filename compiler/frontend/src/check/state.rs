//! Names of state: all state is stored and checkpointed by name, so each name must be unique.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_ir::Span;

use crate::check::Checker;
use crate::diag::{Code, Diagnostic};
use crate::lower::{GLOBAL_STEP, GOOD_STEPS, LOSS_SCALE, MICRO_STEP, accumulator_names};
use crate::typed::{Group, LossScale, Role, Train};

/// A named state variable.
struct StateEntry {
    name: String,
    /// What it is, for the note.
    description: String,
    /// The span in the user's source; state that every training has is without one.
    span: Option<Span>,
    /// How to rename it.
    help: &'static str,
}

impl Checker<'_> {
    /// Rejects state of the same name: of variables, of optimizers, of averages and of the training itself.
    pub(crate) fn reject_shared_state(&mut self, train: Option<&Train>) {
        if self.has_errors() {
            return;
        }
        let mut first: BTreeMap<String, StateEntry> = BTreeMap::new();
        let mut reported = BTreeSet::new();
        for entry in self.all_state(train) {
            let Some(older) = first.get(&entry.name) else {
                first.insert(entry.name.clone(), entry);
                continue;
            };
            let span = entry.span.or(older.span);
            // A definition that is used for many variables would give the same error for each.
            let (Some(span), true) = (span, reported.insert((entry.span, older.span))) else {
                continue;
            };
            let message = format!("two states would be called `{}`", entry.name);
            let mut error =
                Diagnostic::new(Code::VariableConflict, span, message).label(entry.description);
            error = match older.span {
                Some(other) if other != span => error.note_at(other, older.description.clone()),
                Some(_) => error.note("both are made here"),
                None => error.note(format!("the other is {}", older.description)),
            };
            self.report(error.help(entry.help));
        }
    }

    /// All state in the order of declaration, so that the later one of two is reported.
    fn all_state(&self, train: Option<&Train>) -> Vec<StateEntry> {
        let help = "give one of them a name of its own: `as \"name\"`";
        let mut all = vec![StateEntry {
            name: GLOBAL_STEP.to_owned(),
            description: "the count of completed updates".to_owned(),
            span: None,
            help,
        }];
        for variable in &self.store.variables {
            all.push(StateEntry {
                name: variable.name.clone(),
                description: match variable.role {
                    Role::Param => "a `param` of the model".to_owned(),
                    Role::State => "a `state` of the model".to_owned(),
                },
                span: Some(variable.span),
                help,
            });
        }
        let Some(train) = train else {
            return all;
        };
        for group in &train.groups {
            self.of_group(group, help, &mut all);
        }
        for average in &train.averages {
            all.extend(average.state.iter().map(|state| StateEntry {
                name: state.name.clone(),
                description: "part of this average".to_owned(),
                span: Some(average.span),
                help: "give the averages a name of their own: `name: \"slow\"`",
            }));
        }
        self.of_training(train, help, &mut all);
        all
    }

    fn of_group(&self, group: &Group, help: &'static str, all: &mut Vec<StateEntry>) {
        // State that the library declares is reported where it is used.
        let reported_at = |declared| match self.is_library(declared) {
            true => group.span,
            false => declared,
        };
        for update in &group.updates {
            let variable = &self.store.variables[update.variable.0 as usize].name;
            for slot in &update.slots {
                all.push(StateEntry {
                    name: slot.state_name(variable),
                    description: format!("the slot `{}` of `{}`", slot.name, group.optimizer),
                    span: Some(reported_at(slot.span)),
                    help,
                });
            }
        }
        for scalar in &group.scalars {
            all.push(StateEntry {
                name: scalar.name.clone(),
                description: format!("the scalar `{}` of `{}`", scalar.source, group.optimizer),
                span: Some(reported_at(scalar.span)),
                help,
            });
        }
    }

    /// The state of `accumulate` and `loss_scale`.
    fn of_training(&self, train: &Train, help: &'static str, all: &mut Vec<StateEntry>) {
        let section = self.items.train.as_ref();
        let setting_span = |word: &str| {
            let mut settings = section.iter().flat_map(|s| &s.settings);
            settings.find(|s| s.word.text == word).map(|s| s.span)
        };
        let mut keep = |name: String, word: &str| {
            all.push(StateEntry {
                name,
                description: format!("kept by `{word}`"),
                span: setting_span(word),
                help,
            });
        };
        if train.accumulate > 1 {
            keep(MICRO_STEP.to_owned(), "accumulate");
            for update in train.groups.iter().flat_map(|g| &g.updates) {
                let variable = &self.store.variables[update.variable.0 as usize];
                for name in accumulator_names(train, &variable.name) {
                    keep(name, "accumulate");
                }
            }
        }
        if let Some(LossScale::Dynamic { .. }) = train.loss_scale {
            keep(LOSS_SCALE.to_owned(), "loss_scale");
            keep(GOOD_STEPS.to_owned(), "loss_scale");
        }
    }
}
