//! Monitored sessions and coordinators: the order of calls, recovery and ends that TensorFlow's have, over a compiled spec.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value as Json;
use trainspec::InputView;
use trainspec::hooks::{
    SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues, StopAtStepHook,
};
use trainspec::monitored::{InitialSession, MonitoredSession};
use trainspec::session::{Session, Target};
use trainspec::{Cause, Code, Coordinator, Error, Graph, LooperThread};

use crate::saver::cases;
use crate::support::spec;

pub(crate) type Trace = Arc<Mutex<Vec<String>>>;

/// The calls of a hook.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Call {
    Begin,
    AfterCreate,
    BeforeRun,
    AfterRun,
    End,
}

/// What a hook does at one of its calls.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Fail(Error),
    Stop,
}

/// Writes each call into the trace.
struct TracingHook {
    name: &'static str,
    trace: Trace,
    fetches_step: bool,
    acts: Option<(Call, usize, Act)>,
    calls: Vec<Call>,
}

impl TracingHook {
    fn called(&mut self, call: Call, text: String) -> Result<bool, Error> {
        self.trace
            .lock()
            .unwrap()
            .push(format!("{}.{text}", self.name));
        self.calls.push(call);
        let count = self.calls.iter().filter(|c| **c == call).count();
        match &self.acts {
            Some((at, n, act)) if *at == call && *n == count => match act {
                Act::Fail(error) => Err(error.clone()),
                Act::Stop => Ok(true),
            },
            _ => Ok(false),
        }
    }
}

impl SessionRunHook for TracingHook {
    fn begin(&mut self, _: &mut Graph) -> Result<(), Error> {
        self.called(Call::Begin, "begin".into()).map(drop)
    }

    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        let text = "after_create_session".into();
        self.called(Call::AfterCreate, text).map(drop)
    }

    fn before_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        if self.called(Call::BeforeRun, "before_run".into())? {
            context.request_stop();
        }
        let step = Target::Variable("global_step".into());
        Ok(self.fetches_step.then(|| SessionRunArgs::fetch([step])))
    }

    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        values: &SessionRunValues,
    ) -> Result<(), Error> {
        let text = match values.get(0) {
            Some(step) => format!("after_run results={}", step.to_i64s()[0]),
            None => "after_run".to_owned(),
        };
        assert_eq!(values.results.is_some(), self.fetches_step);
        assert_eq!(context.original_args, [Target::TrainOp]);
        if self.called(Call::AfterRun, text)? {
            context.request_stop();
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        self.called(Call::End, "end".into()).map(drop)
    }
}

/// A scenario: hooks, a number of runs, and what happens in the block.
pub(crate) struct Scenario {
    pub(crate) trace: Trace,
    pub(crate) hooks: Vec<Box<dyn SessionRunHook>>,
    runs: usize,
    singular: bool,
    /// What the caller's own code fails with after the second run.
    block: Option<Error>,
    /// Whether the trace says where runs are.
    quiet: bool,
}

impl Scenario {
    pub(crate) fn new(runs: usize) -> Scenario {
        Scenario {
            trace: Trace::default(),
            hooks: Vec::new(),
            runs,
            singular: false,
            block: None,
            quiet: false,
        }
    }

    pub(crate) fn hook(mut self, name: &'static str) -> Scenario {
        self.push(name, false, None);
        self
    }

    pub(crate) fn stepping(mut self, name: &'static str) -> Scenario {
        self.push(name, true, None);
        self
    }

    pub(crate) fn acting(mut self, name: &'static str, call: Call, n: usize, act: Act) -> Scenario {
        self.push(name, false, Some((call, n, act)));
        self
    }

    fn push(&mut self, name: &'static str, step: bool, acts: Option<(Call, usize, Act)>) {
        self.hooks.push(Box::new(TracingHook {
            name,
            trace: self.trace.clone(),
            fetches_step: step,
            acts,
            calls: Vec::new(),
        }));
    }

    pub(crate) fn with(mut self, hook: impl SessionRunHook + 'static) -> Scenario {
        self.hooks.push(Box::new(hook));
        self
    }

    pub(crate) fn say(&self, text: impl Into<String>) {
        self.trace.lock().unwrap().push(text.into());
    }

    /// Runs it as a `with` block would; gives the error that leaves the block.
    fn run(&mut self) -> Result<(), Error> {
        let (graph, creator) = (Graph::new(&line()), Box::<InitialSession>::default());
        let hooks = std::mem::take(&mut self.hooks);
        let session = match self.singular {
            true => MonitoredSession::singular(graph, creator, hooks)?,
            false => MonitoredSession::new(graph, creator, hooks)?,
        };
        self.run_in(session)
    }

    /// Runs it in a session that has its hooks.
    pub(crate) fn run_in(&mut self, mut session: MonitoredSession) -> Result<(), Error> {
        if !self.quiet {
            self.say("session created");
        }
        let block = self.block(&mut session);
        session.close_after(block.err())
    }

    fn block(&self, session: &mut MonitoredSession) -> Result<(), Error> {
        let values = [1.0_f32, 2.0];
        let view = InputView::new(&[2], &values);
        let feeds = [("x", view), ("y", view)];
        for i in 0..self.runs {
            if session.should_stop() {
                self.say("should_stop");
                break;
            }
            if let Err(error) = session.run("train_op", &feeds) {
                self.say(format!("run {i} raised {}", class(&error)));
                return Err(error);
            }
            if self.block.is_none() || !is_out_of_range(self.block.as_ref()) {
                self.say(format!("run {i}"));
            }
            if let (1, Some(error)) = (i, &self.block) {
                return Err(error.clone());
            }
        }
        self.say("leaving with block");
        Ok(())
    }
}

fn is_out_of_range(error: Option<&Error>) -> bool {
    error.is_some_and(|error| error.code() == Code::OutOfRange)
}

/// TensorFlow's class of an error.
pub(crate) fn class(error: &Error) -> &'static str {
    match (&error.cause, error.code()) {
        (Cause::StopIteration, _) => "StopIteration",
        (_, Code::Aborted) => "AbortedError",
        (_, Code::OutOfRange) => "OutOfRangeError",
        (_, Code::InvalidArgument) => "ValueError",
        (_, Code::Unknown) => "KeyError",
        (_, other) => panic!("{other:?}: {error}"),
    }
}

pub(crate) fn line() -> Arc<trainspec_compiler::typed::Spec> {
    spec(
        "spec line;
         model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }
         train { optimizer gradient_descent(0.1); }",
    )
}

/// The scenario of a case of the oracle; `None` where it needs more than hooks.
pub(crate) fn scenario(name: &str) -> Option<Scenario> {
    use Call::{AfterCreate, AfterRun, BeforeRun, Begin, End};
    let fail = |code: Code, message: &str| Act::Fail(Error::new(code, message));
    let boom = || fail(Code::InvalidArgument, "boom");
    let aborted = || fail(Code::Aborted, "preempted");
    Some(match name {
        "hooks_normal" => Scenario::new(3).hook("A").stepping("B"),
        "hooks_stop_at_step" => {
            let stop = StopAtStepHook::last_step(3);
            Scenario::new(5).hook("A").with(stop).hook("B")
        }
        "hooks_stop_at_num_steps" => Scenario::new(5)
            .hook("A")
            .with(StopAtStepHook::num_steps(2)),
        "hooks_request_stop_before_run" => Scenario::new(5)
            .acting("A", BeforeRun, 2, Act::Stop)
            .hook("B"),
        "hooks_request_stop_after_run" => Scenario::new(5)
            .acting("A", AfterRun, 2, Act::Stop)
            .hook("B"),
        "hooks_aborted_before_run" => {
            Scenario::new(3)
                .hook("A")
                .acting("B", BeforeRun, 2, aborted())
        }
        "hooks_aborted_after_run" => Scenario::new(3)
            .acting("A", AfterRun, 2, aborted())
            .stepping("B"),
        "hooks_unavailable" => {
            let unavailable = fail(Code::Unavailable, "gone");
            Scenario::new(3)
                .acting("A", BeforeRun, 2, unavailable)
                .hook("B")
        }
        "hooks_aborted_in_after_create_session" => Scenario::new(2)
            .acting("A", AfterCreate, 1, aborted())
            .hook("B"),
        "hooks_out_of_range_by_hook" => {
            let end = fail(Code::OutOfRange, "end");
            Scenario::new(3).acting("A", AfterRun, 2, end).hook("B")
        }
        "hooks_stop_iteration_by_hook" => {
            let stop = Act::Fail(Error::stop_iteration());
            Scenario::new(3).acting("A", BeforeRun, 2, stop).hook("B")
        }
        "hooks_exception_before_run" => {
            Scenario::new(3).acting("A", BeforeRun, 2, boom()).hook("B")
        }
        "hooks_exception_after_run" => Scenario::new(3).acting("A", AfterRun, 2, boom()).hook("B"),
        "hooks_exception_in_begin" => Scenario::new(3).acting("A", Begin, 1, boom()).hook("B"),
        "hooks_exception_in_end" => Scenario::new(2).acting("A", End, 1, boom()).hook("B"),
        "hooks_exception_in_block" => Scenario {
            block: Some(Error::new(Code::Unknown, "'user code'")),
            ..Scenario::new(3).hook("A").hook("B")
        },
        "hooks_out_of_range_in_block" => Scenario {
            block: Some(Error::new(Code::OutOfRange, "end")),
            ..Scenario::new(3).hook("A").hook("B")
        },
        "singular_aborted" => Scenario {
            singular: true,
            ..Scenario::new(3).acting("A", BeforeRun, 2, aborted())
        },
        "singular_normal" => Scenario {
            singular: true,
            ..Scenario::new(2).hook("A").hook("B")
        },
        _ => return None,
    })
}

pub(crate) fn texts(json: &Json) -> Vec<String> {
    let all = json.as_array().unwrap().iter();
    all.map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// The case that has a test of its own here.
pub(crate) const OWN_TESTS: [(&str, fn()); 1] = [(
    "hooks_run_step_fn",
    oracle_a_step_function_runs_with_and_without_hooks,
)];

#[test]
fn oracle_hooks_are_called_in_the_order_of_tensorflow() {
    let mut compared = 0;
    for case in cases("hooks") {
        let name = case["name"].as_str().unwrap();
        // Those with checkpoints, and whose values matter, are in `hooks`.
        let Some(mut scenario) = scenario(name) else {
            continue;
        };
        let outcome = match scenario.run() {
            Ok(()) => "none".to_owned(),
            Err(error) => format!("{}: {error}", class(&error)),
        };
        let trace = scenario.trace.lock().unwrap().clone();
        assert_eq!(trace, texts(&case["trace"]), "{name}");
        assert_eq!(outcome, case["outcome"].as_str().unwrap(), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 19);
}

#[test]
fn oracle_a_step_function_runs_with_and_without_hooks() {
    let case = cases("hooks");
    let case = case.iter().find(|c| c["name"] == "hooks_run_step_fn");
    let mut scenario = Scenario::new(0).hook("A");
    let creator = Box::<InitialSession>::default();
    let hooks = std::mem::take(&mut scenario.hooks);
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks).unwrap();
    scenario.say("session created");
    let values = [1.0_f32, 2.0];
    let view = InputView::new(&[2], &values);
    let feeds = [("x", view), ("y", view)];
    let mut k = 0;
    while !session.should_stop() {
        let value = session.run_step_fn(|context| {
            let step = context.session()?.run("global_step", &feeds)?;
            let step = step.unwrap().to_i64s()[0];
            scenario.say(format!("step_fn {k}: session.run without hooks -> {step}"));
            context.run_with_hooks("train_op", &feeds)?;
            match k {
                1 => Err(context.request_stop()),
                _ => Ok(k),
            }
        });
        if let Some(value) = value.unwrap() {
            scenario.say(format!("run_step_fn returned value {value}"));
        }
        k += 1;
    }
    session.close().unwrap();
    let trace = scenario.trace.lock().unwrap().clone();
    assert_eq!(trace, texts(&case.unwrap()["trace"]));
}

#[test]
fn a_closed_session_neither_runs_nor_closes() {
    let creator = Box::<InitialSession>::default();
    let mut session = MonitoredSession::new(Graph::new(&line()), creator, Vec::new()).unwrap();
    session.close().unwrap();
    assert!(session.should_stop());
    let values = [1.0_f32];
    let view = InputView::new(&[1], &values);
    let feeds = [("x", view), ("y", view)];
    assert!(session.run("train_op", &feeds).is_err());
    let error = session.close().unwrap_err();
    assert_eq!(error.to_string(), "Session is already closed.");
}

#[test]
fn what_is_fed_twice_is_an_error() {
    struct Feeding;
    impl SessionRunHook for Feeding {
        fn before_run(
            &mut self,
            _: &mut SessionRunContext<'_>,
        ) -> Result<Option<SessionRunArgs>, Error> {
            Ok(Some(SessionRunArgs {
                feeds: vec![("y".into(), trainspec::Tensor::new(&[1], vec![3.0_f32]))],
                ..SessionRunArgs::default()
            }))
        }
    }
    let creator = Box::<InitialSession>::default();
    let values = [1.0_f32];
    let view = InputView::new(&[1], &values);
    let mut session =
        MonitoredSession::new(Graph::new(&line()), creator, vec![Box::new(Feeding)]).unwrap();
    // The hook feeds what the caller leaves out: 0.1 * 2 * 3 is the first step.
    let a = session.run(("train_op", "a"), &[("x", view)]).unwrap().1;
    assert!((a.unwrap().to_f64s()[0] - 0.6).abs() < 1e-6);
    let both = session.run("train_op", &[("x", view), ("y", view)]);
    assert!(both.unwrap_err().to_string().contains("`y` is fed twice"));
}

/// Runs a scenario of a coordinator: its trace, and the error of `join`.
fn coordinate(name: &str) -> Option<(Vec<Json>, Result<(), Error>)> {
    let error = |code, text: &str| Error::new(code, text);
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(work).unwrap().into()
    };
    let mut trace = Vec::new();
    let coordinator = match name {
        "coordinator_clean_exception" => Coordinator::with_clean_stop(&[Code::InvalidArgument]),
        _ => Coordinator::new(),
    };
    let own = coordinator.clone();
    let joined = match name {
        "coordinator_stop" => {
            trace.push(serde_json::json!([
                "should_stop",
                coordinator.should_stop()
            ]));
            coordinator.request_stop(None).unwrap();
            trace.push(serde_json::json!([
                "should_stop",
                coordinator.should_stop()
            ]));
            let stopped = coordinator.wait_for_stop(Some(Duration::ZERO));
            trace.push(serde_json::json!(["wait_for_stop(0)", stopped]));
            let joined = coordinator.join(Vec::new());
            trace.push(serde_json::json!(["joined", coordinator.joined()]));
            coordinator.clear_stop();
            let stop = coordinator.should_stop();
            trace.push(serde_json::json!(["should_stop after clear_stop", stop]));
            let again = coordinator.joined();
            trace.push(serde_json::json!(["joined after clear_stop", again]));
            joined
        }
        "coordinator_exception"
        | "coordinator_clean_exception"
        | "coordinator_out_of_range_default" => {
            let failure = match name {
                "coordinator_out_of_range_default" => error(Code::OutOfRange, "end"),
                _ => error(Code::InvalidArgument, "from thread"),
            };
            let work = move || own.stop_on_error(|| Err(failure));
            let thread = spawn("worker", Box::new(work));
            coordinator.wait_for_stop(None);
            trace.push(serde_json::json!([
                "should_stop",
                coordinator.should_stop()
            ]));
            let joined = coordinator.join(vec![thread]);
            if joined.is_ok() {
                trace.push(serde_json::json!(["joined", coordinator.joined()]));
            }
            joined
        }
        "coordinator_first_exception_wins" => {
            for text in ["first", "second"] {
                let failure = error(Code::InvalidArgument, text);
                coordinator.request_stop(Some(failure)).unwrap();
            }
            coordinator.join(Vec::new())
        }
        "coordinator_grace_period" | "coordinator_grace_period_ignored" => {
            let (release, held) = std::sync::mpsc::channel::<()>();
            let thread = spawn("stuck", Box::new(move || held.recv().unwrap_or_default()));
            coordinator.request_stop(None).unwrap();
            let ignore = name.ends_with("ignored");
            let grace = Duration::from_millis(20);
            let joined = coordinator.join_with(vec![thread], grace, ignore);
            drop(release);
            if ignore {
                trace.push(serde_json::json!(["joined", coordinator.joined()]));
            }
            joined
        }
        "coordinator_looper_thread" => {
            let calls = Arc::new(Mutex::new(0));
            let counted = calls.clone();
            let target = move || {
                let mut calls = counted.lock().unwrap();
                *calls += 1;
                match *calls {
                    3 => own.request_stop(None),
                    _ => Ok(()),
                }
            };
            LooperThread::start(&coordinator, "looper", None, target).unwrap();
            let joined = coordinator.join(Vec::new());
            trace.push(serde_json::json!(["calls", *calls.lock().unwrap()]));
            joined
        }
        _ => return None,
    };
    Some((trace, joined))
}

#[test]
fn oracle_coordinators_stop_as_those_of_tensorflow() {
    for case in cases("coordinator") {
        let name = case["name"].as_str().unwrap();
        let (trace, joined) = coordinate(name).unwrap_or_else(|| panic!("{name} is new"));
        assert_eq!(Json::from(trace), case["trace"], "{name}");
        match (&case["outcome"], joined) {
            (Json::String(none), Ok(())) if none == "none" => {}
            (outcome, Err(error)) => {
                assert_eq!(
                    outcome["message"].as_str(),
                    Some(&*error.to_string()),
                    "{name}"
                );
            }
            (outcome, Ok(())) => panic!("{name}: {outcome}"),
        }
    }
}

#[test]
fn registered_threads_are_joined() {
    let coordinator = Coordinator::new();
    let ended = Arc::new(Mutex::new(false));
    let (own, flag) = (coordinator.clone(), ended.clone());
    let thread = std::thread::spawn(move || {
        own.wait_for_stop(None);
        *flag.lock().unwrap() = true;
    });
    coordinator.register_thread(thread);
    coordinator.request_stop(None).unwrap();
    coordinator.join(Vec::new()).unwrap();
    assert!(*ended.lock().unwrap() && coordinator.joined());
}

/// Panics in one of its calls.
struct Panics(&'static str);

impl Panics {
    fn reach(&self, call: &'static str) {
        assert!(call != self.0, "in {call}");
    }
}

impl SessionRunHook for Panics {
    fn begin(&mut self, _: &mut Graph) -> Result<(), Error> {
        self.reach("begin");
        Ok(())
    }

    fn after_create_session(&mut self, _: &mut Session, _: &Coordinator) -> Result<(), Error> {
        self.reach("after_create_session");
        Ok(())
    }

    fn before_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
    ) -> Result<Option<SessionRunArgs>, Error> {
        self.reach("before_run");
        Ok(None)
    }

    fn after_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        self.reach("after_run");
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        self.reach("end");
        Ok(())
    }
}

#[test]
fn a_panic_of_a_hook_is_an_error_that_names_it() {
    let values = [1.0_f32, 2.0];
    let view = InputView::new(&[2], &values);
    let attempt = |call| {
        let hooks: Vec<Box<dyn SessionRunHook>> = vec![Box::new(Panics(call))];
        let creator = Box::<InitialSession>::default();
        let mut session = MonitoredSession::new(Graph::new(&line()), creator, hooks)?;
        let ran = session.run("train_op", &[("x", view), ("y", view)]);
        session.close_after(ran.err())
    };
    for call in [
        "begin",
        "after_create_session",
        "before_run",
        "after_run",
        "end",
    ] {
        let error = attempt(call).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        let message = error.to_string();
        let expected = format!("the hook `Panics` panicked in `{call}`: in {call}");
        assert!(message.contains(&expected), "{message}");
    }
    attempt("none").unwrap();
}

#[test]
fn a_looper_that_panics_stops_its_coordinator() {
    let coordinator = Coordinator::new();
    let thread = LooperThread::start(&coordinator, "broken", None, || panic!("enough")).unwrap();
    assert!(thread.join(Some(std::time::Duration::from_secs(60))));
    assert!(coordinator.should_stop() && !thread.is_alive());
    let error = coordinator.join(Vec::new()).unwrap_err().to_string();
    assert!(
        error.contains("the thread `broken` panicked in `run_loop`: enough"),
        "{error}"
    );
}
