//! Predictions on files: every record once and in order, whatever the batch, the kind of file, and what else is in it.

use std::path::{Path, PathBuf};

use trainspec::predict::{InputFormat, Request};
use trainspec::{Error, Options, Predictor, Session};
use trainspec_formats::checkpoint::numpy;
use trainspec_formats::examples;
use trainspec_formats::files::Durability;
use trainspec_formats::records::RecordWriter;
use trainspec_formats::tensor::Tensor as FileTensor;

use crate::support::{RunDir, spec};

/// `y = 3 x`, with a data set of some stages.
fn tripled(input: &str, stages: &str) -> String {
    format!(
        "spec tripled;
         data d {{ source csv(\"none.csv\", header: true); feature x: f32; feature y: f32; {stages} }}
         model (x: f32[{input}], y: f32[{input}]) {{
             param a: f32 = constant(3.0);
             loss mean(square(a * x - y));
             output guess = a * x;
             output mean_guess = mean(a * x);
         }}
         train {{ data d; optimizer gradient_descent(0.1); steps 1; }}"
    )
}

/// The outputs for a file, with a checkpoint of initial values; and the rows of each batch.
fn predicted(
    folder: &RunDir,
    text: &str,
    change: impl FnOnce(&mut Request),
    path: &Path,
) -> Result<(Vec<f64>, Vec<usize>), Error> {
    let spec = spec(text);
    let options = Options {
        folder: folder.0.clone(),
        ..Options::default()
    };
    let checkpoint = Session::new(&spec, &options)?.save(folder.0.join("model.ckpt"))?;
    let mut request = Request::of(path, InputFormat::of(path).expect("a known ending"));
    change(&mut request);
    let mut predictor = Predictor::open(&spec, &options, &checkpoint, &request)?;
    let (mut all, mut rows) = (Vec::new(), Vec::new());
    while let Some(batch) = predictor.next()? {
        assert_eq!(batch.values[0].shape()[0], batch.rows);
        all.extend(batch.values[0].to_f64s());
        rows.push(batch.rows);
    }
    assert_eq!(predictor.predicted(), rows.iter().sum::<usize>() as u64);
    Ok((all, rows))
}

fn file(folder: &RunDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

const SEVEN: [f64; 7] = [3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0];

#[test]
fn every_record_is_predicted_once_whatever_the_batch() {
    let folder = RunDir::new();
    let path = file(&folder, "new.csv", "x\n1\n2\n3\n4\n5\n6\n7\n");
    let stages = "split (part: train, holdout: 2, seed: 1); filter x > 2.0; shuffle 5; take 3; repeat; batch 4;";
    for (batch, rows) in [
        (None, &[4, 3][..]),
        (Some(1), &[1; 7]),
        (Some(7), &[7]),
        (Some(8), &[7]),
        (Some(3), &[3, 3, 1]),
    ] {
        let text = tripled("batch", stages);
        let found = predicted(&folder, &text, |r| r.batch = batch, &path).unwrap();
        assert_eq!(found, (SEVEN.to_vec(), rows.to_vec()));
    }
}

#[test]
fn a_fixed_batch_is_filled_up_and_cut_again() {
    let folder = RunDir::new();
    for (n, rows) in [(7, vec![4, 3]), (8, vec![4, 4]), (1, vec![1])] {
        let lines: String = (1..=n).map(|i| format!("{i}\n")).collect();
        let path = file(&folder, "new.csv", format!("x\n{lines}"));
        let expected: Vec<f64> = (1..=n).map(|i| 3.0 * f64::from(i)).collect();
        let text = tripled("4", "batch 4;");
        let found = predicted(&folder, &text, |_| {}, &path).unwrap();
        assert_eq!(found, (expected.clone(), rows.clone()));
        // A map of batches has their size in its type.
        let text = tripled("batch", "batch 4; map x = x + 0.0 * sum(x);");
        let found = predicted(&folder, &text, |_| {}, &path).unwrap();
        assert_eq!(found, (expected, rows));
    }
}

#[test]
fn all_kinds_of_files_give_the_same() {
    let folder = RunDir::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    let values: Vec<f32> = (1_u8..=7).map(f32::from).collect();
    let array = FileTensor::from_values(&[7], &values).unwrap();
    let npy = folder.0.join("x.npy");
    numpy::write_npy(&npy, array.view(), Durability::Unsynced).unwrap();
    let npz = folder.0.join("x.npz");
    let other = FileTensor::from_values(&[1], &[0_i64]).unwrap();
    let arrays = [("x", array.view()), ("unused", other.view())];
    numpy::write_npz(&npz, &arrays, Default::default(), Durability::Unsynced).unwrap();
    let records = folder.0.join("x.tfrecord");
    let mut writer = RecordWriter::replacing(&records, &Default::default()).unwrap();
    for x in &values {
        let example = examples::example([("x", (*x).into())]);
        writer.write(&examples::encode(&example)).unwrap();
    }
    writer.commit(Durability::Unsynced).unwrap();
    let lines: String = (1..=7).map(|i| format!("{{\"x\": {i}}}\n\n")).collect();
    let jsonl = file(&folder, "x.jsonl", lines);
    for path in [npy, npz, records, jsonl] {
        let text = tripled("batch", "batch 4;");
        let found = predicted(&folder, &text, |_| {}, &path).unwrap();
        assert_eq!(found, (SEVEN.to_vec(), vec![4, 3]), "{}", path.display());
    }
}

#[test]
fn without_a_header_labels_may_be_there_or_not() {
    let folder = RunDir::new();
    let text = tripled("batch", "batch 4;").replace(", header: true", "");
    for lines in ["1\n2\n3\n", "1,10\n2,20\n3,30\n"] {
        let path = file(&folder, "new.csv", lines);
        let (found, _) = predicted(&folder, &text, |_| {}, &path).unwrap();
        assert_eq!(found, [3.0, 6.0, 9.0], "{lines}");
    }
    let path = file(&folder, "new.csv", "1,2,3\n");
    let error = predicted(&folder, &text, |_| {}, &path).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("the first line has 3 fields; the predictions need `x: f32` in 1 columns, and all features of `d` are 2"),
        "{message}"
    );
}

#[test]
fn records_go_through_the_maps_as_in_an_evaluation() {
    let folder = RunDir::new();
    let path = file(&folder, "new.csv", "x\n1\n2\n3\n");
    let stages = "map x = x + 1.0; map x = if training { x + random_normal([]) } else { x }; map y = y * 2.0; batch 4;";
    let text = tripled("batch", stages);
    let (found, _) = predicted(&folder, &text, |_| {}, &path).unwrap();
    assert_eq!(found, [6.0, 9.0, 12.0]);
}

#[test]
fn a_spec_without_data_takes_the_inputs_of_its_model() {
    let folder = RunDir::new();
    let text = "spec plain;
        model (x: f32[n, 2]) { param a: f32 = constant(3.0); loss mean(a * x); output guess = a * sum(x, axis: 1); }
        train { optimizer gradient_descent(0.1); }";
    let path = file(&folder, "new.jsonl", "{\"x\": [1, 2]}\n{\"x\": [3, 4]}\n");
    let (found, _) = predicted(&folder, text, |_| {}, &path).unwrap();
    assert_eq!(found, [9.0, 21.0]);
    let path = file(&folder, "new.jsonl", "{\"x\": [1, 2, 3]}\n");
    let error = predicted(&folder, text, |_| {}, &path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`x` has 3 elements, and `x: f32[2]` is read"),
        "{error}"
    );
}

#[test]
fn windows_are_predicted_as_they_are_trained() {
    let folder = RunDir::new();
    let text = "spec windows;
        data d { source csv(\"none.csv\", header: true); feature x: f32; window (size: 3, shift: 1); map y = x[2]; map x = x[0..2]; batch 2; }
        model (x: f32[batch, 2], y: f32[batch]) {
            param a: f32 = ones();
            loss mean(square(a * sum(x, axis: 1) - y));
            output guess = a * sum(x, axis: 1);
        }
        train { data d; optimizer gradient_descent(0.1); }";
    let path = file(&folder, "new.csv", "x\n1\n2\n3\n4\n5\n");
    let (found, _) = predicted(&folder, text, |_| {}, &path).unwrap();
    assert_eq!(found, [3.0, 5.0, 7.0]);
}

#[test]
fn arrays_of_another_type_or_shape_are_refused() {
    let folder = RunDir::new();
    let path = file(&folder, "x.npy", "");
    let text = tripled("batch", "batch 4;");
    let message = |array: FileTensor| {
        numpy::write_npy(&path, array.view(), Durability::Unsynced).unwrap();
        let error = predicted(&folder, &text, |_| {}, &path).unwrap_err();
        assert!(error.is_bad_input());
        error.to_string()
    };
    let wide = message(FileTensor::from_values(&[2, 2], &[0.0_f32; 4]).unwrap());
    assert!(
        wide.contains("the array is f32[2, 2], and `x: f32` is read of each record"),
        "{wide}"
    );
    let double = message(FileTensor::from_values(&[2], &[0.0_f64; 2]).unwrap());
    assert!(double.contains("the array is f64[2]"), "{double}");
}

#[test]
fn outputs_are_chosen_by_name() {
    let folder = RunDir::new();
    let path = file(&folder, "new.csv", "x\n1\n");
    let text = tripled("batch", "batch 4;");
    let fails = |name: &str| {
        let fetch = vec![name.to_owned()];
        let error = predicted(&folder, &text, |r| r.fetch = fetch, &path);
        error.unwrap_err().to_string()
    };
    assert!(fails("gues").contains("the model has no output `gues`"));
    assert!(fails("mean_guess").contains("which has no row for each record"));
}

#[test]
fn a_data_set_that_joins_others_reads_records_as_its_parts_do() {
    let folder = RunDir::new();
    let path = file(&folder, "new.csv", "x\n1\n2\n3\n");
    let parts = "data a { source csv(\"a.csv\", header: true); feature x: f32; feature y: f32; map x = 2.0 * x; }
        data b { source a; }
        data only_x { source csv(\"a.csv\", header: true); feature x: f32; }
        data only_y { source csv(\"b.csv\", header: true); feature y: f32; }";
    for (source, expected) in [
        ("mix(a, b, seed: 1)", [6.0, 12.0, 18.0]),
        ("zip(only_x, only_y)", [3.0, 6.0, 9.0]),
    ] {
        let text = tripled("batch", "");
        let (head, rest) = text.split_once("data d").unwrap();
        let (_, rest) = rest.split_once('}').unwrap();
        let text = format!("{head} {parts} data d {{ source {source}; batch 2; }} {rest}");
        let (all, rows) = predicted(&folder, &text, |_| {}, &path).unwrap();
        assert_eq!((all, rows), (expected.to_vec(), vec![2, 1]), "{source}");
    }
}

#[test]
fn sequences_are_predicted_in_the_order_of_their_records() {
    let folder = RunDir::new();
    let text = "spec sequences;
        data d {
            source tfrecord(\"none\"); feature x: f32; sequence tags: f32[<=4, <=3];
            bucket_by_length (tags, boundaries: [2], size: 2);
        }
        model (x: f32[batch], tags: f32[batch, <=4, <=3]) {
            param a: f32 = constant(3.0);
            output guess = a * x + sum(sum(tags, axis: 2), axis: 1);
            loss mean(square(a * x));
        }
        train { data d; optimizer gradient_descent(0.1); steps 1; }";
    let lists: [(f32, &[&[f32]]); 3] = [
        (1.0, &[&[1.0, 2.0], &[], &[5.0]]),
        (2.0, &[&[9.0]]),
        (3.0, &[]),
    ];
    let mut writer = RecordWriter::new(Vec::new(), &Default::default());
    let mut lines = String::new();
    for (x, tags) in lists {
        let steps: Vec<examples::Feature> = tags.iter().map(|step| step.to_vec().into()).collect();
        let message = examples::sequence_example([("x", x.into())], [("tags", steps)]);
        writer.write(&examples::encode_sequence(&message)).unwrap();
        lines += &format!("{{\"x\": {x}, \"tags\": {tags:?}}}\n");
    }
    let records = file(&folder, "new.tfrecord", writer.finish().unwrap());
    let lines = file(&folder, "new.jsonl", lines);
    for path in [records, lines] {
        let (all, _) = predicted(&folder, text, |_| {}, &path).unwrap();
        assert_eq!(all, [11.0, 15.0, 9.0], "{}", path.display());
    }
}
