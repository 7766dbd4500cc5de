//! A dry run: what a run does before its first step, and nothing after.
//!
//! In: a checked spec and the options of a run. Out: its sizes, or the error with which the run would end. Leaves alone: the state, which
//! is not computed, and files, none of which is written.

use std::path::PathBuf;
use std::sync::Arc;

use trainspec_compiler::diag::Diagnostic;
use trainspec_compiler::ir::graph;
use trainspec_compiler::ir::plan::Cost;
use trainspec_compiler::lower::Binding;
use trainspec_compiler::typed::{HookKind, Spec};
use trainspec_compiler::{ProgramKind, Trainable, pipeline, state_bytes};

use crate::data::{DataContext, Element, Input, Pipeline, gives_nothing};
use crate::default_hooks::{acting_hooks, with_default_hooks};
use crate::hooks::TO_EVALUATE;
use crate::memory::{self, Buffer};
use crate::program::{self, Engine};
use crate::run_description::RunDescription;
use crate::run_folder::RunFolder;
use crate::saver::{NewestCheckpoint, RestorePlan, is_scratch, step_of};
use crate::schedule_curves::schedule_curves;
use crate::session::{DataSize, EventQueue, Options, bind, parameters, the_model, the_train};
use crate::trainer::{
    Limits, TO_TRAIN, evaluation_context, nothing_to_resume, run_dir, size_of, the_data,
    training_data,
};
use crate::training_tables::the_tables;
use crate::warm_start::warm_start;
use crate::{Error, State};

/// The sizes of a training, from its first batches.
///
/// ```
/// let text = "spec line;
///     data points { source csv(\"points.csv\", header: true); feature x: f32; batch 2; }
///     model (x: f32[batch]) { param a: f32 = ones(); loss mean(a * x); }
///     train { data points; optimizer gradient_descent(0.5); }";
/// let spec = trainspec::check("line", text)?;
/// let folder = std::env::temp_dir().join(format!("dry-run-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).map_err(trainspec::Error::other)?;
/// std::fs::write(folder.join("points.csv"), "x\n1\n2\n3\n").map_err(trainspec::Error::other)?;
/// let options = trainspec::Options { folder, ..Default::default() };
/// let sizes = trainspec::dry_run(&spec, &options)?;
/// // One f32, and `global_step`.
/// assert_eq!((sizes.parameters, sizes.state_bytes), (1, 12));
/// # Ok::<(), trainspec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The name of the spec.
    pub spec: String,
    /// The number of trainable parameters.
    pub parameters: u64,
    /// The seed.
    pub seed: i64,
    /// All data sets of the spec; of each, one batch was read.
    pub data: Vec<DataSize>,
    /// The bytes of the state: variables, slots and averages.
    pub state_bytes: u64,
    /// The bytes of the temporaries and results of a step, and of the program of its micro-batches.
    pub step_bytes: u64,
    /// The bytes of the first batch; with `accumulate` of all micro-batches of an update.
    pub batch_bytes: u64,
    /// What `accumulate` takes of all these bytes: the partial sums of gradients, the program of the micro-batches, and every batch of an
    /// update but one. 0 without it.
    pub accumulate_bytes: u64,
    /// The bytes that this process can still allocate, where the system says it.
    pub available_bytes: Option<u64>,
    /// The floating-point operations of a step; `None` by the interpreter.
    pub step_flops: Option<u64>,
    /// The checkpoint that the run goes on from.
    pub resumes: Option<PathBuf>,
    /// Whether that is the last step: the run makes no more.
    pub is_finished: bool,
    /// What is worth knowing of the run in the folder.
    pub notes: Vec<String>,
    /// What a first start takes from the checkpoint of a warm start.
    pub warm_start: Option<RestorePlan>,
    /// The schedules, each with its values at steps from the first to the last, where that is known.
    pub schedules: Vec<(String, Vec<f64>)>,
    /// The hooks, also those that act where the spec does not mention them.
    pub hooks: Vec<HookKind>,
    /// The warnings of the step.
    pub warnings: Vec<Diagnostic>,
}

/// The number of steps at which a schedule is computed.
const SCHEDULE_POINTS: u64 = 40;

/// Checks that a training can begin: opens every data set and reads a batch of it, compiles the step and the evaluations, and compares
/// what state, step and batch need with the memory there is, and the variables with the checkpoint of a warm start.
///
/// Fails as [`train`](crate::trainer::train) does before its first step.
pub fn dry_run(spec: &Arc<Spec>, options: &Options) -> Result<DryRun, Error> {
    let spec = &with_default_hooks(spec, options);
    let train = the_train(spec)?;
    let seed = options.seed.unwrap_or(train.seed);
    let cx = DataContext::of(spec, options, seed);
    let made = options.registry.make(spec, &EventQueue::default())?;
    let training = training_data(&cx, train)?;
    let model = the_model(spec)?;
    Limits::new(spec, train, options).ensure_end(&training)?;
    the_tables(&cx, None, &options.stop)?;
    let mut data = vec![size_of(&training)];
    let mut training = Input::new(training);
    let Some(mut batch) = training.peek()? else {
        let set = the_data(spec, training.name())?;
        return Err(gives_nothing(&cx, set, TO_TRAIN).into());
    };
    made.feeds.fill_ahead(&mut batch)?;
    let sizes = bind(model, &batch)?;
    let mut evaluated: Vec<Binding> = Vec::new();
    let mut evaluated_files = Vec::new();
    for eval in &spec.evals {
        let set = the_data(spec, &eval.data)?;
        let eval_cx = evaluation_context(&cx, set, model);
        let mut opened = Pipeline::open(&eval_cx, set)?;
        let Some(mut batch) = opened.next()? else {
            return Err(gives_nothing(&eval_cx, set, TO_EVALUATE).into());
        };
        made.feeds.fill_ahead(&mut batch)?;
        let sizes = bind(model, &batch)?;
        if !evaluated.contains(&sizes) {
            evaluated.push(sizes);
        }
        data.push(size_of(&opened));
        evaluated_files.push(opened.files());
    }
    for set in &spec.data {
        if !data.iter().any(|size| size.name == set.name) {
            let mut opened = Pipeline::open(&cx, set)?;
            opened.next()?;
            data.push(size_of(&opened));
        }
    }
    data.dedup_by(|a, b| a.name == b.name);
    let trainable = Trainable::from(spec.clone());
    let state = trainable.state()?;
    let micro_batches = train.accumulate.max(1) as u64;
    let all_batches = batch_bytes(&batch).saturating_mul(micro_batches);
    let mut held: Vec<Buffer> = (state.iter().map(|s| memory::tensor(&s.name, &s.ty)))
        .chain([("the batch".to_owned(), all_batches)])
        .collect();
    let mut report = DryRun {
        spec: spec.name.clone(),
        parameters: parameters(spec),
        seed,
        data,
        state_bytes: state_bytes(&state),
        step_bytes: 0,
        batch_bytes: all_batches,
        accumulate_bytes: all_batches - batch_bytes(&batch) + partial_sums_bytes(&state),
        available_bytes: memory::available(),
        step_flops: None,
        resumes: None,
        is_finished: false,
        notes: Vec::new(),
        warm_start: None,
        schedules: Vec::new(),
        hooks: acting_hooks(spec),
        warnings: Vec::new(),
    };
    let mut steps = vec![(ProgramKind::Step, &sizes)];
    if train.accumulate > 1 {
        // Both programs have an arena; that of `merge` is empty, since it adds in place.
        steps.push((ProgramKind::MicroBatch, &sizes));
    }
    let evaluations = evaluated.iter().map(|sizes| (ProgramKind::Evaluate, sizes));
    for (kind, sizes) in steps.into_iter().chain(evaluations) {
        let lowered = pipeline::lower(&trainable, kind, sizes)?;
        let fetches = trainable.fetches(kind);
        let mut needed = held.clone();
        let (own, planned) = match &options.engine {
            Engine::Interpreted => {
                let graph = pipeline::simplify(lowered.graph, &fetches, &options.pipeline);
                (memory::interpreted_buffers(&graph), None)
            }
            Engine::Compiled(_) => {
                let program = pipeline::planned(lowered.graph, &fetches, &options.pipeline);
                (memory::program_buffers(&program), Some(program))
            }
        };
        let bytes = own.iter().map(|(_, bytes)| bytes).sum();
        let flops = planned
            .as_ref()
            .map(|program| Cost::of_all(&program.kernels).flops);
        needed.extend(own.iter().cloned());
        memory::ensure("the training", needed)?;
        if let Some(program) = planned {
            program::compile(program, &options.pipeline)?;
        }
        match kind {
            ProgramKind::Step => {
                report.step_bytes = bytes;
                report.step_flops = flops;
                held.extend(own);
                report.warnings = lowered.warnings;
            }
            ProgramKind::MicroBatch => {
                report.step_bytes += bytes;
                report.accumulate_bytes += bytes;
                // The last micro-batch is part of the step.
                let parts = flops.map(|flops| flops.saturating_mul(micro_batches - 1));
                report.step_flops = report
                    .step_flops
                    .zip(parts)
                    .map(|(a, b)| a.saturating_add(b));
            }
            _ => {}
        }
    }
    let limits = Limits::new(spec, train, options);
    let dir = run_dir(spec, options);
    if let Some(dir) = dir.as_ref().filter(|_| !options.fresh) {
        let run = RunDescription::of(spec, options, training.files(), &evaluated_files)?;
        report.notes = RunFolder::check(&options.env.storage, dir, &run)?;
        let newest = NewestCheckpoint::find_in(&options.env.storage, dir, None)?;
        let notes = newest.skipped.iter().map(ToString::to_string);
        report.notes.extend(notes);
        report.resumes = newest.path;
    }
    if options.resume && report.resumes.is_none() {
        return Err(nothing_to_resume(dir.as_deref()));
    }
    let step = report
        .resumes
        .as_ref()
        .and_then(|path| step_of(&path.to_string_lossy()));
    report.is_finished = step
        .zip(limits.steps)
        .is_some_and(|(step, last)| step >= last);
    report.warm_start = match report.resumes {
        Some(_) => None,
        None => warm_start_plan(spec, options)?,
    };
    if let Some(last) = limits.steps {
        let step = |i| i * last.saturating_sub(1) / (SCHEDULE_POINTS - 1);
        let steps: Vec<u64> = (0..SCHEDULE_POINTS).map(step).collect();
        report.schedules = schedule_curves(&trainable, train, &sizes, &steps);
    }
    Ok(report)
}

/// Compares the variables with the checkpoint of the warm start.
pub(crate) fn warm_start_plan(
    spec: &Arc<Spec>,
    options: &Options,
) -> Result<Option<RestorePlan>, Error> {
    if spec.warm_start.is_none() && options.warm_start.is_none() {
        return Ok(None);
    }
    let mut state = State::uninitialized(&Trainable::from(spec.clone()))?;
    warm_start(spec, options, &mut state)
}

/// The bytes of what is kept between the micro-batches of an update.
fn partial_sums_bytes(state: &[graph::State]) -> u64 {
    let scratch = state.iter().filter(|one| is_scratch(&one.name));
    scratch.map(|one| one.ty.bytes()).sum()
}

fn batch_bytes(batch: &Element) -> u64 {
    batch.values.values().map(memory::tensor_bytes).sum()
}
