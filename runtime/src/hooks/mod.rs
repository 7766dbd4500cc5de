//! Session hooks of the training loop: one file per hook, and [`Hooks`], which holds those of a spec.
//!
//! In: the hooks of a spec, and after each step its progress, batch and fetched results. Out: values to show, a reason to stop, or an
//! error. Leaves alone: hooks that are not run yet, which are listed in [`Hooks::ignored`].

mod log;
mod nan;
mod stop_at;

use trainspec_compiler::typed::{HookKind, Mode, NamedKind, Spec};

use crate::data::Element;
use crate::program::Fetched;
use crate::session::{Progress, Reading};
use crate::{Error, State};
use log::{LogHook, Logged};
use nan::NanHook;

/// The hooks of a run.
#[derive(Debug)]
pub(crate) struct Hooks<'a> {
    spec: &'a Spec,
    logs: Vec<LogHook>,
    nans: Vec<NanHook>,
    /// The last step that the `stop_at` hooks allow.
    pub(crate) last_step: Option<u64>,
    /// Hooks that are not run, each once.
    pub(crate) ignored: Vec<String>,
}

impl<'a> Hooks<'a> {
    /// The hooks of a spec. Without a `log` hook all losses and metrics are logged; every loss has a `nan` hook.
    pub(crate) fn new(spec: &'a Spec, mode: &Mode) -> Hooks<'a> {
        let mut hooks = Hooks {
            spec,
            logs: Vec::new(),
            nans: Vec::new(),
            last_step: None,
            ignored: Vec::new(),
        };
        for hook in &spec.hooks {
            hooks.add(&hook.kind);
        }
        if hooks.logs.is_empty() {
            hooks.logs.push(LogHook::default_of(mode));
        }
        for (loss, _) in &mode.losses {
            if !hooks.nans.iter().any(|nan| nan.name == *loss) {
                hooks.nans.push(NanHook {
                    name: loss.clone(),
                    fail: true,
                });
            }
        }
        hooks
    }

    fn add(&mut self, hook: &HookKind) {
        match hook {
            HookKind::Log {
                names,
                every,
                at_end,
            } => {
                let mut logged = Vec::new();
                for named in names {
                    match &named.kind {
                        NamedKind::Value(name) => logged.push(Logged::Value(name.clone())),
                        NamedKind::Variables(pattern) => {
                            let variables = self.spec.variables_matching(pattern);
                            logged.extend(variables.map(|v| Logged::Variable(v.name.clone())));
                        }
                    }
                }
                self.logs.push(LogHook::new(logged, *every, *at_end));
            }
            HookKind::Nan { name, fail } => self.nans.push(NanHook {
                name: name.clone(),
                fail: *fail,
            }),
            HookKind::StopAt(bound) => {
                let last = stop_at::last_step(*bound);
                self.last_step = Some(self.last_step.map_or(last, |n| n.min(last)));
            }
            HookKind::Checkpoint { .. }
            | HookKind::Summary { .. }
            | HookKind::StepCounter { .. }
            | HookKind::Profile { .. }
            | HookKind::WaitForStep { .. }
            | HookKind::FinalOps { .. }
            | HookKind::Registered(_)
            | HookKind::Feed(_) => self.ignore(hook.word()),
        }
    }

    fn ignore(&mut self, hook: &str) {
        if !self.ignored.iter().any(|known| known == hook) {
            self.ignored.push(hook.to_owned());
        }
    }

    /// The values that are shown after a step; `None` where no `log` hook triggers.
    pub(crate) fn logged(
        &mut self,
        progress: &Progress,
        last: bool,
        batch: &Element,
        fetched: &Fetched,
        state: &State,
    ) -> Option<Vec<(String, Reading)>> {
        let mut names: Vec<&Logged> = Vec::new();
        let mut any = false;
        for log in &mut self.logs {
            if log.triggers(progress, last) {
                any = true;
                let new = log.names.iter();
                let new: Vec<&Logged> = new.filter(|name| !names.contains(name)).collect();
                names.extend(new);
            }
        }
        let spec = self.spec;
        let reading = |logged: &Logged| match logged {
            Logged::Value(name) => {
                let value = log::read(spec, progress, batch, fetched, name)?;
                Some((name.clone(), value))
            }
            Logged::Variable(name) => Some((name.clone(), log::reading_of(state.get(name)?))),
        };
        any.then(|| names.into_iter().filter_map(reading).collect())
    }

    /// The first value that is not finite among those that `nan` hooks check; an error where the hook fails the run.
    ///
    /// Where the update was skipped infinities pass: the loss scale is about to shrink.
    pub(crate) fn find_not_finite(
        &self,
        batch: &Element,
        fetched: &Fetched,
        skipped: bool,
    ) -> Result<Option<String>, Error> {
        for hook in &self.nans {
            if hook.finds(self.spec, batch, fetched, skipped)? {
                return Ok(Some(hook.name.clone()));
            }
        }
        Ok(None)
    }
}
