//! Programs with `train!` that are accepted: what a spec may look like inside Rust, and what its module then has. Each is run.

use std::sync::{Arc, Mutex};

use half::{bf16, f16};
use ndarray::{Array, Array1, Array2, ArrayD, IxDyn, arr0, array};
use trainspec::hooks::{
    CheckpointSaverListener, FeedFn, SessionRunContext, SessionRunHook, SessionRunValues,
};
use trainspec::{Error, Event, Session, Tensor};
use trainspec_testing::folders::Folder;

/// Numbers, ranges and comments that are other tokens in Rust than they look like.
mod inside {
    trainspec::train! {
        /// What stands above the spec documents the module.
        #[deny(deprecated)] // constants that only Rust uses are no warning
        pub(super) spec tokens;

        /// Doc comments are attributes
        /// to a macro, of one line each.
        const TINY = 1e-3; // a comment
        const SIZE = 1_000.5;
        const NEGATIVE = -7;
        const LIST = [1, 2, 3];
        /* a comment
           of several lines */
        const TEXT = "a \"quoted\" \u{e9}";

        model (index: i64[batch] in 0..10, x: f32[batch, 3]) {
            let first = x[_, 0];
            let rest = x[.., 1..3];
            let sliced = x[_, 0.. by 2];
            let chosen = if LIST[0] == 1 && !(TINY > 1.0) { first } else { -first };
            output total = chosen + sum(rest, axis: 1) + sum(sliced, axis: 1) + cast(index, f32);
        }
    }
}

#[test]
fn tokens_of_rust_are_those_of_the_spec() {
    assert_eq!(
        (
            inside::tokens::TINY,
            inside::tokens::SIZE,
            inside::tokens::NEGATIVE
        ),
        (1e-3, 1_000.5, -7)
    );
    assert_eq!(inside::tokens::TEXT, "a \"quoted\" é");
    let spec = inside::tokens::spec().unwrap();
    assert_eq!(spec.name, "tokens");
}

trainspec::train! {
    spec keywords;

    model (type: f32[batch], match: f32[batch]) {
        param box: f32 = ones();
        loss loop = mean(box * type - match);
        metric move = abs(type);
        output impl = box * type;
    }

    train { optimizer gradient_descent(0.5) minimizing loop; }
}

#[test]
fn names_may_be_words_of_rust() {
    let (one, two) = (array![1.0_f32], array![2.0_f32]);
    let mut session = keywords::Session::new().unwrap();
    let feeds = keywords::Feeds {
        r#type: two.view(),
        r#match: one.view(),
    };
    let out = session.step(&feeds).unwrap();
    assert_eq!((out.r#loop, out.r#move[0]), (1.0, 2.0));
    assert_eq!(session.params().r#box, arr0(0.0));
    let inputs = keywords::Inputs { r#type: one.view() };
    assert_eq!(session.predict(&inputs).unwrap().r#impl, array![0.0_f32]);
}

trainspec::train! {
    spec elements;

    model (
        half: f16[batch],
        brain: bf16[batch],
        double: f64[batch],
        byte: u8[batch],
        flag: bool[batch],
        scale: f32,
        deep: f32[1, 1, 1, 1, 1, 1, 2],
    ) {
        param a: f32 = ones();
        loss a * scale;
        let numbers = cast(half, f64) + cast(brain, f64) + double + cast(byte, f64);
        output total = where(flag, numbers, -numbers) * cast(scale, f64);
        output doubled = 2.0 * deep;
        output narrow = half;
        output count = cast(sum(cast(byte, i64)), i64);
    }

    train { optimizer gradient_descent(0.1); }
}

#[test]
fn every_element_type_and_rank_can_be_fed() {
    let spec = elements::spec().unwrap();
    assert_eq!(spec.model.as_ref().unwrap().inputs.len(), 7);
    let half = array![f16::from_f32(1.5)];
    let brain = array![bf16::from_f32(0.5)];
    let (double, byte, flag) = (array![1.0_f64], array![7_u8], array![false]);
    let scale = arr0(2.0_f32);
    let deep = ArrayD::<f32>::ones(IxDyn(&[1, 1, 1, 1, 1, 1, 2]));
    let inputs = elements::Inputs {
        half: half.view(),
        brain: brain.view(),
        double: double.view(),
        byte: byte.view(),
        flag: flag.view(),
        scale: scale.view(),
        deep: deep.view(),
    };
    let mut session = elements::Session::new().unwrap();
    let outputs = session.predict(&inputs).unwrap();
    assert_eq!(outputs.total, array![-20.0_f64]);
    assert_eq!(outputs.doubled, 2.0 * &deep);
    assert_eq!((outputs.narrow, outputs.count), (half, 7));
}

trainspec::train! {
    spec counted;

    model (label: i64[batch]) {
        param a: f32 = ones();
        let (values, _which) = unique(label);
        loss a * cast(sum(label), f32);
        output distinct = values;
    }

    train { optimizer gradient_descent(0.0); }
}

#[test]
fn an_output_whose_size_is_known_at_run_time_is_a_tensor() {
    let label = array![4_i64, 2, 4, 4, 9];
    let mut session = counted::Session::new().unwrap();
    let outputs = session.predict(&counted::Inputs {
        label: label.view(),
    });
    let distinct: Tensor = outputs.unwrap().distinct;
    assert_eq!(distinct.to_i64s(), [4, 2, 9]);
}

trainspec::train! {
    spec two_losses;

    model (x: f32[batch]) {
        param a: f32 = ones();
        param b: f32 = ones();
        loss first = mean(a * x);
        loss second = mean(b * x);
    }

    train {
        optimizer gradient_descent(1.0) for "a" minimizing first;
        optimizer gradient_descent(2.0) for "b" minimizing second;
    }
}

#[test]
fn several_losses_are_fields_of_their_names() {
    let x = array![1.0_f32, 3.0];
    let mut session = two_losses::Session::new().unwrap();
    let out = session.step(&two_losses::Feeds { x: x.view() }).unwrap();
    assert_eq!((out.first, out.second), (2.0, 2.0));
    let params = session.params();
    assert_eq!((params.a, params.b), (arr0(-1.0).view(), arr0(-3.0).view()));
}

/// A path to the crate of one's own.
mod renamed {
    pub(super) use trainspec as learning;
}

trainspec::train! {
    crate = crate::macro_programs::renamed::learning;

    spec renamed_crate;

    model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
    train { optimizer gradient_descent(0.1); }
}

#[test]
fn the_crate_may_have_another_name() {
    let x = array![2.0_f32];
    let mut session = renamed_crate::Session::new().unwrap();
    let feeds = renamed_crate::Feeds { x: x.view() };
    assert_eq!(session.step(&feeds).unwrap().loss, 2.0);
}

trainspec::train! {
    spec sequence;

    block cell(h: f32[batch, 2], x: f32[batch, 2]) {
        tanh(dense(concat([h, x], axis: 1), 2))
    }

    model (x: f32[batch, 5, 2]) {
        layer step_cell = cell();
        let start = zeros_like(x[_, 0]);
        let last = for t in 0..5, h = start { step_cell(h, x[_, t]) };
        loss mean(square(last));
    }

    train { optimizer adam(1e-2); clip global_norm(1.0); ema (decay: 0.9); }
}

#[test]
fn loops_clips_and_averages_stand_in_a_macro_too() {
    let x = Array::from_shape_fn((3, 5, 2), |(i, t, j)| (i + t + j) as f32 / 10.0);
    let mut session = sequence::Session::builder().seed(5).build().unwrap();
    let feeds = sequence::Feeds { x: x.view() };
    let first = session.step(&feeds).unwrap().loss;
    let last = (0..20).map(|_| session.step(&feeds).unwrap().loss).last();
    assert!(last.unwrap() < first);
}

trainspec::train! {
    spec whole_run;

    /// Points on a line.
    data points { source csv("points.csv", header: true); feature x: f32; feature y: f32; repeat; batch 4; }
    data held { source csv("points.csv", header: true); feature x: f32; feature y: f32; batch 4; }

    model (x: f32[batch], y: f32[batch], weight: f32) {
        param a: f32 = zeros();
        loss weight * mean(square(a * x - y));
        metric error = abs(a * x - y);
    }

    train { data points; optimizer gradient_descent(0.02); steps 12; }
    eval { data held; every 6 steps; metrics [error]; }
    hooks {
        checkpoint (dir: "unused", every: 4 steps);
        hook "count" (every: 3 steps, names: ["a", "b"], limit: 9, factor: 0.5, loud: true);
        feed "weight" (value: 1.0);
        log ([loss], every: 4 steps);
    }
}

/// Counts runs of which its arguments tell it.
struct Count(Arc<Mutex<u32>>);

impl SessionRunHook for Count {
    fn after_run(
        &mut self,
        _: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }
}

/// Remembers the steps of saves, and stops at one.
struct Saves(Arc<Mutex<Vec<u64>>>);

impl CheckpointSaverListener for Saves {
    fn after_save(&mut self, _: &mut Session, step: u64) -> Result<bool, Error> {
        self.0.lock().unwrap().push(step);
        Ok(step == 8)
    }
}

#[test]
fn what_the_spec_names_has_a_method_of_the_builder_with_its_arguments() {
    let folder = Folder::new();
    folder.write("points.csv", b"x,y\n1,2\n2,4\n3,6\n4,8\n");
    let (runs, saves) = (
        Arc::<Mutex<u32>>::default(),
        Arc::<Mutex<Vec<u64>>>::default(),
    );
    let (own_runs, own_saves) = (runs.clone(), saves.clone());
    let builder = whole_run::Session::builder()
        .data_dir(&folder.0)
        .dir(folder.0.join("run"))
        .hook_count(move |arguments| {
            let whole_run::hooks::Count {
                every,
                names,
                limit,
                factor,
                loud,
            } = arguments;
            assert_eq!(every, trainspec::registry::Interval::Steps(3));
            assert_eq!((names, limit), (vec!["a".to_owned(), "b".to_owned()], 9));
            assert_eq!((factor, loud), (0.5, true));
            Ok(Count(own_runs.clone()))
        })
        .feed_weight(|arguments| {
            let weight: f64 = arguments.value;
            let feed: FeedFn =
                Box::new(move || Ok(vec![("weight".to_owned(), Tensor::scalar(weight as f32))]));
            Ok(feed)
        })
        .init_fn(|session| {
            let a = session.state().index_of("a").unwrap();
            session.state_mut().set(a, Tensor::scalar(1.0_f32));
            Ok(())
        })
        .listener(move || Ok(Saves(own_saves.clone())));
    let mut first_loss = None;
    let mut observe = |event: &Event| {
        if let (None, Event::Step { values, .. }) = (&first_loss, event) {
            first_loss = Some(format!("{:?}", values[0]));
        }
    };
    let session = builder.clone().run(&mut observe).unwrap();
    // A listener ended it at the second save.
    assert_eq!((session.global_step(), *runs.lock().unwrap()), (8, 8));
    assert_eq!(*saves.lock().unwrap(), [4, 8]);
    assert!(session.params().a.into_scalar() > &1.9);
    // It goes on from there: nothing is initialized, and the end is the last save.
    let session = builder.run(&mut |_: &Event| {}).unwrap();
    assert_eq!(session.global_step(), 12);
    assert_eq!(*saves.lock().unwrap(), [4, 8, 12]);

    let missing = whole_run::Session::new().unwrap_err().to_string();
    assert!(
        missing.contains("`hook \"count\"` is not registered")
            && missing.contains("`feed \"weight\"` is not registered"),
        "{missing}"
    );
}

#[test]
fn a_listener_without_checkpoints_is_superfluous() {
    let saves = Arc::<Mutex<Vec<u64>>>::default();
    let builder = renamed_crate::Session::builder().listener(move || Ok(Saves(saves.clone())));
    let error = builder.build().unwrap_err().to_string();
    assert!(
        error.contains("a listener of checkpoints is registered"),
        "{error}"
    );
}

trainspec::train! {
    spec data_of_the_program;

    data counted { source "Counted up" (to: 4); feature x: f32; feature y: f32; repeat; batch 2; }
    data held { source memory("held out"); feature x: f32; feature y: f32; batch 2; }

    model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }

    train { data counted; optimizer gradient_descent(0.05); steps 20; }
    eval { data held; every 20 steps; }
}

#[test]
fn a_source_and_arrays_have_methods_of_the_builder() {
    let held = |name, values: [f32; 2]| (name, Tensor::new(&[2], values.to_vec()));
    let builder = data_of_the_program::Session::builder()
        .source_counted_up(|arguments| {
            let to: i64 = arguments.to;
            Ok(Box::new((1..=to).map(|i| {
                let value = |name: &str, x: f32| (name.to_owned(), Tensor::scalar(x));
                Ok(vec![value("x", i as f32), value("y", 2.0 * i as f32)])
            })))
        })
        .memory_held_out([held("x", [1.0, 5.0]), held("y", [2.0, 10.0])]);
    let mut evaluated = Vec::new();
    let mut observe = |event: &Event| {
        if let Event::Evaluated { .. } = event {
            evaluated.push(format!("{event:?}"));
        }
    };
    let session = builder.run(&mut observe).unwrap();
    assert!((session.params().a.into_scalar() - 2.0).abs() < 1e-3);
    assert!(!evaluated.is_empty());
    let missing = data_of_the_program::Session::builder().run(&mut |_: &Event| {});
    let missing = missing.unwrap_err().to_string();
    assert!(
        missing.contains("Counted up") && missing.contains("held out"),
        "{missing}"
    );
}

trainspec::train! {
    spec forked;

    model (x: f32[batch, 8], y: f32[batch]) {
        let guess = dense(tanh(dense(x, 16)), 1)[_, 0];
        loss mean(square(guess - y));
        output prediction = guess;
    }

    train { optimizer adam(1e-2); }
}

fn steps(session: &mut forked::Session, feeds: &forked::Feeds<'_>, count: usize) {
    for _ in 0..count {
        session.step(feeds).unwrap();
    }
}

#[test]
fn a_fork_has_the_state_of_its_session_and_goes_its_own_way() {
    let x = Array2::from_shape_fn((6, 8), |(i, j)| (i * 8 + j) as f32 / 48.0);
    let y = Array1::from_shape_fn(6, |i| i as f32);
    let feeds = forked::Feeds {
        x: x.view(),
        y: y.view(),
    };
    let mut session = forked::Session::builder().seed(2).build().unwrap();
    steps(&mut session, &feeds, 5);
    let mut fork = session.fork().unwrap();
    assert_eq!(fork.global_step(), 5);
    let expected = session.predict(&forked::Inputs { x: x.view() }).unwrap();
    let answers = std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let inputs = forked::Inputs { x: x.view() };
            let mut answers = (0..50).map(|_| fork.predict(&inputs).unwrap().prediction);
            let first = answers.next().unwrap();
            assert!(answers.all(|answer| answer == first));
            first
        });
        steps(&mut session, &feeds, 50);
        answers.join().unwrap()
    });
    assert_eq!(answers, expected.prediction);
    // What both do after that is the same to the bit.
    let mut straight = forked::Session::builder().seed(2).build().unwrap();
    steps(&mut straight, &feeds, 55);
    steps(&mut fork, &feeds, 50);
    let digest = |session: &mut forked::Session| session.session().state().digest();
    assert_eq!(digest(&mut fork), digest(&mut straight));
    assert_eq!(digest(&mut session), digest(&mut straight));
}

#[test]
fn the_program_of_trainspec_new_trains() {
    crate::new_program::main().unwrap();
}
