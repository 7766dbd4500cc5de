//! Arrays as sources: IDX and NumPy files, and what a program hands in.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use trainspec::internals::data::Pipeline;
use trainspec::registry::Registry;
use trainspec::{Error, Tensor};
use trainspec_formats::checkpoint::{Tensor as FileTensor, numpy};

use crate::support::{MemoryEnv, RunDir, check_errors, context_with, ints, open, read, spec};

/// The bytes of an IDX file.
pub(crate) fn idx(code: u8, shape: &[u32], elements: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, code, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|n| n.to_be_bytes()));
    bytes.extend_from_slice(elements);
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn npy(tensor: &FileTensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    numpy::put_npy(tensor.view(), &mut bytes).unwrap();
    bytes
}

pub(crate) fn npz(arrays: &[(&str, &FileTensor)]) -> Vec<u8> {
    let folder = RunDir::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("a.npz");
    let views: Vec<_> = arrays.iter().map(|(name, t)| (*name, t.view())).collect();
    numpy::write_npz(
        &path,
        &views,
        numpy::Compression::Deflated,
        Default::default(),
    )
    .unwrap();
    std::fs::read(path).unwrap()
}

/// 2 x 2 images of three records, and labels.
fn digits() -> (Vec<u8>, Vec<u8>) {
    let images: Vec<u8> = (0..12).collect();
    (idx(8, &[3, 2, 2], &images), idx(8, &[3], &[7, 0, 9]))
}

const DIGITS: &str = "source idx(image: \"images\", label: \"labels\");
    feature image: u8[2, 2]; feature label: i64 in 0..10;";

#[test]
fn idx_files_are_records_compressed_or_not() {
    let (images, labels) = digits();
    let plain = MemoryEnv::new(&[("images", &images), ("labels", &labels)]);
    let compressed = MemoryEnv::new(&[("images", &gzip(&images)), ("labels", &gzip(&labels))]);
    for env in [plain, compressed] {
        let all = read(&env, DIGITS, 9).unwrap();
        assert_eq!(ints(&all, "label"), [7, 0, 9]);
        assert_eq!(ints(&all, "image"), (0..12).collect::<Vec<i64>>());
        let location = all[2].location().unwrap().to_string();
        assert_eq!(location, "images, record 3");
        let batches = read(
            &env,
            &format!("{DIGITS} batch (size: 2, remainder: keep);"),
            9,
        )
        .unwrap();
        assert_eq!(batches[0].values["image"].shape(), [2, 2, 2]);
        assert_eq!(batches[1].values["label"].to_i64s(), [9]);
    }
}

#[test]
fn arrays_are_shuffled_exactly() {
    let (images, labels) = digits();
    let env = MemoryEnv::new(&[("images", &gzip(&images)), ("labels", &labels)]);
    let all = read(&env, &format!("{DIGITS} shuffle; epochs 4;"), 99).unwrap();
    let labels = ints(&all, "label");
    assert_eq!(labels.len(), 12);
    for epoch in labels.chunks(3) {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 7, 9]);
    }
    assert!(labels.chunks(3).any(|epoch| epoch != [7, 0, 9]));
}

#[test]
fn idx_files_have_elements_of_six_types() {
    for (code, bytes, ty, expected) in [
        (0x08, vec![200], "u8", 200.0),
        (0x09, vec![0xff], "i8", -1.0),
        (0x0b, vec![0xff, 0x00], "i16", -256.0),
        (0x0c, vec![0, 1, 0, 0], "i32", 65536.0),
        (0x0c, vec![0, 1, 0, 0], "i64", 65536.0),
        (0x0d, 1.5_f32.to_be_bytes().to_vec(), "f32", 1.5),
        (0x0d, 1.5_f32.to_be_bytes().to_vec(), "f64", 1.5),
        (0x0e, 0.1_f64.to_be_bytes().to_vec(), "f64", 0.1),
    ] {
        let env = MemoryEnv::new(&[("x", &idx(code, &[1], &bytes))]);
        let settings = format!("source idx(\"x\"); feature x: {ty};");
        let all = read(&env, &settings, 9).unwrap();
        assert_eq!(all[0].values["x"].to_f64s(), [expected], "{ty}");
    }
}

/// The message of the error that a data set gives.
fn error(files: &[(&str, &[u8])], settings: &str) -> String {
    read(&MemoryEnv::new(files), settings, 99)
        .unwrap_err()
        .to_string()
}

#[test]
fn what_a_file_of_arrays_has_and_a_feature_has_not_is_an_error() {
    let (images, labels) = digits();
    let one = |file: &[u8], feature: &str| {
        error(
            &[("x", file)],
            &format!("source idx(\"x\"); feature x: {feature};"),
        )
    };
    assert_eq!(
        one(&images, "u8[4]"),
        "x: `x` is `u8[4]`, and the array has 3 records of uint8[2, 2]"
    );
    let floats = idx(0x0e, &[1], &0.1_f64.to_be_bytes());
    assert_eq!(
        one(&floats, "f32"),
        "x: `x` is `f32`, and the array has records of float64"
    );
    assert_eq!(
        one(&labels, "f32"),
        "x: `x` is `f32`, and the array has records of uint8"
    );
    assert_eq!(
        one(&labels, "i64 in 0..9"),
        "x, record 3: `x` is 9, which is not in 0..9"
    );
    let large = idx(0x0c, &[2], &[0, 0, 0, 1, 0, 0, 1, 44]);
    assert_eq!(one(&large, "u8"), "x, record 2: `x` is 300, which is no u8");
    assert_eq!(
        one(&images[..20], "u8[2, 2]"),
        "x: its header says [3, 2, 2], which takes 28 bytes, and the file has 20"
    );
    assert_eq!(one(b"MNIST", "u8"), "x: is text, and no file of `idx`");
    assert_eq!(
        one(&idx(7, &[1], &[0]), "u8"),
        "x: there is no type of elements 0x07 (at byte 2)"
    );
    let short = gzip(&images[..20]);
    assert!(
        one(&short, "u8[2, 2]").starts_with("x: cannot be read: "),
        "{}",
        one(&short, "u8[2, 2]")
    );
    let bomb = gzip(&idx(8, &[u32::MAX, 16], &[]));
    assert!(one(&bomb, "u8[16]").contains("compressed bytes cannot hold as much"));
    let two = idx(8, &[2], &[1, 2]);
    assert_eq!(
        error(&[("images", &images), ("labels", &two)], DIGITS),
        "`image` has 3 records, and `label` has 2"
    );
}

#[test]
fn numpy_arrays_are_records() {
    let x = FileTensor::from_values(&[3, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let y = FileTensor::from_values(&[3], &[10_u16, 20, 30]).unwrap();
    let names = vec![b"a".to_vec(), b"bcd".to_vec(), b"".to_vec()];
    let name = FileTensor::strings(&[3], names).unwrap();
    let features = "feature x: f32[2]; feature y: i64; feature name: string;";
    let files = [("x", npy(&x)), ("y", npy(&y)), ("n", npy(&name))];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (*n, &b[..])).collect();
    let apart = MemoryEnv::new(&files);
    let archive = npz(&[("x", &x), ("y", &y), ("name", &name)]);
    let together = MemoryEnv::new(&[("d.npz", &archive)]);
    for (env, source) in [
        (apart, "source npy(x: \"x\", y: \"y\", name: \"n\");"),
        (together, "source npz(\"d.npz\");"),
    ] {
        let all = read(&env, &format!("{source} {features}"), 9).unwrap();
        assert_eq!(all[1].values["x"].to_f64s(), [3.0, 4.0]);
        assert_eq!(ints(&all, "y"), [10, 20, 30]);
        let name = all[1].values["name"].data().clone();
        assert_eq!(
            name,
            trainspec_compiler::ir::tensor::Data::String(vec![b"bcd".to_vec()])
        );
    }
    // Column-major order: 1 3 5 2 4 6 in the file.
    let mut fortran =
        npy(&FileTensor::from_values(&[3, 2], &[1.0_f32, 3.0, 5.0, 2.0, 4.0, 6.0]).unwrap());
    let header = fortran.windows(5).position(|w| w == b"False").unwrap();
    fortran[header..header + 5].copy_from_slice(b"True ");
    let env = MemoryEnv::new(&[("x", &fortran)]);
    let all = read(&env, "source npy(\"x\"); feature x: f32[2];", 9).unwrap();
    assert_eq!(all[1].values["x"].to_f64s(), [3.0, 4.0]);
}

#[test]
fn several_files_follow_one_another() {
    let part = |values: &[i64]| npy(&FileTensor::from_values(&[values.len()], values).unwrap());
    let (a, b, c) = (part(&[1, 2]), part(&[]), part(&[3]));
    let (d, e) = (part(&[10]), part(&[20, 30]));
    let env = MemoryEnv::new(&[("x0", &a), ("x1", &b), ("x2", &c), ("y0", &d), ("y1", &e)]);
    let settings = "source npy(x: \"x*\", y: [\"y0\", \"y1\"]); feature x: i64; feature y: i64;";
    let all = read(&env, settings, 9).unwrap();
    assert_eq!(
        (ints(&all, "x"), ints(&all, "y")),
        (vec![1, 2, 3], vec![10, 20, 30])
    );
    let all = read(
        &env,
        &format!("{settings} batch (size: 2, remainder: keep);"),
        9,
    )
    .unwrap();
    assert_eq!(
        (ints(&all, "x"), ints(&all, "y")),
        (vec![1, 2, 3], vec![10, 20, 30])
    );
    assert_eq!(all[1].location().unwrap().to_string(), "x2, record 1");
    let missing = error(
        &[(
            "d.npz",
            &npz(&[("x", &FileTensor::from_values(&[1], &[1_i64]).unwrap())]),
        )],
        "source npz(\"d.npz\"); feature z: i64;",
    );
    assert_eq!(missing, "d.npz: there is no array `z`");
}

fn registry() -> Registry {
    let x = Tensor::new(&[4, 2], vec![0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let y = Tensor::new(&[4], vec![0_i64, 1, 2, 3]);
    Registry::default().memory("points", [("x", x), ("y", y)])
}

/// The elements of a data set of what a program registers.
fn given(settings: &str, registry: Registry) -> Result<Vec<i64>, Error> {
    let env = MemoryEnv::new(&[]);
    let spec = spec(&format!("spec test; data d {{ {settings} }}"));
    let mut pipeline = Pipeline::open(&context_with(&env, &spec, 0, registry), &spec.data[0])?;
    let mut all = Vec::new();
    while let Some(element) = pipeline.next()? {
        all.push(element);
    }
    Ok(ints(&all, "y"))
}

#[test]
fn arrays_of_a_program_are_records() {
    let points = "source memory(\"points\"); feature x: f32[2]; feature y: i64;";
    assert_eq!(given(points, registry()).unwrap(), [0, 1, 2, 3]);
    let skipped = format!("{points} skip 1; batch 3;");
    assert_eq!(given(&skipped, registry()).unwrap(), [1, 2, 3]);
    let mut shuffled = given(&format!("{points} shuffle;"), registry()).unwrap();
    shuffled.sort_unstable();
    assert_eq!(shuffled, [0, 1, 2, 3]);
    for (settings, message) in [
        (
            points.replace("f32[2]", "f32[3]"),
            "memory \"points\": `x` is `f32[3]`, and the array has 4 records of float32[2]",
        ),
        (
            points.replace("y: i64", "z: i64"),
            "memory \"points\": the program hands in no array `z`",
        ),
        (
            points.replace("points", "others"),
            "`memory(\"others\")` is not registered",
        ),
    ] {
        assert_eq!(
            given(&settings, registry()).unwrap_err().to_string(),
            message
        );
    }
}

#[test]
fn names_and_files_of_arrays_are_checked() {
    for (settings, message) in [
        (
            "source idx(image: \"a\"); feature imag: u8;",
            "the source has no file for the feature `imag`",
        ),
        (
            "source idx(image: \"a\", label: \"b\"); feature image: u8;",
            "no feature reads the files of `label`",
        ),
        (
            "source idx(\"a\"); feature x: u8; feature y: u8;",
            "a file of `idx` is one array, and there are 2 features",
        ),
        (
            "source npy(x: \"a\", x: \"b\"); feature x: u8;",
            "the files of `x` are given twice",
        ),
        (
            "source npy(\"a\", x: \"b\"); feature x: u8;",
            "the file before has no feature",
        ),
        ("source npy(); feature x: u8;", "the source names no file"),
        (
            "source npz(\"a\"); feature x: u8 = 3;",
            "every record of `npz` has `x`, so it has no default",
        ),
        (
            "source npz(\"a\"); feature x: u8[<=3];",
            "the records of arrays have no features of varying length, and `x` is `u8[<=3]`",
        ),
        (
            "source npz(\"a\");",
            "the data set reads no feature of its source",
        ),
        (
            "source csv(\"a\"); feature x: f32[2] as [\"a\", \"b\"];",
            "without a header the columns have no names",
        ),
        (
            "source npz(\"a\"); feature x: f32[2] as [\"a\", \"b\"];",
            "a feature of `npz` has one name",
        ),
        (
            "source csv(\"a\", header: true); feature x: f32[3] as [\"a\", \"b\"];",
            "`x` is `f32[3]`, which has 3 elements, and 2 columns are named",
        ),
        (
            "source csv(\"a\", header: true); feature x: f32[2] as [\"a\", \"a\"];",
            "the column `a` is named twice",
        ),
    ] {
        let errors = check_errors(&format!("spec test; data d {{ {settings} }}"));
        assert!(
            errors.iter().any(|e| e == message),
            "{settings}: {errors:?}"
        );
    }
    let idx = "source raw(image: \"c\", label: \"d\");";
    let raw = "data raw { source idx(image: \"a\", label: \"b\"); feature image: u8; feature label: u8; }";
    assert_eq!(
        check_errors(&format!("spec test; {raw} data d {{ {idx} }}")),
        Vec::<String>::new()
    );
    let one = check_errors(&format!("spec test; {raw} data d {{ source raw(\"c\"); }}"));
    assert_eq!(
        one,
        ["the other data set has a file for each feature, and so must this one"]
    );
    let few = check_errors(&format!(
        "spec test; {raw} data d {{ source raw(image: \"c\"); }}"
    ));
    assert_eq!(
        few,
        ["the other data set has a file for `label`, and this one has none"]
    );
}

#[test]
fn a_resumed_pipeline_reads_the_right_rows() {
    let (images, labels) = digits();
    let env = MemoryEnv::new(&[("images", &images), ("labels", &gzip(&labels))]);
    let mut pipeline = open(&env, &format!("{DIGITS} repeat; batch 2;"), 0).unwrap();
    pipeline.next().unwrap();
    let position = pipeline.position();
    assert_eq!(position.to_string(), "arrays/1 2\nrepeat/1 0 0 0 1 0");
    let next = pipeline.next().unwrap();
    let mut other = open(&env, &format!("{DIGITS} repeat; batch 2;"), 0).unwrap();
    assert_eq!(other.seek(&position).unwrap(), 0);
    assert_eq!(other.next().unwrap(), next);
    let wrong = "arrays/1 4\nrepeat/1 0 0 0 1 0".parse().unwrap();
    assert_eq!(
        other.seek(&wrong).unwrap_err().to_string(),
        "the position of `arrays` is at record 4, and there are 3"
    );
}
