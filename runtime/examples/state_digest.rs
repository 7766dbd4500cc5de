//! State digest: trains a spec and prints the FNV-1a hash of each state variable, to compare the bits of two builds.
//!
//! `state_digest SPEC STEPS THREADS` prints a line for each variable, slot and scalar: its name, type and hash. A spec that trains on a
//! data set reads it; another one gets synthetic inputs, as in `trainspec bench`. `.ci/compare-bits` runs two of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use trainspec::State;
use trainspec::env::{Env, System};
use trainspec::program::{Engine, Feeds, prepare};
use trainspec::session::{Event, Options};
use trainspec::trainer::train;
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::lower::{Binding, ProgramKind};
use trainspec_compiler::typed::Spec;
use trainspec_compiler::{Compilation, PipelineOptions, Trainable, pipeline, synthetic};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, steps, threads] = &arguments[..] else {
        eprintln!("usage: state_digest SPEC STEPS THREADS");
        return ExitCode::from(2);
    };
    match run(Path::new(spec), steps, threads) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{spec}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path, steps: &str, threads: &str) -> Result<(), Box<dyn Error>> {
    let (steps, engine) = (steps.parse()?, Engine::compiled(threads.parse()?));
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)?;
    let compilation = Compilation::check(&name, &text, &beside(folder)?, &Default::default());
    let spec = compilation
        .spec
        .ok_or("the spec has errors: `trainspec check` shows them")?;
    let state = match spec.train.as_ref().is_some_and(|t| t.data.is_some()) {
        true => {
            let options = Options {
                steps: Some(steps),
                folder: folder.to_owned(),
                engine,
                ..Options::default()
            };
            let env: Arc<dyn Env> = Arc::new(System::default());
            train(&spec, &options, &env, &mut |_: &Event| {})?
        }
        false => train_on_synthetic_inputs(&spec, steps, &engine)?,
    };
    for (name, value) in state.names().iter().zip(state.values()) {
        println!("{name} {} {:016x}", value.ty(), fnv1a(value));
    }
    Ok(())
}

/// The specs of a folder, which others may `use`.
fn beside(folder: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "trainspec") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.insert(name.into_owned(), std::fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

fn train_on_synthetic_inputs(
    spec: &Arc<Spec>,
    steps: u64,
    engine: &Engine,
) -> Result<State, Box<dyn Error>> {
    let (trainable, options) = (Trainable::from(spec.clone()), PipelineOptions::default());
    let kind = ProgramKind::Step;
    let dims = pipeline::dimensions(spec, &Binding::new()).map_err(|d| d.message)?;
    let step = pipeline::lower(&trainable, kind, &dims).map_err(|d| d.message)?;
    let inputs = synthetic::inputs(spec, &step.graph, 0);
    let mut program = prepare(step.graph, &trainable.fetches(kind), &options, engine)?;
    let mut state = State::initial(&trainable, 0, &options, engine)?;
    for _ in 0..steps {
        program.run(Feeds::from(&inputs), &mut state)?;
    }
    Ok(state)
}

/// The 64-bit FNV-1a hash of the elements, in little-endian bytes.
fn fnv1a(tensor: &Tensor) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    match tensor.data() {
        Data::F16(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::Bf16(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::F32(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::F64(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::I8(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::I16(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::I32(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::I64(values) => values.iter().for_each(|x| add(&x.to_le_bytes())),
        Data::U8(values) => add(values),
        Data::Bool(values) => values.iter().for_each(|x| add(&[u8::from(*x)])),
        Data::String(values) => values.iter().for_each(|bytes| {
            add(&bytes.len().to_le_bytes());
            add(bytes);
        }),
    }
    hash
}
