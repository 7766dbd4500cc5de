//! A spec inside Rust trains as its file does: every example, as a module of `train!` and loaded at run time, to the same bits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainspec::{Error, Event, Session, SessionBuilder, Spec};
use trainspec_compiler::lower::Binding;
use trainspec_compiler::{ProgramKind, Trainable, pipeline, synthetic};
use trainspec_testing::folders::Folder;
use trainspec_tests::root;

/// What both forms are given.
type Change = dyn Fn(SessionBuilder) -> SessionBuilder;

/// An example that a program has as a module.
struct Example {
    /// Its path in `examples`.
    path: &'static str,
    spec: fn() -> Result<Arc<Spec>, Error>,
    spec_hash: &'static str,
    /// The digest of what the module trains to.
    train: fn(&Change) -> u64,
}

/// The updates of each form.
const STEPS: u64 = 3;

/// The state of a session without data after some updates by synthetic inputs.
fn digest_after_steps(session: &mut Session, spec: &Arc<Spec>) -> u64 {
    let dims = pipeline::dimensions(spec, &Binding::new()).unwrap();
    let trainable = Trainable::from(spec.clone());
    let lowered = pipeline::lower(&trainable, ProgramKind::Step, &dims).unwrap();
    let before = session.state().digest();
    for step in 0..STEPS as i64 {
        let inputs = synthetic::inputs(spec, &lowered.graph, step);
        session.step(&inputs).unwrap();
    }
    let after = session.state().digest();
    assert_ne!(after, before, "{} does not train", spec.name);
    after
}

/// Whether a spec has data of its own, and so a run.
fn has_data(spec: &Spec) -> bool {
    spec.train
        .as_ref()
        .is_some_and(|train| train.data.is_some())
}

/// The state after a few steps of a spec that is loaded at run time: over its data, where it has some.
fn digest_of_the_file(builder: SessionBuilder) -> u64 {
    let spec = builder.spec().unwrap();
    if !has_data(&spec) {
        return digest_after_steps(&mut builder.build().unwrap(), &spec);
    }
    let session = builder.steps(STEPS).run(&mut |_: &Event| {}).unwrap();
    assert_eq!(session.global_step(), STEPS);
    session.state().digest()
}

macro_rules! examples {
    ($($module:ident: $spec:ident, $path:literal;)*) => {
        $(
            mod $module {
                trainspec::train! {
                    #[allow(dead_code, deprecated)]
                    pub(super) file: $path
                }

                pub(super) fn train(change: &super::Change) -> u64 {
                    let spec = $spec::spec().unwrap();
                    let builder = $spec::Session::builder().configure(change);
                    if !super::has_data(&spec) {
                        let mut session = builder.build().unwrap();
                        return super::digest_after_steps(session.session(), &spec);
                    }
                    let ignored = &mut |_: &trainspec::Event| {};
                    let mut session = builder.steps(super::STEPS).run(ignored).unwrap();
                    session.session().state().digest()
                }
            }
        )*

        const EXAMPLES: &[Example] = &[
            $(Example {
                path: $path,
                spec: $module::$spec::spec,
                spec_hash: $module::$spec::SPEC_HASH,
                train: $module::train,
            },)*
        ];
    };
}

examples! {
    autoencoder: autoencoder, "../../examples/autoencoder.trainspec";
    char_lstm: char_lstm, "../../examples/char_lstm.trainspec";
    ctr_ftrl: ctr_ftrl, "../../examples/ctr_ftrl.trainspec";
    custom_optimizer: custom_optimizer, "../../examples/custom_optimizer.trainspec";
    digits: digits, "../../examples/digits.trainspec";
    digits_cnn: digits_cnn, "../../examples/digits_cnn.trainspec";
    digits_gru: digits_gru, "../../examples/digits_gru.trainspec";
    digits_mlp: digits, "../../examples/digits_mlp.trainspec";
    fine_tune: fine_tune, "../../examples/fine_tune.trainspec";
    gan: gan, "../../examples/gan.trainspec";
    iris: iris, "../../examples/iris.trainspec";
    linear_regression: linear_regression, "../../examples/linear_regression.trainspec";
    monitored: monitored, "../../examples/monitored.trainspec";
    multi_file: multi_file, "../../examples/multi_file.trainspec";
    penguins: penguins, "../../examples/penguins.trainspec";
    transformer: transformer, "../../examples/transformer.trainspec";
    charformer: charformer, "../../examples/bench/charformer.trainspec";
    ftrl: ftrl, "../../examples/bench/ftrl.trainspec";
    lenet: lenet, "../../examples/bench/lenet.trainspec";
    linreg: linreg, "../../examples/bench/linreg.trainspec";
    mlp: mlp, "../../examples/bench/mlp.trainspec";
    update_1m: update_1m, "../../examples/bench/update-1m.trainspec";
    update_200x5k: update_200x5k, "../../examples/bench/update-200x5k.trainspec";
    update_25m: update_25m, "../../examples/bench/update-25m.trainspec";
}

/// The specs in the folders of examples; a file without a spec of its own is there for others to use.
pub(crate) fn example_specs() -> Vec<PathBuf> {
    let folders = ["examples", "examples/bench"].map(|folder| root().join(folder));
    let entries = (folders.iter()).flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let has_spec = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().any(|line| line.starts_with("spec "))
    };
    let mut found: Vec<PathBuf> = (entries.map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|e| e == "trainspec"))
        .filter(has_spec)
        .collect();
    found.sort();
    found
}

fn path_of(example: &Example) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(example.path);
    path.canonicalize().unwrap()
}

#[test]
fn every_example_is_a_module() {
    let modules: BTreeSet<PathBuf> = EXAMPLES.iter().map(path_of).collect();
    let found = example_specs().into_iter();
    let found: BTreeSet<PathBuf> = found.map(|path| path.canonicalize().unwrap()).collect();
    assert_eq!(modules, found);
}

#[test]
fn every_example_trains_to_the_same_bits_as_a_module() {
    let folder = Folder::new();
    let path = root().join("examples/digits_mlp.trainspec");
    let mut trained = SessionBuilder::from_file(path).build().unwrap();
    let checkpoint = trained.save(folder.0.join("digits")).unwrap();
    for (i, example) in EXAMPLES.iter().enumerate() {
        let path = path_of(example);
        let change = |form: &str| {
            let data = path.parent().unwrap().to_owned();
            let run = folder.0.join(format!("{form}-{i}"));
            let starts_from_another = example.path.contains("fine_tune");
            let checkpoint = starts_from_another.then(|| checkpoint.clone());
            move |builder: SessionBuilder| {
                let checkpoint = checkpoint.clone();
                let builder = builder.data_dir(&data).dir(&run);
                builder.options(|options| options.warm_start = checkpoint)
            }
        };
        let builder = change("file")(SessionBuilder::from_file(&path));
        let spec = builder.spec().unwrap();
        let identity = trainspec_compiler::Identity::of(&spec).unwrap();
        assert_eq!(example.spec_hash, identity.hash, "{}", example.path);
        assert_eq!((example.spec)().unwrap().name, spec.name);
        let from_file = digest_of_the_file(builder);
        let from_module = (example.train)(&change("module"));
        assert_eq!(from_module, from_file, "{}", example.path);
    }
}
