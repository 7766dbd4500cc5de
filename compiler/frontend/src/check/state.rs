//! The names of state: all that outlives a step is state, saved and found by name, so each name is given once.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_ir::Span;

use crate::check::Checker;
use crate::diag::{Code, Diagnostic};
use crate::lower::{GLOBAL_STEP, GOOD_STEPS, LOSS_SCALE, MICRO, accumulated};
use crate::typed::{Group, LossScale, Role, Train};

/// Something that has a name in the state.
struct Entry {
    name: String,
    /// What it is, as a note says it.
    what: String,
    /// Where the user can see it; what every training keeps has no place.
    place: Option<Span>,
    /// How to call it otherwise.
    help: &'static str,
}

impl Checker<'_> {
    /// Refuses state of the same name: of variables, of optimizers, of averages and of the training itself.
    pub(crate) fn refuse_shared_state(&mut self, train: Option<&Train>) {
        if self.has_errors() {
            return;
        }
        let mut first: BTreeMap<String, Entry> = BTreeMap::new();
        let mut reported = BTreeSet::new();
        for entry in self.all_state(train) {
            let Some(older) = first.get(&entry.name) else {
                first.insert(entry.name.clone(), entry);
                continue;
            };
            let place = entry.place.or(older.place);
            // A definition that is used for many variables makes the same mistake for each.
            let (Some(place), true) = (place, reported.insert((entry.place, older.place))) else {
                continue;
            };
            let message = format!("two states would be called `{}`", entry.name);
            let mut error =
                Diagnostic::new(Code::VariableConflict, place, message).label(entry.what);
            error = match older.place {
                Some(other) if other != place => error.note_at(other, older.what.clone()),
                Some(_) => error.note("both are made here"),
                None => error.note(format!("the other is {}", older.what)),
            };
            self.report(error.help(entry.help));
        }
    }

    /// What there is first comes first, so that the later one is blamed.
    fn all_state(&self, train: Option<&Train>) -> Vec<Entry> {
        let help = "give one of them a name of its own: `as \"name\"`";
        let mut all = vec![Entry {
            name: GLOBAL_STEP.to_owned(),
            what: "the count of completed updates".to_owned(),
            place: None,
            help,
        }];
        for variable in &self.store.variables {
            all.push(Entry {
                name: variable.name.clone(),
                what: match variable.role {
                    Role::Param => "a `param` of the model".to_owned(),
                    Role::State => "a `state` of the model".to_owned(),
                },
                place: Some(variable.span),
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
            all.extend(average.state.iter().map(|state| Entry {
                name: state.name.clone(),
                what: "part of this average".to_owned(),
                place: Some(average.span),
                help: "give the averages a name of their own: `name: \"slow\"`",
            }));
        }
        self.of_training(train, help, &mut all);
        all
    }

    fn of_group(&self, group: &Group, help: &'static str, all: &mut Vec<Entry>) {
        // What the library declares is told where it is used.
        let place = |declared| match self.is_library(declared) {
            true => group.span,
            false => declared,
        };
        for slot in group.updates.iter().flat_map(|u| &u.slots) {
            all.push(Entry {
                name: slot.variable.clone(),
                what: format!("the slot `{}` of `{}`", slot.name, group.optimizer),
                place: Some(place(slot.span)),
                help,
            });
        }
        for scalar in &group.scalars {
            all.push(Entry {
                name: scalar.name.clone(),
                what: format!("the scalar `{}` of `{}`", scalar.source, group.optimizer),
                place: Some(place(scalar.span)),
                help,
            });
        }
    }

    /// What `accumulate` and `loss_scale` keep.
    fn of_training(&self, train: &Train, help: &'static str, all: &mut Vec<Entry>) {
        let section = self.items.train.as_ref();
        let place = |word: &str| {
            let mut settings = section.iter().flat_map(|s| &s.settings);
            settings.find(|s| s.word.text == word).map(|s| s.span)
        };
        let mut keep = |name: String, word: &str| {
            all.push(Entry {
                name,
                what: format!("kept by `{word}`"),
                place: place(word),
                help,
            });
        };
        if train.accumulate > 1 {
            keep(MICRO.to_owned(), "accumulate");
            for update in train.groups.iter().flat_map(|g| &g.updates) {
                let variable = &self.store.variables[update.variable.0 as usize];
                keep(accumulated(&variable.name), "accumulate");
            }
        }
        if let Some(LossScale::Dynamic { .. }) = train.loss_scale {
            keep(LOSS_SCALE.to_owned(), "loss_scale");
            keep(GOOD_STEPS.to_owned(), "loss_scale");
        }
    }
}
