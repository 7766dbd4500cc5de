//! What a run writes into its event files: every kind of summary, evaluations as runs of their own, and the order of hooks at a step.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use trainspec::State;
use trainspec::session::{Event, Options};
use trainspec_formats::events::summary::decode_png;
use trainspec_formats::events::{Kind, Purge, Run, RunOptions, summary_iterator};
use trainspec_formats::proto::event::What;
use trainspec_formats::proto::summary::value::Value;
use trainspec_formats::storage;
use trainspec_formats::storage::faulty::{Effect, Fault, FaultyStorage};
use trainspec_formats::tensor::Tensor as FileTensor;

use crate::resume::{Folder, evaluated, options, resumed_at, run, run_in, training_with};
use crate::support::{MemoryEnv, RunDir, spec};

/// The values of a folder, as TensorBoard shows them.
fn shown(folder: &Path) -> Run {
    let options = RunOptions {
        purge: Purge::Restarts,
        ..RunOptions::default()
    };
    Run::read(folder, options).unwrap()
}

/// The steps and values of a tag.
fn points(run: &Run, tag: &str) -> Vec<(i64, Option<f64>)> {
    let series = run.series.get(tag);
    let series = series.unwrap_or_else(|| panic!("no {tag}: {:?}", run.series.keys()));
    series.points.iter().map(|p| (p.step, p.scalar)).collect()
}

/// What the evaluations of a run measured, by step: of the one with a name, or of that without.
fn measured(events: &[Event], eval: Option<&str>) -> Vec<(i64, Option<f64>)> {
    let of = events.iter().filter_map(|event| match event {
        Event::Evaluated {
            name,
            step,
            metrics,
            ..
        } if name.as_deref() == eval => {
            // The files hold f32.
            let value = f64::from(metrics[0].1.value() as f32);
            Some((*step as i64, Some(value)))
        }
        _ => None,
    });
    of.collect()
}

#[test]
fn evaluations_are_runs_of_their_own_below_the_folder() {
    let evals = "
        data held { source csv(\"points.csv\"); feature x: f32; feature y: f32; batch 5; }
        eval { data held; every 2 steps; metrics [loss]; }
        eval seen { data held; steps 1; every 3 steps; metrics [loss]; }";
    let folder = Folder::new("eval-folders");
    let spec = training_with(7, 0.05, "keep: 2", evals);
    let (_, events) = run(&spec, &options(&folder));
    for (name, dir, steps) in [
        (None, "eval", vec![2, 4, 6, 7]),
        (Some("seen"), "eval_seen", vec![3, 6, 7]),
    ] {
        let written = shown(&folder.run().join(dir));
        assert_eq!(written.series.keys().collect::<Vec<_>>(), ["loss"], "{dir}");
        let found = points(&written, "loss");
        assert_eq!(found, measured(&events, name), "{dir}");
        assert_eq!(
            found.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
            steps
        );
    }
    // The losses of the training have a file of their own, and another curve.
    let own = points(&shown(&folder.run()), "loss");
    assert_eq!(
        own.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        [2, 4, 6]
    );
    assert_ne!(own[0], measured(&events, None)[0]);
}

#[test]
fn the_evaluations_of_a_resumed_run_are_one_curve() {
    let straight = Folder::new("eval-straight");
    let (_, expected) = run(&evaluated(13, ""), &options(&straight));
    let folder = Folder::new("eval-curve");
    run(&evaluated(8, ""), &options(&folder));
    // Killed after step 12 was evaluated and before it was saved: the evaluations of 10 and 12 are made again.
    run(&evaluated(12, ""), &options(&folder));
    std::fs::remove_file(folder.run().join("model.ckpt-12.index")).unwrap();
    let (_, events) = run(&evaluated(13, ""), &options(&folder));
    assert_eq!(resumed_at(&events), Some(9), "{events:?}");
    let found = points(&shown(&folder.run().join("eval")), "loss");
    assert_eq!(found, measured(&expected, None));
    // What was overtaken is still in the files, and is not shown.
    let all = Run::read(&folder.run().join("eval"), RunOptions::default()).unwrap();
    assert_eq!(points(&all, "loss").len(), found.len() + 2);
}

/// Pictures, sounds and text whose values are known, and the step counter.
fn pictured(hooks: &str) -> String {
    format!(
        "spec pictured;
         data d {{ source csv(\"rows.csv\"); feature x: f32; feature at: i64; batch 2; }}
         model (x: f32[batch], at: i64[batch]) {{
             param a: f32 = zeros();
             let sound = expand_dims(x, axis: 1) * [0.5, -0.25, 2.0];
             let picture = expand_dims(expand_dims(expand_dims(x, axis: 1) * [1.0, 2.0], axis: 1), axis: 3);
             loss mean(square(a - x)) + 0.0 * (sum(sound) + sum(picture) + cast(sum(at), f32));
         }}
         train {{ data d; optimizer gradient_descent(0.5); steps 4; }}
         hooks {{ checkpoint (dir: \"unused\"); {hooks} }}"
    )
}

const ROWS: &[u8] = b"0.5,1\n1,2\n0.25,3\n1,4\n0.5,5\n0.5,6\n0.25,7\n1,8\n";

fn train(text: &str, dir: &RunDir, options: Options) -> (State, Vec<Event>) {
    let mut events = Vec::new();
    let options = Options {
        env: MemoryEnv::new(&[("rows.csv", ROWS)]).env(),
        dir: Some(dir.0.clone()),
        ..options
    };
    let mut observer = |event: &Event| events.push(event.clone());
    let trained = trainspec::train(&spec(text), &options, &mut observer);
    (trained.unwrap_or_else(|e| panic!("{e}\n{text}")), events)
}

#[test]
fn pictures_sounds_and_text_of_a_spec_are_read_back() {
    let dir = RunDir::new();
    let text = pictured(
        "summary (every: 2 steps) {
             image picture;
             audio (sound, sample_rate: 8_000, max_outputs: 1);
             text at;
             scalar [loss, x];
             histogram \"a\";
         }",
    );
    train(&text, &dir, Options::default());
    let run = shown(&dir.0);
    let kinds: Vec<(&str, &Kind, Vec<i64>)> = (run.series.iter())
        .map(|(tag, s)| {
            (
                tag.as_str(),
                &s.kind,
                s.points.iter().map(|p| p.step).collect(),
            )
        })
        .collect();
    let every = |tag, kind| (tag, kind, vec![2, 4]);
    assert_eq!(
        kinds,
        [
            every("a", &Kind::Histogram),
            every("at", &Kind::Text),
            every("loss", &Kind::Scalar),
            every("picture/image/0", &Kind::Image),
            every("picture/image/1", &Kind::Image),
            every("sound/audio", &Kind::Audio),
            every("x", &Kind::Scalar),
        ]
    );
    let value = |tag: &str, i: usize| run.value(&run.series[tag].points[i]).unwrap();
    // The second batch has the records 0.25 and 1: a pixel is 255 of the largest, so that the two of a picture are a half and all of it.
    for tag in ["picture/image/0", "picture/image/1"] {
        let Some(Value::Image(image)) = value(tag, 0).value else {
            panic!("{tag}")
        };
        assert_eq!((image.height, image.width, image.colorspace), (1, 2, 1));
        let (extents, pixels) = decode_png(&image.encoded_image_string, 100).unwrap();
        assert_eq!((extents, pixels), ([1, 2, 1], vec![127, 255]), "{tag}");
    }
    // Samples of 16 bits, of the first clip: 0.25 times 0.5, -0.25 and 2.
    let Some(Value::Audio(audio)) = value("sound/audio", 0).value else {
        panic!("sound")
    };
    let stated = (audio.sample_rate, audio.num_channels, audio.length_frames);
    assert_eq!(stated, (8_000.0, 1, 3));
    let samples: Vec<f32> = audio.encoded_audio_string[44..]
        .chunks(2)
        .map(|b| f32::from(i16::from_le_bytes([b[0], b[1]])) / 32_767.0)
        .collect();
    for (found, expected) in samples.iter().zip([0.125, -0.0625, 0.5]) {
        assert!((found - expected).abs() < 1e-4, "{samples:?}");
    }
    // A number has the text that it is printed with.
    for (i, expected) in ["[3, 4]", "[7, 8]"].iter().enumerate() {
        let Some(Value::Tensor(proto)) = value("at", i).value else {
            panic!("at")
        };
        let text = FileTensor::from_message(proto).unwrap();
        let expected = vec![expected.as_bytes().to_vec()];
        assert_eq!(text, FileTensor::strings(&[], expected).unwrap());
    }
    // An input as a scalar is the mean of its batch.
    assert_eq!(points(&run, "x"), [(2, Some(0.625)), (4, Some(0.625))]);
}

#[test]
fn the_step_counter_of_a_spec_writes_steps_per_second() {
    let dir = RunDir::new();
    let text = pictured("summary none; step_counter (every: 2 steps);");
    train(&text, &dir, Options::default());
    let found = points(&shown(&dir.0), "global_step/sec");
    let steps: Vec<i64> = found.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [2, 4]);
    assert!(
        found
            .iter()
            .all(|(_, rate)| rate.is_some_and(|r| r > 0.0 && r.is_finite()))
    );
}

#[test]
fn at_a_step_summaries_come_after_the_log_and_before_evaluations() {
    let evals = "
        data held { source csv(\"points.csv\"); feature x: f32; feature y: f32; batch 5; }
        eval { data held; every 2 steps; metrics [loss]; }";
    let spec = training_with(3, 0.05, "keep: 2", evals);
    let mut spec = trainspec_compiler::typed::Spec::clone(&spec);
    for hook in &mut spec.hooks {
        if let trainspec_compiler::typed::HookKind::Log { every, .. } = &mut hook.kind {
            *every = trainspec_compiler::typed::Interval::Steps(2);
        }
    }
    // Where no event file can be created, the first hook that writes one says so.
    let folder = Folder::new("summary-order");
    let faulty = Arc::new(FaultyStorage::new(storage::local()));
    let fault = Fault::at(1, Effect::Fail(ErrorKind::StorageFull)).sticky();
    faulty.inject(fault.only("tfevents"));
    let (trained, events) = run_in(faulty, &Arc::new(spec), &options(&folder));
    trained.unwrap();
    let what = events.iter().filter_map(|event| match event {
        Event::Step { step, .. } => Some(format!("log {step}")),
        Event::Evaluated { step, .. } => Some(format!("eval {step}")),
        Event::Note(text) if text.contains("no more summaries") => Some("summary".to_owned()),
        _ => None,
    });
    let what: Vec<String> = what.collect();
    assert_eq!(what[..3], ["log 2", "summary", "eval 2"], "{events:?}");
}

#[test]
fn at_a_step_early_stop_counts_the_evaluation_before_the_state_is_saved() {
    let evals = "
        data held { source csv(\"points.csv\"); feature x: f32; feature y: f32; batch 5; }
        eval { data held; every 3 steps; metrics [loss]; }";
    let folder = Folder::new("early-stop-order");
    let hooks = "keep: 9); early_stop (loss, patience: 9";
    let spec = training_with(6, 0.05, hooks, evals);
    let (mut state, events) = run(&spec, &options(&folder));
    let losses = measured(&events, None);
    for (i, step) in [(0, 3), (1, 6)] {
        let path = folder.run().join(format!("model.ckpt-{step}"));
        let restored = trainspec::saver::restore(&mut state, &path, &Default::default()).unwrap();
        let records = restored.records.to_text();
        let line = records.lines().find(|line| line.contains("since"));
        let line = line.unwrap_or_else(|| panic!("{records}"));
        // The best so far is that of the evaluation of this very step, or of one before.
        let best: f64 = line
            .split("best ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let least = losses[..=i]
            .iter()
            .filter_map(|(_, x)| *x)
            .fold(f64::INFINITY, f64::min);
        assert!(
            (best - least).abs() < 1e-6,
            "step {step}: {line} {losses:?}"
        );
        let since = losses[..=i]
            .iter()
            .rev()
            .take_while(|(_, x)| x.unwrap() > least)
            .count();
        assert!(
            line.ends_with(&format!("since {since}")),
            "step {step}: {line} {losses:?}"
        );
    }
}

#[test]
fn a_resumed_run_repeats_no_summary_of_the_step_it_goes_on_from() {
    let folder = Folder::new("summaries-once");
    for steps in [4, 4, 6, 8] {
        run(
            &training_with(steps, 0.05, "keep: 2", ""),
            &options(&folder),
        );
    }
    // Every value that is in the files, whatever TensorBoard would drop.
    let mut steps = Vec::new();
    for name in std::fs::read_dir(folder.run()).unwrap() {
        let path = name.unwrap().path();
        if path.to_string_lossy().contains("tfevents") {
            for event in summary_iterator(&path).unwrap() {
                let event = event.unwrap();
                if let Some(What::Summary(summary)) = event.what {
                    let losses = summary.value.iter().filter(|value| value.tag == "loss");
                    steps.extend(losses.map(|_| event.step));
                }
            }
        }
    }
    steps.sort();
    assert_eq!(steps, [2, 4, 6, 8]);
}
