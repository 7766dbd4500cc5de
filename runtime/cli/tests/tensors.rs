//! End-to-end tests of `trainspec cat`, `diff` and `convert`. The checkpoints and their values are TensorFlow's.

use std::path::PathBuf;

use crate::support::{Folder, err, out, root, trainspec};
use half::{bf16, f16};
use serde_json::Value as Json;

/// The output of a command that must exit with `code`.
fn output_of(code: i32, arguments: &[&str]) -> String {
    let output = trainspec(arguments);
    let all = format!("{arguments:?}: {}{}", out(&output), err(&output));
    assert_eq!(output.status.code(), Some(code), "{all}");
    match code {
        2 => err(&output),
        _ => out(&output),
    }
}

fn json(arguments: &[&str]) -> Json {
    let output = trainspec(arguments);
    serde_json::from_str(&out(&output)).unwrap_or_else(|e| panic!("{e}: {}", out(&output)))
}

fn oracle() -> PathBuf {
    root().join("tests/oracle/checkpoints")
}

/// What is known of a checkpoint, and its prefix.
fn known(name: &str) -> (Json, String) {
    let text = std::fs::read_to_string(oracle().join(format!("{name}.json"))).unwrap();
    let known: Json = serde_json::from_str(&text).unwrap();
    let prefix = oracle().join(name).join(known["prefix"].as_str().unwrap());
    (known, prefix.to_str().unwrap().to_owned())
}

fn prefix(name: &str) -> String {
    known(name).1
}

/// The bits of a value in a type; the JSON of both sides may have other digits for it.
fn bits(dtype: &str, value: &Json) -> u64 {
    let real = match value.as_str().map(str::to_lowercase).as_deref() {
        Some("nan") => f64::NAN,
        Some("inf" | "infinity") => f64::INFINITY,
        Some("-inf" | "-infinity") => f64::NEG_INFINITY,
        _ => value
            .as_f64()
            .unwrap_or_else(|| panic!("{value} is no number")),
    };
    match dtype {
        "float32" | "complex64" => (real as f32).to_bits().into(),
        "float64" | "complex128" => real.to_bits(),
        "float16" => f16::from_f64(real).to_bits().into(),
        "bfloat16" => bf16::from_f64(real).to_bits().into(),
        other => panic!("{other} is no float"),
    }
}

fn hex(value: &Json) -> String {
    match value.as_str() {
        Some(text) => text.bytes().map(|b| format!("{b:02x}")).collect(),
        None => value["hex"].as_str().unwrap().to_owned(),
    }
}

fn assert_values(dtype: &str, values: &[Json], expected: &Json, name: &str) {
    if let Some(strings) = expected["data_hex"].as_array() {
        let found: Vec<Json> = values.iter().map(|v| hex(v).into()).collect();
        assert_eq!(&found, strings, "{name}");
        return;
    }
    // Complex numbers are stored interleaved there.
    let flat: Vec<&Json> = values
        .iter()
        .flat_map(|v| v.as_array().map_or(vec![v], |pair| pair.iter().collect()))
        .collect();
    let expected = expected["data"].as_array().unwrap();
    assert_eq!(flat.len(), expected.len(), "{name}");
    for (found, expected) in flat.into_iter().zip(expected) {
        match dtype.contains("float") || dtype.contains("complex") {
            true => assert_eq!(bits(dtype, found), bits(dtype, expected), "{name}"),
            false => assert_eq!(found, expected, "{name}"),
        }
    }
}

#[test]
fn cat_prints_the_values_of_every_tensor() {
    let mut seen = 0;
    for name in [
        "dtypes",
        "object",
        "partitioned",
        "sharded",
        "single",
        "v1",
        "v1_partitioned",
    ] {
        let (known, prefix) = known(name);
        for tensor in known["tensors"].as_array().unwrap() {
            let (name, dtype) = (
                tensor["name"].as_str().unwrap(),
                tensor["dtype"].as_str().unwrap(),
            );
            let object = json(&["cat", &prefix, name, "--format", "json"]);
            assert_eq!(object["name"], name);
            assert_eq!(object["dtype"], dtype);
            assert_eq!(object["shape"], tensor["shape"]);
            if tensor["value"].is_object() {
                let values = object["values"].as_array().unwrap();
                assert_values(dtype, values, &tensor["value"], name);
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn cat_prints_rows_and_columns() {
    assert_eq!(
        output_of(0, &["cat", &prefix("single"), "layer1/w"]),
        "layer1/w: float32 [3, 4]\n\
         [[    4.617, 2.6269999,     2.927,     2.908],\n \
         [    4.948,     3.994,      2.49,      2.17],\n \
         [    4.086,     2.662,     5.458,     5.928]]\n"
    );
    let dtypes = prefix("dtypes");
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_special"]),
        "v_special: float32 [6]\n[   nan,    inf,   -inf,   -0.0,  1e-40, 3.4e38]\n"
    );
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_complex64"]),
        "v_complex64: complex64 [2]\n[-1.481+0.088j, -1.371-0.925j]\n"
    );
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_empty_2d"]),
        "v_empty_2d: int32 [3, 0, 2]\n[]\n"
    );
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_string_scalar"]),
        "v_string_scalar: string []\n\"a scalar \\u{1} string\"\n"
    );
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_float16"]),
        "v_float16: float16 [3]\n[ 0.448, -0.414, -0.966]\n"
    );
}

#[test]
fn cat_leaves_out_the_middle_of_large_tensors() {
    let big = prefix("big");
    let short = output_of(0, &["cat", &big, "big"]);
    assert_eq!(short.lines().count(), 1 + 7, "{short}");
    assert!(short.contains("[[ 50, 100, 208, ..., "), "{short}");
    let full = output_of(0, &["cat", &big, "big", "--all"]);
    assert!(!full.contains("..."));
    assert!(full.lines().all(|line| line.len() <= 80));
    let numbers = full.split_once('\n').unwrap().1;
    assert_eq!(numbers.matches(',').count(), 1024 * 1025 - 1);
}

#[test]
fn cat_writes_rows_as_csv() {
    let folder = Folder::new();
    let dtypes = prefix("dtypes");
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_bool", "--as", "csv"]),
        "false,true,true\ntrue,true,false\n"
    );
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_empty", "--as", "csv"]),
        ""
    );
    assert_eq!(
        output_of(0, &["cat", &dtypes, "v_rank5", "--as", "csv"])
            .lines()
            .count(),
        4
    );
    let path = folder.path("b.csv");
    output_of(0, &["cat", &prefix("single"), "layer1/b", "-o", &path]);
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        "-0.402,-0.725,-1.997,-0.019\n"
    );
}

#[test]
fn cat_writes_npy_files() {
    let folder = Folder::new();
    let path = folder.path("w.npy");
    let single = prefix("single");
    output_of(0, &["cat", &single, "layer1/w", "--output", &path]);
    let bytes = std::fs::read(&path).unwrap();
    let piped = trainspec(&["cat", &single, "layer1/w", "--as", "npy"]).stdout;
    assert_eq!(bytes, piped);
    let tensor = trainspec_formats::checkpoint::numpy::read_npy(path.as_ref()).unwrap();
    assert_eq!(tensor.shape(), [3, 4]);
    assert_eq!(tensor.to_vec::<f32>().unwrap()[..2], [4.617, 2.6269999]);
    let error = output_of(2, &["cat", &prefix("dtypes"), "v_bfloat16", "--as", "npy"]);
    assert!(
        error.contains("`v_bfloat16` is bfloat16, for which NumPy has no type"),
        "{error}"
    );
    assert!(error.contains("help: `--as csv`"), "{error}");
}

#[test]
fn cat_resolves_object_paths() {
    let object = prefix("object");
    let by_way = output_of(0, &["cat", &object, "model/b"]);
    assert_eq!(by_way, "model/b: float32 [2]\n[-1.5695757, 0.32884887]\n");
    let folder = oracle().join("object");
    let newest = output_of(0, &["cat", folder.to_str().unwrap(), "model/b"]);
    assert_eq!(newest, by_way);
    let index = format!("{object}.index");
    assert_eq!(output_of(0, &["cat", &index, "model/b"]), by_way);
}

#[test]
fn a_wrong_name_is_answered_with_near_ones() {
    let single = prefix("single");
    let error = output_of(2, &["cat", &single, "layer1/v"]);
    assert!(error.contains("there is no tensor `layer1/v`"), "{error}");
    assert!(
        error.contains("did you mean `layer1/b` or `layer1/w`?"),
        "{error}"
    );
    assert!(
        error.contains(&format!("`trainspec inspect {single}` lists the names")),
        "{error}"
    );
    let far = output_of(2, &["cat", &single, "something/else/entirely"]);
    assert!(!far.contains("did you mean"), "{far}");
    let way = output_of(2, &["cat", &prefix("object"), "modle/w"]);
    assert!(way.contains("did you mean `model/w`"), "{way}");
    let object = json(&["cat", &single, "layer1/v", "--format", "json"]);
    assert!(object["message"].as_str().unwrap().contains("`layer1/v`"));
}

#[test]
fn damaged_and_missing_files_are_bad_input() {
    for name in [
        "damaged_flipped_data",
        "damaged_flipped_index",
        "damaged_missing_data",
        "damaged_truncated_data",
        "damaged_truncated_index",
    ] {
        let folder = Folder::new();
        let damaged = prefix_of_damaged(name);
        let error = output_of(2, &["convert", &damaged, &folder.path("out.npz")]);
        assert!(error.starts_with("error: "), "{error}");
        assert_eq!(folder.files(), Vec::<String>::new(), "{name}");
        output_of(2, &["diff", &prefix("single"), &damaged]);
    }
    output_of(2, &["cat", "/nowhere/at/all", "w"]);
    output_of(2, &["diff", "/nowhere/at/all", &prefix("single")]);
}

fn prefix_of_damaged(name: &str) -> String {
    let path = oracle().join(name).join("model.ckpt-1000");
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_checkpoint_equals_itself() {
    for (name, elements) in [("single", 18), ("v1", 47)] {
        let prefix = prefix(name);
        let text = output_of(0, &["diff", &prefix, &prefix]);
        assert!(text.starts_with("equal: "), "{text}");
        assert!(
            text.ends_with(&format!(", {elements} elements\n")),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
    let dtypes = prefix("dtypes");
    let object = json(&["diff", &dtypes, &dtypes, "--format", "json"]);
    assert_eq!(object["equal"], true);
    assert_eq!(object["tensors"], 23);
}

#[test]
fn differences_are_reported_with_their_indices() {
    use trainspec_formats::checkpoint::{BundleWriter, Tensor};
    let folder = Folder::new();
    let write = |name: &str, tensors: &[(&str, Tensor)]| {
        let path = folder.path(name);
        let mut writer = BundleWriter::create(path.as_ref(), Default::default()).unwrap();
        for (name, tensor) in tensors {
            writer.add(name, tensor).unwrap();
        }
        writer.finish().unwrap();
        path
    };
    let text = |text: &str| Tensor::strings(&[1], vec![text.into()]).unwrap();
    let a = write(
        "a",
        &[
            ("gone", Tensor::scalar(1_i32)),
            ("kind", Tensor::scalar(1_i32)),
            ("same", Tensor::scalar(f64::NAN)),
            ("text", text("old")),
            (
                "w",
                Tensor::from_values(&[2, 2], &[1.0_f32, 100.0, 0.5, 7.0]).unwrap(),
            ),
        ],
    );
    let b = write(
        "b",
        &[
            ("kind", Tensor::scalar(1_i64)),
            ("new", Tensor::scalar(1_u8)),
            ("same", Tensor::scalar(f64::NAN)),
            ("text", text("new")),
            (
                "w",
                Tensor::from_values(&[2, 2], &[1.5_f32, 101.0, 0.125, 7.0]).unwrap(),
            ),
        ],
    );
    let expected = format!(
        "gone: int32 [], only in {a}\n\
         new: uint8 [], only in {b}\n\
         kind: int32 [] and int64 []\n\
         text: string [1], 1 of 1 element differs; the first at [0] (\"old\" and \"new\")\n\
         w: float32 [2, 2], 3 of 4 elements differ; largest absolute difference 1.0 at [0, 1] (100.0 and 101.0), \
         relative 3.0 at [1, 0] (0.5 and 0.125)\n\
         different: 4 tensors in both; 2 only in one, 1 of another type or shape, 2 with other elements\n"
    );
    assert_eq!(output_of(1, &["diff", &a, &b]), expected);
    let object = json(&["diff", &a, &b, "--format", "json"]);
    assert_eq!(object["equal"], false);
    assert_eq!(object["only_in_a"][0]["name"], "gone");
    assert_eq!(object["other_type"][0]["b"]["dtype"], "int64");
    assert_eq!(object["differing"][0]["first"]["b"], "new");
    assert_eq!(
        object["differing"][1]["relative"]["at"],
        serde_json::json!([1, 0])
    );
    assert_eq!(object["differing"][1]["absolute"]["value"], 1.0);
    // Of three differences, 0.5 and 0.375 are allowed.
    let near = json(&["diff", &a, &b, "--atol", "0.5", "--format", "json"]);
    assert_eq!(near["differing"][1]["differing"], 1);
    let near = json(&["diff", &a, &b, "--rtol", "0.5", "--format", "json"]);
    assert_eq!(near["differing"][1]["differing"], 1);
    output_of(2, &["diff", &a, &b, "--atol", "-1"]);
}

#[test]
fn tensors_that_cannot_be_read_are_never_equal() {
    let folder = Folder::new();
    let write = |name: &str, unknown: &str, value: u8| {
        let header = format!(
            r#"{{"{unknown}":{{"dtype":"F4","shape":[4],"data_offsets":[0,2]}},"b":{{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}}}"#
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0, 0, value, 4]);
        let path = folder.write(name, bytes);
        path.to_str().unwrap().to_owned()
    };
    let a = write("a.safetensors", "a", 3);
    let output = trainspec(&["diff", &a, &a]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let expected = format!("a: not compared: {a}: tensor `a`: the type `F4`");
    assert!(text.starts_with(&expected), "{text}");
    assert!(
        text.ends_with("not known to be equal: 2 tensors in both; 1 not compared\n"),
        "{text}"
    );
    let object = json(&["diff", &a, &a, "--format", "json"]);
    assert_eq!(object["equal"], false);
    assert_eq!(object["not_compared"][0]["name"], "a");
    assert!(object["not_compared"][0]["b"].is_string(), "{object}");

    // What is found all the same is reported.
    let b = write("b.safetensors", "a", 9);
    let output = trainspec(&["diff", &a, &b]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.ends_with("different: 2 tensors in both; 1 with other elements, 1 not compared\n"),
        "{text}"
    );

    // On one side only, it is a difference.
    let c = write("c.safetensors", "c", 3);
    let text = output_of(1, &["diff", &a, &c]);
    let expected = format!(
        "a: of an unsupported type, only in {a}\n\
         c: of an unsupported type, only in {c}\n\
         different: 1 tensor in both; 2 only in one\n"
    );
    assert_eq!(text, expected);
    let object = json(&["diff", &a, &c, "--format", "json"]);
    assert_eq!(
        object["only_in_b"],
        serde_json::json!([{ "name": "c", "dtype": null, "shape": null }])
    );
}

#[test]
fn a_damaged_tensor_does_not_hide_the_comparison_of_others() {
    let damaged = prefix_of_damaged("damaged_flipped_data");
    let output = trainspec(&["diff", &prefix("single"), &damaged]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("layer1/w: not compared: ") && text.contains("at byte 40: "),
        "{text}"
    );
    assert!(
        text.contains("not known to be equal: 4 tensors in both; 1 not compared"),
        "{text}"
    );
}

#[test]
fn narrow_floats_are_exact_for_programs() {
    use trainspec_formats::checkpoint::{BundleWriter, DType, Tensor};
    let folder = Folder::new();
    let write = |name: &str, bytes: [u8; 4]| {
        let path = folder.path(name);
        let mut writer = BundleWriter::create(path.as_ref(), Default::default()).unwrap();
        let tensor = |dtype: DType, bytes: &[u8]| {
            let count = bytes.len() / dtype.size().unwrap();
            Tensor::new(dtype, &[count], bytes.to_vec()).unwrap()
        };
        writer.add("bf", &tensor(DType::BFloat16, &bytes)).unwrap();
        writer
            .add("f8", &tensor(DType::Float8E5M2, &bytes))
            .unwrap();
        writer.add("h", &tensor(DType::Float16, &bytes)).unwrap();
        writer.finish().unwrap();
        path
    };
    // The largest finite numbers of float8_e5m2 and float16, and a bfloat16 next to 0.1.
    let a = write("a", [0x7b, 0x7b, 0xcd, 0x3d]);
    let values = |name: &str| json(&["cat", &a, name, "--format", "json"])["values"].clone();
    assert_eq!(
        values("f8"),
        serde_json::json!([57344.0, 57344.0, -20.0, 1.25])
    );
    assert_eq!(
        values("bf"),
        serde_json::json!([1.3032665114922417e36, 0.10009765625])
    );
    assert_eq!(values("h"), serde_json::json!([61280.0, 1.4501953125]));
    let csv = |name: &str| output_of(0, &["cat", &a, name, "--as", "csv"]);
    assert_eq!(csv("f8"), "57344.0,57344.0,-20.0,1.25\n");
    assert_eq!(csv("h"), "61280.0,1.4501953125\n");
    let text = output_of(0, &["cat", &a, "f8"]);
    assert!(text.contains("57344.0"), "{text}");

    let b = write("b", [0, 0x7b, 0xcd, 0x3d]);
    let object = json(&["diff", &a, &b, "--format", "json"]);
    let named = |name: &str| {
        let all = object["differing"].as_array().unwrap();
        let found = all.iter().find(|tensor| tensor["name"] == name);
        found.unwrap()["absolute"].clone()
    };
    assert_eq!(named("f8")["a"], 57344.0);
    assert_eq!(named("h")["a"], 61280.0);
    assert_eq!(named("h")["b"], 57344.0);
}

#[test]
fn every_kind_keeps_all_values() {
    let folder = Folder::new();
    for (name, skipped) in [
        ("v1", vec!["text"]),
        ("single", vec![]),
        ("partitioned", vec![]),
    ] {
        let (mut from, mut last) = (prefix(name), String::new());
        let steps = ["a.ckpt", "b.safetensors", "c.npz", "d.ckpt", "e.v1"];
        for step in steps {
            let to = folder.path(&format!("{name}-{step}"));
            let mut arguments = vec!["convert", &from, &to, "--skip-unsupported"];
            if step == "e.v1" {
                arguments.extend(["--to", "v1"]);
            }
            let line = output_of(0, &arguments);
            assert!(line.starts_with(&format!("wrote {to}: ")), "{line}");
            if step == "a.ckpt" {
                // Nothing is lost on the way to the second version.
                assert!(!line.contains("left out"), "{line}");
                assert!(output_of(0, &["diff", &from, &to]).starts_with("equal: "));
            } else if step == "b.safetensors" {
                let object = json(&["diff", &from, &to, "--format", "json"]);
                let only = object["only_in_a"].as_array().unwrap();
                let only: Vec<&str> = only.iter().map(|t| t["name"].as_str().unwrap()).collect();
                assert_eq!(only, skipped);
                assert_eq!(object["differing"], serde_json::json!([]));
            } else {
                assert!(output_of(0, &["diff", &from, &to]).starts_with("equal: "));
            }
            (from, last) = (to.clone(), to);
        }
        let object = json(&["diff", &prefix(name), &last, "--format", "json"]);
        assert_eq!(object["only_in_a"].as_array().unwrap().len(), skipped.len());
        assert_eq!(object["differing"], serde_json::json!([]));
        assert_eq!(object["other_type"], serde_json::json!([]));
    }
}

#[test]
fn objects_stay_objects() {
    let folder = Folder::new();
    let to = folder.path("copy");
    output_of(0, &["convert", &prefix("object"), &to]);
    output_of(0, &["diff", &prefix("object"), &to]);
    assert_eq!(
        output_of(0, &["cat", &to, "model/b"]),
        "model/b: float32 [2]\n[-1.5695757, 0.32884887]\n"
    );
}

#[test]
fn what_a_kind_cannot_hold_is_reported_before_anything_is_written() {
    let folder = Folder::new();
    let dtypes = prefix("dtypes");
    let npz = folder.path("out.npz");
    let error = output_of(2, &["convert", &dtypes, &npz]);
    assert!(
        error.contains("npz cannot hold all tensors: `v_bfloat16` is bfloat16"),
        "{error}"
    );
    assert!(
        error.contains("`--bfloat16-as float32` keeps the values"),
        "{error}"
    );
    let error = output_of(2, &["convert", &dtypes, &folder.path("out.safetensors")]);
    assert!(error.contains("`v_complex128` is complex128"), "{error}");
    assert!(error.contains("`v_string` is string"), "{error}");
    assert_eq!(folder.files(), Vec::<String>::new());
    output_of(0, &["convert", &dtypes, &npz, "--bfloat16-as", "float32"]);
    let object = json(&["cat", &npz, "v_bfloat16", "--format", "json"]);
    assert_eq!(object["dtype"], "float32");
    assert_eq!(
        object["values"],
        serde_json::json!([1.28125, 0.76171875, -0.97265625])
    );
    let again = [
        "convert",
        &dtypes,
        &npz,
        "--bfloat16-as",
        "uint16",
        "--force",
        "--format",
        "json",
    ];
    let object = json(&again);
    assert_eq!(object["converted"], serde_json::json!(["v_bfloat16"]));
    assert_eq!(object["tensors"], 23);
    assert_eq!(object["kind"], "npz");
    let object = json(&["cat", &npz, "v_bfloat16", "--format", "json"]);
    let bits: Vec<u16> = [1.28125, 0.76171875, -0.97265625]
        .map(|x| bf16::from_f64(x).to_bits())
        .to_vec();
    assert_eq!(object["values"], serde_json::json!(bits));
}

#[test]
fn what_is_there_is_only_replaced_on_request() {
    let folder = Folder::new();
    for name in ["out", "out.npz", "out.safetensors"] {
        let to = folder.path(name);
        output_of(0, &["convert", &prefix("single"), &to]);
        let before = folder.files();
        let error = output_of(2, &["convert", &prefix("sharded"), &to]);
        assert!(error.contains("is there already"), "{error}");
        assert!(error.contains("--force"), "{error}");
        // A failure on the way leaves it as it was.
        let damaged = prefix_of_damaged("damaged_flipped_data");
        output_of(2, &["convert", &damaged, &to, "--force"]);
        assert_eq!(folder.files(), before);
        output_of(0, &["diff", &prefix("single"), &to]);
        output_of(0, &["convert", &prefix("sharded"), &to, "--force"]);
        output_of(0, &["diff", &prefix("sharded"), &to]);
        // It may be its own input.
        output_of(0, &["convert", &to, &to, "--force"]);
        output_of(0, &["diff", &prefix("sharded"), &to]);
    }
    let hidden = folder.path("out");
    let error = output_of(
        2,
        &[
            "convert",
            &prefix("single"),
            &hidden,
            "--to",
            "v1",
            "--force",
        ],
    );
    assert!(error.contains("choose another name"), "{error}");
    let error = output_of(
        2,
        &["convert", &prefix("single"), folder.0.to_str().unwrap()],
    );
    assert!(error.contains("is a folder"), "{error}");
}

#[test]
fn a_place_that_cannot_be_written_is_a_failure() {
    // Nothing can be in a file.
    let folder = Folder::new();
    std::fs::write(folder.path("file"), "").unwrap();
    let inside = folder.path("file/out.npz");
    let output = trainspec(&["convert", &prefix("single"), &inside]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let output = trainspec(&["cat", &prefix("single"), "scalar", "-o", &inside]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
}
