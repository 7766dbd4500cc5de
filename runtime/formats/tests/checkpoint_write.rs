//! Checkpoints round-trip, are replaced atomically, and are found by the helpers of `tf.train`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::Folder;
use half::{bf16, f16};
use trainspec_formats::Code;
use trainspec_formats::checkpoint::bundle::{Options, Replace, data_path, index_path, merge};
use trainspec_formats::checkpoint::numpy::{self, Compression};
use trainspec_formats::checkpoint::v1::{self, shard_path};
use trainspec_formats::checkpoint::{
    Bundle, BundleWriter, CheckpointList, CheckpointReader, DType, Npz, ObjectWriter, PathStyle,
    Safetensors, Slice, TableCheckpoint, TableCheckpointWriter, Tensor, Version,
    checkpoints_iterator, get_checkpoint_state, latest_checkpoint, remove_checkpoint, safetensors,
    update_checkpoint_state,
};
use trainspec_formats::clock::Clock;
use trainspec_formats::files::Durability;

fn left() -> Options {
    Options {
        durability: Durability::Unsynced,
        ..Options::default()
    }
}

/// A tensor of every type that can be stored.
fn every_type() -> Vec<(String, Tensor)> {
    let mut all: Vec<(String, Tensor)> = DType::all()
        .filter_map(|dtype| {
            let size = dtype.size()?;
            let bytes = (0..6 * size).map(|i| match dtype {
                DType::Bool => (i % 2) as u8,
                _ => (i * 37 + 11) as u8,
            });
            let tensor = Tensor::new(dtype, &[2, 3], bytes.collect()).unwrap();
            Some((format!("t/{dtype}"), tensor))
        })
        .collect();
    let long = vec![7; 70_000];
    let strings = vec![b"".to_vec(), b"a\0b".to_vec(), long, vec![0xff]];
    all.push((
        "t/string".into(),
        Tensor::strings(&[2, 2], strings).unwrap(),
    ));
    all.push((
        "t/no_strings".into(),
        Tensor::strings(&[0], vec![]).unwrap(),
    ));
    all.push(("t/scalar".into(), Tensor::scalar(1.5_f64)));
    all
}

#[test]
fn every_type_round_trips_through_a_bundle() {
    let folder = Folder::new();
    for (shards, alignment) in [(1, 1), (3, 64)] {
        let prefix = folder.file(&format!("deep/model.ckpt-{shards}"));
        let options = Options {
            shards,
            alignment,
            ..left()
        };
        let mut writer = BundleWriter::create(&prefix, options).unwrap();
        for (i, (name, tensor)) in every_type().iter().enumerate() {
            writer.add_to(i as u32 % shards, name, tensor).unwrap();
        }
        writer.finish().unwrap();
        let reader = Bundle::open(&prefix).unwrap();
        for (name, tensor) in every_type() {
            assert_eq!(reader.tensor(&name).unwrap(), tensor, "{name}");
            assert_eq!(reader.entry(&name).unwrap().offset % alignment as i64, 0);
        }
        assert!(reader.verify().is_empty());
    }
}

#[test]
fn values_have_types() {
    let f16s = Tensor::from_values(&[2], &[f16::from_f32(1.5), f16::MAX]).unwrap();
    assert_eq!(
        f16s.to_vec::<f16>().unwrap(),
        [f16::from_f32(1.5), f16::MAX]
    );
    assert!(f16s.to_vec::<bf16>().is_err());
    let complex = Tensor::from_values(&[1], &[[1.0_f32, -1.0]]).unwrap();
    assert_eq!(complex.dtype(), DType::Complex64);
    assert_eq!(complex.as_slice::<[f32; 2]>(), Some(&[[1.0, -1.0]][..]));
    let bools = Tensor::new(DType::Bool, &[2], vec![1, 2]).unwrap();
    assert_eq!(bools.to_vec::<bool>().unwrap_err().code, Code::DataLoss);
    assert!(Tensor::from_values(&[3], &[1.0_f32]).is_err());
    assert!(Tensor::new(DType::Float32, &[usize::MAX, usize::MAX], vec![]).is_err());
    assert!(Tensor::new(DType::String, &[1], vec![0]).is_err());
}

/// A matrix whose elements are all different.
fn matrix(rows: usize, columns: usize) -> Tensor {
    let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    Tensor::from_values(&[rows, columns], &values).unwrap()
}

#[test]
fn a_partitioned_tensor_is_assembled_from_its_slices() {
    let folder = Folder::new();
    let whole = matrix(700, 300);
    let reader_of_whole = |prefix: &Path| {
        let mut writer = BundleWriter::create(prefix, left()).unwrap();
        writer.add("m", &whole).unwrap();
        writer.finish().unwrap();
        Bundle::open(prefix).unwrap()
    };
    let plain = reader_of_whole(&folder.file("plain"));
    // Partitioned by rows, by columns, and by both.
    let cuts = [
        ["0,300:-", "300,300:-", "600,100:-"].as_slice(),
        &["-:0,1", "-:1,150", "-:151,149"],
        &[
            "0,500:0,200",
            "0,500:200,100",
            "500,200:0,7",
            "500,200:7,293",
        ],
    ];
    for (i, cut) in cuts.into_iter().enumerate() {
        let prefix = folder.file(&format!("cut-{i}"));
        let options = Options {
            shards: 2,
            ..left()
        };
        let mut writer = BundleWriter::create(&prefix, options).unwrap();
        for (k, slice) in cut.iter().enumerate() {
            let slice: Slice = slice.parse().unwrap();
            let part = plain.slice("m", &slice).unwrap();
            assert_eq!(part.shape(), slice.shape(whole.shape()).unwrap());
            writer
                .add_slice(k as u32 % 2, "m", whole.shape(), &slice, &part)
                .unwrap();
        }
        writer.finish().unwrap();
        let reader = Bundle::open(&prefix).unwrap().with_threads(2);
        assert!(reader.verify().is_empty(), "{:?}", reader.verify());
        assert_eq!(reader.entries().count(), 1);
        assert_eq!(reader.tensor("m").unwrap(), whole);
        let mut into = vec![0; whole.bytes().len()];
        reader.read_into("m", &mut into).unwrap();
        assert_eq!(into, whole.bytes());
        for slice in ["10,2:-", "-:5,3", "299,2:150,2", "0,700:0,300"] {
            let slice: Slice = slice.parse().unwrap();
            assert_eq!(
                reader.slice("m", &slice).unwrap(),
                plain.slice("m", &slice).unwrap()
            );
        }
    }
}

#[test]
fn slices_that_do_not_cover_a_tensor_are_refused() {
    let folder = Folder::new();
    let row = matrix(1, 4);
    let read = |name: &str, slices: &[&str]| {
        let prefix = folder.file(name);
        let mut writer = BundleWriter::create(&prefix, left()).unwrap();
        for slice in slices {
            writer
                .add_slice(0, "m", &[3, 4], &slice.parse().unwrap(), &row)
                .unwrap();
        }
        writer.finish().unwrap();
        let reader = Bundle::open(&prefix).unwrap();
        assert!(!reader.verify().is_empty());
        assert_eq!(reader.slice("m", &"0,1:-".parse().unwrap()).unwrap(), row);
        reader.tensor("m").unwrap_err().code
    };
    assert_eq!(read("missing", &["0,1:-", "2,1:-"]), Code::InvalidArgument);
    // The same rows under two keys.
    assert_eq!(
        read("twice", &["0,1:-", "2,1:-", "2,1:0,4"]),
        Code::DataLoss
    );
}

#[test]
fn large_tensors_read_the_same_with_any_number_of_threads() {
    let folder = Folder::new();
    let prefix = folder.file("big");
    let tensors: Vec<(String, Tensor)> = (0..5)
        .map(|i| (format!("t{i}"), matrix(1000 * i + 3, 1111)))
        .collect();
    let mut writer = BundleWriter::create(&prefix, left()).unwrap();
    for (name, tensor) in &tensors {
        writer.add(name, tensor).unwrap();
    }
    writer.finish().unwrap();
    for threads in [1, 2, 3, 7] {
        let reader = Bundle::open(&prefix).unwrap().with_threads(threads);
        let mut into: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, t)| vec![1; t.bytes().len()])
            .collect();
        let pairs = tensors.iter().zip(&mut into);
        let requests = pairs.map(|((name, _), into)| (name.as_str(), into.as_mut_slice()));
        reader.read_all_into(requests.collect()).unwrap();
        for ((name, tensor), into) in tensors.iter().zip(&into) {
            assert!(tensor.bytes() == into, "{name}");
        }
    }
    // A byte near the end is wrong: it is detected by whichever thread reads it.
    let data = data_path(&prefix, 0, 1);
    let mut bytes = fs::read(&data).unwrap();
    let at = bytes.len() - 1000;
    bytes[at] ^= 1;
    fs::write(&data, bytes).unwrap();
    for threads in [1, 2, 3] {
        let reader = Bundle::open(&prefix).unwrap().with_threads(threads);
        let mut into = vec![0; tensors[4].1.bytes().len()];
        let error = reader.read_into("t4", &mut into).unwrap_err();
        assert_eq!(error.code, Code::DataLoss);
        assert_eq!(error.path.as_deref(), Some(data.as_path()));
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_checkpoint_stays_readable_until_the_next_one_is_complete() {
    let folder = Folder::new();
    let prefix = folder.file("model.ckpt");
    let save = |value: f32, options: Options| {
        let mut writer = BundleWriter::create(&prefix, options).unwrap();
        writer.add("v", &Tensor::scalar(value)).unwrap();
        writer
    };
    let value = || Bundle::open(&prefix).unwrap().tensor("v").unwrap();
    save(1.0, left()).finish().unwrap();
    let first = names(&folder.0);
    assert_eq!(first.len(), 2);
    // A dropped writer leaves no files.
    drop(save(2.0, left()));
    assert_eq!(names(&folder.0), first);
    // Whatever files a writer has renamed before it dies, the old checkpoint reads as before: every file of the new one
    // has a name of its own, except the index, which comes last.
    let old: Vec<(String, Vec<u8>)> = first
        .iter()
        .map(|name| (name.clone(), fs::read(folder.file(name)).unwrap()))
        .collect();
    save(2.0, left()).finish().unwrap();
    assert_eq!(value(), Tensor::scalar(2.0_f32));
    let second = names(&folder.0);
    assert!(
        second
            .iter()
            .all(|name| name.ends_with(".index") || !first.contains(name))
    );
    for (name, bytes) in &old {
        fs::write(folder.file(name), bytes).unwrap();
    }
    assert_eq!(value(), Tensor::scalar(1.0_f32));
    // The next one cleans up.
    save(3.0, left()).finish().unwrap();
    assert_eq!(value(), Tensor::scalar(3.0_f32));
    assert!(names(&folder.0).len() <= 3);
    save(4.0, left()).finish().unwrap();
    assert_eq!(names(&folder.0), first);
    assert_eq!(value(), Tensor::scalar(4.0_f32));
    // TensorFlow's way reuses the names.
    let same = Options {
        replace: Replace::SameNames,
        ..left()
    };
    save(5.0, same).finish().unwrap();
    assert_eq!(names(&folder.0), first);
    assert_eq!(value(), Tensor::scalar(5.0_f32));
    assert!(Bundle::open(&prefix).unwrap().verify().is_empty());
}

#[test]
fn bundles_are_merged() {
    let folder = Folder::new();
    let merged = folder.file("model.ckpt");
    for round in 0..3 {
        let parts: Vec<PathBuf> = (0..2).map(|i| folder.file(&format!("part-{i}"))).collect();
        for (i, prefix) in parts.iter().enumerate() {
            let mut writer = BundleWriter::create(prefix, left()).unwrap();
            let slice: Slice = format!("{},2:-", 2 * i).parse().unwrap();
            writer
                .add_slice(0, "m", &[4, 3], &slice, &matrix(2, 3))
                .unwrap();
            writer
                .add(&format!("v{i}"), &Tensor::scalar(i as i32 + round))
                .unwrap();
            writer.finish().unwrap();
        }
        let parts: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
        merge(&parts, &merged, left()).unwrap();
        let reader = Bundle::open(&merged).unwrap();
        assert!(reader.verify().is_empty(), "{:?}", reader.verify());
        assert_eq!(reader.tensor("v1").unwrap(), Tensor::scalar(1 + round));
        let twice = [matrix(2, 3).bytes(), matrix(2, 3).bytes()].concat();
        assert_eq!(reader.tensor("m").unwrap().bytes(), twice);
        let left: Vec<String> = names(&folder.0).into_iter().collect();
        assert!(
            left.iter().all(|name| name.starts_with("model.ckpt")),
            "{left:?}"
        );
    }
    let again = folder.file("again");
    let mut writer = BundleWriter::create(&again, left()).unwrap();
    writer.add("v0", &Tensor::scalar(0_i32)).unwrap();
    writer.finish().unwrap();
    let error = merge(&[&merged, &again], &folder.file("both"), left()).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
}

#[test]
fn invalid_calls_of_a_writer_are_errors() {
    let folder = Folder::new();
    let mut writer = BundleWriter::create(&folder.file("m"), left()).unwrap();
    let scalar = Tensor::scalar(1_i32);
    writer.add("a", &scalar).unwrap();
    for name in ["a", "", "\0a"] {
        assert_eq!(
            writer.add(name, &scalar).unwrap_err().code,
            Code::InvalidArgument
        );
    }
    assert!(writer.add_to(1, "b", &scalar).is_err());
    let slice: Slice = "0,1".parse().unwrap();
    assert!(
        writer
            .add_slice(
                0,
                "a",
                &[2],
                &slice,
                &Tensor::from_values(&[1], &[1_i32]).unwrap()
            )
            .is_err()
    );
    assert!(writer.add_slice(0, "c", &[2], &slice, &scalar).is_err());
    writer.finish().unwrap();
    let reader = Bundle::open(&folder.file("m")).unwrap();
    assert_eq!(reader.tensor("b").unwrap_err().code, Code::NotFound);
    assert_eq!(reader.tensor("").unwrap_err().code, Code::NotFound);
    assert_eq!(
        reader.read_into("a", &mut [0; 5]).unwrap_err().code,
        Code::InvalidArgument
    );
    assert!(reader.slice("a", &slice).is_err());
}

#[test]
fn big_endian_numbers_are_byte_swapped() {
    let folder = Folder::new();
    let prefix = folder.file("m");
    let values = Tensor::from_values(&[2], &[1.5_f32, -2.0]).unwrap();
    let mut writer = BundleWriter::create(&prefix, left()).unwrap();
    let reversed: Vec<u8> = values
        .bytes()
        .chunks(4)
        .flat_map(|four| four.iter().rev().copied())
        .collect();
    writer
        .add("v", &Tensor::new(DType::Float32, &[2], reversed).unwrap())
        .unwrap();
    writer.finish().unwrap();
    // The header gets the field that says so: its number is 2.
    let path = index_path(&prefix);
    let table = trainspec_formats::table::Table::open(fs::read(&path).unwrap()).unwrap();
    let mut builder = trainspec_formats::table::TableBuilder::new(Vec::new());
    let mut cursor = table.cursor();
    while cursor.advance().unwrap() {
        let mut value = cursor.value().to_vec();
        if cursor.key().is_empty() {
            value.extend([2 << 3, 1]);
        }
        builder.add(cursor.key(), &value).unwrap();
    }
    fs::write(&path, builder.finish().unwrap()).unwrap();
    let reader = Bundle::open(&prefix).unwrap();
    assert_eq!(reader.tensor("v").unwrap(), values);
    let mut into = [0; 8];
    reader.read_into("v", &mut into).unwrap();
    assert_eq!(into, values.bytes());
}

#[test]
fn a_checkpoint_of_the_first_version_may_be_several_files() {
    let folder = Folder::new();
    let prefix = folder.file("model.ckpt-5");
    let (a, b, c) = (matrix(2, 3), Tensor::scalar(7_i64), matrix(1, 3));
    let mut first = TableCheckpointWriter::new();
    first
        .add_slice("m", &[3, 3], &"0,2:-".parse().unwrap(), &a)
        .unwrap();
    first.add("step", &b).unwrap();
    first
        .write(&shard_path(&prefix, 0, 2), Durability::Unsynced)
        .unwrap();
    let mut second = TableCheckpointWriter::new();
    second
        .add_slice("m", &[3, 3], &"2,1:-".parse().unwrap(), &c)
        .unwrap();
    second
        .write(&shard_path(&prefix, 1, 2), Durability::Unsynced)
        .unwrap();
    let pattern = folder.file("model.ckpt-5-?????-of-00002");
    let reader = CheckpointReader::open(&pattern).unwrap();
    assert_eq!(reader.names(), ["m", "step"]);
    assert_eq!(
        reader.get_tensor("m").unwrap().bytes(),
        [a.bytes(), c.bytes()].concat()
    );
    assert!(reader.verify().is_empty());
    remove_checkpoint(&pattern, Version::V1, "meta").unwrap();
    assert!(names(&folder.0).is_empty());
}

#[test]
fn the_first_version_refuses_what_it_cannot_hold() {
    let folder = Folder::new();
    let tensors = every_type();
    let mut writer = TableCheckpointWriter::new();
    let mut held = Vec::new();
    for (name, tensor) in &tensors {
        match writer.add(name, tensor) {
            Ok(()) => held.push((name, tensor)),
            Err(e) => assert_eq!(e.code, Code::InvalidArgument),
        }
    }
    // 15 types of numbers, strings, no strings, and a scalar: TensorFlow does not read quantized integers of sixteen bits.
    assert_eq!(held.len(), 18);
    writer
        .write(&folder.file("v1"), Durability::Unsynced)
        .unwrap();
    let reader = TableCheckpoint::open(&folder.file("v1")).unwrap();
    for (name, tensor) in held {
        assert_eq!(reader.tensor(name).unwrap(), *tensor, "{name}");
    }
}

#[test]
fn what_tensorflow_cannot_read_of_the_first_version_is_refused_first() {
    let folder = Folder::new();
    let path = folder.file("new/v1");
    let ones = [1; 9];
    let large = [1 << 15, 1 << 14];
    for (dtype, shape, cause) in [
        (DType::QInt16, &ones[..1], "cannot hold qint16"),
        (DType::QUInt16, &ones[..1], "cannot hold quint16"),
        (DType::Float32, &ones[..], "`x` has 9 dimensions"),
        (DType::Float32, &large[..], "`x` is too large"),
        (DType::String, &[1 << 30], "`x` is too large"),
    ] {
        let entries: &[(&str, DType, &[usize])] = &[("x", dtype, shape)];
        let written = v1::write_each(
            &path,
            entries,
            Durability::Unsynced,
            |_| -> Result<Tensor, _> { panic!("refused before it is asked for") },
        );
        let error = written.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.cause.contains(cause), "{error}");
        assert_eq!(error.path.as_deref(), Some(path.as_path()));
    }
    assert!(!folder.file("new").exists());
    let tensor = Tensor::from_values(&ones, &[1.5_f32]).unwrap();
    let mut writer = TableCheckpointWriter::new();
    assert!(writer.add("x", &tensor).is_err());
    // Eight dimensions are allowed.
    let tensor = Tensor::from_values(&ones[..8], &[1.5_f32]).unwrap();
    writer.add("x", &tensor).unwrap();
}

#[test]
fn objects_are_found_by_every_name() {
    let folder = Folder::new();
    let prefix = folder.file("ckpt-1");
    let mut writer = ObjectWriter::create(&prefix, left()).unwrap();
    let (w, m) = (matrix(2, 2), matrix(2, 1));
    writer.variable(&["model", "w.1/x"], "w", &w).unwrap();
    writer.alias(&["again"], &["model"]).unwrap();
    writer
        .slot(&["optimizer"], &["model", "w.1/x"], "m", "w/Adam", &m)
        .unwrap();
    assert!(
        writer
            .slot(&["optimizer"], &["nothing"], "m", "", &m)
            .is_err()
    );
    writer.save_counter(3).unwrap();
    writer.finish().unwrap();
    let reader = CheckpointReader::open(&prefix).unwrap();
    for name in [
        "model/w..1.Sx/.ATTRIBUTES/VARIABLE_VALUE",
        "model/w..1.Sx",
        "again/w..1.Sx",
        "w",
    ] {
        assert_eq!(reader.get_variable(name).unwrap(), w, "{name}");
    }
    for name in ["w/Adam", "model/w..1.Sx/.OPTIMIZER_SLOT/optimizer/m"] {
        assert_eq!(reader.get_variable(name).unwrap(), m, "{name}");
    }
    assert_eq!(
        reader.get_variable("save_counter").unwrap(),
        Tensor::scalar(3_i64)
    );
    assert_eq!(
        reader.get_variable("nothing").unwrap_err().code,
        Code::NotFound
    );
    let graph = reader.object_graph().unwrap().unwrap();
    assert!(graph.nodes.iter().all(|node| node.has_values == Some(true)));
    assert_eq!(graph.find("again"), graph.find("model"));
}

#[test]
fn archives_of_others_are_read_and_written() {
    let folder = Folder::new();
    let all = every_type();
    let holds = |file: &str, write: &dyn Fn(&Path, &str, &Tensor) -> bool| -> usize {
        let path = folder.file(file);
        let mut count = 0;
        for (name, tensor) in &all {
            if write(&path, name, tensor) {
                let reader = CheckpointReader::open(&path).unwrap();
                assert_eq!(reader.get_tensor(name).unwrap(), *tensor, "{file} {name}");
                assert_eq!(reader.entry(name), Some((tensor.dtype(), tensor.shape())));
                assert!(reader.verify().is_empty());
                count += 1;
            }
        }
        count
    };
    let safetensors = holds("a.safetensors", &|path, name, tensor| {
        safetensors::write(
            path,
            &[(name, tensor.view())],
            &Default::default(),
            Durability::Unsynced,
        )
        .is_ok()
    });
    assert_eq!(safetensors, 19);
    for compression in [Compression::Stored, Compression::Deflated] {
        let npz = holds("a.npz", &|path, name, tensor| {
            numpy::write_npz(
                path,
                &[(name, tensor.view())],
                compression,
                Durability::Unsynced,
            )
            .is_ok()
        });
        assert_eq!(npz, 17);
    }
    let views: Vec<_> = all
        .iter()
        .filter(|(_, t)| t.dtype() == DType::Float32 || t.dtype() == DType::Int8)
        .map(|(name, t)| (name.as_str(), t.view()))
        .collect();
    let path = folder.file("b.safetensors");
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    safetensors::write(&path, &views, &metadata, Durability::Unsynced).unwrap();
    let file = Safetensors::open(&path).unwrap();
    assert_eq!(file.metadata(), &metadata);
    assert_eq!(file.entries().count(), views.len());
    let path = folder.file("b.npz");
    numpy::write_npz(&path, &views, Compression::Deflated, Durability::Unsynced).unwrap();
    assert_eq!(Npz::open(&path).unwrap().entries().count(), views.len());
    let slice: Slice = "1,1:-".parse().unwrap();
    let row = CheckpointReader::open(&path)
        .unwrap()
        .get_slice("t/float32", &slice)
        .unwrap();
    assert_eq!(row.bytes(), &views[0].1.to_tensor().bytes()[12..]);
}

#[test]
fn a_checkpoint_state_file_cannot_lead_out_of_its_folder() {
    let folder = Folder::new();
    let run = folder.file("run");
    fs::create_dir_all(&run).unwrap();
    fs::write(folder.file("secret.index"), b"").unwrap();
    for path in ["../secret", "a/../../secret", "./../secret"] {
        fs::write(
            run.join("checkpoint"),
            format!("model_checkpoint_path: \"{path}\"\n"),
        )
        .unwrap();
        assert_eq!(
            latest_checkpoint(&run, None).unwrap_err().code,
            Code::InvalidArgument
        );
        assert!(CheckpointReader::open(&run).is_err());
    }
    let absolute = folder.file("secret").to_str().unwrap().to_owned();
    fs::write(
        run.join("checkpoint"),
        format!("model_checkpoint_path: \"{absolute}\"\n"),
    )
    .unwrap();
    assert_eq!(
        latest_checkpoint(&run, None).unwrap(),
        Some(PathBuf::from(&absolute))
    );
    fs::write(
        run.join("checkpoint"),
        "all_model_checkpoint_paths: \"a\"\n",
    )
    .unwrap();
    assert!(get_checkpoint_state(&run, None).is_err());
    let listed = CheckpointList {
        newest: &absolute,
        ..CheckpointList::default()
    };
    update_checkpoint_state(
        &run,
        &listed,
        None,
        PathStyle::Relative,
        Durability::Unsynced,
    )
    .unwrap();
    let text = fs::read_to_string(run.join("checkpoint")).unwrap();
    assert!(
        text.starts_with(&format!("model_checkpoint_path: \"{absolute}\"\n")),
        "{text}"
    );
    let clash = run.join("checkpoint");
    let listed = CheckpointList {
        newest: clash.to_str().unwrap(),
        ..CheckpointList::default()
    };
    assert!(
        update_checkpoint_state(
            &run,
            &listed,
            None,
            PathStyle::AsGiven,
            Durability::Unsynced
        )
        .is_err()
    );
}

/// A fake clock that advances only in `sleep`, and then runs the planned actions.
struct Planned<F> {
    now: Cell<Duration>,
    naps: RefCell<Vec<Duration>>,
    at: F,
}

impl<F: Fn(u64)> Clock for &Planned<F> {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn unix_seconds(&self) -> f64 {
        self.now.get().as_secs_f64()
    }

    fn sleep(&self, time: Duration) {
        self.naps.borrow_mut().push(time);
        let before = self.now.get();
        self.now.set(before + time);
        (before.as_secs() + 1..=self.now.get().as_secs()).for_each(&self.at);
    }
}

#[test]
fn checkpoints_come_as_they_appear() {
    let folder = Folder::new();
    let save = |step: u64| {
        let newest = format!("model.ckpt-{step}");
        fs::write(folder.file(&format!("{newest}.index")), b"").unwrap();
        let listed = CheckpointList {
            newest: &newest,
            ..CheckpointList::default()
        };
        let (style, durability) = (PathStyle::AsGiven, Durability::Unsynced);
        update_checkpoint_state(&folder.0, &listed, None, style, durability).unwrap();
    };
    let clock = Planned {
        now: Cell::new(Duration::ZERO),
        naps: RefCell::default(),
        at: |second| {
            if [3, 4, 20].contains(&second) {
                save(second);
            }
        },
    };
    let second = Duration::from_secs(1);
    let found: Vec<String> = checkpoints_iterator(&folder.0, &clock)
        .min_interval(5 * second)
        .timeout(30 * second)
        .map(|found| {
            found
                .unwrap()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    // The second one appears while the first is kept from being followed; then nothing comes for 30 seconds.
    assert_eq!(found, ["model.ckpt-3", "model.ckpt-4", "model.ckpt-20"]);
    assert_eq!(clock.now.get(), 55 * second);
    assert_eq!(clock.naps.borrow()[3], 5 * second);
    // The callback ends the iteration: it is called after a checkpoint and after each timeout.
    let asked = Cell::new(0);
    let found = checkpoints_iterator(&folder.0, &clock)
        .timeout(10 * second)
        .until(|| {
            asked.set(asked.get() + 1);
            asked.get() == 3
        })
        .count();
    assert_eq!((found, asked.get()), (1, 3));
    // Any duration is accepted.
    let mut patient = checkpoints_iterator(&folder.0, &clock)
        .min_interval(Duration::MAX)
        .timeout(Duration::MAX);
    assert!(patient.next().unwrap().is_ok());
    let quick = checkpoints_iterator(&folder.0, &clock).timeout(Duration::ZERO);
    assert_eq!(quick.count(), 1);
}
