//! Hooks and feeds that a program registers for its specs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use trainspec::env::Env;
use trainspec::hooks::{FeedFn, SessionRunContext, SessionRunHook, SessionRunValues};
use trainspec::registry::{Parameter, Registry};
use trainspec::session::{End, Event, Options, Session};
use trainspec::{Code, Error, State, Tensor, dry_run};

use crate::support::{MemoryEnv, RunDir, spec};

const ONES: &[u8] = b"1\n1\n1\n1\n";

fn text(input: &str, hooks: &str) -> String {
    format!(
        "spec registered;
         data d {{ source csv(\"ones.csv\"); feature y: f32; repeat; batch 4; }}
         model (y: f32[batch]{input}) {{
             param a: f32 = zeros();
             loss mean(square(y - a));
         }}
         train {{ data d; optimizer gradient_descent(0.25); steps 6; }}
         hooks {{ {hooks} }}"
    )
}

fn env() -> Env {
    MemoryEnv::new(&[("ones.csv", ONES)]).env()
}

fn train(text: &str, registry: Registry, dir: &RunDir) -> (Result<State, Error>, Vec<Event>) {
    let options = Options {
        registry,
        dir: Some(dir.0.clone()),
        env: env(),
        ..Options::default()
    };
    let mut events = Vec::new();
    let mut observer = |event: &Event| events.push(event.clone());
    let trained = trainspec::train(&spec(text), &options, &mut observer);
    (trained, events)
}

/// Stops or panics at a step, and counts its ends.
struct At {
    step: u64,
    panics: bool,
    ends: Arc<AtomicU64>,
}

impl SessionRunHook for At {
    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        if context.session.global_step() == self.step {
            assert!(!self.panics, "boom at {}", self.step);
            context.request_stop();
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Session) -> Result<(), Error> {
        self.ends.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// `hook "at" (step: 3, panics: true);`, and how often it was made and ended.
fn at() -> (Registry, Arc<AtomicU64>, Arc<AtomicU64>) {
    let (made, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let parameters = [
        Parameter::required::<i64>("step"),
        Parameter::optional::<bool>("panics"),
    ];
    let (count, ended) = (made.clone(), ends.clone());
    let registry = Registry::default().hook("at", &parameters, move |arguments| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(At {
            step: arguments.get::<i64>("step")? as u64,
            panics: arguments.find("panics")?.unwrap_or(false),
            ends: ended.clone(),
        }))
    });
    (registry, made, ends)
}

#[test]
fn a_registered_hook_is_made_for_each_run_and_may_end_it() {
    let (registry, made, ends) = at();
    for run in 1..=2 {
        let text = text("", "hook \"at\" (3);");
        let (trained, events) = train(&text, registry.clone(), &RunDir::new());
        assert_eq!(trained.unwrap().step(), 3);
        let why = End::Hook("at".to_owned());
        let ended = |e: &Event| matches!(e, Event::Ended { why: w, .. } if *w == why);
        assert!(events.iter().any(ended), "{events:?}");
        assert_eq!(made.load(Ordering::Relaxed), run);
        assert_eq!(ends.load(Ordering::Relaxed), run);
    }
}

#[test]
fn a_panic_fails_the_run_and_what_was_saved_is_intact() {
    let (registry, _, ends) = at();
    let dir = RunDir::new();
    let hooks =
        "checkpoint (dir: \"unused\", every: 2 steps); hook \"at\" (step: 5, panics: true);";
    let (trained, events) = train(&text("", hooks), registry.clone(), &dir);
    let error = trained.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    assert_eq!(error.step, Some(5));
    let message = error.to_string();
    assert!(
        message.contains("the hook `at` panicked in `after_run`: boom at 5"),
        "{message}"
    );
    assert_eq!(ends.load(Ordering::Relaxed), 0, "no end after a failure");
    assert!(!events.iter().any(|e| matches!(e, Event::Ended { .. })));
    // The folder is free, and the next run goes on from the last checkpoint.
    let hooks = hooks.replace("true", "false").replace("step: 5", "step: 6");
    let (trained, events) = train(&text("", &hooks), registry, &dir);
    let resumed = |e: &Event| matches!(e, Event::Resumed { step: 4, .. });
    assert!(events.iter().any(resumed), "{events:?}");
    assert_eq!(trained.unwrap().step(), 6);
}

#[test]
fn panics_of_factories_and_feeds_name_them() {
    let broken = Registry::default().hook("broken", &[], |_| panic!("no {}", "hook"));
    let (trained, _) = train(&text("", "hook \"broken\";"), broken, &RunDir::new());
    let message = trained.unwrap_err().to_string();
    assert!(
        message.contains("the hook `broken` panicked in `its factory`: no hook"),
        "{message}"
    );
    let broken = Registry::default().feed("broken", &[], |_| {
        let mut calls = 0;
        let feed: FeedFn = Box::new(move || {
            calls += 1;
            assert!(calls < 3, "enough");
            Ok(vec![("scale".to_owned(), Tensor::scalar(1.0_f32))])
        });
        Ok(feed)
    });
    let text = text(", scale: f32", "feed \"broken\";").replace("y - a", "y - a * scale");
    let (trained, _) = train(&text, broken, &RunDir::new());
    let error = trained.unwrap_err();
    assert_eq!(error.step, Some(3));
    let message = error.to_string();
    assert!(
        message.contains("the feed `broken` panicked in `its function`: enough"),
        "{message}"
    );
}

#[test]
fn what_is_missing_superfluous_or_of_another_type_is_one_error() {
    let (registry, made, _) = at();
    let registry = registry.feed("scale", &[], |_| Ok(Box::new(|| Ok(Vec::new())) as FeedFn));
    let hooks = "hook \"at\" (step: \"3\", other: 1); hook \"missing\"; feed \"absent\" (1);";
    let text = text("", hooks);
    let (trained, events) = train(&text, registry.clone(), &RunDir::new());
    let error = trained.unwrap_err();
    assert!(error.is_bad_input());
    let message = error.to_string();
    for part in [
        "`hook \"at\"` takes `step: an integer`",
        "`hook \"at\"` takes no argument `other`",
        "`hook \"missing\"` is not registered",
        "`feed \"absent\"` is not registered",
        "`feed \"scale\"` is registered, and the spec has none",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("lacks"), "{message}");
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(made.load(Ordering::Relaxed), 0);
    let options = Options {
        registry,
        env: env(),
        ..Options::default()
    };
    let dry = dry_run(&spec(&text), &options).unwrap_err();
    assert_eq!(dry.to_string(), message);
}

#[test]
fn a_feed_is_called_once_for_each_update_and_batch_of_an_evaluation() {
    let fed: Arc<Mutex<Vec<f32>>> = Arc::default();
    let own = fed.clone();
    let parameters = [Parameter::required::<f64>("first")];
    let registry = Registry::default().feed("scale", &parameters, move |arguments| {
        let mut next = arguments.get::<f64>("first")? as f32;
        let own = own.clone();
        let feed: FeedFn = Box::new(move || {
            own.lock().unwrap().push(next);
            let value = Tensor::scalar(next);
            next += 1.0;
            Ok(vec![("scale".to_owned(), value)])
        });
        Ok(feed)
    });
    let hooks = "feed \"scale\" (first: 1.0); log ([loss, scale], every: 1 steps);";
    let text = text(", scale: f32", hooks).replace("square(y - a)", "scale * (y - a * 0.0)");
    let text = format!("{text} eval {{ data d; steps 1; every 2 steps; }}");
    let (trained, events) = train(&text, registry, &RunDir::new());
    trained.unwrap();
    // Six updates, and an evaluation after each second.
    let expected: Vec<f32> = (1..=9).map(|i| i as f32).collect();
    assert_eq!(*fed.lock().unwrap(), expected);
    let losses: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step { values, .. } => Some(format!("{:?}", values[0].1)),
            _ => None,
        })
        .collect();
    let expected = [1.0, 2.0, 4.0, 5.0, 7.0, 8.0];
    let expected: Vec<String> = expected.iter().map(|x| format!("Number({x:?})")).collect();
    assert_eq!(losses, expected);
}

#[test]
fn what_data_and_feed_both_give_is_an_error() {
    let registry = Registry::default().feed("twice", &[], |_| {
        let y = || Tensor::new(&[4], vec![1.0_f32; 4]);
        let feed: FeedFn = Box::new(move || Ok(vec![("y".to_owned(), y())]));
        Ok(feed)
    });
    let (trained, _) = train(&text("", "feed \"twice\";"), registry, &RunDir::new());
    let message = trained.unwrap_err().to_string();
    assert!(
        message.contains("`y` is fed twice: by the feed `twice`"),
        "{message}"
    );
}
