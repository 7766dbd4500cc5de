//! `train!`: modules of specs in Rust and of spec files, with typed feeds, fetches and parameters.

use ndarray::{Array2, Array4, arr0, array};
use trainspec::SessionBuilder;

trainspec::train! {
    /// A line through two points.
    spec line;

    const RATE = 0.1;
    const SIZE = 3;
    const NAME = "line";
    const DEEP = true;

    /// Guesses `y`.
    model (x: f32[batch], y: f32[batch]) {
        param a: f32 = zeros();
        param table: f32[SIZE, 2] = ones();
        output guess = a * x + 0.0 * sum(table);
        loss mean(square(guess - y));
        metric error = abs(guess - y);
        metric worst = max(abs(guess - y));
    }

    train { optimizer gradient_descent(RATE); }
}

trainspec::train! {
    #[allow(dead_code)]
    pub(crate) spec images;

    model (image: f32[batch, 4, 4, 1], label: i64[batch] in 0..3) {
        let logits = image |> conv2d(2, 3) |> relu |> flatten |> dense(3);
        output class = argmax(logits, -1);
        output probability = softmax(logits);
        loss mean(sparse_softmax_cross_entropy_with_logits(label, logits));
    }

    train { optimizer adam(1e-2); }
}

trainspec::train!(file: "specs/used.trainspec");

trainspec::train! {
    spec inline_use;

    use "specs/blocks.trainspec";

    model (x: f32[batch, 3]) {
        loss mean(square(tower(x)));
    }

    train { optimizer momentum(0.01, momentum: 0.9); }
}

fn step(session: &mut line::Session) -> (f32, Vec<f32>, f32) {
    let (x, y) = (array![1.0_f32, 2.0], array![2.0_f32, 4.0]);
    let feeds = line::Feeds {
        x: x.view(),
        y: y.view(),
    };
    let out = session.step(&feeds).unwrap();
    (out.loss, out.error.to_vec(), out.worst)
}

#[test]
fn a_module_has_typed_feeds_fetches_and_parameters() {
    let mut session = line::Session::new().unwrap();
    assert_eq!(step(&mut session), (10.0, vec![2.0, 4.0], 4.0));
    assert_eq!(session.params().a, arr0(1.0));
    assert_eq!(session.params().table, Array2::<f32>::ones((3, 2)));
    assert_eq!(line::params::table::NAME, "table");
    assert_eq!(line::params::table::SHAPE, [3, 2]);
    assert_eq!(session.global_step(), 1);
    let x = array![3.0_f32];
    let predicted = session.predict(&line::Inputs { x: x.view() }).unwrap();
    assert_eq!(predicted.guess, array![3.0_f32]);
    let y = array![0.0_f32];
    let feeds = line::Feeds {
        x: x.view(),
        y: y.view(),
    };
    assert_eq!(session.eval(&feeds).unwrap().loss, 9.0);
}

#[test]
fn constants_text_and_hash_are_embedded() {
    assert_eq!((line::RATE, line::SIZE), (0.1, 3));
    assert_eq!((line::NAME, line::DEEP), ("line", true));
    assert!(line::SPEC.starts_with("spec line;\n\nconst RATE = 0.1;\n"));
    let spec = trainspec::check("line", line::SPEC).unwrap();
    assert_eq!(line::spec().unwrap().name, spec.name);
    let identity = trainspec_compiler::Identity::of(&spec).unwrap();
    assert_eq!(line::SPEC_HASH, identity.hash);
}

#[test]
fn variables_have_paths_and_images_four_dimensions() {
    let mut session = images::Session::builder()
        .seed(3)
        .threads(1)
        .build()
        .unwrap();
    let image = Array4::<f32>::ones((2, 4, 4, 1));
    let label = array![0_i64, 2];
    let feeds = images::Feeds {
        image: image.view(),
        label: label.view(),
    };
    let before = session.step(&feeds).unwrap().loss;
    let after = session.step(&feeds).unwrap().loss;
    assert!(after < before);
    let bias = session.params().dense.bias.to_vec();
    assert!(bias.iter().any(|b| *b != 0.0), "{bias:?}");
    assert_eq!(images::params::dense::kernel::SHAPE[1], 3);
    let inputs = images::Inputs {
        image: image.view(),
    };
    let predicted = session.predict(&inputs).unwrap();
    assert_eq!(predicted.class.len(), 2);
    assert_eq!(predicted.probability.shape(), [2, 3]);
}

#[test]
fn a_constant_can_be_set_unless_a_type_depends_on_it() {
    let mut session = line::Session::builder().set("RATE", 0.05).build().unwrap();
    step(&mut session);
    assert_eq!(session.params().a, arr0(0.5));
    let error = line::Session::builder().set("SIZE", 4).build().unwrap_err();
    let message = "with `SIZE = 4` the spec has `variable table: f32[4, 2]`, but the program was compiled with `variable table: f32[3, 2]`";
    assert_eq!(error.to_string(), message);
    let error = line::Session::builder().set("SIZ", 4).build().unwrap_err();
    assert!(
        error.to_string().contains("did you mean `SIZE`?"),
        "{error}"
    );
}

#[test]
fn a_module_and_its_file_train_to_the_same_bits() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/runtime/specs/used.trainspec"
    );
    let mut dynamic = SessionBuilder::from_file(file).build().unwrap();
    let mut typed = used::Session::new().unwrap();
    let x = Array2::from_shape_fn((5, 3), |(i, j)| (i * 3 + j) as f32 / 7.0);
    for _ in 0..3 {
        typed.step(&used::Feeds { x: x.view() }).unwrap();
        let feeds = [("x", trainspec::InputView::from(&x))];
        dynamic.step(&feeds).unwrap();
    }
    assert_eq!(typed.session().state().digest(), dynamic.state().digest());
    assert_eq!(inline_use::SPEC_HASH.len(), 32);
    let mut inline = inline_use::Session::new().unwrap();
    for _ in 0..3 {
        let feeds = inline_use::Feeds { x: x.view() };
        inline.step(&feeds).unwrap();
    }
    assert_eq!(inline.session().state().digest(), dynamic.state().digest());
    let names = typed.session().state().names().to_vec();
    assert_eq!(&names, dynamic.state().names());
}

#[test]
fn a_session_is_saved_and_restored() {
    let folder = std::env::temp_dir().join(format!("trainspec-macros-{}", std::process::id()));
    let mut session = line::Session::new().unwrap();
    step(&mut session);
    let saved = session.save(folder.join("line")).unwrap();
    let restored = line::Session::builder().restore(&saved).build().unwrap();
    assert_eq!(restored.params().a, arr0(1.0));
    assert_eq!(restored.global_step(), 1);
    step(&mut session);
    session.restore(&saved).unwrap();
    assert_eq!(session.global_step(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_wrong_size_is_an_error_of_the_run_that_names_the_input() {
    let mut session = images::Session::new().unwrap();
    let image = Array4::<f32>::ones((2, 4, 5, 1));
    let label = array![0_i64, 2];
    let feeds = images::Feeds {
        image: image.view(),
        label: label.view(),
    };
    let error = session.step(&feeds).unwrap_err().to_string();
    assert!(error.contains("image: f32[batch, 4, 4, 1]"), "{error}");
}

/// A macro that writes a spec: its tokens have no layout.
macro_rules! scaled {
    ($name:ident, $scale:expr) => {
        trainspec::train! {
            spec $name;
            const SCALE = $scale;
            model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x * SCALE); }
            train { optimizer gradient_descent(1e-1); }
        }
    };
}

scaled!(twice, 2.0);

#[test]
fn a_spec_may_stand_in_a_function_or_come_from_another_macro() {
    trainspec::train! {
        spec inner;
        model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
        train { optimizer gradient_descent(0.1); }
    }
    let x = array![1.0_f32, 3.0];
    let mut session = inner::Session::new().unwrap();
    assert_eq!(
        session.step(&inner::Feeds { x: x.view() }).unwrap().loss,
        2.0
    );
    let mut session = twice::Session::new().unwrap();
    assert_eq!(
        session.step(&twice::Feeds { x: x.view() }).unwrap().loss,
        4.0
    );
    assert_eq!(twice::SCALE, 2.0);
}

trainspec::train! {
    spec registered;

    model (x: f32[batch]) {
        param a: f32 = ones();
        loss mean(a * x);
    }

    train { optimizer gradient_descent(0.1); }
    hooks { hook "watch" (threshold: 2.0); }
}

#[test]
fn what_is_not_registered_is_one_error_when_the_session_is_built() {
    use trainspec::hooks::{SessionRunHook, StopAtStepHook};
    use trainspec::registry::Parameter;

    let hook = |name: &'static str| {
        registered::Session::builder().configure(move |builder| {
            let parameters = [Parameter::required::<f64>("threshold")];
            builder.hook(name, &parameters, |_| {
                let hook: Box<dyn SessionRunHook> = Box::new(StopAtStepHook::last_step(9));
                Ok(hook)
            })
        })
    };
    assert!(hook("watch").build().is_ok());
    let missing = registered::Session::new().unwrap_err().to_string();
    assert!(missing.contains("watch"), "{missing}");
    let both = hook("wach").build().unwrap_err().to_string();
    let message = "the program registers other hooks and feeds than the spec has: `hook \"watch\"` is not registered; `hook \"wach\"` is registered, and the spec has none";
    assert_eq!(both, message);
}

trainspec::train! {
    spec accumulated;

    model (x: f32[batch]) {
        param a: f32 = zeros();
        loss mean(square(a - x));
    }

    train { optimizer gradient_descent(0.5); accumulate 2; }
}

#[test]
fn an_update_takes_as_many_batches_as_accumulate_says() {
    let mut session = accumulated::Session::new().unwrap();
    let (first, second) = (array![1.0_f32, 3.0], array![5.0_f32, 7.0]);
    let feeds = [
        accumulated::Feeds { x: first.view() },
        accumulated::Feeds { x: second.view() },
    ];
    // (1 + 9) / 2 and (25 + 49) / 2.
    assert_eq!(session.step_batches(&feeds).unwrap().loss, 21.0);
    assert_eq!(session.global_step(), 1);
    // The mean of the gradients -4 and -12, times 0.5.
    assert_eq!(session.params().a, arr0(4.0));
    let refused = session.step(&feeds[0]).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("takes 2 micro-batches, and is given 1"),
        "{refused}"
    );
}
