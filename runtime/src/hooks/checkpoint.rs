//! `checkpoint`: saves the state at an interval and at the end (`tf.train.CheckpointSaverHook`).
//!
//! A save is made by a thread from a copy of the state, so that training goes on. What is saved is exact: variables, slots, averages, the
//! step, and the records of the session, among them the position of the input. A save of a part of the state has no position.

use std::path::PathBuf;

use trainspec_compiler::check::matches;
use trainspec_compiler::typed::Interval;

use crate::Error;
use crate::Graph;
use crate::coordinator::Coordinator;
use crate::data_watch::DataWatch;
use crate::hooks::best::{BEST_RECORD, BestSaver};
use crate::hooks::event_files::EventFiles;
use crate::hooks::{CheckpointSaverListener, SessionRunContext, SessionRunHook, SessionRunValues};
use crate::machine::{self, MACHINE_RECORD};
use crate::run_description::IDENTITY_RECORD;
use crate::saver::{BackgroundSaver, HELD_RECORD, Records, Saver, VarList, is_scratch};
use crate::session::{End, EventQueue, Saves, Session, Timer};

/// The `checkpoint` hook of a spec.
pub(crate) struct CheckpointHook {
    saver: BackgroundSaver,
    prefix: PathBuf,
    timer: Timer,
    events: EventQueue,
    files: EventFiles,
    saved_step: u64,
    /// The records of that save: an evaluation after it may add to them.
    saved_records: Records,
    /// The patterns of the state that is saved, where it is not all.
    held: Option<Vec<String>>,
    best: Option<BestSaver>,
    /// The data files, which must not change.
    data: Option<DataWatch>,
    identity: Option<String>,
    /// With listeners a save is waited for.
    listeners: Vec<Box<dyn CheckpointSaverListener>>,
}

impl CheckpointHook {
    pub(crate) fn new(
        saver: Saver,
        best: Option<BestSaver>,
        prefix: PathBuf,
        every: Interval,
        events: EventQueue,
        files: EventFiles,
    ) -> CheckpointHook {
        let held = match &saver.options().var_list {
            VarList::Matching(patterns) => Some(patterns.clone()),
            VarList::All | VarList::Names(_) | VarList::Map(_) => None,
        };
        CheckpointHook {
            saver: BackgroundSaver::new(saver),
            prefix,
            timer: Timer::every(every),
            events,
            files,
            saved_step: 0,
            saved_records: Records::default(),
            held,
            best,
            data: None,
            identity: None,
            listeners: Vec::new(),
        }
    }

    /// Tells these of every save.
    pub(crate) fn telling(self, listeners: Vec<Box<dyn CheckpointSaverListener>>) -> Self {
        CheckpointHook { listeners, ..self }
    }

    /// Writes the record of its training into every checkpoint.
    pub(crate) fn of(self, identity: Option<String>) -> CheckpointHook {
        CheckpointHook { identity, ..self }
    }

    /// Saves nothing once one of these data files has changed.
    pub(crate) fn watching(self, data: Option<DataWatch>) -> CheckpointHook {
        CheckpointHook { data, ..self }
    }

    fn ensure_same_data(&mut self) -> Result<(), Error> {
        self.data
            .as_mut()
            .map_or(Ok(()), DataWatch::ensure_unchanged)
    }

    fn saves(&self) -> Saves {
        match self.held {
            Some(_) => Saves::Part,
            None => Saves::All,
        }
    }

    /// Saves; whether a listener asks the run to stop.
    fn save(&mut self, session: &mut Session) -> Result<bool, Error> {
        let step = session.global_step();
        self.ensure_same_data()?;
        for listener in &mut self.listeners {
            listener.before_save(session, step)?;
        }
        session.keep_position(self.saves());
        // Also the best checkpoint, which the records name: it is safe before a checkpoint says that it is there.
        self.finished()?;
        // What was written before a checkpoint is there when a killed run is resumed from it: one curve, without a gap.
        self.files.flush();
        let (state, records) = (session.state(), session.records());
        self.saver
            .start(session.engine(), state, records, &self.prefix, step)?;
        self.saved_step = step;
        self.saved_records = session.records().clone();
        if self.listeners.is_empty() {
            return Ok(false);
        }
        self.finished()?;
        let mut stops = false;
        for listener in &mut self.listeners {
            stops |= listener.after_save(session, step)?;
        }
        Ok(stops)
    }

    /// Waits for the saves that are under way, and reports them.
    fn finished(&mut self) -> Result<(), Error> {
        if let Some(best) = &mut self.best {
            best.finished(&self.events)?;
        }
        self.saver.report(&self.events)
    }

    fn keep_best(&mut self, session: &mut Session) -> Result<(), Error> {
        let saves = self.saves();
        let data = &mut self.data;
        match &mut self.best {
            Some(best) => best.consider(session, saves, data, &self.events, &self.files),
            None => Ok(()),
        }
    }
}

impl SessionRunHook for CheckpointHook {
    fn begin(&mut self, _: &mut Graph) -> Result<(), Error> {
        let mut listeners = self.listeners.iter_mut();
        listeners.try_for_each(|listener| listener.begin())
    }

    fn after_create_session(
        &mut self,
        session: &mut Session,
        _: &Coordinator,
    ) -> Result<(), Error> {
        self.timer.begin(&session.progress());
        self.saved_step = session.global_step();
        // Patterns that match all of the state leave nothing out.
        let leaves_out = |patterns: &Vec<String>| {
            let mut names = session.state().names().iter();
            names.any(|name| !is_scratch(name) && !patterns.iter().any(|one| matches(one, name)))
        };
        self.held = self.held.take().filter(leaves_out);
        let machine = machine::record(session.engine());
        let records = session.records_mut();
        records.insert(MACHINE_RECORD, machine);
        if let Some(identity) = &self.identity {
            records.insert(IDENTITY_RECORD, identity);
        }
        match &self.held {
            Some(patterns) => records.insert(HELD_RECORD, patterns.join("\n")),
            None => records.remove(HELD_RECORD),
        };
        if let Some(best) = &mut self.best {
            best.resume(records, &self.events);
        }
        // What evaluations before this hook have added is to be saved; what only says who computes is not worth a save.
        self.saved_records = session.restored_records().clone();
        for name in [MACHINE_RECORD, IDENTITY_RECORD, HELD_RECORD, BEST_RECORD] {
            match session.records().get(name).map(ToOwned::to_owned) {
                Some(text) => self.saved_records.insert(name, text),
                None => self.saved_records.remove(name),
            };
        }
        self.saver.reserve(session.state())?;
        // An evaluation that was owed has just been made.
        self.keep_best(session)
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        self.keep_best(context.session)?;
        let now = context.session.progress();
        if self.timer.triggers(&now) {
            if self.save(context.session)? {
                self.events.end(End::Hook("checkpoint".to_owned()));
                context.request_stop();
            }
            return Ok(());
        }
        // A save that is done is reported, and one that failed ends the run, at the next step.
        if let Some(best) = self.best.as_mut().filter(|best| best.is_finished()) {
            best.finished(&self.events)?;
        }
        match self.saver.is_finished() {
            true => self.saver.report(&self.events),
            false => Ok(()),
        }
    }

    fn end(&mut self, session: &mut Session) -> Result<(), Error> {
        self.keep_best(session)?;
        if session.global_step() != self.saved_step || *session.records() != self.saved_records {
            self.save(session)?;
        }
        self.finished()?;
        let step = session.global_step();
        let mut listeners = self.listeners.iter_mut();
        listeners.try_for_each(|listener| listener.end(session, step))
    }
}
