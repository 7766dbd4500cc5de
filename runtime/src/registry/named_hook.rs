//! A registered hook under the name that the spec has for it.

use crate::hooks::{SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::session::{End, EventQueue};
use crate::{Coordinator, Error, Graph, Session};

/// Passes every call on; where the hook ends the run, the run says so.
pub(super) struct NamedHook {
    name: String,
    hook: Box<dyn SessionRunHook>,
    events: EventQueue,
}

impl NamedHook {
    pub(super) fn new(
        name: String,
        hook: Box<dyn SessionRunHook>,
        events: EventQueue,
    ) -> NamedHook {
        NamedHook { name, hook, events }
    }

    fn stopped(&self, before: bool, context: &SessionRunContext<'_>) {
        if context.stop_requested() && !before {
            self.events.end(End::Hook(self.name.clone()));
        }
    }
}

impl SessionRunHook for NamedHook {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn begin(&mut self, graph: &mut Graph) -> Result<(), Error> {
        self.hook.begin(graph)
    }

    fn after_create_session(
        &mut self,
        session: &mut Session,
        coordinator: &Coordinator,
    ) -> Result<(), Error> {
        self.hook.after_create_session(session, coordinator)
    }

    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        let before = context.stop_requested();
        let asked = self.hook.before_run(context);
        self.stopped(before, context);
        asked
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let before = context.stop_requested();
        let ran = self.hook.after_run(context, values);
        self.stopped(before, context);
        ran
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        self.hook.end(session)
    }
}
